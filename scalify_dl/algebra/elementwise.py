"""What elementwise ops make of formulas."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from . import extended, laws, truths
from .cells import as_cell
from .extended import Cell, Masked, finite
from .form import Field, Form, Undecided
from .numbers import pi

Unary = Callable[[Cell], Cell]
CUBIC = Fraction("0.044715")
"""What stands at x³ in the gelu by tanh."""


def _plain(function: Callable[[Form], Form], what: str) -> Unary:
    return lambda x: function(finite(x, what))


def _odd(name: str) -> Callable[[Form], Form]:
    """A function that no law but f(−x) = −f(x) is known of."""

    def apply(x: Form) -> Form:
        if x.value == 0:
            return x
        flipped = x.key > (-x).key
        result = laws.function(x.field, name, (-x if flipped else x,))
        return -result if flipped else result

    return apply


def _even(name: str) -> Callable[[Form], Form]:
    return lambda x: laws.function(x.field, name, (min(x, -x, key=lambda form: form.key),))


def _cosine(x: Form) -> Form:
    return x.field.one if x.value == 0 else _even("cosine")(x)


def _free(name: str) -> Callable[[Form], Form]:
    return lambda x: laws.function(x.field, name, (x,))


@extended.of_numbers
def logistic(x: Cell) -> Cell:
    """1/(1 + exp(−x))."""
    if isinstance(x, Masked) and x.sign > 0:
        raise Undecided("logistic of +∞")
    if isinstance(x, Masked):
        return x.flag * finite(logistic(x.form), "")
    one = x.field.one
    return laws.power(one + laws.exponential(-x), -1)


def tanh(x: Form) -> Form:
    """1 − 2/(1 + exp(2x))."""
    one = x.field.one
    return one - laws.power(one + laws.exponential(x.scaled(2)), -1).scaled(2)


def erf(x: Form) -> Form:
    """The error function: odd."""
    return _odd("erf")(x)


def _gelu(x: Form) -> Form:
    half = laws.constant_power(x.field, 2, Fraction(-1, 2))
    return (x * (x.field.one + erf(x * half))).scaled(Fraction(1, 2))


def gelu_tanh(x: Form) -> Form:
    """x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))."""
    scale = laws.constant_power(x.field, 2, Fraction(1, 2)) * laws.power(pi(x.field), Fraction(-1, 2))
    inner = (x + (x * x * x).scaled(CUBIC)) * scale
    return (x * (x.field.one + tanh(inner))).scaled(Fraction(1, 2))


def _gelu_slope(x: Form) -> Form:
    """Φ(x) + x·φ(x), of the normal distribution."""
    field = x.field
    above = (field.one + erf(x * laws.constant_power(field, 2, Fraction(-1, 2)))).scaled(Fraction(1, 2))
    density = laws.exponential((x * x).scaled(Fraction(-1, 2))) * laws.power(pi(field).scaled(2), Fraction(-1, 2))
    return above + x * density


def _gelu_tanh_slope(x: Form) -> Form:
    one, scale = x.field.one, laws.power(pi(x.field).scaled(Fraction(1, 2)), Fraction(-1, 2))
    t = tanh((x + (x * x * x).scaled(CUBIC)) * scale)
    inner = (one + (x * x).scaled(3 * CUBIC)) * scale
    return (one + t + x * (one - t * t) * inner).scaled(Fraction(1, 2))


def _backward(slope: Callable[[Form], Form]) -> Callable[[Cell, Cell], Cell]:
    return lambda gradient, x: extended.multiply(gradient, slope(finite(x, "a derivative")))


@extended.of_numbers
def _relu(x: Cell) -> Cell:
    field = x.field if isinstance(x, Form) else x.flag.field
    return extended.maximum(x, field.zero)


def _cube_root(x: Form) -> Form:
    return laws.power(x, Fraction(1, 3)) if x.is_positive() else _odd("cbrt")(x)


def _log_plus_one(x: Cell) -> Cell:
    form = finite(x, "the logarithm")
    return extended.logarithm(form.field.one + form)


UNARY: dict[str, Unary] = {
    "negate": extended.negate,
    "exponential": extended.exponential,
    "exponential-minus-one": lambda x: extended.add(extended.exponential(x), -_one(x)),
    "log": extended.logarithm,
    "log-plus-one": _log_plus_one,
    "logistic": logistic,
    "relu": _relu,
    "sqrt": _plain(lambda x: laws.power(x, Fraction(1, 2)), "a root"),
    "rsqrt": _plain(lambda x: laws.power(x, Fraction(-1, 2)), "a root"),
    "cbrt": _plain(_cube_root, "a root"),
    "tanh": _plain(tanh, "tanh"),
    "abs": _plain(laws.absolute, "abs"),
    "erf": _plain(erf, "erf"),
    "gelu": _plain(_gelu, "gelu"),
    "gelu-tanh": _plain(gelu_tanh, "gelu"),
    "softplus": _plain(lambda x: laws.logarithm(x.field.one + laws.exponential(x)), "softplus"),
    "is-finite": lambda x: x.flag if isinstance(x, Masked) else _one(x),
    "sine": _plain(_odd("sine"), "sine"),
    "cosine": _plain(_cosine, "cosine"),
    "erf-inv": _plain(lambda x: _endless(_odd("erf-inv")(x)), "erf-inv"),
    "sign": _plain(lambda x: truths.greater(x, x.field.zero) - truths.greater(x.field.zero, x), "sign"),
    "tan": _plain(_odd("tan"), "tan"),
    **{
        kind: _plain(_free(kind), kind)
        for kind in ("floor", "ceil", "round-nearest-afz", "round-nearest-even", "trunc")
    },
}


@extended.of_numbers
def _one(x: Cell) -> Form:
    return (x.field if isinstance(x, Form) else x.flag.field).one


def _power(left: Cell, right: Cell) -> Cell:
    base, exponent = finite(left, "a power"), finite(right, "a power")
    value = exponent.value
    if value is None and base.is_positive():
        return laws.exponential(exponent * laws.logarithm(base))
    if value is None:
        return _endless(laws.function(base.field, "power", (base, exponent)))
    if Fraction(value).denominator != 1:
        base.field.need("nonnegative", base)
    return laws.power(base, value)


def _quotient(left: Cell, right: Cell) -> Cell:
    divisor = finite(right, "a division")
    return extended.multiply(left, laws.power(divisor, -1))


def unknown(name: str) -> Callable[..., Cell]:
    """A function of real numbers that no law is known of. But for an angle, it may have no number somewhere."""

    def apply(*cells: Cell) -> Cell:
        forms = [finite(cell, name) for cell in cells]
        found = laws.function(forms[0].field, name, tuple(forms))
        return found if name == "atan2" else _endless(found)

    return apply


def _endless(form: Form) -> Form:
    """What may be infinite or no number where its operands are numbers: laws are those of numbers."""
    if form.value is None:
        form.field.need("finite", form)
    return form


BINARY: dict[str, Callable[[Cell, Cell], Cell]] = {
    "add": extended.add,
    "subtract": lambda x, y: extended.add(x, extended.negate(y)),
    "multiply": extended.multiply,
    "divide": _quotient,
    "maximum": extended.maximum,
    "minimum": extended.minimum,
    "power": _power,
    "gelu-backward": _backward(_gelu_slope),
    "gelu-tanh-backward": _backward(_gelu_tanh_slope),
    "atan2": unknown("atan2"),
    "remainder": unknown("remainder"),
}

TRUTHS: dict[str, Callable[..., Form]] = {
    "and": truths.both,
    "or": truths.either,
    "xor": lambda x, y: truths.either(x, y) - truths.both(x, y),
    "not": lambda x: x.field.one - x,
}


def compared(direction: str, left: Cell, right: Cell) -> Form:
    """A comparison of real numbers: 1 or 0."""
    one = _one(left)
    if direction == "GT":
        return extended.greater(left, right)
    if direction == "LT":
        return extended.greater(right, left)
    if direction == "GE":
        return one - extended.greater(right, left)
    if direction == "LE":
        return one - extended.greater(left, right)
    if direction in ("EQ", "NE"):
        same = extended.equal(left, right)
        return same if direction == "EQ" else one - same
    raise Undecided(f"a comparison by `{direction}`")


def clamped(low: Cell, x: Cell, high: Cell) -> Cell:
    """min(max(x, low), high)."""
    return extended.minimum(extended.maximum(x, low), high)


def truth(field: Field, element: Any) -> Form:
    """A truth as 0 or 1."""
    return finite(as_cell(field, element), "a truth")
