"""Global norms whose parts are spread over the ranks, and values that are exchanged in one buffer."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod, sqrt

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.literals import root_texts
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.pysouffle import rules_dir


def flat(g: Graph, x: Tensor, *rows: int) -> Tensor:
    return g.emit("reshape", [x], shape=(*rows, prod(x.shape) // prod(rows)))


def cut(g: Graph, x: Tensor, dim: int, lo: int, hi: int) -> Tensor:
    return g.emit(
        "slice", [x], start=[lo if d == dim else 0 for d in range(len(x.shape))],
        limit=[hi if d == dim else n for d, n in enumerate(x.shape)], stride=[1] * len(x.shape),
    )  # fmt: skip


def square(g: Graph, x: Tensor) -> Tensor:
    return g.emit("multiply", [x, x])


def norm(g: Graph, x: Tensor) -> Tensor:
    return g.emit("sqrt", [g.emit("reduce", [square(g, x)], dimensions=list(range(len(x.shape))), reducer="sum")])


def of_norms(g: Graph, xs: list[Tensor]) -> Tensor:
    """The sum of the squares of the norms of several values."""
    side = g.emit("concatenate", [g.emit("reshape", [norm(g, x)], shape=(1,)) for x in xs], dimension=0)
    return g.emit("reduce", [square(g, side)], dimensions=[0], reducer="sum")


def clipped(*, shared: str = "tp", by_all: bool = False) -> Pair:
    """Two values on shards and one on all ranks; every rank clips by the norm of all three."""
    pair = Pair({"tp": 2})
    (a, da), (b, db) = pair.input((4, 2), {0: "tp"}), pair.input((6,), {0: "tp"})
    c, dc = pair.input((3,))
    own = of_norms(pair.dist, [da, db, dc] if by_all else [da, db])
    if shared:
        own = pair.dist.emit("all-reduce", [own], reducer="sum", groups=pair.groups(shared))
    found = own if by_all else pair.dist.emit("add", [own, of_norms(pair.dist, [dc])])
    for g, total, values in ((pair.base, of_norms(pair.base, [a, b, c]), [a, c]), (pair.dist, found, [da, dc])):
        whole = g.emit("add", [g.emit("sqrt", [total]), g.constant(1e-6, "f32")])
        factor = g.emit("minimum", [g.emit("divide", [g.constant(1.0, "f32"), whole]), g.constant(1.0, "f32")])
        for x in values:
            wide = g.emit("broadcast", [factor], shape=x.shape, dimensions=[])
            g.output(g.emit("multiply", [x, wide]))
    pair._expects += [(d.tensor, b.tensor, "") for d, b in zip(pair.dist.outputs, pair.base.outputs, strict=True)]
    return pair


def shared_norms(by: float = sqrt(2), *, first: bool = False) -> Pair:
    """Norms of a sharded value and of one that all ranks hold, divided by the root of their number, in one row whose
    squares are summed over tp, then over dp; the ranks of dp share all."""
    pair = Pair({"dp": 2, "tp": 2})
    (a, da), (c, dc) = pair.input((4, 2), {0: "tp"}), pair.input((3,))
    d = pair.dist
    rows = []
    for g, values in ((pair.base, (a, c)), (d, (da, dc))):
        norms = [norm(g, x) for x in values]
        if g is d:
            norms = [norms[0], g.emit("divide", [norms[1], g.constant(by, "f32")])]
        rows.append(g.emit("concatenate", [g.emit("reshape", [x], shape=(1,)) for x in norms], dimension=0))
    side = d.emit("all-reduce", [square(d, rows[1])], reducer="sum", groups=pair.groups("dp" if first else "tp"))
    found = d.emit("reduce", [square(d, d.emit("sqrt", [side]))], dimensions=[0], reducer="sum")
    pair.outputs(pair.base.emit("reduce", [square(pair.base, rows[0])], dimensions=[0], reducer="sum"), found)
    return pair


def gathered(late: int = 0) -> Pair:
    """Shards of two values, gathered in one buffer; the second part may begin late."""
    pair = Pair({"dp": 2})
    (a, da), (b, db) = pair.input((4, 3), {0: "dp"}), pair.input((8,), {0: "dp"})
    row = pair.dist.emit("concatenate", [flat(pair.dist, da), flat(pair.dist, db)], dimension=0)
    rows = flat(pair.dist, pair.dist.emit("all-gather", [row], dimension=0, groups=pair.groups("dp")), 2)
    parts = [cut(pair.dist, rows, 1, 0, 6), cut(pair.dist, rows, 1, 6 - late, 10 - late)]
    for x, part in zip((a, b), parts, strict=True):
        pair.outputs(x, pair.dist.emit("reshape", [part], shape=x.shape))
    return pair


def scattered(by: float = 2.0, *, turned: bool = False) -> Pair:
    """Parts of sums of two values, reduced and scattered in one buffer, and averaged there."""
    pair = Pair({"dp": 2})
    (a, da), (b, db) = pair.input((4, 3), pending={"dp": "sum"}), pair.input((8,), pending={"dp": "sum"})
    rows = [flat(pair.dist, x, 1 if turned else 2) for x in (da, db)]
    whole = flat(pair.dist, pair.dist.emit("concatenate", rows, dimension=1))
    share = pair.dist.emit("reduce-scatter", [whole], dimension=0, reducer="sum", groups=pair.groups("dp"))
    share = pair.dist.emit("divide", [share, pair.dist.splat(by, "f32", share.shape)])
    for x, (lo, hi) in ((a, (0, 6)), (b, (6, 10))):
        shape = (x.shape[0] // 2, *x.shape[1:])
        found = pair.dist.emit("reshape", [cut(pair.dist, share, 0, lo, hi)], shape=shape)
        half = pair.base.emit("divide", [x, pair.base.splat(2.0, "f32", x.shape)])
        pair.outputs(half, found, layout=str(pair.layout(x.shape, {0: "dp"})))
    return pair


def bucket(*, swapped: bool = False) -> Pair:
    """Parts of sums of two values, reduced in one bucket."""
    pair = Pair({"dp": 2})
    (a, da), (b, db) = pair.input((4, 2), pending={"dp": "sum"}), pair.input((8,), pending={"dp": "sum"})
    row = pair.dist.emit("concatenate", [flat(pair.dist, da), flat(pair.dist, db)], dimension=0)
    total = pair.dist.emit("all-reduce", [row], reducer="sum", groups=pair.groups("dp"))
    ends = [(8, 16), (0, 8)] if swapped else [(0, 8), (8, 16)]
    for x, (lo, hi) in zip((a, b), ends, strict=True):
        pair.outputs(x, pair.dist.emit("reshape", [cut(pair.dist, total, 0, lo, hi)], shape=x.shape))
    return pair


def written(*, over: int = 0) -> Pair:
    """Parts of sums that are written one after the other into one bucket, from its end to its beginning."""
    pair = Pair({"dp": 2})
    given = [pair.input((n,), pending={"dp": "sum"}) for n in (4, 2, 6, 3)]
    d, row = pair.dist, pair.dist.splat(0.0, "f32", (15,))
    for n, at in ((3, 12), (0, 0), (1, 4), (2, 6 - over)):
        x = given[n][1]
        parts = [cut(d, row, 0, 0, at), x, cut(d, row, 0, at + x.shape[0], 15)]
        row = d.emit("concatenate", [part for part in parts if part.shape[0]], dimension=0)
    total = d.emit("all-reduce", [row], reducer="sum", groups=pair.groups("dp"))
    for (x, _), lo in zip(given, (0, 4, 6, 12), strict=True):
        pair.outputs(x, cut(d, total, 0, lo, lo + x.shape[0]))
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {
    "clipped": clipped, "gathered": gathered, "scattered": scattered, "bucket": bucket,
    "written": written, "shared_norms": shared_norms,
}  # fmt: skip
WRONG: dict[str, Callable[[], Pair]] = {
    "the norm of the own shards": lambda: clipped(shared=""),
    "what all ranks have counts for each": lambda: clipped(by_all=True),
    "a part that begins late": lambda: gathered(1),
    "not averaged": lambda: scattered(1.0),
    "shards of the whole row": lambda: scattered(turned=True),
    "another part of the bucket": lambda: bucket(swapped=True),
    "a norm that all ranks hold counts for each": lambda: shared_norms(1.0),
    "divided by another root": lambda: shared_norms(sqrt(3)),
    "divided by what is near the root": lambda: shared_norms(1.41),
    "summed over other ranks": lambda: shared_norms(first=True),
    "a part of the bucket written over": lambda: written(over=1),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_is_proved(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert derived.proved
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_is_not_proved(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).best is not None


def gathered_rows(*, low: int = 0) -> Pair:
    """Unequal parts of the rows of a value, filled up to equal ones, gathered flat, and the end cut off."""
    pair = Pair({"dp": 2})
    x, own = pair.input((5, 3))
    d = pair.dist
    edges = {"low": [low, 0], "high": [1 - low, 0], "interior": [0, 0]}
    padded = d.emit("pad", [own, d.constant(0.0, "f32")], **edges)
    block = d.emit("slice", [padded], start=[0, 0], limit=[3, 3], stride=[1, 1])
    cut_by_rank = d.ops[-1].rank_numbers
    cut_by_rank["start", 0], cut_by_rank["limit", 0] = {0: 0, 1: 3}, {0: 3, 1: 6}
    row = d.emit("reshape", [block], shape=(9,))
    whole = d.emit("all-gather", [row], dimension=0, groups=pair.groups("dp"))
    pair.outputs(flat(pair.base, x), d.emit("slice", [whole], start=[0], limit=[15], stride=[1]))
    return pair


def test_rows_behind_the_end_are_cut_off() -> None:
    tables = gathered_rows().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


def test_other_rows_are_not_proved() -> None:
    """Rows that begin one later are others."""
    assert derive(gathered_rows(low=1).tables()).unproved


def test_constants_that_are_roots_are_those_that_the_oracle_knows() -> None:
    text = (rules_dir() / "graph" / "rewrites" / "root_texts.dl").read_text("utf-8")
    rows = re.findall(r'root_text\("(\w+)", "([\d.e-]+)", (\d+), (\d+)\)', text)
    wanted = {(t, s, *map(str, numbers)) for t in ("f32", "f64") for s, numbers in root_texts(t).items()}
    assert set(rows) == wanted
    for dtype, written_as, num, den in rows:
        assert abs(float(written_as) ** 2 * int(den) / int(num) - 1) < (2**-22 if dtype == "f32" else 2**-51)


def test_a_constant_taken_for_a_root_is_an_assumption() -> None:
    analysis = analyse(Facts({name: list(rows) for name, rows in shared_norms().tables().items()}), Options())
    assert any("it is the root of 2/1" in str(row) for row in analysis.rows("assumption"))
