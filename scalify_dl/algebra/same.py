"""Whether two formulas are one: their difference is zero in each case of signs."""

from __future__ import annotations

from typing import Any

from .angles import added
from .cases import is_zero
from .cells import as_cell
from .extended import Masked, NotANumber
from .form import Field, Form, Undecided
from .known import Known
from .permuted import each_once
from .summands import summand
from .together import zero_together


def same(field: Field, left: Any, right: Any) -> bool:
    """Whether two elements are equal for all inputs. False also where no law says so."""
    left, right = as_cell(field, left), as_cell(field, right)
    if isinstance(left, NotANumber) or isinstance(right, NotANumber):
        return False
    if isinstance(left, Masked) or isinstance(right, Masked):
        return (
            isinstance(left, Masked)
            and isinstance(right, Masked)
            and left.sign == right.sign
            and left.flag == right.flag
            and differs_by_nothing(field, left.form * left.flag, right.form * left.flag)
        )
    return left == right or differs_by_nothing(field, left, right)


def differs_by_nothing(field: Field, left: Form, right: Form) -> bool:
    """Whether a difference is zero. What its cases need is so where what the two sides need is: they are equals."""
    needs, rooted = dict(field.needs), field.rooted
    field.rooted = None
    try:
        nonzero = tuple(need.form for need in needs if need.what in ("nonzero", "positive"))
        known, difference = Known(nonzero=nonzero), each_once(added(left - right))
        if is_zero(difference, known) or zero_together(difference, lambda form: is_zero(form, known)):
            return True
        summed = summand(difference)
        return summed is not None and is_zero(summed, known)
    except Undecided:
        return False
    finally:
        field.needs, field.rooted = needs, rooted
