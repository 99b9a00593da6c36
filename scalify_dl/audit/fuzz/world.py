"""The state of one random pair of programs: values that were made alike on both sides, and random choices."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout, Pending, Repl
from scalify_dl.ir.shapes import RULES

from ..pair import Pair

MESHES: list[dict[str, int]] = [
    {"tp": 2}, {"tp": 2}, {"tp": 3}, {"tp": 4}, {"dp": 2, "tp": 2}, {"dp": 2, "tp": 3}, {"dp": 2, "tp": 4},
    {"a": 2, "b": 1, "c": 2},
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Twin:
    """Values that the two sides made in the same way; whether they correspond is for the rules to say."""

    base: Tensor
    dist: Tensor


FACTORS = 128
"""Of how many numbers a product is drawn; more of them leave the range of numbers."""
Step = Callable[["World"], None]
STEPS: dict[str, tuple[Step, float]] = {}


def step(name: str, weight: float = 1.0) -> Callable[[Step], Step]:
    """Registers a kind of step, drawn with a weight."""

    def register(function: Step) -> Step:
        STEPS[name] = (function, weight)
        return function

    return register


class Retry(Exception):
    """This choice does not fit; try another."""


@dataclass
class World:
    """A random pair under construction. `wrong` is the probability that the distributed side is made differently."""

    rng: random.Random
    pair: Pair
    wrong: float
    twins: list[Twin] = field(default_factory=list)
    placed: dict[Tensor, Layout] = field(default_factory=dict)
    reducer: str = "sum"
    """What is pending in the layout under construction."""
    extents: Sequence[int] = (2, 4, 4, 6, 8, 12)
    """Of dims of inputs."""

    @property
    def base(self) -> Graph:
        """The baseline graph."""
        return self.pair.base

    @property
    def dist(self) -> Graph:
        """The distributed graph."""
        return self.pair.dist

    def slip(self) -> bool:
        """Whether to do something else on the distributed side."""
        return self.rng.random() < self.wrong

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return self.rng.random() < probability

    def twin(
        self, *, dtype: str | None = "f32", least: int = 0, where: Callable[[Twin], bool] = lambda t: True
    ) -> Twin:
        """A value with at least so many dims; recent ones are preferred. Makes an input where there is none."""
        found = [
            t
            for t in self.twins
            if (dtype is None or t.base.dtype == dtype) and len(t.base.shape) >= least and where(t)
        ]
        if not found or self.chance(0.1):
            fresh = self.input(dtype or "f32", max(least, self.rng.choice([1, 2, 2, 3])))
            if where(fresh):
                return fresh
            if not found:
                raise Retry
        return self.rng.choice(found[-6:])

    def level(self, *, dtype: str | None = "f32", least: int) -> Twin:
        """A value whose sides have as many dims; Retry where they have not."""
        twin = self.twin(dtype=dtype, least=least)
        if len(twin.dist.shape) != len(twin.base.shape):
            raise Retry
        return twin

    def add(self, base: Tensor, dist: Tensor) -> None:
        """Registers values made alike."""
        if prod(base.shape) <= 2048 and prod(dist.shape) <= 2048:
            self.twins.append(Twin(base, dist))

    def input(
        self,
        dtype: str = "f32",
        rank: int | None = None,
        shape: Sequence[int] | None = None,
        layout: Layout | None = None,
    ) -> Twin:
        """A fresh input, placed at random."""
        if shape is None:
            rank = self.rng.choice([1, 2, 2, 3]) if rank is None else rank
            shape = [self.rng.choice(self.extents) for _ in range(rank)]
        placed = layout or self.layout(shape, pending=dtype in ("f32", "s32"))
        if placed.gaps(shape) is not None:
            raise Retry
        bounds = (0, 6) if dtype == "s32" else None
        base, dist = self.pair.input(shape, dtype=dtype, range=bounds, layout=placed)
        self.placed[dist] = placed
        twin = Twin(base, dist)
        self.twins.append(twin)
        return twin

    def placement(self, twin: Twin) -> Layout | None:
        """How a distributed input holds the baseline value beside it, if it is one that was placed so."""
        layout = self.placed.get(twin.dist)
        return layout if layout is not None and layout.gaps(twin.base.shape) is None else None

    def layout(self, shape: Sequence[int], *, pending: bool) -> Layout:
        """A random placement: dims whole, in blocks or interleaved over axes or parts of axes, local dims in order
        or not."""
        self.reducer = self.rng.choice(["sum", "sum", "sum", "max", "min"])
        rest = [[Digit(d, 1, n)] for d, n in enumerate(shape)]
        axes: list[tuple[str, list[Any]]] = []
        for axis, size in self.pair.mesh.axes:
            entries: list[Any] = []
            for factor in _factors(size, self.rng):
                entries.append(self._entry(rest, factor, pending))
            axes.append((axis, entries))
        if self.chance(0.08):  # a dim in another order
            d = self.rng.randrange(len(shape)) if shape else -1
            if d >= 0 and rest[d][-1].size % 2 == 0:
                last = rest[d].pop()
                rest[d] += [Digit(d, last.stride, 2), Digit(d, 2 * last.stride, last.size // 2)]
        order = list(range(len(shape)))
        if self.chance(0.15):
            self.rng.shuffle(order)
        return Layout.of([rest[d] for d in order], axes)

    def _entry(self, rest: list[list[Digit]], size: int, pending: bool) -> Any:
        """What a position of an axis carries; digits are taken out of `rest`."""
        roll = self.rng.random()
        if pending and roll < 0.12:
            return Pending(self.reducer, size)
        if roll < 0.35:
            return Repl(size)
        candidates = [d for d, digits in enumerate(rest) if any(_splits(digit, size) for digit in digits)]
        if not candidates or size == 1:
            return Repl(size)
        dim = self.rng.choice(candidates)
        digits = rest[dim]
        at = next(i for i, digit in enumerate(digits) if _splits(digit, size))
        digit = digits[at]
        if self.chance(0.8):  # the major part: contiguous blocks
            digits[at] = Digit(dim, digit.stride, digit.size // size)
            return Digit(dim, digit.stride * (digit.size // size), size)
        digits[at] = Digit(dim, digit.stride * size, digit.size // size)
        return Digit(dim, digit.stride, size)

    def emit(self, side: Graph, kind: str, operands: Sequence[Tensor], **attributes: Any) -> Tensor:
        """An op with one result; Retry where it does not fit."""
        try:
            result = side.emit(kind, list(operands), **attributes)
            op = side.ops[-1]
            types = RULES[kind](op, (result.dtype, result.shape)) if kind in RULES else [(result.dtype, result.shape)]
        except (InputError, ValueError) as error:
            raise Retry from error
        if types[0][1] != result.shape:
            raise Retry
        return result

    def axes(self) -> list[str]:
        """A random non-empty choice of axes."""
        names = [name for name, _ in self.pair.mesh.axes]
        return [n for n in names if self.chance(0.6)] or [self.rng.choice(names)]

    def groups(self) -> list[list[int]]:
        """Groups of a collective, mostly along axes."""
        groups = self.pair.groups(*self.axes())
        if self.slip():
            ranks = list(range(self.pair.mesh.size))
            half = max(len(ranks) // 2, 1)
            size, mixed = len(groups[0]), self.rng.sample(ranks, len(ranks))
            groups = self.rng.choice([
                [mixed[i : i + size] for i in range(0, len(ranks), size)],
                [ranks[i : i + size] for i in range(0, len(ranks), size)],
                [[r] for r in ranks], [ranks], [g[::-1] for g in groups], [ranks[:half],
                ranks[half:]] if len(ranks) > 1 else [ranks],
                [self.rng.sample(g, len(g)) for g in groups],
            ])  # fmt: skip
        if len({len(g) for g in groups}) != 1:
            raise Retry
        return [g for g in groups if g]


def _splits(digit: Digit, size: int) -> bool:
    """Whether so many positions may share the digit; nothing is left of one without elements."""
    return digit.size > 0 and digit.size % size == 0


def _factors(size: int, rng: random.Random) -> list[int]:
    """An axis as one position or, now and then, as several."""
    if size == 4 and rng.random() < 0.3:
        return [2, 2]
    return [size]


def shapes_agree(a: Twin, b: Twin) -> bool:
    """Both sides have the same shape as the other's."""
    return a.base.shape == b.base.shape and a.dist.shape == b.dist.shape
