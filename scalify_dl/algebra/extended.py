"""Forms with infinities: values that are infinite where a flag is 0, as masks of attention make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from . import laws, truths
from .flagged import absorbs
from .form import Field, Form, Undecided

F = TypeVar("F", bound=Callable[..., object])


class NotANumber:
    """A constant that is no number: it may stand where nothing chooses it, and nowhere else."""


def of_numbers(function: F) -> F:
    """A function of elements that says so where one is no number."""

    @wraps(function)
    def apply(*cells: object) -> object:
        if any(isinstance(cell, NotANumber) for cell in cells):
            raise Undecided("a constant that is not a number")
        return function(*cells)

    return apply  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Masked:
    """`form` where `flag` (0 or 1) is 1; else +∞ or −∞, as `sign` says."""

    flag: Form
    form: Form
    sign: int = -1


Cell = Form | Masked


def infinite(field: Field, sign: int) -> Masked:
    """+∞ or −∞."""
    return Masked(field.zero, field.zero, sign)


def masked(flag: Form, form: Form, sign: int) -> Cell:
    """What it is, with a flag that is known to be 1 left out, and nothing said of what is not seen."""
    if flag.value == 1:
        return form
    return Masked(flag, flag.field.zero if flag.value == 0 else form, sign)


@of_numbers
def finite(cell: Cell, what: str) -> Form:
    """The cell as a form; Undecided where it may be infinite."""
    if isinstance(cell, Form):
        return cell
    raise Undecided(f"{what} of a value that may be infinite, or no number")


@of_numbers
def negate(cell: Cell) -> Cell:
    """−x."""
    return -cell if isinstance(cell, Form) else Masked(cell.flag, -cell.form, -cell.sign)


@of_numbers
def add(left: Cell, right: Cell) -> Cell:
    """x + y. Where one may be −∞ and the other +∞, needs the latter to be a number."""
    forms = [cell if isinstance(cell, Form) else cell.form for cell in (left, right)]
    if forms[0].field.huge and absorbs(*forms):
        forms[0].field.need("absorbed", forms[0])
    if isinstance(left, Form):
        return left + right if isinstance(right, Form) else masked(right.flag, right.form + left, right.sign)
    if isinstance(right, Form):
        return masked(left.flag, left.form + right, left.sign)
    if left.sign != right.sign:
        low, high = (left, right) if left.sign < 0 else (right, left)
        high.flag.field.need("shown", high.flag)  # as that of a row less its greatest
        return masked(low.flag, low.form + high.form, -1)
    return masked(left.flag * right.flag, left.form + right.form, left.sign)


@of_numbers
def multiply(left: Cell, right: Cell) -> Cell:
    """x · y. Undecided where it may be 0 · ∞."""
    if isinstance(left, Form):
        if isinstance(right, Form):
            return left * right
        left, right = right, left
    if not isinstance(left, Masked):  # an integer of a known range, at the scale of a layout
        raise Undecided("the product of a table and a number")
    other = finite(right, "a product")
    if other.is_positive():
        return masked(left.flag, left.form * other, left.sign)
    if (-other).is_positive():
        return masked(left.flag, left.form * other, -left.sign)
    raise Undecided("the product of an infinity and a number of unknown sign")


@of_numbers
def exponential(cell: Cell) -> Form:
    """exp(x): 0 at −∞."""
    if isinstance(cell, Form):
        return laws.exponential(cell)
    if cell.sign > 0:
        raise Undecided("exp of +∞")
    return cell.flag * laws.exponential(cell.form)


@of_numbers
def logarithm(cell: Cell) -> Cell:
    """log(x): −∞ at 0."""
    form = finite(cell, "the logarithm")
    return infinite(form.field, -1) if form.value == 0 else laws.logarithm(form)


@of_numbers
def maximum(left: Cell, right: Cell) -> Cell:
    """The greater one."""
    if isinstance(left, Form) and isinstance(right, Form):
        return laws.maximum(left, right)
    if isinstance(left, Form):
        left, right = right, left
    assert isinstance(left, Masked)
    if left.flag.value == 0:
        return right if left.sign < 0 else left
    if left.sign > 0:
        if isinstance(right, Masked):
            raise Undecided("the maximum of values that may be infinite")
        return masked(left.flag, laws.maximum(left.form, right), 1)
    if isinstance(right, Form):
        return truths.choose(left.flag, laws.maximum(left.form, right), right)
    if right.flag.value == 0 or right.sign > 0:
        return maximum(right, left) if right.sign < 0 else _undecided("the maximum")
    one, either = left.flag.field.one, truths.either(left.flag, right.flag)
    value = (
        left.flag * right.flag * laws.maximum(left.form, right.form)
        + left.flag * (one - right.flag) * left.form
        + (one - left.flag) * right.flag * right.form
    )
    return masked(either, value, -1)


def _undecided(what: str) -> Cell:
    raise Undecided(f"{what} of values that may be infinite")


def minimum(left: Cell, right: Cell) -> Cell:
    """The lesser one."""
    if isinstance(left, Form) and isinstance(right, Form):
        return laws.minimum(left, right)
    return negate(maximum(negate(left), negate(right)))


def choose(truth: Form, yes: Cell, no: Cell) -> Cell:
    """One or the other, by a truth."""
    if truth.value is not None:
        return yes if truth.value else no
    if isinstance(yes, NotANumber) or isinstance(no, NotANumber):
        raise Undecided("a constant that is not a number")
    if isinstance(yes, Form) and isinstance(no, Form):
        return truths.choose(truth, yes, no)
    signs = {cell.sign for cell in (yes, no) if isinstance(cell, Masked)}
    if len(signs) > 1:
        raise Undecided("a choice of infinities of both signs")
    one = truth.field.one
    for cell, shown, other in ((no, truth, yes), (yes, one - truth, no)):
        if isinstance(cell, Masked) and cell.flag.value == 0:  # nothing is said of the form where it is not shown
            flag, form = (other.flag, other.form) if isinstance(other, Masked) else (one, other)
            return masked(shown * flag, form, cell.sign)
    flags = [cell.flag if isinstance(cell, Masked) else one for cell in (yes, no)]
    forms = [cell.form if isinstance(cell, Masked) else cell for cell in (yes, no)]
    return masked(truths.choose(truth, flags[0], flags[1]), truths.choose(truth, forms[0], forms[1]), signs.pop())


def _shown(cell: Cell) -> tuple[Form, Form, int]:
    """The flag, form and sign of any cell."""
    return (cell.field.one, cell, 0) if isinstance(cell, Form) else (cell.flag, cell.form, cell.sign)


@of_numbers
def greater(left: Cell, right: Cell) -> Form:
    """1 where left > right."""
    (f, a, above), (g, b, below) = _shown(left), _shown(right)
    one = f.field.one
    result = f * g * truths.greater(a, b) if (f * g).terms else f.field.zero
    result = result + (f * (one - g) if below < 0 else f.field.zero) + ((one - f) * g if above > 0 else f.field.zero)
    return result + (one - f) * (one - g) if above > below else result


@of_numbers
def equal(left: Cell, right: Cell) -> Form:
    """1 where they are equal."""
    (f, a, above), (g, b, below) = _shown(left), _shown(right)
    one = f.field.one
    result = f * g * truths.equal(a, b) if (f * g).terms else f.field.zero
    return result + (one - f) * (one - g) if above == below else result
