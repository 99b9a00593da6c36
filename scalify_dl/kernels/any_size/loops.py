"""Serial loops of any length: what memory holds at their end, from what one iteration makes of what it held before.

One iteration is run with an unknown x for what each memory holds at its beginning (`State`). Then, over n iterations,

    x' = x + f             is  x₀ + Σ f                             f without any such unknown
    x' = max(x, f)         is  max(x₀, max f)
    x' = x·h(p)/h(p') + f  is  (x₀·h(p₀) + Σ f·h(p')) / h(pₙ)       p' the new value of a maximum p, h an exponential
    E(x') = E(x) + f       is  E⁻¹(E(x₀) + Σ f)                     E an exponential (log-sum-exp, running)

The third is online softmax: x·h(p) is a sum. It holds as h(p) is never 0, and p is a number from the first iteration
on. Where p₀ is −∞ and h grows, x₀·h(p₀) is 0, as x₀·h(p₀)/h(p') is in the text. Other memory is not known at the end,
unless it is the same after every iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scalify_dl.algebra import extended, laws
from scalify_dl.algebra.extended import Cell, Masked
from scalify_dl.algebra.form import Element, Field, Form, Monomial
from scalify_dl.algebra.rebuilt import Rebuilt
from scalify_dl.algebra.same import same
from scalify_dl.algebra.sums import greatest_cell, summed
from scalify_dl.algebra.variables import Renamed, Variable, free
from scalify_dl.readers.tir.syntax import Buffer, Loop, written

from ..domain import Undecided
from ..formulas import ln2
from .places import Cut, size_of

if TYPE_CHECKING:
    from .machine import Frame, Machine, Tile

MARK = "state"


@dataclass(slots=True)
class State:
    """Memory that a loop changes: the unknown that it holds at the beginning of an iteration, and a name for the new
    value of a running maximum."""

    tile: Tile
    """The unknown, as what the memory holds."""
    before: Form
    after: Form
    first: Tile | None
    """What it holds when the loop starts."""
    new: Cell | None = None
    """The running maximum that `after` stands for."""


def serial(machine: Machine, at: Loop, extent: int, frame: Frame) -> None:
    """A serial loop."""
    from .machine import Tile

    if frame.lanes:
        raise Undecided("a serial loop around several statements within a parallel one")
    inner = machine.bound(at.var, extent, frame, outer=True)
    turns = [v for v in inner.outer if v not in frame.outer]
    outer = dict(machine.states)
    mine: dict[int, State] = {}
    given = set(machine.memory)
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
        machine.memory[id(buffer)] = mine[id(buffer)].tile if first is not None else None
    start = {**machine.memory, **{key: state.first for key, state in mine.items()}}
    machine.states = {**outer, **mine}
    machine.body(at.body, inner)
    machine.states = outer
    for key, held in machine.memory.items():
        if key in machine.arguments and key not in given and held is not None:
            stateless(held.cell, "what a loop writes depends on the iterations before")
    if any(state.first is not None and isinstance(state.first.cell, Masked) for state in mine.values()):
        _begun(machine, at, inner, _solved(machine, mine, ()), start)
    solved = _solved(machine, mine, turns)
    for key, tile in solved.items():
        machine.memory[key] = tile
    for key in machine.memory:
        if key not in given and key not in machine.arguments:
            machine.memory[key] = None  # made within the loop


def _begun(
    machine: Machine, at: Loop, frame: Frame, once: dict[int, Tile | None], start: dict[int, Tile | None]
) -> None:
    """Runs one iteration on what is there at first, which may be infinite: it must give what the solutions say."""
    kept, added = machine.memory, set(machine.added)
    machine.memory = dict(start)
    machine.body(at.body, frame)
    for key, said in once.items():
        held = machine.memory[key]
        if said is None:
            continue
        names = dict(zip(held.variables, said.variables, strict=True)) if held is not None else {}
        if held is None or any(a.size != b.size for a, b in names.items()):
            raise Undecided("a loop whose first iteration is not followed")
        cell = Renamed(machine.basis, names).cell(held.cell)
        if not same(machine.basis, cell, said.cell):
            raise Undecided("a loop whose first iteration is another one")
    machine.memory, machine.added = kept, added


def noted(machine: Machine, buffer: Buffer, tile: Tile) -> Tile:
    """What a memory holds after a store; of a running maximum a name for it."""
    state = machine.states.get(id(buffer))
    if state is None or not isinstance(tile.cell, Form):
        return tile
    names = dict(zip(tile.variables, state.tile.variables, strict=False))
    if len(tile.variables) != len(state.tile.variables) or any(a.size != b.size for a, b in names.items()):
        return tile
    cell = Renamed(machine.basis, names).form(tile.cell)
    if _of_maximum(cell, state.before) is None:
        return tile
    if state.new is not None:
        raise Undecided(f"`{buffer.name}` is a running maximum that is written twice")
    state.new = cell
    return replace(state.tile, cell=state.after)


def _of_maximum(cell: Cell, before: Form) -> Form | None:
    """f where a formula is max(x, f) with x the unknown."""
    if not isinstance(cell, Form) or len(cell.terms) != 1:
        return None
    ((monomial, coefficient),) = cell.terms.items()
    if len(monomial) != 1 or monomial[0][1] != 1 or coefficient not in (1, -1):
        return None
    kind, data = cell.field.elements[monomial[0][0]][:2]
    meets: Any = data
    if coefficient == -1 and kind == "maximum" and len(meets) == 1:  # −min(−x, −f)
        (meet,) = meets
        meets = frozenset(frozenset([-form]) for form in meet)
    elif coefficient == -1:
        return None
    if kind != "maximum" or frozenset([before]) not in meets:
        return None
    rest = [meet for meet in meets if meet != frozenset([before])]
    lows = []
    for meet in rest:
        low = None
        for form in meet:
            low = form if low is None else laws.minimum(low, form)
        assert low is not None
        lows.append(low)
    found = laws.most(lows)
    return None if states_in(found) else found


# ---- solutions ----
def _solved(machine: Machine, states: dict[int, State], turns: Sequence[Variable]) -> dict[int, Tile | None]:
    """What memory holds at the end."""
    solver = _Solver(machine.basis, states, turns)
    found: dict[int, Tile | None] = {}
    for key, state in states.items():  # maxima first: others are relative to them
        held = machine.memory[key]
        if state.new is not None:
            still = held is not None and held.cell == state.after
            found[key] = solver.maximum(state) if still else None
    for key, state in states.items():
        held = machine.memory[key]
        if key in found or held is None:
            continue
        cell = held.cell
        if len(held.variables) == len(state.tile.variables):
            names = dict(zip(held.variables, state.tile.variables, strict=True))
            if all(a.size == b.size for a, b in names.items()):
                cell = Renamed(machine.basis, names).cell(cell)
                held = replace(state.tile, cell=cell)
        if isinstance(cell, Form) and not states_in(cell):
            found[key] = None if free(machine.basis, cell) & {*turns} else held
        elif isinstance(cell, Masked) and cell.flag.value == 0:
            found[key] = held
        else:
            found[key] = solver.other(state, cell)
    return found


class _Solver:
    """Recurrences of one loop."""

    def __init__(self, basis: Field, states: dict[int, State], turns: Sequence[Variable]) -> None:
        self.basis, self.states, self.turns = basis, states, turns
        self.maxima: dict[str, tuple[State, Cell]] = {}
        """Running maxima at the end, by the name of their memory."""

    def maximum(self, state: State) -> Tile | None:
        """max(x₀, max f)."""
        f = _of_maximum(state.new, state.before)  # type: ignore[arg-type]
        if f is None or state.first is None:
            return None
        start = _aligned(self.basis, state)
        if start is None:
            return None
        most = greatest_cell(f, self.turns)
        cell = extended.maximum(start, most)
        if not isinstance(cell, Form):
            return None
        self.maxima[_name(state.before)] = state, cell
        return replace(state.tile, cell=cell)

    def other(self, state: State, cell: Cell) -> Tile | None:
        """Sums, also relative to a running maximum, or of exponentials; None where it is none of these."""
        start = _aligned(self.basis, state)
        if start is None or not isinstance(cell, Form):
            return None
        found = self._linear(state.before, cell, start)
        if found is None:
            for unit in (ln2(self.basis, 1), self.basis.one):
                x = laws.exponential(state.before * unit)
                y = self._linear(x, laws.exponential(cell * unit), extended.exponential(extended.multiply(start, unit)))
                if isinstance(y, Form):
                    found = extended.multiply(extended.logarithm(y), laws.power(unit, -1))
                    break
        return None if found is None else replace(state.tile, cell=found)

    def _linear(self, x: Form, cell: Form, start: Cell) -> Cell | None:
        """The end of x' = a·x + f."""
        ((unknown, _),) = x.terms.items()
        factor, rest = self.basis.zero, self.basis.zero
        for monomial, c in cell.terms.items():
            left = _without(monomial, unknown)
            if left is None:
                rest = rest + Form(self.basis, {monomial: c})
            else:
                factor = factor + Form(self.basis, {left: c})
        mine = _name(x)
        if mine in {n for n, _ in states_in(rest)} | {n for n, _ in states_in(factor)} or not isinstance(start, Form):
            return None
        if factor.value == 1:
            return None if states_in(rest) else start + summed(self.basis, rest, self.turns)
        return self._relative(factor, rest, start)

    def _relative(self, factor: Form, rest: Form, start: Form) -> Cell | None:
        """The end of x' = x·h(p)/h(p') + f, f·h(p') without p and p'."""
        if len(factor.terms) != 1:
            return None
        ((monomial, c),) = factor.terms.items()
        old, new = self.basis.one, self.basis.one
        for number, exponent in monomial:
            one = self.basis.of(number, exponent)
            whens = {when for _, when in states_in(one)}
            if whens == {"before"}:
                old = old * one
            elif whens == {"after"}:
                new = new * one
            else:
                return None
        names = {name for name, _ in states_in(factor)}
        if c != 1 or len(names) != 1 or not names <= self.maxima.keys():
            return None
        state, end = self.maxima[next(iter(names))]
        later = _At(self.basis, state, "before", state.after).form(old)
        if (later * new).value != 1:
            return None
        added = rest * later
        if states_in(added):
            return None
        begin = _aligned(self.basis, state)
        if isinstance(begin, Form):
            scaled = start * _At(self.basis, state, "before", begin).form(old)
        elif begin is not None and begin.flag.value == 0 and begin.sign < 0 and self._grows(old, state):
            scaled = self.basis.zero
        else:
            return None
        assert isinstance(end, Form)
        return (scaled + summed(self.basis, added, self.turns)) * _At(self.basis, state, "after", end).form(new)

    def _grows(self, h: Form, state: State) -> bool:
        """Whether h(p) is exp of a positive multiple of p."""
        (monomial,) = h.terms
        total = self.basis.zero
        for number, exponent in monomial:
            kind, data = self.basis.elements[number][:2]
            if kind != "exp":
                return False
            total = total + Form(self.basis, {data: exponent})  # type: ignore[dict-item]
        slope = self.basis.zero
        for inner, c in total.terms.items():
            own = [(n, e) for n, e in inner if states_in(self.basis.of(n))]
            if len(own) != 1 or own[0][1] != 1 or self.basis.elements[own[0][0]].kind != "input":
                return False
            slope = slope + Form(self.basis, {tuple(f for f in inner if f not in own): c})
        return slope.is_positive()


