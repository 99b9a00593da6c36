"""The executor: collectives, loops, branches, several programs, random masks, uninitialised memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph
from scalify_dl.oracle import find_counterexample, load_program, run_trial
from scalify_dl.oracle.execute import Deadlock

from .small import program, row_parallel

COLLECTIVES = [
    ("all-gather", {"dimension": 0}, lambda xs: [np.concatenate(xs)] * 4),
    ("all-reduce", {"reducer": "sum"}, lambda xs: [sum(xs)] * 4),
    ("all-reduce", {"reducer": "max"}, lambda xs: [np.max(xs, axis=0)] * 4),
    ("reduce-scatter", {"reducer": "sum", "dimension": 0}, lambda xs: np.split(sum(xs), 4)),
    (
        "all-to-all",
        {"split_dimension": 0, "concat_dimension": 1},
        lambda xs: [np.concatenate([np.split(x, 4)[i] for x in xs], axis=1) for i in range(4)],
    ),
    ("collective-broadcast", {}, lambda xs: [xs[0]] * 4),
]


@pytest.mark.parametrize(("kind", "attributes", "expected"), COLLECTIVES)
def test_collectives_act_in_group_order(kind: str, attributes: dict[str, Any], expected: Any) -> None:
    order = [2, 0, 3, 1]
    pair = Pair({"tp": 4})
    x, dx = pair.input((16, 3), {0: "tp"})
    z = pair.dist.emit(kind, [dx], groups=[order], **attributes)
    pair.base.output(x)
    pair.dist.output(z)
    trial = run_trial(program(pair), 1, "reals")
    blocks = np.split(trial.baseline["base/x0"], 4)
    wanted = expected([blocks[rank] for rank in order])
    for position, rank in enumerate(order):
        np.testing.assert_array_equal(trial.distributed[kind][rank], wanted[position])


def test_ranks_without_a_source_receive_zeros() -> None:
    pair = Pair({"tp": 3})
    x, dx = pair.input((3,), {0: "tp"})
    pair.base.output(x)
    pair.dist.output(pair.dist.emit("collective-permute", [dx], pairs=[(0, 1), (1, 2)]))
    trial = run_trial(program(pair), 1, "reals")
    values = trial.distributed["collective-permute"]
    assert values[0] == 0
    np.testing.assert_array_equal(np.concatenate([values[1], values[2]]), trial.baseline["base/x0"][:2])


def test_a_rank_in_no_group_is_an_error_that_names_the_op() -> None:
    search = find_counterexample(program(row_parallel(3, groups=[[0, 1]])))
    assert search.status == "inconclusive"
    assert "all-reduce" in search.problems[0]
    assert "[2]" in search.problems[0]


def _loop(g: Graph, x: Any, times: int, reduce: bool, groups: list[list[int]]) -> Any:
    """x doubled `times` times, summed over the ranks each time where asked."""
    condition, body = Graph("condition"), Graph("body")
    i, _ = condition.input("i", "s32", ()), condition.input("x", "f32", x.shape)
    condition.output(condition.emit("compare", [i, condition.constant(times, "s32")], direction="LT"))
    j, y = body.input("i", "s32", ()), body.input("x", "f32", x.shape)
    body.output(body.emit("add", [j, body.constant(1, "s32")]))
    body.output(body.emit("all-reduce", [y], reducer="sum", groups=groups) if reduce else body.emit("add", [y, y]))
    zero = g.constant(0, "s32")
    return g.add("while", [zero, x], [("s32", ()), ("f32", x.shape)], regions=[condition, body]).results[1]


def test_loops_with_collectives_run_in_lockstep() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2))
    pair.outputs(_loop(pair.base, x, 3, False, []), _loop(pair.dist, dx, 3, True, pair.groups("tp")))
    assert find_counterexample(program(pair)).status == "agrees"


@pytest.mark.parametrize("taken", [0, 1])
def test_branches_are_taken_per_rank(taken: int) -> None:
    def branches() -> list[Graph]:
        graphs = []
        for kind in ("sine", "cosine"):
            g = Graph(kind)
            x = g.input("x", "f32", (4, 2))
            g.output(g.emit(kind, [x]))
            graphs.append(g)
        return graphs

    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2))
    index = pair.dist.constant(taken, "s32")
    z = pair.dist.add("conditional", [index, dx, dx], [("f32", (4, 2))], regions=branches()).result
    pair.outputs(pair.base.emit(("sine", "cosine")[taken], [x]), z)
    assert find_counterexample(program(pair)).status == "agrees"


def _two_programs(crossed: bool) -> dict[str, list[tuple[Any, ...]]]:
    """The row-parallel layer with a program of its own for each rank."""
    tables = row_parallel().tables()
    copies: dict[str, list[tuple[Any, ...]]] = {name: list(rows) for name, rows in tables.items()}
    own = {
        "op": {o for o, g, _ in tables["op"] if g == "dist"},
        "tensor": {t for t, g, *_ in tables["tensor"] if g == "dist"},
    }
    renamed = {  # which columns name an op, a tensor or a graph
        "op": "og", "operand": "o t", "result": "o t", "attr_number": "o", "attr_symbol": "o", "tensor": "tg",
        "dim": "t", "tensor_name": "t", "output_name": "t", "graph": "g", "input": "g t", "output": "g t",
    }  # fmt: skip
    for name, columns in renamed.items():
        for row in tables[name]:
            if row[0] in own["op" if columns[0] == "o" else "tensor"] or row[0] == "dist":
                marked = [f"{cell}'" if column != " " else cell for cell, column in zip(row, columns, strict=False)]
                copies[name].append((*marked, *row[len(columns) :]))
    copies["shard"] += [(f"{d}'", *rest) for d, *rest in tables["shard"]]
    copies["group"] += [(f"{op}'", *rest) for op, *rest in tables["group"]]
    if crossed:
        copies["group"] = [(op, g, p, r) for op, g, p, r in copies["group"] if not (op.endswith("'") and r == 0)]
        copies["group"] = [(op, g, 0 if op.endswith("'") else p, r) for op, g, p, r in copies["group"]]
    copies["runs"] = [("dist", 0), ("dist'", 1)]
    return copies


def test_several_programs_meet_at_their_collectives() -> None:
    trial = run_trial(load_program(_two_programs(False)), 1, "reals")
    np.testing.assert_allclose(trial.distributed["all-reduce'"][1], trial.baseline["base/dot"], rtol=1e-12)
    np.testing.assert_array_equal(trial.distributed["all-reduce"][0], trial.distributed["all-reduce'"][1])


def test_programs_that_never_meet_are_a_deadlock() -> None:
    with pytest.raises(Deadlock, match="all-reduce"):
        run_trial(load_program(_two_programs(True)), 1, "reals")


def _dropout(shape: tuple[int, ...], split: dict[int, str], twice: bool = False) -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input(shape, split)
    results = []
    for g, v in ((pair.base, x), (pair.dist, dx)):
        masks = [
            g.emit("convert", [g.emit("dropout-mask", [v], probability="0.5")], dtype="f32") for _ in range(1 + twice)
        ]
        y = g.emit("multiply", [v, masks[0]])
        results.append(g.emit("add", [y, g.emit("multiply", [v, masks[1]])]) if twice else y)
    pair.outputs(*results)
    return pair


@pytest.mark.parametrize("split", [{}, {0: "tp"}, {1: "tp"}])
@pytest.mark.parametrize("twice", [False, True])
def test_a_mask_of_a_shard_is_the_shard_of_the_mask(split: dict[int, str], twice: bool) -> None:
    assert find_counterexample(program(_dropout((8, 6), split, twice))).status == "agrees"


def test_a_mask_without_a_counterpart_refutes_nothing() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 6))
    d = pair.dist
    mask = d.emit("convert", [d.emit("dropout-mask", [dx], probability="0.5")], dtype="f32")
    pair.outputs(x, d.emit("multiply", [dx, mask]))
    search = find_counterexample(program(pair))
    assert search.status == "witness"
    assert search.best is not None
    assert "corresponds to no baseline draw" in search.best.reason


def test_use_of_uninitialised_memory_shows() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 6))
    d = pair.dist
    memory = d.emit("empty", [], dtype="f32", shape=(8, 6))
    pair.outputs(x, d.emit("add", [dx, d.emit("multiply", [memory, d.splat(0.0, "f32", (8, 6))])]))
    search = find_counterexample(program(pair))
    assert search.status == "refuted"
    assert search.best is not None
    assert np.isnan(search.best.mismatch.actual)


def test_a_difference_through_an_opaque_call_is_a_witness() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 6))
    calls = [g.add("custom:mystery", [v], [("f32", (8, 6))]).result for g, v in ((pair.base, x), (pair.dist, dx))]
    pair.outputs(calls[0], pair.dist.emit("negate", [calls[1]]))
    search = find_counterexample(program(pair))
    assert search.status == "witness"
    assert search.best is not None
    assert "custom:mystery" in search.best.reason


def test_equal_opaque_calls_on_equal_operands_agree() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 6))
    calls = [g.add("custom:mystery", [v], [("f32", (8, 6))]).result for g, v in ((pair.base, x), (pair.dist, dx))]
    pair.outputs(*calls)
    assert find_counterexample(program(pair)).status == "agrees"


def test_an_op_without_a_meaning_makes_the_search_inconclusive() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 6))
    sends = [g.add("send", [v], [("f32", (8, 6))]).result for g, v in ((pair.base, x), (pair.dist, dx))]
    pair.outputs(*sends)
    search = find_counterexample(program(pair))
    assert search.status == "inconclusive"
    assert "no meaning for `send`" in search.problems[0]


def test_broadcast_values_are_shared_between_ranks() -> None:
    pair = Pair({"tp": 4})
    x, dx = pair.input((6,))
    pair.outputs(spread(pair.base, x, (4, 6), [1]), spread(pair.dist, dx, (4, 6), [1]))
    values = run_trial(program(pair), 0, "reals").distributed["broadcast"]
    assert len({id(v) for v in values.values()}) == 1
