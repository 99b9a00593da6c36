"""Loops whose length depends on where they are: they run to a bound on it, and iterations beyond it change nothing.

    for k in range(min(ceildiv((b + 1) · M, N), n))   is   for k in range(n), where k · N < (b + 1) · M

as k < ⌊y / c⌋ is (k + 1) · c ≤ y. Iterations before a start that is no number change nothing either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalify_dl.algebra import truths
from scalify_dl.algebra.form import Form
from scalify_dl.readers.tir.syntax import Apply, Expr, Loop
from scalify_dl.sizes import above, divided, greatest, least

from ..domain import Undecided
from .places import Place
from .positions import compared

if TYPE_CHECKING:
    from .machine import Frame, Machine

_DIVISIONS = ("floor-divide", "truncate-divide")


@dataclass(frozen=True, slots=True)
class Length:
    """How often a loop runs: its first value, how many there may be from there on, which of them there are, and whether
    the first one is there at all sizes."""

    start: int
    most: int
    stop: Expr | None
    """Where it ends, if that is no number; counted from 0."""
    begin: Expr | None
    """Where it starts, if that is no number."""
    begins: bool

    def shown(self, machine: Machine, k: Place, frame: Frame) -> Form:
        """1 where an iteration is there."""
        bounds = _Bounds(machine, frame)
        found = machine.basis.one
        if self.stop is not None:
            found = found * bounds.below(k, self.stop)
        return found if self.begin is None else found * bounds.reached(k, self.begin)


def length(machine: Machine, at: Loop, frame: Frame) -> Length:
    """That of a loop."""
    bounds = _Bounds(machine, frame)
    start = bounds.number(at.start)
    extent = bounds.number(at.extent)
    if start is not None and extent is not None:
        return Length(start, machine.some(extent), None, None, True)
    if start == 0:
        begins = bounds.below(Place.number(0), at.extent).value == 1
        return Length(0, machine.some(bounds.most(at.extent)), at.extent, None, begins)
    whole = isinstance(at.extent, Apply) and at.extent.kind == "subtract" and at.extent.args[1] == at.start
    if not whole:
        raise Undecided("a loop whose end is not known")
    stop = at.extent.args[0]  # type: ignore[union-attr]
    most = machine.some(bounds.most(stop))
    return Length(0, most, stop if bounds.number(stop) is None else None, at.start, False)


class _Bounds:
    """What is known of an expression of places: how much it may be, and where something is below it."""

    def __init__(self, machine: Machine, frame: Frame) -> None:
        self.machine, self.frame = machine, frame

    def place(self, x: Expr) -> Place | None:
        """The place that it is; None where it is none."""
        try:
            found = self.machine.elements.value(x, self.frame)
        except Undecided:
            return None
        return found if isinstance(found, Place) else None

    def number(self, x: Expr) -> int | None:
        """The number that it is."""
        found = self.place(x)
        return None if found is None else found.value

    def apply(self, x: Expr) -> Apply:
        """What it is made of; a name is what it stands for."""
        found = self.machine.elements.named(x, self.frame)
        if not isinstance(found, Apply) or len(found.args) != 2:
            raise Undecided("a length that is computed otherwise than by sums, quotients, minima and maxima")
        return found

    def most(self, x: Expr) -> Any:
        """No less than it is anywhere."""
        place = self.place(x)
        if place is not None:
            return place.bounds()[1]
        x = self.apply(x)
        if x.kind in _DIVISIONS:
            return divided(self.most(x.args[0]), self.by(x))[0]
        if x.kind == "minimum":
            numbers = [a for a in x.args if self.number(a) is not None]
            return self.most(numbers[0]) if len(numbers) == 1 else least(*map(self.most, x.args))
        if x.kind == "maximum":
            one, other = map(self.most, x.args)
            return greatest(one, other)
        if x.kind == "add":
            return self.most(x.args[0]) + self.most(x.args[1])
        less = self.place(x.args[1]) if x.kind == "subtract" else None
        if less is not None:
            return self.most(x.args[0]) - less.bounds()[0]
        raise Undecided("a length that is computed otherwise than by sums, quotients, minima and maxima")

    def by(self, x: Apply) -> int:
        """What is divided by: a number above 0, of what is not below 0."""
        found = self.number(x.args[1])
        if found is None or not above(found):
            raise Undecided("a length that is divided by what is no number")
        if x.kind == "truncate-divide":
            place = self.place(x.args[0])
            if place is None or not above(place.bounds()[0] + 1):
                raise Undecided("a length that is a quotient rounded to zero")
        return found

    def below(self, k: Place, x: Expr) -> Form:
        """Whether k < x."""
        place = self.place(x)
        if place is not None:
            return compared(self.machine.basis, "LT", k, place)
        x = self.apply(x)
        if x.kind in _DIVISIONS:  # k + 1 ≤ y / c
            by = self.by(x)
            return self.below(k.scaled(by) + Place.number(by - 1), x.args[0])
        if x.kind in ("minimum", "maximum"):
            left, right = (self.below(k, a) for a in x.args)
            return truths.both(left, right) if x.kind == "minimum" else truths.either(left, right)
        if x.kind == "add":
            for one, other in (x.args, x.args[::-1]):
                less = self.place(one)
                if less is not None:
                    return self.below(k + less.scaled(-1), other)
        more = self.place(x.args[1]) if x.kind == "subtract" else None
        if more is not None:
            return self.below(k + more, x.args[0])
        raise Undecided("a length that is computed otherwise than by sums, quotients, minima and maxima")

    def reached(self, k: Place, x: Expr) -> Form:
        """Whether x ≤ k."""
        place = self.place(x)
        if place is not None:
            return compared(self.machine.basis, "GE", k, place)
        x = self.apply(x)
        if x.kind in _DIVISIONS:  # y < (k + 1) · c
            by = self.by(x)
            return self.reached(k.scaled(by) + Place.number(by - 1), x.args[0])
        if x.kind in ("minimum", "maximum"):
            one, other = (self.reached(k, a) for a in x.args)
            return truths.either(one, other) if x.kind == "minimum" else truths.both(one, other)
        raise Undecided("a start that is computed otherwise than by quotients, minima and maxima")
