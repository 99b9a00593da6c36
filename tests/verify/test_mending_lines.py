"""Bugs on lines of the distributed program's own: the line that lacks something, or does something else, leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scalify_dl.audit.pair import Pair, spread
from scalify_dl.facts import Facts

from .test_mending_steps import facts_of, first_cause
from .test_mending_where import divided, summed


class Lined(Pair):
    """A pair whose ops are at lines: `at(n)` says where those stand that were made since it was said last."""

    def __init__(self, mesh: dict[str, int]) -> None:
        super().__init__(mesh)
        self.lines: dict[str, list[int]] = {"base": [], "dist": []}

    def at(self, line: int) -> None:
        for role, graph in (("base", self.base), ("dist", self.dist)):
            self.lines[role] += [line] * (len(graph.ops) - len(self.lines[role]))

    def all_reduced(self, tensor: Any, axis: str = "dp") -> Any:
        return self.dist.emit("all-reduce", [tensor], reducer="sum", groups=self.groups(axis))

    def facts(self) -> Facts:
        facts = facts_of(self)
        for role, graph in facts["graph"]:
            ops = [op for op, owner, _ in facts["op"] if owner == graph]
            rows = zip(ops, self.lines[role], strict=True)
            facts.tables["source"] += [(op, 0, "step.py", line, "step") for op, line in rows]
        return facts


def a_count_of_the_rank_where_that_of_all_is_at_hand() -> Facts:
    """Weights are summed over ranks for the loss; gradients are divided by the rank's own sum."""
    pair = Lined({"dp": 2})
    (x, dx), (y, dy), (n, dn) = (pair.input((4, 5), {0: "dp"}) for _ in range(3))
    base, dist = pair.base, pair.dist
    whole = [summed(base, t) for t in (x, y, n)]
    part = [summed(dist, t) for t in (dx, dy, dn)]
    pair.at(3)
    loss, gradient, count = map(pair.all_reduced, part)
    pair.at(5)
    pair.outputs(base.emit("divide", [whole[0], whole[2]]), dist.emit("divide", [loss, count]))
    pair.outputs(base.emit("divide", [whole[1], whole[2]]), dist.emit("divide", [gradient, part[2]]))
    pair.at(6)
    return pair.facts()


def gradients_divided_by_all_ranks() -> Facts:
    """Means of a part are added up over dp, and divided by the ranks of dp and tp."""
    pair = Lined({"dp": 2, "tp": 2})
    (x, dx), (w, dw) = pair.input((4, 5), {0: "dp"}), pair.input((5,))
    whole, part = divided(pair.base, summed(pair.base, x), 4), divided(pair.dist, summed(pair.dist, dx), 2)
    pair.at(3)
    part = pair.all_reduced(part)
    pair.at(5)
    part = divided(pair.dist, part, 4)
    pair.at(6)
    pair.outputs(pair.base.emit("subtract", [w, whole]), pair.dist.emit("subtract", [dw, part]))
    pair.at(9)
    return pair.facts()


def a_count_times_ranks_for_a_sum() -> Facts:
    """Every rank takes two times its own weights for those of both."""
    pair = Lined({"dp": 2})
    (x, dx), (n, dn) = pair.input((4, 5), {0: "dp"}), pair.input((4, 5), {0: "dp"})
    base, dist = pair.base, pair.dist
    whole, count, part, own = summed(base, x), summed(base, n), summed(dist, dx), summed(dist, dn)
    pair.at(3)
    own = dist.emit("multiply", [own, spread(dist, dist.constant(2.0, "f32"), own.shape, ())])
    pair.at(5)
    part = pair.all_reduced(part)
    pair.at(6)
    pair.outputs(base.emit("divide", [whole, count]), dist.emit("divide", [part, own]))
    pair.at(9)
    return pair.facts()


def a_gradient_in_no_bucket() -> Facts:
    """Two gradients are summed in one buffer; a third one is in none."""
    pair = Lined({"dp": 2})
    base, dist = pair.base, pair.dist
    pairs = [pair.input((4, size), {0: "dp"}) for size in (5, 3, 6)]
    weights = [pair.input((size,)) for size in (5, 3, 6)]
    whole, part = [summed(base, t) for t, _ in pairs], [summed(dist, t) for _, t in pairs]
    pair.at(3)
    flat = dist.emit("concatenate", part[:2], dimension=0)
    pair.at(4)
    flat = pair.all_reduced(flat)
    pair.at(5)
    part[:2] = [dist.emit("slice", [flat], start=[lo], limit=[hi], stride=[1]) for lo, hi in ((0, 5), (5, 8))]
    pair.at(6)
    for (w, dw), one, other in zip(weights, whole, part, strict=True):
        pair.outputs(base.emit("subtract", [w, one]), dist.emit("subtract", [dw, other]))
    pair.at(9)
    return pair.facts()


