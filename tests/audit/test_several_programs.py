"""What is said of one program's values is not said of what other programs bring to a collective; and numbers that are
known on some ranks only are asked of no solver."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.audit.trials.moved import ROWS, inside, kept, of_rank
from scalify_dl.audit.trials.number import numbers
from scalify_dl.audit.trials.programs import TwoPrograms
from scalify_dl.ir.graph import Graph, Tensor

EXCHANGES = {"all-gather", "all-to-all", "collective-permute", "all-reduce", "reduce-scatter"}


def exchanged(pair: Pair, g: Graph, x: Tensor, y: Tensor) -> None:
    """Every collective that bounds are known of, of x[2]; y[2] times each of them."""
    groups = pair.groups("tp")
    for v in (
        g.emit("all-gather", [x], dimension=0, groups=groups),
        g.emit("all-to-all", [x], split_dimension=0, concat_dimension=0, groups=groups),
        g.emit("collective-permute", [x], pairs=[(0, 1), (1, 0)]),
        g.emit("all-reduce", [x], reducer="max", groups=groups),
        g.emit("reduce-scatter", [x], dimension=0, reducer="max", groups=groups),
    ):
        same = v if v.shape == (2,) else g.emit("broadcast", [g.emit("reduce", [v], dimensions=[0], reducer="max")],
                                                shape=(2,), dimensions=[])  # fmt: skip
        g.output(g.emit("multiply", [y, same]))


@pytest.mark.parametrize("programs", [1, 2])
def test_collectives_of_several_programs_have_no_bound_and_may_bring_infinities(programs: int) -> None:
    pair = TwoPrograms() if programs > 1 else Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((2,), dtype="s32"), pair.input((2,), pending={"tp": "sum"})
    exchanged(pair, pair.dist, numbers(pair.dist, "and", dx, 4095), dx)
    exchanged(pair, pair.dist, pair.dist.emit("tanh", [dy]), dy)
    pair.outputs(x, dx)
    if isinstance(pair, TwoPrograms):
        other = [pair.other.input(v.name, v.dtype, (2,)) for v in (dx, dy)]
        pair._shards += [(other[0], x, "", "[0:1x2]|tp=r2"), (other[1], y, "", "[0:1x2]|tp=sum2")]
        for v in other:
            exchanged(pair, pair.other, v, v)
    program = derive(pair.tables()).program
    mine = {op: kind for op, graph, kind in program.relation("op") if kind in EXCHANGES and graph in ("dist", "r0")}
    made = {tensor: mine[op] for op, _, tensor in program.relation("result") if op in mine}
    bounded = {made[value] for value, _ in program.relation("at_most") if value in made}
    infinite = {made[value] for value, sort in program.relation("may_be") if sort == "inf" and value in made}
    assert (bounded, infinite) == ((EXCHANGES, set()) if programs == 1 else (set(), EXCHANGES))


def test_a_number_that_leaves_its_type_on_some_ranks_is_asked_of_no_solver() -> None:
    """The rank times 100 as s8 is known on two of four ranks, and wraps round on the others."""
    pair = Pair({"tp": 4})
    (t, dt), (i, di) = pair.input((8, 2), {0: "tp"}), pair.input((6,), dtype="s32", range=(0, 8))
    g = pair.dist
    rank = g.emit("convert", [g.emit("partition-id", [])], dtype="s8")
    far = numbers(g, "add", g.emit("convert", [numbers(g, "multiply", rank, 100)], dtype="s32"), 8)
    far = g.emit("broadcast", [far], shape=(6,), dimensions=[])
    near = g.emit("subtract", [di, of_rank(pair, [0, 2, 4, 6], di)])
    rows = g.emit("gather", [dt, near], **ROWS)
    mask = g.emit("and", [inside(pair, di, 2), g.emit("compare", [di, far], direction="LT")])
    read = pair.base.emit("gather", [t, i], **ROWS)
    total = g.emit("all-reduce", [kept(g, mask, rows)], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(read, total)
    assert not derive(pair.tables()).proved
