"""Certificates of schedules, and their checker: what follows from a schedule's tables is computed anew, and compared.

The second line says what is concluded, from what:

    {"schedule": {"sends": [0, null], "streams": "pair", "durations": {}}, "facts": {file: sha256},
     "rules": {file: sha256}, "verdict": "PROVED", "assumptions": [text]}

the others are runs of the rules, each for a capacity of channels (null: any number of messages):

    {"capacity": 0, "examine": [[e, f]], "derived": {relation: rows}}

Nothing is taken from a run but the questions that were asked (`examine`): every relation is evaluated by the checker
itself, from the tables of the files that the user names, and has to have the stated rows. From these the verdict
follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .closed import Closed
from .files import CertificateError, read_lines, table_hash
from .rules import read_rules
from .structure import Structure
from .terms import RuleError

KEY = "schedule"
ERRORS = (
    "malformed", "unmatched", "unmatched_member", "first_wrong", "first_mismatch", "stuck", "race", "unread",
    "overwritten", "too_early", "orphan",
)  # fmt: skip
"""Relations of which no row may follow for a schedule that is right."""
OPEN = "undecided"
ASKED = "suspect"
"""Pairs whose order rests on messages, and so on the room that these find."""
SHOWN = (*ERRORS, OPEN, "makespan", "idle", "peak")
Rows = Iterable[Sequence[Any]]


@dataclass(frozen=True)
class CheckedSchedule:
    """What an accepted certificate proves."""

    verdict: str
    assumptions: list[str]
    rows: int
    """Rows that were computed."""


def hashes(rules: Path, shipped: Path, tables: Mapping[str, Rows]) -> tuple[dict[str, str], dict[str, str]]:
    """Hashes of the tables, by file, and of the rule files."""
    read = read_rules([rules])
    facts = {name: table_hash(tables.get(Path(name).stem, ())) for name in read.inputs.values() if name not in ASIDE}
    return facts, {file.relative_to(shipped.resolve()).as_posix(): digest for file, digest in read.files.items()}


ASIDE = ("capacity.facts", "examine.facts")
"""What a run says of itself."""


def settings(certificate: Path) -> dict[str, Any] | None:
    """How the files of a certificate are to be read; None for one that is not of a schedule. CertificateError where it
    is damaged."""
    header = next(read_lines(certificate), None)
    found = header.get(KEY) if isinstance(header, dict) else None
    return found if isinstance(found, dict) else None


def replay(
    certificate: Path, rules: Path, shipped: Path, tables: Mapping[str, Rows], assumptions: Sequence[str]
) -> CheckedSchedule:
    """Accept a certificate over tables that were read from the user's files; CertificateError says why not."""
    try:
        return _accept(list(read_lines(certificate)), rules, shipped, tables, assumptions)
    except RuleError as error:
        raise CertificateError(f"the rules are not understood: {error}") from None
    except CertificateError:
        raise
    except Exception as error:  # nor what the checker stumbles over
        raise CertificateError(f"cannot be checked: {type(error).__name__}: {error}") from None


def _accept(
    lines: list[Any], rules: Path, shipped: Path, tables: Mapping[str, Rows], assumptions: Sequence[str]
) -> CheckedSchedule:
    header, runs = lines[0], lines[1:]
    facts, files = hashes(rules, shipped, tables)
    for what, found in (("facts", facts), ("rules", files)):
        stated = header.get(what)
        if stated != found:
            stated = stated if isinstance(stated, dict) else {}
            wrong = [name for name in sorted(stated.keys() | found.keys()) if stated.get(name) != found.get(name)]
            raise CertificateError(f"it is about other {what}: {', '.join(wrong[:5])}")
    if header.get("assumptions") != list(assumptions):
        raise CertificateError("the assumptions are not those of the files")
    read = read_rules([rules])
    structure = Structure(read)
    given = {
        Path(name).stem: dict.fromkeys(map(tuple, tables.get(Path(name).stem, ()))) for name in read.inputs.values()
    }
    sends, count, bad = header[KEY]["sends"], 0, list[bool]()
    open_ = crossing = malformed = False
    capacities = [run["capacity"] for run in runs]
    for run in runs:
        own = {ASIDE[0]: [(run["capacity"],)] if run["capacity"] is not None else [], ASIDE[1]: run["examine"]}
        more = {Path(name).stem: dict.fromkeys(map(tuple, rows)) for name, rows in own.items()}
        closed = Closed(read, structure, given | more, {}, {})
        for relation in dict.fromkeys((*SHOWN, *run["derived"])):
            stated = {tuple(row) for row in run["derived"].get(relation, ())}
            if relation not in read.relations or stated != closed.rows(relation).keys():
                raise CertificateError(f"the rows of {relation} are not those that follow from the files")
        count += sum(len(table.rows) for table in closed.tables.values())
        bad.append(any(closed.rows(relation) for relation in ERRORS))
        open_ = open_ or bool(closed.rows(OPEN))
        crossing = crossing or bool(closed.rows(ASKED))
        malformed = malformed or bool(closed.rows(ERRORS[0]))
    settled = capacities == [0] and not bad[0] and not crossing and not open_  # more room changes nothing
    if capacities != sends and not (settled and sends and sends[0] == 0) and not malformed:
        raise CertificateError("not all capacities that were asked about are shown")
    verdict = "REFUTED" if all(bad) else "UNKNOWN" if any(bad) or open_ else "PROVED"
    if not runs or verdict != header.get("verdict"):
        raise CertificateError(f"the verdict that follows is {verdict}")
    return CheckedSchedule(verdict, list(assumptions), count)
