"""What the choice of a branch, or of another round of a loop, rests on: constants, data, or the rank's number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from scalify_dl.readers.hlo.attributes import integers
from scalify_dl.readers.hlo.module import Computation, Instruction, Module

CONSTANTS, DATA, RANK = range(3)
BY_RANK = ("partition-id", "replica-id")
_CALLED = ("calls", "to_apply")


class Rests(NamedTuple):
    """What values rest on, and which elements of the computation's only parameter."""

    level: int
    slots: frozenset[int]


def rests_on(module: Module, computation: Computation, names: Iterable[str], *, slots: bool = False) -> Rests:
    """All that values of a computation follow from. With `slots`, elements of its parameter are told apart; else what
    it is given counts as data."""
    by_name = {i.name: i for i in computation.instructions}
    level, found, seen = CONSTANTS, set[int](), set(names)
    pending = [*seen]
    while pending:
        i = by_name.get(pending.pop())
        if i is None:
            return Rests(DATA, frozenset(found))
        source = by_name.get(i.operands[0]) if i.opcode == "get-tuple-element" and i.operands else None
        if slots and source is not None and source.opcode == "parameter":
            found.update(integers(i.attributes.get("index", "")))
            continue
        if i.opcode in BY_RANK or any(j.opcode in BY_RANK for c in _called(module, i) for j in c.instructions):
            level = RANK
        elif i.opcode in ("parameter", "while", "conditional", "custom-call", "infeed", "rng", "recv"):
            level = max(level, DATA)
        more = {name for name in i.operands if name not in seen} if i.opcode not in ("parameter", "constant") else set()
        seen |= more
        pending += more
    return Rests(level, frozenset(found))


def loop_rests_on(
    module: Module, around: Computation, i: Instruction, condition: Computation, body: Computation
) -> int:
    """What the number of a loop's rounds rests on."""
    asked = rests_on(module, condition, [condition.root.name], slots=True)
    level, slots, done = asked.level, set(asked.slots), set[int]()
    by_name = {one.name: one for one in around.instructions}
    given = by_name.get(i.operands[0]) if i.operands else None
    if body.root.opcode != "tuple" or given is None or given.opcode != "tuple":
        return max(level, DATA)
    while slots - done:
        slot = (slots - done).pop()
        done.add(slot)
        if slot >= min(len(body.root.operands), len(given.operands)):
            return max(level, DATA)
        step = rests_on(module, body, [body.root.operands[slot]], slots=True)
        level = max(level, step.level, rests_on(module, around, [given.operands[slot]]).level)
        slots |= step.slots
    return level


def _called(module: Module, i: Instruction) -> list[Computation]:
    names = [i.attributes[key].strip().lstrip("%") for key in _CALLED if f"{key}=" in i.attribute_text]
    return [module.computations[name] for name in names if name in module.computations]
