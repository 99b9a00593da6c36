"""Edits that several ops need at once, and values that are read where a later one is at hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scalify_dl.facts import Facts
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import RootCause, Verdict
from scalify_dl.report.conclude import conclude

from .test_mending_steps import first_cause as first_of

Pairs = Sequence[tuple[int, int]]
LEFT, RIGHT = [(1, 0), (2, 1), (3, 2)], [(0, 1), (1, 2), (2, 3)]


def first_cause(pair: Pair) -> RootCause:
    found = conclude(analyse(pair.facts(), Options()))
    assert found.verdict is Verdict.REFUTED
    return found.frontier[0]


def with_borders(before: Pairs, after: Pairs) -> Pair:
    """A sum of each column and its two neighbours, of columns cut over ranks, which send their borders."""
    pair = Pair("sp=4")
    b, d = pair.base, pair.dist
    around = b.pad(b.input("x", (3, 8)), 0.0, [0, 1], [0, 1])
    x = d.shard("x", {1: "sp"})
    sent = [d.permute(d.slice(x, 1, at, at + 1), pairs) for at, pairs in ((1, before), (0, after))]
    wide = d.concatenate([sent[0], x, sent[1]], 1)
    for program, t, size in ((b, around, 8), (d, wide, 2)):
        left, middle, right = (program.slice(t, 1, at, at + size) for at in range(3))
        program.output(program.tanh(program.add(program.subtract(left, middle), program.multiply(right, 3.0))))
    return pair


def test_borders_that_go_to_the_next_rank_are_right() -> None:
    assert conclude(analyse(with_borders(RIGHT, LEFT).facts(), Options())).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("before", "after", "advice"),
    [
        (LEFT, RIGHT, "send in the other direction"),
        ([*RIGHT, (3, 0)], [*LEFT, (0, 3)], "send 1 on along sp, and nothing round"),
    ],
)
def test_permutes_that_are_all_wrong_are_mended_at_once(before: Pairs, after: Pairs, advice: str) -> None:
    cause = first_cause(with_borders(before, after))
    assert cause.kind == "collective-permute"
    assert cause.suggestion[0] == advice
    assert cause.tried == ("with this edit the output is PROVED",)


def test_an_old_part_that_is_gathered_is_replaced_by_the_new_one() -> None:
    pair = Pair("dp=2")
    b, d = pair.base, pair.dist
    new = b.subtract(b.input("p", (4, 3)), b.tanh(b.input("g", (4, 3))))
    b.output(b.exponential(new), new)
    own, whole = d.shard("g", {0: "dp"}), d.shard("p")
    old = d.slice(whole, 0, {0: 0, 1: 2}, {0: 2, 1: 4})
    stepped = d.subtract(old, d.tanh(own))
    d.output(d.exponential(d.all_gather(stepped, "dp", 0)), d.all_gather(old, "dp", 0))
    cause = first_cause(pair)
    assert cause.kind == "all-gather"
    assert cause.suggestion == ("read subtract as operand 0",)
    assert cause.tried == ("with this edit all outputs are PROVED",)


def test_an_average_of_old_values_reads_the_new_ones() -> None:
    pair = Pair("dp=2")
    b, d = pair.base, pair.dist
    for program in (b, d):
        names = ("p", "g", "mean")
        p, g, mean = (b.input(n, (4, 3)) if program is b else d.shard(n, {0: "dp"}) for n in names)
        new = program.subtract(p, program.multiply(g, 0.5))
        read = new if program is b else p
        program.output(new, program.add(program.multiply(mean, 0.75), program.multiply(read, 0.25)))
    cause = first_cause(pair)
    assert (cause.kind, cause.op) == ("multiply", "multiply.2")
    assert cause.suggestion == ("read subtract as operand 0",)
    assert cause.tried == ("with this edit all outputs are PROVED",)


def test_what_all_parameters_lack_is_inserted_for_each() -> None:
    """Two parameters are decayed at one line of the baseline, each by an op of its own."""
    pair = Pair("dp=2")
    shapes = {"w": (4, 3), "v": (6,)}
    for name, shape in shapes.items():
        for program in (pair.base, pair.dist):
            p, g = (program.input(n, shape) if program is pair.base else program.shard(n) for n in (name, f"g{name}"))
            program.output(program.subtract(p if program is pair.dist else program.multiply(p, 0.75), g))
    facts = pair.facts()
    cause = first_of(at_lines(facts, {"multiply": 3, "subtract": 4}))
    assert (cause.kind, cause.source[0].line) == ("subtract", 4)
    assert cause.tried == ("with this edit all outputs are PROVED",)


def at_lines(facts: Facts, lines: dict[str, int]) -> Facts:
    """Each kind of op at a line, all others at line 9."""
    facts.tables["source"] = [(op, 0, "m.py", lines.get(kind, 9), "f") for op, _, kind in facts["op"]]
    return facts


def heads_cut_in_thirds() -> Pair:
    """Queries, keys and values of each head lie side by side; each rank has two heads, and cuts all of it in thirds."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    x = b.reshape(b.input("x", (5, 24)), (5, 4, 3, 2))
    q, k, v = (b.reshape(b.slice(x, 2, i, i + 1), (5, 8)) for i in range(3))
    b.output(b.multiply(b.tanh(q), b.subtract(b.tanh(k), v)))
    y = d.shard("x", {1: "tp"})
    q, k, v = (d.slice(y, 1, i, i + 4) for i in (0, 4, 8))
    d.output(d.multiply(d.tanh(q), d.subtract(d.tanh(k), v)))
    return pair


