"""Reads and writes by an index of which a component is the position along a dim: that dim is a batch dim.

    gather(x[n,m], concatenate(iota(n), ids[n]))  is  gather(x, ids), row by row

So what NumPy's `x[arange(n), ids]` becomes is written as `take_along_axis(x, ids)` is. Exact: positions lie within the
dim, so none is clamped or dropped. A partitioner computes on whole index vectors (less the first indices of the rank's
block); beside such a program the baseline's vectors stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scalify_dl.ir.dtypes import is_integer
from scalify_dl.ir.graph import Graph, Op, Tensor

from .regions import everywhere, producers

__all__ = ["batched", "computes_on_vectors"]

_COMPUTING = frozenset(("add", "subtract", "clamp", "maximum", "minimum", "select"))


class _Names(NamedTuple):
    """What attributes are called: components, dims of one element, batch dims of the operand and of the indices."""

    components: str
    gone: str
    batch: str
    along: str


_NAMES = {
    "gather": _Names("start_index_map", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims"),
    "scatter": _Names(
        "scatter_dims_to_operand_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims"
    ),
}


def computes_on_vectors(graph: Graph) -> bool:
    """Whether something reads or writes by vectors of several indices that were computed as one."""
    of_several = [op for op in graph.ops if op.kind in _NAMES and len(op.numbers[_NAMES[op.kind].components]) > 1]
    made = producers(graph.ops) if of_several else {}
    makers = [made.get(op.operands[1]) for op in of_several]
    inside = any(computes_on_vectors(region) for op in graph.ops for region in op.regions)
    return inside or any(maker is not None and maker.kind in _COMPUTING for maker in makers)


def batched(op: Op, made: Mapping[Tensor, Op]) -> list[Op]:
    """Rewrites a gather or scatter in place, and gives the ops that it needs: none, or the concatenation of the
    components that are left. `made` has the ops that make operands."""
    names = _NAMES.get(op.kind)
    if names is None or op.rank_numbers or op.strides:
        return []
    x, indices = op.operands[:2]
    joined, vector = made.get(indices), op.numbers["index_vector_dim"][0]
    if joined is None or joined.kind != "concatenate" or joined.numbers["dimension"] != [vector]:
        return []
    components = op.numbers[names.components]
    if len(joined.operands) != len(components) or any(part.shape[vector] != 1 for part in joined.operands):
        return []
    pairs = list(zip(op.numbers.get(names.batch, []), op.numbers.get(names.along, []), strict=True))
    left: list[tuple[int, Tensor]] = []
    for number, (dim, part) in enumerate(zip(components, joined.operands, strict=True)):
        along = _position(part, made)
        last = number == len(components) - 1 and not left
        taken = along is None or along == vector or along in (other for _, other in pairs)
        if last or taken or dim not in op.numbers[names.gone] or x.shape[dim] != part.shape[along or 0]:
            left.append((dim, part))
        else:
            pairs.append((dim, along or 0))
    if len(left) == len(components):
        return []
    pairs.sort()
    kept = [dim for dim, _ in left]
    op.numbers = {
        **op.numbers,
        names.gone: [dim for dim in op.numbers[names.gone] if dim in kept or dim not in components],
        names.components: kept,
        names.batch: [dim for dim, _ in pairs],
        names.along: [dim for _, dim in pairs],
    }
    if len(left) == 1:
        op.operands[1] = left[0][1]
        return []
    parts = [part for _, part in left]
    shape = tuple(len(parts) if d == vector else n for d, n in enumerate(indices.shape))
    rest = Tensor(indices.dtype, shape, indices.name)
    op.operands[1] = rest
    return [Op("concatenate", parts, [rest], joined.name, {"dimension": [vector]}, source=joined.source, at=joined.at)]


def _position(tensor: Tensor, made: Mapping[Tensor, Op]) -> int | None:
    """The dim along which every element is its own position; None where that is not seen."""
    op = made.get(tensor)
    if op is None or not is_integer(tensor.dtype):
        return None
    if op.kind == "iota":
        (dim,) = op.numbers["dimension"]
        return dim if _holds(tensor, dim) else None
    if op.kind == "convert":
        source = _position(op.operands[0], made)
        return source if source is not None and _holds(tensor, source) else None
    if op.kind == "broadcast":
        source, places = _position(op.operands[0], made), op.numbers["dimensions"]
        spread = source is None or tensor.shape[places[source]] != op.operands[0].shape[source]
        return None if source is None or spread else places[source]
    if op.kind == "reshape":
        return _reshaped(_position(op.operands[0], made), op.operands[0].shape, tensor.shape)
    if op.kind == "select":  # of those below 0, which there are none of, something else
        truth, _, no = op.operands
        compared = made.get(truth)
        if compared is not None and compared.kind == "compare" and compared.symbols["direction"] == ["LT"]:
            what, limit = compared.operands
            return _position(no, made) if what is no and everywhere(limit, made) == 0 else None
    return None


def _holds(tensor: Tensor, dim: int) -> bool:
    """Whether the tensor's integer type has all positions along a dim."""
    return tensor.shape[dim] <= 1 << int(tensor.dtype[1:]) - (tensor.dtype[0] == "s")


def _reshaped(dim: int | None, before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """Where a dim is once dims of one element come or go."""
    if dim is None or [n for n in before if n != 1] != [n for n in after if n != 1] or before[dim] == 1:
        return None
    nth = sum(n != 1 for n in before[:dim])
    return [d for d, n in enumerate(after) if n != 1][nth]
