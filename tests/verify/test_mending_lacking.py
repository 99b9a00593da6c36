"""Ops that are missing: a mask of the rank's own, a division of one turn, a mean of counts, a second term. Numbers that
stand in products with others, and collectives inside loops."""

from __future__ import annotations

from scalify_dl.audit.pair import spread
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude

from .test_mending_lines import Lined
from .test_mending_steps import first_cause
from .test_mending_together import at_lines
from .test_mending_where import divided, summed


def rows_of_a_cut_table(masked: bool) -> Pair:
    """Rows of the ranks' own parts of a table, summed: what another rank has is read as row 0."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    ids = b.input("ids", (5,), "s32", range=(0, 8))
    b.output(b.tanh(b.embedding(b.input("table", (8, 3)), ids)))
    ids = d.shard("ids")
    first = d.broadcast(d.rank_constant({0: 0, 1: 4}), (5,), [])
    local = d.subtract(ids, first)
    own = getattr(d, "and")(d.compare(local, 0, direction="GE"), d.compare(local, 4, direction="LT"))
    rows = d.embedding(d.shard("table", {0: "tp"}), d.select(own, local, d.full(0, (5,), "s32")))
    if masked:
        rows = d.multiply(rows, d.convert(d.broadcast(own, (5, 3), [0]), "f32"))
    d.output(d.tanh(d.all_reduce(rows, "tp")))
    return pair


def test_rows_of_a_cut_table_are_masked() -> None:
    assert conclude(analyse(rows_of_a_cut_table(True).facts(), Options())).verdict is Verdict.PROVED


def test_rows_that_another_rank_has_count_for_nothing() -> None:
    """To blame is where they are read, not the sum on another line."""
    cause = first_cause(rows_of_a_cut_table(False).facts())
    assert cause.kind == "gather"
    assert cause.suggestion == ("count gather only where and",)
    assert cause.tried == ("with this edit the output is PROVED",)


def test_what_one_turn_goes_without_is_named_where_others_have_it() -> None:
    """Of three micro-batches' losses the last is not divided."""
    pair = Pair("dp=2")
    b, d = pair.base, pair.dist
    x = b.input("x", (12, 4))
    b.output(b.tanh(b.divide(b.reduce(b.multiply(x, x), [0]), 6.0)))
    x = d.shard("x", {0: "dp"})
    total = None
    for turn in range(3):
        part = d.slice(x, 0, 2 * turn, 2 * turn + 2)
        loss = d.reduce(d.multiply(part, part), [0])
        loss = d.exponential(d.log(loss if turn == 2 else d.divide(loss, 3.0)))
        total = loss if total is None else d.add(total, loss)
    assert total is not None
    d.output(d.tanh(d.divide(d.all_reduce(total, "dp"), 2.0)))
    lines = {"divide": 5, "log": 6, "exponential": 6, "multiply": 3, "slice": 2, "reduce": 4}
    facts = at_lines(pair.facts(), lines)
    facts.tables["source"] = [
        (op, pos, file, line + 20 * op.startswith("base/"), where) for op, pos, file, line, where in facts["source"]
    ]
    cause = first_cause(facts)
    assert (cause.kind, cause.source[0].line) == ("divide", 5)
    assert "one of the turns goes without this" in " ".join(cause.found)
    assert "no output differs" in cause.tried[0] or "PROVED" in cause.tried[0]


def test_a_count_that_is_divided_by_twice_is_averaged() -> None:
    """Loss and gradient are means of the rank's own tokens, and are averaged over ranks."""
    pair = Pair("dp=2")
    b, d = pair.base, pair.dist
    for p in (b, d):
        x, y, m = (p.input(n, (6, 3)) if p is b else p.shard(n, {0: "dp"}) for n in ("x", "y", "m"))
        count = p.reduce(m, [0, 1])
        for value in (x, y):
            mean = p.divide(p.reduce(p.multiply(value, m), [0, 1]), count)
            p.output(mean if p is b else p.divide(d.all_reduce(mean, "dp"), 2.0))
    cause = first_cause(pair.facts())
    assert cause.kind == "reduce"
    assert cause.suggestion == ("all-reduce(sum) over dp after reduce, times 1/2",)
    assert cause.tried == ("with this edit all outputs are PROVED",)


def test_a_residual_that_is_left_out_is_added() -> None:
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    x, h = b.input("x", (4, 6)), b.input("h", (4, 6))
    b.output(b.tanh(b.add(x, b.exponential(h))), b.tanh(x))
    x, h = (d.shard(n, {1: "tp"}) for n in ("x", "h"))
    d.output(d.tanh(d.exponential(h)), d.tanh(x))
    cause = first_cause(pair.facts())
    assert cause.kind == "tanh"
    assert cause.suggestion == ("first add operand 0 of tanh with x as the baseline's add",)
    assert cause.tried == ("with this edit all outputs are PROVED",)


def a_number_that_stands_in_a_product() -> Facts:
    """A branch is multiplied by 4 where the baseline has 2; its gradient by 4 * 3, which is one number."""
    pair = Lined({"dp": 2})
    inputs = [pair.input(shape, {0: "dp"}) for shape in ((4, 6), (4, 6))]

    def times(g: Graph, t: Tensor, number: float) -> Tensor:
        return g.emit("multiply", [t, spread(g, g.constant(number, "f32"), t.shape, ())])

    made = []
    sides = (pair.base, pair.dist), zip(*inputs, strict=True), ((3.0, 2.0), (12.0,))
    for g, (x, v), numbers in zip(*sides, strict=True):
        out = g.emit("add", [times(g, g.emit("sine", [x]), 2.0 if g is pair.base else 4.0), v])
        pair.at(3)
        back = g.emit("sine", [out])
        for number in numbers:
            pair.at(5)
            back = times(g, back, number)
        pair.at(3)
        made.append((out, back))
    for whole, part in zip(*made, strict=True):
        pair.outputs(whole, part)
    pair.at(6)
    return pair.facts()


