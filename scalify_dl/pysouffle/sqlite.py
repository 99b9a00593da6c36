"""Relations in SQLite databases: one table per relation, one column per attribute."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.pysouffle.schema import Relation
from scalify_dl.pysouffle.values import Row


def _flat(relation: Relation, path: Path) -> None:
    for attribute in relation.attributes:
        if attribute.kind in ("record", "adt"):
            raise InputError(
                f"relation {relation.name} cannot be in SQLite: column {attribute.name} has a {attribute.kind} type",
                file=path,
                hint="use IO=file",
            )


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read(path: Path, table: str, relation: Relation) -> list[Row]:
    """All rows of a table or view."""
    _flat(relation, path)
    if not path.is_file():
        raise InputError(f"cannot read the facts of relation {relation.name}: there is no such database", file=path)
    convert = {"number": int, "unsigned": int, "float": float, "symbol": str}
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            rows = connection.execute(f"SELECT * FROM {_name(table)}").fetchall()
        return [
            tuple(convert[a.kind](value) for a, value in zip(relation.attributes, row, strict=True)) for row in rows
        ]
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise InputError(f"cannot read the facts of relation {relation.name}: {error}", file=path) from None


def write(path: Path, table: str, relation: Relation, rows: Iterable[Row]) -> None:
    """Replace a table by the rows of a relation, in one transaction."""
    _flat(relation, path)
    kinds = {"number": "INTEGER", "unsigned": "INTEGER", "float": "REAL", "symbol": "TEXT"}
    columns = ", ".join(f"{_name(a.name)} {kinds[a.kind]}" for a in relation.attributes)
    try:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"DROP TABLE IF EXISTS {_name(table)}")
            connection.execute(f"CREATE TABLE {_name(table)} ({columns})")
            places = ", ".join("?" * len(relation.attributes))
            connection.executemany(f"INSERT INTO {_name(table)} VALUES ({places})", rows)
    except (sqlite3.Error, OverflowError) as error:
        raise InputError(f"cannot write relation {relation.name}: {error}", file=path) from None
