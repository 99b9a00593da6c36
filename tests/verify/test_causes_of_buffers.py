"""What ranks gather in one buffer corresponds by its pieces: the buffer itself stops no proof."""

from __future__ import annotations

from math import prod

from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude

from .test_mending_steps import facts_of, taken


def flat(g: Graph, x: Tensor) -> Tensor:
    return g.emit("reshape", [x], shape=(prod(x.shape),))


def two_layers(function: str = "sine") -> Pair:
    """Columns and rows of weights over tp, their parts over dp, gathered there in one buffer and taken apart; x is cut
    over dp, and the function between the layers is the sine in the baseline."""
    pair = Pair({"dp": 2, "tp": 2})
    (a, da), (b, db) = pair.input((8, 4), {0: ("tp", "dp")}), pair.input((4, 12), {0: "dp", 1: "tp"})
    (s, ds), (x, dx) = pair.input((4,), {0: "dp"}), pair.input((8, 4), {0: "dp"})
    base, g = pair.base, pair.dist
    row = g.emit("concatenate", [flat(g, da), ds, flat(g, db)], dimension=0)
    rows = g.emit("reshape", [g.emit("all-gather", [row], dimension=0, groups=pair.groups("dp"))], shape=(2, 22))
    wholes = []
    for shape, lo, hi in (((4, 4), 0, 8), ((4,), 8, 10), ((4, 6), 10, 22)):
        part = g.emit("slice", [rows], start=[0, lo], limit=[2, hi], stride=[1, 1])
        wholes.append(g.emit("reshape", [part], shape=shape))
    ga, gs, gb = wholes
    found = []
    for side, first, scale, second, y, kind in (
        (base, a, s, b, x, "sine"), (g, ga, gs, gb, dx, function)
    ):  # fmt: skip
        scaled = side.emit("multiply", [y, side.emit("broadcast", [scale], shape=y.shape, dimensions=[1])])
        hidden = side.emit(kind, [matmul(side, scaled, side.emit("transpose", [first], dimensions=[1, 0]))])
        back = matmul(side, hidden, first)
        if side is g:
            back = g.emit("all-reduce", [back], reducer="sum", groups=pair.groups("tp"))
        found.append(matmul(side, back, second))
    pair.outputs(*found, layout=str(pair.layout((8, 12), {0: "dp", 1: "tp"})))
    return pair


def test_a_gathered_buffer_of_which_all_pieces_correspond_is_no_cause() -> None:
    assert conclude(analyse(facts_of(two_layers()), Options())).verdict is Verdict.PROVED
    found = analyse(facts_of(two_layers("cosine")), Options())
    assert [op for (op,) in found.view.results("frontier")] == ["cosine"]
    assert conclude(found).verdict is Verdict.REFUTED


def a_step_on_parts(share: bool) -> Pair:
    """Gradients of means over rows, in one buffer whose parts end within a parameter: every rank steps with its part of
    it, squared, and all parts are gathered. `share`: divided by the number of ranks."""
    pair = Pair({"dp": 2})
    base, g = pair.base, pair.dist
    means, rows, weights, places = [], [], [], []
    for size, lo in ((6, 0), (4, 6)):
        (x, dx), (w, dw) = pair.input((4, size), {0: "dp"}), pair.input((size,))
        gradients = []
        for side, value in ((base, x), (g, dx)):
            part = spread(side, side.constant(1 / value.shape[0], "f32"), value.shape, ())
            gradients.append(
                side.emit("reduce", [side.emit("multiply", [value, part])], dimensions=[0], reducer="sum")
            )
        means.append((gradients[0], w))
        rows.append(gradients[1])
        weights.append(dw)
        places.append((lo, lo + size))
    flat_weights = g.emit("concatenate", weights, dimension=0)
    part = g.emit("concatenate", rows, dimension=0)
    part = g.emit("reduce-scatter", [part], dimension=0, reducer="sum", groups=pair.groups("dp"))
    if share:
        part = g.emit("multiply", [part, spread(g, g.constant(0.5, "f32"), (5,), ())])
    mine = g.emit("slice", [flat_weights], start=[0], limit=[5], stride=[1])
    moved = []
    for side, (grad, w) in ((base, means[0]), (base, means[1]), (g, (part, mine))):
        tenth = spread(side, side.constant(0.1, "f32"), w.shape, ())
        step = side.emit("add", [grad, side.emit("multiply", [w, tenth])])
        moved.append(side.emit("subtract", [w, side.emit("multiply", [step, step])]))
    whole = g.emit("all-gather", [moved[2]], dimension=0, groups=pair.groups("dp"))
    for wanted, (lo, hi) in zip(moved, places, strict=False):
        pair.outputs(wanted, g.emit("slice", [whole], start=[lo], limit=[hi], stride=[1]))
    return pair


