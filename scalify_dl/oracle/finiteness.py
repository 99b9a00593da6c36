"""Programs that ask whether numbers are finite: what the laws take for granted must not decide that for them.

Formulas are of numbers, and that the inputs are finite is listed. A program that looks for infinities, or for what is
no number (`is-finite(g)`, `x != x`, `|x| == inf`), is written for inputs that are not: a flag of overflow that one rank
keeps to itself is what the others should know. So both sides are also run on such inputs.

Tests need not look like tests: `x - x == 0`, `x <= 0 or x > 0`, `0 * x == 0`. A truth value or an integer that says
one thing all over a tensor, whatever finite numbers it is made of, and another one here, is a test, too: *silent* until
then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.literals import ELIDED

from .customary import MOVING, customary
from .dtypes import is_integer
from .execute import Deadlock
from .meaning import COLLECTIVES, RANDOM, Unsupported, is_opaque
from .program import Graph, Op, Program
from .trial import Trial, run_trial

Kept = Mapping[str, Sequence[str]]
"""Tensors by role."""
Array = np.ndarray[Any, Any]

FINITE = ("reals", "positive", "integers", *["wide"] * 4, *["singular"] * 3)
"""How inputs are drawn to see which values say one thing whatever numbers they are made of."""


SECONDS = 2.0
"""CPU seconds for what does not look like a test."""


@dataclass(frozen=True)
class Noticed:
    """An execution on inputs that are not finite, and the values that say another thing there, by role; None where that
    is not seen (in loops)."""

    program: Program
    trial: Trial
    tests: Mapping[str, Collection[str]] | None

    def concerns(self, dist: str, base: str) -> bool:
        """Whether an output hangs on such a value: what is said elsewhere decides nothing of it."""
        return self.tests is None or dist in self._behind["dist"] or base in self._behind["base"]

    @cached_property
    def _behind(self) -> dict[str, set[str]]:
        return {role: _behind(self.program, role, names) for role, names in (self.tests or {}).items()}


def _behind(program: Program, role: str, tests: Collection[str]) -> set[str]:
    """Values that hang on some; all where programs of ranks hand values to each other."""
    graphs, found = program.top(role), set(tests)
    if found and len(graphs) > 1:
        return {*program.tensors}
    for graph in graphs:
        for op in graph.ops:
            if not found.isdisjoint(_read_by(program, op)):
                found.update(op.results)
    return found


def _read_by(program: Program, op: Op) -> Iterator[str]:
    """What an op reads, and all that is in its bodies."""
    yield from op.operands
    for region in op.regions:
        for inner in program.graphs[region].ops:
            yield from _read_by(program, inner)
            yield from inner.results


def asks(program: Program) -> bool:
    """Whether a program has an op that says whether numbers are finite."""
    return _tests_within(program) or any(_tests(program).values())


def noticed(
    program: Program, seeds: Iterable[int], keep_dist: Collection[str], *, sure: bool = False
) -> Iterator[Noticed]:
    """Executions on inputs that are not finite, in which the program saw another thing than without infinities; or may
    have (in loops) unless they are to be `sure`.

    Raises what `run_trial` does."""
    asked, within = _tests(program), not sure and _tests_within(program)
    if not within and not any(asked.values()):
        return
    for seed in seeds:
        plain, odd = (_run(program, seed, how, asked, keep_dist) for how in ("reals", "not finite"))
        told = _told(plain, odd, asked, lambda a, b: not np.array_equal(a, b))
        if within or any(told.values()):
            yield Noticed(program, odd, None if within else told)


def noticed_silently(program: Program, seeds: Sequence[int], keep_dist: Collection[str]) -> Iterator[Noticed]:
    """Executions on inputs that are not finite, in which something else is said by what says one thing of all finite
    numbers that were tried. Executions that are not possible are left out, and those for which no time is left."""
    asked = _truths(program)
    said: Trial | None = None
    end = time.process_time() + SECONDS
    for seed, how in enumerate(FINITE):
        if not any(asked.values()) or time.process_time() > end:
            return
        trial = _tried(program, seed, how, asked, ())
        if trial is None:
            continue
        said = said or trial
        asked = {role: [t for t in names if _says_one(said, trial, t, role)] for role, names in asked.items()}
    if said is None:
        return
    for seed in seeds:
        if time.process_time() > end:
            return
        odd = _tried(program, seed, "not finite", asked, keep_dist)
        told = _told(said, odd, asked, lambda a, b: bool((a.flat[0] != b).any())) if odd else {}
        if odd and any(told.values()):
            yield Noticed(program, odd, told)


def _run(program: Program, seed: int, how: str, asked: Kept, keep_dist: Collection[str]) -> Trial:
    return run_trial(program, seed, how, keep_base=asked["base"], keep_dist=[*keep_dist, *asked["dist"]])


def _tried(program: Program, seed: int, how: str, asked: Kept, keep_dist: Collection[str]) -> Trial | None:
    try:
        return _run(program, seed, how, asked, keep_dist)
    except (Unsupported, Deadlock, InputError):
        return None


def _beside(one: Trial, other: Trial, asked: Kept) -> Iterator[tuple[Array, Array]]:
    """Values of the same tensors in two executions."""
    for t in asked["base"]:
        if t in one.baseline and t in other.baseline:
            yield one.baseline[t], other.baseline[t]
    for t in asked["dist"]:
        there = other.distributed.get(t, {})
        yield from ((value, there[rank]) for rank, value in one.distributed.get(t, {}).items() if rank in there)


def _told(one: Trial, other: Trial, asked: Kept, differ: Callable[[Array, Array], bool]) -> dict[str, list[str]]:
    """By role, tensors that differ in two executions."""
    return {
        role: [t for t in names if any(differ(a, b) for a, b in _beside(one, other, {**NOBODY, role: [t]}))]
        for role, names in asked.items()
    }


NOBODY: Kept = {"base": [], "dist": []}


def _says_one(said: Trial, trial: Trial, tensor: str, role: str) -> bool:
    """Whether a tensor is in both executions one number all over, on all ranks, and the same."""
    values = [x for pair in _beside(said, trial, {"base": [], "dist": [], role: [tensor]}) for x in pair]
    return bool(values) and all(x.size and (x == values[0].flat[0]).all() for x in values)


def _truths(program: Program) -> dict[str, list[str]]:
    """By role, truth values and integers that ops make of what inputs say, also in loops and branches."""
    found: dict[str, list[str]] = {"base": [], "dist": []}
    for role, results in found.items():
        waiting = [*program.top(role)]
        told = {t for graph in waiting for t in graph.inputs}
        for graph in waiting:
            _tell(program, graph, told, alone=len(waiting) == 1)
        while waiting:
            graph = waiting.pop()
            usual = customary(program, graph)
            for op in graph.ops:
                waiting += [program.graphs[region] for region in op.regions]
                results += [t for t in op.results if _is_discrete(program.tensors[t].dtype) and t in told - usual]
    return found


def _tell(program: Program, graph: Graph, told: set[str], *, alone: bool) -> None:
    """Adds all of a graph that is not one value in all executions: what `told` has a say in, and what is drawn or
    invented. Programs that are not `alone` are handed values by others."""
    for op in graph.ops:
        regions = [program.graphs[region] for region in op.regions]
        loop = op.kind == "while"
        before = -1
        while before < len(told):  # what a loop gives back comes in again
            before = len(told)
            moved = [t in told for t in op.operands]
            if loop:
                moved = [given or result in told for given, result in zip(moved, op.results, strict=True)]
            for region in regions:
                told.update(t for n, t in enumerate(region.inputs) if (moved[n] if loop else any(moved)))
                _tell(program, region, told, alone=alone)
            if loop:
                ends = not told.isdisjoint(regions[0].outputs)
                back = zip(op.results, moved, regions[1].outputs, strict=True)
                told.update(result for result, given, t in back if given or ends or t in told)
        handed = op.kind in COLLECTIVES and not alone
        drawn = op.kind in RANDOM or is_opaque(op.kind) or _is_elided(program, op)
        within = any(not told.isdisjoint(region.outputs) for region in regions)
        if handed or drawn or (not loop and (within or not told.isdisjoint(op.operands))):
            told.update(op.results)


def _is_elided(program: Program, op: Op) -> bool:
    if op.kind != "constant" or "value" in op.by_rank or "value" in op.numbers:
        return False
    tensor = program.tensors[op.results[0]]
    return tensor.items is None and tensor.literal in (None, ELIDED)


def _is_discrete(dtype: str) -> bool:
    return dtype == "pred" or is_integer(dtype)


def _tests(program: Program) -> dict[str, list[str]]:
    """By role, the results of ops of whole programs that say whether numbers are finite."""
    found: dict[str, list[str]] = {"base": [], "dist": []}
    for role, results in found.items():
        for graph in program.top(role):
            results += _of_graph(program, graph)
    return found


def _tests_within(program: Program) -> bool:
    """Whether bodies of loops and branches ask: what they see is not seen from outside."""
    top = {id(graph) for role in ("base", "dist") for graph in program.top(role)}
    return any(True for g in program.graphs.values() if id(g) not in top for _ in _of_graph(program, g))


def _of_graph(program: Program, graph: Graph) -> Iterator[str]:
    extreme: set[str] = set()  # constants that are infinite, or no numbers
    usual = customary(program, graph)
    for op in graph.ops:
        if (op.kind in MOVING and op.operands[0] in extreme) or _is_extreme(program, op):
            extreme.add(op.results[0])
        if (op.kind == "is-finite" or _compares(op, extreme)) and op.results[0] not in usual:
            yield op.results[0]


def _is_extreme(program: Program, op: Op) -> bool:
    literal = program.tensors[op.results[0]].literal if op.kind == "constant" else None
    return literal is not None and ("inf" in literal or "nan" in literal)


def _compares(op: Op, extreme: set[str]) -> bool:
    """A number with itself, or with an infinity."""
    if op.kind != "compare":
        return False
    return len({*op.operands}) == 1 or not extreme.isdisjoint(op.operands)
