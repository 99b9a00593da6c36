"""Writes what was concluded of a schedule as a certificate; `scalify_dl/certificate/schedules.py` checks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scalify_dl.certificate.files import write_lines
from scalify_dl.certificate.schedules import ASKED, KEY, SHOWN, hashes
from scalify_dl.pysouffle import rules_dir

from .run import MAIN
from .tables import Schedule
from .verdict import Result


def tables_of(schedule: Schedule) -> dict[str, list[tuple[Any, ...]]]:
    """All tables of a schedule, by name."""
    return {"chain": list(schedule.chains)} | {table: list(schedule.tuples(table)) for table in schedule.rows}


def write(path: Path, schedule: Schedule, result: Result, said: Mapping[str, Any]) -> None:
    """Writes the certificate of a result; `said` is how the files were read."""
    write_lines(path, _lines(schedule, result, said))


def _lines(schedule: Schedule, result: Result, said: Mapping[str, Any]) -> Iterator[Any]:
    facts, rules = hashes(rules_dir() / MAIN, rules_dir(), tables_of(schedule))
    yield {
        KEY: dict(said), "facts": facts, "rules": rules, "verdict": result.verdict.value,
        "assumptions": list(schedule.assumptions),
    }  # fmt: skip
    for outcome in result.outcomes:
        assert outcome.program is not None
        derived = {relation: sorted(outcome.program.relation(relation)) for relation in (*SHOWN, ASKED)}
        yield {"capacity": outcome.capacity, "examine": sorted(outcome.program.relation("examine")), "derived": derived}
