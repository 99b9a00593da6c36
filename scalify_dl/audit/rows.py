"""An adversary of facts: every table of a set of facts, changed row by row.

    for change in changes(tables, random.Random(0)):
        outcome = Reference(tables).judge(change.tables)

A changed set is refused, no longer proved, or still true: the oracle agrees with what is proved of it, with the numbers
that it had before (*nothing*) or with others (*numbers*). *Falsely proved* is what must not be.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.facts.schema import TABLES
from scalify_dl.facts.validate import validate
from scalify_dl.ir.vocabulary import DTYPES, ELEMENTWISE, REDUCERS
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.oracle.meaning.base import Unsupported
from scalify_dl.oracle.shrink.extents import Conflict
from scalify_dl.oracle.trial import run_trial

from .derive import derive_with, load_rules

Tables = Mapping[str, list[tuple[Any, ...]]]

OUTCOMES = ("refused", "unproved", "nothing", "numbers", "undecided", "falsely proved")

_WORDS = {
    "op.kind": sorted(ELEMENTWISE),
    "tensor.dtype": sorted(DTYPES),
    "attr_symbol.value": [*REDUCERS, "EQ", "NE", "LT", "GE", "ASC", "DESC", "wrap", "clamp"],
    "literal.text": ["0", "1", "-1", "2", "0.5", "inf", "-inf", "nan", "{...}"],
}
"""Texts to try where a column has its own vocabulary."""


class Change(NamedTuple):
    """A changed set of facts, and what was done: table, what (`drop`, `copy`, or the column), and the row as it is."""

    table: str
    what: str
    row: str
    tables: Tables


def changes(tables: Tables, rng: random.Random) -> Iterator[Change]:
    """Every row of every table dropped, copied to another place, and each of its cells changed in every way, in random
    order."""
    places = [(name, n) for name in TABLES for n in range(len(tables.get(name, ())))]
    rng.shuffle(places)
    for name, n in places:
        rows = tables[name]
        for what, row in [("drop", None), *_others(name, rows, n, rng)]:
            changed = [*rows[:n], *([] if row is None else [row]), *rows[n + 1 :]]
            if what == "copy":
                changed.append(rows[n])
            yield Change(name, what, "\t".join(map(str, row or rows[n])), {**tables, name: changed})


def _others(
    name: str, rows: list[tuple[Any, ...]], n: int, rng: random.Random
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Rows to put in place of the n-th."""
    table, row = TABLES[name], rows[n]
    for i, column in enumerate(table.columns):
        values: list[Any] = list(rng.sample(rows, min(2, len(rows))))
        values = [other[i] for other in values]
        if column.number:
            values += [row[i] + 1, row[i] - 1, -1 - row[i], 2 * row[i], 0, 2**31 - 1]
        else:
            words = _WORDS.get(f"{name}.{column.name}", [])
            values += rng.sample(words, min(3, len(words)))
            values += ["", f"{row[i]} ", f"{row[i]}1", f"{row[i]};b=2"] if column.refers is None else []
        for value in dict.fromkeys(values):
            if value != row[i]:
                changed = (*row[:i], value, *row[i + 1 :])
                yield column.name, changed
                if column.key and column.number:
                    yield "copy", changed


class Reference:
    """A proved set of facts, against which changed ones are held."""

    def __init__(self, tables: Tables) -> None:
        """InputError where the facts are not valid, or not proved."""
        self.rules = load_rules()
        validate(Facts(dict(tables)))
        if derive_with(self.rules.fresh(), tables).unproved:
            raise InputError("these facts are not proved", hint="an adversary of proofs needs one")
        self.numbers = _numbers(tables)

    def judge(self, tables: Tables) -> tuple[str, str]:
        """One of OUTCOMES for a changed set, and what shows it."""
        try:
            validate(Facts(dict(tables)))
        except InputError as error:
            return "refused", error.message
        derived = derive_with(self.rules.fresh(), tables)
        contradictions = derived.program.relation("inconsistent")
        if contradictions:
            return "refused", str(contradictions[0][0])
        if not derived.proved:
            return "unproved", ""
        try:
            proved = {dist for dist, _ in derived.proved}
            search = find_counterexample(load_program(tables), outputs=proved, localise=False, trials=2)
        except (InputError, Conflict, MemoryError) as error:
            return "undecided", str(error)
        for found in search.counterexamples:
            said = found.kind == "refutation" or (found.kind == "precision" and not derived.precision)
            if said and (found.output, found.base) in derived.proved:
                return "falsely proved", f"{found.output}: {found.kind} {found.mismatch}"
        if search.problems or search.counterexamples:
            return "undecided", search.problems[0] if search.problems else search.counterexamples[0].reason
        if derived.unproved:
            return "unproved", ""
        return ("nothing" if _same(self.numbers, _numbers(tables)) else "numbers"), ""


def _numbers(tables: Tables) -> list[np.ndarray[Any, Any]]:
    """What the outputs that are checked hold on one draw: the baseline's, and each rank's."""
    program = load_program(tables)
    try:
        trial = run_trial(program, 0, "reals")
    except (Unsupported, InputError):
        return []
    out = []
    for dist, base, _ in program.expects:
        out += [trial.baseline[base], *(value for _, value in sorted(trial.distributed[dist].items()))]
    return out


def _same(ours: list[np.ndarray[Any, Any]], theirs: list[np.ndarray[Any, Any]]) -> bool:
    return len(ours) == len(theirs) and all(
        a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
        for a, b in zip(ours, theirs, strict=True)
    )
