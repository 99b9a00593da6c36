"""What elementwise ops make of elements: forms, −∞ (a mask), whole numbers, and truths that are known or not."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from .forms import Atoms, Form, Unknown


class Low:
    """−∞."""


class High:
    """∞: of a number less it, −∞ is left."""


class NotANumber:
    """What no form is made of: it may stand where it is never chosen."""


LOW, HIGH, NAN = Low(), High(), NotANumber()
Element = Any
"""A Form, LOW, HIGH, NAN, or a whole number (truths are 0 and 1); a `Table` or `Whole` of integers that depend on
inputs."""


class Elementwise:
    """Functions of elements of one comparison."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self.unary: dict[str, Callable[[Form], Form]] = {
            "negate": lambda x: -x,
            "log-plus-one": lambda x: atoms.logarithm(x + atoms.number(1)),
            "exponential-minus-one": lambda x: atoms.exponential(x) - atoms.number(1),
            "sqrt": lambda x: atoms.power(x, Fraction(1, 2)),
            "rsqrt": lambda x: atoms.power(x, Fraction(-1, 2)),
            "abs": lambda x: x if x.nonnegative() else atoms.most([x, -x]),
            "relu": lambda x: atoms.most([x, atoms.number(0)]),
            "logistic": self.logistic,
            "tanh": lambda x: self.logistic(x.times(Fraction(2))).times(Fraction(2)) - atoms.number(1),
            "softplus": lambda x: atoms.logarithm(atoms.number(1) + atoms.exponential(x)),
            "sign": lambda x: atoms.above_zero(x) - atoms.above_zero(-x),
            "erf": lambda x: self._odd("erf", x),
            "sine": lambda x: self._odd("sine", x),
            "cosine": lambda x: atoms.function("cosine", max(x, -x, key=lambda form: form.key)),
            "gelu": lambda x: (
                x * (atoms.number(1) + self._odd("erf", x * atoms.power(atoms.number(2), Fraction(-1, 2))))
            ).times(Fraction(1, 2)),
        }

    def logistic(self, x: Form) -> Form:
        return self.atoms.power(self.atoms.number(1) + self.atoms.exponential(-x), Fraction(-1))

    def _odd(self, name: str, x: Form) -> Form:
        if x.value == 0:
            return x
        turned = -x
        return -self.atoms.function(name, turned) if turned.key > x.key else self.atoms.function(name, x)

    def form(self, x: Element) -> Form:
        if isinstance(x, Form):
            return x
        if not isinstance(x, int):
            raise Unknown("infinity" if isinstance(x, Low | High) else "what is no number")
        return self.atoms.number(x)

    def add(self, x: Element, y: Element) -> Element:
        if x is LOW or y is LOW:
            if x is HIGH or y is HIGH:
                raise Unknown("infinity less infinity")
            return LOW
        return self.form(x) + self.form(y)

    def multiply(self, x: Element, y: Element) -> Element:
        if x is LOW or y is LOW:
            other = y if x is LOW else x
            if other is LOW or not self.form(other).positive():
                raise Unknown("a product of infinity")
            return LOW
        return self.form(x) * self.form(y)

    def most(self, xs: list[Element]) -> Element:
        finite = [self.form(x) for x in xs if x is not LOW]
        return self.atoms.most(finite) if finite else LOW

    def exponential(self, x: Element) -> Element:
        return self.atoms.number(0) if x is LOW else self.atoms.exponential(self.form(x))

    def real(self, kind: str, xs: list[Element]) -> Element:
        """An op on real numbers that makes one."""
        if kind == "add":
            return self.add(*xs)
        if kind == "negate" and xs[0] is HIGH:
            return LOW
        if kind == "subtract":
            if xs[1] is HIGH and xs[0] is not LOW:
                self.form(xs[0])  # a number
                return LOW
            return LOW if xs[0] is LOW and xs[1] not in (LOW, HIGH) else self.form(xs[0]) - self.form(xs[1])
        if kind == "multiply":
            return self.multiply(*xs)
        if kind == "divide":
            return self.multiply(xs[0], self.atoms.power(self.form(xs[1]), Fraction(-1)))
        if kind == "maximum":
            return self.most(xs)
        if kind == "minimum":
            return -self.atoms.most([-self.form(x) for x in xs])
        if kind == "exponential":
            return self.exponential(xs[0])
        if kind == "log":
            return LOW if xs[0] is not LOW and self.form(xs[0]).value == 0 else self.atoms.logarithm(self.form(xs[0]))
        if kind == "clamp":
            lower = self.atoms.most([self.form(xs[0]), self.form(xs[1])])
            return -self.atoms.most([-lower, -self.form(xs[2])])
        if kind == "power" and (exponent := self.form(xs[1]).value) is not None:
            return self.atoms.power(self.form(xs[0]), exponent)
        if kind in self.unary and len(xs) == 1:
            return self.unary[kind](self.form(xs[0]))
        raise Unknown(f"{kind} of real numbers")

    def compare(self, direction: str, x: Element, y: Element) -> Element:
        """1 or 0, or a form that is one of them."""
        if x is NAN or y is NAN:
            raise Unknown("what is no number")
        if isinstance(x, int) and isinstance(y, int):
            signs = (x > y) - (x < y)
        elif x is LOW or y is LOW:
            signs = (x is not LOW) - (y is not LOW)
        else:
            difference = self.form(x) - self.form(y)
            return self._compared(direction, difference)
        return int({"EQ": signs == 0, "NE": signs != 0, "GT": signs > 0, "LT": signs < 0}.get(direction, False) or (
            direction == "GE" and signs >= 0) or (direction == "LE" and signs <= 0))

    def _compared(self, direction: str, p: Form) -> Element:
        one, above, below = self.atoms.number(1), self.atoms.above_zero(p), self.atoms.above_zero(-p)
        made = {
            "GT": above,
            "LT": below,
            "GE": one - below,
            "LE": one - above,
            "EQ": (one - above) * (one - below),
            "NE": one - (one - above) * (one - below),
        }[direction]
        return made if made.value is None else int(made.value)

    def select(self, which: Element, yes: Element, no: Element) -> Element:
        if isinstance(which, int):
            return yes if which else no
        whole = isinstance(yes, int) and isinstance(no, int)
        made = which * self.form(yes) + (self.atoms.number(1) - which) * self.form(no)
        if whole and made.value is not None:
            return int(made.value)
        return made

    def truth(self, kind: str, xs: list[Element]) -> Element:
        """and, or, xor, not."""
        if all(isinstance(x, int) for x in xs):
            return {"and": min(xs), "or": max(xs), "xor": sum(xs) % 2, "not": 1 - xs[0]}[kind]
        a, *more = (self.form(x) for x in xs)
        if kind == "not":
            return self.atoms.number(1) - a
        both = a * more[0]
        return {"and": both, "or": a + more[0] - both, "xor": a + more[0] - both.times(Fraction(2))}[kind]
