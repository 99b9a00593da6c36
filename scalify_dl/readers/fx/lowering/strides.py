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
    moved = x in c.moved or (made is not None and made.kind in ("transpose", "broadcast", "slice", "reverse"))
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
    """A box of a whole contiguous tensor that is seen row-major in other extents, its dims in any order.

    The strides, from the longest, say the extents: 256, 16, 1 see the memory as [n, 16, 16]. The offset says where the
    box begins in each. Other memory (strides that overlap, a box that runs over the end of a row) is not modelled.
    """
    if x not in c.dense or prod(x.shape) == 0:
        raise Unsupported("as_strided that is not provably a view of a contiguous tensor")
    order = sorted((d for d in range(len(size)) if size[d] != 1), key=lambda d: -stride[d])
    extents, offset, left = list[int](), storage_offset or 0, prod(x.shape)
    begins = list[int]()
    for step in [stride[d] for d in order] + [1]:
        if step <= 0 or left % step:
            raise Unsupported("as_strided with strides that do not divide one another")
        extents.append(left // step)
        begins.append(offset // step)
        offset, left = offset % step, step
    lengths = [*(size[d] for d in order), 1]
    if any(begin + length > extent for begin, length, extent in zip(begins, lengths, extents, strict=True)):
        raise Unsupported("as_strided that runs over the end of a row")
    box = c.reshape(x, tuple(extents))
    for d, (begin, length) in enumerate(zip(begins, lengths, strict=True)):
        box = c.slice(box, d, begin, begin + length)
    order += [d for d in range(len(size)) if size[d] == 1]
    plain = c.reshape(box, tuple(size[d] for d in order))
    return c.transpose(plain, [order.index(d) for d in range(len(size))])
