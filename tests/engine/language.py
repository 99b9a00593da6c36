"""Short ways to run program text and to look at what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scalify_dl.pysouffle import Program, SourceError


def rows(source: str, relation: str = "r", facts: dict[str, Iterable[Any]] | None = None, **options: Any) -> set[Any]:
    """The rows of a relation after a run; rows of one column without their tuple."""
    program = Program.from_source(source, name="test.dl", **options)
    for name, given in (facts or {}).items():
        program.insert(name, given)
    program.run(timeout=20)
    found = program.relation(relation)
    assert len(found) == len(set(found))
    return {row[0] if len(row) == 1 else row for row in found}


def errors(source: str, **options: Any) -> list[tuple[int, int, str]]:
    """(line, column, message) of every error; empty if the program is accepted."""
    try:
        Program.from_source(source, name="test.dl", **options)
    except SourceError as error:
        return [(d.line, d.column, d.message) for d in error.diagnostics if d.severity == "error"]
    return []


def error(source: str, **options: Any) -> str:
    """The one error of a program as "line:column message"."""
    found = errors(source, **options)
    assert len(found) == 1, found
    line, column, message = found[0]
    return f"{line}:{column} {message}"


def warnings(source: str) -> list[tuple[int, str]]:
    return [(w.line, w.message) for w in Program.from_source(source, name="test.dl").warnings]
