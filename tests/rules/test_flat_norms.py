"""Norms of several values, and of a flat row of all of them, of which every rank has a shard."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program


def squares(g: Graph, x: Tensor) -> Tensor:
    return g.emit("reduce", [g.emit("multiply", [x, x])], dimensions=list(range(len(x.shape))), reducer="sum")


def flat(g: Graph, x: Tensor) -> Tensor:
    return x if len(x.shape) == 1 else g.emit("reshape", [x], shape=(x.shape[0] * x.shape[1],))


def coefficient(g: Graph, total: Tensor) -> Tensor:
    one = g.constant(1.0, "f32")
    return g.emit("minimum", [one, g.emit("divide", [g.constant(2.0, "f32"), g.emit("add", [total, one])])])


def clipped(
    *, norms: tuple[int, ...] = (0, 1, 2), order: tuple[int, ...] = (0, 1, 2), roots: bool = True, clip: bool = True,
    told: bool = True, late: bool = True, raw: bool = True,
) -> Pair:  # fmt: skip
    """Gradients that are clipped by their norm, then put in one row; ranks scatter the row, and clip their shards."""
    p = Pair({"dp": 2})
    twins = [p.input(shape, {}, pending={"dp": "sum"}) for shape in ((4, 2), (6,), (6,))]
    b, d, groups = p.base, p.dist, p.groups("dp")
    parts = [squares(b, twins[i][0]) for i in norms]
    if roots:
        row = b.emit("concatenate", [b.emit("reshape", [b.emit("sqrt", [x])], shape=(1,)) for x in parts], dimension=0)
        total = b.emit("reduce", [b.emit("multiply", [row, row])], dimensions=[0], reducer="sum")
    else:
        total = b.emit("add", [b.emit("add", parts[:2]), parts[2]])
    scale = coefficient(b, total)
    kept = [b.emit("multiply", [x, spread(b, scale, x.shape, [])]) if clip else x for x, _ in twins]
    if not raw:
        kept[2] = twins[2][0]
    expected = b.emit("concatenate", [flat(b, kept[i]) for i in order], dimension=0)
    mine = d.emit("concatenate", [flat(d, twins[i][1]) for i in order], dimension=0)
    mine = d.emit("reduce-scatter", [mine], dimension=0, reducer="sum", groups=groups)
    number = squares(d, mine)
    number = d.emit("all-reduce", [number], reducer="sum", groups=groups) if told else number
    p.outputs(total, number)
    found = d.emit("multiply", [mine, spread(d, coefficient(d, number), mine.shape, [])]) if clip and late else mine
    p.outputs(expected, found, layout=str(p.layout((20,), {0: "dp"})))
    return p


RIGHT: dict[str, Callable[[], Pair]] = {
    "roots side by side": clipped,
    "added one by one": lambda: clipped(roots=False),
    "another order in the row": lambda: clipped(order=(2, 0, 1)),
    "not clipped": lambda: clipped(clip=False),
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_norm_of_all_values_is_that_of_their_row(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


WRONG: dict[str, Callable[[], Pair]] = {
    "one of them twice, and another not": lambda: clipped(norms=(0, 1, 1)),
    "one of them twice, and another not, added": lambda: clipped(norms=(0, 2, 2), roots=False),
    "one of them twice in the row": lambda: clipped(order=(0, 1, 1)),
    "the shard's own norm": lambda: clipped(told=False),
    "shards that are not clipped": lambda: clipped(late=False),
    "a value that alone is not clipped": lambda: clipped(raw=False),
    "of one the others' shape": lambda: clipped(norms=(0, 0, 0), order=(0, 1, 2)),
}


@pytest.mark.parametrize("name", WRONG)
def test_another_norm_is_not(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).best is not None
