"""Outputs that no rule proves: computed on formulas, and given back to the rules where both sides are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from scalify_dl.facts import Facts

SECONDS = 6.0
"""Wall time for all outputs of a run."""
WORDS = {
    "finite": "its values are finite",
    "nonzero": "it is not zero where it is divided by",
    "positive": "it is above zero where its logarithm is taken",
    "masked": "what stands beside this mask is small: exp of the mask less that is nothing",
    "shown": "no row of it is masked altogether: it is nowhere ∞ − ∞",
    "nonnegative": "it is not below zero where its root is taken",
}

Row = tuple[Any, ...]


def equalities(facts: Facts, rows: Callable[[str], Iterable[Row]]) -> tuple[list[Row], list[Row], list[str]]:
    """Rows of `proved_equal` and of `assumed_equality` for outputs that are not proved; where formulas part."""
    wanted = {row[:2] for row in rows("output_verdict") if row[2] != "PROVED"}
    if not wanted:
        return [], [], []
    from scalify_dl.algebra.decide import decider  # imported where something is left to decide
    from scalify_dl.oracle.dtypes import is_float

    proved: list[Row] = []
    needs: dict[Row, None] = {}
    endless = {value for value, sort in rows("may_be") if sort in ("inf", "-inf", "nan")}
    numbers = frozenset(value for (value,) in rows("needed_tensor") if value not in endless)
    decide = decider(facts.tables, rows("corr"), SECONDS, numbers)
    operands = {(op, pos): tensor for op, pos, tensor in facts["operand"]}
    made = {op: tensor for op, pos, tensor in facts["result"] if pos == 0}
    types = {tensor: dtype for tensor, _, dtype, _ in facts["tensor"]}
    kinds = {op: kind for op, _, kind in facts["op"]}
    for dist, base, text in facts["expect"]:
        if (dist, base) not in wanted:
            continue
        answer = decide.decide(dist, base, text)
        if answer is None:
            continue
        proved.append((dist, base, answer.layout))
        needs.update(dict.fromkeys((t, WORDS["finite"], "finite") for t in answer.inputs if is_float(types[t])))
        for op, what in answer.needs:
            if what in ("finite", "masked", "shown"):
                needs[made[op], WORDS[what], what] = None
                continue
            divides = kinds.get(op) in ("divide", "power") and (op, 1) in operands
            tensor = operands.get((op, 1 if divides and what == "nonzero" else 0))
            needs[tensor or op, WORDS[what], what] = None
    return proved, list(needs), list(decide.differences.values())
