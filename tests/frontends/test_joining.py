"""Programs of several ranks become one that computes, on every rank, what that rank's program does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.graph import Graph, Port, Tensor
from scalify_dl.ir.layout import Window
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.oracle import load_program
from scalify_dl.oracle.execute import Machine
from scalify_dl.pairing.correspond import Shard
from scalify_dl.pairing.export import tables
from scalify_dl.pairing.joining import Joined, Unjoinable, cells_of, join
from scalify_dl.pairing.joining.moved import see_pieces
from scalify_dl.pairing.joining.ports import same_everywhere
from scalify_dl.pairing.joining.values import Alike, Own, Ragged
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude

Rows = dict[Tensor, tuple[Shard, ...]]


def executed(graphs: Sequence[Graph], mesh: Mesh, values: dict[Tensor, dict[int, np.ndarray]]) -> dict[Tensor, dict]:
    """What every output of some graphs is on every rank that has it."""
    from scalify_dl.facts.tables import TableWriter

    writer = TableWriter(mesh)
    for n, graph in enumerate(graphs):
        writer.graph(graph, "dist", f"d{n}", f"d{n}/")
    program = load_program(writer.facts.tables)
    given = {writer.ids[t]: by_rank for t, by_rank in values.items()}
    outputs = [port.tensor for graph in graphs for port in graph.outputs]
    machine = Machine(program, lambda op, operands: {}, keep=frozenset(writer.ids[t] for t in outputs))
    found = machine.run([g for g in program.graphs.values() if g.role == "dist"], given)
    return {t: found[writer.ids[t]] for t in outputs}


def compared(programs: list[Graph], mesh: Mesh, rows: list[Rows] | None = None, seed: int = 0) -> Joined:
    """The joined program, after it was run beside the programs, on inputs that are the ranks' own."""
    cells = cells_of(programs, mesh)
    assert cells is not None
    rng = np.random.default_rng(seed)
    rows = rows or [{} for _ in range(cells.count)]
    joined = join(programs, cells, rows)
    ours: dict[Tensor, dict[int, np.ndarray]] = {}
    theirs: dict[Tensor, dict[int, np.ndarray]] = {}
    whole: dict[Tensor, np.ndarray] = {}
    for cell, p in enumerate(cells.program):
        for port in programs[p].inputs:
            tensor, now = port.tensor, joined.inputs[cell][port.tensor]
            given = rows[cell].get(tensor, ())
            for column, rank in enumerate(cells.ranks[cell]):
                value = rng.integers(-4, 5, tensor.shape).astype(float)
                if given and given[0].base_piece:
                    (dim, lo, hi), base = given[0].base_piece[0], given[0].base
                    full = whole.setdefault(base, rng.integers(-4, 5, base.shape).astype(float))
                    value = full[tuple(slice(lo, hi) if d == dim else slice(None) for d in range(full.ndim))]
                    ours[now] = dict.fromkeys(range(mesh.size), full)
                elif given:
                    if same_everywhere(given[0].layout, cells.axes):
                        value = whole.setdefault(given[0].base, value)
                    ours.setdefault(now, {})[rank] = value
                elif not value.size:
                    pass
                else:  # each counterpart holds what this one does
                    ours.setdefault(now, {}).update({ranks[column]: value for ranks in cells.ranks})
                theirs.setdefault(tensor, {})[rank] = value
    wanted = executed(programs, mesh, theirs)
    pairs = []
    for cell, p in enumerate(cells.program):
        for port in programs[p].outputs:
            value = joined.values[cell][port.tensor]
            tensor = joined.made.whole(value) if isinstance(value, Ragged) else joined.made.at(cell, value)
            if isinstance(value, Alike):
                tensor = value.tensor
            joined.graph.output(tensor)
            pairs.append((cell, port.tensor, value, tensor))
    found = executed([joined.graph], mesh, ours)
    for cell, output, value, tensor in pairs:
        for rank in cells.ranks[cell]:
            there = found[tensor][rank]
            if isinstance(value, Ragged):
                start = sum(value.sizes[:cell])
                there = there.take(range(start, start + value.sizes[cell]), value.dim)
            np.testing.assert_allclose(there, wanted[output][rank], err_msg=f"{output.name} on rank {rank}")
        if isinstance(value, Own):  # and counterparts hold what this cell does
            for ranks in cells.ranks:
                for mine, other in zip(cells.ranks[cell], ranks, strict=True):
                    np.testing.assert_allclose(found[tensor][mine], found[tensor][other])
    return joined


