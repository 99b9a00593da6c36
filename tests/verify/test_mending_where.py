"""Bugs that show elsewhere than where they are: causes lead to the op that takes the wrong part, or makes a factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.facts import Facts
from scalify_dl.mend.draft import Edit
from scalify_dl.mend.verbs import apply

from .test_mending_steps import facts_of, first_cause


def summed(graph: Any, tensor: Any) -> Any:
    return graph.emit("reduce", [tensor], dimensions=[0], reducer="sum")


def divided(graph: Any, tensor: Any, number: float) -> Any:
    constant = graph.constant(number, "f32")
    return graph.emit("divide", [tensor, spread(graph, constant, tensor.shape, ()) if tensor.shape else constant])


def a_norm_of_gradients_that_nobody_divides() -> Facts:
    """Gradients of local means are scattered as sums: their squares, summed over all ranks, are four times as large."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((4, 8), {0: "dp"})
    base, dist = pair.base, pair.dist
    whole = divided(base, summed(base, x), 4)
    part = divided(dist, summed(dist, dx), 2)
    shard = dist.emit("reduce-scatter", [part], reducer="sum", groups=pair.groups("dp"), dimension=0)
    squares = dist.emit("reduce", [dist.emit("multiply", [shard, shard])], dimensions=[0], reducer="sum")
    squares = dist.emit("all-reduce", [squares], reducer="sum", groups=pair.groups("dp"))
    norm = base.emit("reduce", [base.emit("multiply", [whole, whole])], dimensions=[0], reducer="sum")
    pair.outputs(base.emit("sqrt", [norm]), dist.emit("sqrt", [squares]))
    return facts_of(pair)


def a_norm_of_gradients_one_of_which_nobody_divides() -> Facts:
    """Squares on shards are added up on every rank, then over ranks; one gradient is twice the baseline's."""
    pair = Pair({"dp": 2})
    base, dist = pair.base, pair.dist
    sums = []
    for count in (2, 1):
        x, dx = pair.input((4, 8 * count), {0: "dp"})
        whole = divided(base, summed(base, x), 4)
        part = divided(dist, summed(dist, dx), 2)
        part = dist.emit("reduce-scatter", [part], reducer="sum", groups=pair.groups("dp"), dimension=0)
        part = divided(dist, part, 2) if count == 2 else part
        sums.append([summed(g, g.emit("multiply", [t, t])) for g, t in ((base, whole), (dist, part))])
    (first, own), (second, other) = sums
    total = dist.emit("all-reduce", [dist.emit("add", [own, other])], reducer="sum", groups=pair.groups("dp"))
    pair.outputs(base.emit("sqrt", [base.emit("add", [first, second])]), dist.emit("sqrt", [total]))
    return facts_of(pair)


def micro_batches_that_nobody_divides() -> Facts:
    """Means of three micro-batches are added up, and averaged over ranks."""
    pair = Pair({"dp": 2})
    (x, dx), (w, dw) = pair.input((12, 5), {0: "dp"}), pair.input((5,))
    base, dist = pair.base, pair.dist
    whole = divided(base, summed(base, base.emit("sine", [x])), 12)
    total = None
    for start in (0, 2, 4):
        rows = dist.emit("slice", [dx], start=[start, 0], limit=[start + 2, 5], stride=[1, 1])
        part = divided(dist, summed(dist, dist.emit("sine", [rows])), 2)
        total = part if total is None else dist.emit("add", [total, part])
    mean = divided(dist, dist.emit("all-reduce", [total], reducer="sum", groups=pair.groups("dp")), 2)
    pair.outputs(base.emit("subtract", [w, whole]), dist.emit("subtract", [dw, mean]))
    return facts_of(pair)


def a_gradient_that_is_not_zeroed() -> Facts:
    """The gradient of the second step is added to that of the first one, which was summed already."""
    pair = Pair({"dp": 2})
    (x, dx), (w, dw) = pair.input((4, 5), {0: "dp"}), pair.input((5,))
    base, dist = pair.base, pair.dist
    first = dist.emit("all-reduce", [summed(dist, dist.emit("sine", [dx]))], reducer="sum", groups=pair.groups("dp"))
    second = dist.emit("add", [first, summed(dist, dist.emit("cosine", [dx]))])
    second = dist.emit("all-reduce", [second], reducer="sum", groups=pair.groups("dp"))
    one = base.emit("subtract", [w, summed(base, base.emit("sine", [x]))])
    other = dist.emit("subtract", [dw, first])
    pair.outputs(
        base.emit("subtract", [one, summed(base, base.emit("cosine", [x]))]), dist.emit("subtract", [other, second])
    )
    return facts_of(pair)


