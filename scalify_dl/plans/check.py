"""The premises of the fold, checked by rules (datalog/plans.dl): facts in, findings out.

Python numbers calls and messages, and writes down what ops have in common; every judgement is the rules'.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from scalify_dl.pysouffle import Program, rules_dir

from .contradictions import contradictions
from .model import ADAPTERS, BROADCAST, LOADER, LOCAL, REDUCER, STEP, SUM, Op, Side
from .slots import Slots
from .traits import PLACED, RANGE, Traits, fixed
from .world import World

MAIN = "plans.dl"
Row = tuple[object, ...]
ORDERED = frozenset({"AllGatherPrim", "ReduceScatterPrim", "AllToAllPrim"})
"""Collectives for which the order of members decides who gets what."""


@dataclass
class Checked:
    """What the rules say of a plan."""

    findings: list[tuple[str, str, str, str, str]]
    """(op, kind, level, text, suggestion)."""
    because: dict[tuple[str, str], set[tuple[str, str]]]
    """(op, kind) → what explains it."""
    absent: list[tuple[str, int, int]]
    """(slot, rank, micro-batch) that should be there and are not."""
    delivered: dict[str, str]
    """Receiving op → sending op."""


@cache
def _rules() -> Program:
    text = (rules_dir() / MAIN).read_text("utf-8")
    return Program.from_source(text, name=MAIN, include_dirs=[rules_dir()])


Premises = dict[str, list[Row]]
"""Facts of `plans.dl`, by relation."""


def premises(plan: Side, base: Side, world: World, slots: Slots, traits: Traits) -> Premises:
    """What the rules judge."""
    rows: Premises = defaultdict(list)
    _ops(rows, plan, world, slots)
    _values(rows, plan, traits.shapes)
    _traits(rows, plan, base, slots, traits)
    _step(rows, plan, base)
    _communication(rows, plan, world)
    rows["contradiction"] = list(contradictions(plan))
    rows["has_weight"] = sorted({(name, stage) for name, stage, _ in world.slices})
    return rows


def check(rows: Premises) -> Checked:
    """Runs the rules."""
    program = _rules().fresh()
    for relation, facts in rows.items():
        program.insert(relation, facts)
    program.run()
    because: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for op, kind, cause, cause_kind in program.relation("because"):
        because[str(op), str(kind)].add((str(cause), str(cause_kind)))
    return Checked(
        sorted((str(a), str(b), str(c), str(d), str(e)) for a, b, c, d, e in program.relation("raw")),
        because,
        sorted((str(slot), int(rank), int(mb)) for slot, rank, mb in program.relation("absent")),
        {str(receive): str(send) for receive, send in program.relation("delivered")},
    )


def _ops(rows: dict[str, list[Row]], plan: Side, world: World, slots: Slots) -> None:
    span, ops, mbs, of = world.micro_batches + 1, plan.ops.values(), slots.mb, slots.of
    rows["step_op"] = [(op.id, op.rank, mbs[op.id], op.seq, op.kind) for op in ops]
    rows["plan_op"] = [(op.id, op.cid, op.name, int(op.kind in ADAPTERS)) for op in ops]
    rows["slot_of"] = [
        (name, slot.stage, slot.name, op.rank * span + mbs[name] + 1) for name, op in plan.ops.items()
        for slot in (of[name],)
    ]  # fmt: skip
    rows["reads"] = [(op.id, pos, tensor) for op in ops for pos, tensor in enumerate(op.reads)]
    rows["makes"] = [(op.id, pos, tensor) for op in ops for pos, tensor in enumerate(op.makes)]
    for rank, (d, s, t) in plan.places.items():
        rows["device"].append((rank, d, s, t))
        rows["block_of"].append((rank, d // world.period))
        rows["place"] += [(s, rank, mb, rank * span + mb + 1) for mb in range(STEP, world.written)]


def _values(rows: dict[str, list[Row]], plan: Side, shapes: Mapping[str, str]) -> None:
    loaded = {tensor for op in plan.ops.values() if op.kind == LOADER for tensor in op.makes}
    rows["part_of"] = [(tensor, value.tid) for tensor, value in plan.values.items()]
    rows["transit"] = [(tensor,) for tensor, value in plan.values.items() if value.rank < 0]
    rows["given"] = [
        (tensor,) for tensor, value in plan.values.items() if value.given and value.rank >= 0 and tensor not in loaded
    ]
    rows["gradient_of"] = list(plan.weight_of.items())
    rows["part"] = [(tid, part.full, shapes[tid], part.addend, part.addends) for tid, part in plan.parts.items()]
    fulls = dict.fromkeys(part.full for part in plan.parts.values())
    rows["extent"] = [(full, dim, size) for full in fulls for dim, size in enumerate(plan.fulls[full].shape)]
    rows["span"] = [(tid, dim, lo, hi) for tid, part in plan.parts.items() for dim, (lo, hi) in enumerate(part.spans)]


def _traits(rows: dict[str, list[Row]], plan: Side, base: Side, slots: Slots, traits: Traits) -> None:
    """Traits of the slots whose ops are not all alike; the others have nothing to compare."""
    kinds = set()
    for slot in slots.slots.values():
        if traits.alike(slot):
            continue
        found = [(op, traits.of(op)) for op in slot.ops.values()]
        if all(other == found[0][1] for _, other in found):
            continue
        kinds.add(slot.some.kind)
        rows["trait"] += [(op.id, *trait, text) for op, texts in found for trait, text in texts.items()]
    for op in base.ops.values():
        if op.kind in kinds:
            rows["base_trait"] += [(op.cid, op.kind, *trait, text) for trait, text in fixed(base, op).items()]


SIZED = frozenset({"size", "times", *RANGE, *PLACED})
"""Attributes that a plan changes where it cuts."""


def _step(rows: dict[str, list[Row]], plan: Side, base: Side) -> None:
    """The single-device step, and what its ops and those of the plan have to have in common."""
    models = {full: _model(plan, full) for full in plan.fulls}
    rows["model"] = [(tid, models[part.full]) for tid, part in plan.parts.items()]
    rows["base_model"] = [(tensor, _model(base, base.part(tensor).full)) for tensor in base.values]
    for op in base.ops.values():
        rows["base_op"].append((op.id, op.kind, op.direction))
        rows["base_reads"] += [(op.id, pos, tensor) for pos, tensor in enumerate(op.reads)]
        rows["base_makes"] += [(op.id, pos, tensor) for pos, tensor in enumerate(op.makes)]
        rows["base_mark"] += [(op.id, *mark) for mark in _marks(op)]
    rows["op_direction"] = [(op.id, op.direction) for op in plan.ops.values()]
    rows["mark"] = [(op.id, *mark) for op in plan.ops.values() if op.attributes or op.constants for mark in _marks(op)]


def _model(side: Side, full: str) -> str:
    return f"{side.fulls[full].name} ({full})"


def _marks(op: Op) -> Iterator[tuple[str, str]]:
    if op.kind in ADAPTERS or op.kind in (REDUCER, SUM, LOADER):
        return
    yield from ((f"attribute {key}", text) for key, text in op.attributes.items() if key not in SIZED)
    yield from ((f"constant {pos}", text) for pos, (_, text) in enumerate(op.constants))


def _communication(rows: dict[str, list[Row]], plan: Side, world: World) -> None:
    for program in plan.programs():
        calls: Counter[str] = Counter()
        sent: Counter[tuple[str, int, int]] = Counter()
        rows["begins"] += [(op.id,) for op in program[:1]]
        rows["follows"] += [(op.id, before.id) for before, op in pairwise(program)]
        for op in program:
            if op.members and op.kind not in LOCAL:
                rows["members"].append((op.id, len(op.members)))
                rows["member"] += [(op.id, pos, rank) for pos, rank in world.reached(op.members).told]
            if op.kind == REDUCER:
                _reducer(rows, op, world, calls)
            elif op.kind == "ChunkPrim" and op.group is not None and op.rank in op.members:
                rows["chunk"].append((op.id, op.group[2], op.members.index(op.rank), len(op.members)))
            elif op.group is not None and op.members and op.kind not in LOCAL and op.kind != BROADCAST:
                name = f"{op.kind} {op.members if op.kind in ORDERED else sorted(op.members)}"
                rows["call"].append((op.id, name, calls[name], op.group[2]))
                calls[name] += 1
            for channel, source, target in _messages(op):
                rows["message"].append((op.id, channel, source, target, sent[channel, source, target]))
                sent[channel, source, target] += 1


def _reducer(rows: dict[str, list[Row]], op: Op, world: World, calls: Counter[str]) -> None:
    """Reducers of one weight meet; in unit form those of the copies that are meant list the same ranks."""
    reached, own = world.reached(op.members), world.plan.places[op.rank]
    name = " ".join(world.plan.named(tid) for tid in op.weights)
    sharing = world.sharing(name, own)
    copies = reached.copies.get(own[1:], frozenset())
    rows["reducer"].append((op.id, name, len(sharing), len(copies & sharing)))
    rows["reaches"] += [(op.id, stage) for stage in reached.stages]
    if copies - sharing:
        rows["beyond"].append((op.id, min(copies - sharing)))
    communicator = f"reducer of {name} {reached.text}"
    rows["call"].append((op.id, communicator, calls[communicator], -1))
    calls[communicator] += 1


def _messages(op: Op) -> Iterator[tuple[str, int, int]]:
    """(channel, source, target) of the messages that an op sends, or of the one that it receives."""
    if op.move is not None:
        yield "move", *op.move
    elif op.kind == BROADCAST and op.members:
        source = op.broadcast_from
        targets = [rank for rank in op.members if rank != source] if op.rank == source else [op.rank]
        for target in targets:
            yield f"broadcast {op.members}", source, target
