"""The single-device step as a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from scalify_dl.ir.graph import Frame, Tensor
from scalify_dl.ir.programs import Program

from .lowering import Lowering, name_ops
from .meanings import IllTyped, NoMeaning, dtype
from .model import LOADER, Side
from .traits import TABLE, own_range

SHAPE_ONLY = frozenset({"create_mask"})
"""Kinds that ask for the shape of their operands alone."""


@dataclass
class Baseline:
    """The program, its inputs by name, and what is checked: losses by name, gradients by the names of their weights."""

    program: Program
    inputs: dict[str, Tensor] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    losses: dict[str, Tensor] = field(default_factory=dict)
    updates: dict[str, Tensor] = field(default_factory=dict)
    """What weights are after the step, by their names."""
    opaque: dict[str, str] = field(default_factory=dict)
    """Kinds without a meaning → what is missing."""


def baseline(side: Side, program: Program, file: Path) -> Baseline:
    """Lowers the single-device step."""
    out = Baseline(program)
    values: dict[str, Tensor] = {}

    rows, lowering = _rows(side), Lowering(program, side, out.opaque)
    named: dict[str, str] = {}

    def given(tensor: str) -> Tensor:
        full = side.full(tensor)
        if full.loss and full.gradient:
            return program.full(1, side.part(tensor).shape, dtype(full.dtype))
        own = side.part(tensor).full
        if named.setdefault(full.name, own) != own:
            raise side.tables.error(
                "full", list(side.fulls).index(own), f"another tensor is called `{full.name}`, too",
                expected="names by which weights and batches are told apart",
            )  # fmt: skip
        if full.name not in out.inputs:
            out.inputs[full.name] = program.input(full.name, full.shape, dtype(full.dtype), range=rows.get(tensor))
        return out.inputs[full.name]

    for ops in side.programs():
        for op in ops:
            if op.kind == LOADER:
                values |= {tensor: given(tensor) for tensor in op.makes}
                continue
            for tensor in op.reads:
                if tensor not in values:
                    if not side.values[tensor].given:
                        raise side.tables.error("op", op.line - 1, f"`{op.id}` reads `{tensor}`, which nobody made")
                    values[tensor] = given(tensor)
            count = len(program.graph.ops)
            program.source = [Frame(str(file), op.line, op.name)]
            try:
                results = lowering.lower(op, [values[tensor] for tensor in op.reads])
            except (IllTyped, NoMeaning) as problem:
                raise side.tables.error("op", op.line - 1, f"`{op.id}`: {problem}") from None
            name_ops(program, count, op)
            values |= dict(zip(op.makes, results, strict=True))
    _outputs(side, out, values)
    return out


def _outputs(side: Side, out: Baseline, values: dict[str, Tensor]) -> None:
    """Losses, and the gradients of weights: what nothing makes more of. InputError where one has several values."""
    further = {x: op for op in side.ops.values() for x in op.reads if any(_same(side, x, y) for y in op.makes)}
    for op in side.ops.values():
        for tensor in op.makes:
            full, tid = side.full(tensor), side.values[tensor].tid
            if tensor in further:
                continue
            if tid in side.updates:
                found, name, what = out.updates, side.named(side.updates[tid]), "new value of"
            elif tid in side.weight_of:
                found, name, what = out.gradients, side.named(side.weight_of[tid]), "gradient"
            elif full.loss and not full.gradient:
                found, name, what = out.losses, full.name, "loss"
            else:
                continue
            if name in found:
                raise side.tables.error(
                    "op", op.line - 1, f"`{op.id}` makes a second {what} `{name}`",
                    expected="one: the sum of what several ops make of it, losses by different names",
                )  # fmt: skip
            found[name] = values[tensor]


def _same(side: Side, x: str, y: str) -> bool:
    """Whether two tensors are a loss, or a gradient of one weight."""
    one, other = side.full(x), side.full(y)
    weight = side.weight_of.get(side.values[x].tid)
    if weight is not None:
        return side.weight_of.get(side.values[y].tid) == weight
    return one == other and one.loss and not one.gradient


def _rows(side: Side) -> dict[str, tuple[int, int]]:
    """Ids that only look up rows of whole tables, with the number of rows: ids beyond have no meaning."""
    found: dict[str, tuple[int, int]] = {}
    other = set()
    for op in side.ops.values():
        ids = {"fw": 0, "bw": 1}.get(op.direction, -1) if op.kind in TABLE else -1
        rows = own_range(side, op)
        for pos, tensor in enumerate(op.reads):
            if pos != ids or rows is None or rows[1] != side.full(op.reads[ids + 1]).shape[0]:
                if op.kind not in SHAPE_ONLY:
                    other.add(tensor)
            else:
                found[tensor] = (0, min(rows[1], found.get(tensor, rows)[1]))
    return {tensor: rows for tensor, rows in found.items() if tensor not in other}
