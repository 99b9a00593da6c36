"""What has to be the same for all ops of a slot, as texts that do not depend on where the op runs.

Attributes without ranks, constants, shapes, where operands come from, who takes part. Two ops are alike if and only if
all these texts are equal (lemma L0); datalog/plans/slots.dl compares them and says who is the odd one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from .model import REDUCER, SUM, Op, Side
from .slots import Slot, Slots
from .world import World

Trait = tuple[str, str]
"""What sort of thing, and which: ("constant", "position 0")."""

Slices = frozenset[tuple[tuple[int, int], ...]]
"""Slices of a weight that a rank has."""

PLACED = frozenset({"ranks", "src", "dst", "__collective_idx"})
"""Attributes that name ranks: members and peers are compared instead."""
TABLE = {"embedding": {"fw": 1, "bw": 2}}
"""Kinds that read a block of a table of rows: which operand it is."""
RANGE = ("start", "stop")


def own_range(plan: Side, op: Op) -> tuple[int, int] | None:
    """The rows of the model's table that the block has which an op reads; None for other kinds."""
    at = TABLE.get(op.kind, {}).get(op.direction)
    if at is None or at >= len(op.reads):
        return None
    return plan.part(op.reads[at]).spans[0]


def ranged(plan: Side, op: Op) -> bool:
    """Whether an op says by two numbers which rows of the model's table it reads."""
    texts = [op.attributes.get(key, "") for key in RANGE]
    return own_range(plan, op) is not None and all(text.lstrip("-").isdigit() for text in texts)


def fixed(plan: Side, op: Op) -> dict[Trait, str]:
    """Traits that one op shows alone: attributes and constants."""
    found = {}
    rows = own_range(plan, op)
    for key, text in op.attributes.items():
        if key in PLACED:
            continue
        if rows is not None and key in RANGE and text.lstrip("-").isdigit():
            ahead = int(text) - rows[RANGE.index(key)]
            text = f"the end of its block {ahead:+d}" if key == "stop" else f"the beginning of its block {ahead:+d}"
        found["attribute", key] = text
    for pos, (_, text) in enumerate(op.constants):
        found["constant", f"constant {pos}"] = text
    return found