def on_own_parts(pair: Pair) -> Facts:
    facts = facts_of(pair)
    op = next(op for op, _, kind in facts["op"] if kind == "slice")
    return taken(facts, op, "dp")


def test_a_factor_in_a_buffer_that_the_baseline_does_not_have_is_named_where_it_enters() -> None:
    assert conclude(analyse(on_own_parts(a_step_on_parts(True)), Options())).verdict is Verdict.PROVED
    found = conclude(analyse(on_own_parts(a_step_on_parts(False)), Options()))
    assert found.verdict is Verdict.REFUTED
    cause = found.frontier[0]
    assert cause.op == "reduce-scatter"
    assert "a factor 2 enters here" in cause.found[0]
    assert cause.tried[0].endswith("PROVED")


def a_shared_weight(summed: bool) -> Pair:
    """A weight that two products read steps by half of what both give, added up; `summed`: or by the first one's."""
    pair = Pair({"dp": 2})
    (x, dx), (y, dy), (w, dw) = pair.input((4, 6), {0: "dp"}), pair.input((4, 6), {0: "dp"}), pair.input((6,))
    found = []
    for side, a, b, weight in ((pair.base, x, y, w), (pair.dist, dx, dy, dw)):
        terms = [side.emit("reduce", [v], dimensions=[0], reducer="sum") for v in (a, b)]
        if side is pair.dist:
            terms = [side.emit("all-reduce", [t], reducer="sum", groups=pair.groups("dp")) for t in terms]
        total = side.emit("add", terms) if summed or side is pair.base else terms[0]
        half = spread(side, side.constant(0.5, "f32"), (6,), ())
        step = side.emit("subtract", [weight, side.emit("multiply", [total, half])])
        found += [step, side.emit("sine", terms[1:])]
    pair.outputs(found[0], found[2])
    pair.outputs(found[1], found[3])
    return pair


def test_a_term_that_is_never_added_is_named_and_added() -> None:
    assert conclude(analyse(facts_of(a_shared_weight(True)), Options())).verdict is Verdict.PROVED
    found = conclude(analyse(facts_of(a_shared_weight(False)), Options()))
    assert found.verdict is Verdict.REFUTED
    cause = found.frontier[0]
    assert cause.op == "subtract"
    assert "is one term of the baseline's" in cause.found[0]
    assert cause.tried[0].endswith("PROVED")


def a_sum_taken_twice(again: bool) -> Pair:
    """The product is doubled by a number of the program's own, which is also that of the ranks."""
    pair = Pair({"tp": 2})
    (x, dx), (u, du), (w, dw) = pair.input((4, 8), {1: "tp"}), pair.input((8, 3), {0: "tp"}), pair.input((3, 6))
    (rest, drest) = pair.input((4, 6))
    for side, a, first, second, other in ((pair.base, x, u, w, rest), (pair.dist, dx, du, dw, drest)):
        low = matmul(side, a, first)
        if side is pair.dist:
            for _ in range(1 + again):
                low = side.emit("all-reduce", [low], reducer="sum", groups=pair.groups("tp"))
        two = spread(side, side.constant(2, "f32"), (4, 6), ())
        out = side.emit("add", [side.emit("multiply", [matmul(side, low, second), two]), other])
        if side is pair.base:
            wanted = out
    pair.outputs(wanted, out)
    return pair


