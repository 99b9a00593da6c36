"""What random ops give: baseline ops draw, distributed ones get the corresponding parts of a baseline draw.

Which draw belongs to which op is found from the values that they belong to: the operand of a distributed dropout mask
holds (numerically) parts of the operand of a baseline one. Where nothing corresponds the draw is independent, and what
depends on it refutes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from scalify_dl.ir.layout import Layout

from .addressing import local_part
from .compare import check, default_layouts, placement
from .dtypes import is_float, storage
from .literals import scalar, seeded
from .meaning.base import Unsupported
from .program import Op, Program, Shard, Tensor

Array = np.ndarray[Any, Any]
MATCH = 1e-9  # relative; values of unrelated random tensors differ by far more


@dataclass
class Draws:
    """Random sources of both sides of one run."""

    program: Program
    seed: int
    relations: tuple[Shard, ...] = ()
    """Correspondences that somebody claims; one about a mask places it, if the operands correspond likewise."""
    drawn: list[tuple[Op, list[Array], list[Array]]] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    unpaired: set[str] = field(default_factory=set)
    counts: dict[tuple[str, object], int] = field(default_factory=dict)
    """How often an op drew before: in every step of a loop it draws anew."""

    def baseline(self, op: Op, operands: dict[int, list[Array]]) -> dict[int, list[Array]]:
        """Draws, and remembers."""
        (rank,) = operands
        results = self._draw(op, operands[rank], "base")
        self.drawn.append((op, operands[rank], results))
        return {rank: results}

    def distributed(self, op: Op, operands: dict[int, list[Array]]) -> dict[int, list[Array]]:
        """The parts of the baseline draw that belong here; an independent draw where none does.

        Draws that a correspondence claims for this op come first; those claimed for another op are left to it.
        """
        free = [
            (number, *drawn)
            for number, drawn in enumerate(self.drawn)
            if number not in self.used and (drawn[0].kind, drawn[0].symbols) == (op.kind, op.symbols)
        ]
        for find in (self._claimed, self._found):
            for number, source, values, results in free:
                layout = find(op, source, operands, values, results)
                if layout is not None:
                    self.used.add(number)
                    coords = self.program.coords
                    return {rank: [local_part(r, layout, coords[rank]) for r in results] for rank in operands}
        self.unpaired.add(op.id)
        return {rank: self._draw(op, values, rank) for rank, values in operands.items()}

    def _claimed(
        self, op: Op, source: Op, operands: dict[int, list[Array]], values: list[Array], results: list[Array]
    ) -> Layout | None:
        """The layout of a claimed correspondence between the results, if the operands correspond likewise."""
        if op.kind != "dropout-mask":
            return None
        local = {rank: xs[0] for rank, xs in operands.items()}
        coords = {rank: self.program.coords[rank] for rank in operands}
        for row in self.relations:
            if row.dist == op.results[0] and row.base in source.results and _one_to_one(row, values[0].size):
                try:
                    if check(values[0], (), local, (), row.layout, coords, MATCH) is None:
                        return row.layout
                except (ValueError, IndexError):
                    continue
        return None

    def _found(
        self, op: Op, source: Op, operands: dict[int, list[Array]], values: list[Array], results: list[Array]
    ) -> Layout | None:
        """A layout by which the operands correspond numerically (ops without one: by equal shapes)."""
        if any(row.base in source.results and row.dist != op.results[0] for row in self.relations):
            return None
        if op.kind == "dropout-mask":
            local = {rank: xs[0] for rank, xs in operands.items()}
            coords = {rank: self.program.coords[rank] for rank in operands}
            return placement(values[0], local, self.program.mesh, coords, MATCH, pending=False)
        shape = self.program.tensors[op.results[0]].shape
        if len(results) > 1 or results[0].shape != shape:
            return None
        return next(default_layouts(shape, shape, self.program.mesh), None)

    def _draw(self, op: Op, values: list[Array], who: object) -> list[Array]:
        count = self.counts[op.id, who] = self.counts.get((op.id, who), -1) + 1
        rng = seeded("draw", op.id, who, self.seed, *([count] if count else []))
        return [self._value(op, rng, values, self.program.tensors[t]) for t in op.results]

    def _value(self, op: Op, rng: np.random.Generator, values: list[Array], result: Tensor) -> Array:
        if op.kind == "dropout-mask":
            return rng.uniform(size=result.shape) >= float(scalar(op.symbol("probability")).real)
        if not is_float(result.dtype):
            return rng.integers(0, 2**31 - 1, result.shape).astype(storage(result.dtype))
        if op.kind == "rng-normal" or op.symbol("distribution", "uniform") in ("normal", "rng_normal"):
            return rng.normal(size=result.shape)
        if op.kind in ("rng", "rng-uniform") and len(values) == 2:
            return values[0] + (values[1] - values[0]) * rng.uniform(size=result.shape)
        if op.kind in ("rng", "rng-uniform"):
            return rng.uniform(size=result.shape)
        raise Unsupported(f"the oracle cannot draw `{op.kind}` (op {op.id})")


def _one_to_one(row: Shard, size: int) -> bool:
    """Whether the layout addresses every element of a whole baseline value of that size exactly once."""
    digits = row.layout.digits()
    return (
        not row.dist_piece
        and not row.base_piece
        and all(d.stride for d in digits)
        and prod(d.size for d in digits) == size
    )
