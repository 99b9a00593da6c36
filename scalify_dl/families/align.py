"""Captures of one pair of programs at several sizes, side by side.

They are aligned op by op, in order: ids may differ; kinds, operands, results and attributes must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts, Row
from scalify_dl.facts.schema import TABLES


class NoSymbolicForm(InputError):
    """The captures are one program, but something in it has no symbolic form: its members are checked one by one."""


class Aligned:
    """The captures under the names of the first; `rows[n](table)` are the rows of capture n.

    InputError where they are not the same program.
    """

    def __init__(self, captures: Sequence[Facts]) -> None:
        self.captures = captures
        first = captures[0]
        self.names: dict[str, str] = dict(first["tensor_name"])
        self.names |= {op: self.names.get(tensor, tensor) for op, position, tensor in first["result"] if position == 0}
        self.kinds: dict[str, str] = {op: kind for op, _, kind in first["op"]}
        self.place: dict[str, tuple[str, int]] = {
            op: (file, line) for op, position, file, line, _ in first["source"] if position == 0
        }
        self._align()

    def _align(self) -> None:
        first = self.captures[0]
        self.rows: list[Callable[[str], list[Row]]] = [first.__getitem__]
        for number, other in enumerate(self.captures[1:], 2):
            names: dict[str, dict[str, str]] = {}
            for table, what in (("graph", "graphs"), ("op", "ops"), ("tensor", "tensors")):
                ours, theirs = first[table], other[table]
                names[table] = {b[0]: a[0] for a, b in zip(ours, theirs, strict=False)}
                columns = [i for i, c in enumerate(TABLES[table].columns) if i and not c.number and not c.refers]
                for a, b in zip(ours, theirs, strict=False):
                    if any(a[i] != b[i] for i in columns):
                        there = ", ".join(str(b[i]) for i in columns)
                        raise self.error(
                            a[0], f"{self.name(a[0])} is {', '.join(str(a[i]) for i in columns)} in capture 1 and"
                            f" {there} in capture {number}", expected="the same program at other sizes"
                        )  # fmt: skip
                if len(ours) != len(theirs):
                    raise InputError(
                        f"capture 1 has {len(ours)} {what}, capture {number} has {len(theirs)}",
                        expected="the same program at other sizes",
                        hint="loops over ranks that are unrolled differ in length: they have no symbolic form",
                    )
            self.rows.append(_Renamed(other, names))

    def name(self, thing: str) -> str:
        """What people call a tensor or an op."""
        return self.names.get(thing, thing)

    def error(self, op: str, message: str, expected: str | None = None, hint: str | None = None) -> InputError:
        """An error about an op, at its source line."""
        file, line = self.place.get(op, (None, 0))
        return InputError(message, file=file, line=line, expected=expected, hint=hint)

    def no_form(self, op: str, message: str) -> NoSymbolicForm:
        """Says that an op has no symbolic form."""
        file, line = self.place.get(op, (None, 0))
        return NoSymbolicForm(message, file=file, line=line)

    def keyed(self, table: str, columns: Sequence[int]) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
        """Rows of a table that agree in these columns, one of each capture."""
        first, *others = [{tuple(row[i] for i in columns): row for row in rows(table)} for rows in self.rows]
        for number, other in enumerate(others, 2):
            for one, two, which in ((first, other, number), (other, first, 1)):
                for key in one.keys() - two.keys():
                    raise self.error(
                        str(key[0]),
                        f"{self.name(key[0])}: `{table}` has no {', '.join(map(str, key[1:])) or 'row'} in capture"
                        f" {which}",
                        expected="the same program at other sizes",
                    )
        for key, row in first.items():
            yield key, [row, *(other[key] for other in others)]


class _Renamed:
    """Rows of a capture under the names of the first."""

    def __init__(self, facts: Facts, names: Mapping[str, Mapping[str, str]]) -> None:
        self.facts = facts
        self.names = names

    def __call__(self, table: str) -> list[Row]:
        refers = {i: c.refers for i, c in enumerate(TABLES[table].columns) if c.refers in self.names}
        if table in self.names:
            refers[0] = table
        return [
            tuple(self.names[str(refers[i])][cell] if i in refers else cell for i, cell in enumerate(row))
            for row in self.facts[table]
        ]
