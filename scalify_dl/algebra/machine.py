"""The oracle's machine run on formulas: each element of each tensor on each rank as a normal form of the inputs.

Control, collectives and moves of elements are the oracle's; what adds, multiplies and compares is `formulas.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from scalify_dl.ir.vocabulary import ELEMENTWISE
from scalify_dl.oracle.dtypes import WITHOUT_INFINITIES, holds_all, is_float, is_integer
from scalify_dl.oracle.execute import Machine, PerRank
from scalify_dl.oracle.meaning import GROUPED, MEANINGS, RANDOM, Call, Unsupported, collective_permute
from scalify_dl.oracle.program import Op

from . import extended, indexed, reductions
from .cells import Array, is_symbolic, mapped, reals, total
from .complexes import by_parts, complex_cells, is_complex, is_linear
from .elementwise import TRUTHS, truth
from .extended import Cell
from .form import Field, Form, Need, Undecided
from .formulas import FORMULAS, MOVES, bounded, constants, converted, counted, elementwise_cells, rounded, widened
from .jumps import Jumps

MODULES = (indexed, reductions)
"""What they define is entered in `FORMULAS`."""
MOST_ELEMENTS = 65_536
"""Most elements of a tensor that is followed."""


@dataclass
class SymbolicMachine(Machine):
    """Runs graphs on arrays of formulas (`cells.py`). Whatever op makes an integer, it may not wrap round."""

    basis: Field = field(default_factory=Field)
    where: dict[Need, str] = field(default_factory=dict)
    """For each thing that must be so, the op at which it was needed."""

    def __post_init__(self) -> None:
        self.jumps = Jumps(self.program)

    def _typed(self, op: Op, tensor: str, value: PerRank) -> PerRank:
        declared = self.program.tensors[tensor]
        for x in value.values():
            if x.shape != declared.shape:
                raise Undecided(f"op {op.id} ({op.kind}) made {tensor} of shape {x.shape}")
        if all(not is_symbolic(x) for x in value.values()) and not is_float(declared.dtype):
            return super()._typed(op, tensor, value)
        if is_integer(declared.dtype) and op.kind not in MOVES:
            for x in {id(x): x for x in value.values()}.values():
                for cell in x.reshape(-1):
                    if isinstance(cell, (Form, extended.Masked)):
                        bounded(extended.finite(cell, op.kind), declared.dtype)
        return value

    def _local(self, op: Op, ranks: tuple[int, ...], operands: list[PerRank]) -> list[PerRank]:
        self.basis.tick()
        types = [self.program.tensors[t] for t in op.results]
        if any(np.prod(t.shape, dtype=float) > MOST_ELEMENTS for t in types):
            raise Undecided(f"{op.results[0]} has more than {MOST_ELEMENTS:,} elements")
        by_rank = bool(op.by_rank) or op.kind in ("partition-id", "replica-id", "empty")
        done: dict[tuple[int, ...], list[Array]] = {}
        results: list[PerRank] = [{} for _ in types]
        known = len(self.basis.needs)
        for rank in ranks:
            key = (rank,) if by_rank else tuple(id(x[rank]) for x in operands)
            if key not in done:
                call = Call(op, rank, types, self.rounding, self.seed)
                xs = [x[rank] for x in operands]
                self.jumps.decided(op, xs)
                try:
                    done[key] = [np.asarray(x) for x in self._meant(call, xs)]
                except (TypeError, ValueError, IndexError, Unsupported) as error:
                    raise Undecided(f"op {op.id} ({op.kind}) cannot be followed: {error}") from error
                self.jumps.made(op, xs, done[key])
            for result, value in zip(results, done[key], strict=True):
                result[rank] = value
        for need in list(self.basis.needs)[known:]:
            self.where.setdefault(need, op.id)
        return results

    def _meant(self, call: Call, xs: list[Array]) -> list[Array]:
        kind, dtype = call.op.kind, call.results[0].dtype
        if kind in RANDOM or kind == "empty":
            raise Undecided(f"`{kind}` is not followed")
        if kind == "constant":
            return [constants(self.basis, call)]
        symbolic = any(map(is_symbolic, xs))
        if kind in MOVES:
            xs = [reals(self.basis, x) for x in xs] if symbolic and is_float(dtype) else xs
            return MEANINGS[kind](call, xs)
        types = [dtype, *(self.program.tensors[t].dtype for t in call.op.operands)]
        if is_complex(dtype) and is_linear(call):
            return [by_parts(self.basis, self._linear, call, xs, types[1:])]
        if kind in ELEMENTWISE and any(map(is_complex, types)):
            return [complex_cells(self.basis, kind, xs)]
        if kind == "convert":
            before = self.program.tensors[call.op.operands[0]].dtype
            if is_float(before) and is_float(dtype):
                all_kept = before == dtype or (holds_all(dtype, before) and dtype not in WITHOUT_INFINITIES)
                return [widened(xs[0], before) if all_kept else rounded(xs[0], dtype)]
            if is_float(before):
                return [converted(self.basis, reals(self.basis, xs[0]), call, before)]
        if kind == "attention" and len(xs) > 3 and self.program.tensors[call.op.operands[3]].dtype == "pred":
            xs = [*xs[:3], mapped(self.hidden, xs[3])]
        if not symbolic and not is_float(dtype) and kind in MEANINGS:
            return MEANINGS[kind](call, xs)
        if kind in FORMULAS:
            return FORMULAS[kind](self.basis, call, xs)
        if kind in ELEMENTWISE:
            return elementwise_cells(self.basis, call, xs)
        if kind == "iota":
            return [counted(reals(self.basis, x), dtype) for x in MEANINGS[kind](call, xs)]
        raise Undecided(f"no law is known of `{kind}`")

    def _linear(self, call: Call, xs: list[Array]) -> list[Array]:
        made = FORMULAS.get(call.op.kind)
        return made(self.basis, call, xs) if made else elementwise_cells(self.basis, call, xs)

    def hidden(self, shown: object) -> Cell:
        """What a mask of truths adds to a score."""
        return extended.choose(truth(self.basis, shown), self.basis.zero, extended.infinite(self.basis, -1))

    def _together(self, op: Op, values: PerRank) -> PerRank:
        try:
            found = self._met(op, values)
        except (TypeError, ValueError, Unsupported) as error:
            raise Undecided(f"op {op.id} ({op.kind}) cannot be followed: {error}") from error
        for rank, x in found.items():
            self.jumps.made(op, [values[rank]], [x])
        return found

    def _met(self, op: Op, values: PerRank) -> PerRank:
        if not any(is_symbolic(x) for x in values.values()):
            return super()._together(op, values)
        dtype = self.program.tensors[op.results[0]].dtype
        if is_float(dtype):
            values = {rank: reals(self.basis, x) for rank, x in values.items()}
        else:
            values = {rank: np.asarray(x, dtype=object) for rank, x in values.items()}
        if op.kind == "collective-permute":
            got = collective_permute(op, values)
            sourced = {target for _, target in op.pairs}
            return {rank: x if rank in sourced else reals(self.basis, np.zeros(x.shape)) for rank, x in got.items()}
        results: PerRank = {}
        for group in op.groups or [sorted(values)]:
            parts = [values[rank] for rank in group]
            if op.kind in ("all-reduce", "reduce-scatter"):
                summed = self._reduced(op, parts, dtype)
                split = op.kind == "reduce-scatter"
                found = (
                    np.split(summed, len(group), axis=op.number("dimension", 0)[0]) if split else [summed] * len(group)
                )
            else:
                found = GROUPED[op.kind](op, parts)
            results.update(zip(group, found, strict=True))
        if set(values) - set(results):
            raise Undecided(f"op {op.id} ({op.kind}): ranks are in no group")
        return results

    def _reduced(self, op: Op, parts: list[Array], dtype: str) -> Array:
        reducer = op.symbol("reducer", "sum")
        if is_complex(dtype) and reducer == "sum":
            return reduce(lambda x, y: complex_cells(self.basis, "add", [x, y]), parts)
        parts = [reals(self.basis, part) for part in parts]
        if dtype == "pred":
            if reducer not in ("and", "or"):
                raise Undecided(f"a reduction by `{reducer}` of truths over ranks")
            result = parts[0]
            for part in parts[1:]:
                result = mapped(TRUTHS[reducer], result, part)
            return result
        if reducer == "sum":
            result = mapped(lambda *cells: total(self.basis, list(cells)), *parts)
        elif reducer in ("max", "min"):
            result = parts[0]
            for part in parts[1:]:
                result = mapped(extended.maximum if reducer == "max" else extended.minimum, result, part)
        else:
            raise Undecided(f"a reduction by `{reducer}` over ranks")
        return result


def no_random(op: Op, values: object) -> dict[int, list[Array]]:
    """Nothing is known of what is drawn."""
    raise Undecided(f"op {op.id} ({op.kind}) is random")