class _At(Rebuilt):
    """Forms with a value in the place of the unknown of a memory, at whatever place it stands."""

    def __init__(self, basis: Field, state: State, when: str, value: Form) -> None:
        super().__init__(basis, self._changed)
        self.state, self.when, self.value = state, when, value
        self.wanted = (*_data(state.before)[0][:-1], when)

    def _changed(self, element: Element) -> Form | None:
        data: Any = element.data
        if element.kind != "input" or type(data) is not tuple or data[0] != self.wanted:
            return None
        names = dict(zip(self.state.tile.variables, data[1:], strict=True))
        return Renamed(self.field, names).form(self.value)

    def element(self, number: int) -> Form | None:
        """A changed element; a value is not looked into again."""
        if number not in self.known:
            found = self._changed(self.field.elements[number])
            self.known[number] = found if found is not None else self._element(self.field.elements[number], number)
        return self.known[number]


def _without(monomial: Monomial, unknown: Monomial) -> Monomial | None:
    """A product without another one in it; None where it is not a factor."""
    left = dict(monomial)
    for number, exponent in unknown:
        if left.get(number) != exponent:
            return None
        del left[number]
    return tuple(sorted(left.items()))


def _aligned(basis: Field, state: State) -> Cell | None:
    """What memory holds when the loop starts, in the variables of the unknown."""
    if state.first is None:
        return None
    mine, theirs = state.tile.variables, state.first.variables
    if len(mine) != len(theirs) or any(a.size != b.size for a, b in zip(mine, theirs, strict=True)):
        for a, b in zip(mine, theirs, strict=False):
            if a.size != b.size:
                raise Cut(a, size_of(b))
        return None
    found: Cell = Renamed(basis, dict(zip(theirs, mine, strict=True))).cell(state.first.cell)
    return found


