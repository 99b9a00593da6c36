"""Programs broken by one edit of a collective, group, slice or placement: does `lint` see it, at the line, and `fix`
mend it?"""
