"""Broadcasting as torch does it, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program

from .call import IllTyped


def common(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which values of these shapes are broadcast."""
    rank = max(map(len, shapes))
    out = [1] * rank
    for shape in shapes:
        for d, size in enumerate(shape, rank - len(shape)):
            if size != 1 and out[d] not in (1, size):
                raise IllTyped(f"shapes {' and '.join(str(list(s)) for s in shapes)} do not go together")
            out[d] = max(out[d], size) if 0 not in (out[d], size) else 0
    return tuple(out)


def spread(p: Program, x: Tensor, shape: Sequence[int]) -> Tensor:
    """A value broadcast to a shape, its dims aligned at the end."""
    if tuple(x.shape) == tuple(shape):
        return x
    if common(x.shape, shape) != tuple(shape):
        raise IllTyped(f"{list(x.shape)} is not broadcast to {list(shape)}")
    offset = len(shape) - len(x.shape)
    kept = [d for d, size in enumerate(x.shape) if size == shape[d + offset]]
    if len(kept) < len(x.shape):
        x = p.reshape(x, [x.shape[d] for d in kept])
    return p.broadcast(x, shape, [d + offset for d in kept])


def gathered(p: Program, gradient: Tensor, shape: Sequence[int]) -> Tensor:
    """The gradient of a value that was broadcast: summed over the dims along which it was repeated."""
    offset = len(gradient.shape) - len(shape)
    if offset < 0 or common(gradient.shape, shape) != tuple(gradient.shape):
        raise IllTyped(f"a gradient of shape {list(gradient.shape)} for a value of shape {list(shape)}")
    repeated = [d for d, n in enumerate(gradient.shape) if d < offset or (shape[d - offset] == 1 and n != 1)]
    if repeated:
        gradient = p.reduce(gradient, repeated)
    return p.reshape(gradient, shape) if tuple(gradient.shape) != tuple(shape) else gradient


def recut(p: Program, x: Tensor, shape: Sequence[int]) -> Tensor:
    """A reshape."""
    if prod(x.shape) != prod(shape):
        raise IllTyped(f"{list(x.shape)} is not reshaped to {list(shape)}")
    return x if tuple(x.shape) == tuple(shape) else p.reshape(x, shape)
