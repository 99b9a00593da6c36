"""Counterexamples: what is refuted, what is only a witness, where it starts; huge sizes, Ctrl-C, reports."""

from __future__ import annotations

import json
import resource

import numpy as np
import pytest

from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample
from scalify_dl.oracle.compare import Mismatch
from scalify_dl.oracle.counterexample import elements
from scalify_dl.oracle.found import Counterexample
from scalify_dl.oracle.localise import _partner

from .small import program, row_parallel


def test_a_right_program_agrees_and_says_how_its_output_is_placed() -> None:
    search = find_counterexample(program(row_parallel()))
    assert search.status == "agrees"
    assert search.agreed == {"all-reduce": "[0:1x8][1:1x6]|tp=r2"}
    assert search.trials == 3


@pytest.mark.parametrize(("reducer", "first"), [(None, "dot"), ("max", "all-reduce")])
def test_a_counterexample_has_inputs_place_and_numbers(reducer: str | None, first: str) -> None:
    p = program(row_parallel(reducer=reducer))
    best = find_counterexample(p).best
    assert best is not None
    assert (best.kind, best.draw) == ("refutation", "integers")
    assert best.place is not None
    assert (best.place.op, best.place.base_tensor) == (first, "base/dot")
    again = find_counterexample(p, seed=best.seed).best
    assert again is not None
    assert again.mismatch == best.mismatch  # the seed reproduces it
    assert json.loads(json.dumps(best.as_dict()))["expected"] == best.mismatch.expected


