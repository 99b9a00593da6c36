"""ATen (and friends) → the op vocabulary of `docs/facts.md`: one table, `LOWERINGS`, filled by one file per family."""

from . import (  # noqa: F401  (each registers its family)
    attention,
    collectives,
    contractions,
    creation,
    custom,
    elementwise,
    experts,
    foreach,
    indexing,
    normalise,
    reductions,
    views,
)
from .core import KERNELS, LOWERINGS, Context, Unsupported

__all__ = ["KERNELS", "LOWERINGS", "Context", "Unsupported"]
