"""Functions that have no number somewhere: what formulas say of them is so where they have one, and that is listed."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .programs import number, report, two


def of_one(kind: str) -> Pair:
    return with_flags(lambda g, x, _: g.emit(kind, [x]))


def with_flags(f) -> Pair:  # type: ignore[no-untyped-def]
    """f(x, y), and the sum of what is multiplied by 0 and by 1: where f is infinite that is no number."""
    pair = Pair({"tp": 1})
    (x, dx), (y, dy) = pair.input((2, 3)), pair.input((2, 3))

    def flagged(g: Graph, value: Tensor) -> Tensor:
        return two(g, "add", *(two(g, "multiply", value, number(g, flag, value)) for flag in (0, 1)))

    pair.outputs(f(pair.base, x, y), flagged(pair.dist, f(pair.dist, dx, dy)))
    return pair


@pytest.mark.parametrize("kind", ["power", "remainder"])
def test_a_function_of_two_numbers_is_taken_for_finite(kind: str) -> None:
    """0 to the power -1 is infinite, and by 0 nothing is divided."""
    found = report(with_flags(lambda g, x, y: two(g, kind, x, y)))
    assert found.verdict != "PROVED" or (kind, "finite") in {(a.tensor, a.why) for a in found.assumptions}


@pytest.mark.parametrize("kind", ["erf-inv", "lgamma"])
def test_so_is_a_function_of_one(kind: str) -> None:
    found = report(of_one(kind))
    assert found.verdict != "PROVED" or (kind, "finite") in {(a.tensor, a.why) for a in found.assumptions}


def test_what_is_a_number_everywhere_is_not() -> None:
    found = report(with_flags(lambda g, x, y: two(g, "atan2", x, y)))
    assert found.verdict == "PROVED"
    assert {a.tensor for a in found.assumptions if a.why == "finite"} <= {"x0", "x1", "base/x0", "base/x1"}
