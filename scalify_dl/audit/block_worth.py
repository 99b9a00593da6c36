"""What blocks of the checker's algebra are worth, place by place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from scalify_dl.algebra.worth import FUNCTIONS
from scalify_dl.certificate.formulas.elementwise import LOW, Element
from scalify_dl.certificate.formulas.forms import Form
from scalify_dl.certificate.formulas.large.atoms import Spread
from scalify_dl.certificate.formulas.large.blocks import Blocks, Count, Masked, Peak
from scalify_dl.certificate.formulas.large.places import Place, Variable, of_dim, variable

At = dict[Variable, int]


class Undefined(Exception):
    """It has no value here, or one that is not worth comparing."""


class Worth:
    """What forms are worth where variables are numbers."""

    def __init__(self, atoms: Spread, inputs: Mapping[str, Any]) -> None:
        self.atoms, self.inputs, self.scale = atoms, inputs, 1.0

    def place(self, place: Place, at: At) -> int:
        return place.start + sum(factor * at[v] for v, factor in place.terms)

    def form(self, form: Form, at: At) -> float:
        total = 0.0
        for part, factor in form.terms.items():
            total += float(factor) * self.part(part, at)
        return self.seen(total)

    def seen(self, x: float) -> float:
        if isinstance(x, complex) or not math.isfinite(x) or abs(x) > 1e50:
            raise Undefined
        self.scale = max(self.scale, abs(x))
        return x

    def part(self, part: Any, at: At) -> float:
        result = 1.0
        for atom, exponent in part:
            kind, data = self.atoms.kinds[atom]
            base = self.atom(kind, data, at)
            if base == 0 and exponent < 0:
                raise Undefined
            result *= base ** (int(exponent) if exponent.denominator == 1 else float(exponent))
        return self.seen(result)

    def atom(self, kind: str, data: Any, at: At) -> float:
        of = self.atoms.of
        if kind == "input":
            return float(self.inputs[data[0]][tuple(self.place(place, at) for place in data[1])])
        if kind == "pi":
            return math.pi
        if kind == "root":
            return float(data)
        if kind == "position":
            return float(self.place(data, at))
        if kind == "order":
            return float(self.place(data, at) >= 0)
        if kind == "exp":
            return math.exp(min(self.part(data, at), 600.0))
        if kind == "total":
            return sum(self.part(data[1], {**at, **own}) for own in places(data[0]))
        if kind == "peak":
            return self.greatest([(names, of(shown), of(value)) for names, shown, value in data], at)
        if kind == "most":
            return max(self.form(of(key), at) for key in data)
        found = self.form(of(data[1] if kind == "function" else data), at)
        if kind == "log" and found <= 0:
            raise Undefined
        if kind in ("truth", "function") and 0 < abs(found) <= 1e-9 * self.scale:
            raise Undefined
        if kind == "function":
            return float(FUNCTIONS[data[0]](found))
        return math.log(found) if kind == "log" else float(found > 0) if kind == "truth" else found

    def greatest(self, members: list[Any], at: At) -> float:
        found = [
            self.form(value, {**at, **own})
            for names, shown, value in members
            for own in places(names)
            if self.form(shown, {**at, **own}) == 1
        ]
        return max(found, default=-math.inf)

    def element(self, x: Element, at: At) -> float:
        if isinstance(x, Form):
            return self.form(x, at)
        if isinstance(x, Count):
            return float(self.place(x.place, at))
        if isinstance(x, Masked):
            return self.form(x.value, at) if self.form(x.shown, at) == 1 else -math.inf
        if isinstance(x, Peak):
            return self.greatest(x.members, at)
        if isinstance(x, int):
            return float(x)
        if x is LOW:
            return -math.inf
        raise Undefined

    def allows(self) -> bool:
        """Whether all that steps need is so, for all values of variables."""
        for what, key in self.atoms.needs:
            form = self.atoms.of(key)
            for at in places(self.atoms.variables(form)):
                found = self.form(form, at)
                if abs(found) <= 1e-9 * self.scale or (what != "nonzero" and found < 0):
                    return False
        return True


def places(names: Any) -> Iterator[At]:
    """All values of variables."""
    names = [*names]
    for values in product(*(range(v[3]) for v in names)):
        yield dict(zip(names, values, strict=True))


def array(worth: Worth, x: Blocks) -> Any:
    """What blocks are worth, place by place; NaN where that is not known."""
    out = np.full(x.shape, math.nan)
    for cell in np.ndindex(*x.cells.shape):
        digits = x.block(cell)
        starts = [sum(map(math.prod, parts[:i])) for parts, i in zip(x.parts, cell, strict=True)]
        names = [variable(d, n, size) for d, own in enumerate(digits) for n, size in enumerate(own)]
        for at in places(names):
            where = [worth.place(of_dim(d, own, starts[d]), at) for d, own in enumerate(digits)]
            try:
                out[tuple(where)] = worth.element(x.cells[cell], at)
            except (Undefined, OverflowError, ZeroDivisionError):
                continue
            except KeyError:  # a variable of no dim
                out[tuple(where)] = math.inf
    return out
