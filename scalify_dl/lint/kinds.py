"""All op kinds that are lifted: importing this enters them in the table."""

from __future__ import annotations

from . import collectives, contractions, elementwise, indexed, structural
from .lift import LIFTING

__all__ = ["LIFTING", "collectives", "contractions", "elementwise", "indexed", "structural"]
