"""Views of memory by strides, where they are views of the tensor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.ir.graph import Tensor

from .core import Context, Unsupported, lower


@lower("aten._reshape_alias")
def reshape_alias(c: Context, x: Tensor, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """A reshape, as torch makes it of a tensor that lies row-major; of one that does not it would be something else."""
    rows = [prod(size[d + 1 :]) for d in range(len(size))]
    made = c.producers.get(x)
    moved = made is not None and made.kind in ("transpose", "broadcast", "slice", "reverse")
    if prod(size) != prod(x.shape) or list(stride) != rows or (moved and x not in c.dense):
        raise Unsupported("another view of memory than a reshape")
    if x not in c.dense:
        source = x
        while (view := c.views.get(source)) is not None:
            source = view[1]
        c.graph.assume(source, f"`{source.name}` lies row-major in memory", "_reshape_alias goes by strides")
    return c.reshape(x, tuple(size))


@lower("aten.as_strided")
def as_strided(
    c: Context, x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Where it is a whole contiguous tensor seen row-major, permuted or not; other memory is not modelled."""
    order = sorted((d for d in range(len(size)) if size[d] != 1), key=lambda d: -stride[d])
    expected, contiguous = prod(size), True
    for d in order:
        expected //= size[d] or 1
        contiguous = contiguous and stride[d] == expected
    if storage_offset or prod(size) != prod(x.shape) or not contiguous or x not in c.dense:
        raise Unsupported("as_strided that is not provably a view of a contiguous tensor")
    order += [d for d in range(len(size)) if size[d] == 1]
    plain = c.reshape(x, tuple(size[d] for d in order))
    return c.transpose(plain, [order.index(d) for d in range(len(size))])
