"""Coordinates: stages, micro-batches, dp copies, and the virtual ranks of the folded program.

A *unit* is a virtual rank that is written out: (dp copy, micro-batch, tp rank). Copies lie in blocks of `period`, which
do the same: an expert-parallel group is a block, elsewhere every copy is one. In *unit form* the first block is
written, and perhaps the first micro-batch; the others are meant. Along blocks and micro-batches that are meant no
virtual rank is told apart (`Mesh.still`), so nothing depends on how many there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scalify_dl.ir.mesh import Mesh

from .model import LOCAL, REDUCER, Side

Unit = tuple[int, int, int]
DP, BLOCK, MB, TP = "dp", "ep", "mb", "tp"


@dataclass(frozen=True)
class Reached:
    """Whom a reducer reaches."""

    lost: bool
    """Whether some members are nowhere."""
    copies: Mapping[tuple[int, int], frozenset[int]]
    """(stage, tp rank) → copies."""
    text: str
    """The members in the order of their numbers."""
    told: tuple[tuple[int, int], ...]
    """(position, rank) of the members that are written, or listed several times."""

    @cached_property
    def stages(self) -> frozenset[int]:
        """Stages of the members."""
        return frozenset(stage for stage, _ in self.copies)


@dataclass
class World:
    """The shape of a plan."""

    plan: Side
    _reached: dict[tuple[int, ...], Reached] = field(default_factory=dict)
    _sharing: dict[frozenset[int], frozenset[int]] = field(default_factory=dict)

    @cached_property
    def dp(self) -> int:
        """Copies that run."""
        return self.plan.world["num_dp"]

    @cached_property
    def micro_batches(self) -> int:
        """Micro-batches of a step."""
        return self.plan.world["num_mb"]

    @cached_property
    def written(self) -> int:
        """Micro-batches that are written out."""
        return self.plan.world.get("written_mb", self.micro_batches)

    @cached_property
    def tp(self) -> int:
        """Ranks of a stage of one copy."""
        return self.plan.world["num_tp"]

    @cached_property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.plan.world["num_pp"]

    @cached_property
    def copies(self) -> int:
        """Copies that are written out."""
        return 1 + max(d for d, _, _ in self.plan.places.values())

    @property
    def unit_form(self) -> bool:
        """Whether copies are meant that are not written."""
        return self.copies < self.dp

    @cached_property
    def period(self) -> int:
        """Copies of a block: the copies that are written, in unit form; else the least number of which weights are
        slices in the same order again and again, and within which copies exchange values."""
        if self.unit_form:
            return self.copies
        together = self._exchanging()
        return next(n for n in range(1, self.dp + 1) if self.dp % n == 0 and self._repeats(n, together))

    def _exchanging(self) -> set[tuple[int, int]]:
        """First and last copies of collectives within micro-batches."""
        places = self.plan.places
        found = set()
        for op in self.plan.ops.values():
            if op.kind != REDUCER and op.kind not in LOCAL and len(op.members) > 1:
                copies = [places[rank][0] for rank in op.members if rank in places]
                if copies and max(copies) > min(copies):
                    found.add((min(copies), max(copies)))
        return found

    @cached_property
    def slices(self) -> dict[tuple[str, int, int], dict[int, frozenset[tuple[tuple[int, int], ...]]]]:
        """(weight, stage, tp rank) → copy → slices of it that the rank has."""
        found: dict[tuple[str, int, int], dict[int, set[tuple[tuple[int, int], ...]]]] = defaultdict(dict)
        read: dict[str, bool] = {}  # whether an op of a micro-batch reads it: an optimiser may have shards of its own
        for op in self.plan.ops.values():
            read |= {tensor: op.mb >= 0 or read.get(tensor, False) for tensor in op.reads}
        for tensor, value in self.plan.values.items():
            if value.rank >= 0 and value.given and value.mb < 0 and read.get(tensor, True):
                d, s, t = self.plan.places[value.rank]
                part = self.plan.parts[value.tid]
                key = (self.plan.fulls[part.full].name, s, t)
                found[key].setdefault(d, set()).add(part.spans)
        return {key: {d: frozenset(spans) for d, spans in by.items()} for key, by in found.items()}

    def _repeats(self, n: int, together: Iterable[tuple[int, int]]) -> bool:
        if any(first // n != last // n for first, last in together):
            return False
        return all(
            d % n not in by or spans == by[d % n] for by in self.slices.values() for d, spans in by.items() if d >= n
        )

    @cached_property
    def rank_at(self) -> dict[tuple[int, int, int], int]:
        """(dp, pp, tp) → rank."""
        return {place: rank for rank, place in self.plan.places.items()}

    @cached_property
    def units(self) -> list[Unit]:
        """All units, in the order of virtual ranks."""
        return [
            (d, m, t) for d in range(self.copies) for m in range(self.written) for t in range(self.tp)
        ]  # fmt: skip

    @cached_property
    def mesh(self) -> Mesh:
        """The mesh of virtual ranks."""
        axes = {DP: self.dp // self.period, BLOCK: self.period, MB: self.micro_batches, TP: self.tp}
        if self.period == 1:
            del axes[BLOCK]
        still = {DP} if self.unit_form else set()
        return Mesh(tuple(axes.items()), frozenset(still | ({MB} if self.written < self.micro_batches else set())))

    @cached_property
    def copy_axes(self) -> tuple[str, ...]:
        """Mesh axes of copies, major first."""
        return (DP,) if self.period == 1 else (DP, BLOCK)

    def unit(self, rank: int, mb: int) -> Unit:
        """The unit of a rank and a micro-batch."""
        d, _, t = self.plan.places[rank]
        return d, mb, t

    def stage(self, rank: int) -> int:
        """The stage of a rank."""
        return self.plan.places[rank][1]

    def virtual(self, unit: Unit) -> int:
        """The virtual rank of a unit."""
        d, m, t = unit
        return (d * self.written + m) * self.tp + t

    def reached(self, members: Sequence[int]) -> Reached:
        """Whom the members of a reducer are; in unit form blocks follow each other, `plan_ndevs` ranks each. Most
        reducers have the same members."""
        key = tuple(members)
        if key not in self._reached:
            places = [self._reducer_place(rank) for rank in key]
            copies: dict[tuple[int, int], set[int]] = defaultdict(set)
            for place in places:
                if place is not None:
                    copies[place[1:]].add(place[0])
            often = Counter(key)
            told = tuple((n, rank) for n, rank in enumerate(key) if rank in self.plan.places or often[rank] > 1)
            found = {at: frozenset(some) for at, some in copies.items()}
            self._reached[key] = Reached(None in places, found, str(sorted(key)), told)
        return self._reached[key]

    def _reducer_place(self, rank: int) -> tuple[int, int, int] | None:
        """(dp, pp, tp) of a member of a reducer."""
        if not self.unit_form:
            return self.plan.places.get(rank)
        block, own = divmod(rank, self.plan.world["plan_ndevs"])
        place = self.plan.places.get(own)
        if place is None or block * self.copies >= self.dp:
            return None
        return (block * self.copies + place[0], *place[1:])

    def sharing(self, name: str, place: tuple[int, int, int]) -> frozenset[int]:
        """Copies that have the same slices of a weight as the rank at a place."""
        d, stage, t = place
        by = self.slices.get((name, stage, t), {})
        own = by.get(d % self.period)
        same = frozenset(d for d in range(self.period) if by.get(d) == own)
        if same not in self._sharing:
            self._sharing[same] = frozenset(copy for copy in range(self.dp) if copy % self.period in same)
        return self._sharing[same]

    def relative(self, rank: int, others: Sequence[int]) -> str:
        """Ranks as seen from one: every coordinate that all share with it is left out; copies count from the first of
        its block."""
        places = [self.plan.places.get(other) for other in others]
        own = self.plan.places[rank]
        start = (own[0] // self.period * self.period, 0, 0)
        words = []
        for n, axis in enumerate(("dp", "pp", "tp")):
            found = ["?" if place is None else str(place[n] - start[n]) for place in places]
            if any(text != str(own[n] - start[n]) for text in found):
                words.append(f"{axis} {' '.join(found)}")
        return ", ".join(words) or "itself"
