"""Datalog values as Python objects.

`number` and `unsigned` are int, `float` is float, `symbol` is str, a record is a tuple of its fields (`nil` is None), a
value of an algebraic data type is a `Branch`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Branch(NamedTuple):
    """A value of an algebraic data type: `$name(fields…)`."""

    name: str
    fields: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"${self.name}({', '.join(map(str, self.fields))})" if self.fields else f"${self.name}"


# int | float | str | None | tuple[Value, ...] | Branch; recursive, so Any where it nests
Value = Any
"""A value of a column: int, float, str, a tuple or None for a record, a `Branch`."""
Row = tuple[Any, ...]
"""A value for each column."""
