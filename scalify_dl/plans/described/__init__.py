"""`plan.yaml`: a training step described by its dumps: what every rank runs, recorded; or graphs of stages, a schedule
and how gradients are reduced, from which what every rank runs is put together (docs/plans.md)."""

from .file import Described, Stage, read_described
from .verdict import report_on_described

__all__ = ["Described", "Stage", "read_described", "report_on_described"]
