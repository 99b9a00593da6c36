"""Formulas in words, shortened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cells import as_cell
from .complexes import Complex
from .extended import Masked, NotANumber
from .form import Field, Form, Monomial, Number

LONGEST = 160
DEEPEST = 6
Namer = Callable[[Any], str]
"""The name of an input, by the data of its element."""


def written(field: Field, element: Any, name: Namer) -> str:
    """An element of a tensor of formulas."""
    if isinstance(element, Complex):
        return f"({written(field, element.real, name)}) + i·({written(field, element.imaginary, name)})"
    cell = as_cell(field, element)
    if isinstance(cell, NotANumber):
        return "no number"
    if isinstance(cell, Masked):
        return f"{_sum(cell.form, name, 0)} where {_sum(cell.flag, name, 0)}, else {'−' * (cell.sign < 0)}∞"
    text = _sum(cell, name, 0)
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def _sum(form: Form, name: Namer, depth: int) -> str:
    if depth > DEEPEST:
        return "…"
    return " + ".join(_product(form, m, c, name, depth) for m, c in sorted(form.terms.items())) or "0"


def _product(form: Form, monomial: Monomial, coefficient: Number, name: Namer, depth: int) -> str:
    factors = [_power(form.field, number, exponent, name, depth) for number, exponent in monomial]
    if coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "·".join(factors)


def _power(field: Field, number: int, exponent: Number, name: Namer, depth: int) -> str:
    text = _element(field, number, name, depth + 1)
    if field.elements[number].kind == "root":
        return f"{field.elements[number].data}^({exponent})"
    return text if exponent == 1 else f"{text}^{exponent if exponent == int(exponent) else f'({exponent})'}"


def _element(field: Field, number: int, name: Namer, depth: int) -> str:
    element = field.elements[number]
    kind, data = element.kind, element.data
    content: Any = data
    if kind == "exp":
        return f"exp({_sum(Form(field, {content: 1}), name, depth)})"
    if kind == "maximum":
        lows = [[_sum(form, name, depth) for form in sorted(meet, key=lambda f: f.key)] for meet in content]
        minima = [low[0] if len(low) == 1 else "min(" + ", ".join(low) + ")" for low in sorted(lows)]
        return f"max({', '.join(minima)})"
    if kind == "flag" and isinstance(content[1], Form):
        return f"[{_sum(content[1], name, depth)} {'>' if content[0] == 'above' else '='} 0]"
    if kind == "equals":
        leaf, value = content
        if leaf.is_made("order"):
            row = ", ".join(_sum(form, name, depth) for form in leaf.name[1])
            return f"[place of the {leaf.name[2] + 1}. greatest of ({row}) is {value}]"
        made = isinstance(leaf.name, tuple) and len(leaf.name) != 2  # not an element of an input
        return f"[{'a place of a row' if made else name(leaf.name)} = {value}]"
    if isinstance(content, Form):
        return f"{'log' if kind == 'log' else ''}({_sum(content, name, depth)})"
    if kind == "function":
        parts = [_sum(part, name, depth) if isinstance(part, Form) else str(part) for part in content[1:]]
        return f"{content[0]}({', '.join(parts)})"
    if kind in ("huge", "number", "root"):
        return str(content)
    return name(content[1:] if kind == "flag" else content[0] if kind == "integer" else content)


def element_name(shapes: Callable[[str], tuple[int, ...]], names: Callable[[str], str]) -> Namer:
    """Names of inputs as the elements of tensors that they are."""

    def name(data: Any) -> str:
        if not (isinstance(data, tuple) and len(data) >= 2 and isinstance(data[0], str) and isinstance(data[1], int)):
            return "an unknown"
        shape = shapes(data[0])
        place = ", ".join(map(str, np.unravel_index(data[1], shape))) if shape else ""
        return names(data[0]) + (f"[{place}]" if place else "")

    return name
