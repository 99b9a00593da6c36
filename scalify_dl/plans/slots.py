"""Slots: the same op of a plan on all ranks of a stage and for all its micro-batches.

A slot is a name for ops that are compared, and become one op of the folded program. Nothing rests on the choice: ops of
a slot that are not alike are told and folded by `select`, and where values come from is read off the tensors.

Ops are the same where they have one `cid` on all places of a stage; those that have not (backward ops are numbered anew
on every rank) where they stand at the same place among the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from .model import REDUCER, STEP, SUM, Op, Side
from .world import Unit, World

Place = tuple[int, int]
"""(rank, micro-batch)"""


@dataclass(slots=True)
class Slot:
    """The ops of a slot, by unit; `step` slots (sums over micro-batches, reducers) have them by (dp, -1, tp)."""

    name: str
    stage: int
    step: bool
    ops: dict[Unit, Op]

    @property
    def some(self) -> Op:
        """One of the ops."""
        return next(iter(self.ops.values()))


@dataclass
class Slots:
    """All slots, and the slot and micro-batch of every op."""

    slots: dict[str, Slot]
    of: dict[str, Slot]
    mb: dict[str, int]


def slots(plan: Side, world: World) -> Slots:
    """Names every op."""
    found = Slots({}, {}, {})
    placed: dict[int, dict[Place, list[Op]]] = defaultdict(lambda: defaultdict(list))
    for program in plan.programs():
        for op in program:
            mb = found.mb[op.id] = _micro_batch(plan, op)
            placed[world.stage(op.rank)][op.rank, mb].append(op)
    for stage, places in sorted(placed.items()):
        ranks = [rank for rank, place in plan.places.items() if place[1] == stage]
        within = {(rank, mb): places[rank, mb] for rank in ranks for mb in range(world.written)}
        over = {(rank, STEP): places[rank, STEP] for rank in ranks}
        for name, step, ops in (*_aligned(within), *_named(over, plan)):
            slot = Slot(f"{stage}/{name}", stage, step, {})
            for op in ops:
                slot.ops[world.unit(op.rank, found.mb[op.id])] = op
                found.of[op.id] = slot
            found.slots[slot.name] = slot
    return found


def _micro_batch(plan: Side, op: Op) -> int:
    """The micro-batch of an op: that of its tensors where it adds gradients, none of a reducer."""
    if op.kind == REDUCER:
        return STEP
    if op.kind == SUM:
        return max((plan.values[tensor].mb for tensor in op.makes), default=STEP)
    return op.mb


Named = tuple[str, bool, Sequence[Op]]


def _named(places: dict[Place, list[Op]], plan: Side) -> Iterator[Named]:
    """Ops of the step: by the tensors of the model that they sum or reduce."""
    found: dict[str, list[Op]] = defaultdict(list)
    for ops in places.values():
        seen: Counter[str] = Counter()
        for op in ops:
            if op.kind == REDUCER:
                name = f"reducer of {' '.join(plan.named(tid) for tid in op.weights)}"
            else:
                name = f"{op.kind} {' '.join(plan.full(tensor).name for tensor in op.makes)}"
            seen[name] += 1
            found[f"{name} {seen[name]}"].append(op)
    for name, ops in found.items():
        yield name, True, ops


def _aligned(places: dict[Place, list[Op]]) -> Iterator[Named]:
    """Ops of micro-batches: by `cid` where all places have it, the others in their order."""
    by_key: dict[tuple[Hashable, ...], list[Op]] = defaultdict(list)
    for ops in places.values():
        seen: Counter[Hashable] = Counter()
        for op in ops:
            same = (op.kind, op.direction, op.cid if op.kind != SUM else op.kind)
            seen[same] += 1
            by_key[*same, seen[same]].append(op)
    whole: set[str] = set()
    for key, ops in by_key.items():
        if len(ops) == len(places) and ops[0].kind != SUM:
            whole.update(op.id for op in ops)
            yield "/".join(map(str, key)), False, ops
    rest = [[op for op in ops if op.id not in whole] for ops in places.values()]
    for n, some in enumerate(_in_order(rest)):
        yield f"{some[0].kind}/{some[0].direction}/at {n}", False, some


def _in_order(programs: list[list[Op]]) -> Iterator[list[Op]]:
    """Ops that stand at the same place of programs; they are compared with the longest of the most frequent ones."""
    shapes = [tuple((op.kind, op.direction) for op in program) for program in programs]
    often = Counter(shapes)
    best = max(often, key=lambda shape: (often[shape], len(shape)), default=())
    if len(often) > 1 and often[best] * 2 <= len(programs):
        best = max(shapes, key=len)
    reference = programs[shapes.index(best)] if programs else []
    rows: list[list[Op]] = [[] for _ in reference]
    others: dict[Hashable, list[Op]] = defaultdict(list)
    for program, shape in zip(programs, shapes, strict=True):
        pairs = enumerate(range(len(best))) if shape == best else _matched(reference, program)
        matched = set()
        for n, at in pairs:
            rows[n].append(program[at])
            matched.add(at)
        seen: Counter[Hashable] = Counter()
        for at, op in enumerate(program):
            if at not in matched:
                key = (op.kind, op.direction)
                seen[key] += 1
                others[*key, seen[key]].append(op)
    yield from rows
    yield from others.values()


def _matched(one: list[Op], other: list[Op]) -> Iterator[tuple[int, int]]:
    """Positions of the same ops in two programs: of one `cid` first, between these in their order."""
    at, there = 0, 0
    for start, start_there, size in _blocks(SequenceMatcher(None, _strong(one), _strong(other), False)):
        between = SequenceMatcher(None, _weak(one[at:start]), _weak(other[there:start_there]), False)
        for a, b, n in _blocks(between):
            yield from ((at + a + i, there + b + i) for i in range(n))
        yield from ((start + i, start_there + i) for i in range(size))
        at, there = start + size, start_there + size


def _blocks(matcher: SequenceMatcher[Any]) -> Iterator[tuple[int, int, int]]:
    yield from matcher.get_matching_blocks()


def _strong(program: list[Op]) -> list[Hashable]:
    return [(op.kind, op.direction, op.cid) for op in program]


def _weak(program: list[Op]) -> list[Hashable]:
    return [(op.kind, op.direction) for op in program]