def llama_layer(g: Graph, x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    hidden = g.emit("multiply", [g.emit("logistic", [matmul(g, x, gate)]), matmul(g, x, up)])
    return matmul(g, hidden, down)


def giant(bug: bool) -> Pair:
    """Feed-forward layers of 405B size (hidden 16384, inner 53248) over 16 ranks, 8 of them with residuals."""
    pair = Pair({"tp": 16})
    x, dx = pair.input((4096, 16384), dtype="f32")
    for layer in range(8):
        weights = [
            pair.input(shape, {dim: "tp"})
            for shape, dim in (((16384, 53248), 1), ((16384, 53248), 1), ((53248, 16384), 0))
        ]
        y = llama_layer(pair.base, x, *(w for w, _ in weights))
        z = llama_layer(pair.dist, dx, *(w for _, w in weights))
        if not (bug and layer == 5):
            z = pair.dist.emit("all-reduce", [z], reducer="sum", groups=pair.groups("tp"))
        x, dx = pair.base.emit("add", [x, y]), pair.dist.emit("add", [dx, z])
    pair.outputs(x, dx)
    return pair


@pytest.mark.parametrize("bug", [False, True])
def test_a_405b_sized_graph_runs_in_little_memory(bug: bool) -> None:
    p = program(giant(bug))
    assert elements(p) > 10**11
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    search = find_counterexample(p)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB
    assert search.sizes == "shrunk"
    assert search.status == ("refuted" if bug else "agrees")
    if bug:
        assert search.best is not None
        assert search.best.place is not None
        assert search.best.place.op == "add~6"  # adds a sum that is still pending


def test_a_difference_below_the_rounding_of_sums_is_none() -> None:
    """(a + b) + c and a + (b + c) differ in the last bits."""
    pair = Pair({"tp": 2})
    values = [pair.input((64, 64)) for _ in range(3)]
    logs = [[g.emit("exponential", [v[i]]) for v in values] for i, g in enumerate((pair.base, pair.dist))]
    b, d = pair.base, pair.dist
    pair.outputs(
        b.emit("add", [b.emit("add", logs[0][:2]), logs[0][2]]), d.emit("add", [logs[1][0], d.emit("add", logs[1][1:])])
    )
    assert find_counterexample(program(pair)).status == "agrees"


def test_a_small_constant_that_differs_is_found() -> None:
    """An epsilon of 1e-6 instead of 1e-5 below a root."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16))
    results = []
    for g, v, epsilon in ((pair.base, x, 1e-5), (pair.dist, dx, 1e-6)):
        total = g.emit("reduce", [g.emit("multiply", [v, v])], dimensions=[1], reducer="sum")
        root = g.emit("rsqrt", [g.emit("add", [total, g.splat(epsilon, "f32", (8,))])])
        results.append(g.emit("multiply", [v, spread(g, root, (8, 16), [0])]))
    pair.outputs(*results)
    assert find_counterexample(program(pair)).status == "refuted"


def test_a_cast_on_one_side_is_a_matter_of_precision() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16))
    d = pair.dist
    pair.outputs(x, d.emit("convert", [d.emit("convert", [dx], dtype="bf16")], dtype="f32"))
    search = find_counterexample(program(pair))
    assert search.status == "witness"
    assert search.best is not None
    assert search.best.kind == "precision"
    assert abs(search.best.mismatch.expected - search.best.mismatch.actual) < 2**-8
    assert find_counterexample(program(pair), rounding=False).status == "agrees"


def test_an_input_that_nothing_relates_refutes_nothing() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16))
    pair.outputs(pair.base.emit("negate", [x]), pair.dist.emit("negate", [dx]))
    pair._shards.clear()
    search = find_counterexample(program(pair))
    assert search.status == "witness"
    assert search.best is not None
    assert "related to no baseline input" in search.best.reason


def test_an_output_whose_shape_fits_no_placement_is_inconclusive() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16))
    pair.outputs(x, pair.dist.emit("concatenate", [dx, dx], dimension=0))
    search = find_counterexample(program(pair))
    assert search.status == "inconclusive"
    assert "no placement that is accepted unasked fits" in search.problems[0]


def test_a_baseline_that_is_undefined_on_negative_numbers_is_drawn_positive() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16), {0: "tp"})
    pair.outputs(pair.base.emit("log", [x]), pair.dist.emit("sqrt", [dx]))
    search = find_counterexample(program(pair))
    assert search.status == "refuted"
    assert search.best is not None
    assert search.best.draw == "positive"


def test_pending_parts_of_an_input_add_up() -> None:
    pair = Pair({"dp": 2, "tp": 2})
    x, dx = pair.input((8, 16), {0: "dp"}, pending={"tp": "sum"})
    pair.outputs(
        pair.base.emit("negate", [x]),
        pair.dist.emit("all-reduce", [pair.dist.emit("negate", [dx])], reducer="sum", groups=pair.groups("tp")),
    )
    assert find_counterexample(program(pair)).status == "agrees"


def test_the_maximum_of_sums_is_not_the_sum_of_maxima() -> None:
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = (pair.input((8,), pending={"tp": "max"}) for _ in range(2))
    total = pair.dist.emit("all-reduce", [pair.dist.emit("add", [dx, dy])], reducer="max", groups=pair.groups("tp"))
    pair.outputs(pair.base.emit("add", [x, y]), total)
    assert find_counterexample(program(pair)).status == "refuted"


def test_ctrl_c_leaves_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def progress(done: int, total: int, what: str) -> None:
        calls.append(done)
        raise KeyboardInterrupt

    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 8))
    for _ in range(80):
        x, dx = pair.base.emit("sine", [x]), pair.dist.emit("sine", [dx])
    pair.outputs(x, dx)
    search = find_counterexample(program(pair), progress=progress)
    assert calls
    assert search.status == "interrupted"
    assert "interrupted after" in search.problems[-1]


def test_two_runs_give_the_same_answer() -> None:
    p = program(row_parallel(reducer="max"))
    first, second = find_counterexample(p), find_counterexample(p)
    assert first.best is not None
    assert second.best is not None
    assert first.best.as_dict() == second.best.as_dict()
    assert np.isfinite(first.best.mismatch.share)


def test_a_place_too_few_is_found_where_all_tokens_choose_alike() -> None:
    """Seven places for eight tokens: only where all of them choose one expert a token is left out."""
    pair = Pair({"ep": 2})
    (x, dx), (_, dw) = pair.input((8, 6)), pair.input((6, 4))
    g = pair.dist
    scores = matmul(g, dx, dw)
    most = g.emit("reduce", [scores], dimensions=[1], reducer="max")
    chosen = g.emit("compare", [scores, spread(g, most, (8, 4), [0])], dtype="pred", direction="EQ")
    hot = g.emit("convert", [chosen], dtype="f32")
    place = g.emit("multiply", [g.emit("cumulative", [hot], dimension=0, reducer="sum"), hot])
    place = g.emit("reduce", [place], dimensions=[1], reducer="sum")
    kept = g.emit("compare", [place, spread(g, g.constant(7.0, "f32"), (8,), [])], dtype="pred", direction="LE")
    pair.outputs(x, g.emit("multiply", [dx, spread(g, g.emit("convert", [kept], dtype="f32"), (8, 6), [0])]))
    best = find_counterexample(program(pair)).best
    assert best is not None
    assert (best.kind, best.draw) == ("refutation", "crowded")


def test_the_partner_of_one_of_several_alike_is_the_one_in_its_place_or_none() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4))
    a, da = pair.input((8, 4))
    for n in range(2):
        bounds = {"start": [4 * n, 0], "limit": [4 * n + 4, 4], "stride": [1, 1]}
        pair.outputs(*(g.emit("slice", [v], shape=(4, 4), **bounds) for g, v in ((pair.base, x), (pair.dist, dx))))
    for b, d in ((a, da), (x, dx)):
        pair.outputs(pair.base.emit("multiply", [x, b]), pair.dist.emit("multiply", [dx, d]))
    p = program(pair)
    ops = {op.id: op for g in p.top("dist") for op in g.ops}
    base = {x.name: f"base/{x.name}", a.name: f"base/{a.name}"}
    for name, held, partner in (
        ("slice", [{base[x.name]}], "base/slice"),
        ("slice~2", [{base[x.name]}], "base/slice~2"),
        ("multiply", [{base[x.name]}, {base[a.name]}], "base/multiply"),
        ("multiply", [{base[x.name]}, set[str]()], None),
        ("multiply", [set[str](), set[str]()], None),
    ):
        found = _partner(p, ops[name], held)
        assert (found.id if found else None) == partner


def test_of_outputs_from_one_place_the_one_that_differs_most_is_shown() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), {0: "tp"})
    y = pair.base.emit("reduce", [x], shape=(4,), reducer="sum", dimensions=[0])
    dy = pair.dist.emit("reduce", [dx], shape=(4,), reducer="sum", dimensions=[0])
    million = [g.emit("broadcast", [g.constant(10**6, "f32")], shape=(4,)) for g in (pair.base, pair.dist)]
    pair.outputs(pair.base.emit("add", [y, million[0]]), pair.dist.emit("add", [dy, million[1]]))
    pair.outputs(y, dy)
    best = find_counterexample(program(pair)).best
    assert best is not None
    assert best.output == dy.name


@pytest.mark.parametrize("actual", [1e308j, complex(-1e308, 1e308), 0.0])
def test_numbers_near_the_largest_are_set_apart(actual: complex) -> None:
    """Their difference is more than a number can be."""
    mismatch = Mismatch(0, (), complex(1.7e308, 1.7e308), actual, 1.0)
    found = Counterexample("refutation", "", "y", "base/y", "y", 0, "reals", "own", "", mismatch, (), ())
    assert found.telling == 2.0
    assert not found.faint