def shared(tensors: Sequence[Tensor], base: Tensor, mesh: Mesh) -> list[Rows]:
    """Rows for one input of every program that is the baseline's, whole."""
    layout = Placement().layout(base.shape, mesh)
    return [{t: (Shard(t, base, layout, "name"),)} for t in tensors]


def random_programs(rng: random.Random, ranks: list[list[int]]) -> list[Graph]:
    """Programs with steps of their own between collectives over all of the ranks, or some."""
    programs = [Graph(f"p{n}", ranks=some) for n, some in enumerate(ranks)]
    everyone = sorted(rank for some in ranks for rank in some)
    values: list[list[Tensor]] = []
    for n, g in enumerate(programs):
        values.append([g.input("x", "f32", (4,), path="x"), g.input(f"own{n}", "f32", (4,), path=f"own{n}")])
    for _ in range(rng.randrange(3, 9)):
        kind = rng.choice(["own", "own", "alike", "sum", "gather", "scatter", "part"])
        some = [rng.choice(v) for v in values] if rng.random() < 0.5 else [v[-1] for v in values]
        if kind == "own":
            n = rng.randrange(len(programs))
            values[n].append(programs[n].emit(rng.choice(["negate", "abs"]), [some[n]]))
        elif kind == "alike":
            at = rng.randrange(min(map(len, values)))
            for g, v in zip(programs, values, strict=True):
                v.append(g.emit("add", [v[0], v[at]]))
        elif kind == "part":  # within each program
            for g, v, x in zip(programs, values, some, strict=True):
                v.append(g.emit("all-reduce", [x], reducer="sum", groups=[list(g.ranks or ())]))
        else:
            group = rng.sample(everyone, len(everyone)) if rng.random() < 0.3 else everyone
            for g, v, x in zip(programs, values, some, strict=True):
                if kind == "sum":
                    y = g.emit("all-reduce", [x], reducer=rng.choice(["sum"]), groups=[group])
                elif kind == "gather":
                    y = g.emit("all-gather", [x], dimension=0, groups=[group])
                    y = g.emit("slice", [y], start=[2], limit=[6], stride=[1])
                else:
                    y = g.emit("concatenate", [x] * len(group), dimension=0)
                    y = g.emit("reduce-scatter", [y], dimension=0, reducer="sum", groups=[group])
                v.append(y)
    for g, v in zip(programs, values, strict=True):
        g.output(v[-1], path="out")
        g.output(g.emit("add", [v[0], v[rng.randrange(len(v))]]), path="more")
    return programs


CROSSING = frozenset({3, 7, 13, 15, 16, 22, 26})


@pytest.mark.parametrize("seed", range(40))
def test_the_joined_program_computes_what_the_programs_do(seed: int) -> None:
    rng = random.Random(seed)
    mesh, ranks = rng.choice(
        [("tp=2", [[0], [1]]), ("dp=2,tp=2", [[0, 1], [2, 3]]), ("dp=2,tp=2", [[0, 2], [1, 3]]),
         ("tp=3", [[0, 1], [2]]), ("dp=2,tp=2", [[0, 1, 2], [3]])]
    )  # fmt: skip
    programs = random_programs(rng, ranks)
    rows = None
    if rng.random() < 0.5:
        cells = cells_of(programs, Mesh.parse(mesh))
        assert cells is not None
        inputs = [programs[p].inputs[0].tensor for p in cells.program]
        rows = shared(inputs, Tensor("f32", (4,), "x"), Mesh.parse(mesh))
    if seed in CROSSING:  # a group in an order that no rows of cells have
        with pytest.raises(Unjoinable):
            compared(programs, Mesh.parse(mesh), rows, seed)
    else:
        compared(programs, Mesh.parse(mesh), rows, seed)


