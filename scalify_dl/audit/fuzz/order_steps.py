"""Random steps on values whose shards were gathered in another order than the mesh's."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Tensor

from ..pair import Pair, spread
from .world import Retry, Twin, World, step

Orders = Sequence[Sequence[int]]
"""For each group, the order of its members."""


def reordered(pair: Pair, x: Tensor, dim: int, axis: str, order: Sequence[int]) -> Tensor:
    """All blocks along an axis, in another order."""
    return gathered_in(pair, x, dim, axis, [order] * len(pair.groups(axis)))


def gathered_in(pair: Pair, x: Tensor, dim: int, axis: str, orders: Orders) -> Tensor:
    """All blocks along an axis, in an order of its own in each group."""
    groups = [[members[k] for k in order] for members, order in zip(pair.groups(axis), orders, strict=True)]
    return pair.dist.emit("all-gather", [x], dimension=dim, groups=groups)


def some_orders(w: World, axis: str) -> list[list[int]]:
    """The same order in all groups, now and then not."""
    ways, groups = dict(w.pair.mesh.axes)[axis], len(w.pair.groups(axis))
    orders = [w.rng.sample(range(ways), ways)] * groups
    if w.slip():
        orders[w.rng.randrange(groups)] = w.rng.sample(range(ways), ways)
    return orders


@step("gather-order", 0.4)
def gather_order(w: World) -> None:
    """A value gathered in some order, ops on it, then something over the gathered dim: with another value that was
    gathered in that order, in another one, or not at all."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    if ways == 1:
        raise Retry
    n = 2 * ways
    x = w.input("f32", shape=[4, n], layout=w.pair.layout([4, n], {1: axis}))
    orders = some_orders(w, axis)
    left, base = gathered_in(w.pair, x.dist, 1, axis, orders), x.base
    for _ in range(w.rng.randrange(3)):
        base, left = between(w, axis, base, left)
    end = w.rng.choice(["dot", "dot", "reduce", "split", "along", "free"])
    if end == "dot":
        other = second(w, axis, n, orders)
        dims = {"lhs_contracting_dims": [1], "rhs_contracting_dims": [0]}
        w.add(w.emit(w.base, "dot", [base, other.base], **dims), w.emit(w.dist, "dot", [left, other.dist], **dims))
        return
    if end == "free":  # the gathered dim is kept
        other = w.input("f32", shape=[4, 3], layout=w.pair.layout([4, 3], {}))
        dims = {"lhs_contracting_dims": [0], "rhs_contracting_dims": [0]}
        w.add(w.emit(w.base, "dot", [base, other.base], **dims), w.emit(w.dist, "dot", [left, other.dist], **dims))
        return
    if end == "split":  # blocks that are cut across
        shape = w.rng.choice([[4, 2, ways], [4, ways, 2], [4 * n], [2, 2, n]])
        base, left = (w.emit(g, "reshape", [v], shape=shape) for g, v in ((w.base, base), (w.dist, left)))
    if end == "along":
        kind = w.rng.choice(["cumulative", "reverse", "sort", "reduce"])
        extra = {
            "cumulative": {"dimension": 1, "reducer": "sum"}, "reverse": {"dimensions": [1]},
            "sort": {"dimension": 1, "direction": "ASC"},
            "reduce": {"dimensions": [1], "reducer": "argmax", "dtype": "s32", "shape": [base.shape[0]]},
        }[kind]  # fmt: skip
        base, left = (w.emit(g, kind, [v], **extra) for g, v in ((w.base, base), (w.dist, left)))  # type: ignore[arg-type]
    dim, reducer = w.rng.randrange(len(base.shape)), w.rng.choice(["sum", "max"])
    w.add(*(
        w.emit(g, "reduce", [v], dimensions=[dim], reducer=reducer) for g, v in ((w.base, base), (w.dist, left))
    ))  # fmt: skip


def between(w: World, axis: str, base: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
    """An op on both sides that does the same for every element of the gathered dim, or adds something along it."""
    kind = w.rng.choice(["tanh", "negate", "exponential", "add"])
    if kind != "add":
        return w.emit(w.base, kind, [base]), w.emit(w.dist, kind, [left])
    dim = w.rng.choice([0, 0, 1]) if w.slip() else 0
    shape = (base.shape[dim],)
    o = w.input("f32", shape=shape, layout=w.pair.layout(shape, {}))
    return (
        w.emit(w.base, "add", [base, spread(w.base, o.base, base.shape, [dim])]),
        w.emit(w.dist, "add", [left, spread(w.dist, o.dist, left.shape, [dim])]),
    )


def second(w: World, axis: str, n: int, orders: Orders) -> Twin:
    """The other operand of a contraction over the gathered dim."""
    how = w.rng.choice(["whole", "spread", "along it", "other", "other", "other"]) if w.slip() else "alike"
    if how == "whole":
        return w.input("f32", shape=[n, 2], layout=w.pair.layout([n, 2], {}))
    if how in ("spread", "along it"):
        dim, size = (0, n) if how == "spread" else (1, 2)
        o = w.input("f32", shape=[size], layout=w.pair.layout([size], {}))
        return Twin(spread(w.base, o.base, (n, 2), [dim]), spread(w.dist, o.dist, (n, 2), [dim]))
    y = w.input("f32", shape=[n, 2], layout=w.pair.layout([n, 2], {0: axis}))
    if how == "other":
        ways = len(orders[0])
        orders = list(orders)
        at = w.rng.randrange(len(orders))
        kept = w.rng.randrange(ways)  # that many first members stay where they are
        rest = list(orders[at][kept:])
        orders[at] = [*orders[at][:kept], *w.rng.sample(rest, len(rest))]
        if w.chance(0.5):
            orders = [orders[at]] * len(orders)
    return Twin(y.base, gathered_in(w.pair, y.dist, 0, axis, orders))
