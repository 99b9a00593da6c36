"""Refutations that are gone in another execution of the same draws, where machines may compute as that does: they are
witnesses.
"""

from __future__ import annotations

from dataclasses import replace

from scalify_dl.errors import InputError

from .dtypes import BEYOND, is_float, is_integer
from .execute import Deadlock
from .found import Search
from .literals import rounds_constants
from .meaning import Unsupported
from .outputs import compared, not_numbers, outputs_of
from .program import Program, Shard
from .rounded import jumps
from .trial import run_trial


def leave_to_rounding(program: Program, rows: list[Shard], search: Search) -> None:
    """Refutations that are gone where constants and casts round are witnesses: a constant is read as the number that
    was meant (bf16 0.334 as 1/3), and a compiler that has cast it has written what is left of it (0.333984375); what is
    made of constants decides choices as it is rounded (0.7 + 0.1 == 0.8 in f32)."""
    if rounds_constants(program) or jumps(program):
        reason = "over the reals only: where constants and casts round, the two sides agree"
        _leave(program, rows, search, reason, rounding=True)


def leave_to_machines(program: Program, rows: list[Shard], search: Search) -> None:
    """Those that are gone where real numbers beyond the integer type that they are cast to wrap round, are, too."""
    if casts_to_integers(program):
        token = BEYOND.set("wrap")
        try:
            reason = "of numbers beyond the integer type that they are cast to: each machine has its own answer there"
            _leave(program, rows, search, reason, rounding=False)
        finally:
            BEYOND.reset(token)


def casts_to_integers(program: Program) -> bool:
    """Whether an op casts real numbers to integers."""
    types = {t: declared.dtype for t, declared in program.tensors.items()}
    return any(
        op.kind == "convert" and is_float(types[op.operands[0]]) and is_integer(types[op.results[0]])
        for graph in program.graphs.values() for op in graph.ops
    )  # fmt: skip


def _leave(program: Program, rows: list[Shard], search: Search, reason: str, *, rounding: bool) -> None:
    """Refutations that are gone in another execution of the same draws are witnesses."""
    shown = [c for c in search.counterexamples if c.kind == "refutation"]
    if not shown:
        return
    pending = {output.dist: output for output in outputs_of(program, [c.output for c in shown], Search())}
    gone = set()
    for seed, how in sorted({(c.seed, c.draw) for c in shown}):
        try:
            trial = run_trial(program, seed, how, rounding=rounding, relations=rows)
        except (Unsupported, Deadlock, InputError, MemoryError):
            return
        here = [pending[c.output] for c in shown if (c.seed, c.draw) == (seed, how) and c.output in pending]
        undefined = not_numbers(trial, here)
        gone |= {output.dist for output in here if output not in undefined and compared(trial, output, here) is None}
    search.counterexamples = [
        replace(c, kind="witness", reason=reason) if c.output in gone and c.kind == "refutation" else c
        for c in search.counterexamples
    ]
