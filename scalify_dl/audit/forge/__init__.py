"""A forger of certificates: does the checker accept anything that is not so?

    campaign = forge(count=1000, seed=0)
    assert not campaign.accepted

It knows the checker. Certificates of true claims are changed (moves.py), and certificates of one run are made out to be
those of another, whose claims are false. A forgery is *accepted* where the checker takes it although its claims are not
those of the engine's own run of the same rules on the same facts, with the choices that it states: an output that is
not proved there, or with another layout; an assumption that is missing or not made; premises that contradict each
other. A *stumble* is any exception of the checker but its refusal. A change that leaves a proof of true claims is
harmless.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scalify_dl.certificate.check import Checked
from scalify_dl.certificate.files import CertificateError, table_hash
from scalify_dl.pysouffle import EvaluationError

from .moves import Lines, ambitions, forged, mended
from .small import Case, Small, neighbour, random_tables

POOL = 8
"""Proofs that forgeries are made of at a time, and facts a row away from each of them."""
ROUND = 150
"""Forgeries of one pool that are begun."""
MENDED = (0, 3, 10, 30)
"""How often one that is refused at a line is tried again with that line made otherwise."""


@dataclass
class Campaign:
    """What became of forgeries. `harmless` ones were accepted and claim what is so."""

    made: int = 0
    harmless: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    accepted: list[tuple[Any, Lines]] = field(default_factory=list)
    stumbles: list[tuple[str, Lines]] = field(default_factory=list)


def forge(count: int, seed: int = 0, progress: Callable[[Campaign], None] = lambda campaign: None) -> Campaign:
    """So many forgeries of proofs by the small rules."""
    chance, found, rules = random.Random(seed), Campaign(), Small()
    try:
        while found.made < count:
            pool = _pool(chance, rules)
            for _ in range(ROUND):
                if found.made == count:
                    break
                (case, near), (other, _) = chance.choice(pool), chance.choice(pool)
                if chance.random() < 0.4:
                    lines, about = forged(chance, case.lines, other.lines), case
                else:  # claims about facts of which they are not true, or not all
                    claims = [(d, t, chance.choice(["1,", "2,", "3,"])) for d, t, _ in near.tables["expect"]]
                    aim = ambitions(case.lines, claims if chance.random() < 0.2 else (), _hashes(rules, near))
                    lines, about = forged(chance, aim, other.lines) if chance.random() < 0.4 else aim, near
                at = _try(found, lines, about, rules)
                for _ in range(chance.choice(MENDED) if at else 0):
                    if at and found.made < count:
                        lines = mended(chance, lines, at)
                        at = _try(found, lines, about, rules)
            progress(found)
    finally:
        rules.close()
    return found


def _pool(chance: random.Random, rules: Small) -> list[tuple[Case, Case]]:
    """Proofs, each with facts that differ from its own in a row."""
    pool: list[tuple[Case, Case]] = []
    while len(pool) < POOL:
        case = rules.case(random_tables(chance))
        if case.lines:
            pool.append((case, rules.case(neighbour(chance, case.tables))))
    return pool


def _hashes(rules: Small, case: Case) -> dict[str, str]:
    deciding = rules.checker.structure.deciding
    return {name: table_hash(case.tables.get(relation, ())) for relation, name in deciding.items()}


def _try(found: Campaign, lines: Lines, case: Case, rules: Small) -> int:
    """Count what becomes of a forgery; where it was refused, as an index of `lines`, 0 for no line."""
    found.made += 1
    try:
        checked = rules.checker.accept(lines, case.tables)
    except CertificateError as error:
        found.refused[_kind(str(error))] += 1
        number = re.match(r"line (\d+)", str(error))
        return int(number[1]) - 2 if number else 0
    except Exception as error:
        found.stumbles.append((repr(error), lines))
        return 0
    if _is_so(case, rules, checked, lines[0]):
        found.harmless += 1
    else:
        found.accepted.append((case.tables, lines))
    return 0


def _kind(text: str) -> str:
    """A refusal without what is particular about it."""
    return " ".join(word for word in text.split()[:9] if word.isalpha())


def _is_so(case: Case, rules: Small, checked: Checked, header: dict[str, Any]) -> bool:
    """Whether the engine concludes the same, of the same choices, and the file says the same."""
    try:
        program = rules.run(case.tables, {r: list(map(tuple, rows)) for r, rows in header["choices"].items()})
    except EvaluationError:
        return False
    proved = {(d, t, layout) for d, t, verdict, layout in program.relation("output_verdict") if verdict == "PROVED"}
    return (
        set(checked.outputs) <= proved
        and {row[:2] for row in checked.outputs} >= {row[:2] for row in case.tables["expect"]}
        and [list(row) for row in checked.outputs] == header["outputs"]
        and checked.assumptions == sorted(program.relation("assumption"))
        and [list(row) for row in checked.assumptions] == header["assumptions"]
        and not program.relation("inconsistent")
    )
