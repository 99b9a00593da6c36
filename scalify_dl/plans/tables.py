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


BLOCK = 1 << 22
"""Characters that are cut at once."""


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
            name: self._columns(table, self._text(table) if texts is None else texts.get(name, b"").decode("utf-8"))
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

    def _text(self, table: Table) -> str:
        file = self.file(table.name)
        try:
            return file.read_bytes().decode("utf-8")
        except FileNotFoundError:
            if table.name in OPTIONAL:
                return ""
            described = self.directory / "plan.yaml"
            raise InputError(
                f"table `{file.name}` of {SIDES[self.side]} is missing",
                file=file,
                expected=f"a file with the columns {', '.join(table.columns)}, empty where there is nothing to say",
                hint=f"a plan of dumps is a file: dlverify plan {described}" if described.is_file() else None,
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the table: {error}", file=file) from None

    def _columns(self, table: Table, text: str) -> Rows:
        width, start = len(table.columns), 0
        columns: list[Any] = [array("q") if n in table.numbers else [] for n in range(width)]
        while start < len(text):
            end = text.find("\n", start + BLOCK)
            lines = text[start : end + 1 if end >= 0 else len(text)]
            start += len(lines)
            cells = lines.removesuffix("\n").replace("\n", "\t\n\t").split("\t")
            cells.append("\n")
            marks = cells[width :: width + 1]
            if len(marks) * (width + 1) != len(cells) or marks.count("\n") != len(marks):
                raise self._ragged(table, text)
            for n, column in enumerate(columns):
                found = cells[n :: width + 1]
                if n in table.numbers:
                    try:
                        column.extend(map(int, found))
                    except (ValueError, OverflowError):
                        raise self._no_number(table, text) from None
                else:
                    column.extend(map(intern, found))
        if "side" in table.columns:
            sides = columns[table.columns.index("side")]
            if sides.count(self.side) != len(sides):
                n, side = next((n, side) for n, side in enumerate(sides) if side != self.side)
                raise self.error(table.name, n, f"a row of side `{side}`", expected=f"side `{self.side}`")
        return Rows(columns)

    def _ragged(self, table: Table, text: str) -> InputError:
        """The first line with another number of columns."""
        lines, width = text.removesuffix("\n").split("\n"), len(table.columns)
        n, found = next((n, line.count("\t") + 1) for n, line in enumerate(lines) if line.count("\t") + 1 != width)
        return self.error(
            table.name, n, f"{found} column{'s' * (found != 1)}",
            expected=f"{width}, tab-separated: {', '.join(table.columns)}",
            hint="is the file cut off?" if n == len(lines) - 1 else None,
        )  # fmt: skip

    def _no_number(self, table: Table, text: str) -> InputError:
        """The first cell that should be a number and is none."""
        for n, line in enumerate(text.split("\n")):
            words = line.split("\t")
            for at in table.numbers:
                if not _is_number(words[at]):
                    return InputError(
                        f"`{words[at]}` is no number",
                        file=self.file(table.name),
                        line=n + 1,
                        column=at + 1,
                        expected=f"a whole number for `{table.columns[at]}`, below 2^63",
                    )
        raise AssertionError("all are numbers")


def _is_number(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False
