"""What a distributed value holds, as the lift supposes it: a value of the single-device program in a placement.

Nothing here is believed: the rules prove what is supposed, or the verdict says that they do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.layout import Digit, Entry, Layout, Pending, Repl

from .grid import Grid

Local = tuple[tuple[Digit, ...], ...]


@dataclass(frozen=True)
class Piece:
    """A part of a dim: local elements `lo` … `hi` are those of the baseline's part from `base_lo` to `base_hi`, cut at
    these positions of the mesh (major first)."""

    lo: int
    hi: int
    base_lo: int
    base_hi: int
    cut: tuple[int, ...]

    def in_steps(self, inner: int, step: int) -> Piece | None:
        """The part where elements are `inner` of smaller ones, counted in steps of these; None where it does not end
        with a step."""
        lo, hi, base_lo, base_hi = (n * inner for n in (self.lo, self.hi, self.base_lo, self.base_hi))
        if any(n % step for n in (lo, hi, base_lo, base_hi)):
            return None
        return Piece(lo // step, hi // step, base_lo // step, base_hi // step, self.cut)


@dataclass(frozen=True)
class Held:
    """Value `base`; digits of every local dim; what stands at every position of the mesh; times a scale.

    Along `free` dims the value is the same everywhere, so that any placement of these dims fits. `parts` are those of
    dim `along`, each placed by itself: then `local` and `mesh` say nothing of that dim.
    """

    base: Tensor
    local: Local
    mesh: tuple[Entry, ...]
    scale: Fraction = Fraction(1)
    free: frozenset[int] = frozenset()
    along: int | None = None
    parts: tuple[Piece, ...] = ()

    @classmethod
    def whole(cls, base: Tensor, grid: Grid, free: Iterable[int] = ()) -> Held:
        """The value as it is on every rank."""
        return cls(base, whole_dims(base.shape), tuple(map(Repl, grid.sizes)), free=frozenset(free))

    @classmethod
    def placed(cls, base: Tensor, local: Sequence[int], layout: Layout, grid: Grid) -> Held | None:
        """The value placed as another one, of other sizes, is by a layout in contiguous blocks; None where it is none
        of these or does not fit."""
        mesh = grid.split(layout.axes)
        blocks = all(tidy(digits) in ((), (Digit(d, 1, prod(e.size for e in digits)),))
                     for d, digits in enumerate(layout.dims))  # fmt: skip
        if mesh is None or not blocks or not len(layout.dims) == len(base.shape) == len(local):
            return None
        entries = list(mesh)
        for d, size in enumerate(base.shape):
            stride = size
            cut = [p for p, e in enumerate(mesh) if isinstance(e, Digit) and e.dim == d]
            for p in sorted(cut, key=lambda p: -getattr(mesh[p], "stride", 0)):
                stride //= grid.sizes[p]
                entries[p] = Digit(d, stride, grid.sizes[p])
            if prod(grid.sizes[p] for p in cut) * local[d] != size:
                return None
        return cls(base, whole_dims(local), tuple(entries), layout.scale)

    def layout(self, grid: Grid) -> Layout:
        """As a layout."""
        return Layout.of(self.local, grid.joined(self.mesh), self.scale)

    def part(self, piece: Piece, grid: Grid) -> Held:
        """One of the values side by side, as a value of its own."""
        assert self.along is not None
        mesh, stride = list(self.mesh), piece.base_hi - piece.base_lo
        for p in piece.cut:
            stride //= grid.sizes[p]
            mesh[p] = Digit(self.along, stride, grid.sizes[p])
        own = tidy([Digit(self.along, 1, piece.hi - piece.lo)])
        local = tuple(own if d == self.along else digits for d, digits in enumerate(self.local))
        return replace(self, mesh=tuple(mesh), local=local, along=None, parts=())

    @property
    def pending(self) -> list[int]:
        """Positions with a reduction that is still to be done."""
        return [p for p, entry in enumerate(self.mesh) if isinstance(entry, Pending)]

    @property
    def calm(self) -> bool:
        """Nothing pending, scale 1."""
        return not self.pending and self.scale == 1

    @property
    def aligned(self) -> bool:
        """Whether every local dim is of the base's dim of that number."""
        return len(self.local) == len(self.base.shape) and all(
            digit.dim == d for d, digits in enumerate(self.local) for digit in digits
        )

    @property
    def in_blocks(self) -> bool:
        """Whether every local dim is one run of the base's dim of that number."""
        return self.aligned and all(
            len(digits) < 2 and all(digit.stride == 1 for digit in digits) for digits in map(tidy, self.local)
        )

    def is_whole(self, dim: int) -> bool:
        """Whether a local dim is the whole of the base's, in order."""
        size = self.base.shape[dim] if dim < len(self.base.shape) else 0
        return self.aligned and self.along != dim and tidy(self.local[dim]) == tidy([Digit(dim, 1, size)])

    def cut(self, dim: int) -> list[int]:
        """Positions that split a dim of the base."""
        return [p for p, entry in enumerate(self.mesh) if isinstance(entry, Digit) and entry.dim == dim]

    def moved(self, where: Sequence[int | None], base: Tensor, local: Local, **more: object) -> Held:
        """The same placement of another value: base dim d is its dim `where[d]`."""
        mesh: list[Entry] = []
        for entry in self.mesh:
            if isinstance(entry, Digit):
                to = where[entry.dim]
                entry = Repl(entry.size) if to is None else Digit(to, entry.stride, entry.size)
            mesh.append(entry)
        return replace(self, base=base, local=local, mesh=tuple(mesh), **more)  # type: ignore[arg-type]


