"""The fold: a plan becomes one SPMD program on virtual ranks (dp, mb, tp) (docs/plans.md).

Stages are composed one after the other, a message is the value that it carries, a collective has the groups of the
virtual ranks that call it, the sum over micro-batches is an all-reduce over `mb` and the reducer one over `dp`.
Whatever a plan does that this does not cover is told (NotFolded) and never guessed.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scalify_dl.ir.graph import Frame, Tensor
from scalify_dl.pairing.builder import Pair

from .baseline import Baseline, baseline
from .check import ORDERED
from .columns import Columns, Home
from .given import Given, NotFolded
from .lowering import Lowering, name_ops
from .meanings import IllTyped, NoMeaning
from .meanings.arguments import unknown
from .model import ADAPTERS, BROADCAST, LOADER, LOCAL, MOVE, REDUCER, STEP, SUM, Op, Side
from .slots import Slot, Slots
from .traits import RANGE, Traits, fixed, ranged
from .world import Unit, World

MOVING = ADAPTERS | {SUM, REDUCER}
"""Kinds that move values or add them up."""


class CannotRun(Exception):
    """An op of the plan cannot run; the text says why."""

    def __init__(self, text: str, op: Op) -> None:
        super().__init__(text)
        self.op = op


@dataclass
class Folded:
    """The two programs as a pair, and which op of the plan each op of the folded program stands for."""

    pair: Pair
    base: Baseline
    columns: Columns
    given: Given
    values: dict[Home, Tensor] = field(default_factory=dict)
    origins: list[Op] = field(default_factory=list)
    """For every op of the folded program, in order, the op of the plan."""
    opaque: dict[str, str] = field(default_factory=dict)


class Fold:
    """Folds a plan whose structure has no errors."""

    def __init__(
        self, base: Side, plan: Side, world: World, slots: Slots, traits: Traits, delivered: dict[str, str]
    ) -> None:
        self.plan, self.world, self.slots, self.traits, self.delivered = plan, world, slots, traits, delivered
        pair = Pair(world.mesh)
        for program in (pair.base, pair.dist):
            program.share()
        file = plan.tables.file("op")
        self.source = str(file)
        start = baseline(base, pair.base, Path(base.tables.file("op")))
        columns = Columns(pair.dist, world)
        self.out = Folded(pair, start, columns, Given(base, plan, world, pair.dist, start.inputs))
        self.out.opaque |= start.opaque
        self.dist = pair.dist
        self.lowering = Lowering(pair.dist, plan, self.out.opaque)

    def run(self) -> Folded:
        """Lowers all slots of micro-batches, operands first."""
        for op in self.plan.ops.values():
            if op.attributes and op.kind in MOVING and (more := next(unknown(op.kind, op.attributes), "")):
                raise NotFolded(f"no meaning of {op.kind} with {more}", op.id)
        for slot in self._ordered():
            self.begin(slot.some)
            self.lower(slot)
            self.name(slot.some)
        return self.out

    def lower(self, slot: Slot) -> None:
        """Lowers a slot, whose operands are there."""
        try:
            results = self._slot(slot)
        except IllTyped as problem:
            raise CannotRun(str(problem), slot.some) from None
        except NoMeaning as problem:
            raise NotFolded(str(problem), slot.some.id) from None
        self.out.values |= {(slot.name, n): value for n, value in enumerate(results)}

    def begin(self, op: Op) -> None:
        """What is lowered from now on has its source in the row of an op."""
        self.dist.source = [Frame(self.source, op.line, op.name)]

    def name(self, op: Op) -> None:
        """Names what was lowered and has no name yet."""
        start = len(self.out.origins)
        name_ops(self.dist, start, op)
        self.out.origins += [op] * (len(self.dist.graph.ops) - start)

    # ---- where values come from

    def home(self, op: Op, pos: int) -> tuple[Home, Unit] | None:
        """Who makes what an op reads, and on which unit; None for what is given."""
        if op.id in self.delivered:
            return self.home(self.plan.ops[self.delivered[op.id]], 0)
        if pos >= len(op.reads):
            raise NotFolded("it has fewer operands than its kind reads", op.id)
        found = self.maker(op.reads[pos])
        if found is not None and found[1][1] == STEP and not self.slots.of[op.id].step:
            raise NotFolded("what belongs to the whole step is read within a micro-batch", op.id)
        return found

    def maker(self, tensor: str) -> tuple[Home, Unit] | None:
        """Who makes a tensor, and on which unit (of micro-batch -1 where it belongs to the step); None for what is
        given."""
        found = self.traits.makers.get(tensor)
        if found is None:
            return None
        op, result = found
        return (self.slots.of[op.id].name, result), self.world.unit(op.rank, self.slots.mb[op.id])

    def _ordered(self) -> Iterator[Slot]:
        """Slots after those whose values they read."""
        done: dict[str, bool] = {}
        for first in sorted((s for s in self.slots.slots.values() if not s.step), key=lambda s: (s.stage, s.some.seq)):
            stack: list[tuple[Slot, Iterator[str]]] = []
            if first.name not in done:
                done[first.name] = False
                stack.append((first, self._needs(first)))
            while stack:
                slot, needs = stack[-1]
                for name in needs:
                    if done.get(name) is False:
                        raise NotFolded("micro-batches or ranks need each other's values in a circle", slot.some.id)
                    if name not in done:
                        done[name] = False
                        other = self.slots.slots[name]
                        stack.append((other, self._needs(other)))
                        break
                else:
                    stack.pop()
                    done[slot.name] = True
                    yield slot

    def _needs(self, slot: Slot) -> Iterator[str]:
        received = slot.some.kind in (MOVE, BROADCAST)
        for op in [slot.some] if not received and self.traits.alike(slot) else slot.ops.values():
            for pos in range(1 if op.id in self.delivered else len(op.reads)):
                source = self.home(op, pos)
                if source is not None:
                    yield str(source[0][0])

    # ---- one slot

    def _slot(self, slot: Slot) -> list[Tensor]:
        if slot.some.kind == LOADER:
            few = min(slot.ops.values(), key=lambda op: len(op.makes))
            if len(few.makes) != len(slot.some.makes):
                raise NotFolded("ranks load different numbers of tensors", few.id)
            return [
                self.out.given.batch({unit: op.makes[n] for unit, op in slot.ops.items()})
                for n in range(len(slot.some.makes))
            ]
        variants: dict[object, list[Unit]] = defaultdict(list)
        alike = self.traits.alike(slot)
        for unit, op in slot.ops.items():
            variants[None if alike else self._meaning(op)].append(unit)
        out: list[Tensor] = []
        for units in sorted(variants.values(), key=len, reverse=True):
            made = self._variant(slot, units)
            if not out:
                out = made
                continue
            if [(x.dtype, x.shape) for x in made] != [(x.dtype, x.shape) for x in out]:
                raise NotFolded("ranks make values of different shapes", slot.ops[units[0]].id)
            out = [self.out.columns.select(units, x, y) for x, y in zip(made, out, strict=True)]
        absent = [unit for unit in self.world.units if unit not in slot.ops]
        return [self.out.columns.without(absent, x) for x in out] if absent else out

    def _meaning(self, op: Op) -> object:
        """What ops must have in common to be lowered as one."""
        shapes = [self.plan.part(tensor).shape for tensor in (*op.reads, *op.makes)]
        types = [self.plan.full(tensor).dtype for tensor in op.makes]
        traits = {
            trait: text
            for trait, text in fixed(self.plan, op).items()
            if trait[1] not in RANGE or not ranged(self.plan, op)
        }
        return (
            op.kind,
            op.direction,
            len(op.reads),
            tuple(shapes),
            tuple(types),
            tuple(sorted(traits.items())),
            op.group and op.group[2],
        )

    def _variant(self, slot: Slot, units: list[Unit]) -> list[Tensor]:
        op = slot.ops[units[0]]
        count = 1 if op.id in self.delivered else len(op.reads)
        operands = [self.operand(slot, units, pos) for pos in range(count)]
        if op.kind in (MOVE, BROADCAST, "IdentityPrim"):
            for tensor in op.makes:
                shape = self.plan.part(tensor).shape
                if self.plan.values[tensor].rank >= 0 and shape != tuple(operands[0].shape):
                    raise IllTyped(f"it passes {list(operands[0].shape)} on, declared is {list(shape)}")
            return operands[:1] * len(op.makes)
        if op.kind in LOCAL or op.members:
            return [self._adapter(slot, op, operands[0], units)]
        numbers: dict[str, dict[int, int]] = {}
        if ranged(self.plan, op):
            numbers = {key: self._by_rank({u: int(slot.ops[u].attributes[key]) for u in units}) for key in RANGE}
            at = 1 if not op.backward else 2
            whole = all(
                self.plan.part(slot.ops[u].reads[at]).shape == self.plan.full(slot.ops[u].reads[at]).shape
                for u in units
            )
            numbers["whole"] = self._by_rank(dict.fromkeys(units, int(whole)))
        return self.lowering.lower(op, operands, numbers)

    def operand(self, slot: Slot, units: list[Unit], pos: int) -> Tensor:
        """An operand of the ops of some units of a slot; what it is elsewhere does not matter. Ops that are alike read
        what the same slot makes as far away: where that is their own unit for one of them, it is for all."""
        first = slot.ops[units[0]]
        if first.kind not in (MOVE, BROADCAST) and self.traits.alike(slot):
            found = self.home(first, pos)
            if found is not None and found[1] == units[0]:
                return self.out.values[found[0]]
        column: dict[Unit, tuple[Home, Unit] | None] = {}
        given: dict[str, dict[Unit, str]] = defaultdict(dict)
        for unit in units:
            op = slot.ops[unit]
            source = self.home(op, pos)
            if source is None:
                sender = self.plan.ops[self.delivered[op.id]] if op.id in self.delivered else op
                tensor = sender.reads[pos]
                given[self.plan.full(tensor).name][unit] = tensor
                column[unit] = (_given(slot, pos, self.plan.full(tensor).name), unit)
            else:
                home, (d, m, t) = source
                column[unit] = home, (d, unit[1] if m == STEP else m, t)
        own = {_given(slot, pos, name): self.out.given.value(tensors) for name, tensors in given.items()}
        return self.out.columns.value(column, ChainMap(own, self.out.values))

    def _by_rank(self, numbers: dict[Unit, int]) -> dict[int, int]:
        """A number for every virtual rank; where an op does not run, any."""
        out = dict.fromkeys(range(self.world.mesh.size), next(iter(numbers.values())))
        for unit, number in numbers.items():
            out[self.world.virtual(unit)] = number
        return out

    # ---- adapters

    def _adapter(self, slot: Slot, op: Op, x: Tensor, units: list[Unit]) -> Tensor:
        shape = self.plan.part(op.makes[0]).shape
        kind = op.kind
        dim = op.group[2] if op.group else -1
        if kind not in ("AllReducePrim", "AllToAllPrim") and not 0 <= dim < len(x.shape):
            raise IllTyped(f"dim {dim} of a value of {len(x.shape)} dims")
        if kind == "ChunkPrim":
            out = self._chunk(slot, x, dim, units)
        else:
            groups = self._groups(slot, units)
            if kind == "AllReducePrim":
                out = self.dist.op("all-reduce", x, reducer="sum", groups=groups).result
            else:
                size = max(map(len, groups))
                if any(len(slot.ops[u].members) != size for u in units):
                    raise NotFolded("groups of different sizes", op.id)
                if len(groups) * size != self.world.mesh.size:
                    raise NotFolded("some ranks do not take part", op.id)
                if kind == "AllGatherPrim":
                    out = self.dist.op("all-gather", x, dimension=dim, groups=groups).result
                elif kind == "ReduceScatterPrim":
                    if x.shape[dim] % size:
                        raise IllTyped(f"{x.shape[dim]} elements for {size} members")
                    out = self.dist.op("reduce-scatter", x, dimension=dim, reducer="sum", groups=groups).result
                elif kind == "AllToAllPrim":
                    split, joined = (self._dim(op, key, x) for key in ("odim", "idim"))
                    if x.shape[split] % size:
                        raise IllTyped(f"{x.shape[split]} elements for {size} members")
                    out = self.dist.op(
                        "all-to-all", x, split_dimension=split, concat_dimension=joined, groups=groups
                    ).result
                else:
                    raise NotFolded(f"no meaning of {kind}", op.id)
        if tuple(out.shape) != shape:
            raise IllTyped(f"it makes {list(out.shape)}, declared is {list(shape)}")
        return out

    def _dim(self, op: Op, key: str, x: Tensor) -> int:
        text = op.attributes.get(key, "")
        if not text.isdigit() or int(text) >= len(x.shape):
            raise IllTyped(f"{key}={text or 'absent'} of a value of {len(x.shape)} dims")
        return int(text)

    def _chunk(self, slot: Slot, x: Tensor, dim: int, units: list[Unit]) -> Tensor:
        """Its own block, of as many as there are members."""
        starts = {}
        for unit in units:
            op = slot.ops[unit]
            size, rest = divmod(x.shape[dim], len(op.members))
            if rest or len(op.members) != len(slot.ops[units[0]].members):
                raise IllTyped(f"{x.shape[dim]} elements for {len(op.members)} members")
            starts[unit] = op.members.index(op.rank) * size
        size = x.shape[dim] // len(slot.ops[units[0]].members)
        if size == x.shape[dim]:
            return x
        start = self._by_rank(starts)
        return self.dist.slice(x, dim, start, {v: a + size for v, a in start.items()})

    def _groups(self, slot: Slot, units: list[Unit]) -> list[list[int]]:
        """Groups of virtual ranks; ranks that do not call it are alone."""
        found: dict[tuple[int, ...], None] = {}
        taken: set[int] = set()
        for unit in units:
            op = slot.ops[unit]
            members = []
            for rank in op.members:
                place = self.plan.places.get(rank)
                if place is None or place[1] != slot.stage:
                    raise NotFolded(f"rank {rank} is of another stage", op.id)
                other = (place[0], unit[1], place[2])
                if other not in slot.ops or other not in units:
                    raise NotFolded(f"rank {rank} calls it otherwise", op.id)
                members.append(other)
            listed = map(self.world.virtual, members)
            group = tuple(listed if op.kind in ORDERED else sorted(listed))
            if group not in found:
                if taken & set(group):
                    raise NotFolded("groups that overlap", op.id)
                taken.update(group)
                found[group] = None
        alone = [(v,) for v in range(self.world.mesh.size) if v not in taken]
        return [list(group) for group in (*found, *alone)]


def _given(slot: Slot, pos: int, name: str) -> Home:
    """What stands for the maker of a given operand."""
    return ("given", slot.name, pos, name), 0
