"""What jumps between numbers that ops computed is not decided over the reals, by either algebra."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.audit.trials.number import CHOSEN, chosen_by
from scalify_dl.certificate.files import CertificateError
from scalify_dl.ir.literals import Literal

from ..certificate.test_equal_formulas import claimed

ODD = {
    "17 above 16 in four bits": ("f8e4m3fn", "add", "16.0", "1.0", "GT", "16.0"),
    "a product beyond f16": ("f16", "multiply", "60000.0", "2.0", "GT", "65504.0"),
    "a product below f32": ("f32", "multiply", "1e-30", "1e-30", "GT", "0.0"),
    "a quotient that is rounded": ("f32", "divide", "1.0", "3.0", "LT", "0.33333334"),
}
SURE = {
    "a sum of few bits": ("bf16", "add", "2.0", "1.0", "GT", "2.0"),
    "a product of few bits": ("f16", "multiply", "0.5", "0.25", "EQ", "0.125"),
    "numbers far apart": ("f32", "", "0.1", "0.0", "LT", "0.3"),
}


def finite(dtype: str, left: str, right: str) -> Pair:
    """x where a product is finite."""
    pair = Pair({"tp": 2})
    (x, dx), (_, dy) = pair.input((4, 2)), pair.input((4, 2))
    g = pair.dist
    made = g.emit("multiply", [g.constant(Literal.scalar(text, dtype), dtype) for text in (left, right)])
    pair.outputs(x, g.emit("select", [spread(g, g.emit("is-finite", [made]), dx.shape, []), dx, dy]))
    return pair


def is_proved(pair: Pair) -> bool:
    return not derive(pair.tables(), formulas=2).unproved


@pytest.mark.parametrize("name", ODD)
def test_numbers_that_may_be_rounded_decide_nothing(name: str) -> None:
    assert not is_proved(chosen_by(*ODD[name]))


@pytest.mark.parametrize("name", CHOSEN)
def test_nor_do_those_of_the_trials(name: str) -> None:
    assert not is_proved(CHOSEN[name]())
    with pytest.raises(CertificateError):
        claimed(CHOSEN[name]())


@pytest.mark.parametrize("name", SURE)
def test_numbers_that_no_type_rounds_decide(name: str) -> None:
    assert is_proved(chosen_by(*SURE[name]))


def test_a_product_that_overflows_is_not_finite() -> None:
    assert not is_proved(finite("f32", "1e30", "1e30"))
    assert is_proved(finite("f32", "4.0", "0.5"))
