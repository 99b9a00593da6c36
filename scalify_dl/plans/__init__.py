"""Training plans: whole training steps with pipeline stages, micro-batches, accumulation and reducers (docs/plans.md).

A plan says what every rank does in one step. It is *folded* into one SPMD program on a mesh of virtual ranks (dp, mb,
tp), and that program and the single-device step go to the rules as any pair of programs does.
"""
