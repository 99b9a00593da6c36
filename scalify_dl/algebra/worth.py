"""What forms are worth: at points that attacks try, and to see that what steps need can be so."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from scalify_dl.oracle.dtypes import integer_limits
from scalify_dl.oracle.rewrites import computed

from .form import Field, Form
from .variables import BINDING, Renamed, Variable, free

ALWAYS = ("absorbed", "finite", "masked", "order", "rounded", "threshold", "zeros")
"""Needs that no draw decides."""
TRIES = 3
ROUNDING = 1e-9
"""What rounding may be of the largest number that is added up."""
MOST_CLASSES = 4
"""Values of a variable that are told apart, each by itself."""
DRAWS: list[Callable[[random.Random], float]] = [
    lambda rng: rng.gauss(0, 1),
    lambda rng: rng.uniform(0.2, 1.5),
    lambda rng: rng.uniform(0.01, 0.2),
    lambda rng: rng.uniform(2, 9),
    lambda rng: rng.uniform(-1.5, -0.2),
]
"""Ways to draw inputs."""
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "negate": lambda x: -x,
    "exponential": math.exp,
    "log": lambda x: -math.inf if x == 0 else math.log(x),
    "log-plus-one": lambda x: -math.inf if x == -1 else math.log(1 + x),
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "logistic": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "abs": abs,
    "relu": lambda x: max(x, 0.0),
    "erf": math.erf,
    "sine": math.sin,
    "cosine": math.cos,
    "softplus": lambda x: math.log1p(math.exp(x)),
    "sign": lambda x: math.copysign(1.0, x) if x else 0.0,
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
}
"""Functions of one number."""


def classes(size: int) -> int:
    """Of how many sorts the values of a variable are: all values of one sort are worth the same, of each as many."""
    if size <= MOST_CLASSES:
        return size
    return 2 if size % 2 == 0 else 1


def integer(drawn: float, least: int, most: int) -> int:
    """An integer between bounds, of the values that are told apart of a variable."""
    number = int(abs(drawn) * 7919)
    if least < 0 <= most:  # labels of which some are ignored: these, or places
        if number % 3 == 0:
            return least
        number, least = number // 3, 0
    step = (most - least + 1) // classes(most - least + 1)
    return least + number % classes(most - least + 1) * step


class Undefined(Exception):
    """A point at which an expression has no value that could be compared."""


def place(row: list[float], j: int, scale: float) -> int:
    """Where the j-th greatest is, of equals the first."""
    if any(0 < abs(a - b) <= 1e-9 * max(scale, abs(a)) for a in row for b in row):
        raise Undefined  # a tie, but for rounding
    return sorted(range(len(row)), key=lambda i: (-row[i], i))[j]


class Value(NamedTuple):
    """What something is worth; `size` bounds the numbers of which it is a sum or a difference, so its rounding."""

    number: float
    size: float

    def vanishes(self) -> bool:
        """Whether it is no more than rounding leaves."""
        return abs(self.number) <= ROUNDING * self.size

    def is_rounding(self) -> bool:
        """Whether it is rounding alone: not zero, and no more than that."""
        return bool(self.number) and self.vanishes()


def exact(number: float) -> Value:
    """A number that is a sum of nothing."""
    return Value(number, abs(number))


@dataclass
class Worth:
    """What forms are worth at a point; `scale` bounds what was added up, for the tolerance."""

    basis: Field
    at: Callable[[Any], float]
    """What an input, by the data of its element, is worth."""
    known: dict[int, Value] = field(default_factory=dict)
    scale: float = 1.0

    def form(self, form: Form) -> float:
        """A sum of products."""
        return self.valued(form).number

    def valued(self, form: Form) -> Value:
        """The same, with the size of its terms."""
        total, size = 0.0, 0.0
        for monomial, coefficient in form.terms.items():
            part = float(coefficient)
            blown = 1.0
            for number, exponent in monomial:
                base = self.element(number)
                part *= base.number ** (int(exponent) if exponent == int(exponent) else float(exponent))
                if base.number and base.size > abs(base.number):
                    blown += abs(float(exponent)) * base.size / abs(base.number)
            if isinstance(part, complex) or not math.isfinite(part) or abs(part) > 1e60:
                raise Undefined
            self.scale = max(self.scale, abs(part))
            size = max(size, abs(part) * blown)
            total += part
        return Value(total, size)

    def element(self, number: int) -> Value:
        """A basis element."""
        if number not in self.known:
            kind, data, _, nonnegative = self.basis.elements[number]
            found = self._element(kind, data)
            self.known[number] = exact(abs(found.number)) if kind == "input" and nonnegative else found
        return self.known[number]

    def _element(self, kind: str, data: Any) -> Value:
        if kind in BINDING:
            return self._over(kind, *data)
        if kind == "power":
            return self.valued(data)
        if kind == "exp":
            of = self.valued(Form(self.basis, {data: 1}))
            return Value(found := math.exp(of.number), found * max(1.0, of.size))
        if kind == "log":
            of = self.valued(data)
            return Value(found := math.log(of.number), max(abs(found), of.size / abs(of.number)))
        if kind == "maximum":
            meets = [[self.valued(form) for form in meet] for meet in data]
            sizes = (value.size for meet in meets for value in meet)
            return Value(max(min(value.number for value in meet) for meet in meets), max(sizes))
        if kind == "function":
            name, *parts = data
            arguments = [self.valued(part) for part in parts if isinstance(part, Form)]
            if any(argument.is_rounding() for argument in arguments):
                raise Undefined  # zero, but for rounding, where functions are steep
            if name == "round":
                return arguments[0]
            if name == "wrapped":
                low, high = integer_limits(parts[0])
                return exact(float((round(arguments[0].number) - low) % (high - low + 1) + low))
            numbers = [argument.number for argument in arguments]
            found = float(FUNCTIONS[name](*numbers) if name in FUNCTIONS else computed(name, numbers))
            return Value(found, max([abs(found), *(argument.size for argument in arguments)]))
        return exact(float(self._plain(kind, data)))

    def _plain(self, kind: str, data: Any) -> Any:
        """What is no sum of others, or no number that rounding could move."""
        if kind == "input":
            return self.at(data)
        if kind == "position":
            (_, n), size = data[0]
            return n * (size // classes(size))
        if kind == "root":
            return float(data)
        if kind == "huge":
            return 1e4
        if kind == "number":
            return math.pi
        if kind == "integer":
            name, _, least, most = data
            return integer(self.at(name), least, most)
        if kind == "constant":
            return self.at(data)
        if kind == "flag" and data[0] == "input":
            return self.at(data) > 0.5
        if kind == "flag":
            found = self.valued(data[1])
            if found.is_rounding():
                raise Undefined
            return found.number > 0 if data[0] == "above" else found.number == 0
        if kind == "equals":
            leaf, wanted = data
            if not leaf.is_made("order"):
                return leaf.lo + int(abs(self.at(leaf.name)) * 7919) % (leaf.hi - leaf.lo) == wanted
            _, row, j = leaf.name
            values = [self.valued(form) for form in row]
            return place([value.number for value in values], j, max(value.size for value in values)) == wanted
        raise Undefined

    def _over(self, kind: str, bound: tuple[Variable, ...], form: Form, *shown: Form) -> Value:
        """A sum or a maximum over variables: of the classes of their values, which are equally many."""
        values: list[Value] = []
        for at in product(*(range(classes(v.size)) for v in bound)):
            names = {v: Variable(("value", n), v.size) for v, n in zip(bound, at, strict=True)}
            renamed = Renamed(self.basis, names)
            if all(self.form(renamed.form(part)) for part in shown):
                values.append(self.valued(renamed.form(form)))
        size = max((value.size for value in values), default=0.0)
        if kind == "most":
            return Value(max(value.number for value in values), size)
        times = math.prod(v.size // classes(v.size) for v in bound)
        return Value(sum(value.number for value in values) * times, size * times)

    def at_a_place(self, form: Form) -> Value:
        """What a form is worth where all its variables are 0."""
        there = {v: v._replace(name=("value", 0)) for v in free(self.basis, form)}
        return self.valued(Renamed(self.basis, there).form(form))

    def allows(self) -> bool:
        """Whether all that steps need is so."""
        needs = [(need.what, self.at_a_place(need.form)) for need in [*self.basis.needs] if need.what not in ALWAYS]
        return not any(v.vanishes() or (what != "nonzero" and v.number < 0) for what, v in needs)


@dataclass
class _Drawn:
    """Inputs drawn when they are asked for."""

    draw: Callable[[random.Random], float]
    rng: random.Random
    known: dict[Any, float] = field(default_factory=dict)

    def __call__(self, data: Any) -> float:
        if data not in self.known:
            self.known[data] = self.draw(self.rng)
        return self.known[data]


def met_somewhere(basis: Field) -> bool:
    """Whether some inputs were found for which all that steps need is so; a proof from what is never so is none.

    What forms need on the way, renamed to be worth something, are no needs of the proof's.
    """
    if all(need.what in ALWAYS for need in basis.needs):
        return True
    needs, rooted = dict(basis.needs), basis.rooted
    basis.rooted = None
    try:
        return any(_met(basis, draw, random.Random(n)) for n, draw in enumerate(DRAWS * TRIES))
    finally:
        basis.needs.clear()
        basis.needs.update(needs)
        basis.rooted = rooted


def _met(basis: Field, draw: Callable[[random.Random], float], rng: random.Random) -> bool:
    try:
        return Worth(basis, _Drawn(draw, rng)).allows()
    except (Undefined, OverflowError, ZeroDivisionError, ValueError, KeyError, TypeError):
        return False
