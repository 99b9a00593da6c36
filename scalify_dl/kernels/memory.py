"""Memory of a running kernel: elements, who wrote them, and what is wrong with how they are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from scalify_dl.readers.tir.syntax import Buffer

from .domain import Array, Domain, Undecided

NOBODY = -1
MOST_ELEMENTS = 1 << 25


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that a kernel does wrong: `kind` is `bounds`, `race`, `unwritten` or `domain`; `certain` where every
    run shows it."""

    kind: str
    line: int
    text: str
    certain: bool = True


@dataclass(slots=True)
class Flaws:
    """What was found, each once."""

    found: dict[tuple[str, int, str], Flaw] = field(default_factory=dict)

    def add(self, kind: str, line: int, buffer: str, text: str, *, certain: bool = True) -> None:
        """Notes a flaw at a line of a buffer, the first of its kind there."""
        self.found.setdefault((kind, line, buffer), Flaw(kind, line, text, certain))

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.found.values())


class Memory:
    """The elements of one buffer, for each lane that has its own.

    `lanes` are the sizes of the axes of the batch in which it was made, of which every lane has memory of its own.
    """

    def __init__(self, buffer: Buffer, domain: Domain, lanes: tuple[int, ...], axes: tuple[int, ...]) -> None:
        self.buffer, self.lanes, self.axes = buffer, lanes, axes
        self.shape = (*lanes, *buffer.shape)
        size = prod(self.shape)
        if size > MOST_ELEMENTS:
            raise Undecided(f"`{buffer.name}` has more than {MOST_ELEMENTS:,} elements", buffer.line)
        self.domain = domain
        self.held = np.full(size, domain.undefined, dtype=domain.dtype)
        self.written = np.zeros(size, dtype=bool)
        self.pending: list[tuple[Array, Array]] = []
        """Products of matrices that are still to be added to what is held."""
        self.tracks: dict[str, Any] = {}
        self.owners: Array | None = None
        self.lines: Array | None = None
        self.by_block: Array | None = None

    @property
    def cells(self) -> Array:
        """The elements, with all that was to be added."""
        if self.pending:
            left, right = (np.concatenate(parts, axis=1) for parts in zip(*self.pending, strict=True))
            self.pending = []
            dtype = self.buffer.dtype
            product = self.domain.contract(left, right, dtype).reshape(-1)
            self.held = np.array(self.domain.apply("add", dtype, [self.held, product], dtype))
        return self.held

    def places(self, indices: Sequence[Array], lanes: Sequence[Array]) -> Array:
        """Row-major places of indices, that broadcast."""
        result: Array = np.zeros((), dtype=np.int64)
        for size, index in zip(self.shape, (*lanes, *indices), strict=True):
            result = result * size + index
        return result

    def index(self, place: int) -> tuple[int, ...]:
        """The index of a place, without lanes."""
        return tuple(int(i) for i in np.unravel_index(place, self.shape))[len(self.lanes) :] if self.shape else ()

    def note(self, places: Array, line: int, block: int) -> None:
        """Which line and block wrote elements."""
        self.written[places] = True
        if self.buffer.scope == "global":
            if self.lines is None or self.by_block is None:
                self.lines = np.zeros(len(self.cells), dtype=np.int32)
                self.by_block = np.full(len(self.cells), NOBODY, dtype=np.int64)
            self.lines[places] = line
            self.by_block[places] = block
