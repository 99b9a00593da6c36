"""Plan tables in memory, to be edited row by row and written again."""

from scalify_dl.audit.folds.edited import Edited, Row

__all__ = ["Edited", "Row"]
