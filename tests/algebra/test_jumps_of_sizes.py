"""Over the reals exp(x) is above zero and finite; in f32 exp(-200) is 0. What jumps there is decided with a listed
assumption only, by rules and by formulas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.commands.check import check
from scalify_dl.facts import Facts
from scalify_dl.facts.files import write as write_facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.verdict import Report

from ..certificate.test_certificate import certified
from .programs import number, report, two
from .test_left_out import compared

Make = Callable[[Graph, Tensor, Tensor], Tensor]


def shown(g: Graph, truth: Tensor, y: Tensor) -> Tensor:
    return g.emit("select", [truth, y, number(g, 0, y)])


def exp(g: Graph, x: Tensor) -> Tensor:
    return g.emit("exponential", [x])


def of_sign(kind: str, direction: str, bound: float) -> Make:
    return lambda g, x, y: shown(g, compared(g, g.emit(kind, [x]), direction, bound), y)


def ordered(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    less = two(g, "subtract", x, number(g, 1, x))
    return shown(g, g.emit("compare", [exp(g, x), exp(g, less)], direction="GT"), y)


ODD: dict[str, Make] = {
    "exp above 0": of_sign("exponential", "GT", 0),
    "exp other than 0": of_sign("exponential", "NE", 0),
    "softplus above 0": of_sign("softplus", "GT", 0),
    "logistic above 0": of_sign("logistic", "GT", 0),
    "logistic below 1": of_sign("logistic", "LT", 1),
    "tanh below 1": of_sign("tanh", "LT", 1),
    "the sign of exp": lambda g, x, y: two(g, "multiply", g.emit("sign", [exp(g, x)]), y),
    "exp as a truth": lambda g, x, y: shown(g, g.emit("convert", [exp(g, x)], dtype="pred"), y),
    "exp is finite": lambda g, x, y: shown(g, g.emit("is-finite", [exp(g, x)]), y),
    "an order of exps": ordered,
    "a cast is finite": lambda g, x, y: shown(g, g.emit("is-finite", [g.emit("convert", [x], dtype="f16")]), y),
    "a rounding is finite": lambda g, x, y: shown(
        g, g.emit("is-finite", [g.emit("reduce-precision", [x], exponent_bits=[5], mantissa_bits=[10])]), y
    ),
    "exp over exp": lambda g, x, y: two(g, "multiply", two(g, "divide", exp(g, x), exp(g, x)), y),
    "exp below a fraction line": lambda g, x, y: shown(
        g, g.emit("is-finite", [two(g, "divide", number(g, 1, x), exp(g, x))]), y
    ),
    "the logarithm of exp": lambda g, x, y: two(g, "add", two(g, "subtract", g.emit("log", [exp(g, x)]), x), y),
}  # fmt: skip


def of_two(base: Make, dist: Make) -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((4,), {0: "tp"}), pair.input((4,), {0: "tp"})
    pair.outputs(base(pair.base, x, y), dist(pair.dist, dx, dy))
    return pair


def precisions(found: Report) -> list[str]:
    return [assumption.text for assumption in found.assumptions if assumption.why == "precision"]


@pytest.mark.parametrize("name", ODD)
def test_what_may_be_too_small_for_its_type_decides_nothing_that_is_not_listed(name: str) -> None:
    found = report(of_two(lambda g, x, y: y, ODD[name]))
    assert found.verdict != "PROVED" or precisions(found)


PLAIN: dict[str, tuple[Make, Make]] = {
    "an input": (
        lambda g, x, y: shown(g, compared(g, x, "GT"), y),
        lambda g, x, y: two(g, "subtract", y, g.emit("select", [compared(g, x, "GT"), number(g, 0, y), y])),
    ),
    "the same on both sides": (of_sign("exponential", "GT", 0), of_sign("exponential", "GT", 0)),
}


@pytest.mark.parametrize("name", PLAIN)
def test_of_what_no_rounding_decides_nothing_is_listed(name: str) -> None:
    base, dist = PLAIN[name]
    found = report(of_two(base, dist))
    assert (found.verdict, precisions(found)) == ("PROVED", [])


def test_a_certificate_that_hides_it_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = of_two(lambda g, x, y: y, ODD["exp other than 0"])
    facts = Facts({name: list(rows) for name, rows in pair.tables().items()})
    write_facts(facts, tmp_path / "facts")
    assert check(certified(facts, tmp_path / "told.jsonl.gz"), [tmp_path / "facts"], (), as_json=False) == 0
    monkeypatch.setattr("scalify_dl.prove.normal_forms.rounded_otherwise", lambda program: [])
    hidden = certified(facts, tmp_path / "hidden.jsonl.gz")
    assert check(hidden, [tmp_path / "facts"], (), as_json=False) == 3
    assert "no rounding decides" in capsys.readouterr().err
