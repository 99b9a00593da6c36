"""Places in memory as sums of index variables, and dims as digits: x of 6·n elements read at 6·a + b is x[a, b].

A dim is cut where a place in it is a sum of several variables. All places of one memory have to cut its dims alike:
where one has a variable that spans several digits of another, the variable is cut, too (`Cut`), and all begins anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from scalify_dl.algebra.form import Element, Field, Form
from scalify_dl.algebra.sized import coded, size_of, worth
from scalify_dl.algebra.variables import Renamed, Variable
from scalify_dl.sizes import Size, above, quotient

from ..domain import Undecided

Key = tuple[Hashable, ...]
MIRROR = "mirror"
"""Ends the key, among the cuts, of a loop that counts down."""


class Mirrored(Exception):
    """A loop counts down where it is used: its variable is taken for what it counts to, less it."""

    def __init__(self, variable: Variable) -> None:
        super().__init__(f"{variable.name} counts down")
        self.key = (*variable.name[:-1], MIRROR)


class Cut(Exception):
    """A digit is to be cut: its own lowest digit has `low` values. Its name ends with its number."""

    def __init__(self, digit: Variable, low: int) -> None:
        super().__init__(f"{digit.name} is cut at {low}")
        self.key, self.number, self.low = digit.name[:-1], digit.name[-1], low


@dataclass(frozen=True)
class Place:
    """start + Σ stride · variable: a whole number for each value of the variables."""

    parts: tuple[tuple[Variable, int], ...]
    start: int = 0

    @classmethod
    def number(cls, value: int) -> Place:
        """A number."""
        return cls((), value)

    def __add__(self, other: Place) -> Place:
        found = dict(self.parts)
        for v, stride in other.parts:
            found[v] = found.get(v, 0) + stride
        return Place(tuple((v, s) for v, s in found.items() if s != 0), self.start + other.start)

    def scaled(self, factor: int) -> Place:
        """A multiple."""
        return Place(tuple((v, s * factor) for v, s in self.parts if factor != 0), self.start * factor)

    @property
    def value(self) -> int | None:
        """The number that it is, if it is one."""
        return None if self.parts else self.start

    @property
    def variables(self) -> list[Variable]:
        """Those that it depends on."""
        return [v for v, _ in self.parts]

    def bounds(self) -> tuple[int, int]:
        """Least and greatest value."""
        low = high = self.start
        for v, stride in self.parts:
            far = stride * (size_of(v) - 1)
            low, high = (low, high + far) if stride > 0 else (low + far, high)
        return low, high

    def form(self, field: Field) -> Form:
        """As a formula."""
        found = worth(field, self.start)
        for v, stride in self.parts:
            found = found + field.of(field.element("position", (v,), nonnegative=True)) * worth(field, stride)
        return found


def whole(variables: Sequence[Variable]) -> Place:
    """What digits make, the lowest first."""
    parts, stride = [], 1
    for v in variables:
        parts.append((v, stride))
        stride = stride * size_of(v)
    return Place(tuple(parts))


def divided(place: Place, by: int) -> tuple[Place, Place]:
    """Quotient and remainder of a place that is nowhere below 0."""
    whole_parts, below = [], []
    for v, stride in place.parts:
        found = quotient(stride, by)
        if found is not None:
            whole_parts.append((v, found))
        else:
            below.append((v, stride))
    start = quotient(place.start, by)
    rest = Place(tuple(below), 0 if start is not None else place.start)
    low, high = rest.bounds()
    if above(low + 1) and above(by - high):
        return Place(tuple(whole_parts), start or 0), rest
    for v, stride in below:
        inner = quotient(by, stride)
        if inner is not None and quotient(inner, size_of(v)) is None:
            raise Cut(v, inner)
    raise Undecided(f"a place divided by {by}")


def digits(name: Key, size: int, cuts: Mapping[Key, tuple[int, ...]]) -> list[Variable]:
    """The variables of something of a size, the lowest first; none of what has one value."""
    found = []
    for n, low in enumerate((*cuts.get(name, ()), None)):
        part = size if low is None else low
        if low is not None:
            size = _exactly(size, low)
        if part != 1:
            found.append(Variable((*name, n), coded(part)))
    return found


def _exactly(size: int, by: int) -> int:
    return size // by if isinstance(size, Size) or isinstance(by, Size) else _number(size, by)


def _number(size: int, by: int) -> int:
    if size % by:
        raise Undecided(f"{size} elements in parts of {by}")
    return size // by


def cut(cuts: dict[Key, tuple[int, ...]], error: Cut) -> None:
    """Notes a cut: of what has a name, the sizes of all digits but the highest one, from the lowest on."""
    known = cuts.get(error.key, ())
    n: int = error.number  # type: ignore[assignment]
    parts = (error.low,) if n == len(known) else (error.low, _exactly(known[n], error.low))
    cuts[error.key] = (*known[:n], *parts, *known[n + 1 :])


def matched(dims: Sequence[Variable], place: Place) -> list[Variable | int]:
    """For each digit of a dim the variable, or number, that a place has there.

    That it has one for each, of as many values and with its stride, is that all of the place lies within the dim.
    """
    left = {stride: v for v, stride in place.parts}
    if len(left) != len(place.parts):
        raise Undecided("a place in which two variables count alike")
    for one, step in place.parts:
        if above(-step) and one.name[1] == "loop":
            raise Mirrored(one)
    start, stride = place.start, 1
    found: list[Variable | int] = []
    for digit in dims:
        size = size_of(digit)
        v = left.pop(stride, None)
        if v is None:
            found.append(_fixed(start, stride, size))
            start = start - found[-1] * stride  # type: ignore[operator]
        elif size_of(v) == size:
            found.append(v)
        elif quotient(size, size_of(v)) is not None:
            raise Cut(digit, size_of(v))
        elif quotient(size_of(v), size) is not None:
            raise Cut(v, size)
        else:
            raise Undecided(f"a place with {size_of(v)} values where there are {size}")
        stride = stride * size
    if left or not start == 0:
        raise Undecided("a place that is none of the digits of its dim")
    return found


def _fixed(start: int, stride: int, size: int) -> int:
    """The value of a digit that no variable counts."""
    if start == 0:
        return 0
    found = quotient(start, stride)
    if found is None:
        return 0
    if isinstance(found, Size) or isinstance(size, Size):
        if above(size - found) and above(found + 1):
            return found
        raise Undecided("a place whose digits are not known")
    return found % size


class Placed(Renamed):
    """Forms with other variables, or with numbers, in the place of some."""

    def __init__(self, field: Field, values: Mapping[Variable, Variable | int]) -> None:
        super().__init__(field, values)  # type: ignore[arg-type]  # numbers are data as variables are

    def _changed(self, element: Element) -> Form | None:
        if element.kind == "position":
            value = self.names.get(element.data[0])  # type: ignore[index]
            if value is not None and not isinstance(value, Variable):
                return worth(self.field, value)
        return super()._changed(element)
