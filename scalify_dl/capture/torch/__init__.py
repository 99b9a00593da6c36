"""PyTorch programs → FX text and JSON: whole training steps (`capture_step`), or the joint graph of a model's loss."""

from .graphs import Build, capture, capture_exported, capture_family, capture_pair, capture_ranks
from .ranks import fake_rank
from .step import CapturedStep, capture_step, record_step

__all__ = [
    "Build", "CapturedStep", "capture", "capture_exported", "capture_family", "capture_pair", "capture_ranks",
    "capture_step", "fake_rank", "record_step",
]  # fmt: skip
