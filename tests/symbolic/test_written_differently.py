"""Families whose sides are written differently: proved for all sizes where formulas with symbols are one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.facts.model import Facts
from scalify_dl.families import verify
from scalify_dl.families.differently import Differently, Multiples
from scalify_dl.families.family import Family
from scalify_dl.families.lift import lift
from scalify_dl.families.symbols import resolve
from scalify_dl.families.verify import verify_family
from scalify_dl.ir.expression import Expression
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.pairing import builder
from scalify_dl.prove.verdict import Verdict

from ..algebra.programs import (
    Make,
    alone,
    compared,
    iota,
    joined,
    matmul,
    over,
    part,
    scaled,
    transposed,
    two,
    where,
    wide,
)
from ..algebra.test_large import norm, softmax, variance
from ..algebra.test_right_when_small import SMALL_ONLY

Sized = Callable[[int], Pair | builder.Pair]


def facts(pair: Pair | builder.Pair) -> Facts:
    if isinstance(pair, builder.Pair):
        return pair.facts()
    return Facts({name: list(rows) for name, rows in pair.tables().items()})


def family(make: Sized, sizes: list[int]) -> tuple[Family, dict[str, int]]:
    """The family of a program at some sizes, and the first of them."""
    captures = [facts(make(n)) for n in sizes]
    symbols, points = resolve(captures, {"n": "0:0"})
    return lift(captures, points, symbols, {"n": "0:0"}), points[0]


def by_formulas(family: Family, point: dict[str, int]) -> bool:
    """Whether the algebra says for all sizes that outputs are equal."""
    wanted = {(dist, base) for dist, base, _ in family.expected}
    found = Differently().equalities(family.facts({}), point, wanted)
    return found is not None and len(found.proved) == len(wanted)


def halves(g: Graph, x: Tensor, reducer: str) -> Iterator[Tensor]:
    middle = x.shape[0] // 2
    for start in (0, middle):
        yield over(g, part(g, x, start, start + middle), reducer)


def attention(g: Graph, x: Tensor, *, causal: bool) -> Tensor:
    """Of a sequence on itself."""
    scores = matmul(g, x, transposed(g, x))
    if causal:
        scores = where(g, compared(g, iota(g, scores, 1), iota(g, scores, 0), "LE"), scores, float("-inf"))
    return matmul(g, softmax(g, scores), x)


def in_blocks(g: Graph, x: Tensor, *, causal: bool, count: int = 4, rescaled: bool = True) -> Tensor:
    """The same in blocks of keys with a running maximum and sum; each block has its positions."""
    size = x.shape[0] // count
    top, total, out = None, None, None
    for n in range(count):
        block = part(g, x, n * size, (n + 1) * size)
        scores = matmul(g, x, transposed(g, block))
        if causal:
            keys = two(g, "add", iota(g, scores, 1), g.splat(n * size, "s32", scores.shape))
            scores = where(g, compared(g, keys, iota(g, scores, 0), "LE"), scores, float("-inf"))
        here = over(g, scores, "max", 1)
        new = here if top is None else two(g, "maximum", top, here)
        weights = g.emit("exponential", [two(g, "subtract", scores, wide(g, new, scores, 0))])
        mine, values = over(g, weights, "sum", 1), matmul(g, weights, block)
        if top is not None:
            old = g.emit("exponential", [two(g, "subtract", top, new)])
            total = two(g, "multiply", total, old) if rescaled else total
            mine = two(g, "add", total, mine)
            values = two(g, "add", two(g, "multiply", out, wide(g, old, out, 0)), values)
        top, total, out = new, mine, values
    return two(g, "divide", out, wide(g, total, out, 0))


def rows(size: Callable[[int], int], *, squared: bool = True) -> Sized:
    """Rows over two ranks, (x + 1)² written out there; each rank takes its rows from a whole input and scales them by
    how many there are, or by `size` of that."""

    def make(n: int) -> builder.Pair:
        pair = builder.Pair("tp=2")
        b, d = pair.base, pair.dist
        x = b.input("x", (n, 8))
        y = b.add(x, b.full(1, x.shape))
        b.output(b.multiply(b.multiply(y, y), b.full(Fraction(1, n), y.shape)))
        x = d.slice(d.shard("x"), 0, {0: 0, 1: n // 2}, {0: n // 2, 1: n})
        mine = d.add(d.multiply(x, x) if squared else x, d.multiply(x, d.full(2, x.shape)))
        mine = d.multiply(d.add(mine, d.full(1, x.shape)), d.full(Fraction(1, size(n)), x.shape))
        d.output(d.all_gather(mine, "tp", 0))
        return pair

    return make


def made(base: Make, dist: Make, *more: int) -> Sized:
    return lambda n: alone(base, dist, n, *more)


RIGHT: dict[str, Sized] = {
    "softmax": made(lambda g, x: softmax(g, x, shift=False), softmax, 24),
    "softmax along what is a symbol": lambda n: alone(lambda g, x: softmax(g, x, shift=False), softmax, 24, n),
    "norm": lambda n: alone(lambda g, x: norm(g, x, divided=True), lambda g, x: norm(g, x, divided=False), 8, n),
    "variance": lambda n: alone(
        lambda g, x: variance(g, x, early=True, count=n), lambda g, x: variance(g, x, early=False, count=n), 8, n
    ),
    "a maximum in halves": made(
        lambda g, x: over(g, x, "max"), lambda g, x: two(g, "maximum", *[*halves(g, x, "max")][::-1]), 8
    ),
    "attention in blocks": made(
        lambda g, x: attention(g, x, causal=False), lambda g, x: in_blocks(g, x, causal=False), 8
    ),
    "causal attention in blocks": made(
        lambda g, x: attention(g, x, causal=True), lambda g, x: in_blocks(g, x, causal=True), 8
    ),
    "rows of ranks": rows(lambda n: n),
    "a number of ones": made(
        lambda g, x: scaled(g, over(g, x, "sum"), x.shape[0]),
        lambda g, x: two(g, "multiply", over(g, x, "sum"), over(g, g.splat(1.0, "f32", x.shape), "sum")),
        8,
    ),
}  # fmt: skip
WRONG: dict[str, Sized] = {
    "not rescaled": made(
        lambda g, x: attention(g, x, causal=False), lambda g, x: in_blocks(g, x, causal=False, rescaled=False), 8
    ),
    "halves the other way round": made(lambda g, x: x, lambda g, x: joined(g, *swapped(g, x)), 8),
    "rows of ranks, scaled by their own": rows(lambda n: n // 2),
    "rows of ranks, not squared": rows(lambda n: n, squared=False),
}


def swapped(g: Graph, x: Tensor) -> list[Tensor]:
    middle = x.shape[0] // 2
    return [part(g, x, middle, x.shape[0]), part(g, x, 0, middle)]


def along(name: str) -> str:
    """The dim that is a symbol."""
    return "0:1" if name in ("softmax along what is a symbol", "norm", "variance") else "0:0"


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_written_differently_is_proved_for_all_sizes(name: str) -> None:
    report = verify_family([facts(RIGHT[name](n)) for n in (40, 56)], {"n": along(name)})
    assert report.verdict is Verdict.PROVED, report.notes


def test_captures_that_a_proof_for_all_sizes_covers_are_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[object] = []
    analyse = verify.analyse
    monkeypatch.setattr(verify, "analyse", lambda *args: verified.append(args[0]) or analyse(*args))
    captures = [facts(RIGHT["attention in blocks"](n)) for n in (40, 56, 88)]
    report = verify_family(captures, {"n": "0:0"})
    assert report.verdict is Verdict.PROVED
    assert verified == captures[:1]
    assert len(report.cases) == 1  # blocks of one key are no case of their own


@pytest.mark.parametrize("sizes", [(40, 56), (40, 56, 88)])
def test_a_capture_that_is_wrong_is_found_after_one_that_is_right(sizes: tuple[int, ...]) -> None:
    """Whether formulas fit all of them or not."""
    captures = [facts(rows(lambda n: 28 if n == 56 else n)(n)) for n in sizes]
    report = verify_family(captures, {"n": "0:0"})
    assert report.verdict is Verdict.REFUTED
    assert report.sizes == {"n": 56}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_not(name: str) -> None:
    assert not by_formulas(*family(WRONG[name], [40, 56]))


@pytest.mark.parametrize("name", SMALL_ONLY)
def test_what_is_right_at_two_elements_alone_is_not(name: str) -> None:
    """Formulas at two elements are one, and so are not those of any number."""
    assert not by_formulas(*family(lambda n: alone(*SMALL_ONLY[name], n), [2, 6, 14]))


@pytest.mark.parametrize("name", RIGHT)
def test_a_number_in_the_place_of_a_size_is_not_proved(name: str) -> None:
    """Each formula of a number, held at what it is at the sizes at hand: there nothing has changed."""
    if along(name) == "0:1":
        return
    whole, point = family(RIGHT[name], [40, 56])
    assert by_formulas(whole, point)
    frozen = 0
    for other in held(whole, point):
        frozen += 1
        assert not by_formulas(other, point)
    assert frozen or name in ("softmax", "attention in blocks")


def held(family: Family, point: dict[str, int]) -> Iterator[Family]:
    """The family with one number of a constant, an op or a rank as a number."""

    def number(formula: Expression) -> Expression:
        return Expression.number(formula.at(point))

    for tensor, (above, below, text) in family.literals.items():
        if above.symbols | below.symbols:
            yield replace(family, literals=family.literals | {tensor: (number(above), number(below), text)})
    rows = family.tables.get("attr_number", [])
    for n, row in enumerate(rows):
        if isinstance(row[3], Expression) and row[3].symbols:
            changed = [*rows[:n], (*row[:3], number(row[3])), *rows[n + 1 :]]
            yield replace(family, tables=family.tables | {"attr_number": changed})
    for key, formula in family.rank_numbers.items():
        for place, (base, weights) in formula.places.items():
            if base.symbols:
                there = {**formula.places, place: (number(base), weights)}
                yield replace(family, rank_numbers=family.rank_numbers | {key: replace(formula, places=there)})


def test_sizes_are_multiples_where_they_are_divided() -> None:
    found = Multiples(map(Expression.parse, ("n/8", "n/6", "hidden/heads", "n*hidden/4 + 1")))
    assert [str(condition) for condition in found.conditions] == [
        "n/8 is a whole number", "(n/8)/3 is a whole number", "hidden/heads is a whole number"
    ]  # fmt: skip
    for text in ("n/8", "hidden/heads", "3*n*hidden/4 + 1"):
        assert found.formula(found.size(Expression.parse(text))) == Expression.parse(text)
    with pytest.raises(ValueError, match="quotient"):
        Multiples([Expression.parse("1/n")])
