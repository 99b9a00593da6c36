"""Bugs of what functions are handed, and of gradients that nobody sums: the line that calls, or sums, leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalify_dl.audit.pair import spread
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.verdict import Frame, RootCause
from scalify_dl.prove.view import View
from scalify_dl.report.callers import frames_to_blame

from .test_mending_lines import Lined
from .test_mending_steps import first_cause, positions_that_start_at_zero
from .test_mending_where import summed

Frames = Sequence[tuple[str, int, str]]


def placed(facts: Facts, base: Frames, dist: Frames) -> Facts:
    """Facts whose ops all have the frames of their side."""
    roles = dict(facts["graph"])
    facts.tables["source"] = [
        (op, pos, *frame)
        for op, graph, _ in facts["op"]
        for pos, frame in enumerate(base if roles[graph] == "base" else dist)
    ]
    return facts


def test_a_function_of_both_programs_was_handed_something_else() -> None:
    model = ("net.py", 5, "forward")
    called = [("step.py", 20, "base")], [("step.py", 40, "dist")]
    first = first_cause(placed(positions_that_start_at_zero(), *([model, *rest] for rest in called)))
    assert [frame.line for frame in first.source] == [40]
    first = first_cause(placed(positions_that_start_at_zero(), [model, *called[0]], [("net.py", 6, "own"), *called[1]]))
    assert [frame.line for frame in first.source] == [6, 40]


def frames_of(ops: dict[str, tuple[str, Frames]], *, right: str, handed: int = 1) -> list[int]:
    """Lines of the frames to blame for the op `wrong`, of ops with their kinds and frames."""
    tables: dict[str, list[tuple[Any, ...]]] = {
        "graph": [("base", "base"), ("dist", "dist")],
        "op": [(op, "base" if op == "base" else "dist", kind) for op, (kind, _) in ops.items()],
        "result": [(op, 0, f"{op}.0") for op in ops],
        "source": [(op, pos, *frame) for op, (_, frames) in ops.items() for pos, frame in enumerate(frames)],
    }
    kind, frames = ops["wrong"]
    cause = RootCause("wrong", "wrong", kind, tuple(Frame(*f) for f in frames), (), (), (), (), None)
    view = View(lambda name: tables.get(name, []), lambda name: [])
    return [frame.line for frame in frames_to_blame(view, cause, {f"{right}.0"}, handed=handed)]


def test_a_function_that_does_one_thing_was_handed_something_else() -> None:
    inner, outer, step = ("s.py", 3, "to_heads"), ("s.py", 7, "loss"), ("s.py", 9, "step")
    ops: dict[str, tuple[str, Frames]] = {
        "wrong": ("all-to-all", [inner, outer, step]), "other": ("all-to-all", [inner, outer, step])
    }  # fmt: skip
    assert frames_of(ops, right="other") == [7, 9]
    assert frames_of(ops, right="none") == [3, 7, 9]  # it may be wrong itself
    ops["sum"] = ("add", [inner, outer, step])
    assert frames_of(ops, right="other") == [3, 7, 9]  # one of several ops of it may be


def test_the_baseline_needs_no_collective() -> None:
    inner = ("s.py", 3, "forward")
    ops: dict[str, tuple[str, Frames]] = {
        "wrong": ("dot", [inner, ("s.py", 9, "step")]), "base": ("dot", [inner, ("s.py", 5, "base")])
    }  # fmt: skip
    assert frames_of(ops, right="none") == [9]
    assert frames_of(ops, right="none", handed=0) == [3, 9]


def test_functions_that_call_each_other_hand_it_on() -> None:
    inner, outer = ("s.py", 3, "positions"), ("s.py", 5, "forward")
    ops: dict[str, tuple[str, Frames]] = {
        "wrong": ("iota", [inner, outer, ("s.py", 9, "step")]), "base": ("iota", [inner, outer, ("s.py", 7, "base")])
    }  # fmt: skip
    assert frames_of(ops, right="none", handed=2) == [9]
    assert frames_of(ops, right="none") == [5, 9]
    ops["base"] = ops["wrong"]
    assert frames_of(ops, right="base", handed=2) == [3, 5, 9]  # one caller tells nothing


def shares(graph: Graph, tensor: Tensor, count: int) -> Tensor:
    return graph.emit("multiply", [tensor, spread(graph, graph.constant(1 / count, "f32"), tensor.shape, ())])


def a_mean_of_the_loss_alone(sums: int = 11, gradients: int = 2, *, moments: bool = False) -> Facts:
    """The loss is averaged over dp at line `sums`, gradients of lines 3, 4 are not; line 13 makes steps with
    them. `moments`: it reads all of line 3, more than once."""
    pair = Lined({"dp": 2})
    base, dist = pair.base, pair.dist
    pairs = [pair.input((4, 3 + n), {0: "dp"}) for n in range(gradients)]
    weights = [pair.input((3 + n,)) for n in range(gradients)]
    found = []
    for line, (x, dx) in enumerate(pairs, 3):
        found.append((summed(base, shares(base, x, 4)), summed(dist, shares(dist, dx, 2))))
        pair.at(3 if moments else line)
    losses = [
        graph.emit("reduce", [graph.emit("multiply", [t, t])], dimensions=[0, 1], reducer="sum")
        for graph, t in zip((base, dist), pairs[0], strict=True)
    ]
    pair.at(5)
    pair.outputs(losses[0], pair.all_reduced(losses[1]))
    pair.at(sums)
    for (w, dw), (whole, part) in zip(weights, found, strict=True):
        pair.outputs(base.emit("subtract", [w, whole]), dist.emit("subtract", [dw, part]))
        if moments:
            pair.outputs(
                base.emit("add", [w, shares(base, whole, 2)]), dist.emit("add", [dw, shares(dist, part, 2)])
            )
    pair.at(13)
    facts = pair.facts()
    roles = {op: dict(facts["graph"])[graph] for op, graph, _ in facts["op"]}
    rows = [(op, f"{roles[op]}.py", line) for op, _, _, line, _ in facts["source"]]
    facts.tables["source"] = [(op, 0, file, line, "step") for op, file, line in rows if line > 4]
    for op, file, line in rows:
        if line <= 4:
            facts.tables["source"] += [(op, 0, file, line, "the backward of loss")]
            facts.tables["source"] += [(op, 1, file, 10, "the backward of step")]
    return facts


def test_gradients_that_nobody_sums_lack_a_sum_where_all_are_at_hand() -> None:
    first = first_cause(a_mean_of_the_loss_alone())
    assert (first.kind, first.source[0].line) == ("all-reduce", 11)  # beside the sum of something else
    assert "gradients that are made before it go on unsummed" in " ".join(first.found)
    assert "all-reduce(sum) over dp" in " ".join(first.suggestion)
    assert "PROVED" in " ".join(first.tried)
    assert first_cause(a_mean_of_the_loss_alone(sums=15)).source[0].line == 13  # none between: who reads them
    assert first_cause(a_mean_of_the_loss_alone(moments=True)).source[0].line == 11
    assert first_cause(a_mean_of_the_loss_alone(sums=15, moments=True)).source[0].line == 13
    assert first_cause(a_mean_of_the_loss_alone(gradients=1, moments=True)).source[0].line == 3
    assert first_cause(a_mean_of_the_loss_alone(gradients=1)).source[0].line == 3  # its own way may lack it
