"""Running sums, maxima, products and logarithms of sums of exponentials, written in one op and without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.files import CertificateError
from scalify_dl.ir.graph import Graph, Tensor

from ..certificate.test_equal_formulas import claimed
from .programs import Make, alone, compared, decided, iota, joined, matmul, over, part, two, where, wide


def run(reducer: str, *, reverse: bool = False) -> Make:
    return lambda g, x: g.emit("cumulative", [x], dimension=0, reducer=reducer, reverse=int(reverse))


def triangle(g: Graph, x: Tensor, direction: str) -> Tensor:
    square = g.splat(0.0, "f32", (x.shape[0], x.shape[0]))
    return g.emit("convert", [compared(g, iota(g, square, 1), iota(g, square, 0), direction)], dtype="f32")


def by_triangle(direction: str = "LE") -> Make:
    return lambda g, x: matmul(g, triangle(g, x, direction), x)


def in_logarithms(direction: str = "LE", *, exponentials: bool = True) -> Make:
    """log Σ exp(x), the sum by a triangle."""

    def make(g: Graph, x: Tensor) -> Tensor:
        inner = g.emit("exponential", [x]) if exponentials else x
        return g.emit("log", [matmul(g, triangle(g, x, direction), inner)])

    return make


def shifted(*, back: bool = True) -> Make:
    """The same less the greatest of the column, which is added again."""

    def make(g: Graph, x: Tensor) -> Tensor:
        top = wide(g, over(g, x, "max"), x, 1)
        found = in_logarithms()(g, two(g, "subtract", x, top))
        return two(g, "add", found, top) if back else found

    return make


def one_by_one(kind: str, *, reverse: bool = False) -> Make:
    """Row after row."""

    def make(g: Graph, x: Tensor) -> Tensor:
        rows = [part(g, x, n, n + 1) for n in range(x.shape[0])]
        rows = rows[::-1] if reverse else rows
        found = rows[:1]
        for row in rows[1:]:
            found.append(two(g, kind, found[-1], row))
        return joined(g, *(found[::-1] if reverse else found))

    return make


PAIRS: dict[str, tuple[Make, Make, Make]] = {
    "sums": (run("sum"), by_triangle(), by_triangle("LT")),
    "sums from the end": (run("sum", reverse=True), by_triangle("GE"), by_triangle()),
    "logarithms": (run("logsumexp"), in_logarithms(), in_logarithms("GE")),
    "logarithms from the end": (run("logsumexp", reverse=True), in_logarithms("GE"), in_logarithms("GT")),
    "logarithms, shifted": (run("logsumexp"), shifted(), shifted(back=False)),
    "logarithms of sums": (run("logsumexp"), in_logarithms(), in_logarithms(exponentials=False)),
}
SMALL: dict[str, tuple[Make, Make, Make]] = {
    "maxima": (run("max"), one_by_one("maximum"), one_by_one("minimum")),
    "minima from the end": (run("min", reverse=True), one_by_one("minimum", reverse=True), one_by_one("minimum")),
    "products": (run("prod"), one_by_one("multiply"), one_by_one("multiply", reverse=True)),
}
SHAPES = {"small": (4, 2), "large": (64, 32)}


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("name", PAIRS)
def test_running_sums_are_sums_up_to_a_place(name: str, size: str) -> None:
    base, right, wrong = PAIRS[name]
    assert decided(alone(base, right, *SHAPES[size]))
    assert not decided(alone(base, wrong, *SHAPES[size]))


@pytest.mark.parametrize("name", SMALL)
def test_other_running_reductions_are_made_one_by_one(name: str) -> None:
    base, right, wrong = SMALL[name]
    assert decided(alone(base, right, 4, 2))
    assert not decided(alone(base, wrong, 4, 2))


@pytest.mark.parametrize("name", [*PAIRS, *SMALL])
def test_the_checker_follows_them(name: str) -> None:
    base, right, wrong = (PAIRS | SMALL)[name]
    claimed(alone(base, right, 3, 2))
    with pytest.raises(CertificateError):
        claimed(alone(base, wrong, 3, 2))


def hidden(make: Callable[[Graph, Tensor], Tensor]) -> Make:
    """Of what is masked in the first rows."""

    def masked(g: Graph, x: Tensor) -> Tensor:
        shown = compared(g, iota(g, x, 0), g.splat(2, "s32", x.shape), "GE")
        return make(g, where(g, shown, x, float("-inf")))

    return masked


def test_a_sum_over_masked_places_alone_is_infinite_on_both_sides() -> None:
    pair: Pair = alone(hidden(run("logsumexp")), hidden(in_logarithms()), 4, 2)
    assert decided(pair)
    assert not decided(alone(hidden(run("logsumexp")), run("logsumexp"), 4, 2))
