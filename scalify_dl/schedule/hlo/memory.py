"""Values of an HLO module as bytes: cells for arrays, lists for tuples, and operations in flight.

Values that XLA keeps in one buffer are joined: what a loop carries, branches' results, in-place updates, outputs that
alias parameters. With a buffer assignment, cells lie where it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.readers.hlo.module import Instruction
from scalify_dl.readers.hlo.types import ArrayType, Type

from .assignment import Assignment

_BITS = re.compile(r"[a-z]+(\d+)")


@dataclass(eq=False, slots=True)
class Cell:
    """The bytes of one array."""

    number: int
    size: int
    places: tuple[int, int, int] | None = None
    """Allocation and bytes, where an assignment says."""


@dataclass(eq=False)
class Flight:
    """An asynchronous operation: what its start gives by parts, what its done gives, and the steps that it is."""

    name: str
    parts: list[Value]
    result: Value
    steps: list[int] = field(default_factory=list)
    landed: bool = False


Value = Cell | list["Value"] | Flight | None
"""A tuple is a list; a token is None."""


def cells(value: Value) -> Iterator[Cell]:
    """All arrays of a value."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, Cell):
            yield one
        elif isinstance(one, Flight):
            pending.extend(reversed(one.parts))
        elif one is not None:
            pending.extend(reversed(one))


def flights(value: Value) -> Iterator[Flight]:
    """All operations in flight that a value hands on."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, Flight):
            yield one
        elif isinstance(one, list):
            pending.extend(reversed(one))


def bytes_of(type_: ArrayType) -> int:
    """Bytes of an array, without gaps."""
    bits = 8 if type_.dtype == "pred" else 0
    if match := _BITS.match(type_.dtype):
        bits = int(match[1])
    return -(-prod(type_.shape) * bits // 8)


class Memory:
    """The cells of one module."""

    def __init__(self, assignment: Assignment | None) -> None:
        self.assignment = assignment
        self.cells: list[Cell] = []
        self.parent: list[int] = []
        self.known: dict[tuple[str, tuple[int, ...]], Cell] = {}

    def make(self, path: str, i: Instruction, type_: Type, index: tuple[int, ...] = ()) -> Value:
        """The value that an instruction defines; `path` says which call of its computation it is in."""
        if not isinstance(type_, ArrayType):
            return [self.make(path, i, part, (*index, n)) for n, part in enumerate(type_)]
        if type_.dtype in ("token", "opaque"):
            return None
        key = (f"{path}/{i.name}", index)
        cell = self.known.get(key)
        if cell is None:
            cell = self.known[key] = Cell(len(self.cells), bytes_of(type_))
            self.cells.append(cell)
            self.parent.append(cell.number)
            if self.assignment is not None:
                cell.places = self.assignment.places.get((i.name, index))
                if cell.places is None:
                    raise InputError(
                        f"the assignment says no place of `{i.name}`", file=self.assignment.file,
                        expected="the buffer assignment of the same module",
                    )  # fmt: skip
        return cell

    def root(self, cell: Cell) -> Cell:
        """The cell that stands for all that share its buffer."""
        number, parent = cell.number, self.parent
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return self.cells[number]

    def join(self, one: Value, other: Value) -> None:
        """Two values are in one buffer."""
        if isinstance(one, Cell) and isinstance(other, Cell):
            a, b = self.root(one), self.root(other)
            if a is not b:
                self.parent[b.number] = a.number
                a.size = max(a.size, b.size)
        elif isinstance(one, Flight) and isinstance(other, Flight):
            self.join(one.parts, other.parts)
            self.join(one.result, other.result)
        elif isinstance(one, list) and isinstance(other, list):
            for a_part, b_part in zip(one, other, strict=False):
                self.join(a_part, b_part)

    def range_of(self, cell: Cell) -> tuple[int, int, int]:
        """Buffer and bytes of a cell: an allocation of the assignment, else the buffer that it shares with others."""
        if cell.places is not None:
            return cell.places
        root = self.root(cell)
        return root.number, 0, max(root.size, 1)
