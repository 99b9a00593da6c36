"""Operands that are not the baseline's: the right one is found where nobody reads it, and beside another bug."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report
from scalify_dl.readers.relations import parse_relations
from scalify_dl.report.conclude import conclude

MESH = Mesh.parse("tp=2")


def gated(squashed: str = "gate", multiplied: str = "up", reducer: str = "sum") -> Report:
    """A gated MLP whose distributed side reads, and reduces, as is said."""
    sides = []
    for name, width, what in (("base", 8, ("gate", "up", "sum")), ("dist", 4, (squashed, multiplied, reducer))):
        p = Program(name, MESH)
        both = p.matmul(p.input("x", (2, 4)), p.input("w", (4, 2 * width)))
        parts = {"gate": p.slice(both, 1, 0, width), "up": p.slice(both, 1, width, 2 * width)}
        silu = p.multiply(parts["gate"], p.logistic(parts[what[0]]))
        y = p.matmul(p.multiply(parts[what[1]], silu), p.input("down", (width, 4)))
        p.output(p.all_reduce(y, "tp", what[2]) if name == "dist" else y)
        sides.append(p.graph)
    given = "inputs:\n  w: {dims: {1: [tp]}, parts: {dim: 1, sizes: [8, 8]}}\n  down: {dims: {0: [tp]}}\n"
    return conclude(analyse(tables(sides[0], [sides[1]], MESH, parse_relations(given)), Options()))


@pytest.mark.parametrize(
    ("wrong", "kinds"),
    [
        ({"multiplied": "gate"}, ["multiply"]),  # nobody reads `up`
        ({"squashed": "up", "reducer": "max"}, ["logistic", "all-reduce"]),
    ],
)
def test_operands_that_are_not_the_baselines_are_mended(wrong: dict[str, str], kinds: list[str]) -> None:
    found = gated(**wrong)
    assert found.verdict == "REFUTED"
    assert [cause.kind for cause in found.frontier] == kinds
    assert any(text.startswith("read ") for text in found.frontier[0].suggestion)
    assert all("PROVED" in text for cause in found.frontier for text in cause.tried)


def summed(behind: Callable[[Program, Tensor], Tensor]) -> Report:
    """The running sum of a row-parallel product, with something behind its sum."""
    sides = []
    for name, width in (("base", 8), ("dist", 4)):
        p = Program(name, MESH)
        y = p.matmul(p.input("x", (2, width)), p.input("w", (width, 4)))
        p.output(p.cumulative(y, 1, "sum") if name == "base" else behind(p, p.all_reduce(y, "tp", "sum")))
        sides.append(p.graph)
    given = "inputs:\n  x: {dims: {1: [tp]}}\n  w: {dims: {0: [tp]}}\n"
    return conclude(analyse(tables(sides[0], [sides[1]], MESH, parse_relations(given)), Options()))


@pytest.mark.parametrize(
    ("behind", "found", "advice"),
    [
        (lambda p, y: p.cumulative(y, 0, "sum"), "dimension is 0, the baseline's is 1", "dimension 1 instead of 0"),
        (lambda p, y: p.cumulative(p.multiply(y, 0.5), 1, "sum"), "a factor 1/2 enters here", "reduce with sum, not"),
    ],
)
def test_an_attribute_and_a_mean_are_told_as_such(
    behind: Callable[[Program, Tensor], Tensor], found: str, advice: str
) -> None:
    (cause,) = summed(behind).frontier
    assert cause.found[0].startswith(found)
    assert cause.suggestion[0].startswith(advice)


@pytest.mark.parametrize("in_a_dim", [False, True])
def test_a_weight_that_holds_two_is_told_with_its_parts(in_a_dim: bool) -> None:
    """Slices take the parts, or a dim of their own does, as torch's even splits are read."""
    sides = []
    for name, width in (("base", 8), ("dist", 4)):
        p = Program(name, MESH)
        both = p.matmul(p.input("x", (2, 4)), p.input("w", (4, 2 * width)))
        if in_a_dim:
            rows = p.reshape(both, (2, 2, width))
            q, k = (p.reshape(p.slice(rows, 1, n, n + 1), (2, width)) for n in range(2))
        else:
            q, k = p.slice(both, 1, 0, width), p.slice(both, 1, width, 2 * width)
        y = p.matmul(p.multiply(p.tanh(q), k), p.input("down", (width, 4)))
        p.output(p.all_reduce(y, "tp", "sum") if name == "dist" else y)
        sides.append(p.graph)
    (cause,) = conclude(analyse(tables(sides[0], [sides[1]], MESH, parse_relations("{}")), Options())).frontier
    assert "parts: {dim: 1, sizes: [8, 8]}" in cause.suggestion[0]
    assert cause.tried == ("with this, all outputs are PROVED",)


def decayed(decay: float, other: float = 0.99, divides: bool = False) -> Report:
    """A step of weights that decay, and of others that do: the distributed side scales the first by its own number."""
    sides = []
    for name, number in (("base", 0.99), ("dist", decay)):
        p = Program(name, MESH)
        x = p.input("x", (2, 4))
        for n, by in ((0, number), (1, other if name == "dist" else 0.99)):
            w = p.input(f"w{n}", (4, 4))
            scaled = p.divide(w, by) if divides else p.multiply(w, by)
            p.output(p.subtract(scaled, p.matmul(p.transpose(x, 1, 0), p.matmul(x, w))))
        sides.append(p.graph)
    given = "inputs:\n  x: {dims: {}}\n  w0: {dims: {}}\n  w1: {dims: {}}\n"
    return conclude(analyse(tables(sides[0], [sides[1]], MESH, parse_relations(given)), Options()))


@pytest.mark.parametrize("divides", [False, True])
def test_a_value_that_both_scale_is_told_with_both_numbers(divides: bool) -> None:
    found = decayed(0.999, divides=divides)
    assert found.verdict == "REFUTED"
    (cause,) = found.frontier
    assert cause.found[0] == "it multiplies by 0.999, where the baseline has 0.99".replace(
        "multiplies", "divides" if divides else "multiplies"
    )
    assert cause.suggestion == ("0.99 instead of 0.999",)
    assert cause.tried == ("with this edit all outputs are PROVED",)
    assert decayed(0.99, divides=divides).verdict == "PROVED"


def test_a_factor_that_the_baseline_does_not_have_is_no_other_number() -> None:
    sides = []
    for name in ("base", "dist"):
        p = Program(name, MESH)
        w, x = p.input("w", (4, 4)), p.input("x", (2, 4))
        y = p.matmul(x, w)
        p.output(p.subtract(y if name == "base" else p.multiply(y, 0.5), p.tanh(x)))
        sides.append(p.graph)
    given = "inputs:\n  x: {dims: {}}\n  w: {dims: {}}\n"
    found = conclude(analyse(tables(sides[0], [sides[1]], MESH, parse_relations(given)), Options()))
    assert found.verdict == "REFUTED"
    assert not any("where the baseline has" in text for cause in found.frontier for text in cause.found)
