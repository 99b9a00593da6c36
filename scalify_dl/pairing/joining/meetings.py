"""Where programs of several ranks meet: collectives whose groups span cells, and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op
from scalify_dl.ir.vocabulary import COLLECTIVES

from .cells import Cells
from .values import Unjoinable

__all__ = ["Meeting", "apart", "meetings", "of_cell", "peers", "spanned"]


@dataclass(eq=False, slots=True)
class Meeting:
    """One collective that ranks of several cells issue: by program its op, none where the program takes no part."""

    ops: dict[int, Op]


def of_cell(op: Op, cells: Cells, cell: int) -> list[list[int]]:
    """The groups of a collective in which ranks of a cell are."""
    ranks = set(cells.ranks[cell])
    return [list(group) for group in op.groups or () if ranks.intersection(group)]


def spanned(op: Op, cells: Cells, program: int) -> bool:
    """Whether ranks of several cells meet in a collective."""
    if op.kind == "collective-permute":
        pairs = [(cells.place[a][0], cells.place[b][0]) for a, b in op.pairs or ()]
        return any(a != b and program in (cells.program[a], cells.program[b]) for a, b in pairs)
    groups = [group for cell in cells.of(program) for group in of_cell(op, cells, cell)]
    return any(len({cells.place[rank][0] for rank in group}) > 1 for group in groups)


def meetings(programs: Sequence[Graph], cells: Cells) -> dict[Op, Meeting]:
    """The meeting that a collective belongs to; those within cells belong to none."""
    owner: dict[tuple[tuple[int, ...], int], tuple[int, Op]] = {}
    joined: dict[Op, Meeting] = {}
    for number, program in enumerate(programs):
        counts: dict[tuple[int, ...], int] = {}
        for op in program.ops:
            if op.regions and _meets_inside(op, cells, number):
                raise Unjoinable(f"`{op.name}` has collectives inside")
            if op.kind not in COLLECTIVES:
                continue
            if op.kind == "collective-permute" and spanned(op, cells, number):
                raise Unjoinable(f"`{op.name}` sends from one program to another")
            groups = {tuple(group) for cell in cells.of(number) for group in of_cell(op, cells, cell)}
            wide = spanned(op, cells, number)
            if wide and op in joined:
                raise Unjoinable(f"`{op.name}` is met twice")
            for group in sorted(groups):
                n = counts[group] = counts.get(group, -1) + 1
                if not wide:
                    continue
                other = owner.setdefault((group, n), (number, op))
                meeting = joined.setdefault(other[1], Meeting({other[0]: other[1]}))
                mine = joined.setdefault(op, meeting)
                if mine is not meeting or meeting.ops.setdefault(number, op) is not op:
                    raise Unjoinable(f"`{op.name}` meets several collectives of one program")
    return joined


def apart(ops: Mapping[int, Op], cells: Cells) -> list[dict[int, Op]]:
    """Cells' ops of one meeting, in sets of cells that exchange nothing with one another."""
    sets: list[set[int]] = []
    for cell, op in ops.items():
        among = {cell, *(cells.place[rank][0] for group in of_cell(op, cells, cell) for rank in group)}
        touched = [other for other in sets if other & among]
        sets = [other for other in sets if not other & among] + [among.union(*touched)]
    return [{cell: op for cell, op in ops.items() if cell in one} for one in sets]


def _meets_inside(op: Op, cells: Cells, program: int) -> bool:
    return any(
        (inner.kind in (*COLLECTIVES, "send", "recv") and (inner.groups is None or spanned(inner, cells, program)))
        or _meets_inside(inner, cells, program)
        for region in op.regions
        for inner in region.ops
    )  # fmt: skip


def peers(op: Op, program: Graph, ranks: Sequence[int]) -> dict[int, int]:
    """By rank, whom a send or receive is to or from."""
    found = {}
    for rank in ranks:
        by_rank = op.rank_numbers.get(("peer", 0))
        found[rank] = op.numbers["peer"][0] if by_rank is None else by_rank[rank]
        if found[rank] == rank:
            raise InputError(f"`{op.name}`: rank {rank} sends to itself", file=program.file, line=op.at[0])
    return found