class Traits:
    """Traits of the ops of a plan."""

    def __init__(self, plan: Side, world: World, slots: Slots) -> None:
        self.plan = plan
        self.world = world
        self.slots = slots
        self.makers: dict[str, tuple[Op, int]] = {
            tensor: (op, pos)
            for op in plan.ops.values()
            for pos, tensor in enumerate(op.makes)
            if plan.values[tensor].rank >= 0
        }
        self._alike: dict[str, bool] = {}
        self._cuts: dict[tuple[str, int], str] = {}
        self._weights: dict[tuple[str, int, bool], str] = {}
        self._slices: dict[str, list[tuple[int, Mapping[int, Slices]]]] = defaultdict(list)
        for (name, _, t), by in world.slices.items():
            self._slices[name].append((t, by))
        dtypes = {name: full.dtype for name, full in plan.fulls.items()}
        texts: dict[tuple[str, tuple[int, ...]], str] = {}
        for part in plan.parts.values():
            dtype = dtypes[part.full]
            if (dtype, part.shape) not in texts:
                texts[dtype, part.shape] = f"{dtype}[{','.join(map(str, part.shape))}]"
        self.shapes = {tid: texts[dtypes[part.full], part.shape] for tid, part in plan.parts.items()}
        """Element type and sizes of parts, as text."""

    def alike(self, slot: Slot) -> bool:
        """Whether the ops of a slot have the same traits, kinds and directions: compared without putting it in words,
        so where it says no, the traits decide."""
        found = self._alike.get(slot.name)
        if found is None:
            ops = iter(slot.ops.values())
            first = self._mark(next(ops))
            found = self._alike[slot.name] = all(self._mark(op) == first for op in ops)
        return found

    def _mark(self, op: Op) -> list[object]:
        """What the traits of an op are the words for."""
        values, shapes, mb = self.plan.values, self.shapes, self.slots.mb[op.id]
        found: list[object] = [op.kind, op.direction, op.group and op.group[2]]
        if op.kind in TABLE or not PLACED.isdisjoint(op.attributes):
            found.append(fixed(self.plan, op))
        else:
            found += (op.attributes, [text for _, text in op.constants])
        found += [shapes[values[tensor].tid] for tensor in op.makes]
        for tensor in op.reads:
            found.append(shapes[values[tensor].tid])
            if mb >= 0 or op.kind not in (SUM, REDUCER):
                found.append(self._source(op, tensor, mb))
        if op.members:
            found.append(self._members(op))
        if op.move is not None:
            found += (self.world.relative(op.rank, op.move[:1]), self.world.relative(op.rank, op.move[1:]))
        return found

    def of(self, op: Op) -> Mapping[Trait, str]:
        """All traits of an op."""
        plan = self.plan
        found = fixed(plan, op)
        for pos, tensor in enumerate(op.makes):
            found["shape", f"result {pos}"] = self.shapes[plan.values[tensor].tid]
        mb = self.slots.mb[op.id]
        for pos, tensor in enumerate(op.reads):
            found["shape", f"operand {pos}"] = self.shapes[plan.values[tensor].tid]
            if mb >= 0 or op.kind not in (SUM, REDUCER):  # sums over micro-batches are another premise (sums.dl)
                found["operand", f"operand {pos}"] = self._origin(op, tensor, mb)
        if op.members:
            found["peers", "members"] = self._members(op)
        if op.move is not None:
            found["peers", "source"] = self.world.relative(op.rank, op.move[:1])
            found["peers", "target"] = self.world.relative(op.rank, op.move[1:])
        return found

    def _members(self, op: Op) -> str:
        if op.weights:
            reached, own = self.world.reached(op.members), self.plan.places[op.rank]
            known = reached.copies.get(own[1:], frozenset())
            all_of_them = known == self.world.sharing(self.plan.named(op.weights[0]), own)
            text = "all copies of its place" if all_of_them else f"dp {' '.join(map(str, sorted(known)))}"
            return text + " and others" * (len(known) < len(op.members))
        return self.world.relative(op.rank, op.members)

    def _source(self, op: Op, tensor: str, mb: int) -> tuple[object, ...]:
        """Where an operand comes from, seen from the op: the words, or the slot that makes it, which result, and for
        which micro-batch."""
        value = self.plan.values[tensor]
        if value.rank < 0:
            return ("a message",)
        if value.given:
            key = value.tid, op.rank, mb < 0
            weight = self._weights.get(key)
            if weight is None:
                place = self.plan.places[op.rank]
                weight = self._weights[key] = self._weight(tensor, place, op_of_step=mb < 0)
            return (weight + (f" of micro-batch {value.mb - mb:+d}" if 0 <= value.mb != mb else ""),)
        maker = self.makers.get(tensor)
        if maker is None:
            return ("nothing",)
        theirs = self.slots.mb[maker[0].id]
        return self.slots.of[maker[0].id].name, maker[1], theirs - mb if theirs >= 0 else "step", theirs == mb

    def _origin(self, op: Op, tensor: str, mb: int) -> str:
        """Where an operand comes from, in words."""
        name, *more = self._source(op, tensor, mb)
        if not more:
            return str(name)
        (position, ahead, same), slot = more, self.slots.slots[str(name)]
        where = "" if same else " of the step" if ahead == "step" else f" of micro-batch {ahead:+d}"
        name = slot.name.split("/", 1)[1] if slot.step else f"{slot.some.name} (cid {slot.some.cid}, {slot.name})"
        return f"result {position} of {name}{where}"

    def _weight(self, tensor: str, place: tuple[int, int, int], *, op_of_step: bool = False) -> str:
        """Which slices of a weight: by the axes over which it is cut, where those are a rank's own; optimisers may have
        shards of them."""
        part, full = self.plan.part(tensor), self.plan.full(tensor)
        words = []
        for dim, ((lo, hi), size) in enumerate(zip(part.spans, full.shape, strict=True)):
            found = self._cuts.get((full.name, dim))
            if found is None:
                spans = [
                    (at, span) for t, by in self._slices[full.name]
                    for d, some in by.items() for slices in some for at, span in [((d, 0, t), slices[dim])]
                ]  # fmt: skip
                found = self._cuts[full.name, dim] = max(
                    ("all", "tp", "ep"), key=lambda axis: sum(self._span(axis, at, size) == span for at, span in spans)
                )
            known = (found, "tp ep", "ep tp", "ep") if op_of_step else (found,)
            words.append(next((axes for axes in known if self._span(axes, place, size) == (lo, hi)), f"{lo}:{hi}"))
        return f"{full.name}[{','.join(words)}]"

    def _span(self, axes: str, place: tuple[int, int, int], size: int) -> tuple[int, int]:
        """The block of a dim that a rank has where it is cut over axes, one after the other."""
        d, _, t = place
        lo, hi = 0, size
        for one in axes.split():
            ways = {"all": 1, "tp": self.world.tp, "ep": self.world.period}[one]
            at = {"all": 0, "tp": t, "ep": d % self.world.period}[one]
            lo, hi = lo + at * (hi - lo) // ways, lo + (at + 1) * (hi - lo) // ways
        return lo, hi
