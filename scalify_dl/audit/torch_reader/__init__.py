"""Does the reader of FX text read what torch computes? Random programs, captured in several ways, against eager torch.

`campaign` draws programs from torch's own schemas of every op that has a lowering (`calls`, `recipes`), `captures`
turns them into text, `compare` reads that and runs it by the oracle. Needs torch.
"""
