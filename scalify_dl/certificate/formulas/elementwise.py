"""What elementwise ops make of elements: forms, −∞ (a mask), whole numbers, and truths that are known or not."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from .forms import Atoms, Form, Unknown
from .permuted import by_places


class Low:
    """−∞, or a number that counts as it in sums, maxima and exponentials."""


class High:
    """∞: of a number less it, −∞ is left."""


class NotANumber:
    """What no form is made of: it may stand where it is never chosen."""


LOW, HIGH, NAN = Low(), High(), NotANumber()
HIDDEN = Low()
"""A large number below zero that masks: what stands beside it is assumed to be small, exp of it is nothing."""
MOST_EXPONENT = 700
"""exp of more is infinite in every type, whatever is true of real numbers."""
LINEAR = ("add", "subtract", "negate", "multiply")
"""Of what is read at places they are what they are of any sums."""
Element = Any
"""A Form, LOW, HIDDEN, HIGH, NAN, or a whole number (truths are 0 and 1); a `Table` or `Whole` of integers that depend
on inputs."""


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
            "gelu": lambda x: x * self._normal(x),
            "gelu-tanh": lambda x: x * self.logistic(self._bent(x)),
        }

    def _normal(self, x: Form) -> Form:
        """Φ: the share of a normal distribution below."""
        half = self.atoms.number(Fraction(1, 2))
        return half + self._odd("erf", x * self.atoms.power(self.atoms.number(2), Fraction(-1, 2))) * half

    def _bent(self, x: Form) -> Form:
        """√(8/π)·(x + 0.044715·x³): the gelu by tanh is x times the logistic function of it."""
        root = self.atoms.power(self.atoms.number(8), Fraction(1, 2)) * self.atoms.pi(Fraction(-1, 2))
        return root * (x + x.whole(3).times(Fraction("0.044715")))

    def _gelu_slope(self, x: Form) -> Form:
        """Φ(x) + x·φ(x)."""
        square = self.atoms.exponential((x * x).times(Fraction(-1, 2)))
        density = self.atoms.power(self.atoms.number(2), Fraction(-1, 2)) * self.atoms.pi(Fraction(-1, 2)) * square
        return self._normal(x) + x * density

    def _gelu_tanh_slope(self, x: Form) -> Form:
        """s + x·s·(1 − s)·t', where s is the logistic function of t."""
        one, share = self.atoms.number(1), self.logistic(self._bent(x))
        root = self.atoms.power(self.atoms.number(8), Fraction(1, 2)) * self.atoms.pi(Fraction(-1, 2))
        return share + x * share * (one - share) * root * (one + (x * x).times(3 * Fraction("0.044715")))

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
        if isinstance(x, Low) or isinstance(y, Low):
            if x is HIGH or y is HIGH:
                raise Unknown("infinity less infinity")
            return LOW if x is LOW or y is LOW else HIDDEN
        return self.form(x) + self.form(y)

    def multiply(self, x: Element, y: Element) -> Element:
        return by_places(self.atoms, lambda both: self._multiply(*both), [x, y])

    def _multiply(self, x: Element, y: Element) -> Element:
        if isinstance(x, Low) or isinstance(y, Low):
            low, other = (x, y) if isinstance(x, Low) else (y, x)
            form = self.form(other)
            if low is HIDDEN:
                return self._hidden_times(form)
            if not form.positive():
                raise Unknown("a product of infinity")
            return LOW
        return self.form(x) * self.form(y)

    def _hidden_times(self, factor: Form) -> Element:
        """A large number times a number: with a small one it would be a small one."""
        if factor.value == 0:
            return factor
        if factor.value is None or factor.value < 1:
            raise Unknown("a product of a large number")
        return HIDDEN

    def most(self, xs: list[Element]) -> Element:
        finite = [self.form(x) for x in xs if not isinstance(x, Low)]
        return by_places(self.atoms, self.atoms.most, [*finite]) if finite else lowest(xs)

    def exponential(self, x: Element) -> Element:
        if isinstance(x, Low):
            return self.atoms.number(0)
        form = self.form(x)
        if form.terms.get((), 0) > MOST_EXPONENT:
            raise Unknown("exp of a number that is more than any type holds")
        return self.atoms.exponential(form)

    def real(self, kind: str, xs: list[Element]) -> Element:
        """An op on real numbers that makes one."""
        return self._real(kind, xs) if kind in LINEAR else by_places(self.atoms, lambda ys: self._real(kind, ys), xs)

    def _real(self, kind: str, xs: list[Element]) -> Element:
        if kind == "add":
            return self.add(*xs)
        if kind == "negate" and xs[0] is HIGH:
            return LOW
        if kind == "subtract":
            if xs[1] is HIGH and xs[0] is not LOW:
                self.form(xs[0])  # a number
                return LOW
            if isinstance(xs[0], Low):
                self.form(xs[1])  # a number
                return xs[0]
            return self.form(xs[0]) - self.form(xs[1])
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
        if kind in ("gelu-backward", "gelu-tanh-backward"):
            slope = self._gelu_slope if kind == "gelu-backward" else self._gelu_tanh_slope
            return self.form(xs[0]) * slope(self.form(xs[1]))
        if kind in self.unary and len(xs) == 1:
            return self.unary[kind](self.form(xs[0]))
        raise Unknown(f"{kind} of real numbers")

    def compare(self, direction: str, x: Element, y: Element) -> Element:
        """1 or 0, or a form that is one of them."""
        if x is NAN or y is NAN:
            raise Unknown("what is no number")
        if HIDDEN in (x, y) and LOW not in (x, y):
            raise Unknown("a comparison of a large number")
        if isinstance(x, int) and isinstance(y, int):
            signs = (x > y) - (x < y)
        elif x is LOW or y is LOW:
            signs = (x is not LOW) - (y is not LOW)
        else:
            difference = self.form(x) - self.form(y)
            return by_places(self.atoms, lambda ps: self._compared(direction, ps[0]), [difference])
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


def lowest(xs: list[Element]) -> Element:
    """The greatest of some that are all −∞ or count as it."""
    return HIDDEN if any(x is HIDDEN for x in xs) else LOW
