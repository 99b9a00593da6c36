"""Sums and maxima over index variables: what is one form, and what must not be."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scalify_dl.algebra import laws, truths
from scalify_dl.algebra.extended import Masked
from scalify_dl.algebra.form import Field, Form, Undecided
from scalify_dl.algebra.same import same
from scalify_dl.algebra.sums import greatest, greatest_cell, summed
from scalify_dl.algebra.variables import Renamed, Variable, free
from scalify_dl.algebra.worth import met_somewhere
from scalify_dl.audit.algebra_sums import campaign

ROW, J, K = (Variable((name,), size) for name, size in (("i", 4096), ("j", 128), ("k", 4096)))


@pytest.fixture
def basis() -> Field:
    return Field()


def at(basis: Field, name: str, *variables: Variable) -> Form:
    return basis.of(basis.element("input", (name, *variables)))


def test_a_sum_of_ones_is_a_size(basis: Field) -> None:
    assert summed(basis, basis.one, [ROW, J]).value == 4096 * 128
    assert summed(basis, at(basis, "x", J), [ROW]) == at(basis, "x", J).scaled(4096)


def test_products_may_be_summed_in_any_order_and_not_over_other_variables(basis: Field) -> None:
    a, b = at(basis, "a", ROW, J), at(basis, "b", J, K)
    assert summed(basis, a * summed(basis, b, [K]), [J]) == summed(basis, a * b, [K, J])
    assert summed(basis, a * b, [J]) != summed(basis, a * at(basis, "b", K, J), [J])


def test_names_of_what_is_summed_over_do_not_matter(basis: Field) -> None:
    x, y = (at(basis, "x", v) * at(basis, "y", v) for v in (ROW, K))
    assert summed(basis, x, [ROW]) == summed(basis, y, [K])
    square = summed(basis, x, [ROW]) * summed(basis, y, [K])
    assert square == summed(basis, x * y, [ROW, K])
    assert square != summed(basis, x * x, [ROW])


def test_a_variable_is_not_caught_by_a_sum(basis: Field) -> None:
    """Σ_i x[i]·y[k] with i for k is Σ_i x[i]·y[i'], not Σ_i x[i]·y[i]; so, too, within functions."""
    inner = laws.exponential(summed(basis, at(basis, "a", ROW, K), [ROW]))
    renamed = Renamed(basis, {K: ROW}).form(inner)
    assert free(basis, renamed) == {ROW}
    assert renamed != laws.exponential(summed(basis, at(basis, "a", ROW, ROW), [ROW]))
    (element,) = {number for monomial in inner.terms for number, _ in monomial}
    bound = basis.elements[basis.elements[element].data[0][0]].data[0][0]  # type: ignore[index]
    caught = Renamed(basis, {K: bound}).form(inner)
    assert free(basis, caught) == {bound}


def test_a_shift_and_a_scale_come_out_of_a_maximum_and_a_negative_scale_does_not(basis: Field) -> None:
    x, y = at(basis, "x", ROW), at(basis, "y", J)
    top = greatest(basis, x, [ROW], basis.one)
    assert greatest(basis, x.scaled(2) + y, [ROW], basis.one) == top.scaled(2) + y
    assert greatest(basis, x * laws.exponential(y), [ROW], basis.one) == top * laws.exponential(y)
    assert greatest(basis, -x, [ROW], basis.one) != -top
    assert greatest(basis, x * y, [ROW], basis.one) != top * y


def test_a_row_of_which_all_may_be_masked_has_no_maximum(basis: Field) -> None:
    positions = [basis.of(basis.element("position", (v,), nonnegative=True)) for v in (ROW, K)]
    x = at(basis, "x", ROW, K)
    seen = basis.one - truths.greater(positions[1], positions[0])  # K ≤ ROW: the one at K = ROW
    assert isinstance(greatest_cell(Masked(seen, x), [K]), Form)
    with pytest.raises(Undecided):
        greatest_cell(Masked(truths.greater(positions[0], positions[1]), x), [K])


def test_random_sums_are_worth_what_they_are() -> None:
    compared, wrong = campaign(150, 7)
    assert wrong == []
    assert compared > 100


def test_looking_for_inputs_that_meet_all_needs_adds_none(basis: Field) -> None:
    """What a part of a sum needs, renamed to be worth something, is not asked of the proof."""
    x, y = at(basis, "x", K), at(basis, "y", K)
    laws.power(summed(basis, laws.power(x, Fraction(1, 2)) * laws.logarithm(y), [K]), -1)
    needs = dict(basis.needs)
    assert met_somewhere(basis)
    assert basis.needs == needs


def test_what_is_summed_is_compared_by_cases(basis: Field) -> None:
    """Huber losses: chosen by |x| < 1, and made of x that is clipped; the sum of either over all of a row."""
    x, one, half = at(basis, "x", K), basis.one, basis.one.scaled(Fraction(1, 2))
    size, clipped = laws.maximum(x, -x), laws.maximum(-one, laws.minimum(one, x))
    chosen = truths.choose(truths.greater(one, size), x * x * half, size - half)
    made, other = clipped * (x - clipped * half), clipped * (x - clipped)
    assert same(basis, summed(basis, chosen, [K]), summed(basis, made, [K]))
    assert not same(basis, summed(basis, chosen, [K]), summed(basis, other, [K]))
    assert not same(basis, summed(basis, chosen, [K]), summed(basis, made + half, [K]))
    whole = basis.constant(K.size)
    assert same(basis, summed(basis, chosen, [K]) + whole, summed(basis, made + one, [K]))
    assert not same(basis, summed(basis, chosen, [K]) + one, summed(basis, made + one, [K]))