def tidy(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Digits without those of size 1, neighbours that continue each other as one."""
    found: list[Digit] = []
    for digit in digits:
        if digit.size == 1:
            continue
        last = found[-1] if found else None
        if last is not None and last.dim == digit.dim and last.stride == digit.stride * digit.size:
            found[-1] = Digit(digit.dim, digit.stride, last.size * digit.size)
        else:
            found.append(digit)
    return tuple(found)


def whole_dims(shape: Sequence[int]) -> Local:
    """Every dim as it is."""
    return tuple(tidy([Digit(d, 1, n)]) for d, n in enumerate(shape))


def renumbered(digits: Iterable[Digit], dim: int) -> tuple[Digit, ...]:
    """The same digits of another dim."""
    return tuple(Digit(dim, digit.stride, digit.size) for digit in digits)


def split_digits(digits: Sequence[Digit], sizes: Sequence[int]) -> list[tuple[Digit, ...]] | None:
    """Digits (major first) dealt out to consecutive dims of these sizes; None where a digit would have to be cut
    unevenly."""
    left = [d for d in digits if d.size > 1]
    found: list[tuple[Digit, ...]] = []
    for size in sizes:
        mine: list[Digit] = []
        while size > 1:
            if not left:
                return None
            digit = left.pop(0)
            if size % digit.size == 0:
                mine.append(digit)
                size //= digit.size
            elif digit.size % size == 0:
                rest = digit.size // size
                mine.append(Digit(digit.dim, digit.stride * rest, size))
                left.insert(0, Digit(digit.dim, digit.stride, rest))
                size = 1
            else:
                return None
        found.append(tidy(mine))
    return found if not left else None


def readdressed(digit: Digit, sizes: Sequence[int], first: int) -> list[Digit] | None:
    """A digit of one index (that of dims `sizes`, row-major) as digits of these dims, numbered from `first`."""
    found: list[Digit] = []
    stride, size = digit.stride, digit.size
    bounds = [prod(sizes[d + 1 :]) for d in range(len(sizes))]
    while size > 1:
        at = next(d for d, bound in enumerate(bounds) if stride >= bound or d == len(bounds) - 1)
        if stride % bounds[at]:
            return None
        room = sizes[at] * bounds[at] // stride if (sizes[at] * bounds[at]) % stride == 0 else 0
        if room < 1:
            return None
        part = min(size, room)
        if size % part:
            return None
        found.insert(0, Digit(first + at, stride // bounds[at], part))
        size //= part
        stride *= part
    return found


def groups(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[range, range]]:
    """The smallest runs of dims of a reshape that have as many elements on both sides."""
    i = j = 0
    while i < len(before) or j < len(after):
        first_i, first_j = i, j
        left = right = 1
        if i < len(before):
            left, i = before[i], i + 1
        if j < len(after):
            right, j = after[j], j + 1
        while left != right:
            if left < right and i < len(before):
                left, i = left * before[i], i + 1
            elif j < len(after):
                right, j = right * after[j], j + 1
            else:
                break
        if i == len(before) or j == len(after):  # what is left are dims of size 1
            rest_i, rest_j = prod(before[i:]), prod(after[j:])
            if rest_i == rest_j == 1:
                i, j = len(before), len(after)
        yield range(first_i, i), range(first_j, j)
