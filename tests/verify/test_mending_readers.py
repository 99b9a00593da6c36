"""Bugs where something is read, added or summed up that was made rightly on another line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit.pair import matmul, spread
from scalify_dl.facts import Facts

from .test_mending_lines import Lined
from .test_mending_steps import first_cause, taken
from .test_mending_where import divided, summed


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


def labels_of_the_micro_batch_before() -> Facts:
    """Of three micro-batches the second and the third are multiplied by what belongs to the one before."""
    pair = Lined({"dp": 2})
    (x, dx), (y, dy) = pair.input((12, 5), {0: "dp"}), pair.input((12, 5), {0: "dp"})
    dist = pair.dist
    own, labels = (
        [dist.emit("slice", [t], start=[lo, 0], limit=[lo + 2, 5], stride=[1, 1]) for lo in (0, 2, 4)] for t in (dx, dy)
    )
    pair.at(4)
    made = pair.base.emit("sine", [x]), *(dist.emit("sine", [t]) for t in own)
    pair.at(2)
    some = [dist.emit("multiply", [t, labels[max(n - 1, 0)]]) for n, t in enumerate(made[1:])]
    whole = pair.base.emit("multiply", [made[0], y])
    pair.at(6)
    parts = [summed(dist, t) for t in some]
    part = dist.emit("add", [dist.emit("add", parts[:2]), parts[2]])
    pair.outputs(summed(pair.base, whole), pair.all_reduced(part))
    pair.at(9)
    return pair.facts()


def gradients_of_what_is_gathered_are_read_as_means() -> Facts:
    """A reduce-scatter that nobody wrote adds up means of rows; a norm is taken of them, and all is divided by it."""
    pair = Lined({"dp": 2})
    (x, dx), (w, dw) = pair.input((4, 8), {0: "dp"}), pair.input((8,), {0: "dp"})
    base, dist, groups = pair.base, pair.dist, pair.groups("dp")
    whole = divided(base, summed(base, x), 4)
    gathered = dist.emit("all-gather", [dw], dimension=0, groups=groups)
    part = divided(dist, summed(dist, dx), 2)
    part = dist.emit("reduce-scatter", [part], dimension=0, reducer="sum", groups=groups)
    pair.at(2)
    norms = [g.emit("multiply", [t, t]) for g, t in ((base, whole), (dist, part))]
    norms = [summed(g, t) for g, t in zip((base, dist), norms, strict=True)]
    pair.at(5)
    norms[1] = pair.all_reduced(norms[1])
    pair.at(6)
    for g, t, norm, v in ((base, whole, norms[0], w), (dist, part, norms[1], dw)):
        over = g.emit("add", [g.emit("sqrt", [norm]), g.constant(1.0, "f32")])
        g.output(g.emit("subtract", [v, g.emit("divide", [t, spread(g, over, t.shape, ())])]))
    pair._expects.append((dist.outputs[0].tensor, base.outputs[0].tensor, "[0:1x4]|dp=0:4x2"))
    pair.outputs(base.emit("sine", [w]), dist.emit("sine", [gathered]))
    pair.at(7)
    return pair.facts()


def a_number_of_a_line_and_its_backward() -> Facts:
    """A branch is multiplied by 4 where the baseline has 2, and so is its gradient."""
    pair = Lined({"dp": 2})
    (x, dx), (w, dw), (v, dv) = pair.input((4, 8), {0: "dp"}), pair.input((8, 6)), pair.input((4, 6), {0: "dp"})
    made = []
    for g, a, b, c, scale in ((pair.base, x, w, v, 2.0), (pair.dist, dx, dw, dv, 4.0)):
        def times(t, g=g, scale=scale):  # type: ignore[no-untyped-def]
            return g.emit("multiply", [t, spread(g, g.constant(scale, "f32"), t.shape, ())])

        out = g.emit("add", [times(matmul(g, a, b)), c])
        back = times(g.emit("sine", [out]))
        pair.at(3)
        made += [out, back]
    pair.outputs(made[0], made[2])
    pair.outputs(made[1], made[3])
    pair.at(5)
    return pair.facts()


def a_moment_of_the_ranks_own_gradient() -> Facts:
    """One moment is of the rank's block of the gradient that is reduced, the other of that of its own."""
    pair = Lined({"dp": 2})
    (x, dx), (v, dv) = pair.input((4, 8), {0: "dp"}), pair.input((8,), {0: "dp"})
    base, dist = pair.base, pair.dist
    whole, part = divided(base, summed(base, x), 4), divided(dist, summed(dist, dx), 4)
    pair.at(2)
    own = dist.emit("slice", [part], start=[0], limit=[4], stride=[1])
    pair.at(3)
    mine = dist.emit("reduce-scatter", [part], dimension=0, reducer="sum", groups=pair.groups("dp"))
    pair.at(4)
    for given, (one, other) in ((mine, (base, dist)), (own, (base, dist))):
        sides = ((one, whole, v), (other, given, dv))
        if given is own:
            sides = tuple((g, g.emit("multiply", [t, t]), w) for g, t, w in sides)
        for g, t, w in sides:
            g.output(g.emit("add", [w, t]))
        pair.at(5 if given is mine else 6)
    for mine_, theirs in zip(dist.outputs, base.outputs, strict=True):
        pair._expects.append((mine_.tensor, theirs.tensor, "[0:1x4]|dp=0:4x2"))
    facts = pair.facts()
    ((op, _, _),) = [row for row in facts["op"] if row[2] == "slice"]
    return taken(facts, op, "dp")


