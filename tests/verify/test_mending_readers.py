"""Bugs where something is read, added or summed up that was made rightly on another line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit.pair import matmul
from scalify_dl.facts import Facts

from .test_mending_lines import Lined
from .test_mending_steps import first_cause
from .test_mending_where import summed


def one_of_two_gradients_of_a_value_is_summed() -> Facts:
    """Queries read a value through a copy whose backward sums; keys read the value itself."""
    pair = Lined({"tp": 2})
    sides = {pair.base: [], pair.dist: []}
    for n in range(2):
        pairs = pair.input((4, 8), {1: "tp"}), pair.input((8, 6), {0: "tp"})
        for i, graph in enumerate(sides):
            sides[graph].append(matmul(graph, *(tensors[i] for tensors in pairs)))
        pair.at(2 + n)
    whole, (queries, keys) = sides.values()
    queries = pair.all_reduced(queries, "tp")
    pair.at(7)
    both = pair.base.emit("add", whole), pair.dist.emit("add", [keys, queries])
    pair.at(8)
    pair.outputs(*(graph.emit("sine", [t]) for graph, t in zip(sides, both, strict=True)))
    pair.at(9)
    return pair.facts()


def squares_that_every_rank_has_are_summed_with_others() -> Facts:
    """A norm of gradients that are cut, whole, cut, and whole."""
    pair = Lined({"tp": 2})
    base, dist = pair.base, pair.dist
    pairs = [pair.input((4, size), {1: "tp"} if cut else {}) for size, cut in ((8, 1), (3, 0), (6, 1), (5, 0))]
    norms = []
    for i, graph in enumerate((base, dist)):
        parts = [graph.emit("multiply", [t[i], t[i]]) for t in pairs]
        parts = [graph.emit("reduce", [t], dimensions=[0, 1], reducer="sum") for t in parts]
        total = parts[0]
        for part in parts[1:]:
            total = graph.emit("add", [total, part])
        norms.append(total)
    pair.at(3)
    norms[1] = pair.all_reduced(norms[1], "tp")
    pair.at(4)
    pair.outputs(*(graph.emit("sqrt", [t]) for graph, t in zip((base, dist), norms, strict=True)))
    pair.at(5)
    return pair.facts()


def labels_of_the_next_micro_batch() -> Facts:
    """Both are cut in order at one line; labels are read in the other order where the loss is taken."""
    pair = Lined({"dp": 2})
    (x, dx), (y, dy) = pair.input((8, 5), {0: "dp"}), pair.input((8, 5), {0: "dp"})
    dist = pair.dist
    own, labels = (
        [dist.emit("slice", [t], start=[lo, 0], limit=[lo + 2, 5], stride=[1, 1]) for lo in (0, 2)] for t in (dx, dy)
    )
    pair.at(4)
    made = pair.base.emit("sine", [x]), *(dist.emit("sine", [t]) for t in own)
    pair.at(2)
    some = [dist.emit("multiply", [t, label]) for t, label in zip(made[1:], reversed(labels), strict=True)]
    whole = pair.base.emit("multiply", [made[0], y])
    pair.at(6)
    pair.outputs(summed(pair.base, whole), pair.all_reduced(dist.emit("add", [summed(dist, t) for t in some])))
    pair.at(9)
    return pair.facts()


FAULTS: dict[Callable[[], Facts], tuple[str, int, str, str]] = {
    one_of_two_gradients_of_a_value_is_summed: ("dot", 3, "adds it to what", "all-reduce(sum) over tp"),
    squares_that_every_rank_has_are_summed_with_others: ("all-reduce", 4, "counts 2 times", "once"),
    labels_of_the_next_micro_batch: ("multiply", 6, "read each other's part", "in the other order"),
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
