"""Attacks the fold of training plans: an interpreter of the plan as it stands, against verdicts and folded facts.

    python -m scalify_dl.audit.folds.campaign --first 0 --count 1000 --out FILE
"""
