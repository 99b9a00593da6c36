"""PyTorch programs → FX text and JSON: whole training steps (`capture_step`), or the joint graph of a model's loss."""

from .graphs import Build, capture, capture_exported, capture_family, capture_pair, capture_ranks
from .ranks import fake_rank
from .step import CapturedStep, capture_step, record_step
from .types import assert_type

__all__ = [
    "Build", "CapturedStep", "assert_type", "capture", "capture_exported", "capture_family", "capture_pair",
    "capture_ranks", "capture_step", "fake_rank", "record_step",
]  # fmt: skip
