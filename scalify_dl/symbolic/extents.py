"""Sizes at which the programs of a family exist: what slices and reads take lies within what it is taken from."""

from __future__ import annotations

from .expression import Expression
from .family import Cell, Family

_TAKEN = {"slice": "limit", "dynamic-slice": "sizes", "gather": "slice_sizes"}
"""Op kinds that take a part of their first operand, and the attribute that has an end or an extent per dim."""


def inside(family: Family) -> set[Expression]:
    """Formulas of the sizes, each at least 1 where no op takes more than there is."""
    kinds = {op: kind for op, _, kind in family.tables["op"]}
    operands = {(op, position): tensor for op, position, tensor in family.tables["operand"]}
    extents = {(tensor, dim): _formula(size) for tensor, dim, size in family.tables["dim"]}
    found: set[Expression] = set()

    def fits(part: Expression, tensor: str, dim: int) -> None:
        room = extents[tensor, dim] - part + Expression.number(1)
        if room.constant is None:
            found.add(room)

    for op, name, dim, value in family.tables["attr_number"]:
        if _TAKEN.get(kinds[op]) == name:
            fits(_formula(value), operands[op, 0], dim)
    updated = {operands[op, 1]: operands[op, 0] for op, kind in kinds.items() if kind == "dynamic-update-slice"}
    for (tensor, dim), size in extents.items():
        if tensor in updated:
            fits(size, updated[tensor], dim)
    return found


def _formula(value: Cell) -> Expression:
    return value if isinstance(value, Expression) else Expression.number(value)
