"""Loops in which each rank does something else: what is written out computes the same, and pipelines are proved."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.oracle import load_program, run_trial
from scalify_dl.pairing import export as exporting
from scalify_dl.pairing.written_out import wanted, written_out
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude

from .pipelines import DIM, RIGHT, ROWS, WRONG, Pipeline, counted, layer, put_window, row, row_window, spread


@pytest.mark.parametrize("name", RIGHT)
def test_a_pipeline_is_proved(name: str) -> None:
    report = conclude(analyse(RIGHT[name].facts(), Options()))
    assert report.verdict is Verdict.PROVED


def test_stages_of_several_layers_are_proved_by_rules_alone() -> None:
    """What a rank has of a layer is cut out of what it has of all its layers."""
    assert derive(RIGHT["stages of two layers"].facts().tables).unproved == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_pipeline_is_refuted(name: str) -> None:
    assert conclude(analyse(WRONG[name].facts(), Options())).verdict is Verdict.REFUTED


@pytest.mark.parametrize("repeated", [False, True])
def test_ranks_do_different_things_also_where_the_choice_is_repeated_before_the_loop(*, repeated: bool) -> None:
    program = Pipeline(repeated=repeated)
    assert wanted.axes_of_turns(program.dist(), program.mesh) == ("pp",)


def same_values(plain: Facts, out: Facts) -> None:
    """Both compute the same on the same inputs, on each rank."""
    results = []
    for facts in (plain, out):
        trial = run_trial(load_program(facts.tables), 5, "reals")
        graphs = dict(facts["graph"])
        found = [(graphs[graph], pos, tensor) for graph, pos, tensor in facts["output"] if graph in ("base", "dist")]
        results.append({
            (side, pos): trial.baseline[tensor] if side == "base" else trial.distributed[tensor]
            for side, pos, tensor in found
        })  # fmt: skip
    assert results[0].keys() == results[1].keys()
    for key, value in results[0].items():
        other = results[1][key]
        ranks = value if isinstance(value, dict) else {0: value}
        for rank, x in ranks.items():
            np.testing.assert_allclose(other[rank] if isinstance(other, dict) else other, x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_what_is_written_out_computes_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (RIGHT | WRONG)[name]
    out = program.facts()
    assert not any(kind == "while" for _, _, kind in out["op"])
    monkeypatch.setattr(exporting, "written_out", lambda base, dist, mesh, given: (base, dist))
    same_values(program.facts(), out)


def micro_batches(turns: int, name: str = "dist") -> Graph:
    """The sum over all rows of tanh(x w), as a loop over micro-batches adds it up."""
    g, rows = Graph(name), ROWS if name == "dist" else 2 * ROWS
    w, x = g.input("w", "f32", (DIM, DIM), path="w"), g.input("x", "f32", (4 * rows, DIM), path="x")
    blocks = g.emit("reshape", [x], shape=(4, rows, DIM))

    def turn(b: Graph, carried: list[Tensor]) -> list[Tensor]:
        t, w, blocks, total = carried
        return [w, blocks, b.emit("add", [total, rows_added(b, row(b, blocks, t), w)])]

    total = counted(g, [w, blocks, g.splat(0.0, "f32", (DIM,))], turns, turn)[2]
    if name == "dist":
        g.inputs[1].placement = Placement({0: (AxisPart("dp"),)})
        total = g.emit("all-reduce", [total], reducer="sum", groups=[[0, 1]])
    g.output(g.emit("multiply", [total, total]), path="y")
    return g


def rows_added(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    y = g.emit("tanh", [g.emit("dot", [x, w], lhs_contracting_dims=[1], rhs_contracting_dims=[0])])
    return g.emit("reduce", [y], reducer="sum", dimensions=[0])


@pytest.mark.parametrize(("turns", "verdict"), [(4, Verdict.PROVED), (3, Verdict.REFUTED)])
def test_micro_batches_of_a_loop_that_the_baseline_does_not_have(turns: int, verdict: Verdict) -> None:
    base = Graph("base")
    w, x = base.input("w", "f32", (DIM, DIM), path="w"), base.input("x", "f32", (8 * ROWS, DIM), path="x")
    total = rows_added(base, x, w)
    base.output(base.emit("multiply", [total, total]), path="y")
    facts = exporting.tables(base, [micro_batches(turns)], Mesh.parse("dp=2"), joined=True)
    assert not any(kind == "while" for _, _, kind in facts["op"])
    assert conclude(analyse(facts, Options())).verdict is verdict


def test_loops_of_both_programs_stay_loops() -> None:
    facts = exporting.tables(micro_batches(4, "base"), [micro_batches(4)], Mesh.parse("dp=2"), joined=True)
    assert sum(kind == "while" for _, _, kind in facts["op"]) == 2


AXES = Mesh.parse("dp=2,pp=3")


class Random:
    """A program of random ops, of ranks that do different things."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.g = Graph("dist")
        g = self.g
        self.shape = (6, 2)
        rank = g.emit("partition-id", [], shape=(), dtype="u32")
        rank = g.emit("convert", [g.emit("remainder", [rank, g.constant(3, "u32")])], dtype="s32")
        x = g.input("x", "f32", self.shape, path="x")
        own = g.input("own", "f32", self.shape, path="own")
        blocks = g.emit("slice", [x], start=[0, 0], limit=[2, 2], stride=[1, 1])
        for key, more in (("start", 0), ("limit", 2)):
            g.ops[-1].rank_numbers[key, 0] = {r: 2 * (r % 3) + more for r in range(6)}
        wide = g.emit("concatenate", [blocks] * 3, dimension=0)
        zero = g.splat(0.0, "f32", self.shape)
        carried = [x, own, wide, zero, g.emit("add", [rank, g.constant(self.rng.randrange(2), "s32")])]
        found = counted(g, carried, self.rng.choice([1, 2, 3]), self.body) if self.rng.random() < 0.8 else self.body(
            g, [g.constant(1, "s32"), *carried])  # fmt: skip
        for value in found[:4]:
            g.output(self.collected(g, value))

    def body(self, g: Graph, carried: list[Tensor]) -> list[Tensor]:
        t, *values, number = carried
        for _ in range(self.rng.randrange(4, 10)):
            values[self.rng.randrange(4)] = self.step(g, t, values, number)
        return [*values, number]

    def step(self, g: Graph, t: Tensor, values: list[Tensor], number: Tensor) -> Tensor:
        x, y = self.rng.choice(values), self.rng.choice(values)
        kind = self.rng.choice(["add", "multiply", "subtract", "tanh", "choice", "permute", "read", "write", "sum",
                                "product", "gather", "exchange", "scatter", "pad", "add", "scale", "fold",
                                "window"])  # fmt: skip
        if kind in ("add", "multiply", "subtract"):
            return g.emit(kind, [x, y])
        if kind == "tanh":
            return g.emit("tanh", [x])
        if kind == "pad":
            dim, at, n = self.rng.randrange(2), self.rng.randrange(2), self.rng.choice([1, 2])
            start, limit, low, high = [0, 0], [6, 2], [0, 0], [0, 0]
            start[dim], limit[dim] = at, min(at + n, self.shape[dim])
            low[dim] = self.rng.randrange(self.shape[dim] - limit[dim] + at + 1)
            high[dim] = self.shape[dim] - limit[dim] + at - low[dim]
            part = g.emit("slice", [x], start=start, limit=limit, stride=[1, 1])
            zero = g.constant(0.0 if self.rng.random() < 0.8 else 1.0, "f32")
            return g.emit("pad", [part, zero], low=low, high=high, interior=[0, 0])
        if kind == "scale":
            number = spread(g, g.constant(3.0, "f32"), self.shape)
            return g.emit(self.rng.choice(["multiply", "divide", "add"]), [x, number])
        if kind == "fold":
            shape = self.rng.choice([(12,), (1, 6, 2), (2, 6)])
            return g.emit("reshape", [g.emit("reshape", [x], shape=shape)], shape=self.shape)
        if kind == "product":
            square = g.emit("dot", [x, y], lhs_contracting_dims=[0], rhs_contracting_dims=[0])
            return g.emit("dot", [x, square], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
        if kind == "window":
            at = g.emit(self.rng.choice(["add", "subtract", "multiply"]), [number, t])
            if self.rng.random() < 0.3:
                at = g.emit("clamp", [g.constant(0, "s32"), at, g.constant(5, "s32")])
            return put_window(g, y, at, row_window(g, x, at), self.rng.choice(["replace", "sum", "max"]))
        if kind in ("choice", "read", "write"):
            index = g.emit(self.rng.choice(["add", "subtract", "minimum"]), [number, t])
            if kind == "choice":
                way = self.rng.choice(["EQ", "LT", "GE", "NE"])
                mask = g.emit("compare", [index, g.constant(self.rng.randrange(3), "s32")], direction=way)
                return g.emit("select", [spread(g, mask, self.shape), x, y])
            zero = g.constant(0, "s32")
            block = g.emit("dynamic-slice", [x, index, zero], sizes=[2, 2])
            if kind == "read":
                return g.emit("concatenate", [block, block, block], dimension=0)
            return g.emit("dynamic-update-slice", [y, block, index, zero])
        return self.collected(g, x, kind)

    def collected(self, g: Graph, x: Tensor, kind: str = "") -> Tensor:
        kind = kind or self.rng.choice(["sum", "gather", "none"])
        lines = [[0, 1, 2], [3, 4, 5]]
        groups = self.rng.choice([lines, [[2, 0, 1], [5, 3, 4]], [[0, 3], [1, 4], [2, 5]], [[0, 1, 2, 3, 4, 5]]])
        if kind == "permute":
            steps = self.rng.choice([1, 2])
            pairs = [(i * 3 + j, i * 3 + (j + steps) % 3) for i in range(2) for j in range(3)]
            pairs = pairs if self.rng.random() < 0.7 else [(a, b) for a, b in pairs if b % 3]
            pairs = pairs if self.rng.random() < 0.9 else [((a + 3) % 6, b) for a, b in pairs]
            return g.emit("collective-permute", [x], pairs=pairs)
        if kind == "sum":
            reducer = self.rng.choice(["sum", "sum", "max", "min"])
            return g.emit("all-reduce", [x], reducer=reducer, groups=groups)
        if kind in ("gather", "exchange", "scatter"):
            groups = groups if len(groups[0]) < 6 else lines
            n = len(groups[0])
            if kind == "exchange":
                return g.emit("all-to-all", [x], split_dimension=0, concat_dimension=0, groups=groups, shape=x.shape,
                              dtype="f32")  # fmt: skip
            if kind == "scatter":
                small = g.emit("reduce-scatter", [x], dimension=0, reducer="sum", groups=groups, dtype="f32",
                               shape=(6 // n, 2))  # fmt: skip
                return g.emit("concatenate", [small] * n, dimension=0)
            whole = g.emit("all-gather", [x], shape=(6 * n, 2), dimension=0, dtype="f32", groups=groups)
            at = self.rng.randrange(6 * n - 5)
            return g.emit("slice", [whole], start=[at, 0], limit=[at + 6, 2], stride=[1, 1])
        return x


WRITTEN: list[bool] = []


@pytest.mark.parametrize("axes", [("pp",), ()])
@pytest.mark.parametrize("seed", range(60))
def test_any_program_that_is_written_out_computes_the_same(
    seed: int, axes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[bool] = []

    def facts(write: bool) -> Facts:
        program = Random(seed).g
        program.inputs[1].placement = Placement({0: (AxisPart("pp"),)})
        base = Graph("base")
        x, own = base.input("x", "f32", (6, 2), path="x"), base.input("own", "f32", (18, 2), path="own")
        base.output(base.emit("add", [x, x]))
        for _ in range(3):
            base.output(base.emit("multiply", [own, own]))
        for port in program.outputs[1:]:
            port.placement = Placement({0: (AxisPart("pp"),)})

        def out(base: Graph, dist: Graph, mesh: Mesh, given: object) -> tuple[Graph, Graph]:
            if not write:
                return base, dist
            monkeypatch.setattr("scalify_dl.pairing.written_out.axes_of_turns", lambda graph, mesh: axes)
            _, found = written_out(base, dist, mesh, given)  # type: ignore[arg-type]
            done.append(found is not dist)
            return base, found

        monkeypatch.setattr(exporting, "written_out", out)
        return exporting.tables(base, [program], AXES, joined=True)

    same_values(facts(False), facts(True))
    WRITTEN.extend(done)


def test_most_random_programs_are_written_out() -> None:
    assert not WRITTEN or sum(WRITTEN) > len(WRITTEN) / 2


def test_loops_that_every_rank_goes_through_alike_stay_loops() -> None:
    g = Graph("dist")
    x = g.input("x", "f32", (2, 2))
    pairs = [(0, 1), (1, 0)]
    g.output(counted(g, [x], 2, lambda b, c: [b.emit("collective-permute", [layer(b, c[1], c[1])], pairs=pairs)])[0])
    assert wanted.axes_of_turns(g, Mesh.parse("pp=2")) == ()
    assert wanted.axes_of_turns(Pipeline().dist(), Mesh.parse("pp=3")) == ("pp",)
    assert wanted.axes_of_turns(Pipeline(stages=2, data=2).dist(), Mesh.parse("dp=2,pp=2")) == ("pp",)


def test_borders_that_are_exchanged_again_and_again_are_no_turns() -> None:
    g = Graph("dist")
    x = g.input("x", "f32", (2, 2))
    first = g.emit("compare", [g.emit("partition-id", [], shape=(), dtype="u32"), g.constant(0, "u32")], direction="EQ")
    for _ in range(3):
        passed = g.emit("collective-permute", [x], pairs=[(0, 1)])
        x = g.emit("add", [x, g.emit("select", [spread(g, first, x.shape), g.splat(0, "f32", x.shape), passed])])
    g.output(x)
    assert wanted.axes_of_turns(g, Mesh.parse("pp=2")) == ()


def sums_of_parts(known: bool) -> Facts:
    """A sum that no rank adds up, of values that the rules follow or not."""
    base, dist = Graph("base"), Graph("dist")
    for g, rows in ((base, 4), (dist, 2)):
        x = g.input("x", "f32", (rows, DIM), path="x")
        if g is dist:
            g.inputs[-1].placement = Placement({0: (AxisPart("dp"),)})
        y = g.emit("tanh", [x])
        y = g.emit("exponential", [y if known or g is base else g.emit("reverse", [y], dimensions=[1])])
        g.output(g.emit("reduce", [y], reducer="sum", dimensions=[0]), path="y")
    return exporting.tables(base, [dist], Mesh.parse("dp=2"))


def test_of_two_forms_that_are_not_proved_the_one_that_is_followed_further_is_kept() -> None:
    for known in (True, False):
        facts, other = sums_of_parts(known), sums_of_parts(not known)
        facts.again = lambda other=other: other  # type: ignore[misc]
        analysis = analyse(facts, Options(refute=False))
        assert analysis.outputs_left == 1
        assert (analysis.other and analysis.other.facts) is (None if known else other)


def test_an_edit_that_is_proved_in_the_other_form_is_told() -> None:
    facts, other = sums_of_parts(False), sums_of_parts(True)
    facts.again = lambda: other
    report = conclude(analyse(facts, Options()))
    assert report.verdict is Verdict.REFUTED
    assert report.frontier[0].tried == ("with this edit the output is PROVED",)
