"""Signs of numbers that are no fractions: sums of roots, logarithms of numbers and π.

A double is worth such a sum up to a few units of its last digit; where that is further from zero than a millionth of
the largest part, the sign is known. Sums that are nearer are not decided.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .form import Form

MARGIN = 1e-6


def constant_sign(form: Form) -> int:
    """1 or −1 where a form without unknowns is above or below zero; 0 where that is not known."""
    if len(form.terms) < 2:
        return 0
    total = largest = 0.0
    for monomial, coefficient in form.terms.items():
        part = 1.0
        for number, exponent in monomial:
            kind, data = form.field.elements[number][:2]
            if kind == "root":
                value = float(data)  # type: ignore[arg-type]
            elif kind == "number":
                value = math.pi
            elif kind == "log" and (argument := data.value) is not None and argument > 0:  # type: ignore[attr-defined]
                value = math.log(argument)
            else:
                return 0
            part *= value ** float(exponent)
        try:
            part *= float(coefficient)
        except OverflowError:
            return 0
        total, largest = total + part, max(largest, abs(part))
    if not math.isfinite(total) or abs(total) <= MARGIN * largest * len(form.terms):
        return 0
    return 1 if total > 0 else -1