def uneven(extents: Sequence[int], *, tail: float = 0.0) -> tuple[list[Graph], list[Rows], Mesh]:
    """Each rank its rows of w, filled up, exchanged flat; sums scattered, and each rank's rows of them added."""
    block, total, n = max(extents), sum(extents), len(extents)
    mesh, base, other = Mesh((("dp", n),)), Tensor("f32", (total, 2), "w"), Tensor("f32", (3 * n,), "x")
    each = Placement({0: [AxisPart("dp")]}).layout(other.shape, mesh)
    programs, rows, at = [], [], 0
    for rank, own in enumerate(extents):
        g = Graph(f"r{rank}", ranks=[rank])
        w, x = g.input("w", "f32", (own, 2), path="w"), g.input("x", "f32", (3,), path="x")
        row = g.emit("reshape", [w], shape=(own * 2,))
        if own < block:
            row = g.emit("concatenate", [row, g.splat(tail, "f32", ((block - own) * 2,))], dimension=0)
        buffer = g.emit("concatenate", [row, x], dimension=0)
        every = g.emit("all-gather", [buffer], dimension=0, groups=[list(range(n))])
        sums = g.emit("reduce-scatter", [every], dimension=0, reducer="sum", groups=[list(range(n))])
        mine = g.emit("reshape", [g.emit("slice", [sums], start=[0], limit=[own * 2], stride=[1])], shape=(own, 2))
        g.output(every, path="every")
        g.output(g.emit("add", [w, g.emit("multiply", [mine, g.splat(0.5, "f32", (own, 2))])]), path="w")
        layout = Placement().layout((own, 2), mesh)
        rows.append({x: (Shard(x, other, each, "annotation"),)})
        if own:
            rows[-1][w] = (Shard(w, base, layout, "annotation", (), (Window(0, at, at + own),)),)
        programs.append(g)
        at += own
    return programs, rows, mesh


@pytest.mark.parametrize("extents", [(3, 2), (2, 2, 1), (2, 1, 0), (2, 2, 2, 1)])
@pytest.mark.parametrize("tail", [0.0, 1.0])
def test_unequal_parts_are_one_value(extents: tuple[int, ...], tail: float) -> None:
    programs, rows, mesh = uneven(extents, tail=tail)
    joined = compared(programs, mesh, rows)
    updated = [joined.values[k][g.outputs[1].tensor] for k, g in enumerate(programs)]
    assert isinstance(updated[0], Ragged)
    assert all(value is updated[0] for value in updated)
    kinds = [op.kind for op in joined.graph.ops]
    assert kinds.count("pad") == (tail == 0.0)


def two_tables(extents: Sequence[Sequence[int]]) -> tuple[list[Graph], list[Rows], Mesh]:
    """Unequal rows of two tables, written one after the other into the rank's own place in a buffer that is gathered;
    a step by the sum of all squares, which is spread to the shape of the rank's rows."""
    n = len(extents[0])
    mesh, width = Mesh((("dp", n),)), sum(max(some) for some in extents) * 2
    bases = [Tensor("f32", (sum(some), 2), f"w{k}") for k, some in enumerate(extents)]
    programs, rows = [], []
    for rank in range(n):
        g = Graph(f"r{rank}", ranks=[rank])
        tables = [g.input(f"w{k}", "f32", (some[rank], 2), path=f"w{k}") for k, some in enumerate(extents)]
        buffer, at = g.splat(0, "f32", (n * width,)), rank * width
        for w, some in zip(tables, extents, strict=True):
            row, n_row = g.emit("reshape", [w], shape=(w.shape[0] * 2,)), max(some) * 2
            if w.shape[0] * 2 < n_row:
                row = g.emit("concatenate", [row, g.splat(0, "f32", (n_row - w.shape[0] * 2,))], dimension=0)
            before = [cut(g, buffer, 0, at)] if at else []
            after = [cut(g, buffer, at + n_row, n * width)] if at + n_row < n * width else []
            buffer, at = g.emit("concatenate", [*before, row, *after], dimension=0), at + n_row
        mine = cut(g, buffer, rank * width, (rank + 1) * width)
        every = g.emit("all-gather", [mine], dimension=0, groups=[[*range(n)]])
        every, at, sums = g.emit("reshape", [every], shape=(n, width)), 0, []
        for some in extents:
            n_row = max(some) * 2
            row = g.emit("slice", [every], start=[0, at], limit=[n, at + n_row], stride=[1, 1])
            whole, at = cut(g, g.emit("reshape", [row], shape=(n * n_row,)), 0, sum(some) * 2), at + n_row
            sums.append(g.emit("reduce", [g.emit("multiply", [whole, whole])], dimensions=[0], reducer="sum"))
        own = g.emit("reduce", [g.emit("multiply", [tables[0], tables[0]])], dimensions=[0, 1], reducer="sum")
        g.output(g.emit("all-reduce", [own], reducer="sum", groups=[[*range(n)]]), path="norm")
        scale = g.emit("multiply", [g.emit("add", sums), g.constant(0.5, "f32")])
        for k, w in enumerate(tables):
            g.output(g.emit("multiply", [w, g.emit("broadcast", [scale], shape=w.shape, dimensions=[])]), path=f"w{k}")
        layouts = [Placement().layout(w.shape, mesh) for w in tables]
        at = [sum(some[:rank]) for some in extents]
        rows.append({
            w: (Shard(w, base, layout, "annotation", (), (Window(0, lo, lo + w.shape[0]),)),)
            for w, base, layout, lo in zip(tables, bases, layouts, at, strict=True) if w.shape[0]
        })  # fmt: skip
        programs.append(g)
    return programs, rows, mesh


