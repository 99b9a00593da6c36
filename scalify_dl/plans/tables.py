"""The tables of a plan on disk: one tab-separated file a table, `s_*` for the single-device step, `p_*` for the plan.

docs/plans.md says what every column means. Here rows are read, counted and turned into numbers; what they refer to is
checked where the model is made (model.py). Row n of a table is line n + 1 of its file. Tables are held by column: a
plan that is written out has millions of rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.pysouffle._engine import table_columns

Row = tuple[Any, ...]

_TABLES = """
world       side key value#
mesh        side rank# dp# pp# tp#
op          op side rank# mb# seq# cid# name kind dir
in          op pos# tensor
out         op pos# tensor
tensor      tensor side rank# mb# tid version# init#
sub_slice   side tid full dim# lo# hi#
sub_val     side tid part# parts#
full        side full name dtype shape grad# param# loss#
attr        op key type value
const       op pos# type value
coll        op group kind dim#
coll_member op pos# rank#
p2p         op source# target#
adapter     op cid# prim forward# differentiable#
grad_of     side gradient weight
wred        op cid# weight
update      side new weight
"""
OPTIONAL = frozenset({"update"})
"""Tables that are empty where they are not there."""


class Table(NamedTuple):
    """One table: its columns, and which of them hold numbers."""

    name: str
    columns: tuple[str, ...]
    numbers: tuple[int, ...]


def _parse(text: str) -> dict[str, Table]:
    found = {}
    for line in text.strip().splitlines():
        name, *words = line.split()
        numbers = tuple(i for i, word in enumerate(words) if word.endswith("#"))
        found[name] = Table(name, tuple(word.rstrip("#") for word in words), numbers)
    return found


TABLES = _parse(_TABLES)
SIDES = {"s": "the single-device step", "p": "the plan"}


class Rows:
    """The rows of a table; columns of numbers are arrays, texts are kept once."""

    def __init__(self, columns: Sequence[Sequence[Any]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Row]:
        return zip(*self.columns, strict=True)


class Tables:
    """The tables of one side. `texts`: some of their rows instead of the files; `ops`: in which lines those of `op`
    stand."""

    def __init__(
        self, directory: Path, side: str, texts: Mapping[str, bytes] | None = None, ops: Sequence[int] = ()
    ) -> None:
        self.directory = directory
        self.side = side
        self.ops = ops
        self.rows = {
            name: self._columns(table, self._text(table) if texts is None else texts.get(name, b""))
            for name, table in TABLES.items()
        }

    def __getitem__(self, table: str) -> Rows:
        return self.rows[table]

    def close(self) -> None:
        """Forgets the rows, once a model is made of them."""
        self.rows.clear()

    def file(self, table: str) -> Path:
        """Where a table stands."""
        return self.directory / f"{self.side}_{table}.tsv"

    def error(self, table: str, row: int, message: str, **more: Any) -> InputError:
        """Bad input at a row (counted from 0)."""
        return InputError(message, file=self.file(table), line=row + 1, **more)

    def line(self, op: int) -> int:
        """The line of a row of `op`."""
        return self.ops[op] if self.ops else op + 1

    def _text(self, table: Table) -> bytes:
        file = self.file(table.name)
        try:
            return file.read_bytes()
        except FileNotFoundError:
            if table.name in OPTIONAL:
                return b""
            described = self.directory / "plan.yaml"
            raise InputError(
                f"table `{file.name}` of {SIDES[self.side]} is missing",
                file=file,
                expected=f"a file with the columns {', '.join(table.columns)}, empty where there is nothing to say",
                hint=f"a plan of dumps is a file: dlverify plan {described}" if described.is_file() else None,
            ) from None
        except OSError as error:
            raise InputError(f"cannot read the table: {error}", file=file) from None

    def _columns(self, table: Table, text: bytes) -> Rows:
        columns = table_columns(text, len(table.columns), table.numbers) or self._row_by_row(table, text)
        if "side" in table.columns:
            sides = columns[table.columns.index("side")]
            if sides.count(self.side) != len(sides):
                n, side = next((n, side) for n, side in enumerate(sides) if side != self.side)
                raise self.error(table.name, n, f"a row of side `{side}`", expected=f"side `{self.side}`")
        return Rows(columns)

    def _row_by_row(self, table: Table, text: bytes) -> list[Any]:
        """The columns where numbers are written in another way; InputError where the table cannot be read."""
        try:
            lines = text.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"cannot read the table: {error}", file=self.file(table.name)) from None
        columns: list[Any] = [array("q") if n in table.numbers else [] for n in range(len(table.columns))]
        for n, line in enumerate(lines):
            cells = line.split("\t")
            if len(cells) != len(columns):
                raise self.error(
                    table.name, n, f"{len(cells)} column{'s' * (len(cells) != 1)}",
                    expected=f"{len(columns)}, tab-separated: {', '.join(table.columns)}",
                    hint="is the file cut off?" if n == len(lines) - 1 else None,
                )  # fmt: skip
            for at, (column, cell) in enumerate(zip(columns, cells, strict=True)):
                if at in table.numbers and not _is_number(cell):
                    expected = f"a whole number for `{table.columns[at]}`, below 2^63"
                    raise self.error(table.name, n, f"`{cell}` is no number", column=at + 1, expected=expected)
                column.append(int(cell) if at in table.numbers else intern(cell))
        return columns


def _is_number(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False
