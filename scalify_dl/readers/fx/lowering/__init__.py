"""ATen (and friends) → the op vocabulary of `docs/facts.md`: one table, `LOWERINGS`, filled by one file per family."""

from . import (  # noqa: F401  (each registers its family)
    activations,
    attention,
    bags,
    batch_norms,
    casts,
    collectives,
    complexes,
    contractions,
    creation,
    custom,
    distances,
    elementwise,
    experts,
    foreach,
    indexing,
    losses,
    normalise,
    optimisers,
    patches,
    piecewise,
    reductions,
    slices,
    strides,
    views,
    windows,
)
from .core import KERNELS, LOWERINGS, Context, Unsupported, Written, meant

__all__ = ["KERNELS", "LOWERINGS", "Context", "Unsupported", "Written", "meant"]