def cut(g: Graph, x: Tensor, start: int, limit: int) -> Tensor:
    """Elements of a row."""
    return g.emit("slice", [x], start=[start], limit=[limit], stride=[1])


@pytest.mark.parametrize("extents", [((3, 2), (4, 3)), ((2, 2, 1), (3, 3, 1)), ((1, 1, 0), (2, 1, 0))])
def test_unequal_parts_of_several_tables_in_one_buffer(extents: tuple[tuple[int, ...], ...]) -> None:
    """Though what one rank has of a table is as large as what another has of the other one: nothing is one rank's."""
    programs, rows, mesh = two_tables(extents)
    joined = compared(programs, mesh, rows)
    for place, port in enumerate(programs[0].outputs):
        first = joined.values[0][port.tensor]
        assert all(joined.values[k][g.outputs[place].tensor] is first for k, g in enumerate(programs))
    own = [op for op in joined.graph.ops if op.name.startswith("r") and "/" in op.name]
    assert {op.kind for op in own} <= {"constant", "broadcast", "concatenate"}  # what fills parts up


def staged(*, twice: bool = False, late: bool = False) -> tuple[Graph, list[Graph]]:
    """A pipeline of two stages on two rows of a batch, sum of w2 * (w1 * x), and its baseline."""
    base = Graph("base")
    x, w1, w2 = (base.input(name, "f32", (4,), path=name) for name in ("x", "w1", "w2"))
    base.output(base.emit("multiply", [w2, base.emit("multiply", [w1, x])]), path="y")
    first, second = Graph("r0", ranks=[0]), Graph("r1", ranks=[1])
    xs, ws = first.input("x", "f32", (4,), path="x"), first.input("w1", "f32", (4,), path="w1")
    sent = first.emit("multiply", [ws, xs])
    vs = second.input("w2", "f32", (4,), path="w2")
    if late:
        got = message(first, None, 1)
        sent = first.emit("add", [sent, got])
    message(first, first.emit("add", [sent, sent]) if twice else sent, 1)
    y = second.emit("multiply", [vs, message(second, None, 0)])
    message(second, y, 0)
    second.output(y, path="y")
    first.output(message(first, None, 1), path="y")
    return base, [first, second]


def message(g: Graph, x: Tensor | None, peer: int, channel: str = "pp 0") -> Tensor:
    """Sends a value, or receives one."""
    if x is None:
        op = g.add("recv", [], [("f32", (4,))], numbers={"peer": [peer]}, symbols={"channel": [channel]})
        return op.result
    g.add("send", [x], [], numbers={"peer": [peer]}, symbols={"channel": [channel]})
    return x


def facts_of(base: Graph, programs: list[Graph], mesh: str) -> Facts:
    return tables(base, programs, Mesh.parse(mesh), joined=True)


def test_messages_are_values() -> None:
    base, programs = staged()
    assert conclude(analyse(facts_of(base, programs, "pp=2"), Options())).verdict is Verdict.PROVED
    base, programs = staged(twice=True)
    assert conclude(analyse(facts_of(base, programs, "pp=2"), Options())).verdict is Verdict.REFUTED


def test_a_message_that_waits_for_its_own_answer_is_bad_input() -> None:
    base, programs = staged(late=True)
    with pytest.raises(InputError, match="waits for message"):
        facts_of(base, programs, "pp=2")


def test_messages_go_by_their_order_on_the_channel() -> None:
    """Two messages of one channel; the receiver takes the first one first, whatever it is to be."""

    def pair(*, crossed: bool) -> Facts:
        base, first, second = Graph("base"), Graph("r0", ranks=[0]), Graph("r1", ranks=[1])
        a, b = base.input("a", "f32", (4,), path="a"), base.input("b", "f32", (4,), path="b")
        base.output(base.emit("subtract", [a, b]), path="y")
        mine = [first.input(name, "f32", (4,), path=name) for name in ("a", "b")]
        for x in mine[::-1] if crossed else mine:
            message(first, x, 1)
        theirs = [message(second, None, 0) for _ in mine]
        second.output(second.emit("subtract", theirs), path="y")
        first.output(first.emit("subtract", mine), path="y")
        return facts_of(base, [first, second], "pp=2")

    assert conclude(analyse(pair(crossed=False), Options())).verdict is Verdict.PROVED
    assert conclude(analyse(pair(crossed=True), Options())).verdict is Verdict.REFUTED


