"""JAX functions → StableHLO and HLO text: whole training steps (`capture_step`), pairs of functions, families."""

from .step import CapturedStep, capture_step
from .trace import Capture, Program, capture, capture_family, partitioned, verify

__all__ = [
    "Capture", "CapturedStep", "Program", "capture", "capture_family", "capture_step", "partitioned", "verify",
]  # fmt: skip
