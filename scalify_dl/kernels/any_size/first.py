"""The first iteration of a loop by itself, where what is there at first is infinite or a branch is on it (`k == 0`).

The other iterations are followed as if they were all, from what the first one would have to find to end as it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scalify_dl.algebra import extended
from scalify_dl.algebra.extended import Cell
from scalify_dl.algebra.form import Form
from scalify_dl.algebra.same import same
from scalify_dl.algebra.sized import size_of
from scalify_dl.algebra.variables import Renamed, Variable
from scalify_dl.readers.tir.syntax import Statement
from scalify_dl.sizes import above

from ..domain import Undecided
from .places import Place, Placed
from .recurrences import Solver, solved
from .states import Memory, State, Tile, Turns

if TYPE_CHECKING:
    from .machine import Frame, Machine


def _first_turn(machine: Machine, body: Sequence[Statement], once: Frame, start: dict[int, Tile | None]) -> Memory:
    """What memory holds after the first iteration, on what is there at first."""
    kept, added, machine.memory = machine.memory, set(machine.added), dict(start)
    try:
        machine.body(body, once)
        return machine.memory
    finally:
        machine.memory, machine.added = kept, added


def checked(
    machine: Machine, body: Sequence[Statement], once: Frame, mine: dict[int, State], start: Memory, turns: Turns
) -> None:
    """The first iteration, on what is there at first, which may be infinite, must give what the solutions say."""
    found = _first_turn(machine, body, once, start)
    if _others(machine, found, _at_first(machine, mine, turns)):
        raise Undecided("a loop whose first iteration is another one")


def started(
    machine: Machine, body: Sequence[Statement], once: Frame, mine: dict[int, State], start: Memory, turns: Turns
) -> None:
    """What a loop without the branch on its first iteration would start from, to be the same after that one: what is
    there, or nothing (0 of a sum, −∞ of a maximum), or what is left of a sum less what it adds."""
    found = _first_turn(machine, body, once, start)
    for key, state in mine.items():
        if state.first is None and found.get(key) is not None:
            state.first = _nothing(machine, state)
    for mended in (False, True):
        said = _at_first(machine, mine, turns)
        differ = _others(machine, found, said)
        for key in differ:
            state, there, here = mine[key], found.get(key), said[key]
            if mended and state.new is None and there is not None and here is not None:
                assert state.first is not None
                less = _named_alike(machine, there, here)
                if isinstance(less, Form) and isinstance(here.cell, Form) and isinstance(state.first.cell, Form):
                    state.first = replace(state.tile, cell=less - here.cell)
                    continue
            state.first = _nothing(machine, state)
        if not differ:
            return
    if _others(machine, found, _at_first(machine, mine, turns)):
        raise Undecided("a loop whose first iteration is another one")


def _nothing(machine: Machine, state: State) -> Tile:
    zero = machine.basis.zero
    return replace(state.tile, cell=zero if state.new is None else extended.infinite(machine.basis, -1))


def _at_first(machine: Machine, mine: dict[int, State], turns: Turns) -> Memory:
    """What the solutions say of one iteration, the first one."""
    one = Turns(Place.number(0), (), machine.basis.one)
    said = solved(machine, mine, Solver(machine.basis, mine, one), certain=True)
    kept = solved(machine, mine, Solver(machine.basis, mine, turns), certain=True)
    start = _digits_of(turns)
    return {
        key: tile and replace(tile, cell=Placed(machine.basis, start).cell(tile.cell))
        for key, tile in said.items() if kept[key] is not None
    }  # fmt: skip


def _digits_of(turns: Turns) -> dict[Variable, Variable | int]:
    """The variables of a loop in its first iteration."""
    down = any(above(-stride) for _, stride in turns.count.parts)
    return {v: size_of(v) - 1 if down else 0 for v in turns.variables}


def _others(machine: Machine, found: Memory, said: Memory) -> list[int]:
    """The memories that hold something else after the first iteration than the solutions say."""
    differ = []
    for key, tile in said.items():
        held = found.get(key)
        cell = _named_alike(machine, held, tile) if held is not None and tile is not None else None
        if tile is not None and (cell is None or not same(machine.basis, cell, tile.cell)):
            differ.append(key)
    return differ


def _named_alike(machine: Machine, held: Tile, said: Tile) -> Cell:
    """What a tile holds in the variables of another one."""
    if len(held.variables) != len(said.variables):
        raise Undecided("a loop whose first iteration is not followed")
    names = dict(zip(held.variables, said.variables, strict=True))
    if any(a.size != b.size for a, b in names.items()):
        raise Undecided("a loop whose first iteration is not followed")
    found: Cell = Renamed(machine.basis, names).cell(held.cell)
    return found