def a_gradient_that_is_summed_where_others_are_averaged() -> Facts:
    return a_gradient_that_is_not_divided_as_the_others(4)


def a_gradient_that_is_not_divided_as_the_others(line: int = 5) -> Facts:
    """All are summed at line 5; the last one perhaps at another `line`."""
    pair = Lined({"dp": 2})
    base, dist = pair.base, pair.dist
    pairs = [pair.input((4, size), {0: "dp"}) for size in (5, 3, 6)]
    weights = [pair.input((size,)) for size in (5, 3, 6)]
    whole = [divided(base, summed(base, t), 4) for t, _ in pairs]
    part = [divided(dist, summed(dist, t), 2) for _, t in pairs]
    pair.at(3)
    part[2] = pair.all_reduced(part[2])
    pair.at(line)
    part[:2] = [pair.all_reduced(t) for t in part[:2]]
    pair.at(5)
    part[:2] = [divided(dist, t, 2) for t in part[:2]]
    pair.at(6)
    for (w, dw), one, other in zip(weights, whole, part, strict=True):
        pair.outputs(base.emit("subtract", [w, one]), dist.emit("subtract", [dw, other]))
    pair.at(9)
    return pair.facts()


def gradients_that_are_accumulated_and_not_divided_as_the_loss() -> Facts:
    """Of two micro-batches losses and gradients are added up at one line, and the loss alone is divided by 2."""
    pair = Lined({"dp": 2})
    (x, dx), (y, dy), (w, dw) = pair.input((8, 5), {0: "dp"}), pair.input((8, 3), {0: "dp"}), pair.input((3,))
    base, dist = pair.base, pair.dist
    whole = [divided(base, summed(base, base.emit("sine", [t])), 8) for t in (x, y)]
    parts = []
    for lo in (0, 2):
        cut = [
            dist.emit("slice", [t], start=[lo, 0], limit=[lo + 2, t.shape[1]], stride=[1, 1]) for t in (dx, dy)
        ]
        parts.append([divided(dist, summed(dist, dist.emit("sine", [t])), 2) for t in cut])
    pair.at(2)
    loss, gradient = (dist.emit("add", list(turns)) for turns in zip(*parts, strict=True))
    pair.at(3)
    loss = divided(dist, loss, 2)
    pair.at(5)
    loss, gradient = (divided(dist, pair.all_reduced(t), 2) for t in (loss, gradient))
    pair.at(6)
    pair.outputs(whole[0], loss)
    pair.outputs(base.emit("subtract", [w, whole[1]]), dist.emit("subtract", [dw, gradient]))
    pair.at(9)
    return pair.facts()


def norms_of_ranks_that_are_added_up() -> Facts:
    """The root of each rank's own squares is taken at line 3, and these are summed at line 5."""
    pair = Lined({"tp": 2})
    base, dist = pair.base, pair.dist
    given = [pair.input((4, size), {1: "tp"}) for size in (8, 6)]
    roots = []
    for i, g in enumerate((base, dist)):
        squares = [g.emit("multiply", [t[i], t[i]]) for t in given]
        sums = [g.emit("reduce", [t], dimensions=[0, 1], reducer="sum") for t in squares]
        roots.append(g.emit("sqrt", [g.emit("add", sums)]))
    pair.at(3)
    roots[1] = pair.all_reduced(roots[1], "tp")
    pair.at(5)
    pair.outputs(base.emit("sine", [roots[0]]), dist.emit("sine", [roots[1]]))
    pair.at(9)
    return pair.facts()