def test_thirds_of_all_heads_are_taken_of_each() -> None:
    facts = at_lines(heads_cut_in_thirds().facts(), {"slice": 3})
    facts.tables["source"] = [  # cuts of the baseline are at another line
        (op, pos, file, line + 20 * op.startswith("base/"), where) for op, pos, file, line, where in facts["source"]
    ]
    cause = first_of(facts)
    assert cause.kind == "slice"
    assert cause.suggestion[0] == "take the block of each of 2 pieces of dim 1"
    assert cause.tried == ("with this edit the output is PROVED",)


def layers_that_add_what_every_rank_has(wrong: bool) -> Pair:
    """Three layers at the same lines: a product in parts is summed, and x is added behind it, or before."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    for p in (b, d):
        x = p.input("x", (4, 6)) if p is b else d.shard("x")
        for n in range(3):
            w, v = (
                p.input(f"{name}{n}", shape) if p is b else d.shard(f"{name}{n}", {dim: "tp"})
                for name, shape, dim in (("w", (6, 8), 1), ("v", (8, 6), 0))
            )
            y = p.matmul(p.tanh(p.matmul(x, w)), v)
            if p is b or not wrong:
                x = p.add(x, y if p is b else d.all_reduce(y, "tp"))
            else:
                x = d.all_reduce(d.add(x, y), "tp")
        p.output(x)
    return pair


def test_an_edit_of_one_layer_is_tried_in_all() -> None:
    facts = at_lines(layers_that_add_what_every_rank_has(True).facts(), {"add": 3, "all-reduce": 4})
    cause = first_of(facts)
    assert (cause.kind, cause.source[0].line) == ("add", 3)
    assert "counts 2 times" in " ".join(cause.found)
    assert cause.tried == ("with this edit the output is PROVED",)


def test_dims_that_a_reshape_mixes_up_are_told_apart() -> None:
    """Experts of a rank and ranks change places before they become one dim; a plain reshape puts them in order."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    x = b.reshape(b.transpose(b.reshape(b.tanh(b.input("x", (2, 6, 8))), (2, 2, 3, 8)), 1, 0, 2, 3), (4, 3, 8))
    b.output(b.exponential(b.multiply(x, b.input("z", (4, 3, 8)))))
    x = d.reshape(d.tanh(d.shard("x", {2: "tp"})), (4, 3, 4))
    d.output(d.exponential(d.multiply(x, d.shard("z", {2: "tp"}))))
    cause = first_cause(pair)
    assert cause.kind == "reshape"
    assert cause.suggestion[0].startswith("tell the dims apart that reshape puts together, and move dim 1 to place 0")
    assert cause.tried == ("with this edit the output is PROVED",)


def test_turns_that_an_edit_leaves_as_they_are_are_not_blamed() -> None:
    """One of three sums is over other ranks: the edit of all turns changes that one."""
    pair = Pair("dp=2,tp=2")
    for p in (pair.base, pair.dist):
        x = p.input("x", (4, 6)) if p is pair.base else pair.dist.shard("x", {})
        for n in range(3):
            shapes = ((f"w{n}", (6, 8), {1: "tp"}), (f"v{n}", (8, 6), {0: "tp"}))
            w, v = (p.input(k, s) if p is pair.base else pair.dist.shard(k, cut) for k, s, cut in shapes)
            x = p.matmul(p.tanh(p.matmul(x, w)), v)
            if p is pair.dist:
                x = pair.dist.all_reduce(x, "dp" if n == 1 else "tp")
        p.output(x)
    cause = first_of(at_lines(pair.facts(), {"all-reduce": 4}))
    assert cause.suggestion == ("all-reduce over tp",)
    assert not any("likewise" in text for text in cause.found), cause.found
    assert cause.tried == ("with this edit the output is PROVED",)
