"""The checker on fused attention, masks that are large numbers, rows in order and constants: right pairs are accepted,
what is a little different is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import log, pi, sqrt
from typing import Any

import numpy as np
import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.files import CertificateError
from scalify_dl.certificate.formulas.claims import WORDS, ZEROS
from scalify_dl.certificate.formulas.constants import constant
from scalify_dl.certificate.formulas.elementwise import HIDDEN, LOW, Elementwise
from scalify_dl.certificate.formulas.forms import Atoms, Unknown
from scalify_dl.ir.graph import Graph, Tensor

from ..algebra.programs import compared, iota, over, part, scaled, two, where, wide
from .test_equal_formulas import claimed, facts_of

Attention = Callable[[Graph, Tensor, Tensor, Tensor], Tensor]


def softmax(g: Graph, x: Tensor) -> Tensor:
    dim = len(x.shape) - 1
    above = two(g, "subtract", x, wide(g, over(g, x, "max", dim), x, *range(dim)))
    weights = g.emit("exponential", [above])
    return two(g, "divide", weights, wide(g, over(g, weights, "sum", dim), x, *range(dim)))


def product(g: Graph, x: Tensor, y: Tensor, right: int) -> Tensor:
    batch: Any = {"lhs_batch_dims": [0], "rhs_batch_dims": [0]}
    return g.emit("dot", [x, y], lhs_contracting_dims=[2], rhs_contracting_dims=[right], **batch)


def written_out(scale: float, direction: str = "", low: float = -np.inf) -> Attention:
    def make(g: Graph, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = scaled(g, product(g, q, k, 2), scale)
        if direction:
            scores = where(g, compared(g, iota(g, scores, 2), iota(g, scores, 1), direction), scores, low)
        return product(g, softmax(g, scores), v, 1)

    return make


def fused(*, causal: int = 0, scale: str = "") -> Attention:
    def make(g: Graph, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        shape = (*q.shape[:-1], v.shape[-1])
        symbols = {"scale": [scale]} if scale else {}
        op = g.add("attention", [q, k, v], [("f32", shape)], numbers={"causal": [causal]}, symbols=symbols)
        return op.results[0]

    return make


def attending(base: Attention, dist: Attention, size: int) -> Pair:
    pair = Pair({"tp": 1})
    made = [pair.input((2, size, 4)) for _ in range(3)]
    pair.outputs(base(pair.base, *(x for x, _ in made)), dist(pair.dist, *(x for _, x in made)))
    return pair


@pytest.mark.parametrize("size", [3, 24])
@pytest.mark.parametrize("direction", ["", "LE"])
def test_fused_attention_is_what_it_is_written_out(direction: str, size: int) -> None:
    causal = int(bool(direction))
    claimed(attending(written_out(0.5, direction), fused(causal=causal), size))
    claimed(attending(written_out(0.5, direction), fused(causal=causal, scale="0.5"), size))
    wrong = [fused(causal=causal, scale="0.25"), fused(causal=1 - causal)]
    for other in wrong if size == 3 else wrong[:1]:
        with pytest.raises(CertificateError):
            claimed(attending(written_out(0.5, direction), other, size))


def masks(pair: Pair) -> list[tuple[str, str, str]]:
    return [(t, WORDS["masked"], "masked") for t, text in facts_of(pair)["literal"] if float(text) < -1e3]


@pytest.mark.parametrize("size", [3, 24])
def test_a_large_number_masks_where_that_is_assumed(size: int) -> None:
    pair = attending(written_out(0.5, "LE", -1e9), fused(causal=1), size)
    claimed(pair, *masks(pair))
    claimed(attending(written_out(0.5, "LE", -1e9), written_out(0.5, "LE", -1e9), 3))
    with pytest.raises(CertificateError):
        claimed(pair)
    for low, direction in ((-5e3, "LE"), (-1e9, "LT")):  # no large number; a row that is wholly masked
        twin = attending(written_out(0.5, direction, low), fused(causal=1), size)
        with pytest.raises(CertificateError):
            claimed(twin, *masks(twin))


def chosen(low: float, factor: float = 1.0) -> Callable[[Graph, Tensor], Tensor]:
    def make(g: Graph, x: Tensor) -> Tensor:
        shown = compared(g, iota(g, x, 1), g.splat(2, "s32", x.shape), "LT")
        return scaled(g, where(g, shown, x, low), factor)

    return make


def rows(base: Callable[[Graph, Tensor], Tensor], dist: Callable[[Graph, Tensor], Tensor], size: int = 3) -> Pair:
    pair = Pair({"tp": 1})
    x, dx = pair.input((1, size))
    pair.outputs(base(pair.base, x), dist(pair.dist, dx))
    return pair


def softened(make: Callable[[Graph, Tensor], Tensor]) -> Callable[[Graph, Tensor], Tensor]:
    return lambda g, x: softmax(g, make(g, x))


def test_what_masks_is_no_other_number() -> None:
    for base, dist in ((chosen(-1e9), chosen(-1e30)), (chosen(-1e9), chosen(-np.inf))):  # they come out
        pair = rows(base, dist)
        with pytest.raises(CertificateError):
            claimed(pair, *masks(pair))
    for factor in (1e-9, 0.5):  # with a small factor it is a small number
        pair = rows(softened(chosen(-1e9, factor)), softened(chosen(-np.inf, factor)))
        with pytest.raises(CertificateError):
            claimed(pair, *masks(pair))


def less_its_sum(low: float) -> Callable[[Graph, Tensor], Tensor]:
    """A softmax that takes the sum of a row from it instead of the maximum: the same of real numbers."""

    def make(g: Graph, x: Tensor) -> Tensor:
        x = chosen(low)(g, x)
        weights = g.emit("exponential", [two(g, "subtract", x, wide(g, over(g, x, "sum", 1), x, 0))])
        return two(g, "divide", weights, wide(g, over(g, weights, "sum", 1), x, 0))

    return make


def test_exp_of_what_no_type_holds_is_no_number() -> None:
    claimed(rows(softened(chosen(-5.0)), less_its_sum(-5.0)))
    with pytest.raises(CertificateError, match="more than any type holds"):
        claimed(rows(softened(chosen(-1e9)), less_its_sum(-1e9)))


def test_of_a_large_number_only_sums_and_maxima_are_made() -> None:
    of = Elementwise(Atoms())
    x = of.atoms.atom("input", 0)
    assert of.add(HIDDEN, x) is HIDDEN
    assert of.add(HIDDEN, LOW) is LOW
    assert of.most([HIDDEN, x]) is x
    assert of.most([HIDDEN, LOW]) is HIDDEN
    assert of.exponential(HIDDEN).value == 0
    assert of.compare("EQ", HIDDEN, LOW) == 0
    for kind, xs in (("multiply", [HIDDEN, x]), ("subtract", [HIDDEN, HIDDEN]), ("subtract", [x, HIDDEN]),
                     ("minimum", [HIDDEN, x]), ("negate", [HIDDEN]), ("relu", [HIDDEN])):  # fmt: skip
        with pytest.raises(Unknown):
            of.real(kind, xs)
    for other in (x, HIDDEN):
        with pytest.raises(Unknown):
            of.compare("GT", HIDDEN, other)


def second(g: Graph, x: Tensor) -> Tensor:
    op = g.add("top-k", [x], [("f32", (1, 2)), ("s32", (1, 2))], numbers={"k": [2], "stable": [1]})
    return part(g, op.results[0], 1, 2, dim=1)


def in_order(place: int, *, stable: int = 1) -> Callable[[Graph, Tensor], Tensor]:
    def make(g: Graph, x: Tensor) -> Tensor:
        types = [("f32", x.shape), ("s32", x.shape)]
        numbers, symbols = {"dimension": [1], "stable": [stable]}, {"direction": ["DESC"]}
        op = g.add("sort", [x, iota(g, x, 1)], types, numbers=numbers, symbols=symbols)
        return part(g, op.results[0], place, place + 1, dim=1)

    return make


def test_the_second_greatest_is_the_second_in_order() -> None:
    pair = rows(second, in_order(1))
    zeros = [(row[2], ZEROS, "precision") for row in facts_of(pair)["result"]]
    claimed(pair, *zeros)
    with pytest.raises(CertificateError, match="order of their places"):
        claimed(pair)
    with pytest.raises(CertificateError, match="no law is known"):
        claimed(rows(second, in_order(2)), *zeros)


def test_an_order_of_equals_that_is_not_said_must_be_assumed() -> None:
    pair = rows(in_order(0), in_order(0, stable=0))
    with pytest.raises(CertificateError, match="order of their places"):
        claimed(pair)
    claimed(pair, *((row[2], WORDS["order"], "order") for row in facts_of(pair)["result"]))


def test_constants_are_what_they_are_rounded_from() -> None:
    atoms = Atoms()

    def same(left: Any, right: Any) -> bool:
        return bool((left - right).terms == {})

    half, two_thirds = Fraction(1, 2), constant(atoms, "0.6666667", "f32")
    assert same(constant(atoms, "0.09999999999999998", "f32"), constant(atoms, "0.1", "f32"))
    assert not same(constant(atoms, "0.09999999999999998", "f64"), constant(atoms, "0.1", "f64"))
    assert not same(constant(atoms, "0.10000001", "f32"), constant(atoms, "0.1", "f32"))
    assert same(two_thirds, atoms.number(Fraction(2, 3)))
    fourth = constant(atoms, str(2**-0.25), "f32")
    assert same(fourth.whole(4), atoms.number(half))
    density = constant(atoms, str(1 / sqrt(2 * pi)), "f32")
    assert same(density * density * atoms.pi(Fraction(1)), atoms.number(half))
    assert same(constant(atoms, str(-pi), "f32"), -atoms.pi(Fraction(1)))
    assert same(constant(atoms, str(1 / log(2)), "f32") * constant(atoms, str(log(2)), "f32"), atoms.number(1))
    for text in ("0.000244140625", "0.00024414062"):
        assert same(constant(atoms, text, "f32"), atoms.number(Fraction(1, 4096)))
    near = str(float(np.nextafter(np.float32(2**-0.25), np.float32(1))))
    assert not same(constant(atoms, near, "f32"), fourth)


def test_a_named_constant_is_the_number_that_is_printed() -> None:
    values = np.random.default_rng(3).lognormal(0, 3, 300).astype(np.float32)
    for value in [*values, *(np.float32(pi**e * q) for e in (-1, -0.5, 0.5, 1) for q in (1, 2, 3, 0.5))]:
        atoms = Atoms()
        found = constant(atoms, repr(float(value)), "f32")
        ((product_of, factor),) = found.terms.items()
        worth = float(factor)
        for atom, exponent in product_of:
            kind, data = atoms.kinds[atom]
            worth *= {"pi": pi, "root": data, "log": log(2)}[kind] ** float(exponent)
        assert np.float32(worth) == value
