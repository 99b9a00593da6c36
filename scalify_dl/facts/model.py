"""Facts in memory: the tables of one directory, each a list of row tuples (numbers are ints)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .schema import TABLES

Row = tuple[Any, ...]


class Facts:
    """The tables of `docs/facts.md`: `facts["op"]` is a list of rows in file order; a missing table is empty.

    `directory` is where they were loaded from, None for facts made in memory. `again`, where there is one, makes facts
    of the same pair in another form, for where these do not suffice. `whole`, where these are of a shorter pair, has
    those of the one that is asked about. `types`, where they were made of graphs: element type and shape of every
    tensor, as the rows said when they were written.
    """

    def __init__(self, tables: dict[str, list[Row]] | None = None, directory: Path | None = None) -> None:
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.directory = directory
        self.again: Callable[[], Facts | None] | None = None
        self.whole: Whole | None = None
        self.types: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name, rows in (tables or {}).items():
            self.tables[name] = rows

    def __getitem__(self, name: str) -> list[Row]:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def add(self, name: str, *row: Any) -> None:
        """Appends one row."""
        self.tables[name].append(row)

    def extend(self, name: str, rows: Iterable[Row]) -> None:
        """Appends rows."""
        self.tables[name].extend(rows)

    def place(self, name: str, row: int) -> tuple[str, int]:
        """File and line of a row (0-based), for messages."""
        file = f"{name}.facts"
        return (str(self.directory / file) if self.directory else file), row + 1

    @property
    def count(self) -> int:
        """Number of rows in all tables."""
        return sum(map(len, self.tables.values()))

    @property
    def ranks(self) -> list[int]:
        """All ranks, ascending."""
        return sorted({row[0] for row in self.tables["rank_coord"]})

    @property
    def meta(self) -> dict[str, str]:
        """The `meta` table."""
        return dict(self.tables["meta"])


@dataclass(frozen=True)
class Whole:
    """A pair of which a shorter one is looked at (`blocks`): its facts, its program for the oracle as far as some
    distributed outputs need it, how many of its outputs are proved with some edits, and how many of its ops are not
    proved only because of what they read (of some, and of those that are so here)."""

    facts: Callable[[], Facts]
    program: Callable[[Collection[str]], Any]
    proves: Callable[[Sequence[Any]], int]
    behind: Callable[[Iterable[str], Iterable[str]], int]
