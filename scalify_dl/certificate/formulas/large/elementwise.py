"""What elementwise ops make of elements that stand for all places of a block."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ..elementwise import HIDDEN, Element, Elementwise, Low, lowest
from ..forms import Form, Unknown
from .atoms import Spread
from .blocks import Count, Masked, Peak, counted, masked
from .places import Place


class Wide(Elementwise):
    """Functions of elements with variables: also of what is masked where a truth says so."""

    def __init__(self, atoms: Spread) -> None:
        super().__init__(atoms)
        self.spread = atoms

    def form(self, x: Element) -> Form:
        if isinstance(x, Masked | Peak):
            raise Unknown("infinity")
        if isinstance(x, Count):
            raise Unknown("whole numbers of places")
        return super().form(x)

    def add(self, x: Element, y: Element) -> Element:
        for a, b in ((x, y), (y, x)):
            if isinstance(a, Masked) and isinstance(b, Form):
                return Masked(a.shown, a.value + b, a.low)
            if isinstance(a, Masked | Peak) and b is HIDDEN:
                raise Unknown("infinity and a large number")
        return super().add(x, y)

    def multiply(self, x: Element, y: Element) -> Element:
        for a, b in ((x, y), (y, x)):
            if isinstance(a, Masked) and isinstance(b, Form) and self.multiply(a.low, b) is a.low:
                return Masked(a.shown, a.value * b, a.low)
        return super().multiply(x, y)

    def most(self, xs: list[Element]) -> Element:
        found = [x for x in xs if not isinstance(x, Low)]
        if not found:
            return lowest(xs)
        members = [member for x in found for member in self.members(x)]
        if len(found) == 1 and not isinstance(found[0], Masked | Peak):
            return self.form(found[0])
        if all(not names and shown.value == 1 for names, shown, _ in members):
            return super().most(found)
        return self.greatest(members)

    def greatest(self, members: list[Any]) -> Element:
        """The greatest of members of which some are shown."""
        if any(self.spread.is_shown(names, shown) for names, shown, _ in members):
            return self.spread.peak(members)
        return Peak(members)

    def members(self, x: Element) -> list[Any]:
        """What an element is the greatest of."""
        if isinstance(x, Low):
            return []
        if isinstance(x, Masked):
            return [((), x.shown, x.value)]
        if isinstance(x, Peak):
            return x.members
        return self.spread.members(self.form(x))

    def exponential(self, x: Element) -> Element:
        if isinstance(x, Masked):
            return x.shown * self.atoms.exponential(x.value)
        return super().exponential(x)

    def real(self, kind: str, xs: list[Element]) -> Element:
        if kind == "subtract" and isinstance(xs[1], Masked | Peak):
            raise Unknown("infinity, or infinity less infinity")
        if kind == "subtract" and isinstance(xs[0], Masked) and isinstance(xs[1], Form):
            return Masked(xs[0].shown, xs[0].value - xs[1], xs[0].low)
        if kind == "divide" and isinstance(xs[0], Masked):
            return self.multiply(xs[0], self.atoms.power(self.form(xs[1]), Fraction(-1)))
        return super().real(kind, xs)

    def compare(self, direction: str, x: Element, y: Element) -> Element:
        if isinstance(x, Count) or isinstance(y, Count):
            return self._places(direction, place_of(x), place_of(y))
        if isinstance(x, Masked | Peak) or isinstance(y, Masked | Peak):
            raise Unknown("a comparison of what may be infinite")
        return super().compare(direction, x, y)

    def _places(self, direction: str, x: Place, y: Place) -> Element:
        one, p = self.atoms.number(1), x.plus(y, -1)
        above, below = (self.spread.at_least_zero(Place(-1).plus(p, sign)) for sign in (1, -1))
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
        lows = [x.low if isinstance(x, Masked) else x for x in (yes, no) if isinstance(x, Masked | Low)]
        if not lows:
            return super().select(which, yes, no)
        if len({*map(id, lows)}) > 1:
            raise Unknown("infinity or a large number")
        one = self.atoms.number(1)
        shown = value = self.atoms.number(0)
        for truth, x, other in ((which, yes, no), (one - which, no, yes)):
            if not isinstance(x, Low):
                own = (x.shown, x.value) if isinstance(x, Masked) else (one, self.form(x))
                shown = shown + truth * own[0]
                value = value + (own[1] if isinstance(other, Low) else truth * own[1])
        return masked(shown, value, lows[0])

    def whole(self, kind: str, xs: list[Element]) -> Element:
        """An op on whole numbers of which some depend on places."""
        first, *rest = [place_of(x) for x in xs]
        if kind == "negate":
            return counted(first.times(-1))
        (second,) = rest
        if kind in ("add", "subtract"):
            return counted(first.plus(second, 1 if kind == "add" else -1))
        if kind == "multiply" and (not first.terms or not second.terms):
            return counted(second.times(first.start) if not first.terms else first.times(second.start))
        if kind in ("maximum", "minimum"):
            more, less = (first, second) if first.plus(second, -1).least >= 0 else (second, first)
            if more.plus(less, -1).least >= 0:
                return counted(more if kind == "maximum" else less)
        raise Unknown(f"{kind} of places")


def place_of(x: Element) -> Place:
    """A whole number as a place."""
    if isinstance(x, Count):
        return x.place
    if type(x) is int:
        return Place(x)
    raise Unknown("integers that depend on inputs")
