"""Large programs of one device of which some ops are written differently, in front of ones that no formula follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.verdict import Verdict

from .programs import alone, number, report, two, verdict, wide

Hide = Callable[[Graph, Tensor, Tensor], Tensor]
SHAPE = (2, 2, 512, 256)


def attended(h: Callable[[Graph, Tensor], Tensor]) -> Callable[[Graph, Tensor], Tensor]:
    def build(g: Graph, x: Tensor) -> Tensor:
        value = h(g, x)
        return g.emit("attention", [value, value, value], scale="0.125", causal=1)

    return build


def plain(g: Graph, x: Tensor) -> Tensor:
    """The derivative of SiLU: s (1 + x (1 - s))."""
    s, one = g.emit("logistic", [x]), number(g, 1, x)
    return two(g, "multiply", s, two(g, "add", one, two(g, "multiply", x, two(g, "subtract", one, s))))


def summed(g: Graph, x: Tensor, kind: str = "subtract") -> Tensor:
    """s + x s (1 - s)"""
    s, one = g.emit("logistic", [x]), number(g, 1, x)
    return two(g, "add", s, two(g, "multiply", two(g, "multiply", x, s), two(g, kind, one, s)))


def added(g: Graph, x: Tensor) -> Tensor:
    return summed(g, x, "add")


def masked(g: Graph, x: Tensor) -> Tensor:
    """-∞ where x is below zero."""
    below = g.emit("compare", [x, number(g, 0, x)], direction="LT")
    return g.emit("select", [below, number(g, float("-inf"), x), x])


def one_of(g: Graph, x: Tensor) -> Tensor:
    return two(g, "add", masked(g, x), number(g, 1, x))


def split(g: Graph, x: Tensor) -> Tensor:
    """(m - 2) + (m - m + 3): one_of's value where m is a number, and NaN where it is not."""
    m = masked(g, x)
    return two(g, "add", two(g, "subtract", m, number(g, 2, x)), two(g, "add", two(g, "subtract", m, m),
                                                                       number(g, 3, x)))  # fmt: skip


def test_ops_written_differently_in_a_large_program_are_equal() -> None:
    assert verdict(alone(attended(plain), attended(summed), *SHAPE)) == "PROVED"


def over(g: Graph, x: Tensor) -> Tensor:
    return two(g, "divide", number(g, 1, x), x)


def provided(g: Graph, x: Tensor) -> Tensor:
    """1 / x, and 0 where x is 0."""
    zero = number(g, 0, x)
    return g.emit("select", [g.emit("compare", [x, zero], direction="EQ"), zero, over(g, x)])


def not_provided(g: Graph, x: Tensor) -> Tensor:
    """The same where 1 / x is a number, and NaN where x is 0."""
    other = g.emit("compare", [x, number(g, 0, x)], direction="NE")
    return two(g, "multiply", over(g, x), g.emit("convert", [other], dtype=x.dtype))


@pytest.mark.parametrize(("base", "dist"), [(plain, added), (one_of, split), (provided, not_provided)])
def test_ops_that_differ_are_not(
    base: Callable[[Graph, Tensor], Tensor], dist: Callable[[Graph, Tensor], Tensor]
) -> None:
    assert verdict(alone(attended(base), attended(dist), *SHAPE)) != "PROVED"


def test_that_a_value_is_a_number_is_listed() -> None:
    """Of what attention makes of a masked row rules do not know that it is one."""
    pair = Pair({"tp": 1})
    (x, dx), (low, dlow) = pair.input(SHAPE), pair.input((2, 2, 512, 512))
    ends = []
    for g, value, scores, form in ((pair.base, x, low, plain), (pair.dist, dx, dlow, summed)):
        h = g.emit("attention", [value, value, value, masked(g, scores)], scale="0.125")
        ends.append(attended(form)(g, h))
    pair.outputs(*ends)
    found = report(pair)
    assert found.verdict is Verdict.PROVED
    assert any("its values are finite" in str(row) for row in found.assumptions)


def heads(g: Graph, x: Tensor, mask: Tensor, turned: Callable[[Graph, Tensor], Tensor], hide: Hide) -> Tensor:
    """Attention of each position to those before it that are no padding."""
    t = turned(g, x)
    rows = g.emit("dot", [t, t], lhs_batch_dims=[0, 1], rhs_batch_dims=[0, 1],
                  lhs_contracting_dims=[3], rhs_contracting_dims=[3])  # fmt: skip
    scores = hide(g, rows, g.emit("broadcast", [mask], shape=rows.shape, dimensions=[0, 3]))
    top = g.emit("reduce", [scores], dimensions=[3], reducer="max")
    weights = g.emit("exponential", [two(g, "subtract", scores, wide(g, top, scores, 0, 1, 2))])
    shares = two(g, "divide", weights, wide(g, over_last(g, weights), weights, 0, 1, 2))
    return g.emit("dot", [shares, t], lhs_batch_dims=[0, 1], rhs_batch_dims=[0, 1],
                  lhs_contracting_dims=[3], rhs_contracting_dims=[2])  # fmt: skip


def over_last(g: Graph, x: Tensor) -> Tensor:
    return g.emit("reduce", [x], dimensions=[3], reducer="sum")


def before(g: Graph, like: Tensor, direction: str = "LE") -> Tensor:
    row, column = (g.emit("iota", [], dtype="s32", shape=like.shape, dimension=d) for d in (2, 3))
    return g.emit("compare", [column, row], direction=direction)


def by_adding(g: Graph, scores: Tensor, mask: Tensor) -> Tensor:
    shown = g.emit("compare", [mask, number(g, 0, mask)], direction="NE")
    seen = g.emit("and", [before(g, scores), shown])
    return two(g, "add", scores, g.emit("select", [seen, number(g, 0, scores), number(g, -3e38, scores)]))


def by_choosing(direction: str = "LE", low: float = -2e38, *, smaller: str = "minimum") -> Hide:
    def hide(g: Graph, scores: Tensor, mask: Tensor) -> Tensor:
        seen = g.emit(smaller, [mask, g.emit("convert", [before(g, scores, direction)], dtype="s32")])
        shown = g.emit("compare", [seen, number(g, 0, seen)], direction="NE")
        return g.emit("select", [shown, scores, number(g, low, scores)])

    return hide


def masked_heads(hide: Hide) -> Pair:
    """Masks in two spellings, and dims in another order where an activation is written differently."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((2, 512, 4, 64))
    mask, dmask = pair.input((2, 512), dtype="s32", range=(0, 2))
    order = [0, 2, 1, 3]
    base = heads(pair.base, x, mask, lambda g, x: plain(g, g.emit("transpose", [x], dimensions=order)), by_adding)
    dist = heads(pair.dist, dx, dmask, lambda g, x: g.emit("transpose", [summed(g, x)], dimensions=order), hide)
    pair.outputs(base, dist)
    return pair


def test_masks_by_several_large_numbers_are_one() -> None:
    found = report(masked_heads(by_choosing()))
    assert found.verdict is Verdict.PROVED
    assert {"masked", "shown"} <= {row.why for row in found.assumptions}


@pytest.mark.parametrize("hide", [by_choosing("LT"), by_choosing(low=-2.0), by_choosing(smaller="maximum")])
def test_masks_that_hide_something_else_are_not(hide: Hide) -> None:
    assert verdict(masked_heads(hide)) != "PROVED"
