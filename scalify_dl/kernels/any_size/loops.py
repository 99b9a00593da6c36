"""Serial loops of any length: one iteration is run with an unknown for what each memory holds at its beginning
(`states.py`), and what that makes of any number of iterations is in `recurrences.py`.

How long a loop is may depend on where it is (`lengths.py`). Other memory is not known at the end, unless it is the same
after every iteration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scalify_dl.algebra.extended import Masked
from scalify_dl.algebra.form import Form
from scalify_dl.algebra.variables import Renamed
from scalify_dl.readers.tir.syntax import Buffer, If, Loop, Statement, written

from ..domain import Undecided
from .elements import First
from .first import checked, started
from .places import Place
from .recurrences import Solver, maximum_with, solved
from .states import MARK, State, Tile, Turns

if TYPE_CHECKING:
    from .lengths import Length
    from .machine import Frame, Machine


def serial(machine: Machine, at: Loop, length: Length, frame: Frame) -> None:
    """A serial loop; where something is so in its first iteration alone, that one is looked at by itself."""
    if frame.lanes:
        raise Undecided("a serial loop around several statements within a parallel one")
    memory, added = dict(machine.memory), set(machine.added)
    try:
        _serial(machine, at, length, frame)
    except First as error:
        if error.loop != id(at) or id(at) in machine.begun:
            raise
        machine.memory, machine.added = memory, added
        machine.begun.add(id(at))
        try:
            _serial(machine, at, length, frame)
        finally:
            machine.begun.discard(id(at))


def _serial(machine: Machine, at: Loop, length: Length, frame: Frame) -> None:
    inner = machine.bound(at.var, length.most, frame, outer=True)
    count = inner.names[at.var]
    assert isinstance(count, Place)
    turns = Turns(count, tuple(v for v in inner.outer if v not in frame.outer), length.shown(machine, count, frame))
    inner = replace(inner, names={**inner.names, at.var: count + Place.number(length.start)})
    shown = turns.shown if inner.shown is None else inner.shown * turns.shown
    inner = replace(inner, later={**inner.later, id(at): count}, shown=shown)
    once = replace(frame, names={**frame.names, at.var: Place.number(length.start)})
    body, last = _sunk(machine, at, length, inner)
    outer, given, start = dict(machine.states), set(machine.memory), dict(machine.memory)
    mine = _states(machine, at, id(at) in machine.begun)
    machine.states = {**outer, **mine}
    machine.body(body, inner)
    machine.states = outer
    outputs = [key for key in machine.memory.keys() & machine.arguments - machine.added if key not in given]
    if id(at) in machine.begun:
        arguments = machine.arguments & {*machine.memory}
        if not length.begins or any(machine.memory[key] is not start.get(key) for key in arguments):
            raise Undecided("a branch on the first iteration of a loop that writes an argument, or may have none")
        started(machine, body, once, mine, start, turns)
    elif any(state.first is not None and isinstance(state.first.cell, Masked) for state in mine.values()):
        if not length.begins:
            raise Undecided("a loop that may have no iteration")
        checked(machine, body, once, mine, start, turns)
    solver = Solver(machine.basis, mine, turns)
    ended = solved(machine, mine, solver, certain=length.begins)
    for key in outputs:
        tile = machine.memory[key]
        assert tile is not None
        if turns.shown.value != 1:
            raise Undecided("what a loop writes whose length depends on where it is")
        machine.memory[key] = replace(tile, cell=solver.before_each(tile.cell))
    for key, tile in ended.items():
        machine.memory[key] = tile
    for key in machine.memory:
        if key not in given and key not in machine.arguments:
            machine.memory[key] = None  # made within the loop
    if last:
        machine.body(last, replace(frame, names={**frame.names, at.var: Place.number(length.start + length.most - 1)}))


def _states(machine: Machine, at: Loop, later: bool) -> dict[int, State]:
    """What memory that a loop changes holds at the beginning of an iteration: unknowns."""
    mine: dict[int, State] = {}
    for buffer in written(at.body):
        if id(buffer) in machine.arguments or id(buffer) not in machine.memory or id(buffer) in mine:
            continue
        dims = tuple(
            tuple(machine.digits((MARK, at.line, buffer.name, d), size)) for d, size in enumerate(buffer.shape)
        )
        variables = tuple(v for dim in dims for v in dim)
        names = [(MARK, machine.called, at.line, buffer.name, when) for when in ("before", "after")]
        before, after = (machine.basis.of(machine.basis.element("input", (name, *variables))) for name in names)
        first = machine.memory[id(buffer)]
        mine[id(buffer)] = State(Tile(dims, before), before, after, first)
        machine.memory[id(buffer)] = mine[id(buffer)].tile if first is not None or later else None
    return mine


def _sunk(machine: Machine, at: Loop, length: Length, inner: Frame) -> tuple[list[Statement], list[Statement]]:
    """The body, and what its end does in the last iteration alone: that comes after the loop."""
    *body, last = at.body
    if length.stop is not None or length.begin is not None or not isinstance(last, If) or last.otherwise:
        return at.body, []
    ends, begun = Place.number(length.start + length.most - 1), set(machine.begun)
    try:
        so = machine.elements.value(last.condition, replace(inner, names={**inner.names, at.var: ends}))
        mirrored = {id(at): Place.number(length.most - 1) + inner.later[id(at)].scaled(-1)}
        machine.begun.add(id(at))
        other = machine.elements.value(last.condition, replace(inner, later=mirrored))
    except Undecided:
        return at.body, []
    finally:
        machine.begun = begun
    return (body, last.then) if so is True and other is False else (at.body, [])


def noted(machine: Machine, buffer: Buffer, tile: Tile) -> Tile:
    """What a memory holds after a store; of a running maximum a name for it."""
    state = machine.states.get(id(buffer))
    if state is None or not isinstance(tile.cell, Form):
        return tile
    names = dict(zip(tile.variables, state.tile.variables, strict=False))
    if len(tile.variables) != len(state.tile.variables) or any(a.size != b.size for a, b in names.items()):
        return tile
    cell = Renamed(machine.basis, names).form(tile.cell)
    if maximum_with(cell, state.before) is None:
        return tile
    if state.new is not None:
        raise Undecided(f"`{buffer.name}` is a running maximum that is written twice")
    state.new = cell
    return replace(state.tile, cell=state.after)