def a_local_count_of_the_mean() -> Facts:
    """Sums are divided by two times the weights of the rank, and added up."""
    pair = Pair({"dp": 2})
    (x, dx), (n, dn) = pair.input((4, 5), {0: "dp"}), pair.input((4, 5), {0: "dp"})
    base, dist = pair.base, pair.dist
    whole = base.emit("divide", [summed(base, x), summed(base, n)])
    part = dist.emit("divide", [summed(dist, dx), divided(dist, summed(dist, dn), 0.5)])
    pair.outputs(whole, dist.emit("all-reduce", [part], reducer="sum", groups=pair.groups("dp")))
    return facts_of(pair)


def a_local_norm_whose_terms_are_added_in_another_order() -> Facts:
    """Squares of two sharded weights are added up first, a replicated one's last: where the baseline has it first."""
    pair = Pair({"tp": 2})
    cut = [pair.input((8, 3), {0: "tp"}), pair.input((6, 4), {0: "tp"})]
    whole, x = pair.input((5,)), pair.input((7,))
    norms = []
    for side, g in enumerate((pair.base, pair.dist)):
        u, v, b = (g.emit("multiply", [t[side], t[side]]) for t in (*cut, whole))
        u, v, b = (g.emit("reduce", [t], dimensions=list(range(len(t.shape))), reducer="sum") for t in (u, v, b))
        last, terms = (b, (u, v)) if side else (v, (b, u))
        norm = g.emit("sqrt", [g.emit("add", [g.emit("add", list(terms)), last])])
        norms.append(g.emit("multiply", [x[side], spread(g, norm, (7,), ())]))
    pair.outputs(*norms)
    return facts_of(pair)


def a_softmax_of_each_part_alone() -> Facts:
    """Neither the maximum nor the sum goes over the ranks that hold the rest of a row."""
    pair = Pair({"tp": 2})
    results = []
    for g, x in zip((pair.base, pair.dist), pair.input((4, 6), {1: "tp"}), strict=True):
        most = g.emit("reduce", [x], dimensions=[1], reducer="max")
        powers = g.emit("exponential", [g.emit("subtract", [x, spread(g, most, x.shape, (0,))])])
        total = g.emit("reduce", [powers], dimensions=[1], reducer="sum")
        results.append(g.emit("divide", [powers, spread(g, total, x.shape, (0,))]))
    pair.outputs(*results, layout="[0:1x4][1:1x3]|tp=1:3x2")
    return with_lines(pair)


def test_a_maximum_of_a_part_is_combined_by_maxima() -> None:
    first = first_cause(a_softmax_of_each_part_alone())
    assert "all-reduce(max) over tp" in " ".join(first.suggestion)
    assert "is still to be reduced, by max over tp" in " ".join(first.found)
    assert "PROVED" in " ".join(first.tried)


def positions_that_every_rank_counts_from_0() -> Facts:
    """Rows are multiplied by the sine of their positions, which are reals from the beginning."""
    pair = Pair({"tp": 2})
    results = []
    for g, x in zip((pair.base, pair.dist), pair.input((8, 3), {0: "tp"}), strict=True):
        rows = g.emit("iota", [], dimension=0, shape=(x.shape[0],), dtype="f32")
        results.append(g.emit("multiply", [x, spread(g, g.emit("sine", [rows]), x.shape, (0,))]))
    pair.outputs(*results, layout="[0:1x4][1:1x3]|tp=0:4x2")
    return with_lines(pair)


def test_positions_of_reals_begin_at_the_ranks_own_first_one() -> None:
    first = first_cause(positions_that_every_rank_counts_from_0())
    assert first.kind == "iota"
    assert "add 4 times the rank's index along tp" in " ".join(first.suggestion)
    assert "PROVED" in " ".join(first.tried)


