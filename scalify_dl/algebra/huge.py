"""Masks that are a large number: as a number greater than all that is computed, of which exp(−H) is nothing.

A mask of −1e30 is no mask over the reals: exp of it is not 0. It is one if all else is small beside it, which is
assumed and listed. The number is an unknown H of its own, so that −1e9 and −1e30 stay different, and H − H is 0.
What a form is, exp(−H) being nothing, its terms of the highest order in exp(H) tell.
"""

from __future__ import annotations

from typing import Any

from . import laws
from .form import Element, Field, Form, Number, Undecided
from .positive import at_least_zero
from .rebuilt import Rebuilt

Order = dict[int, Number]
"""Powers of exp(H), for each H; none of them 0."""


def settled(form: Form) -> Form:
    """A form without what is nothing beside what is not masked."""
    return _Settled(form.field).form(form) if form.field.huge else form


def settled_cell(cell: Any) -> Any:
    """The same of an element; as it is where that is not known."""
    try:
        return settled(cell) if isinstance(cell, Form) else cell
    except Undecided:
        return cell


class _Settled(Rebuilt):
    def __init__(self, field: Field) -> None:
        super().__init__(field, lambda element: None)

    def form(self, form: Form) -> Form:
        """The form without exp(−H), however deep."""
        order, lead = self.leading(form)
        if not order:
            return lead
        if any(exponent > 0 for exponent in order.values()):
            raise Undecided("exp of a number above all others")
        return self.field.zero

    def leading(self, form: Form) -> tuple[Order, Form]:
        """The highest order of a form, and the form divided by exp(H) to that."""
        groups: dict[tuple[tuple[int, Number], ...], Form] = {}
        for monomial, coefficient in form.terms.items():
            order: Order = {}
            product = self.field.constant(coefficient)
            for number, exponent in monomial:
                powers, new = self._factor(number, exponent)
                for size, power in powers.items():
                    order[size] = order.get(size, 0) + power
                product = product * new
            key = tuple(sorted((size, power) for size, power in order.items() if power))
            groups[key] = groups.get(key, self.field.zero) + product
        if not groups:
            return {}, form
        orders = {key: dict(key) for key in groups}
        for key, order in orders.items():
            if all(_at_least(order, other) for other in orders.values()):
                if groups[key].terms or not key:
                    return order, groups[key]
                break
        raise Undecided("numbers of which none is above all others")

    def _factor(self, number: int, exponent: Number) -> tuple[Order, Form]:
        element = self.field.elements[number]
        if is_size(self.field, number):
            return {number: exponent}, self.field.one
        if element.kind == "power":
            assert isinstance(element.data, Form)
            order, lead = self.leading(element.data)
            if lead == element.data:
                return {}, self.field.of(number, exponent)
            return {size: power * exponent for size, power in order.items()}, self._power(lead, exponent)
        new = self.element(number)
        return {}, self.field.of(number, exponent) if new is None else laws.power(new, exponent)

    def _power(self, new: Form, exponent: Number) -> Form:
        """Of what is not masked: where that is nothing, what is masked counts after all."""
        before = dict(self.field.needs)
        found = laws.power(new, exponent)
        row = next((form for form in (new, -new) if self.field.needs != before and at_least_zero(form)), None)
        if row is not None:
            self.field.needs = before
            self.field.need("shown", row)
        return found

    def _element(self, element: Element, number: int) -> Form | None:
        data: Any = element.data
        if element.kind == "huge" or (element.kind == "exp" and any(n in (self.field.huge or ()) for n, _ in data)):
            return None
        return super()._element(element, number)


def _at_least(order: Order, other: Order) -> bool:
    return all(order.get(size, 0) >= other.get(size, 0) for size in {*order, *other})


def is_size(field: Field, number: int) -> bool:
    """Whether an element is exp(H)."""
    element = field.elements[number]
    data: Any = element.data
    return element.kind == "exp" and len(data) == 1 and data[0][1] == 1 and data[0][0] in (field.huge or ())
