"""What one table says of an op and another one, or the op's own attributes, deny.

A plan writes much twice: members and `ranks`, peers and `src`/`dst`, kinds of collectives. Where the two disagree
nobody knows what would run; such a plan is told and ends there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .model import ADAPTERS, BROADCAST, GROUPED, MOVE, REDUCER, SUM, Op, Side

_MOVING = ADAPTERS | {REDUCER, SUM}
"""Kinds of which tables say something twice."""


def _numbers(text: str) -> list[int]:
    return [int(word) for word in re.findall(r"(?<![\w.])-?\d+(?![\w.])", text)]


def contradictions(plan: Side) -> Iterator[tuple[str, str]]:
    """(op, what is contradictory)."""
    for op in plan.ops.values():
        if op.kind in _MOVING or op.group is not None or op.members or op.move is not None:
            for text in _of(plan, op):
                yield op.id, text


def _of(plan: Side, op: Op) -> Iterator[str]:
    attributes = op.attributes
    if op.kind in GROUPED and not op.members:
        yield "`coll_member` lists no members"
    if op.kind in GROUPED - {BROADCAST} and op.group is None:
        yield "`coll` has no row for it"
    if op.group is not None and op.kind in ADAPTERS:
        if op.group[1] != op.kind:
            yield f"`coll` calls it {op.group[1]}"
        if "dim" in attributes and _numbers(attributes["dim"]) != [op.group[2]]:
            yield f"`coll` has dim {op.group[2]}, the attribute says {attributes['dim']}"
    if op.members and "ranks" in attributes and _numbers(attributes["ranks"]) != op.members:
        yield f"`coll_member` lists {op.members}, the attribute says {attributes['ranks']}"
    if op.kind == MOVE and op.move is None:
        yield "`p2p` does not say from where to where it moves"
    if op.move is not None:
        if op.kind != MOVE:
            yield f"`p2p` has a row for an op of kind {op.kind}"
        for key, rank in zip(("src", "dst"), op.move, strict=True):
            if key in attributes and _numbers(attributes[key]) != [rank]:
                yield f"`p2p` says {key} {rank}, the attribute {attributes[key]}"
        said = attributes.get("shape")
        made = plan.part(op.makes[0]).shape if op.makes else ()
        if said is not None and tuple(_numbers(said.replace("np.int64", ""))) != made:
            yield f"it is declared to make {list(made)}, the attribute says {said}"
    said = attributes.get("__collective_idx")
    if op.kind == "ChunkPrim" and op.rank in op.members and said is not None:
        block = op.members.index(op.rank)
        if _numbers(said) != [block]:
            yield f"it is member {block}, the attribute says {said}"
    if op.kind == REDUCER:
        gradient = plan.weight_of.get(plan.values[op.reads[0]].tid) if len(op.reads) == 1 else None
        if len(op.weights) != 1 or gradient != op.weights[0]:
            yield f"it reduces what is not the gradient of {' '.join(op.weights) or 'a weight'}"
    if op.kind in ADAPTERS | {REDUCER} and (len(op.reads) != 1 or len(op.makes) != 1) and op.kind != BROADCAST:
        yield f"it reads {len(op.reads)} values and makes {len(op.makes)}"
    if op.kind == SUM and (len(op.reads) != 2 or len(op.makes) != 1):
        yield f"a sum of {len(op.reads)} values that makes {len(op.makes)}"
    if op.kind in (SUM, REDUCER):
        parts = {(plan.part(tensor).full, plan.part(tensor).spans) for tensor in (*op.reads, *op.makes)}
        if len(parts) > 1:
            yield "its operands and its result are parts of different tensors"
    if op.kind in ADAPTERS and op.prim and op.prim != op.name:
        yield f"`adapter` calls it {op.prim}, `op` {op.name}"
