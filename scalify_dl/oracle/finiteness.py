"""Programs that ask whether numbers are finite: what the laws take for granted must not decide that for them.

Formulas are of numbers, and that the inputs are finite is listed. A program that looks for infinities, or for what is
no number (`is-finite(g)`, `x != x`, `|x| == inf`), is written for inputs that are not: a flag of overflow that one rank
keeps to itself is what the others should know. So both sides are also run on such inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from .program import Graph, Op, Program
from .trial import Trial, run_trial

MOVING = frozenset({"broadcast", "reshape", "transpose", "convert", "negate", "slice"})
"""Kinds whose results have the infinities of their operands."""


def noticed(
    program: Program, seeds: Sequence[int], keep_dist: Collection[str], *, sure: bool = False
) -> Iterator[Trial]:
    """Executions on inputs that are not finite, in which the program saw another thing than without infinities; or may
    have (in loops) unless they are to be `sure`.

    Raises what `run_trial` does."""
    asked, within = _tests(program), not sure and _tests_within(program)
    if not within and not any(asked.values()):
        return
    for seed in seeds:
        plain, odd = (
            run_trial(program, seed, how, keep_base=asked["base"], keep_dist=[*keep_dist, *asked["dist"]])
            for how in ("reals", "not finite")
        )
        if within or _noticed(plain, odd, asked):
            yield odd


def _noticed(plain: Trial, odd: Trial, asked: Mapping[str, Sequence[str]]) -> bool:
    seen = [(plain.baseline[t], odd.baseline[t]) for t in asked["base"]]
    for t in asked["dist"]:
        seen += [(value, odd.distributed[t][rank]) for rank, value in plain.distributed[t].items()]
    return any(not np.array_equal(before, after) for before, after in seen)


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
    for op in graph.ops:
        if (op.kind in MOVING and op.operands[0] in extreme) or _is_extreme(program, op):
            extreme.add(op.results[0])
        if op.kind == "is-finite" or _compares(op, extreme):
            yield op.results[0]


def _is_extreme(program: Program, op: Op) -> bool:
    literal = program.tensors[op.results[0]].literal if op.kind == "constant" else None
    return literal is not None and ("inf" in literal or "nan" in literal)


def _compares(op: Op, extreme: set[str]) -> bool:
    """A number with itself, or with an infinity."""
    if op.kind != "compare":
        return False
    return len({*op.operands}) == 1 or not extreme.isdisjoint(op.operands)
