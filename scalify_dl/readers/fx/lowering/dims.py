"""Arithmetic of shapes and dims as torch does it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

Shape = tuple[int, ...]


def broadcast_shape(*operands: object) -> Shape:
    """The common shape of operands; InputError where there is none."""
    shapes = [x.shape for x in operands if isinstance(x, Tensor)]
    result = shapes[0] if shapes else ()
    for shape in shapes[1:]:
        if shape == result:
            continue
        rank = max(len(shape), len(result))
        left, right = (1,) * (rank - len(result)) + result, (1,) * (rank - len(shape)) + shape
        if any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
            raise InputError(f"shapes {list(result)} and {list(shape)} do not broadcast together")
        result = tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))
    return result


def kept_dim(old: Shape, new: Shape, dim: int) -> int | None:
    """Where a dim goes in a reshape that keeps it: same size, same number of elements before it."""
    before = prod(old[:dim])
    for d, n in enumerate(new):
        if n == old[dim] and prod(new[:d]) == before and n != 1:
            return d
    return None


def axis(dim: int, rank: int) -> int:
    """A dim counted from the front; InputError outside of the rank."""
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise InputError(f"dim {dim} of a tensor with {rank} dims")
    return dim % rank if rank else 0


def axes(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Dims counted from the front; None or empty means all."""
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        return list(range(rank))
    return [axis(d, rank) for d in ([dims] if isinstance(dims, int) else dims)] if rank else []