def a_loss_that_is_not_divided() -> Facts:
    """The mean of the rank's rows, added up: the loss is doubled, and the gradient."""
    pair = Lined({"dp": 2})
    (x, dx), (y, dy), (w, dw) = pair.input((4, 5), {0: "dp"}), pair.input((4, 5), {0: "dp"}), pair.input((5,))
    found = []
    for g, a, b, v, rows in ((pair.base, x, y, w, 4), (pair.dist, dx, dy, dw, 2)):
        made = g.emit("multiply", [a, spread(g, v, a.shape, (1,))])
        pair.at(2)
        off = g.emit("subtract", [made, b])
        square = g.emit("reduce", [g.emit("multiply", [off, off])], dimensions=[0, 1], reducer="sum")
        loss, back = divided(g, square, rows), divided(g, off, rows)
        pair.at(3)
        found.append((loss, summed(g, g.emit("multiply", [back, a]))))
        pair.at(2)
    (loss, gradient), (part, other) = found
    part, other = pair.all_reduced(part), pair.all_reduced(other)
    pair.at(7)
    pair.outputs(loss, part)
    pair.outputs(pair.base.emit("subtract", [w, gradient]), pair.dist.emit("subtract", [dw, other]))
    pair.at(9)
    return pair.facts()


def gradients_of_the_other_micro_batch() -> Facts:
    """Rows of the gradient are taken in the other order than rows of what it is of; a loss takes these rightly."""
    pair = Lined({"dp": 2})
    (x, dx), (g, dg) = pair.input((8, 5), {0: "dp"}), pair.input((8, 5), {0: "dp"})
    base, dist = pair.base, pair.dist
    halves = ((0, 2), (2, 4))
    own = [dist.emit("slice", [dx], start=[lo, 0], limit=[hi, 5], stride=[1, 1]) for lo, hi in halves]
    pair.at(4)
    late = [dist.emit("slice", [dg], start=[lo, 0], limit=[hi, 5], stride=[1, 1]) for lo, hi in reversed(halves)]
    pair.at(6)
    loss = summed(base, base.emit("sine", [x]))
    parts = [summed(dist, dist.emit("sine", [t])) for t in own]
    whole = summed(base, base.emit("multiply", [base.emit("cosine", [x]), g]))
    back = [summed(dist, dist.emit("multiply", [dist.emit("cosine", [t]), r])) for t, r in zip(own, late, strict=True)]
    pair.at(2)
    for one, some in ((loss, parts), (whole, back)):
        pair.outputs(one, pair.all_reduced(dist.emit("add", some)))
    pair.at(9)
    return pair.facts()


def a_state_that_is_given_back_as_it_was() -> Facts:
    pair = Lined({"dp": 2})
    (x, dx), (m, dm), (w, dw) = pair.input((4, 5), {0: "dp"}), pair.input((5,)), pair.input((5,))
    whole, part = summed(pair.base, x), summed(pair.dist, dx)
    pair.at(3)
    part = pair.all_reduced(part)
    pair.at(5)
    moved = [g.emit("add", [divided(g, a, 2), b]) for g, a, b in ((pair.base, m, whole), (pair.dist, dm, part))]
    pair.at(6)
    pair.outputs(pair.base.emit("subtract", [w, moved[0]]), pair.dist.emit("subtract", [dw, moved[1]]))
    pair.outputs(moved[0], dm)
    pair.at(9)
    return pair.facts()


def parts_of_rows_put_together_as_columns() -> Facts:
    """… and so their gradient is taken apart."""
    pair = Lined({"dp": 4})
    (x, dx), (g, dg) = pair.input((8, 6), {0: "dp"}), pair.input((4, 8, 6), {0: "dp"})
    whole = pair.dist.emit("all-gather", [dx], dimension=1, groups=pair.groups("dp"))
    whole = pair.dist.emit("reshape", [whole], shape=(8, 6))
    back = pair.dist.emit("reshape", [summed(pair.dist, dg)], shape=(2, 24))
    back = pair.dist.emit("reduce-scatter", [back], dimension=1, reducer="sum", groups=pair.groups("dp"))
    pair.at(5)
    pair.outputs(pair.base.emit("sine", [x]), pair.dist.emit("sine", [whole]))
    pair.outputs(pair.base.emit("sine", [summed(pair.base, g)]), pair.dist.emit("sine", [back]))
    pair.at(9)
    return pair.facts()


def targets_in_the_other_order_at_the_line_of_samples() -> Facts:
    """Both are cut at one line; only targets are taken in the other order."""
    pair = Lined({"dp": 2})
    (x, dx), (y, dy) = pair.input((8, 5), {0: "dp"}), pair.input((8, 5), {0: "dp"})
    halves = ((0, 2), (2, 4))
    own, other = (
        [pair.dist.emit("slice", [t], start=[lo, 0], limit=[hi, 5], stride=[1, 1]) for lo, hi in order]
        for t, order in ((dx, halves), (dy, halves[::-1]))
    )
    pair.at(4)
    whole = summed(pair.base, pair.base.emit("multiply", [pair.base.emit("sine", [x]), y]))
    parts = zip(own, other, strict=True)
    some = [summed(pair.dist, pair.dist.emit("multiply", [pair.dist.emit("sine", [a]), b])) for a, b in parts]
    pair.at(2)
    pair.outputs(whole, pair.all_reduced(pair.dist.emit("add", some)))
    pair.at(9)
    return pair.facts()


