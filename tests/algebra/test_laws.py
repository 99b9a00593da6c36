"""Normal forms: what is one form, and what must not be."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scalify_dl.algebra import angles, elementwise, extended, laws, order, truths
from scalify_dl.algebra.cases import is_zero
from scalify_dl.algebra.extended import Masked, finite, infinite, masked
from scalify_dl.algebra.finite import Leaf, as_form, indicator, leaf_table
from scalify_dl.algebra.form import Field, Form, Undecided
from scalify_dl.algebra.huge import settled
from scalify_dl.algebra.known import is_place
from scalify_dl.algebra.numbers import literal, pi
from scalify_dl.algebra.positive import above_zero
from scalify_dl.algebra.same import same
from scalify_dl.algebra.sums import summed
from scalify_dl.algebra.variables import Variable
from scalify_dl.algebra.worth import Undefined, met_somewhere
from scalify_dl.audit import algebra_masks as masks
from scalify_dl.audit.algebra import campaign, value


@pytest.fixture
def basis() -> Field:
    return Field()


def unknowns(basis: Field, count: int) -> list[Form]:
    return [basis.of(basis.element("input", n)) for n in range(count)]


HALF = Fraction(1, 2)


def test_products_distribute(basis: Field) -> None:
    x, y, z = unknowns(basis, 3)
    assert x * (y + z) == x * y + z * x
    assert (x + y) * (x - y) == x * x - y * y
    assert not same(basis, (x + y) * (x + y), x * x + y * y)


def test_a_shift_cancels_in_softmax_and_a_forgotten_one_does_not(basis: Field) -> None:
    x, y, m = unknowns(basis, 3)
    shifted = laws.divide(laws.exponential(x - m), laws.exponential(x - m) + laws.exponential(y - m))
    plain = laws.divide(laws.exponential(x), laws.exponential(x) + laws.exponential(y))
    forgotten = laws.divide(laws.exponential(x - m), laws.exponential(x) + laws.exponential(y))
    assert same(basis, shifted, plain)
    assert not same(basis, forgotten, plain)
    assert not basis.needs


def test_the_root_of_a_square_is_the_number_only_where_it_is_not_negative(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    assert laws.power(x * x, HALF) != x
    e = laws.exponential(y)
    assert laws.power(e * e, HALF) == e
    assert laws.power(x * x, HALF) * laws.power(x * x, HALF) == x * x


def test_squares_are_taken_out_of_roots_as_absolute_values(basis: Field) -> None:
    x, y, z = unknowns(basis, 3)
    root = laws.power(x * x * y + x * x * z, HALF)
    assert root == laws.absolute(x) * laws.power(y + z, HALF)
    assert not same(basis, root, x * laws.power(y + z, HALF))
    size = y * y + z * z
    assert same(
        basis,
        laws.power(laws.divide(x * x + basis.one, size), HALF),
        laws.divide(laws.power(x * x + basis.one, HALF), laws.power(size, HALF)),
    )


def test_what_is_divided_by_is_not_zero_in_any_case(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    sign = finite(elementwise.UNARY["sign"](x), "sign")
    steep = sign * laws.power(basis.one + laws.divide(y * y, x * x), -HALF)
    plain = laws.divide(x, laws.power(x * x + y * y, HALF))
    assert same(basis, steep, plain)
    assert not same(basis, steep, laws.absolute(plain))
    assert not same(basis, laws.absolute(sign) * y, y)


def test_a_root_needs_what_it_is_of_not_to_be_negative_and_a_quotient_its_divisor(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    assert laws.power(x, HALF) * laws.power(x, HALF) == x
    assert laws.divide(y * x, y) == x
    assert {(need.what, need.form) for need in basis.needs} == {("nonnegative", x), ("nonzero", y)}
    with pytest.raises(Undecided):
        laws.divide(x, basis.zero)
    with pytest.raises(Undecided):
        laws.power(basis.constant(-2), HALF)


def test_fractions_are_compared_over_a_common_denominator(basis: Field) -> None:
    x, y, z = unknowns(basis, 3)
    one = basis.one
    a, b = one + x * x, one + y * y
    assert same(basis, laws.divide(z, a) + laws.divide(z, b), laws.divide(z * (a + b), a * b))
    assert not same(basis, laws.divide(z, a) + laws.divide(z, b), laws.divide(z, a + b))


def test_logarithms_and_roots_of_products(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    assert laws.logarithm(laws.exponential(x) * laws.exponential(y)) == x + y
    total = laws.exponential(x) + laws.exponential(y)
    assert laws.exponential(laws.logarithm(total)) == total
    assert laws.constant_power(basis, 8, HALF) == laws.constant_power(basis, 2, HALF).scaled(2)
    assert laws.constant_power(basis, Fraction(2, 9), HALF) == laws.constant_power(basis, 2, HALF).scaled(
        Fraction(1, 3)
    )


def test_maxima_and_minima_distribute_and_absorb(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    low, high = basis.constant(-1), basis.constant(1)
    clamped = laws.minimum(laws.maximum(x, low), high)
    assert clamped == laws.maximum(laws.minimum(x, high), low)
    assert clamped != laws.maximum(laws.minimum(x, low), high)
    assert laws.maximum(x + y, y) == y + laws.maximum(x, basis.zero)
    assert laws.maximum(x.scaled(3), y.scaled(3)) == laws.maximum(x, y).scaled(3)
    assert laws.maximum(-x, -y) == -laws.minimum(x, y)
    assert laws.maximum(basis.zero, x * x) == x * x
    assert laws.minimum(basis.zero, laws.exponential(x)) == basis.zero
    assert laws.maximum(basis.one, x * x + y) != x * x + y


@pytest.mark.parametrize("exponent", [1, 2, Fraction(1, 2), Fraction(-1, 2)])
def test_what_is_not_below_zero_stands_outside_of_a_maximum(basis: Field, exponent: Fraction) -> None:
    """… a factor of unknown sign does not; a maximum with such a factor is one of further maxima."""
    (x, y), high = unknowns(basis, 2), basis.constant(6)
    sizes = basis.of(basis.element("input", "size", nonnegative=True)), laws.power(y, Fraction(1, 3))
    for base, outside in zip(sizes, (True, Fraction(exponent).denominator == 2), strict=True):
        size = laws.power(base, exponent)
        for function in (laws.maximum, laws.minimum):
            assert (function(basis.zero, size * x) == size * function(basis.zero, x)) is outside
            assert function(size * x, x) != size * function(x, x)
        clamped = laws.minimum(laws.maximum(size * x, basis.zero), high)
        assert clamped == laws.maximum(laws.minimum(size * x, high), basis.zero)


def test_greater_and_at_least_differ_at_ties(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    assert elementwise.compared("GE", x, y) != elementwise.compared("GT", x, y)
    assert elementwise.compared("GE", x, y) == elementwise.compared("LE", y, x)
    assert elementwise.compared("EQ", x, y) == elementwise.compared("EQ", y, x)
    assert elementwise.compared("GT", x.scaled(2), y.scaled(2)) == elementwise.compared("GT", x, y)
    assert elementwise.compared("GT", -x, -y) != elementwise.compared("GT", x, y)


def test_masks_are_exact_and_infinities_of_both_signs_do_not_meet(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    shown = truths.greater(y, basis.zero)
    low = infinite(basis, -1)
    assert extended.exponential(extended.choose(shown, x, low)) == shown * laws.exponential(x)
    assert extended.maximum(low, x) == x
    with pytest.raises(Undecided):
        extended.add(low, infinite(basis, 1))
    with pytest.raises(Undecided):
        extended.add(low, extended.negate(low))
    assert not basis.needs
    part = extended.choose(shown, x, low)
    assert extended.add(part, extended.negate(part)) == masked(shown, basis.zero, -1)
    assert [(need.what, need.form) for need in basis.needs] == [("shown", shown)]
    with pytest.raises(Undecided):
        extended.multiply(low, x)
    assert isinstance(masked(shown, x, -1), Masked)


def test_infinities_are_compared_as_what_they_are(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    shown = truths.greater(y, basis.zero)
    low, high = infinite(basis, -1), infinite(basis, 1)
    part = extended.choose(shown, x, low)
    assert extended.equal(part, low) == basis.one - shown
    assert extended.equal(part, high) == basis.zero
    assert extended.greater(part, low) == shown
    assert extended.greater(low, part) == basis.zero
    assert extended.greater(high, part) == basis.one
    assert extended.greater(part, x.scaled(2)) == shown * truths.greater(-x, basis.zero)
    assert elementwise.UNARY["is-finite"](part) == shown


def test_indicators_of_an_integer_exclude_each_other_and_add_up_to_one(basis: Field) -> None:
    leaf = Leaf("id", 0, 4)
    flags = [indicator(basis, leaf, k) for k in range(4)]
    assert sum(flags[1:], flags[0]) == basis.one
    assert flags[0] * flags[1] == basis.zero
    assert flags[3] * flags[3] == flags[3]
    assert flags[3] * flags[0] == basis.zero
    import numpy as np

    table = leaf_table(leaf, np.dtype(np.int32))
    assert as_form(basis, table) == flags[1] + flags[2].scaled(2) + flags[3].scaled(3)


def test_the_same_function_of_the_same_is_the_same_and_odd_ones_change_sign(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    assert elementwise.UNARY["erf"](x - y) == -elementwise.UNARY["erf"](y - x)  # type: ignore[operator]
    assert elementwise.UNARY["cosine"](x - y) == elementwise.UNARY["cosine"](y - x)
    assert elementwise.UNARY["floor"](x) != elementwise.UNARY["floor"](-x)


def test_a_zero_that_is_rounded_is_no_point_to_compare_signs_at() -> None:
    tenth, fifth, three = (("c", Fraction(n, 10)) for n in (1, 2, 3))
    with pytest.raises(Undefined):
        value(("sign", ("subtract", ("add", tenth, fifth), three)), ())


def test_random_expressions_are_worth_what_their_forms_are() -> None:
    followed, equal, wrong = campaign(1200, seed=11)
    assert followed > 1000
    assert equal > 300
    assert wrong == []


@pytest.mark.parametrize("law", ["need", "sign", "tie", "angle", "mask"])
def test_the_attack_finds_a_law_that_is_too_wide(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if law == "need":
        monkeypatch.setattr(Field, "need", lambda self, what, form: None)
    elif law == "sign":
        monkeypatch.setattr(Form, "_factor_sign", lambda self, number, exponent: (True, True))
    elif law == "angle":
        monkeypatch.setitem(angles.HALVES, ("sine", "sine"), ("cosine", 1, -1))
    elif law == "mask":
        equal = extended.equal
        monkeypatch.setattr(extended, "equal", lambda x, y: x.flag if isinstance(x, Masked) else equal(x, y))
    else:
        monkeypatch.setattr(truths, "equal", lambda left, right: truths.greater(left, right))
    _, _, wrong = campaign(900, seed=5)
    assert wrong


def literal_of(basis: Field, text: str, dtype: str = "f32") -> Form:
    found = literal(basis, text, dtype)
    assert isinstance(found, Form)
    return found


def test_a_constant_is_the_root_or_logarithm_that_it_rounds_and_not_one_next_to_it(basis: Field) -> None:
    log = laws.logarithm(basis.constant(2))
    assert literal_of(basis, "0.693147182") == literal_of(basis, "0.6931472") == log
    assert literal_of(basis, "1.442695") * log == basis.one
    assert literal_of(basis, "1.4142135") == laws.constant_power(basis, 2, HALF)
    assert literal_of(basis, "0.7978845608") == laws.constant_power(basis, 2, HALF) * laws.power(pi(basis), -HALF)
    for text in ("0.6931473", "1.4426952", "1.4142139", "0.797885"):
        assert literal_of(basis, text).value == Fraction(text)
    assert literal_of(basis, "0.693147182", "f64").value is not None


def test_a_constant_is_the_fourth_root_that_it_rounds_and_not_one_next_to_it(basis: Field) -> None:
    root = literal_of(basis, "0.8408964152537145")
    assert root * root == laws.constant_power(basis, 2, -HALF)
    assert literal_of(basis, "0.35355339") == laws.constant_power(basis, 8, -HALF)
    near = literal_of(basis, "0.8408966")
    assert near * near != laws.constant_power(basis, 2, -HALF)


def test_places_in_rows_that_are_ordered_alike_are_the_same(basis: Field) -> None:
    x, y, z = unknowns(basis, 3)
    row = [x, y, z]
    total = laws.exponential(x) + laws.exponential(y) + laws.exponential(z)
    assert order.place(row, 0) == order.place([laws.divide(laws.exponential(v), total) for v in row], 0)
    assert order.place(row, 1) == order.place([(v - x).scaled(3) for v in row], 1)
    assert order.place(row, 0) != order.place([v * v for v in row], 0)
    assert order.place(row, 0) != order.place([-v for v in row], 0)


def test_the_element_at_the_place_of_the_greatest_is_the_greatest_and_ties_go_to_the_first(basis: Field) -> None:
    x, y, z = unknowns(basis, 3)

    def picked(row: list[Form], j: int, shown: list[Form]) -> Form:
        leaf = order.place(row, j)
        parts = [indicator(basis, leaf, n) * form for n, form in enumerate(shown)]
        return parts[0] + parts[1] + parts[2]

    row, places = [x, y, z], [basis.constant(n) for n in range(3)]
    for j in range(3):
        assert same(basis, picked(row, j, row), order.greatest(row, j))
    assert not same(basis, picked(row, 0, row), order.greatest(row, 1))
    turned = [z, y, x]
    assert same(basis, picked(turned, 1, turned), picked(row, 1, row))
    assert not same(basis, picked(turned, 0, places[::-1]), picked(row, 0, places))


def test_what_a_case_knows_decides_other_signs(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    one, zero = basis.one, basis.zero
    above, below = truths.greater(x, one), truths.greater(-one, x)
    assert same(basis, above * below, zero)
    assert not same(basis, truths.greater(x, -one) * truths.greater(one, x), zero)
    grown = laws.exponential(x) - one
    assert same(basis, truths.greater(grown, zero), truths.greater(x, zero))
    assert not same(basis, truths.greater(grown, one), truths.greater(x, one))
    assert same(basis, truths.greater(laws.maximum(x, y), one), truths.either(above, truths.greater(y, one)))


def test_a_mask_is_nothing_only_beside_what_is_not_masked(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    assert literal_of(basis, "-1e30").value is not None
    basis.huge = set()
    low, lower = literal_of(basis, "-1e9"), literal_of(basis, "-1e30")
    assert laws.maximum(low + x, y) == y
    hidden, shown = laws.exponential(x + low), laws.exponential(y)
    assert same(basis, laws.divide(shown, shown + hidden), basis.one)
    assert same(basis, laws.divide(hidden, shown + hidden), basis.zero)
    everything = laws.divide(hidden, hidden + laws.exponential(y + low))
    assert same(basis, everything, laws.divide(laws.exponential(x), laws.exponential(x) + shown))
    assert not same(basis, everything, basis.zero)
    assert not same(basis, low, lower)
    assert not same(basis, hidden.scaled(2) * laws.power(hidden, -1), basis.one)


def test_a_mask_that_a_truth_adds_or_chooses_hides_what_it_stands_beside(basis: Field) -> None:
    x, y, z = unknowns(basis, 3)
    basis.huge = set()
    one, low, lower = basis.one, literal_of(basis, "-1e9"), literal_of(basis, "-1e30")
    first, second = truths.greater(z, basis.zero), truths.greater(z, one)

    def share(left: Form, right: Form) -> Form:
        weights = [laws.exponential(left), laws.exponential(right)]
        return laws.divide(weights[0], weights[0] + weights[1])

    chosen = share(truths.choose(first, x, low), y)
    added = share(x + (one - first) * lower, y)
    assert settled(chosen) == settled(added)
    assert settled(chosen) != settled(share(truths.choose(second, x, low), y))
    assert settled(chosen) != settled(share(truths.choose(one - first, x, low), y))
    settled(share(truths.choose(first, x, low), truths.choose(first, y, low)))
    assert [need.form for need in basis.needs if need.what == "shown"] == [
        first * (laws.exponential(x) + laws.exponential(y))
    ]


def test_what_is_taken_away_again_beside_a_mask_is_listed(basis: Field) -> None:
    (x,) = unknowns(basis, 1)
    basis.huge = set()
    low, hidden = literal_of(basis, "-1e9"), truths.greater(x, basis.zero)
    extended.add(x, hidden * low)
    extended.add(hidden * low, (basis.one - hidden) * low)
    extended.add(hidden * low, (basis.one - hidden) * -low)  # never both
    assert "absorbed" not in {need.what for need in basis.needs}
    extended.add(x + low, hidden * -low)
    assert "absorbed" in {need.what for need in basis.needs}


def test_a_row_that_sees_itself_is_above_zero(basis: Field) -> None:
    i, j = Variable(("at", 0, 0), 9), Variable(("at", 1, 0), 9)
    weights = laws.exponential(basis.of(basis.element("input", (0, i, j))))
    row, column = (basis.of(basis.element("position", (v,), nonnegative=True)) for v in (i, j))
    seen, padded = basis.one - truths.greater(column, row), basis.of(basis.element("flag", ("input", 1, j)))
    assert above_zero(summed(basis, seen * weights, [j]))
    assert above_zero(summed(basis, seen * weights + basis.one - seen, [j]))
    assert not above_zero(summed(basis, truths.greater(row, column) * weights, [j]))
    assert not above_zero(summed(basis, seen * padded * weights, [j]))
    assert not above_zero(summed(basis, seen * weights - padded, [j]))


def test_random_rows_with_masks_are_equal_only_where_their_numbers_are() -> None:
    equal, listed, wrong = masks.campaign(80, 2)
    assert equal > 40 > listed
    assert wrong == []


def test_the_attack_finds_what_is_lost_beside_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extended, "absorbs", lambda *_: False)
    assert masks.campaign(5, 2)[2]


def test_what_can_never_be_so_is_no_condition(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    laws.logarithm(x)
    laws.power(y, -1)
    assert met_somewhere(basis)
    laws.logarithm(-x)
    assert not met_somewhere(basis)


def test_the_squares_of_sine_and_cosine_add_up_to_one(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    sine, cosine = (finite(elementwise.UNARY[kind](x - y), kind) for kind in ("sine", "cosine"))
    turned = finite(elementwise.UNARY["sine"](y - x), "sine")
    assert sine * sine + cosine * cosine == basis.one
    assert sine * turned == cosine * cosine - basis.one
    assert sine * cosine != basis.one
    assert same(basis, sine.whole_power(3) + sine * cosine * cosine, sine)


def test_sines_and_cosines_of_sums(basis: Field) -> None:
    x, y, z = unknowns(basis, 3)

    def sine(form: Form) -> Form:
        return finite(elementwise.UNARY["sine"](form), "sine")

    def cosine(form: Form) -> Form:
        return finite(elementwise.UNARY["cosine"](form), "cosine")

    assert cosine(basis.zero) == basis.one
    assert same(basis, cosine(x - y), cosine(x) * cosine(y) + sine(x) * sine(y))
    assert not same(basis, cosine(x - y), cosine(x) * cosine(y) - sine(x) * sine(y))
    assert same(basis, sine(x + y), sine(x) * cosine(y) + cosine(x) * sine(y))
    assert not same(basis, sine(x + y), sine(x) * cosine(y) - cosine(x) * sine(y))
    assert same(basis, cosine(x.scaled(3)), cosine(x).whole_power(3).scaled(4) - cosine(x).scaled(3))
    turned = z * cosine(x) * cosine(y) + z * sine(x) * sine(y)
    assert same(basis, laws.exponential(turned), laws.exponential(z * cosine(y - x)))
    assert not same(basis, laws.exponential(turned), laws.exponential(z * cosine(y + x)))


def test_powers_without_end_are_not_computed(basis: Field) -> None:
    x, y = unknowns(basis, 2)
    for form in (x + y, basis.constant(3)):
        with pytest.raises(Undecided):
            laws.power(form, 10**9)
        with pytest.raises(Undecided):
            laws.power(basis.constant(3), -(10**9))


@pytest.mark.parametrize("name", ["order", "turned"])
def test_an_input_may_be_called_as_places_of_rows_are(name: str) -> None:
    field = Field()
    leaf = Leaf((name, 0), 0, 3)
    assert sum((indicator(field, leaf, value) for value in range(3)), field.zero) == field.one
    assert not is_place(leaf)
    assert is_zero(indicator(field, leaf, 0) * indicator(field, leaf, 1))
