"""What forms are worth: at points that attacks try, and to see that what steps need can be so."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from scalify_dl.oracle.rewrites import computed

from .form import Field, Form
from .variables import BINDING, Renamed, Variable, free

ALWAYS = ("finite", "masked", "order")
"""Needs that no draw decides."""
TRIES = 3
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


class Undefined(Exception):
    """A point at which an expression has no value that could be compared."""


def place(row: list[float], j: int, scale: float) -> int:
    """Where the j-th greatest is, of equals the first."""
    if any(0 < abs(a - b) <= 1e-9 * max(scale, abs(a)) for a in row for b in row):
        raise Undefined  # a tie, but for rounding
    return sorted(range(len(row)), key=lambda i: (-row[i], i))[j]


@dataclass
class Worth:
    """What forms are worth at a point; `scale` bounds what was added up, for the tolerance."""

    basis: Field
    at: Callable[[Any], float]
    """What an input, by the data of its element, is worth."""
    known: dict[int, float] = field(default_factory=dict)
    scale: float = 1.0

    def form(self, form: Form) -> float:
        """A sum of products."""
        total = 0.0
        for monomial, coefficient in form.terms.items():
            part = float(coefficient)
            for number, exponent in monomial:
                base = self.element(number)
                part *= base ** (int(exponent) if exponent == int(exponent) else float(exponent))
            if isinstance(part, complex) or not math.isfinite(part) or abs(part) > 1e60:
                raise Undefined
            self.scale = max(self.scale, abs(part))
            total += part
        return total

    def element(self, number: int) -> float:
        """A basis element."""
        if number not in self.known:
            kind, data, positive, _ = self.basis.elements[number]
            found = float(self._element(kind, data))
            self.known[number] = abs(found) if kind == "input" and positive else found
        return self.known[number]

    def _element(self, kind: str, data: Any) -> float:
        if kind == "input":
            return float(self.at(data))
        if kind == "position":
            (_, n), size = data[0]
            return float(n * (size // classes(size)))
        if kind in BINDING:
            return self._over(kind, *data)
        if kind == "root":
            return float(data)
        if kind == "huge":
            return 1e4
        if kind == "number":
            return math.pi
        if kind == "integer":  # of the values that are told apart of a variable
            name, _, least, most = data
            step = (most - least + 1) // classes(most - least + 1)
            return float(least + int(abs(self.at(name)) * 7919) % classes(most - least + 1) * step)
        if kind == "constant":
            return float(self.at(data))
        if kind == "power":
            return self.form(data)
        if kind == "exp":
            return math.exp(self.form(Form(self.basis, {data: 1})))
        if kind == "log":
            return math.log(self.form(data))
        if kind == "maximum":
            return max(min(self.form(form) for form in meet) for meet in data)
        if kind == "flag" and data[0] == "input":
            return float(self.at(data) > 0.5)
        if kind == "flag":
            found = self.form(data[1])
            if abs(found) <= 1e-9 * self.scale and found:
                raise Undefined
            return float(found > 0 if data[0] == "above" else found == 0)
        if kind == "equals":
            leaf, wanted = data
            if leaf.name[0] != "order":
                return float(leaf.lo + int(abs(self.at(leaf.name)) * 7919) % (leaf.hi - leaf.lo) == wanted)
            _, row, j = leaf.name
            return float(place([self.form(form) for form in row], j, self.scale) == wanted)
        if kind == "function":
            name, *parts = data
            arguments = [self.form(part) for part in parts if isinstance(part, Form)]
            if any(0 < abs(argument) <= 1e-9 * self.scale for argument in arguments):
                raise Undefined  # zero, but for rounding, where functions are steep
            if name == "round":
                return arguments[0]
            return float(FUNCTIONS[name](*arguments) if name in FUNCTIONS else computed(name, arguments))
        raise Undefined

    def _over(self, kind: str, bound: tuple[Variable, ...], form: Form, *shown: Form) -> float:
        """A sum or a maximum over variables: of the classes of their values, which are equally many."""
        values: list[float] = []
        for at in product(*(range(classes(v.size)) for v in bound)):
            names = {v: Variable(("value", n), v.size) for v, n in zip(bound, at, strict=True)}
            renamed = Renamed(self.basis, names)
            if all(self.form(renamed.form(part)) for part in shown):
                values.append(self.form(renamed.form(form)))
        if kind == "most":
            return max(values)
        return sum(values) * math.prod(v.size // classes(v.size) for v in bound)

    def at_a_place(self, form: Form) -> float:
        """What a form is worth where all its variables are 0."""
        there = {v: v._replace(name=("value", 0)) for v in free(self.basis, form)}
        return self.form(Renamed(self.basis, there).form(form))

    def allows(self) -> bool:
        """Whether all that steps need is so."""
        needs = [(need.what, self.at_a_place(need.form)) for need in [*self.basis.needs] if need.what not in ALWAYS]
        small = 1e-9 * self.scale
        return not any(abs(v) <= small or (what != "nonzero" and v < 0) for what, v in needs)


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
