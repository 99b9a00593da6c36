"""Comparisons of whole numbers that a program computes of constants, and layouts with a scale, in the checker."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.files import CertificateError
from scalify_dl.certificate.formulas.forms import Atoms, Unknown
from scalify_dl.certificate.formulas.programs import Layout

from ..algebra.programs import number, two
from .test_equal_formulas import claimed


def chosen(left: float, right: float, dtype: str = "f32") -> Pair:
    """x + x, where the sum of two constants is above the first one."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((4,))
    g = pair.dist
    one, other = g.splat(left, dtype, (4,)), g.splat(right, dtype, (4,))
    truth = g.emit("compare", [two(g, "add", one, other), one], direction="GT", dtype="pred")
    twice = two(pair.base, "multiply", x, number(pair.base, 2, x))
    pair.outputs(twice, g.emit("select", [truth, two(g, "add", dx, dx), dx]))
    return pair


@pytest.mark.parametrize(("left", "right", "dtype"), [(128, 1, "f32"), (2**24 - 2, 1, "f32"), (254, 1, "bf16")])
def test_what_types_hold_is_what_it_is(left: float, right: float, dtype: str) -> None:
    claimed(chosen(left, right, dtype))


@pytest.mark.parametrize(("left", "right", "dtype"), [(2**24, 1, "f32"), (256, 1, "bf16"), (0.7, 0.1, "f32")])
def test_what_is_rounded_decides_nothing(left: float, right: float, dtype: str) -> None:
    with pytest.raises(CertificateError, match="rounded"):
        claimed(chosen(left, right, dtype))


def test_a_scale_is_one_of_real_numbers() -> None:
    layout, atoms = Layout("[0:1x4]|x=r2 *3/2"), Atoms()
    x = atoms.atom("input", 0)
    held = layout.of(x, "f32")
    assert isinstance(held, type(x))
    assert held.terms == x.times(Fraction(3, 2)).terms
    for element, dtype in ((x, "s32"), (7, "f32")):
        with pytest.raises(Unknown, match="scale"):
            layout.of(element, dtype)
