"""Opaque calls whose factor structure somebody declared (docs/adding_an_op.md): a random function that has it.

The function does the same for every value of a parallel index, reduces over the reduced ones, sees whole dims in order,
makes its own dims itself, is linear in the operands that are said to pass sums, and monotone in those that pass maxima
or minima. What the rules derive of the call from its structure alone must be true of this function, so a difference is
no longer a matter of an invented meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ..dtypes import is_float, storage
from ..literals import seeded
from ..program import Tensor
from .base import REDUCERS, Array, Call, Unsupported

Factors = tuple[int, ...]
Rows = Iterable[tuple[Any, ...]]


PASSES = {"sum": "sum", "max": "max", "min": "min", "order": "max"}
"""What an operand may pass, and the reduction that joins operands of one family; a monotone function of an operand
passes maxima and minima alike."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Factors of each dim of the operands and results (after reshaping them to `views`), operands that pass a reduction
    with their family, and what reduced factors are reduced by."""

    operands: tuple[Factors, ...]
    results: tuple[Factors, ...]
    views: Mapping[int, tuple[int, ...]]
    result_views: Mapping[int, tuple[int, ...]]
    passing: Mapping[int, int]
    passed: str
    reducer: str
    layout_keys: frozenset[str] = frozenset()
    """Attributes that only say which dim is which."""
    commutative: bool = False
    renaming: bool = False

    def extents(self, shapes: Sequence[Sequence[int]]) -> dict[int, int] | None:
        """The extent of each factor for operands of these shapes; None where they do not fit."""
        found: dict[int, int] = {}
        if len(shapes) != len(self.operands):
            return None
        for i, (factors, shape) in enumerate(zip(self.operands, shapes, strict=True)):
            extents = self.views.get(i, tuple(shape))
            if prod(extents) != prod(shape) or len(extents) != len(factors) or len(set(factors)) != len(factors):
                return None
            if any(found.setdefault(f, n) != n for f, n in zip(factors, extents, strict=True)):
                return None
        return found


RELATIONS = (
    "factor", "result_factor", "linear_operand_of", "reduction", "view_dim", "result_view_dim", "layout_key",
    "elementwise", "commutative", "renaming",
)  # fmt: skip


def structure(op: str, kind: str, ranks: Sequence[int], relations: Mapping[str, Rows]) -> Structure | None:
    """The structure that rules give an op with operands of so many dims, from their relations about it; None where
    there is none, or where it says more than a function here can have."""
    mine = {name: [row[1:] for row in relations[name] if row[0] == op] for name in RELATIONS}
    about_kinds = ("elementwise", "commutative", "renaming")
    whose = {name: any(row[0] == kind for row in relations[name]) for name in about_kinds}
    operands, results = _lists(mine["factor"], gaps=True), _lists(mine["result_factor"])
    if whose["renaming"] or whose["elementwise"]:
        if len(set(ranks)) != 1 or (whose["renaming"] and len(ranks) != 1):
            return None
        operands, results = {i: tuple(range(n)) for i, n in enumerate(ranks)}, {0: tuple(range(ranks[0]))}
    reducers = {name for (name,) in mine["reduction"]} or {"sum"}
    if not results or operands is None or len(reducers) > 1 or not reducers <= set(REDUCERS):
        return None
    factors = tuple(operands.get(i, ()) for i in range(len(ranks)))
    passing = {i: family for i, family, _ in mine["linear_operand_of"]}
    passed = _passed({what for _, _, what in mine["linear_operand_of"]}, factors, passing, *reducers)
    if passed is None or max(operands, default=0) >= len(ranks):
        return None
    views, result_views = _lists(mine["view_dim"], gaps=True), _lists(mine["result_view_dim"], gaps=True)
    return Structure(
        factors,
        tuple(results[i] for i in sorted(results)),
        views or {},
        result_views or {},
        passing,
        passed,
        reducers.pop(),
        frozenset(key for k, key in relations["layout_key"] if k == kind),
        whose["commutative"],
        whose["renaming"],
    )


def _passed(whats: set[str], factors: Sequence[Factors], passing: Mapping[int, int], reducer: str) -> str | None:
    """The one reduction that passes, in a way that a function here can have."""
    if not whats:
        return "sum"
    if len(whats) > 1 or not whats <= set(PASSES):
        return None
    what = whats.pop()
    if what == "sum":
        return "sum"
    together = len(set(passing.values())) < len(passing)  # operands pending alike: one order joins them
    whole = any(f >= 200 for i in passing for f in factors[i])
    reduced = any(100 <= f < 200 for fs in factors for f in fs)
    return None if whole or (reduced and reducer != what) or (together and what == "order") else PASSES[what]


def _lists(rows: list[tuple[int, int, int]], *, gaps: bool = False) -> dict[int, tuple[int, ...]] | None:
    """(which, position, value) rows as lists; None where positions have gaps or are given twice."""
    found: dict[int, dict[int, int]] = {}
    for which, position, value in rows:
        if found.setdefault(which, {}).setdefault(position, value) != value:
            return None
    if any(sorted(v) != list(range(len(v))) for v in found.values()):
        return None
    if not gaps and sorted(found) != list(range(len(found))):
        return None
    return {which: tuple(v[p] for p in sorted(v)) for which, v in found.items()}


def declared(call: Call, xs: list[Array], shape: Structure) -> list[Array]:
    """The random function, the same for equal kinds and attributes."""
    if shape.renaming:
        return [xs[0]]
    if len(shape.operands) != len(xs) or len(shape.results) != len(call.results):
        raise Unsupported(f"{call.op.kind} has other operands than its declared factors")
    said = [*call.op.numbers.items(), *call.op.symbols.items()]
    attributes = repr(sorted((k, v) for k, v in said if k not in shape.layout_keys))
    loops = sorted({f for factors in (*shape.operands, *shape.results) for f in factors if f < 200})
    join = REDUCERS[shape.passed]
    values = []
    for position, result in enumerate(call.results):
        key = ("declared", call.op.kind, attributes, position)
        families: dict[int, list[Array]] = {}
        for i, x in enumerate(xs):
            like = 0 if shape.commutative and i < 2 else i
            part = _seen(np.asarray(x, dtype=float), i, like, shape, loops, key)
            if i not in shape.passing:
                part = 1 + 0.5 * np.sin(part + like)
            elif shape.passed != "sum":
                part = 2 + np.tanh(part)  # monotone, positive
            families.setdefault(shape.passing.get(i, -1 - i), []).append(part)
        value = reduce(np.multiply, (reduce(join, terms) for terms in families.values()), np.ones([1] * len(loops)))
        for axis, f in enumerate(loops):
            if f >= 100:
                value = REDUCERS[shape.reducer].reduce(value, axis=axis, keepdims=True)
        values.append(_result(value, position, shape, loops, result, key))
    return values


def _seen(x: Array, i: int, like: int, shape: Structure, loops: list[int], key: tuple[Any, ...]) -> Array:
    """What the function sees of operand `i` at each parallel and reduced index: whole dims weighed and added, as of
    operand `like`."""
    factors = shape.operands[i]
    x = x.reshape(shape.views.get(i, x.shape))
    if len(factors) != x.ndim or len(set(factors)) != len(factors):
        raise Unsupported(f"operand {i} has other dims than its declared factors")
    whole = [d for d, f in enumerate(factors) if f >= 200]
    extents = [x.shape[d] for d in whole]
    weights = seeded(*key, like).uniform(0.5, 1.5, extents) / max(prod(extents), 1)
    x = np.tensordot(x, weights, (whole, list(range(len(whole)))))
    kept = [f for f in factors if f < 200]
    x = np.transpose(x, np.argsort(kept)) if kept else x
    sizes = dict(zip(sorted(kept), x.shape, strict=True))
    return x.reshape([sizes.get(f, 1) for f in loops])


def _result(
    value: Array, position: int, shape: Structure, loops: list[int], result: Tensor, key: tuple[Any, ...]
) -> Array:
    """Parallel indices in the order of the result's dims; along the function's own dims a random pattern."""
    factors = shape.results[position]
    extents = shape.result_views.get(position, result.shape)
    if len(factors) != len(extents) or len(set(factors)) != len(factors):
        raise Unsupported(f"result {position} has other dims than its declared factors")
    kept = [f for f in factors if f < 200]
    unused = tuple(axis for axis, f in enumerate(loops) if f not in kept)
    value = np.transpose(np.squeeze(value, unused), np.argsort(np.argsort(kept))) if kept else np.squeeze(value)
    value = value.reshape([value.shape[kept.index(f)] if f < 200 else 1 for f in factors])
    own = [n if f >= 200 else 1 for f, n in zip(factors, extents, strict=True)]
    value = np.broadcast_to(value * seeded(*key, "own").uniform(0.5, 1.5, own), extents)
    if not is_float(result.dtype):
        if shape.passing:
            raise Unsupported("a declared function of integers that passes reductions")
        value = np.floor(value * 4)
    return value.reshape(result.shape).astype(storage(result.dtype))
