"""Forms made anew, by the laws, where some of their elements are found to be something simpler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalify_dl.registry import registering

from . import elementwise, laws, truths
from .form import Element, Field, Form, Number

BOUND: dict[str, Callable[[Field, Any, tuple[Form, ...]], Form]] = {}
bound_by = registering(BOUND)
"""Registers how an element of variables of its own is made of new parts (`sums.py`)."""


class Rebuilt:
    """Forms made anew of changed elements, by the laws."""

    def __init__(self, field: Field, changed: Callable[[Element], Form | None]) -> None:
        self.field, self.changed = field, changed
        self.known: dict[int, Form | None] = {}

    def form(self, form: Form) -> Form:
        """The form with its elements changed, however deep."""
        result, kept = self.field.zero, {}
        for monomial, coefficient in form.terms.items():
            if all(self.element(number) is None for number, _ in monomial):
                kept[monomial] = coefficient
                continue
            product = self.field.constant(coefficient)
            for number, exponent in monomial:
                new = self.element(number)
                product = product * (self.field.of(number, exponent) if new is None else self._power(new, exponent))
            result = result + product
        return result + Form(self.field, kept)

    def _power(self, new: Form, exponent: Number) -> Form:
        return laws.power(new, exponent)

    def element(self, number: int) -> Form | None:
        """A changed element; None where nothing in it changes."""
        if number not in self.known:
            self.known[number] = self._element(self.field.elements[number], number)
        return self.known[number]

    def _element(self, element: Element, number: int) -> Form | None:
        found = self.changed(element)
        if found is not None:
            return self.form(found)
        kind, data = element.kind, element.data
        if kind in BOUND:
            content: Any = data
            bound, *parts = content
            remade = tuple(map(self.form, parts))
            return None if remade == tuple(parts) else BOUND[kind](self.field, bound, remade)
        if kind == "exp":
            inner = Form(self.field, {data: 1})  # type: ignore[dict-item]
            new = self.form(inner)
            return None if new == inner else laws.exponential(new)
        if isinstance(data, Form):
            new = self.form(data)
            if new == data:
                return None
            return laws.logarithm(new) if kind == "log" else new
        if kind == "maximum":
            meets: Any = data
            members = {form: self.form(form) for meet in meets for form in meet}
            if all(form == new for form, new in members.items()):
                return None
            lows = [self._least([members[form] for form in meet]) for meet in meets]
            return laws.most(lows)
        if kind == "flag" and data[0] != "input":  # type: ignore[index]
            flag: Any = data
            what, q = flag
            new = self.form(q)
            if new == q:
                return None
            return (truths.greater if what == "above" else truths.equal)(new, self.field.zero)
        if kind == "function":
            function: Any = data
            name, *parts = function
            if len(parts) == 1 and isinstance(parts[0], Form):
                new = self.form(parts[0])
                if new == parts[0]:
                    return None
                made = elementwise.UNARY[name](new)
                return made if isinstance(made, Form) else None
            made_anew = tuple(self.form(part) if isinstance(part, Form) else part for part in parts)
            return None if made_anew == tuple(parts) else laws.function(self.field, name, made_anew)
        return None

    def _least(self, forms: list[Form]) -> Form:
        result = forms[0]
        for form in forms[1:]:
            result = laws.minimum(result, form)
        return result
