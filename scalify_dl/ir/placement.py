"""Placements: which mesh axes split which dims of a value, as people and frameworks say it, made into layouts.

Placement({1: [AxisPart("tp")]})                 # dim 1 in contiguous blocks over all of tp
Placement({0: [AxisPart("dp"), AxisPart("tp")]}) # dim 0 over dp (major), each block over tp
Placement({1: [AxisPart("tp", 1, 2)]})           # only the 2 major positions of tp split it, the others replicate
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from scalify_dl.errors import InputError

from .layout import Digit, Entry, Layout, Pending, Repl
from .mesh import Mesh


class Inexpressible(InputError):
    """A placement that is right as it stands but that layouts cannot say (uneven shards)."""


class Misplaced(Inexpressible):
    """What ranks hold of a value is no cut of it, or not the block that is theirs."""


class Rearranged(Inexpressible):
    """One that makes another value of what the ranks hold than any layout does: in another order, or added up."""


class AxisPart(NamedTuple):
    """Positions of a mesh axis: `size` of them (None: all that are left) below the `pre` major ones."""

    axis: str
    pre: int = 1
    size: int | None = None

    @classmethod
    def parse(cls, text: str) -> AxisPart:
        """Reads `tp`, `tp:2` (the 2 major positions) or `tp:(2)4` (4 positions below the 2 major ones); ValueError."""
        match = re.fullmatch(r"([A-Za-z_][\w.-]*)(?::(?:\((\d{1,6})\))?(\d{1,6}))?", text)
        if not match or (match[3] and int(match[3]) < 1) or (match[2] and int(match[2]) < 1):
            raise ValueError(f"`{text}` is no mesh axis or part of one such as tp or tp:2")
        return cls(match[1], int(match[2] or 1), int(match[3]) if match[3] else None)

    def __str__(self) -> str:
        if self.size is None:
            return self.axis
        return f"{self.axis}:{self.size}" if self.pre == 1 else f"{self.axis}:({self.pre}){self.size}"


@dataclass(frozen=True)
class Placement:
    """Axis parts that split each dim (major to minor), reductions still pending over axes, everything else replicated.

    `pending` maps axis names to `sum`, `max`, `min`, `prod`, `and` or `or`.
    """

    dims: Mapping[int, Sequence[AxisPart]] = field(default_factory=dict)
    pending: Mapping[str, str] = field(default_factory=dict)

    def layout(self, base_shape: Sequence[int], mesh: Mesh) -> Layout:
        """The layout of a value of `base_shape`; InputError where axes, dims and sizes do not fit."""
        claimed: dict[str, list[tuple[int, int, Entry]]] = {axis: [] for axis, _ in mesh.axes}
        local: list[list[Digit]] = []
        for d, n in enumerate(base_shape):
            parts = [(part, self._size(part, mesh)) for part in self.dims.get(d, ())]
            ways = prod(size for _, size in parts)
            if n % ways:
                axes = ", ".join(str(part) for part, _ in parts)
                raise InputError(f"dim {d} of size {n} does not split evenly over {axes} ({ways} ways)")
            block = n // ways
            local.append([Digit(d, 1, block)])
            stride = n
            for part, size in parts:
                stride //= size
                claimed[part.axis].append((part.pre, size, Digit(d, stride, size)))
        for d in self.dims:
            if not 0 <= d < len(base_shape):
                raise InputError(f"no dim {d} in a value with {len(base_shape)} dims")
        for axis in self.pending:
            mesh.axis_size(axis)
        return Layout.of(local, [(axis, self._axis(axis, size, claimed[axis])) for axis, size in mesh.axes])

    @staticmethod
    def _size(part: AxisPart, mesh: Mesh) -> int:
        whole = mesh.axis_size(part.axis)
        size = part.size if part.size is not None else whole // part.pre
        if whole % (part.pre * size):
            raise InputError(f"`{part}` does not divide mesh axis {part.axis}={whole}")
        return size

    def _axis(self, axis: str, size: int, claimed: list[tuple[int, int, Entry]]) -> list[Entry]:
        """Entries of an axis, positions that nothing claims filled in."""
        entries: list[Entry] = []
        at = 1

        def fill(until: int) -> None:
            if until > at:
                rest = until // at
                entries.append(Pending(self.pending[axis], rest) if axis in self.pending else Repl(rest))

        for pre, count, entry in sorted(claimed, key=lambda claim: claim[0]):
            if pre < at or pre % at:
                raise InputError(f"mesh axis `{axis}` is used twice by one value")
            fill(pre)
            entries.append(entry)
            at = pre * count
        fill(size)
        if axis in self.pending and size > 1 and not any(isinstance(entry, Pending) for entry in entries):
            raise InputError(f"mesh axis `{axis}` splits the value, and nothing of it is left to reduce over")
        return entries


REPLICATED = Placement()


def inferred(base_shape: Sequence[int], dist_shape: Sequence[int], mesh: Mesh) -> Placement | None:
    """The only contiguous placement over whole axes that makes `dist_shape` of `base_shape`; None where there is none,
    or more than one."""
    if tuple(base_shape) == tuple(dist_shape):
        return REPLICATED
    if len(base_shape) != len(dist_shape):
        return None
    found = _assign(list(zip(base_shape, dist_shape, strict=True)), mesh, 0, {})
    return Placement(found[0]) if len(found) == 1 else None


def _assign(
    sizes: list[tuple[int, int]], mesh: Mesh, dim: int, taken: dict[int, list[AxisPart]]
) -> list[dict[int, list[AxisPart]]]:
    """Every way (at most two are looked for) to split the dims from `dim` on over axes not taken yet."""
    if dim == len(sizes):
        return [taken]
    base, dist = sizes[dim]
    if base == dist:
        return _assign(sizes, mesh, dim + 1, taken)
    if dist <= 0 or base % dist:
        return []
    used = {part.axis for parts in taken.values() for part in parts}
    free = [(axis, size) for axis, size in mesh.axes if axis not in used and size > 1]
    found: list[dict[int, list[AxisPart]]] = []
    for chosen in _ordered(free, base // dist):
        found += _assign(sizes, mesh, dim + 1, {**taken, dim: [AxisPart(axis) for axis in chosen]})
        if len(found) > 1:
            break
    return found


def _ordered(free: list[tuple[str, int]], ways: int) -> list[list[str]]:
    """Ordered choices of axes whose sizes multiply to `ways`."""
    if ways == 1:
        return [[]]
    choices = []
    for n, (axis, size) in enumerate(free):
        if ways % size == 0:
            choices += [[axis, *rest] for rest in _ordered(free[:n] + free[n + 1 :], ways // size)]
    return choices
