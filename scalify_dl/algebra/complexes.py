"""Complex numbers as pairs of formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from scalify_dl.oracle.meaning import Call

from . import elementwise, laws
from .cells import Array, as_cell, mapped
from .extended import finite
from .form import Field, Form, Undecided


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number."""

    real: Form
    imaginary: Form


def as_complex(field: Field, element: Any) -> Complex:
    """Any element as a complex number."""
    if isinstance(element, Complex):
        return element
    if isinstance(element, (complex, np.complexfloating)):
        if not np.isfinite(element):
            raise Undecided("a complex constant that is no number")
        return Complex(field.constant(Fraction(float(element.real))), field.constant(Fraction(float(element.imag))))
    return Complex(finite(as_cell(field, element), "a complex number"), field.zero)


def _times(x: Complex, y: Complex) -> Complex:
    return Complex(
        x.real * y.real - x.imaginary * y.imaginary,
        x.real * y.imaginary + x.imaginary * y.real,
    )


def _over(x: Complex, y: Complex) -> Complex:
    found = _times(x, Complex(y.real, -y.imaginary))
    inverse = laws.power(y.real * y.real + y.imaginary * y.imaginary, -1)
    return Complex(found.real * inverse, found.imaginary * inverse)


def _exponential(x: Complex) -> Complex:
    size = laws.exponential(x.real)
    cosine, sine = (finite(elementwise.UNARY[kind](x.imaginary), kind) for kind in ("cosine", "sine"))
    return Complex(size * cosine, size * sine)


OPS: dict[str, Callable[..., Complex]] = {
    "add": lambda x, y: Complex(x.real + y.real, x.imaginary + y.imaginary),
    "subtract": lambda x, y: Complex(x.real - y.real, x.imaginary - y.imaginary),
    "negate": lambda x: Complex(-x.real, -x.imaginary),
    "multiply": _times,
    "divide": _over,
    "exponential": _exponential,
}


PRODUCTS = frozenset(["dot", "convolution"])
"""Kinds that are linear in each of two operands."""
LINEAR = frozenset(["dynamic-slice", "dynamic-update-slice", "gather", "pad", "select"])
"""Kinds that are linear in their complex operands together."""


def is_complex(dtype: str) -> bool:
    """Whether a type is one of complex numbers."""
    return dtype.startswith("c")


def complex_cells(field: Field, kind: str, xs: list[Array]) -> Array:
    """An elementwise op that takes or makes complex numbers."""
    if kind == "complex":
        return mapped(lambda x, y: Complex(finite(as_cell(field, x), kind), finite(as_cell(field, y), kind)), *xs)
    numbers = [mapped(lambda x: as_complex(field, x), np.asarray(x, dtype=object)) for x in xs]
    if kind == "real":
        return mapped(lambda x: x.real, *numbers)
    if kind == "imag":
        return mapped(lambda x: x.imaginary, *numbers)
    if kind == "convert":
        return numbers[0]
    if kind in OPS:
        return mapped(OPS[kind], *numbers)
    raise Undecided(f"`{kind}` of complex numbers")


def is_linear(call: Call) -> bool:
    """Whether an op makes sums of products of complex elements, or moves them."""
    sums = call.op.kind in ("reduce", "cumulative") and call.symbol("reducer") == "sum"
    return sums or call.op.kind in PRODUCTS | LINEAR


def by_parts(
    field: Field, function: Callable[[Call, list[Array]], list[Array]], call: Call, xs: list[Array], types: list[str]
) -> Array:
    """An op that `is_linear` in its complex operands, by what it makes of real and of imaginary parts."""
    of_reals = replace(call, results=[replace(result, dtype="f64") for result in call.results])

    def made(*parts: str) -> Array:
        taken = parts * len(xs) if len(parts) == 1 else parts
        ins = [
            complex_cells(field, part, [x]) if is_complex(dtype) else x
            for part, x, dtype in zip(taken, xs, types, strict=True)
        ]
        return mapped(lambda x: finite(x, "a complex number"), function(of_reals, ins)[0])

    if call.op.kind in PRODUCTS:
        real = mapped(lambda x, y: x - y, made("real", "real"), made("imag", "imag"))
        imaginary = mapped(lambda x, y: x + y, made("real", "imag"), made("imag", "real"))
    else:
        real, imaginary = made("real"), made("imag")
    return mapped(Complex, real, imaginary)
