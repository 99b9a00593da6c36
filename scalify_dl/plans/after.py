"""What runs behind the last micro-batch: optimisers on reduced gradients, whole or on shards of them (ZeRO-1).

Ops of the step are lowered as those of micro-batches are, on all virtual ranks: along `mb` these hold the same. Sums
and reducers are what outputs.py makes of them; a value of a single micro-batch is brought to all (columns.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from scalify_dl.ir.graph import Tensor

from .columns import Home
from .fold import Fold, Folded
from .given import NotFolded
from .model import REDUCER, STEP, SUM, Op, Part
from .slots import Slot
from .world import Unit

AFTER = "{} after the step"
"""What the new value of a weight is called."""


class After:
    """Values of ops of the step, made where they are asked for. `summed` gives those of sums and reducers."""

    def __init__(self, fold: Fold, folded: Folded, summed: Callable[[Slot], Tensor]) -> None:
        self.fold, self.folded, self.world, self.plan, self.summed = fold, folded, fold.world, fold.plan, summed
        self._open: set[str] = set()

    def makes(self, tensor: str) -> bool:
        """Whether an op of the step makes a tensor that is no sum and no reducer."""
        found = self.fold.traits.makers.get(tensor)
        return found is not None and self.fold.slots.of[found[0].id].step and found[0].kind not in (SUM, REDUCER)

    def column(self, tensors: dict[Unit, str], op: Op) -> Tensor:
        """What every rank has of a tensor, on all its virtual ranks, for an op; units of micro-batch -1."""
        column: dict[Unit, tuple[Home, Unit] | None] = {}
        for (d, _, t), tensor in tensors.items():
            source = self.fold.maker(tensor)
            if source is None:
                raise NotFolded(f"nobody makes {tensor}")
            home, (other, mb, rank) = source
            if mb == STEP:
                self._value(self.fold.slots.slots[str(home[0])])
            for m in range(self.world.written):
                column[d, m, t] = home, (other, m if mb == STEP else mb, rank)
        self.fold.begin(op)
        return self.folded.columns.value(column, self.folded.values)

    def _value(self, slot: Slot) -> None:
        """Lowers a slot of the step, and what it reads."""
        if (slot.name, 0) in self.folded.values:
            return
        if slot.name in self._open:
            raise NotFolded("ops of the step need each other's values in a circle", slot.some.id)
        self._open.add(slot.name)
        if slot.some.kind in (SUM, REDUCER):
            self.folded.values[slot.name, 0] = self.summed(slot)
            return
        for op in slot.ops.values():
            for pos in range(len(op.reads)):
                source = self.fold.home(op, pos)
                if source is None:
                    continue
                if source[1][1] == STEP:
                    self._value(self.fold.slots.slots[str(source[0][0])])
                elif self.world.written < self.world.micro_batches:
                    raise NotFolded("a single micro-batch is read behind the last one, and all stand for it", op.id)
        self.fold.begin(slot.some)
        units = {(d, m, t): op for (d, _, t), op in slot.ops.items() for m in range(self.world.written)}
        self.fold.lower(Slot(slot.name, slot.stage, True, units))
        self.fold.name(slot.some)

    def rest(self) -> None:
        """Lowers what nothing asked for: it has to run, too."""
        for slot in self.fold.slots.slots.values():
            if slot.step and slot.some.kind not in (SUM, REDUCER):
                self._value(slot)

    # ---- new weights

    def updates(self) -> Iterator[tuple[str, Tensor | str, dict[Unit, Part]]]:
        """(weight, its value after the step or why there is none, its parts by unit)."""
        held = self._held()
        made: dict[tuple[str, int], dict[Unit, list[str]]] = defaultdict(lambda: defaultdict(list))
        for tensor, (op, _) in self.fold.traits.makers.items():
            weight = self.plan.updates.get(self.plan.values[tensor].tid)
            if weight is None:
                continue
            d, s, t = self.plan.places[op.rank]
            name, unit = self.plan.named(weight), (d, STEP, t)
            if self.plan.part(tensor).spans == held.get((name, s), {}).get(unit):
                made[name, s][unit].append(tensor)
        for name, stage in sorted(held):
            units, found = held[name, stage], made[name, stage]
            if not any(self.plan.named(weight) == name for weight in self.plan.updates.values()):
                continue
            lacking = [unit for unit in units if unit not in found]
            several = [unit for unit, tensors in found.items() if len(tensors) > 1]
            ranks = {(d, t): self.world.rank_at[d, stage, t] for d, _, t in self._everywhere()}
            if lacking or several or len(units) != len(ranks):
                who = [ranks[d, t] for d, _, t in (lacking or several or self._everywhere() - units.keys())]
                text = "several new values of it" if several and not lacking else "no new value of its part of it"
                yield name, f"rank {min(who)} has {text} at the end of the step", {}
                continue
            tensors = {unit: tensors[0] for unit, tensors in found.items()}
            some = self.fold.traits.makers[next(iter(tensors.values()))][0]
            value = self.column(tensors, some)
            self.fold.name(some)
            parts = {(d, m, t): self.plan.part(tensors[d, STEP, t]) for d, m, t in self.world.units}
            yield name, value, parts

    def _everywhere(self) -> set[Unit]:
        return {(d, STEP, t) for d, _, t in self.world.units}

    def _held(self) -> dict[tuple[str, int], dict[Unit, tuple[tuple[int, int], ...]]]:
        """(weight, stage) → unit → the part of it that its micro-batches read."""
        held: dict[tuple[str, int], dict[Unit, tuple[tuple[int, int], ...]]] = defaultdict(dict)
        for op in self.plan.ops.values():
            for tensor in op.reads if self.fold.slots.mb[op.id] != STEP else ():
                value = self.plan.values[tensor]
                if not value.given or value.mb >= 0:
                    continue
                d, s, t = self.plan.places[op.rank]
                part, units = self.plan.part(tensor), held[self.plan.full(tensor).name, s]
                if units.setdefault((d, STEP, t), part.spans) != part.spans:
                    raise NotFolded(f"rank {op.rank} reads several parts of {self.plan.full(tensor).name}", op.id)
        return held
