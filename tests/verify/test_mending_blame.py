"""Of several ops that an edit might be made at, the one whose line is wrong is blamed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.mend.draft import Draft, Edit
from scalify_dl.mend.verbs import apply

from .test_mending_lines import Lined
from .test_mending_steps import first_cause
from .test_mending_where import divided, summed


def a_count_that_is_averaged() -> Facts:
    """Weights are summed at line 3 and divided by the ranks; a loss is divided by them."""
    pair = Lined({"dp": 2})
    (x, dx), (n, dn) = pair.input((4, 5), {0: "dp"}), pair.input((4, 5), {0: "dp"})
    base, dist = pair.base, pair.dist
    counts = summed(base, n), divided(dist, pair.all_reduced(summed(dist, dn)), 2)
    pair.at(3)
    losses = summed(base, x), pair.all_reduced(summed(dist, dx))
    pair.at(4)
    over = [g.emit("divide", [loss, n]) for g, loss, n in zip((base, dist), losses, counts, strict=True)]
    pair.at(5)
    pair.outputs(*(g.emit("sine", [t]) for g, t in zip((base, dist), over, strict=True)))
    pair.at(9)
    return pair.facts()


def parts_that_are_summed_over_one_axis_twice() -> Facts:
    """Parts over dp and tp are summed over dp at line 3, and over dp again at line 4."""
    pair = Lined({"dp": 2, "tp": 2})
    x, dx = pair.input((4, 6), {0: "dp", 1: "tp"})
    sides = (pair.base, x), (pair.dist, dx)
    whole, part = (g.emit("reduce", [t], dimensions=[0, 1], reducer="sum") for g, t in sides)
    pair.at(2)
    for line in (3, 4):
        part = pair.all_reduced(part, "dp")
        pair.at(line)
    pair.outputs(pair.base.emit("sine", [whole]), pair.dist.emit("sine", [part]))
    pair.at(9)
    return pair.facts()


def a_sum_of_gradients_that_is_not_divided_as_others() -> Facts:
    """One gradient is summed and divided at line 6; of two others the sum is taken at line 7."""
    pair = Lined({"dp": 2})
    base, dist = pair.base, pair.dist
    given = [pair.input((4, 5), {0: "dp"}) for _ in range(3)]
    (v, dv), (w, dw) = pair.input((5,)), pair.input((5,))
    whole = [divided(base, summed(base, t), 4) for t, _ in given]
    parts = [pair.all_reduced(divided(dist, summed(dist, t), 2)) for _, t in given]
    two = base.emit("add", whole[1:])
    pair.at(3)
    one = divided(dist, parts[0], 2)
    pair.at(6)
    both = dist.emit("add", parts[1:])
    pair.at(7)
    pair.outputs(base.emit("subtract", [v, whole[0]]), dist.emit("subtract", [dv, one]))
    pair.outputs(base.emit("subtract", [w, two]), dist.emit("subtract", [dw, both]))
    pair.at(9)
    return pair.facts()


def squares_of_parts_that_are_summed_later() -> Facts:
    """Parts of a gradient are squared at line 3, added up, and that is summed over ranks."""
    pair = Lined({"dp": 2})
    x, dx = pair.input((4, 5), {0: "dp"})
    base, dist = pair.base, pair.dist
    sides = summed(base, x), summed(dist, dx)
    pair.at(2)
    squares = [g.emit("multiply", [t, t]) for g, t in zip((base, dist), sides, strict=True)]
    pair.at(3)
    whole, part = (summed(g, t) for g, t in zip((base, dist), squares, strict=True))
    pair.at(4)
    part = pair.all_reduced(part)
    pair.at(5)
    pair.outputs(base.emit("sqrt", [whole]), dist.emit("sqrt", [part]))
    pair.at(9)
    return pair.facts()


FAULTS: dict[Callable[[], Facts], tuple[str, int, str, str]] = {
    a_count_that_is_averaged: ("divide", 3, "of what something is divided by", "(avg): leave out this divide"),
    parts_that_are_summed_over_one_axis_twice: ("all-reduce", 4, "it combines other ranks", "all-reduce over tp"),
    a_sum_of_gradients_that_is_not_divided_as_others: ("divide", 6, "others are multiplied by 1/2", "by 1/2"),
    squares_of_parts_that_are_summed_later: ("multiply", 3, "before these are summed", "all-reduce(sum) over dp"),
}


@pytest.mark.parametrize("wrong", FAULTS)
def test_the_line_of_the_bug_leads(wrong: Callable[[], Facts]) -> None:
    kind, line, sentence, advice = FAULTS[wrong]
    first = first_cause(wrong())
    said = (first.kind, first.source[0].line, first.found, first.suggestion, first.tried)
    assert said[:2] == (kind, line), said
    assert sentence in " ".join(first.found), said
    assert advice in " ".join(first.suggestion), said
    assert "PROVED" in " ".join(first.tried), said


def an_exchange_that_is_missing() -> Facts:
    """A rank has one expert's rows of all groups and goes on as if these were all experts' rows of its group."""
    pair = Lined({"ep": 2})
    x, dx = pair.input((2, 2, 2, 3), {0: "ep"})
    base, dist = pair.base, pair.dist
    own = dist.emit("reshape", [dx], shape=(1, 4, 3))
    pair.at(6)
    whole, part = base.emit("sine", [x]), dist.emit("sine", [own])
    pair.at(2)
    part = dist.emit("reshape", [part], shape=(2, 2, 3))
    pair.at(5)
    whole, part = (g.emit("exponential", [t]) for g, t in ((base, whole), (dist, part)))
    whole, part = (g.emit("reduce", [t], dimensions=[0], reducer="sum") for g, t in ((base, whole), (dist, part)))
    pair.at(3)
    whole, part = (g.emit("cosine", [t]) for g, t in ((base, whole), (dist, part)))
    whole = base.emit("reduce", [whole], dimensions=[0, 1, 2], reducer="sum")
    part = dist.emit("reduce", [part], dimensions=[0, 1], reducer="sum")
    pair.at(4)
    pair.outputs(whole, pair.all_reduced(part, "ep"))
    pair.at(9)
    return pair.facts()


def test_the_line_that_hands_values_on_without_an_exchange_leads() -> None:
    first = first_cause(an_exchange_that_is_missing())
    assert (first.kind, first.source[0].line) == ("reshape", 5), first
    assert "as an exchange that is missing" in " ".join(first.found)


LOOP = Facts(
    {
        "graph": [("g", "dist"), ("body", "dist")],
        "op": [("loop", "g", "while"), ("after", "g", "sine"), ("inner", "body", "sine")],
        "tensor": [("x", "g", "f32", 0), ("y", "g", "f32", 0), ("z", "g", "f32", 0), ("a", "body", "f32", 0),
                   ("b", "body", "f32", 0)],
        "operand": [("loop", 0, "x"), ("after", 0, "y"), ("inner", 0, "a")],
        "result": [("loop", 0, "y"), ("after", 0, "z"), ("inner", 0, "b")],
        "input": [("g", 0, "x"), ("body", 0, "a")],
        "output": [("g", 0, "z"), ("body", 0, "b")],
        "region": [("loop", 0, "body")],
    }
)  # fmt: skip


def test_what_an_edit_makes_is_in_the_loop_where_it_is_read() -> None:
    draft = Draft(LOOP)
    made = draft.emit("negate", ["a"], draft.like("a"), "after")
    assert [row for row in draft.facts["op"] if row[0] == made] == [(made, "body", "negate")]


def test_an_edit_that_reads_what_a_loop_makes_inside_is_none() -> None:
    with pytest.raises(InputError, match="another loop"):
        apply(LOOP, [Edit("after", "read", "after", "b", 0, 1, "")])
