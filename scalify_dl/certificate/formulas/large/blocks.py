"""Tensors as arrays of blocks: along each dim parts one after the other, each part with its digits.

What a block holds is said for all places in it: an element with a variable for each digit of each dim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..elementwise import HIGH, LOW, NAN, Element, Low
from ..forms import Form, Unknown
from .atoms import Spread
from .places import Digits, Place, Variable, carried, finer, of_dim, without_ones

Array = np.ndarray[Any, Any]
Parts = tuple[Digits, ...]
"""Along a dim: the digits of each part."""
MOST_BLOCKS = 4096
MOST_ALONE = 64
"""Parts of one element each, into which a dim is cut."""


class Count:
    """A whole number that depends on variables."""

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        self.place = place


class Masked:
    """A form where a truth is 1, and −∞ where it is 0, or what counts as it."""

    __slots__ = ("low", "shown", "value")

    def __init__(self, shown: Form, value: Form, low: Low = LOW) -> None:
        self.shown, self.value, self.low = shown, value, low


class Peak:
    """The greatest of what is shown; −∞ where nothing is."""

    __slots__ = ("members",)

    def __init__(self, members: list[tuple[tuple[Variable, ...], Form, Form]]) -> None:
        self.members = members


def put(atoms: Spread, x: Element, values: dict[Variable, Place]) -> Element:
    """An element where some variables are other places."""
    if isinstance(x, Form):
        return atoms.put(x, values)
    if isinstance(x, Count):
        return counted(x.place.put(values))
    if isinstance(x, Masked):
        return masked(atoms.put(x.shown, values), atoms.put(x.value, values), x.low)
    if isinstance(x, Peak):
        return Peak([(names, atoms.put(shown, values), atoms.put(value, values)) for names, shown, value in x.members])
    if isinstance(x, int | Low) or x is HIGH or x is NAN:
        return x
    raise Unknown("what has no variables")


def counted(place: Place) -> Element:
    """A place as a whole number."""
    return Count(place) if place.terms else place.start


def masked(shown: Form, value: Form, low: Low) -> Element:
    """A form where a truth is 1."""
    if shown.value is not None:
        return value if shown.value else low
    return Masked(shown, value, low)


class Blocks:
    """A tensor."""

    def __init__(self, parts: Sequence[Parts], cells: Array) -> None:
        self.parts, self.cells = tuple(parts), cells
        if cells.size > MOST_BLOCKS:
            raise Unknown("a tensor of many blocks")

    @property
    def shape(self) -> tuple[int, ...]:
        """Its size along each dim."""
        return tuple(sum(map(prod, parts)) for parts in self.parts)

    @property
    def ndim(self) -> int:
        """How many dims it has."""
        return len(self.parts)

    @property
    def size(self) -> int:
        """How many blocks there are."""
        return self.cells.size

    def item(self) -> Element:
        """The only element."""
        if prod(self.shape) != 1:
            raise Unknown("one element of many")
        return self.cells.item()

    def block(self, at: Sequence[int]) -> list[Digits]:
        """The digits of a block along each dim."""
        return [parts[i] for parts, i in zip(self.parts, at, strict=True)]


def whole(size: int) -> Parts:
    """A dim that is not cut."""
    if size < 1:
        raise Unknown("a tensor without elements")
    return (without_ones([size]),)


def made(parts: Sequence[Parts], element: Callable[[tuple[int, ...]], Element]) -> Blocks:
    """Blocks whose elements are said for each place in the array."""
    if prod(map(len, parts)) > MOST_BLOCKS:
        raise Unknown("a tensor of many blocks")
    cells = np.empty(tuple(map(len, parts)), dtype=object)
    for at in np.ndindex(*cells.shape):
        cells[at] = element(at)
    return Blocks(parts, cells)


def starts(parts: Parts) -> list[int]:
    """Where each part begins, and where the last one ends."""
    found = [0]
    for digits in parts:
        found.append(found[-1] + prod(digits))
    return found


def along(atoms: Spread, x: Blocks, dim: int, pieces: Sequence[tuple[Place, Digits]]) -> Blocks:
    """What is at some places along a dim: for each new part its places, in variables of its own digits."""
    begin = starts(x.parts[dim])
    chosen = []
    for place, _ in pieces:
        n = next((n for n, end in enumerate(begin[1:]) if place.most < end), len(x.parts[dim]))
        if n == len(x.parts[dim]) or place.least < begin[n]:
            raise Unknown("places in several parts")
        within_it = Place(place.start - begin[n], place.terms)
        values = dict(carried(dim, x.parts[dim][n], within_it))
        chosen.append((n, values))

    def element(at: tuple[int, ...]) -> Element:
        n, values = chosen[at[dim]]
        return put(atoms, x.cells[(*at[:dim], n, *at[dim + 1 :])], values)

    parts = (*x.parts[:dim], tuple(digits for _, digits in pieces), *x.parts[dim + 1 :])
    return made(parts, element)


def refined(atoms: Spread, x: Blocks, dim: int, parts: Parts) -> Blocks:
    """The same in finer parts."""
    if x.parts[dim] == parts:
        return x
    return along(atoms, x, dim, [(of_dim(dim, d, s), d) for d, s in zip(parts, starts(parts), strict=False)])


def cut(atoms: Spread, x: Blocks, dim: int, places: Iterable[int]) -> Blocks:
    """The same, cut at some places along a dim as well."""
    return refined(atoms, x, dim, with_cuts(x.parts[dim], places))


def with_cuts(parts: Parts, places: Iterable[int]) -> Parts:
    """Parts that are cut at some places, too."""
    ends, found = {*places}, []
    for digits, begin, end in zip(parts, starts(parts), starts(parts)[1:], strict=False):
        inside = sorted(p for p in ends if begin < p < end)
        if not inside:
            found.append(digits)
        for a, b in zip([begin, *inside], [*inside, end], strict=True) if inside else ():
            found.append(_piece(digits, a - begin, b - begin))
    return tuple(found)


def _piece(digits: Digits, begin: int, end: int) -> Digits:
    """The digits of a piece of a part: of the first as many as there are."""
    rest = prod(digits[1:])
    if begin % rest or end % rest:
        raise Unknown("a part that is cut between its digits")
    return without_ones([(end - begin) // rest, *digits[1:]])


def common(left: Parts, right: Parts) -> Parts:
    """Parts of which both are made."""
    left, right = with_cuts(left, starts(right)), with_cuts(right, starts(left))
    return tuple(finer(a, b) for a, b in zip(left, right, strict=True))


def aligned(atoms: Spread, xs: Sequence[Blocks]) -> list[Blocks]:
    """Tensors of one shape, cut alike."""
    if any(x.shape != xs[0].shape for x in xs):
        raise Unknown("blocks of other shapes")
    found = list(xs)
    for dim in range(xs[0].ndim):
        parts = found[0].parts[dim]
        for x in found[1:]:
            parts = common(parts, x.parts[dim])
        found = [refined(atoms, x, dim, parts) for x in found]
    return found


Whence = tuple[tuple[int, ...], dict[Variable, Place]]
"""Of a block the one that it is made of, and what its variables are."""


def renamed(
    atoms: Spread, x: Blocks, parts: Sequence[Parts], place: Callable[[tuple[int, ...]], Whence]
) -> Blocks:
    """Other blocks, made of these."""

    def element(at: tuple[int, ...]) -> Element:
        old, values = place(at)
        return put(atoms, x.cells[old], values)

    return made(parts, element)


def transposed(atoms: Spread, x: Blocks, order: Sequence[int]) -> Blocks:
    """The dims in another order."""
    parts = [x.parts[d] for d in order]

    def place(at: tuple[int, ...]) -> Whence:
        old = [0] * len(order)
        values: dict[Variable, Place] = {}
        for new, d in enumerate(order):
            old[d] = at[new]
            values |= names(d, new, x.parts[d][at[new]])
        return tuple(old), values

    return renamed(atoms, x, parts, place)


def names(old: int, new: int, digits: Digits, first: int = 0) -> dict[Variable, Place]:
    """The variables of a dim as those of another, from some digit on."""
    return {
        (0, old, n, size): Place(0, (((0, new, first + n, size), 1),)) for n, size in enumerate(digits)
    }


def broadcast(atoms: Spread, x: Blocks, shape: Sequence[int], dims: Sequence[int]) -> Blocks:
    """Spread over new dims; `dims` are where its own ones are."""
    parts: list[Parts] = [whole(size) for size in shape]
    for old, new in enumerate(dims):
        if x.shape[old] == shape[new]:
            parts[new] = x.parts[old]
        elif x.shape[old] != 1:
            raise Unknown("a broadcast of another size")

    def place(at: tuple[int, ...]) -> Whence:
        old: list[int] = []
        values: dict[Variable, Place] = {}
        for d, new in enumerate(dims):
            same = x.shape[d] == shape[new]
            old.append(at[new] if same else 0)
            if same:
                values |= names(d, new, x.parts[d][at[new]])
        return tuple(old), values

    return renamed(atoms, x, parts, place)


def sliced(atoms: Spread, x: Blocks, dim: int, start: int, limit: int, stride: int = 1) -> Blocks:
    """Some places along a dim."""
    if (start, limit, stride) == (0, x.shape[dim], 1):
        return x
    if not 0 <= start < limit <= x.shape[dim] or stride < 1:
        raise Unknown("a slice without elements")
    x = cut(atoms, x, dim, [start, limit]) if stride == 1 else x
    pieces = []
    for digits, begin, end in zip(x.parts[dim], starts(x.parts[dim]), starts(x.parts[dim])[1:], strict=False):
        if stride == 1:
            if start <= begin and end <= limit:
                pieces.append((of_dim(dim, digits, begin), digits))
            continue
        first = max(start, begin + (start - begin) % stride)
        count = -((first - min(end, limit)) // stride)
        if count > 0:
            new = without_ones([count])
            pieces.append((of_dim(dim, new).times(stride).plus(Place(first)), new))
    return along(atoms, x, dim, pieces)


def joined(atoms: Spread, xs: Sequence[Blocks], dim: int) -> Blocks:
    """One after the other along a dim."""
    for d in range(xs[0].ndim):
        if d != dim:
            parts = xs[0].parts[d]
            for x in xs[1:]:
                if x.shape[d] != xs[0].shape[d]:
                    raise Unknown("blocks of other shapes")
                parts = common(parts, x.parts[d])
            xs = [refined(atoms, x, d, parts) for x in xs]
    cells = np.concatenate([x.cells for x in xs], dim)
    parts_along = tuple(part for x in xs for part in x.parts[dim])
    return Blocks((*xs[0].parts[:dim], parts_along, *xs[0].parts[dim + 1 :]), cells)


# ---- shapes ----
def reshaped(atoms: Spread, x: Blocks, shape: Sequence[int]) -> Blocks:
    """The same elements in order, in another shape."""
    if prod(shape) != prod(x.shape):
        raise Unknown("a reshape to another size")
    x = _without_ones(atoms, x)
    wanted = [size for size in shape if size != 1]
    done = 0
    while done < len(wanted) or x.ndim > done:
        old, new = done + 1, done + 1
        while prod(x.shape[done:old]) != prod(wanted[done:new]):
            if prod(x.shape[done:old]) < prod(wanted[done:new]):
                old += 1
            else:
                new += 1
        while old > done + 1:
            x, old = _merged(atoms, x, done), old - 1
        for size in reversed(wanted[done + 1 : new]):
            x = _split(atoms, x, done, size)
        done = new
    return broadcast(atoms, x, shape, [d for d, size in enumerate(shape) if size != 1])


def _without_ones(atoms: Spread, x: Blocks) -> Blocks:
    kept = [d for d in range(x.ndim) if x.shape[d] != 1]

    def place(at: tuple[int, ...]) -> Whence:
        old = [0] * x.ndim
        values: dict[Variable, Place] = {}
        for new, d in enumerate(kept):
            old[d] = at[new]
            values |= names(d, new, x.parts[d][at[new]])
        return tuple(old), values

    return renamed(atoms, x, [x.parts[d] for d in kept], place)


def _merged(atoms: Spread, x: Blocks, dim: int) -> Blocks:
    """A dim and the next one as one."""
    if len(x.parts[dim + 1]) > 1:
        x = _each_alone(atoms, x, dim)
    inner = x.parts[dim + 1]
    parts = tuple((*a, *b) for a in x.parts[dim] for b in inner)

    def place(at: tuple[int, ...]) -> Whence:
        outer, n = divmod(at[dim], len(inner))
        values = names(dim + 1, dim, inner[n], len(x.parts[dim][outer]))
        for d in range(dim + 2, x.ndim):
            values |= names(d, d - 1, x.parts[d][at[d - 1]])
        return (*at[:dim], outer, n, *at[dim + 1 :]), values

    return renamed(atoms, x, [*x.parts[:dim], parts, *x.parts[dim + 2 :]], place)


def _each_alone(atoms: Spread, x: Blocks, dim: int) -> Blocks:
    """A dim in parts of one element each."""
    if x.shape[dim] > MOST_ALONE:
        raise Unknown("a dim of many elements that are followed one by one")
    pieces: list[tuple[Place, Digits]] = [(Place(n), ()) for n in range(x.shape[dim])]
    return along(atoms, x, dim, pieces)


def _split(atoms: Spread, x: Blocks, dim: int, size: int) -> Blocks:
    """A dim as two, of which the second has this size."""
    rows = x.shape[dim] // size
    ends = {p % size for p in starts(x.parts[dim])}
    if ends != {0}:  # each row has the same parts
        if rows > MOST_ALONE:
            raise Unknown("a dim of many elements that are followed one by one")
        x = cut(atoms, x, dim, [row * size + p for row in range(rows) for p in ends])
        inner: Parts = ((),)
        for row in range(rows):
            begin = starts(x.parts[dim])
            own = tuple(d for d, s in zip(x.parts[dim], begin, strict=False) if row * size <= s < (row + 1) * size)
            inner = own if row == 0 else tuple(finer(a, b) for a, b in zip(inner, own, strict=True))
        x = refined(atoms, x, dim, inner * rows)
        outer: Parts = ((),) * rows
    else:
        inner = whole(size)
        for digits in x.parts[dim]:
            inner = (finer(inner[0], _lower(digits, size)),)
        outer = tuple(without_ones([prod(digits) // size]) for digits in x.parts[dim])
        outer = tuple(finer(a, _upper(digits, size)) for a, digits in zip(outer, x.parts[dim], strict=True))
        x = refined(atoms, x, dim, tuple((*a, *inner[0]) for a in outer))

    def place(at: tuple[int, ...]) -> Whence:
        upper, lower = outer[at[dim]], inner[at[dim + 1]]
        first = len(upper)
        values = {(0, dim, first + n, s): Place(0, (((0, dim + 1, n, s), 1),)) for n, s in enumerate(lower)}
        for d in range(dim + 1, x.ndim):
            values |= names(d, d + 1, x.parts[d][at[d + 1]])
        return (*at[:dim], at[dim] * len(inner) + at[dim + 1], *at[dim + 2 :]), values

    return renamed(atoms, x, [*x.parts[:dim], outer, inner, *x.parts[dim + 1 :]], place)


def _lower(digits: Digits, size: int) -> Digits:
    """What is left of digits below a stride."""
    found: list[int] = []
    left = size
    for digit in reversed(digits):
        if left == 1:
            break
        if left % digit and digit % left:
            raise Unknown("digits of which none are made")
        found.insert(0, min(digit, left))
        left //= min(digit, left)
    if left != 1:
        raise Unknown("digits of which none are made")
    return tuple(found)


def _upper(digits: Digits, size: int) -> Digits:
    """What is left of digits from a stride on."""
    left = size
    found: list[int] = []
    for digit in reversed(digits):
        if left == 1:
            found.insert(0, digit)
        elif left % digit == 0:
            left //= digit
        elif digit % left == 0:
            found.insert(0, digit // left)
            left = 1
        else:
            raise Unknown("digits of which none are made")
    return without_ones(found)