def test_a_number_is_mended_in_a_product_with_another_one() -> None:
    cause = first_cause(a_number_that_stands_in_a_product())
    assert (cause.kind, cause.source[0].line) == ("multiply", 3)
    assert cause.suggestion[0] == "2 instead of 4"
    assert cause.tried == ("with this edit all outputs are PROVED",)


def test_ranks_that_a_loop_sums_over_are_tried() -> None:
    """A product is cut over tp in each turn of a loop, and summed over dp."""
    pair = Pair("dp=2,tp=2")
    b, d = pair.base, pair.dist

    def turns(p: Program, x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        def body(q: Program, n: Tensor, x: Tensor, w: Tensor, v: Tensor) -> list[Tensor]:
            y = q.matmul(q.tanh(q.matmul(x, w)), v)
            return [q.add(n, 1), q.add(x, q.all_reduce(y, "dp") if p is d else y), w, v]

        start = [p.constant(0, "s32"), x, w, v]
        return p.loop(start, lambda q, n, *_: q.compare(n, 3, direction="LT"), body, trip_count=3)[1]

    b.output(turns(b, b.input("x", (4, 6)), b.input("w", (6, 8)), b.input("v", (8, 6))))
    d.output(turns(d, d.shard("x", {0: "dp"}), d.shard("w", {1: "tp"}), d.shard("v", {0: "tp"})))
    cause = first_cause(pair.facts())
    assert cause.kind == "all-reduce"
    assert cause.suggestion == ("all-reduce over tp",)
    assert cause.tried == ("with this edit the output is PROVED",)


def results_without_their_gates(line: int = 5) -> Facts:
    """Rows are multiplied by a gate each, which is made of them, before another value is taken from them."""
    pair = Lined({"dp": 2})
    (x, dx), (y, dy) = pair.input((4, 6), {0: "dp"}), pair.input((4, 6), {0: "dp"})
    base, dist = pair.base, pair.dist
    made = base.emit("sine", [x])
    gate = base.emit("logistic", [base.emit("reduce", [x], dimensions=[1], reducer="sum")])
    made = base.emit("multiply", [made, spread(base, gate, (4, 6), (0,))])
    whole = base.emit("cosine", [base.emit("subtract", [made, y])])
    pair.at(3)
    part = dist.emit("sine", [dx])
    pair.at(line)
    part = dist.emit("cosine", [dist.emit("subtract", [part, dy])])
    pair.at(7)
    pair.outputs(whole, part, layout="[0:1x2][1:1x6]|dp=0:2x2")
    return pair.facts()


def test_what_the_baseline_does_with_a_value_and_nobody_here_is_named_where_the_value_is_made() -> None:
    first = first_cause(results_without_their_gates())
    assert (first.kind, first.source[0].line) == ("sine", 5)
    assert "which it makes of that: no value here is it" in " ".join(first.found)
    first = first_cause(results_without_their_gates(line=3))  # in code of both programs
    assert (first.kind, first.source[0].line) == ("subtract", 7)


def a_turn_behind_the_loop(*, divided_by_line_5: bool, divided_by_line_7: bool) -> Facts:
    """Means of two micro-batches are halved and added up, the last one behind the loop."""
    pair = Lined({"dp": 2})
    (x, dx), (w, dw) = pair.input((8, 5), {0: "dp"}), pair.input((5,))
    base, dist = pair.base, pair.dist
    whole = base.emit("subtract", [w, divided(base, summed(base, base.emit("sine", [x])), 8)])
    pair.at(3)
    total = spread(dist, dist.constant(0.0, "f32"), (5,), ())
    pair.at(4)
    for line, halved in ((5, divided_by_line_5), (7, divided_by_line_7)):
        start = line - 5
        rows = dist.emit("slice", [dx], start=[start, 0], limit=[start + 2, 5], stride=[1, 1])
        part = divided(dist, summed(dist, dist.emit("sine", [rows])), 2)
        part = divided(dist, part, 2) if halved else part
        pair.at(line)
        total = dist.emit("add", [total, part])
        pair.at(line + 1)
    mean = divided(dist, pair.all_reduced(total), 2)
    pair.at(9)
    pair.outputs(whole, dist.emit("subtract", [dw, mean]))
    pair.at(10)
    return pair.facts()


def test_a_turn_at_another_line_that_is_not_divided_as_the_others_leads() -> None:
    first = first_cause(a_turn_behind_the_loop(divided_by_line_5=False, divided_by_line_7=True))
    assert (first.kind, first.source[0].line) == ("divide", 5)
    assert "one of the turns goes without the divide" in " ".join(first.found)
    assert "PROVED" in " ".join(first.tried)
    first = first_cause(a_turn_behind_the_loop(divided_by_line_5=True, divided_by_line_7=False))
    assert (first.kind, first.source[0].line) == ("divide", 7)
    first = first_cause(a_turn_behind_the_loop(divided_by_line_5=False, divided_by_line_7=False))
    assert "one of the turns" not in " ".join(first.found)
