"""The tables of a plan on disk: one tab-separated file a table, `s_*` for the single-device step, `p_*` for the plan.

docs/plans.md says what every column means. Here rows are read, counted and turned into numbers; what they refer to is
checked where the model is made (model.py). Row n of a table is line n + 1 of its file.
"""

from __future__ import annotations

from pathlib import Path
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
"""


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


class Tables:
    """The rows of one side, by table."""

    def __init__(self, directory: Path, side: str) -> None:
        self.directory = directory
        self.side = side
        self.rows = {name: self._read(table) for name, table in TABLES.items()}

    def __getitem__(self, table: str) -> list[Row]:
        return self.rows[table]

    def file(self, table: str) -> Path:
        """Where a table stands."""
        return self.directory / f"{self.side}_{table}.tsv"

    def error(self, table: str, row: int, message: str, **more: Any) -> InputError:
        """Bad input at a row (counted from 0)."""
        return InputError(message, file=self.file(table), line=row + 1, **more)

    def _read(self, table: Table) -> list[Row]:
        file = self.file(table.name)
        try:
            text = file.read_bytes().decode("utf-8")
        except FileNotFoundError:
            raise InputError(
                f"table `{file.name}` of {SIDES[self.side]} is missing",
                file=file,
                expected=f"a file with the columns {', '.join(table.columns)}, empty where there is nothing to say",
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the table: {error}", file=file) from None
        lines = text.removesuffix("\n").split("\n") if text else []
        split = [line.split("\t") for line in lines]
        width = len(table.columns)
        for n, words in enumerate(split):
            if len(words) != width:
                raise self.error(
                    table.name, n, f"{len(words)} column{'s' * (len(words) != 1)}",
                    expected=f"{width}, tab-separated: {', '.join(table.columns)}",
                    hint="is the file cut off?" if n == len(split) - 1 else None,
                )  # fmt: skip
        if not split:
            return []
        columns: list[Any] = list(zip(*split, strict=True))
        for at in table.numbers:
            try:
                columns[at] = list(map(int, columns[at]))
            except ValueError:
                columns[at] = [self._number(table, n, at, words[at]) for n, words in enumerate(split)]
        rows = list(zip(*columns, strict=True))
        if "side" in table.columns:
            at = table.columns.index("side")
            for n, row in enumerate(rows):
                if row[at] != self.side:
                    raise self.error(table.name, n, f"a row of side `{row[at]}`", expected=f"side `{self.side}`")
        return rows

    def _number(self, table: Table, n: int, at: int, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise InputError(
                f"`{text}` is no number",
                file=self.file(table.name),
                line=n + 1,
                column=at + 1,
                expected=f"a whole number for `{table.columns[at]}`",
            ) from None
