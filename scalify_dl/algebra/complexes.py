"""Complex numbers as pairs of formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

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
