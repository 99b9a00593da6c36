"""Writes at indices: who wrote what is there has its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, NoAdjoint, vjp
from .indexed import per_component
from .structural import _one


@vjp("scatter")
def scatter(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Of a sum: to all. Of what is replaced: to the update that stayed. Of extremes: shared by those that are it. Of
    products: times the other factors."""
    if len(op.operands) != 3 or op.regions:
        raise NoAdjoint(f"no backward is known of what `{op.name}` does with several values, or by a function")
    g, (x, indices, updates) = _one(gradients), op.operands
    reducer = op.symbols.get("reducer", [""])[0]
    inside = _inside(p, op)

    def read(value: Tensor) -> Tensor:
        return _read(p, op, value)

    def written(there: float, values: Tensor, by: str, dtype: str) -> Tensor:
        return p.op("scatter", p.full(there, x.shape, dtype), indices, values, reducer=by,
                    attributes={k: list(v) for k, v in op.numbers.items()}).result  # fmt: skip

    def one_or_none(mask: Tensor) -> Tensor:
        return p.select(mask, p.full(1, mask.shape, g.dtype), p.full(0, mask.shape, g.dtype))

    zero = p.full(0, x.shape, g.dtype)
    if reducer == "sum":
        found: tuple[Tensor, Tensor] = g, read(g)
    elif reducer == "replace":
        count = p.reshape(p.iota((prod(updates.shape),), 0), updates.shape)
        marks = p.add(count, 1)
        last = written(0, marks, "replace", "s32")
        stayed = p.compare(read(last), marks, direction="EQ")
        found = p.select(p.compare(last, 0, direction="EQ"), g, zero), p.multiply(read(g), one_or_none(stayed))
    elif reducer in ("max", "min"):
        mine = one_or_none(p.compare(x, op.result, direction="EQ"))
        theirs = one_or_none(p.compare(updates, read(op.result), direction="EQ"))
        share = p.divide(g, p.maximum(p.add(mine, written(0, theirs, "sum", g.dtype)), 1))
        found = p.multiply(share, mine), p.multiply(read(share), theirs)
    elif reducer == "prod":
        naught = p.compare(updates, 0, direction="EQ")
        factors = p.select(naught, p.full(1, updates.shape, updates.dtype), updates)
        product, zeros = written(1, factors, "prod", g.dtype), written(0, one_or_none(naught), "sum", g.dtype)
        others = p.compare(p.subtract(read(zeros), one_or_none(naught)), 0, direction="EQ")
        by_update = p.divide(read(p.multiply(p.multiply(g, x), product)), factors)
        found = (
            p.select(p.compare(zeros, 0, direction="EQ"), p.multiply(g, product), zero),
            p.multiply(by_update, one_or_none(others)),
        )
    else:
        raise NoAdjoint(f"no backward is known of writes that are combined by {reducer} (`{op.name}`)")
    return [found[0], None, p.select(inside, found[1], p.full(0, updates.shape, g.dtype))]


def _read(p: Program, op: Op, value: Tensor) -> Tensor:
    """What is where each update was written."""
    at = op.numbers
    return p.op(
        "gather", value, op.operands[1],
        attributes={
            "offset_dims": at["update_window_dims"], "collapsed_slice_dims": at["inserted_window_dims"],
            "start_index_map": at["scatter_dims_to_operand_dims"],
            "operand_batching_dims": at.get("input_batching_dims", []),
            "start_indices_batching_dims": at.get("scatter_indices_batching_dims", []),
            "index_vector_dim": at["index_vector_dim"][0], "slice_sizes": _sizes(op),
        },
    ).result  # fmt: skip


def _sizes(op: Op) -> list[int]:
    x, _, updates = op.operands
    gone = {*op.numbers["inserted_window_dims"], *op.numbers.get("input_batching_dims", [])}
    windows = iter(op.numbers["update_window_dims"])
    return [1 if d in gone else updates.shape[next(windows)] for d in range(len(x.shape))]


def _inside(p: Program, op: Op) -> Tensor:
    """Which updates lie in the operand; the others are dropped."""
    x, indices, updates = op.operands
    (vector,) = op.numbers["index_vector_dim"]
    sizes = _sizes(op)
    room = [x.shape[d] - sizes[d] for d in op.numbers["scatter_dims_to_operand_dims"]]
    low = p.compare(indices, 0, direction="GE")
    high = p.compare(indices, per_component(p, op, indices, room), direction="LE")
    both = getattr(p, "and")(low, high)
    if vector < len(indices.shape):
        both = p.reduce(both, vector, "and")
    window = op.numbers["update_window_dims"]
    return p.broadcast(both, updates.shape, [d for d in range(len(updates.shape)) if d not in window])
