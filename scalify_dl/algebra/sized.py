"""Sizes that are symbols, in formulas: as sizes of variables, and as unknowns above 0."""

from __future__ import annotations

from math import prod

from scalify_dl.sizes import Size, symbol, terms_of

from .form import Field, Form
from .variables import AnySize, Variable

_CODES: dict[Size, AnySize] = {}
_SIZES: dict[int, Size] = {}
_FIRST = 1 << 40


def coded(size: int) -> int:
    """A size as variables have it."""
    if not isinstance(size, Size):
        return size
    if size not in _CODES:
        found = _CODES[size] = AnySize(_FIRST + len(_CODES))
        found.worth = lambda field: worth(field, size)
        _SIZES[hash(found)] = size
    return _CODES[size]


def size_of(variable: Variable) -> int:
    """How many values a variable has."""
    return _SIZES[hash(variable.size)] if isinstance(variable.size, AnySize) else variable.size


def worth(field: Field, size: int) -> Form:
    """A size as a formula: symbols are unknowns above 0."""
    found = field.zero
    for monomial, c in terms_of(size).items():
        one = field.constant(c)
        for name in monomial:
            one = one * field.of(field.element("input", ("size", name), positive=True))
        found = found + one
    return found


def is_size(kind: str, data: object) -> bool:
    """Whether a basis element is a symbol of sizes."""
    return kind == "input" and isinstance(data, tuple) and data[0] == "size"


def size_in(form: Form) -> int | None:
    """The whole number, or the size, that a formula is; None where it is neither."""
    found: int = 0
    for monomial, c in form.terms.items():
        if c != int(c):
            return None
        names: list[str] = []
        for number, exponent in monomial:
            kind, data = form.field.elements[number][:2]
            if not is_size(kind, data) or exponent != int(exponent) or exponent < 1:
                return None
            names += [data[1]] * int(exponent)  # type: ignore[index]
        found = found + prod(map(symbol, names), start=int(c))
    return found
