"""Constants that are near to a root are taken for it, and that is said: two of them may be different numbers."""

from __future__ import annotations

from fractions import Fraction

from scalify_dl.algebra.form import Field
from scalify_dl.algebra.same import same
from scalify_dl.kernels.formulas import Formulas
from scalify_dl.kernels.terms import Terms


def test_a_constant_that_stands_for_a_root_is_listed() -> None:
    terms = Terms()
    one, other, exact = (terms.number(Fraction(value)) for value in (0.70710678, 0.7071067811865476, 0.75))
    formulas = Formulas(terms, Field(), lambda node: False)
    assert same(formulas.field, formulas.cell(one), formulas.cell(other))
    formulas.cell(exact)
    assert list(formulas.stands_for) == [
        "the constant 0.70710678 stands for the root of 1/2",
        "the constant 0.7071067811865476 stands for the root of 1/2",
    ]