def test_messages_round_a_ring_are_a_permute() -> None:
    """One program, whose ranks send to their neighbours."""
    mesh, g = Mesh.parse("tp=4"), Graph("ring", ranks=[0, 1, 2, 3])
    x = g.input("x", "f32", (4,), path="x")
    message(g, x, 0)
    g.ops[-1].rank_numbers["peer", 0] = {rank: (rank + 1) % 4 for rank in range(4)}
    y = message(g, None, 0)
    g.ops[-1].rank_numbers["peer", 0] = {rank: (rank - 1) % 4 for rank in range(4)}
    g.output(y, path="y")
    cells = cells_of([g], mesh)
    assert cells is not None
    joined = join([g], cells, [{}])
    (permute,) = joined.graph.ops
    assert permute.kind == "collective-permute"
    assert sorted(permute.pairs or ()) == [(0, 1), (1, 2), (2, 3), (3, 0)]


def test_stages_of_data_parallel_ranks_keep_their_groups() -> None:
    """dp=2, pp=2: rank (d, 0) sends to (d, 1), which adds up over dp; what is added up is that of its counterparts."""
    mesh = Mesh.parse("dp=2,pp=2")
    first, second = Graph("s0", ranks=[0, 2]), Graph("s1", ranks=[1, 3])
    x = first.input("x", "f32", (4,), path="x")
    message(first, x, 0)
    first.ops[-1].rank_numbers["peer", 0] = {0: 1, 2: 3}
    first.output(x, path="x")
    got = message(second, None, 0)
    second.ops[-1].rank_numbers["peer", 0] = {1: 0, 3: 2}
    second.output(second.emit("all-reduce", [got], reducer="sum", groups=[[1, 3]]), path="y")
    cells = cells_of([first, second], mesh)
    assert cells is not None
    assert cells.axes == ("pp",)
    joined = join([first, second], cells, [{}, {}])
    (gather, cut, total) = joined.graph.ops
    assert (gather.kind, gather.groups, cut.kind) == ("all-gather", [[0, 1], [2, 3]], "slice")
    assert total.operands == [cut.result]
    assert sorted(total.groups or ()) == [[0, 2], [1, 3]]


def test_groups_of_one_collective_may_be_of_unlike_programs() -> None:
    """One program runs on two ranks, each of which meets another program: two collectives, as far as they go."""
    programs = [Graph("first", ranks=[0, 1]), Graph("second", ranks=[2]), Graph("third", ranks=[3])]
    for n, g in enumerate(programs):
        x = g.input(f"x{n}", "f32", (4,), path=f"x{n}")
        for _ in range(n):
            x = g.emit("negate", [g.emit("multiply", [x, x])])
        g.output(g.emit("all-reduce", [x], reducer="sum", groups=[[0, 2], [1, 3]]), path="y")
    compared(programs, Mesh.parse("pp=2,dp=2"))


def test_programs_of_ranks_on_no_grid_have_a_cell_for_each() -> None:
    mesh = Mesh.parse("dp=2,tp=2")
    cells = cells_of([Graph("a", ranks=[0, 3]), Graph("b", ranks=[1, 2])], mesh)
    assert cells is not None
    assert cells.axes == ("dp", "tp")
    assert cells.program == (0, 1, 1, 0)
    assert cells_of([Graph("a", ranks=[0, 1]), Graph("b", ranks=[2])], mesh) is None
    assert cells_of([replace(Graph("a"), ranks=None)], mesh) is not None


def test_an_output_that_is_a_piece_of_a_buffer_keeps_what_makes_it() -> None:
    g, x = Graph("g"), Tensor("f32", (4, 6))
    g.inputs.append(Port(x))
    halves = [g.emit("slice", [x], start=[at, 0], limit=[at + 2, 6], stride=[1, 1]) for at in (0, 2)]
    row = g.emit("concatenate", halves, dimension=1)
    g.outputs.append(Port(g.emit("slice", [row], start=[0, 0], limit=[2, 6], stride=[1, 1])))
    see_pieces(g)
    assert [op.kind for op in g.ops] == ["slice"]
    assert g.outputs[0].tensor is g.ops[0].result
