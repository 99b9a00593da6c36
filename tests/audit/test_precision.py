"""Where rounding differs between the sides, the proof says so."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.literals import Literal


def cast(g: Graph, x: Tensor, dtype: str) -> Tensor:
    return g.emit("convert", [x], dtype=dtype)


def times(g: Graph, x: Tensor, factor: Fraction) -> Tensor:
    return g.emit("multiply", [x, g.splat(Literal.scalar(factor), x.dtype, x.shape)])


def scaled_after_the_cast(factor: Fraction, dtype: str, source: str = "f32") -> Pair:
    """cast(x * factor) against cast(x) * factor."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8), {1: "tp"}, dtype=source)
    base = cast(pair.base, times(pair.base, x, factor), dtype)
    pair.outputs(base, times(pair.dist, cast(pair.dist, dx, dtype), factor))
    return pair


@pytest.mark.parametrize(("factor", "listed"), [(Fraction(1, 3), True), (Fraction(-6), True), (Fraction(-1, 8), False)])
def test_a_factor_moved_across_a_narrowing_cast_is_listed_unless_it_is_a_power_of_two(
    factor: Fraction, listed: bool
) -> None:
    derived = derive(scaled_after_the_cast(factor, "bf16").tables())
    assert not derived.unproved
    assert derived.precision is listed


@pytest.mark.parametrize(
    ("factor", "dtype", "listed"),
    [
        (Fraction(65536), "f16", True),
        (Fraction(1, 65536), "f16", True),
        (Fraction(1), "f16", False),
        (Fraction(65536), "bf16", False),
    ],
)
def test_a_power_of_two_is_listed_where_the_type_has_fewer_exponents(
    factor: Fraction, dtype: str, listed: bool
) -> None:
    derived = derive(scaled_after_the_cast(factor, dtype).tables())
    assert not derived.unproved
    assert derived.precision is listed


@pytest.mark.parametrize(
    ("source", "dtype", "listed"), [("f16", "bf16", True), ("bf16", "f32", True), ("f64", "f64", False)]
)
def test_a_factor_is_listed_where_the_other_side_multiplies_in_another_type(
    source: str, dtype: str, listed: bool
) -> None:
    assert derive(scaled_after_the_cast(Fraction(1, 3), dtype, source).tables()).precision is listed


def test_a_factor_that_is_moved_behind_a_contraction_of_another_type_is_listed() -> None:
    """3 x is rounded to bf16 on the ranks; in the baseline 3 (x w) is f32."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((4, 8), dtype="bf16"), pair.input((8, 2), dtype="bf16")
    dot = {"lhs_contracting_dims": [1], "rhs_contracting_dims": [0], "lhs_batch_dims": [], "rhs_batch_dims": []}
    three = Fraction(3)
    pair.outputs(
        times(pair.base, pair.base.add("dot", [x, w], [("f32", (4, 2))], numbers=dot).result, three),
        pair.dist.add("dot", [times(pair.dist, dx, three), dw], [("f32", (4, 2))], numbers=dot).result,
    )
    derived = derive(pair.tables())
    assert not derived.unproved
    assert derived.precision


def test_a_factor_before_the_cast_on_both_sides_is_not_listed() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8), {1: "tp"})
    third = Fraction(1, 3)
    pair.outputs(
        cast(pair.base, times(pair.base, x, third), "bf16"), cast(pair.dist, times(pair.dist, dx, third), "bf16")
    )
    derived = derive(pair.tables())
    assert not derived.unproved
    assert not derived.precision


@pytest.mark.parametrize(("source", "dtype"), [("f32", "f8e5m2"), ("bf16", "f32")])
def test_partial_sums_that_are_cast_before_they_are_added_up_are_listed(source: str, dtype: str) -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8), {1: "tp"}, dtype=source)
    whole = pair.base.emit("reduce", [x], dimensions=[1], reducer="sum")
    part = cast(pair.dist, pair.dist.emit("reduce", [dx], dimensions=[1], reducer="sum"), dtype)
    total = pair.dist.emit("all-reduce", [part], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(cast(pair.base, whole, dtype), total)
    derived = derive(pair.tables())
    assert not derived.unproved
    assert derived.precision
