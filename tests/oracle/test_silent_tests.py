"""Truths that look for infinities without saying so: what inputs have no say in is none, and no run is made for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import finiteness

from .small import program


def counted(g: Graph, x: Tensor) -> Tensor:
    """x doubled three times."""
    return loop(g, x, lambda body, y: body.constant(1, "s32"))


def told(g: Graph, x: Tensor) -> Tensor:
    """The same, the steps counted by what is one for numbers: x - x == 0."""

    def step(body: Graph, y: Tensor) -> Tensor:
        first = body.emit("reshape", [body.emit("slice", [y], start=[0], limit=[1], stride=[1])], shape=[])
        zero = body.emit("compare", [body.emit("subtract", [first, first]), body.constant(0.0, "f32")], direction="EQ")
        return body.emit("convert", [zero], dtype="s32")

    return loop(g, x, step)


def loop(g: Graph, x: Tensor, step: Callable[[Graph, Tensor], Tensor]) -> Tensor:
    condition, body = Graph("condition"), Graph("body")
    i, _ = condition.input("i", "s32", ()), condition.input("x", "f32", x.shape)
    condition.output(condition.emit("compare", [i, condition.constant(3, "s32")], direction="LT"))
    j, y = body.input("i", "s32", ()), body.input("x", "f32", x.shape)
    body.output(body.emit("add", [j, step(body, y)]))
    body.output(body.emit("add", [y, y]))
    results = [("s32", ()), ("f32", x.shape)]
    return g.add("while", [g.constant(0, "s32"), x], results, regions=[condition, body]).results[1]


def ranked(g: Graph, x: Tensor) -> Tensor:
    """What a rank makes of its number."""
    place = g.emit("convert", [g.emit("partition-id", [], dtype="u32", shape=[])], dtype="s32")
    below = g.emit("compare", [place, g.constant(2, "s32")], direction="LT")
    return g.emit("select", [g.emit("broadcast", [below], shape=x.shape, dimensions=[]), x, x])


def drawn(g: Graph, x: Tensor) -> Tensor:
    shown = g.emit("compare", [g.emit("subtract", [x, x]), g.splat(0.0, "f32", x.shape)], direction="EQ")
    return g.emit("select", [shown, x, g.splat(0.0, "f32", x.shape)])


@pytest.mark.parametrize(
    ("make", "asked"), [(counted, 0), (ranked, 0), (told, 5), (drawn, 1)], ids=["counted", "ranked", "told", "drawn"]
)
def test_what_inputs_have_no_say_in_is_not_asked(make: Callable[[Graph, Tensor], Tensor], asked: int) -> None:
    """Of a loop whose steps inputs count, the counter, its test and what counts are."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,))
    pair.outputs(pair.base.emit("add", [x, x]), make(pair.dist, dx))
    found = finiteness._truths(program(pair))
    assert len(found["dist"]) == asked, found
    assert not found["base"]


def test_no_run_is_made_where_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    monkeypatch.setattr(finiteness, "run_trial", lambda *args, **more: runs.append(args[2]))
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,))
    pair.outputs(counted(pair.base, x), counted(pair.dist, dx))
    assert not list(finiteness.noticed_silently(program(pair), range(3), []))
    assert not runs
