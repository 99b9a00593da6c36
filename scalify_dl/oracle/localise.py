"""Where two runs part: the first distributed op whose operands hold baseline values and whose result does not.

A distributed value *holds* a baseline value if a given correspondence says so and the numbers agree, or if together
(or summed over some mesh axes) the ranks hold exactly the numbers of some baseline tensor. This is for finding the
place, never for deciding whether there is a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from scalify_dl.errors import InputError

from .compare import Mismatch, check, default_layouts
from .meaning import COLLECTIVES
from .program import Op, Shard
from .trial import Trial

Array = np.ndarray[Any, Any]
MATCH = 1e-11


@dataclass(frozen=True, slots=True)
class Place:
    """The op where it starts; the baseline op it most likely implements; and an element that shows it, where one
    does."""

    op: str
    kind: str
    base_op: str | None
    base_tensor: str | None
    layout: str
    mismatch: Mismatch | None


def _key(arrays: Iterable[Array]) -> tuple[Any, ...] | None:
    """Extremes and means of the numbers, coarse enough to survive rounding: the same however they are split or
    repeated."""
    flat = [np.asarray(a) for a in arrays]
    if not flat or not flat[0].size or flat[0].dtype.kind == "c":
        return None
    real = [a.astype(np.float64) for a in flat]
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = [
            min(float(a.min()) for a in real),
            max(float(a.max()) for a in real),
            sum(float(a.mean()) for a in real) / len(real),
            sum(float(np.abs(a).mean()) for a in real) / len(real),
            sum(float(np.square(a).mean()) for a in real) / len(real),  # rows of a softmax all have one mean
        ]
    if np.isnan(numbers[0]) or np.isnan(numbers[1]):
        return None
    small = 1e-12 * numbers[3]  # a mean that is zero but for rounding
    return (flat[0].dtype.kind, *(f"{0.0 if abs(n) <= small else n:.9e}" for n in numbers))


class Matcher:
    """Which baseline tensors the values of a trial hold."""

    def __init__(self, trial: Trial, relations: Iterable[Shard]) -> None:
        self.trial, self.program = trial, trial.program
        self._base: dict[tuple[Any, ...], list[str]] = {}
        for tensor, value in trial.baseline.items():
            key = _key([value])
            if key is not None:
                self._base.setdefault(key, []).append(tensor)
        self._related: dict[str, list[Shard]] = {}
        for row in relations:
            self._related.setdefault(row.dist, []).append(row)
        self._memo: dict[str, list[str]] = {}

    def holds(self, tensor: str) -> list[str]:
        """Baseline tensors that a distributed tensor holds, most certain first."""
        if tensor not in self._memo:
            value = self.trial.distributed.get(tensor)
            self._memo[tensor] = [] if value is None else [*self._confirmed(tensor, value), *self._found(value)]
        return self._memo[tensor]

    def _confirmed(self, tensor: str, value: Mapping[int, Array]) -> list[str]:
        good = []
        for row in self._related.get(tensor, ()):
            base = self.trial.baseline.get(row.base)
            try:
                if base is not None and (
                    check(base, row.base_piece, value, row.dist_piece, row.layout, self.program.coords, MATCH) is None
                ):
                    good.append(row.base)
            except (ValueError, IndexError, InputError):
                continue
        return good

    def _found(self, value: Mapping[int, Array]) -> list[str]:
        found = list(self._base.get(_key(value.values()) or (), ()))
        if found or next(iter(value.values())).dtype.kind != "f":
            return found
        axes = [axis for axis, size in self.program.mesh.items() if size > 1]
        for count in range(1, len(axes) + 1):
            for summed in combinations(axes, count):
                groups: dict[tuple[int, ...], list[Array]] = {}
                for rank, x in value.items():
                    at = self.program.coords[rank]
                    groups.setdefault(tuple(at[a] for a in self.program.mesh if a not in summed), []).append(x)
                found += self._base.get(_key(np.sum(xs, axis=0) for xs in groups.values()) or (), [])
        return found


def locate(trial: Trial, output: str, relations: Iterable[Shard] = ()) -> Place | None:
    """The place from which the wrong output follows; needs a trial that kept all tensors of both sides."""
    program = trial.program
    matcher = Matcher(trial, relations)
    producer = {t: op for g in program.top("dist") for op in g.ops for t in op.results}
    order = {op.id: i for i, op in enumerate(op for g in program.top("dist") for op in g.ops)}
    roots: list[tuple[Op, str]] = []
    seen: set[str] = set()
    stack = [output]
    while stack:
        tensor = stack.pop()
        op = producer.get(tensor)
        if tensor in seen or op is None:
            continue
        seen.add(tensor)
        missing = [t for t in op.operands if not matcher.holds(t)]
        stack.extend(missing)
        if not missing:
            roots.append((op, tensor))
    if not roots:
        return None
    op, tensor = min(roots, key=lambda root: order[root[0].id])
    return _place(trial, matcher, op, tensor)


def _place(trial: Trial, matcher: Matcher, op: Op, tensor: str) -> Place:
    program = trial.program
    held = [set(matcher.holds(t)) for t in op.operands]
    best: tuple[int, Op] | None = None
    for graph in program.top("base"):
        for candidate in graph.ops:
            if candidate.kind != op.kind or len(candidate.operands) != len(op.operands):
                continue
            score = sum(t in h for t, h in zip(candidate.operands, held, strict=True))
            if score and (best is None or score > best[0]):
                best = (score, candidate)
    if best is not None:
        base_op: str | None = best[1].id
        counterpart = best[1].results[op.results.index(tensor)]
    elif op.kind in COLLECTIVES and held[0]:  # it should give the whole of what its operand is part of
        counterpart = matcher.holds(op.operands[0])[0]
        base_op = next((o.id for g in program.top("base") for o in g.ops if counterpart in o.results), None)
    else:
        return Place(op.id, op.kind, None, None, "", None)
    base = trial.baseline.get(counterpart)
    value = trial.distributed[tensor]
    closest: tuple[Mismatch, str] | None = None
    if base is not None:
        local = next(iter(value.values()))
        for layout in default_layouts(
            base.shape, local.shape, program.mesh, "sum" if local.dtype.kind == "f" else None
        ):
            wrong = check(base, (), value, (), layout, program.coords, MATCH)
            if wrong is not None and (closest is None or wrong.share < closest[0].share):
                closest = (wrong, str(layout))
    return Place(op.id, op.kind, base_op, counterpart, closest[1] if closest else "", closest[0] if closest else None)
