"""Errors about rows of fact tables."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from scalify_dl.errors import InputError

from .model import Facts, Row


def error(
    facts: Facts,
    table: str,
    row: int,
    message: str,
    *,
    column: int = 1,
    expected: str | None = None,
    hint: str | None = None,
) -> InputError:
    """An error about one row (0-based); about an op of facts that were made of programs, at its line of a program."""
    file, line = facts.place(table, row)
    if facts.directory is None and table == "op":
        op = facts["op"][row][0]
        for of, position, source, at, _ in facts["source"]:
            if of == op and position == 0 and source:
                return InputError(message, file=source, line=at, expected=expected, hint=hint)
    return InputError(message, file=file, line=line, column=column, expected=expected, hint=hint)


def first(rows: Iterable[Row], column: int, values: Container[object]) -> int:
    """The first row whose column is among the values."""
    return next(n for n, row in enumerate(rows) if row[column] in values)


def columns(rows: Sequence[Row], width: int) -> list[tuple[Any, ...]]:
    """The columns of a table of `width` columns."""
    return list(zip(*rows, strict=True)) if rows else [()] * width