def heads_of_another_rank() -> Facts:
    """Each rank starts to take rows at its own index plus two."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((4, 6)), pair.input((4, 6), {0: "tp"})
    base, dist = pair.base, pair.dist
    rank = dist.emit("partition-id", [], shape=(), dtype="s32")
    start = dist.emit("multiply", [rank, dist.constant(1, "s32")])
    mine = dist.emit("dynamic-slice", [dx, start, dist.constant(0, "s32")], sizes=[2, 6])
    whole = base.emit("multiply", [base.emit("sine", [x]), w])
    pair.outputs(whole, dist.emit("multiply", [dist.emit("sine", [mine]), dw]))
    return facts_of(pair)


def two_readers_without_the_sum_in_their_backward() -> Facts:
    """Gradients of two sharded layers meet, and are squared before anybody sums them."""
    pair = Pair({"tp": 2})
    base, dist = pair.base, pair.dist
    both = []
    for _ in range(2):
        (g, dg), (w, dw) = pair.input((4, 8), {1: "tp"}), pair.input((8, 6), {0: "tp"})
        both.append((matmul(base, g, w), matmul(dist, dg, dw)))
    whole, part = base.emit("add", [both[0][0], both[1][0]]), dist.emit("add", [both[0][1], both[1][1]])
    pair.outputs(base.emit("sine", [whole]), dist.emit("sine", [part]))
    return facts_of(pair)


def with_lines(pair: Pair) -> Facts:
    """Cuts are at a line of their own, all else is at a line of both programs."""
    facts = facts_of(pair)
    facts.tables["source"] = [
        (op, 0, "model.py", 3 if kind in ("slice", "pad") else 9, "forward") for op, _, kind in facts["op"]
    ]
    return facts


def rows_of_three_weights_in_one() -> Facts:
    """One block of rows, where the model reads a block of each of three weights."""
    pair = Pair({"tp": 2})
    (w, dw), base, dist = pair.input((12, 5)), pair.base, pair.dist
    rank = dist.emit("slice", [dw], start=[0, 0], limit=[6, 5], stride=[1, 1])
    whole = base.emit("sine", [base.emit("reshape", [w], shape=(3, 4, 5))])
    pair.outputs(whole, dist.emit("sine", [dist.emit("reshape", [rank], shape=(3, 2, 5))]))
    facts = with_lines(pair)
    ((op, _, _),) = [row for row in facts["op"] if row[2] == "slice"]
    return apply(facts, [Edit(op, "own block", op, "tp", 0, 1, "")])


def a_micro_batch_that_counts_twice() -> Facts:
    pair = Pair({"dp": 2})
    (x, dx), base, dist = pair.input((12, 5), {0: "dp"}), pair.base, pair.dist
    parts = []
    for start in (0, 2):
        rows = dist.emit("slice", [dx], start=[start, 0], limit=[start + 2, 5], stride=[1, 1])
        parts.append(summed(dist, dist.emit("sine", [rows])))
    total = dist.emit("add", [dist.emit("add", parts), parts[1]])
    total = dist.emit("all-reduce", [total], reducer="sum", groups=pair.groups("dp"))
    pair.outputs(summed(base, base.emit("sine", [x])), total)
    return with_lines(pair)


def test_a_block_of_each_of_several_pieces_is_taken() -> None:
    first = first_cause(rows_of_three_weights_in_one())
    assert first.kind == "slice"
    assert "a block of each of several pieces" in " ".join(first.found)
    assert first.suggestion == ("take the block of each of 3 pieces of dim 0",)
    assert "PROVED" in " ".join(first.tried)


def test_rules_that_run_out_of_time_leave_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalify_dl.mend.propose.SECONDS", 1e-9)
    assert first_cause(a_local_count_of_the_mean())  # of a program that is REFUTED


def test_a_part_that_no_op_takes_is_named() -> None:
    first = first_cause(a_micro_batch_that_counts_twice())
    assert first.kind == "slice"
    assert "no op takes [4:6]" in " ".join(first.found)


def a_maximum_that_is_never_taken_of_all() -> Facts:
    """The sum goes over all ranks, and what is subtracted first is the largest of the rank's part."""
    pair = Pair({"tp": 2})
    results = []
    for g, x in zip((pair.base, pair.dist), pair.input((4, 6), {1: "tp"}), strict=True):
        most = g.emit("reduce", [x], dimensions=[1], reducer="max")
        powers = g.emit("exponential", [g.emit("subtract", [x, spread(g, most, x.shape, (0,))])])
        total = g.emit("reduce", [powers], dimensions=[1], reducer="sum")
        if g is pair.dist:
            total = g.emit("all-reduce", [total], reducer="sum", groups=pair.groups("tp"))
        results.append(g.emit("divide", [powers, spread(g, total, x.shape, (0,))]))
    pair.outputs(*results, layout="[0:1x4][1:1x3]|tp=1:3x2")
    return facts_of(pair)


def halves_of_which_one_is_taken_twice() -> Facts:
    """As rotary embeddings take them: both halves times both factors, all of which the baseline has, too."""
    pair = Pair({"tp": 2})
    (x, dx), (c, dc), (s, ds) = (pair.input((4, 6), {0: "tp"}), pair.input((4, 3), {0: "tp"}),
                                 pair.input((4, 3), {0: "tp"}))  # fmt: skip
    results = []
    for g, t, cosine, sine, at in ((pair.base, x, c, s, 0), (pair.dist, dx, dc, ds, 3)):
        one, other = (g.emit("slice", [t], start=[0, n], limit=[t.shape[0], n + 3], stride=[1, 1]) for n in (at, 3))
        right = g.emit("add", [g.emit("multiply", [other, cosine]), g.emit("multiply", [one, sine])])
        left = g.emit("subtract", [g.emit("multiply", [one, cosine]), g.emit("multiply", [other, sine])])
        results.append(g.emit("concatenate", [left, right], dimension=1))
    pair.outputs(*results, layout="[0:1x2][1:1x6]|tp=0:2x2")
    return facts_of(pair)