def test_a_value_that_is_summed_again_leads_even_where_the_program_multiplies_by_that_number() -> None:
    assert conclude(analyse(facts_of(a_sum_taken_twice(False)), Options())).verdict is Verdict.PROVED
    cause = conclude(analyse(facts_of(a_sum_taken_twice(True)), Options())).frontier[0]
    assert cause.op == "all-reduce~2"
    assert any("reducing it again" in text for text in cause.found)
    assert cause.tried[0].endswith("PROVED")


def accumulated(divided: bool) -> Pair:
    """The gradients of two micro-batches are added up, and half of that goes into a running mean of gradients."""
    pair = Pair({"dp": 2})
    (x, dx), (y, dy) = pair.input((4, 6), {0: "dp"}), pair.input((4, 6), {0: "dp"})
    m, dm = pair.input((6,))
    made = []
    for g, first, second, before in ((pair.base, x, y, m), (pair.dist, dx, dy, dm)):
        parts = [g.emit("reduce", [g.emit("sine", [t])], dimensions=[0], reducer="sum") for t in (first, second)]
        if g is pair.dist:
            parts = [g.emit("all-reduce", [t], reducer="sum", groups=pair.groups("dp")) for t in parts]
        total = g.emit("add", parts)
        if divided or g is pair.base:
            total = g.emit("divide", [total, spread(g, g.constant(2.0, "f32"), (6,), ())])
        kept = g.emit("multiply", [before, spread(g, g.constant(0.9, "f32"), (6,), ())])
        made.append(g.emit("add", [total, kept]))
    pair.outputs(*made)
    return pair


def test_a_number_that_nobody_divides_by_is_named_where_the_sum_is_made() -> None:
    assert conclude(analyse(facts_of(accumulated(True)), Options())).verdict is Verdict.PROVED
    found = conclude(analyse(facts_of(accumulated(False)), Options()))
    assert found.verdict is Verdict.REFUTED
    cause = found.frontier[0]
    assert cause.op == "add"
    assert cause.found[-1].startswith("the baseline goes on with 1/2 of this, ")
    assert cause.found[-1].endswith(": no value here is that")
    assert cause.tried[0].endswith("PROVED")


def a_mean_times_a_weight(second: int) -> Pair:
    """A product with a mean over the rows that a rank has, and what becomes of it averaged over dp; `second` says which
    weight the distributed side multiplies the mean by."""
    pair = Pair({"dp": 2})
    (x, dx), (a, da), (b, db) = pair.input((8, 4), {0: "dp"}), pair.input((4, 4)), pair.input((4, 4))
    found = []
    for g, rows, first, then, count in ((pair.base, x, a, b, 8.0), (pair.dist, dx, da, (da, db)[second], 4.0)):
        hidden = g.emit("sine", [matmul(g, rows, first)])
        mean = g.emit("divide", [hidden, g.splat(count, "f32", hidden.shape)])
        found.append(matmul(g, g.emit("transpose", [rows], dimensions=[1, 0]), matmul(g, mean, then)))
    total = pair.dist.emit("all-reduce", [found[1]], reducer="sum", groups=pair.groups("dp"))
    total = pair.dist.emit("divide", [total, pair.dist.splat(2.0, "f32", total.shape)])
    pair.outputs(found[0], total)
    pair.outputs(matmul(pair.base, x, b), matmul(pair.dist, dx, db), layout=str(pair.layout((8, 4), {0: "dp"})))
    return pair


def test_an_op_that_takes_another_weight_is_the_cause_not_what_scales_its_other_operand() -> None:
    assert conclude(analyse(facts_of(a_mean_times_a_weight(1)), Options())).verdict is Verdict.PROVED
    found = analyse(facts_of(a_mean_times_a_weight(0)), Options())
    assert [op for (op,) in found.view.results("frontier")] == ["dot~2"]
    assert conclude(found).verdict is Verdict.REFUTED