def a_function_of_a_part_whose_sum_is_at_hand() -> Facts:
    """The logarithm of this rank's part of a sum, and its backward, at the line behind that of the sum's own."""
    pair = Lined({"tp": 2})
    (x, dx), (v, dv) = pair.input((6, 8), {1: "tp"}), pair.input((6,))
    made = []
    for g, t, w in ((pair.base, x, v), (pair.dist, dx, dv)):
        part = g.emit("reduce", [g.emit("exponential", [t])], dimensions=[1], reducer="sum")
        pair.at(2)
        total = pair.all_reduced(part, "tp") if g is pair.dist else part
        pair.at(3)
        logs = g.emit("log", [total])
        pair.at(4)
        squares = g.emit("log", [part])
        back = g.emit("divide", [w, part])
        pair.at(5)
        made.append((g.emit("add", [logs, squares]), g.emit("sine", [back])))
        pair.at(6)
    for whole, part in zip(*made, strict=True):
        pair.outputs(whole, part)
    return pair.facts()


FAULTS: dict[Callable[[], Facts], tuple[str, int, str, str]] = {
    a_function_of_a_part_whose_sum_is_at_hand: ("log", 5, "where the sum is at hand", "read all-reduce"),
    a_moment_of_the_ranks_own_gradient: ("multiply", 6, "of the sum is", "read reduce-scatter instead of"),
    one_of_two_gradients_of_a_value_is_summed: ("dot", 3, "adds it to what", "all-reduce(sum) over tp"),
    squares_that_every_rank_has_are_summed_with_others: ("all-reduce", 4, "counts 2 times", "once"),
    gradients_of_what_is_gathered_are_read_as_means: ("multiply", 5, "is 2 times", "by 1/2"),
    a_number_of_a_line_and_its_backward: ("multiply", 3, "multiplies by 4", "2 instead of 4"),
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
    assert "with this edit" in " ".join(first.tried), said
    assert "PROVED" in " ".join(first.tried), said


def test_parts_that_are_cut_in_order_are_read_amiss() -> None:
    """No exchange mends it, and none is said to: what reads the parts leads, not what cuts them."""
    first = first_cause(labels_of_the_micro_batch_before())
    assert (first.kind, first.source[0].line) == ("multiply", 6)
    assert "each other's part" not in " ".join(first.found)
