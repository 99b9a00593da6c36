"""Numbers that a program multiplies by: of several that could be another one, the one that was not meant is blamed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.facts import Facts

from .test_mending_lines import Lined
from .test_mending_steps import first_cause
from .test_mending_where import divided, summed


def a_mean_divided_by_one() -> Facts:
    """Somebody divides by a number that should be 2 and is 1."""
    pair = Lined({"dp": 2})
    (x, dx), (w, dw) = pair.input((4, 5), {0: "dp"}), pair.input((5,))
    part = divided(pair.dist, summed(pair.dist, dx), 1)
    pair.at(3)
    part = pair.all_reduced(part)
    pair.at(5)
    whole = summed(pair.base, divided(pair.base, x, 2))
    pair.outputs(pair.base.emit("subtract", [w, whole]), pair.dist.emit("subtract", [dw, part]))
    pair.at(9)
    return pair.facts()


def a_gradient_divided_again() -> Facts:
    """The loss is right, and is divided at the line at which its gradient is; another line divides by 4, not by 2."""
    pair = Lined({"dp": 2})
    (x, dx), (y, dy), (w, dw) = pair.input((4, 5), {0: "dp"}), pair.input((4, 3), {0: "dp"}), pair.input((5,))
    loss, part = summed(pair.dist, dy), summed(pair.dist, dx)
    pair.at(2)
    loss, part = divided(pair.dist, loss, 2), divided(pair.dist, part, 2)
    pair.at(3)
    loss, part = pair.all_reduced(loss), pair.all_reduced(part)
    pair.at(5)
    part = divided(pair.dist, part, 4)
    pair.at(6)
    pair.outputs(divided(pair.base, summed(pair.base, y), 2), loss)
    whole = summed(pair.base, divided(pair.base, x, 4))
    pair.outputs(pair.base.emit("subtract", [w, whole]), pair.dist.emit("subtract", [dw, part]))
    pair.at(9)
    return pair.facts()


FAULTS: dict[Callable[[], Facts], tuple[int, str, str]] = {
    a_mean_divided_by_one: (3, "it multiplies by 1, and", "by 1/2"),
    a_gradient_divided_again: (6, "it multiplies by 1/4", "by 2"),
}


@pytest.mark.parametrize("wrong", FAULTS)
def test_the_number_that_was_not_meant_is_blamed(wrong: Callable[[], Facts]) -> None:
    line, sentence, advice = FAULTS[wrong]
    first = first_cause(wrong())
    said = (first.source[0].line, first.found, first.suggestion, first.tried)
    assert said[0] == line, said
    assert sentence in " ".join(first.found), said
    assert advice in " ".join(first.suggestion), said
    assert "PROVED" in " ".join(first.tried), said
