"""Values on the way that are equal are cuts; quotients are divided; parts that share no unknown are looked at apart."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from scalify_dl.algebra import laws
from scalify_dl.algebra.components import components
from scalify_dl.algebra.decide import Decider
from scalify_dl.algebra.divided import divided
from scalify_dl.algebra.form import Field, Form
from scalify_dl.algebra.same import same
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import load_program

from .programs import alone, number, over, square, two, verdict, wide


def layers(g: Graph, x: Tensor, weights: list[Tensor], *, fused: bool, wrong: bool = False) -> Tensor:
    """Products and softmaxes one after the other; fused: both halves of a weight in one product, shifted, divided."""
    for n, w in enumerate(weights):
        if fused:
            y = g.emit("dot", [w, x], lhs_contracting_dims=[0], rhs_contracting_dims=[1])
            y = g.emit("transpose", [y], dimensions=[1, 0])
            e = g.emit("exponential", [two(g, "subtract", y, wide(g, over(g, y, "max", 1), y, 0))])
            inverse = two(g, "divide", number(g, 1, row := over(g, e if n or not wrong else y, "sum", 1)), row)
            x = two(g, "multiply", e, wide(g, inverse, e, 0))
        else:
            y = g.emit("dot", [x, w], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
            e = g.emit("exponential", [y])
            x = two(g, "divide", e, wide(g, over(g, e, "sum", 1), e, 0))
    return x


def deep(*, wrong: bool = False) -> Pair:
    pair = Pair({"tp": 1})
    x, dx = pair.input((4, 6))
    weights = [pair.input((6, 6)) for _ in range(4)]
    base = layers(pair.base, x, [w for w, _ in weights], fused=False)
    pair.outputs(base, layers(pair.dist, dx, [w for _, w in weights], fused=True, wrong=wrong))
    return pair


def test_layers_that_are_each_written_differently_are_proved_one_after_the_other() -> None:
    assert verdict(deep()) == "PROVED"


def test_a_layer_that_is_another_one_is_not_proved() -> None:
    assert verdict(deep(wrong=True)) != "PROVED"


def under_an_op_without_laws(*, wrong: bool) -> Pair:
    pair = deep(wrong=wrong)
    (base,), (dist,) = ([port.tensor for port in g.outputs] for g in (pair.base, pair.dist))
    for g in (pair.base, pair.dist):
        g.outputs.clear()
    rounded: dict[str, Any] = {"exponent_bits": 8, "mantissa_bits": 7}
    pair.outputs(*(g.emit("reduce-precision", [x], **rounded) for g, x in ((pair.base, base), (pair.dist, dist))))
    return pair


def test_rules_go_on_from_values_between_where_the_output_has_no_formula() -> None:
    assert verdict(under_an_op_without_laws(wrong=False)) == "PROVED"
    assert verdict(under_an_op_without_laws(wrong=True)) != "PROVED"


def test_where_a_value_between_is_cut_its_own_needs_are_kept() -> None:
    pair = Pair({"tp": 1})
    (x, dx), (y, dy) = pair.input((3, 3)), pair.input((3, 3))
    base, dist = pair.base, pair.dist
    quotient = two(dist, "multiply", dx, two(dist, "divide", number(dist, 1, dx), dy))
    pair.outputs(base.emit("exponential", [two(base, "divide", x, y)]), dist.emit("exponential", [quotient]))
    program = load_program(pair.tables())
    answer = Decider(program, program.shards).decide(*program.expects[0])
    assert answer is not None
    assert {what for _, what in answer.needs} == {"nonzero"}


def test_no_output_is_begun_when_the_time_for_all_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = alone(square, square, 3)
    program = load_program(pair.tables())
    late = Decider(program, program.shards, seconds=-1.0, spared=0.0)
    monkeypatch.setattr(Decider, "_agreeing", lambda *_: pytest.fail("it was begun"))
    assert late.decide(*program.expects[0]) is None


@pytest.fixture
def basis() -> Field:
    return Field()


def unknowns(basis: Field, count: int) -> list[Form]:
    return [basis.of(basis.element("input", ("x", n))) for n in range(count)]


def test_the_parts_of_a_softmax_add_up_to_one_and_not_without_one_of_them(basis: Field) -> None:
    parts = [laws.exponential(x) for x in unknowns(basis, 4)]
    whole = parts[0] + parts[1] + parts[2] + parts[3]
    shares = [laws.divide(part, whole) for part in parts]
    assert divided(shares[0] + shares[1] + shares[2] + shares[3]) == basis.one
    assert divided(shares[0] + shares[1] + shares[2]) != basis.one


def test_a_form_is_the_sum_of_its_components(basis: Field) -> None:
    x, y, z, _ = unknowns(basis, 4)
    form = x * y + laws.exponential(y) + z * z - basis.one
    found = components(form)
    assert len(found) == 3
    assert sum(found[1:], found[0]) == form


def test_many_rows_have_cases_of_their_own(basis: Field) -> None:
    rows = unknowns(basis, 24)
    left = right = wrong = basis.zero
    for x in rows:
        left = left + laws.maximum(x, basis.zero) - laws.maximum(-x, basis.zero)
        right = right + x
        wrong = wrong + laws.absolute(x)
    assert same(basis, left, right)
    assert not same(basis, left, wrong)


def test_a_root_of_a_product_is_that_of_factors_of_which_roots_were_taken_only(basis: Field) -> None:
    x, y, z, _ = unknowns(basis, 4)
    half = Fraction(1, 2)
    assert laws.power(laws.divide(x, y), half) != laws.divide(laws.power(x, half), laws.power(y, half))
    apart = laws.divide(laws.power(x, half), laws.power(z, half))
    assert laws.power(laws.divide(x, z), half) == apart
    assert {need.what for need in basis.needs} == {"nonzero", "nonnegative"}
    assert laws.power(-z, half) * laws.power(-z, half) == -z
    assert not same(basis, laws.absolute(x), x)


@pytest.mark.parametrize(
    ("turned", "scale", "found"),
    [(True, 1.0, "PROVED"), (False, 1.0, "UNKNOWN"), (True, 2.0, "UNKNOWN"), (False, 2.0, "UNKNOWN")],
)
def test_a_correction_is_in_the_root_or_beside_it(turned: bool, scale: float, found: str) -> None:
    """Where both are below zero what has it in the root is a number: a baseline's, which is not left out."""
    pair = Pair({"tp": 1})
    (x, dx), (y, dy) = pair.input((3,)), pair.input((3,))
    sides = [(pair.base, x, y), (pair.dist, dx, dy)]
    g, a, b = sides.pop(turned)
    inside = g.emit("sqrt", [two(g, "divide", a, two(g, "subtract", number(g, 1, b), b))])
    h, c, d = sides[0]
    rest = h.emit("sqrt", [two(h, "subtract", number(h, 1, d), d)])
    beside = two(h, "divide", two(h, "multiply", h.emit("sqrt", [c]), number(h, scale, c)), rest)
    pair.outputs(*((inside, beside) if not turned else (beside, inside)))
    assert (verdict(pair) == "PROVED") == (found == "PROVED")
