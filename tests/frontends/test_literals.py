"""Float constants that stand for ratios: what compilers fold divisions into."""

from __future__ import annotations

import struct
from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scalify_dl.ir.literals import Literal, is_short_binary, rounded, simple_ratio


@pytest.mark.parametrize("count", [60, 384, 1000, 1536, 12_288, 786_432, 5_000_000])
def test_one_over_a_count_of_elements_is_read_back(count: int) -> None:
    printed = f"{rounded(1 / count, 'f32'):.9g}"
    assert Literal.scalar(printed, "f32").rational == Fraction(1, count)


@pytest.mark.parametrize(("text", "value"), [("0.00260416674", "1/384"), ("0.000651041686", "1/1536")])
def test_the_text_of_a_dump_is_the_ratio(text: str, value: str) -> None:
    assert Literal.scalar(text, "f32").text == value


@pytest.mark.parametrize("text", ["0.1", "0.044715", "1.702", "1e-05", "0.9995", "10000.0", "0.134145"])
def test_a_short_decimal_is_meant(text: str) -> None:
    assert Literal.scalar(text, "f32").rational == Fraction(text)


@given(st.integers(1, 2**31 - 1))
def test_a_ratio_rounds_to_its_value(bits: int) -> None:
    """So two values of a type are never read as one number."""
    (value,) = struct.unpack("f", struct.pack("I", bits))
    if value != value or value == float("inf"):
        return
    ratio = simple_ratio(repr(value), "f32")
    assert ratio is None or rounded(float(ratio), "f32") == value


@given(st.integers(1, 2**18), st.integers(1, 15))
@example(100_001, 1)  # 9.9999e-06 says it in fewer digits than 1/100001
def test_a_small_ratio_is_read_back_unless_a_shorter_text_says_it(above: int, below: int) -> None:
    for value in (Fraction(above, below), Fraction(below, above)):
        read = Literal.scalar(f"{rounded(float(value), 'f32'):.9g}", "f32").rational
        assert read is not None
        if read != value and not is_short_binary(float(read), 12):
            digits = Decimal(float(read)).normalize(Context(prec=9)).as_tuple().digits
            assert rounded(float(read), "f32") == rounded(float(value), "f32")
            assert 10 ** len(digits) <= above * below