def a_gate_that_is_the_other_half() -> Facts:
    """Of a fused projection one half is taken twice, in front of a sum over ranks."""
    pair = Pair({"tp": 2})
    (one, done), (other, dother) = pair.input((3, 4), {1: "tp"}), pair.input((3, 4), {1: "tp"})
    (w, dw), results = pair.input((4, 5), {0: "tp"}), []
    for g, halves, weight, wrong in ((pair.base, (one, other), w, 0), (pair.dist, (done, dother), dw, 1)):
        fused, n = g.emit("tanh", [g.emit("concatenate", list(halves), dimension=1)]), halves[0].shape[1]
        gate, up = (g.emit("slice", [fused], start=[0, at], limit=[3, at + n], stride=[1, 1]) for at in (n * wrong, n))
        results.append(matmul(g, g.emit("multiply", [g.emit("logistic", [gate]), up]), weight))
    results[1] = pair.dist.emit("all-reduce", [results[1]], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(*results)
    return facts_of(pair)


def a_part_for_the_parts_of_all() -> Facts:
    """Rows are repeated in place of a gather."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((4, 6), {0: "tp"}), pair.input((6, 5))
    pair.outputs(matmul(pair.base, x, w), matmul(pair.dist, pair.dist.emit("concatenate", [dx, dx], dimension=0), dw))
    return facts_of(pair)


def angles_by_another_number() -> Facts:
    """A constant that is nothing by itself: of it and of places come angles, of these factors."""
    pair = Pair({"tp": 2})
    results = []
    for g, x, width in zip((pair.base, pair.dist), pair.input((4, 6), {0: "tp"}), (6, 12), strict=True):
        at = divided(g, g.emit("iota", [], dimension=0, shape=(6,), dtype="f32"), width)
        results.append(g.emit("multiply", [x, spread(g, g.emit("sine", [g.emit("exponential", [at])]), x.shape, (1,))]))
    pair.outputs(*results, layout="[0:1x2][1:1x6]|tp=0:2x2")
    return facts_of(pair)


def ranks_in_another_order_for_a_mask() -> Facts:
    """Of truth values no reading is made: the proof stops at their gather."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((4, 6), {0: "tp"}), pair.input((4, 6))
    results = []
    for g, t, other in ((pair.base, x, y), (pair.dist, dx, dy)):
        kept = g.emit("compare", [t, spread(g, g.constant(0, "f32"), t.shape, ())], direction="GT")
        if g is pair.dist:
            kept = g.emit("all-gather", [kept], groups=[[1, 0]], dimension=0)
        results.append(g.emit("select", [kept, other, g.emit("negate", [other])]))
    pair.outputs(*results)
    return facts_of(pair)


FAULTS: dict[Callable[[], Facts], tuple[str, str]] = {
    a_norm_of_gradients_that_nobody_divides: ("reduce-scatter", "a factor 2 enters here"),
    a_norm_of_gradients_one_of_which_nobody_divides: ("reduce-scatter", "a factor 2 enters here"),
    micro_batches_that_nobody_divides: ("add", "a factor 3 enters here: it adds up what the baseline has the mean of"),
    a_gradient_that_is_not_zeroed: ("add", "what was there before is not zeroed"),
    a_local_count_of_the_mean: ("reduce", "is in parts of a sum over dp and is never summed"),
    a_local_norm_whose_terms_are_added_in_another_order: ("add", "is added to parts of a sum over tp"),
    a_maximum_that_is_never_taken_of_all: ("subtract", "is still to be reduced, by max over tp"),
    a_part_for_the_parts_of_all: ("concatenate", "it repeats this rank's own part"),
    a_gate_that_is_the_other_half: ("slice", "it takes another piece"),
    halves_of_which_one_is_taken_twice: ("slice", "it takes another piece of this value"),
    angles_by_another_number: ("constant", "the constant 12"),
    ranks_in_another_order_for_a_mask: ("all-gather", ""),
    heads_of_another_rank: ("dynamic-slice", "is not this rank's own part"),
    two_readers_without_the_sum_in_their_backward: ("add", "what these lines read lacks a reduction in its backward"),
}


@pytest.mark.parametrize("wrong", FAULTS)
def test_the_first_cause_is_where_the_bug_is(wrong: Callable[[], Facts]) -> None:
    kind, sentence = FAULTS[wrong]
    first = first_cause(wrong())
    assert first.kind == kind
    assert any(sentence in text for text in first.found), first.found
    assert any("PROVED" in text for text in first.tried), first.tried
