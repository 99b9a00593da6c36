"""Another function of a value than the baseline's, element by element: the baseline's, in its place, proves all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.facts.model import Facts
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
Function = Callable[[Program, Tensor], Tensor]


def silu(p: Program, h: Tensor) -> Tensor:
    return p.multiply(h, p.logistic(h))


def squared(p: Program, h: Tensor) -> Tensor:
    r = p.maximum(h, 0)
    return p.multiply(p.multiply(r, r), 0.5)


FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "one op for another": (lambda p, h: p.tanh(h), lambda p, h: p.sine(h)),
    "one op for two": (silu, lambda p, h: p.tanh(h)),
    "two ops for one": (lambda p, h: p.tanh(h), silu),
    "with a constant": (squared, silu),
}


def facts(base: Function, dist: Function) -> Facts:
    sides = []
    for name, f, width in (("base", base, 8), ("dist", dist, 4)):
        p = Program(name, MESH)
        h = p.matmul(p.input("x", (2, 4)), p.input("up", (4, width)))
        y = p.matmul(f(p, h), p.input("down", (width, 4)))
        p.output(p.all_reduce(y, "tp", "sum") if name == "dist" else y)
        sides.append(p.graph)
    given = 'inputs:\n  "up": {dims: {1: [tp]}}\n  "down": {dims: {0: [tp]}}\n'
    return tables(sides[0], [sides[1]], MESH, parse_relations(given))


def report(base: Function, dist: Function) -> Report:
    return conclude(analyse(facts(base, dist), Options()))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_baselines_function_is_put_in_place_of_another(name: str) -> None:
    found = report(*FUNCTIONS[name])
    assert found.verdict == "REFUTED"
    (cause,) = found.frontier
    assert any("the baseline computes" in text for text in cause.found), cause.found
    assert any(text.startswith("compute ") for text in cause.suggestion)
    assert cause.tried == ("with this edit the output is PROVED",)


def test_a_function_of_another_value_is_none() -> None:
    """What reads along a dim, or another input, is not copied."""
    found = report(lambda p, h: p.multiply(h, p.reverse(h, 0)), silu)
    assert found.verdict == "REFUTED"
    assert not any("compute" in text for cause in found.frontier for text in cause.suggestion)


def test_nothing_is_said_against_an_op_whose_meaning_is_invented() -> None:
    def opaque(p: Program, h: Tensor) -> Tensor:
        (made,) = p.custom("MyGelu", [h], [("f32", h.shape)])
        return made

    found = report(opaque, opaque)
    assert found.verdict == "UNKNOWN"
    (cause,) = found.frontier
    assert (cause.kind, cause.found) == ("custom:MyGelu", ())
    assert "--rules adds one" in (cause.lemma_missing or "")
