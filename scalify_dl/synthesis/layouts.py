"""Placements of one value over the axes of a mesh, and what it costs to go from one to another.

A placement has a word for every axis: whole (`WHOLE`), parts of a sum (`PARTS`), or blocks of a dim (its number). Where
several axes cut one dim, the earlier axis is the major one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import inf, prod
from typing import NamedTuple

from scalify_dl.ir.mesh import Mesh
from scalify_dl.pysouffle import Program, rules_dir

WHOLE, PARTS = -1, -2
Layout = tuple[int, ...]
Cost = tuple[float, int]
"""Bytes (or picoseconds), and steps."""
STEPS = 1024
RANK = 4
"""Only so many dims of a value are cut; further ones stay whole."""


class Step(NamedTuple):
    """One collective (or a slice): what is done along which axis, and the dims from and to which it goes."""

    verb: str
    axis: int
    dim: int
    to: int
    layout: Layout
    cost: int


@dataclass(frozen=True)
class Link:
    """What a message along an axis costs: each, and for each byte. Without times, bytes are what is counted."""

    alpha: int = 0
    beta: int = 1


def fits(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> bool:
    """Whether all blocks are equally large."""
    sizes = [size for _, size in mesh.axes]
    return all(n % prod(w for at, w in zip(layout, sizes, strict=True) if at == d) == 0 for d, n in enumerate(shape)) \
        and all(at < len(shape) for at in layout)  # fmt: skip


def local(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> tuple[int, ...]:
    """The shape on every rank."""
    sizes = [size for _, size in mesh.axes]
    return tuple(n // prod(w for at, w in zip(layout, sizes, strict=True) if at == d) for d, n in enumerate(shape))


@dataclass
class Ways:
    """The cheapest ways between placements, by shape and bytes of an element."""

    mesh: Mesh
    links: dict[str, Link]
    _numbers: dict[Layout, int] = field(default_factory=dict)
    _steps: dict[tuple[tuple[int, ...], int], dict[Layout, list[Step]]] = field(default_factory=dict)
    _costs: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _known: dict[object, Cost] = field(default_factory=dict)
    _class: dict[tuple[tuple[int, ...], int], int] = field(default_factory=dict)

    def know(self, types: Iterable[tuple[tuple[int, ...], int]]) -> None:
        """Looks for the ways of values of these shapes and sizes of an element, by the rules."""
        rows = []
        for shape, width in dict.fromkeys(types):
            self._class[shape, width] = number = len(self._class)
            mine = self._steps[shape, width] = {at: list(self._from(at, shape, width)) for at in self.layouts(shape)}
            for at, steps in mine.items():
                rows += [(number, self._number(at), self._number(s.layout), s.cost * STEPS + 1) for s in steps]
        program = _rules().fresh()
        program.insert("step", rows)
        program.run()
        self._costs = {(int(c), int(a), int(b)): int(cost) for c, a, b, cost in program.relation("way")}

    def layouts(self, shape: tuple[int, ...]) -> list[Layout]:
        """All placements of a shape in equal blocks."""
        words = [PARTS, WHOLE, *range(min(len(shape), RANK))]
        every = product(*([WHOLE] if size == 1 else words for _, size in self.mesh.axes))
        return [at for at in every if fits(at, shape, self.mesh)]

    def cost(self, shape: tuple[int, ...], width: int, start: Layout, end: Layout) -> Cost:
        """Of the cheapest way; (inf, 0) where there is none."""
        if start == end:
            return 0, 0
        key = shape, width, start, end
        if key not in self._known:
            found = self._costs.get((self._class[shape, width], self._number(start), self._number(end)))
            self._known[key] = (inf, 0) if found is None else divmod(found, STEPS)
        return self._known[key]

    def way(self, shape: tuple[int, ...], width: int, start: Layout, end: Layout) -> Iterator[Step]:
        """The steps of the cheapest way."""
        while start != end:
            left = self.cost(shape, width, start, end)
            for step in self._steps[shape, width][start]:
                rest = self.cost(shape, width, step.layout, end)
                if (step.cost + rest[0], 1 + rest[1]) == left:
                    break
            else:
                raise AssertionError("a way has steps")
            yield step
            start = step.layout

    def _number(self, layout: Layout) -> int:
        return self._numbers.setdefault(layout, len(self._numbers))

    def _from(self, at: Layout, shape: tuple[int, ...], width: int) -> Iterator[Step]:
        have = prod(local(at, shape, self.mesh)) * width
        for axis, (name, ways) in enumerate(self.mesh.axes):
            word, link = at[axis], self.links.get(name, Link())
            later = at[axis + 1 :]
            if ways == 1 or (word >= 0 and word in later):
                continue
            for to in (WHOLE, *range(min(len(shape), RANK))):
                after = (*at[:axis], to, *later)
                if to == word or (to in later and to >= 0) or not fits(after, shape, self.mesh):
                    continue
                verb, turns, sent = _verb(word, to, ways, have)
                cost = turns * link.alpha + sent * link.beta
                yield Step(verb, axis, word, to, after, cost)


def _verb(word: int, to: int, ways: int, have: int) -> tuple[str, int, int]:
    """What is done, its messages, and bytes that a rank sends, by rings."""
    if word == WHOLE:
        return "slice", 0, 0
    if word == PARTS:
        sent = have * (ways - 1) // ways
        return ("all-reduce", 2 * (ways - 1), 2 * sent) if to == WHOLE else ("reduce-scatter", ways - 1, sent)
    if to == WHOLE:
        return "all-gather", ways - 1, have * (ways - 1)
    return "all-to-all", ways - 1, have * (ways - 1) // ways


@cache
def _rules() -> Program:
    file = rules_dir() / "synthesis.dl"
    kept = rules_dir() / "__pycache__" / "synthesis.compiled"
    return Program.from_source(file.read_text("utf-8"), name=file.name, include_dirs=[rules_dir()], kept=kept)