def stateless(cell: Cell, what: str) -> None:
    """Undecided where a formula has an unknown of a loop in it."""
    if any(True for form in ([cell.flag, cell.form] if isinstance(cell, Masked) else [cell]) for _ in states_in(form)):
        raise Undecided(what)


def _data(x: Form) -> Any:
    """The data of the unknown that a formula is, or is a function of."""
    (found,) = {data for data in _inputs(x) if _is_state(data)}
    return found


def _name(x: Form) -> str:
    name: str = _data(x)[0][3]
    return name


def _is_state(data: Any) -> bool:
    return type(data) is tuple and type(data[0]) is tuple and data[0][:1] == (MARK,)


def states_in(form: Form) -> set[tuple[str, str]]:
    """The unknowns of loops in a formula, however deep: of which memory, and whether before or after."""
    return {(data[0][3], data[0][4]) for data in _inputs(form) if _is_state(data)}


def _inputs(form: Form) -> Iterator[Any]:
    """The data of all unknowns in a formula."""
    basis, seen = form.field, set()

    def of(what: Any) -> Iterator[Any]:
        if isinstance(what, Form):
            for monomial in what.terms:
                for number, _ in monomial:
                    yield from of_element(number)
        elif isinstance(what, (tuple, frozenset)):
            for part in what:
                yield from of(part)

    def of_element(number: int) -> Iterator[Any]:
        if number in seen:
            return
        seen.add(number)
        kind, data = basis.elements[number][:2]
        if kind == "input":
            yield data
        elif kind == "exp":
            for inner, _ in data:  # type: ignore[attr-defined]
                yield from of_element(inner)
        else:
            yield from of(data)

    yield from of(form)

