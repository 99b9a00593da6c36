"""Coordinates: stages, micro-batches, dp copies, and the virtual ranks of the folded program.

A *unit* is a virtual rank that is written out: (dp copy, micro-batch, tp rank). Where a plan is in unit form only the
first dp copy is written, and a unit stands for all of them. Virtual rank v of the mesh (dp, mb, tp) is
(d · nm + m) · tp + t.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from scalify_dl.ir.mesh import Mesh

from .model import Side

Unit = tuple[int, int, int]


@dataclass
class World:
    """The shape of a plan."""

    plan: Side

    @cached_property
    def dp(self) -> int:
        """Copies that run."""
        return self.plan.world["num_dp"]

    @cached_property
    def micro_batches(self) -> int:
        """Micro-batches of a step."""
        return self.plan.world["num_mb"]

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
    def rank_at(self) -> dict[tuple[int, int, int], int]:
        """(dp, pp, tp) → rank."""
        return {place: rank for rank, place in self.plan.places.items()}

    @cached_property
    def units(self) -> list[Unit]:
        """All units, in the order of virtual ranks."""
        return [
            (d, m, t) for d in range(self.copies) for m in range(self.micro_batches) for t in range(self.tp)
        ]  # fmt: skip

    @cached_property
    def mesh(self) -> Mesh:
        """The mesh of virtual ranks."""
        return Mesh((("dp", self.dp), ("mb", self.micro_batches), ("tp", self.tp)))

    def unit(self, rank: int, mb: int) -> Unit:
        """The unit of a rank and a micro-batch."""
        d, _, t = self.plan.places[rank]
        return d, mb, t

    def stage(self, rank: int) -> int:
        """The stage of a rank."""
        return self.plan.places[rank][1]

    def virtual(self, unit: Unit, copy: int = 0) -> int:
        """A virtual rank of a unit: its own, or in unit form that of a copy."""
        d, m, t = unit
        return ((d + copy) * self.micro_batches + m) * self.tp + t

    def everywhere(self, units: Iterable[Unit]) -> list[int]:
        """The virtual ranks of units, those of copies that are not written included."""
        some = list(units)
        return [self.virtual(unit, copy) for copy in range(self.meant) for unit in some]

    @cached_property
    def meant(self) -> int:
        """How many copies a unit stands for."""
        return self.dp if self.unit_form else 1

    def reducer_place(self, rank: int) -> tuple[int, int, int] | None:
        """(dp, pp, tp) of a member of a reducer; in unit form copies follow each other, `plan_ndevs` ranks each."""
        if not self.unit_form:
            return self.plan.places.get(rank)
        copy, own = divmod(rank, self.plan.world["plan_ndevs"])
        place = self.plan.places.get(own)
        return None if place is None or copy >= self.dp else (copy, *place[1:])

    def relative(self, rank: int, others: Sequence[int]) -> str:
        """Ranks as seen from one: every coordinate that all share with it is left out."""
        places = [self.plan.places.get(other) for other in others]
        own = self.plan.places[rank]
        words = []
        for n, axis in enumerate(("dp", "pp", "tp")):
            found = ["?" if place is None else str(place[n]) for place in places]
            if any(text != str(own[n]) for text in found):
                words.append(f"{axis} {' '.join(found)}")
        return ", ".join(words) or "itself"
