"""The numeric meaning of every op kind, one small numpy function each, by family."""

from __future__ import annotations

from scalify_dl.ir.vocabulary import RANDOM

from . import contraction, control, elementwise, indexing, libraries, neuronx, structural, vllm, windows
from .base import MEANINGS, Call, Meaning, Unsupported, meaning
from .collectives import COLLECTIVES, GROUPED, collective_permute

__all__ = [
    "COLLECTIVES", "GROUPED", "MEANINGS", "RANDOM", "Call", "Meaning", "Unsupported", "collective_permute",
    "contraction", "control", "elementwise", "indexing", "libraries", "meaning", "neuronx", "structural", "vllm",
    "windows",
]  # fmt: skip


def is_opaque(kind: str) -> bool:
    """Whether values of the kind can only be invented."""
    return kind.startswith(("custom:", "unknown:")) and kind not in MEANINGS