def scores_of_another_scale_under_a_mask() -> Facts:
    """Beside -1e30 all other differences are none, which is no reason to take them for equal."""
    pair = Lined({"tp": 2})
    (x, dx), (y, dy) = (pair.input((4, 6), {1: "tp"}) for _ in range(2))
    found = []
    for g, a, b, scale in ((pair.base, x, y, 2.0), (pair.dist, dx, dy, 3.0)):
        scores = g.emit("divide", [a, spread(g, g.constant(scale, "f32"), a.shape, ())])
        pair.at(3)
        seen = g.emit("compare", [a, b], direction="LT")
        scores = g.emit("select", [seen, scores, spread(g, g.constant(-1e30, "f32"), scores.shape, ())])
        pair.at(4)
        top = g.emit("reduce", [scores], dimensions=[0], reducer="max")
        found.append(g.emit("exponential", [g.emit("subtract", [scores, spread(g, top, scores.shape, (1,))])]))
        pair.at(5)
    pair.outputs(*found)
    return pair.facts()


def gradients_summed_behind_the_clipping() -> Facts:
    """They are multiplied by what is made of the rank's own."""
    pair = Lined({"dp": 2})
    (x, dx), (w, dw) = pair.input((4, 5), {0: "dp"}), pair.input((5,))
    whole, part = summed(pair.base, x), summed(pair.dist, dx)
    pair.at(3)
    norms = [g.emit("reduce", [g.emit("multiply", [t, t])], dimensions=[0], reducer="sum")
             for g, t in ((pair.base, whole), (pair.dist, part))]  # fmt: skip
    whole = pair.base.emit("multiply", [whole, spread(pair.base, norms[0], whole.shape, ())])
    part = pair.dist.emit("multiply", [part, spread(pair.dist, norms[1], part.shape, ())])
    pair.at(5)
    part = pair.all_reduced(part)
    pair.at(7)
    pair.outputs(pair.base.emit("subtract", [w, whole]), pair.dist.emit("subtract", [dw, part]))
    pair.at(9)
    return pair.facts()


FAULTS: dict[Callable[[], Facts], tuple[str, int, str, str]] = {
    a_count_of_the_rank_where_that_of_all_is_at_hand: ("divide", 6, "where the sum is at hand", "read all-reduce"),
    gradients_divided_by_all_ranks: ("divide", 6, "it multiplies by 1/4", "by 2"),
    a_count_times_ranks_for_a_sum: ("multiply", 5, "is never summed", "all-reduce(sum) over dp"),
    a_gradient_in_no_bucket: ("concatenate", 4, "others are summed here", "all-reduce(sum) over dp"),
    a_gradient_that_is_not_divided_as_the_others: ("divide", 6, "others are multiplied by 1/2 at divide", "by 1/2"),
    a_gradient_that_is_summed_where_others_are_averaged: ("all-reduce", 4, "others are multiplied by 1/2", "by 1/2"),
    gradients_that_are_accumulated_and_not_divided_as_the_loss: (
        "divide", 5, "others are multiplied by 1/2 at divide", "by 1/2",
    ),
    scores_of_another_scale_under_a_mask: ("divide", 3, "the constant 3", "2 instead of 3"),
    norms_of_ranks_that_are_added_up: ("all-reduce", 5, "it comes too late", "all-reduce(sum) over tp"),
    gradients_summed_behind_the_clipping: ("all-reduce", 7, "it comes too late", "all-reduce(sum) over dp"),
    a_loss_that_is_not_divided: ("divide", 3, "a factor 2 enters here", "by 1/2"),
    gradients_of_the_other_micro_batch: ("slice", 6, "take each other's part", "in the other order"),
    a_state_that_is_given_back_as_it_was: ("add", 6, "is what an output should be", "give back"),
    targets_in_the_other_order_at_the_line_of_samples: ("slice", 4, "take each other's part", "in the other order"),
    parts_of_rows_put_together_as_columns: ("all-gather", 5, "along another dim", "gather along dim 0"),
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
