"""Parts of long programs whose formulas are equal: told to the rules with what each rests on, before outputs are asked.

So of many layers that are written differently each kind is followed once, and the rules go through all in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from scalify_dl.facts import Facts

from .normal_forms import Stated, own_equalities, real_numbers, rounded_otherwise, unproved

Row = tuple[Any, ...]
SECONDS = 6.0
"""CPU time for all parts of a run."""
ELEMENTS = 50_000
"""Elements of programs of which outputs are followed as a whole first."""
OPS = 600
"""The same for ops of both sides."""


def claims_of_parts(
    facts: Facts, rows: Callable[[str], Iterable[Row]], outputs: Collection[tuple[str, str]] | None = None,
    *, small: bool = False,
) -> dict[str, list[Row]]:  # fmt: skip
    """Rows of `equal_if`, `equal_given` and `equal_needs` (and `assumed_equality`) for what outputs that are not proved
    (of some, if these are given) are made of. None for `small` programs unless asked: they are followed as a whole.
    """
    wanted = unproved(rows, outputs)
    if not wanted:
        return {}
    from scalify_dl.algebra.ahead import claims  # imported where something is left to decide
    from scalify_dl.algebra.decide import decider

    decide = decider(facts.tables, rows("corr"), SECONDS, real_numbers(rows), own_equalities(rows))
    if not small and decide.elements <= ELEMENTS and len(facts["op"]) <= OPS:
        return {}
    made = [*rows("equal_if")]
    known = {row[1:] for row in made}
    found = [
        (answer, given) for answer, given in claims(decide, sorted(wanted))
        if (answer.dist, answer.base, answer.layout) not in known
    ]
    if not found:
        return {}
    stated = Stated(facts, decide.rewritten)
    out: dict[str, list[Row]] = {"equal_if": [], "equal_given": [], "equal_needs": []}
    for number, (answer, given) in enumerate(found, len(made)):
        out["equal_if"].append((number, answer.dist, answer.base, answer.layout))
        out["equal_given"] += [(number, n, s.dist, s.base, str(s.layout)) for n, s in enumerate(given)]
        out["equal_needs"] += [(number, *row) for row in stated.rows(answer)]
    return out | {"assumed_equality": rounded_otherwise(decide.program)}
