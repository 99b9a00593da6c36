"""What correspondences ask of sizes: their digits are digits of both sides."""

from __future__ import annotations

from scalify_dl.ir.layout import Digit

from ..addressing import Piece, layout_of
from ..program import Program, Shard
from .constraints import Shapes


def _piece_dims(s: Shapes, tensor: str, piece: Piece) -> list[int]:
    """Extents of a piece: runs of those of the tensor."""
    dims = list(s.dims(tensor))
    for window in piece:
        part = s.extents.new(window.hi - window.lo)
        s.extents.units(dims[window.dim], part, window.lo, window.hi)
        dims[window.dim] = part
    return dims


def relate(s: Shapes, row: Shard) -> tuple[list[int], list[int]] | None:
    """Digits of the layout are the same on both sides; what lies on mesh axes stays, or is as long as they are."""
    shapes = [s.program.tensors[t].shape for t in (row.dist, row.base)]
    for shape, piece in zip(shapes, (row.dist_piece, row.base_piece), strict=True):
        if any(w.dim >= len(shape) or w.hi > shape[w.dim] for w in piece):
            return None
    dist, base = _piece_dims(s, row.dist, row.dist_piece), _piece_dims(s, row.base, row.base_piece)
    for dim, digits in zip(dist, row.layout.dims, strict=True):
        stride = 1
        for digit in reversed(digits):
            if digit.stride:
                s.extents.link(dim, stride, base[digit.dim], digit.stride, digit.size)
            else:  # equal elements: a digit of the local dim alone
                s.extents.link(dim, stride, s.extents.new(digit.size), 1, digit.size)
            stride *= digit.size
    for axis, entries in row.layout.axes:
        at = 1
        for entry in reversed(entries):
            if isinstance(entry, Digit):
                s.lies_on(base[entry.dim], entry.stride, axis, at, entry.size)
            elif axis in s.axes:
                s.extents.link(s.axes[axis], at, s.extents.new(entry.size), 1, entry.size)
            at *= entry.size
    s.same_counts([row.dist, row.base])
    return dist, base


def fits(program: Program, row: Shard) -> bool:
    """Whether the layout addresses existing dims within their sizes, and has the local shape."""
    try:
        shapes = []
        for tensor, piece in ((row.dist, row.dist_piece), (row.base, row.base_piece)):
            sizes = list(program.tensors[tensor].shape)
            for window in piece:
                sizes[window.dim] = window.hi - window.lo
            shapes.append(sizes)
        if tuple(shapes[0]) != row.layout.local_shape:
            return False
        return all(
            digit.stride * digit.size <= shapes[1][digit.dim]
            and shapes[1][digit.dim] % max(digit.stride * digit.size, 1) == 0
            for digit in row.layout.digits()
            if digit.stride
        )
    except (KeyError, IndexError):
        return False


def expected_rows(program: Program) -> list[Shard]:
    """Correspondences that outputs must satisfy, where a layout is given."""
    return [Shard(dist, (), base, (), layout_of(text)) for dist, base, text in program.expects if text]
