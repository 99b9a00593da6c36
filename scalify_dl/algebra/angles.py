"""Sums of angles: products of sines and cosines, however deep, as sums of sines and cosines of sums.

cos a · cos b = (cos(a − b) + cos(a + b))/2 and the like hold for all real a and b. In what is left no two are
multiplied, and those of different angles are independent: so two formulas that these laws make one are one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from . import elementwise
from .extended import finite
from .form import Element, Field, Form, Monomial, Number, Undecided
from .rebuilt import Rebuilt

MOST_FACTORS = 12
"""Most sines and cosines in one product: it becomes 2ⁿ⁻¹ terms."""
HALVES: dict[tuple[str, str], tuple[str, int, int]] = {
    ("cosine", "cosine"): ("cosine", 1, 1),
    ("sine", "sine"): ("cosine", -1, 1),
    ("sine", "cosine"): ("sine", 1, 1),
    ("cosine", "sine"): ("sine", 1, -1),
}
"""f(a) · g(b) is half of c·h(a + b) + d·h(a − b): h, c, d."""


def added(form: Form) -> Form:
    """The form without products of sines and cosines, in whatever it is made of, too."""
    if not any(is_angular(element) for element in form.field.elements):
        return form
    return _Added(form.field).form(form)


def is_angular(element: Element) -> bool:
    """Whether an element is a sine or cosine."""
    return element.kind == "function" and element.data[0] in ("sine", "cosine")  # type: ignore[index]


class _Added(Rebuilt):
    def __init__(self, field: Field) -> None:
        super().__init__(field, lambda _: None)

    def form(self, form: Form) -> Form:
        """The form made anew, its products last."""
        form = super().form(form)
        result, kept = self.field.zero, dict[Monomial, Number]()
        for monomial, coefficient in form.terms.items():
            angular, others = self._parted(monomial)
            if len(angular) < 2:
                kept[monomial] = coefficient
            else:
                result = result + Form(self.field, {others: coefficient}) * self._sum(angular)
        return result + Form(self.field, kept)

    def _parted(self, monomial: Monomial) -> tuple[list[tuple[str, Form]], Monomial]:
        """Sines and cosines to whole powers above zero, one by one; and the other factors."""
        angular: list[tuple[str, Form]] = []
        others = []
        for number, exponent in monomial:
            element = self.field.elements[number]
            if is_angular(element) and exponent > 0 and exponent == int(exponent):
                data: Any = element.data
                angular += [(data[0], data[1])] * int(exponent)
            else:
                others.append((number, exponent))
        return angular, tuple(others)

    def _sum(self, angular: list[tuple[str, Form]]) -> Form:
        """A product of sines and cosines as a sum."""
        if len(angular) > MOST_FACTORS:
            raise Undecided("a product of many sines")
        name, angle = angular[0]
        found: list[tuple[str, Form, Number]] = [(name, angle, 1)]
        for other, b in angular[1:]:
            grown = []
            for first, a, factor in found:
                result, of_sum, of_difference = HALVES[first, other]
                grown += [(result, a + b, factor * of_sum), (result, a - b, factor * of_difference)]
            found = grown
        total = self.field.zero
        for name, angle, factor in found:
            total = total + finite(elementwise.UNARY[name](angle), name).scaled(factor)
        return total.scaled(Fraction(1, 2 ** (len(angular) - 1)))
