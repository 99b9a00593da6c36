"""Where two runs part: the first distributed op whose operands read as baseline values (`readings`) and whose result
does not; where its operands read as multiples of baseline values only, the op at which the multiple begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from .compare import Mismatch, check, default_layouts
from .meaning import COLLECTIVES
from .program import Op, Program
from .readings import MATCH, Readings
from .trial import Trial

Start = tuple[Op, str]
"""An op, and which of its results."""


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


def locate(trial: Trial, outputs: Iterable[str], readings: Readings) -> dict[str, Place | None]:
    """For each wrong output the place from which it follows; needs a trial that kept all tensors of both sides.

    Linear in the graph, whatever the number of outputs.
    """
    ops = [op for g in trial.program.top("dist") for op in g.ops]
    producer = {t: op for op in ops for t in op.results}
    order = {op.id: i for i, op in enumerate(ops)}
    starts = _Starts(readings, producer, order)
    places: dict[tuple[str, str], Place] = {}
    found: dict[str, Place | None] = {}
    for output in outputs:
        start = starts.of(output)
        if start is None:
            found[output] = None
            continue
        key = (start[0].id, start[1])
        if key not in places:
            places[key] = _place(trial, readings, *start)
        found[output] = places[key]
    return found


class _Starts:
    """By tensor, the first op upstream, along what is nothing of the baseline's, whose operands are; and its result."""

    def __init__(self, readings: Readings, producer: Mapping[str, Op], order: Mapping[str, int]) -> None:
        self.readings, self.producer, self.order = readings, producer, order
        self._memo: dict[str, Start | None] = {}

    def of(self, tensor: str) -> Start | None:
        """None for what no op makes."""
        stack = [tensor]
        while stack:
            here = stack[-1]
            op = self.producer.get(here)
            if here in self._memo or op is None:
                self._memo.setdefault(here, None)
                stack.pop()
                continue
            missing = [t for t in op.operands if self.readings.lost(t)]
            waiting = [t for t in missing if t not in self._memo]
            if waiting:
                stack += waiting
                continue
            above = [start for t in missing if (start := self._memo[t]) is not None]
            if missing:
                self._memo[here] = min(above, key=lambda start: self.order[start[0].id], default=None)
            else:
                self._memo[here] = _where_it_begins(self.readings, self.producer, op, here)
        return self._memo[tensor]


def _where_it_begins(readings: Readings, producer: Mapping[str, Op], op: Op, tensor: str) -> Start:
    """Upstream along values that are a multiple of the baseline's and nothing else, to the op that makes one."""
    while True:
        scales = _multiples(readings, tensor)
        for operand in op.operands:
            before = _multiples(readings, operand)
            # a number that changes the multiple is where this one begins
            rescaled = before != scales and scales and not readings.varying.issuperset(op.operands)
            if before and operand in producer and not rescaled:
                op, tensor = producer[operand], operand
                break
        else:
            return op, tensor


def _multiples(readings: Readings, tensor: str) -> set[Fraction]:
    """What the tensor is times a baseline value, if it reads as whole multiples only; else nothing."""
    found = readings.of(tensor) if tensor in readings.varying else []
    return set() if any(r.scale == 1 or r.axes for r in found) else {r.scale for r in found}


def _partner(program: Program, op: Op, held: Sequence[set[str]]) -> Op | None:
    """The op of the baseline of this kind that has most of the operands, as they read; where several have as many, the
    one that comes as this one does among those with its operands, if there are as many of them; else none is named."""
    scores: dict[int, list[Op]] = {}
    for graph in program.top("base"):
        for candidate in graph.ops:
            if candidate.kind == op.kind and len(candidate.operands) == len(op.operands):
                score = sum(t in h for t, h in zip(candidate.operands, held, strict=True))
                scores.setdefault(score, []).append(candidate)
    best = max(scores, default=0)
    if not best or len(scores[best]) == 1:
        return scores[best][0] if best else None
    alike = [o for g in program.top("dist") for o in g.ops if o.kind == op.kind and o.operands == op.operands]
    return scores[best][alike.index(op)] if len(alike) == len(scores[best]) else None


def _place(trial: Trial, readings: Readings, op: Op, tensor: str) -> Place:
    program = trial.program
    held = [{r.base for r in readings.of(t)} for t in op.operands]
    partner = _partner(program, op, held)
    if partner is not None:
        base_op: str | None = partner.id
        counterpart = partner.results[op.results.index(tensor)]
    elif op.kind in COLLECTIVES and held[0]:  # it should give the whole of what its operand is part of
        counterpart = readings.of(op.operands[0])[0].base
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
