"""What is checked: the loss, and the gradient of every weight after its reducer.

Lemma L3: a gradient is summed over micro-batches; with every micro-batch once that is an all-reduce over `mb`.
Lemma L4: a reducer over all dp copies is an all-reduce over `dp`. Sums that add something else are folded as they are:
every virtual rank multiplies its micro-batch's gradient by how often it is added.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod

from scalify_dl.ir.graph import Tensor

from .after import AFTER, After
from .columns import Home
from .fold import Fold, Folded
from .given import NotFolded
from .model import REDUCER, SUM, Op
from .slots import Slot
from .world import BLOCK, DP, MB, Reached, Unit

LOSS = "loss"


@dataclass
class Outputs:
    """Names of the outputs, in the order in which the programs give them, and those that the plan does not give."""

    names: list[str] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)
    """(name, what is missing)."""


class Conclusion:
    """Gives the outputs of a folded plan."""

    def __init__(self, fold: Fold, folded: Folded) -> None:
        self.fold, self.folded, self.world, self.plan = fold, folded, fold.world, fold.plan
        self.dist = folded.pair.dist
        self.out = Outputs()
        self.after = After(fold, folded, self._summed)
        self._sums: dict[str, Tensor] = {}
        self._members: dict[tuple[int, ...], tuple[set[tuple[int, int]], bool]] = {}
        self._reducers: dict[str, list[Slot]] = defaultdict(list)
        for slot in fold.slots.slots.values():
            if slot.some.kind == REDUCER:
                self._reducers[self.plan.named(slot.some.weights[0])].append(slot)

    def run(self) -> Outputs:
        """Losses, then gradients in the order of the baseline; of weights that it updates, their new values."""
        self._losses()
        updated = self.folded.base.updates
        found: dict[str, list[tuple[Tensor, dict[int, tuple[str, ...]]]]] = defaultdict(list)
        lacking = self._stages_with()
        for slot in self._finals():
            self.fold.begin(slot.some)
            name, value, dims = self._gradient(slot)
            self.fold.name(slot.some)
            found[name].append((value, dims))
            lacking[name].discard(slot.stage)
        for name, base in self.folded.base.gradients.items():
            if name in updated:
                continue
            if name in found and lacking[name]:
                self.out.missing.append((name, f"stage {min(lacking[name])} reads it and has no gradient of it"))
            if name not in found:
                self.out.missing.append((name, "no rank has its gradient at the end of the step"))
            for value, dims in found.get(name, ()):
                self._give(name, value, base, dims=dims)
        for name in found.keys() - self.folded.base.gradients.keys():
            self.out.missing.append((name, "the single-device step has no gradient of it"))
        self._updates()
        self.after.rest()
        return self.out

    def _updates(self) -> None:
        """New values of weights, on every stage that reads them."""
        wanted = self.folded.base.updates
        given = set()
        for name, value, parts in self.after.updates():
            given.add(name)
            called = AFTER.format(name)
            if name not in wanted or isinstance(value, str):
                text = value if isinstance(value, str) else "the single-device step keeps it as it is"
                self.out.missing.append((called, text))
                continue
            dims = self.folded.given.placement(wanted[name].shape, parts)
            if dims is None:
                raise NotFolded(f"slices of {name} do not lie in blocks")
            self._give(called, value, wanted[name], dims=dims)
        for name in wanted.keys() - given:
            self.out.missing.append((AFTER.format(name), "no rank has a new value of it at the end of the step"))

    def _stages_with(self) -> dict[str, set[int]]:
        """Weight → stages whose ops read it: each needs the gradient, or its copy becomes another one."""
        found: dict[str, set[int]] = defaultdict(set)
        for op in self.plan.ops.values():
            for tensor in op.reads:
                if self.plan.values[tensor].given:
                    found[self.plan.full(tensor).name].add(self.world.stage(op.rank))
        return found

    def _give(
        self,
        name: str,
        value: Tensor,
        base: Tensor,
        dims: dict[int, tuple[str, ...]] | None = None,
        pending: dict[str, str] | None = None,
    ) -> None:
        if (name, value) in zip(self.out.names, self.out.tensors, strict=True):
            return
        sizes = {axis: self.world.mesh.axis_size(axis) for axes in (dims or {}).values() for axis in axes}
        cuts = [prod(sizes[axis] for axis in (dims or {}).get(d, ())) for d in range(len(base.shape))]
        whole = [n * ways for n, ways in zip(value.shape, cuts, strict=False)]
        if len(value.shape) != len(base.shape) or whole != list(base.shape):
            text = f"ranks have {list(value.shape)} of it, the single-device step {list(base.shape)}"
            self.out.missing.append((name, text))
            return
        self.folded.pair.base.output(base)
        self.dist.output(value)
        self.folded.pair.expect(len(self.out.names), dims=dims, pending=pending)
        self.out.names.append(name)
        self.out.tensors.append(value)

    # ---- the loss

    def _losses(self) -> None:
        """Every loss, on the first and the last stage and wherever it is."""
        wanted = self.folded.base.losses
        held = self._held()
        if len(wanted) == 1 and len(held) == 1:  # one on either side: what they are called does not matter
            held = dict(zip(wanted, held.values(), strict=True))
        for name in held.keys() - wanted.keys():
            self.out.missing.append((name, "the single-device step has no such loss"))
        for name, base in wanted.items():
            called = LOSS if len(wanted) == 1 else name
            stages = held.get(name, {})
            for stage in sorted({0, self.world.stages - 1, *stages}):
                self._loss(called, base, stage, stages.get(stage, {}))

    def _held(self) -> dict[str, dict[int, dict[Unit, list[str]]]]:
        """Loss → stage → unit → its tensors of which nothing is made further, as they are made."""
        plan, makers, slots = self.plan, self.fold.traits.makers, self.fold.slots
        losses = {name for name, full in plan.fulls.items() if full.loss and not full.gradient}
        makes = {tensor: made for tensor, made in makers.items() if plan.part(tensor).full in losses}
        further: dict[str, set[str]] = defaultdict(set)
        for tensor, (op, _) in makes.items():
            for x in op.reads:
                further[x].add(plan.part(tensor).full)
        held: dict[str, dict[int, dict[Unit, list[str]]]] = {}
        for tensor, (op, _) in sorted(makes.items(), key=lambda made: (made[1][0].seq, made[1][1])):
            full, own = plan.full(tensor), plan.part(tensor).full
            if own in further[tensor]:
                continue
            if slots.of[op.id].step:
                raise NotFolded(f"`{full.name}` is a loss of the whole step", op.id)
            stage, unit = self.world.stage(op.rank), self.world.unit(op.rank, slots.mb[op.id])
            held.setdefault(full.name, {}).setdefault(stage, {}).setdefault(unit, []).append(tensor)
        return held

    def _loss(self, name: str, base: Tensor, stage: int, held: dict[Unit, list[str]]) -> None:
        pending = {axis: "sum" for axis, size in self.world.mesh.axes if axis in (DP, BLOCK, MB) and size > 1}
        absent = [unit for unit in self.world.units if unit not in held]
        if absent:
            ranks = sorted({self.world.rank_at[d, stage, t] for d, _, t in absent})
            self.out.missing.append((name, f"the loss does not reach rank {', '.join(map(str, ranks))}"))
            return
        twice = [unit for unit in self.world.units if len(held[unit]) > 1]
        if twice:
            d, _, t = twice[0]
            rank = self.world.rank_at[d, stage, t]
            self.out.missing.append((name, f"rank {rank} makes it more than once: which is the step's is not said"))
            return
        tensors = {unit: tensor for unit, (tensor,) in held.items()}
        some = self.fold.traits.makers[next(iter(tensors.values()))][0]
        self.fold.begin(some)
        column = {unit: self.fold.maker(tensor) for unit, tensor in tensors.items()}
        value = self.folded.columns.value(column, self.folded.values)
        self.fold.name(some)
        self._give(name, value, base, pending=pending)

    # ---- gradients

    def _finals(self) -> list[Slot]:
        """Reducers; for weights without one, what stands for it: the gradient that no sum adds further."""
        slots = self.fold.slots.slots
        plan, updated = self.plan, self.folded.base.updates
        found = [
            slot for slot in slots.values()
            if slot.some.kind == REDUCER and plan.named(slot.some.weights[0]) not in updated
        ]  # fmt: skip
        added = {tensor for op in plan.ops.values() if op.kind in (SUM, REDUCER) for tensor in op.reads}
        found = [slot for slot in found if not any(op.makes[0] in added for op in slot.ops.values())]
        reduced = {name for slot in found for tid in slot.some.weights for name in [self.plan.named(tid)]}
        again = {  # what ops of the step make a gradient of a weight out of, behind its reducer or before it
            tensor: plan.named(plan.weight_of[plan.values[made].tid])
            for op in plan.ops.values() for made in op.makes if self.after.makes(made)
            for tensor in op.reads if plan.values[made].tid in plan.weight_of
        }  # fmt: skip
        behind = {again[tensor] for slot in found for op in slot.ops.values() for tensor in op.makes if tensor in again}
        found = [slot for slot in found if plan.named(slot.some.weights[0]) not in behind]
        rest: dict[tuple[int, str], Slot] = {}
        for tensor, (op, _) in self.fold.traits.makers.items():
            weight = plan.weight_of.get(plan.values[tensor].tid)
            if weight is None or tensor in added or tensor in again or op.kind == REDUCER:
                continue
            stage, name = self.world.stage(op.rank), plan.named(weight)
            if name in updated:
                continue
            if name in reduced and name not in behind:
                if self.fold.slots.of[op.id].step:
                    raise NotFolded(f"rank {op.rank} has another gradient of {name} beside its reducer's", op.id)
                continue
            slot = rest.setdefault((stage, name), Slot(f"{stage}/gradient of {name}", stage, True, {}))
            d, _, t = self.world.unit(op.rank, -1)
            if (d, -1, t) in slot.ops:
                raise NotFolded(f"rank {op.rank} has several gradients of {name} at the end of the step", op.id)
            slot.ops[d, -1, t] = Op(
                op.id, op.rank, -1, op.seq, op.cid, op.name, "", "-", op.line, [tensor], weights=[weight]
            )
        return found + list(rest.values())

    def _summands(self, tensor: str) -> Counter[str]:
        """Micro-batches' gradients that a tensor is the sum of, and how often each is added."""
        total: Counter[str] = Counter()
        todo = [(tensor, 1)]
        while todo:
            one, times = todo.pop()
            maker = self.fold.traits.makers.get(one)
            if maker is None:
                raise NotFolded(f"nobody makes {one}")
            op = maker[0]
            if self.fold.slots.of[op.id].step:
                if op.kind != SUM:
                    raise NotFolded("a sum of what was reduced already", op.id)
                seen = Counter(op.reads)
                todo += [(summand, times * count) for summand, count in seen.items()]
                if len(todo) > 100_000:
                    raise NotFolded("too many sums of sums", op.id)
            else:
                total[one] += times
        return total

    def _gradient(self, slot: Slot) -> tuple[str, Tensor, dict[int, tuple[str, ...]]]:
        name = self.plan.named(slot.some.weights[0])
        parts = {
            (d, m, t): self.plan.parts[op.weights[0]]
            for (d, _, t), op in slot.ops.items()
            for m in range(self.world.written)
        }
        if len(parts) != len(self.world.units):
            raise NotFolded(f"some ranks have no gradient of {name}", slot.some.id)
        total = self._total(slot, name)
        full = self.plan.fulls[self.plan.parts[slot.some.weights[0]].full]
        dims = self.folded.given.placement(full.shape, parts)
        if dims is None:
            raise NotFolded(f"slices of {name} do not lie in blocks", slot.some.id)
        return name, total, dims

    def _total(self, slot: Slot, name: str) -> Tensor:
        """What a reducer makes, or what a rank has of a gradient at the end of the step."""
        reduced = slot.some.kind == REDUCER
        slots = self._partners(slot, name) if reduced else [slot]
        later = [other for other in slots if any(self.after.makes(op.reads[0]) for op in other.ops.values())]
        parts = [self._added(other) for other in slots if other not in later]
        total = reduce(self.dist.add, parts) if parts else None
        if total is not None and self.world.micro_batches > 1:
            total = self.dist.all_reduce(total, MB)
        for other in later:
            part = self.after.column({unit: op.reads[0] for unit, op in other.ops.items()}, other.some)
            total = part if total is None else self.dist.add(total, part)
        assert total is not None
        return self._reduced(slot, total) if reduced else total

    def _summed(self, slot: Slot) -> Tensor:
        """The value of a sum over micro-batches, or of a reducer, for what is made of it further."""
        self.fold.begin(slot.some)
        if slot.some.kind == REDUCER:
            value = self._total(slot, self.plan.named(slot.some.weights[0]))
        else:
            ops = {unit: replace(op, reads=op.makes[:1]) for unit, op in slot.ops.items()}
            if len(ops) * self.world.written != len(self.world.units):
                raise NotFolded("some ranks do not add it up", slot.some.id)
            value = self._total(Slot(f"{slot.name} itself", slot.stage, True, ops), "")
        self.fold.name(slot.some)
        return value

    def _added(self, slot: Slot) -> Tensor:
        """The sum that a rank has of its own micro-batches, before it is added up over micro-batches."""
        if slot.name in self._sums:
            return self._sums[slot.name]
        times: dict[Home, dict[Unit, int]] = defaultdict(dict)
        for op in slot.ops.values():
            for tensor, count in self._summands(op.reads[0]).items():
                source = self.fold.maker(tensor)
                assert source is not None
                home, unit = source
                times[home][unit] = times[home].get(unit, 0) + count
        total: Tensor | None = None
        for home, counts in times.items():
            part = self._weighted(self.folded.values[home], counts)
            total = part if total is None else self.dist.add(total, part)
        if total is None:
            raise NotFolded("a sum of nothing", slot.some.id)
        self._sums[slot.name] = total
        return total

    def _partners(self, slot: Slot, name: str) -> list[Slot]:
        """The reducer's slots of all stages that its members are of: a weight that several stages have."""
        found = {stage for op in slot.ops.values() for stage in self._reached(op).stages}
        out: list[Slot] = []
        for other in self._reducers[name]:
            if any(other.stage == one.stage for one in out):
                raise NotFolded(f"stage {other.stage} reduces {name} several times", other.some.id)
            if other.stage in found:
                out.append(other)
                found.discard(other.stage)
        if found:
            raise NotFolded(f"stage {min(found)} reduces no {name}", slot.some.id)
        return out

    def _reached(self, op: Op) -> Reached:
        found = self.world.reached(op.members)
        if found.lost:
            raise NotFolded("a reducer over ranks that are nowhere", op.id)
        return found

    def _weighted(self, x: Tensor, counts: dict[Unit, int]) -> Tensor:
        """A micro-batch's gradient times how often it is added."""
        if all(counts.get(unit) == 1 for unit in self.world.units):
            return x
        for times in sorted(set(counts.values()) - {1}):
            units = [unit for unit, count in counts.items() if count == times]
            x = self.folded.columns.select(units, self.dist.multiply(x, times), x)
        lacking = [unit for unit in self.world.units if unit not in counts]
        return self.folded.columns.select(lacking, self.dist.full(0, x.shape, x.dtype), x) if lacking else x

    def _reduced(self, slot: Slot, x: Tensor) -> Tensor:
        """The reducer's all-reduce: over the ranks of a block, then over the blocks where it has all of them."""
        world = self.world
        found: dict[tuple[int, ...], None] = {}
        blocks: set[bool] = set()
        for (d, _, t), op in slot.ops.items():
            inside, all_blocks = self._inside(op)
            if (d, t) not in inside:
                raise NotFolded("a reducer that its rank is no member of", op.id)
            blocks.add(all_blocks)
            for m in range(world.written):
                found[tuple(sorted(world.virtual((copy, m, rank)) for copy, rank in inside))] = None
        if len(blocks) > 1 or sorted(v for group in found for v in group) != list(range(world.mesh.size)):
            raise NotFolded("reducers do not reach every rank once", slot.some.id)
        if any(len(group) > 1 for group in found):
            x = self.dist.op("all-reduce", x, reducer="sum", groups=[list(group) for group in found]).result
        return self.dist.all_reduce(x, DP) if blocks == {True} else x

    def _inside(self, op: Op) -> tuple[set[tuple[int, int]], bool]:
        """The members of a reducer in a block, as (dp copy, tp rank), and whether it has those of all blocks."""
        world, reached = self.world, self._reached(op)
        key = tuple(op.members)
        if key in self._members:
            return self._members[key]
        by_stage = [
            {(t, copies) for (at, t), copies in reached.copies.items() if at == stage} for stage in reached.stages
        ]
        if any(some != by_stage[0] for some in by_stage) or len(set(key)) < len(key):
            raise NotFolded("a reducer over other ranks on every stage", op.id)
        members = {(copy, t) for t, copies in by_stage[0] for copy in copies}
        inside = {(copy % world.copies, t) for copy, t in members}
        all_blocks = len({copy // world.copies for copy, _ in members}) > 1
        if all_blocks and len(members) != len(inside) * (world.dp // world.copies):
            raise NotFolded("a reducer over some of the copies that are meant", op.id)
        self._members[key] = inside, all_blocks
        return self._members[key]
