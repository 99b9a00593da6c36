"""What memory holds after any number of iterations, from what one makes of what it held before (an unknown x):

    x' = x + f             is  x₀ + Σ f                             f without any such unknown
    x' = max(x, f)         is  max(x₀, max f)
    x' = x·h(p)/h(p') + f  is  (x₀·h(p₀) + Σ f·h(p')) / h(pₙ)       p' the new value of a maximum p, h an exponential
    E(x') = E(x) + f       is  E⁻¹(E(x₀) + Σ f)                     E an exponential (log-sum-exp, running)

The third is online softmax: x·h(p) is a sum. It holds as h(p) is never 0, and p is a number from the first iteration
on. Where p₀ is −∞ and h grows, x₀·h(p₀) is 0, as x₀·h(p₀)/h(p') is in the text. Other memory is not known at the end,
unless it is the same after every iteration.

With iterations of which not all are there (`Turns.shown`) sums and maxima are over those. Before an iteration a sum is
that over the iterations before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scalify_dl.algebra import extended, laws
from scalify_dl.algebra.extended import Cell, Masked
from scalify_dl.algebra.form import Field, Form
from scalify_dl.algebra.selecting import decided
from scalify_dl.algebra.sums import greatest_cell, summed
from scalify_dl.algebra.variables import Renamed, free, fresh

from ..formulas import ln2
from .places import Place
from .positions import positive
from .states import At, Memory, State, Tile, Turns, aligned, name_of, stateless, states_in, without

if TYPE_CHECKING:
    from .machine import Machine


def maximum_with(cell: Cell, before: Form) -> Cell | None:
    """f where a formula is max(x, f) with x the unknown, or x where f is −∞ (φ·max(x, f) + (1 − φ)·x, φ a truth)."""
    if not isinstance(cell, Form):
        return None
    found = _of_maximum(cell, before)
    if found is not None:
        return found
    field, ((unknown, _),) = cell.field, before.terms.items()
    truth = field.zero
    for monomial, c in (before - cell).terms.items():
        left = without(monomial, unknown)
        if left is not None:
            truth = truth + Form(field, {left: c})
    flags = {n for monomial in truth.terms for n, _ in monomial}
    if not flags or any(field.elements[n].kind != "flag" for n in flags) or truth * truth != truth:
        return None
    if states_in(truth):
        return None
    maxima = {n for m in cell.terms for n, _ in m if field.elements[n].kind == "maximum"}
    for number in maxima:
        for most in (field.of(number), -field.of(number)):
            if cell == truth * most + (field.one - truth) * before:
                found = _of_maximum(most, before)
                return None if found is None else extended.masked(truth, found, -1)
    return None


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


def solved(machine: Machine, states: dict[int, State], solver: Solver, *, certain: bool) -> Memory:
    """What memory holds at the end; `certain` where there is an iteration at all sizes."""
    turns = solver.turns
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
            found[key] = None if free(machine.basis, cell) & {*turns.variables} or not certain else held
        elif isinstance(cell, Masked) and cell.flag.value == 0:
            found[key] = held if certain else None
        else:
            found[key] = solver.other(state, cell)
    return found


class Solver:
    """Recurrences of one loop."""

    def __init__(self, basis: Field, states: dict[int, State], turns: Turns) -> None:
        self.basis, self.states, self.turns = basis, states, turns
        self.sums: dict[str, tuple[State, Form, Form]] = {}
        """Running sums, by the name of their memory: what they start from, and what an iteration adds."""
        self.maxima: dict[str, tuple[State, Cell]] = {}
        """Running maxima at the end, by the name of their memory."""

    def maximum(self, state: State) -> Tile | None:
        """max(x₀, max f)."""
        f = maximum_with(state.new, state.before)  # type: ignore[arg-type]
        if f is None or state.first is None:
            return None
        start = aligned(self.basis, state)
        if start is None:
            return None
        shown, form = (f.flag, f.form) if isinstance(f, Masked) else (self.basis.one, f)
        most = greatest_cell(extended.masked(decided(self.turns.shown * shown), form, -1), self.turns.variables)
        cell = extended.maximum(start, most)
        if not isinstance(cell, Form):
            return None
        self.maxima[name_of(state.before)] = state, cell
        return replace(state.tile, cell=cell)

    def other(self, state: State, cell: Cell) -> Tile | None:
        """Sums, also relative to a running maximum, or of exponentials; None where it is none of these."""
        start = aligned(self.basis, state)
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
            left = without(monomial, unknown)
            if left is None:
                rest = rest + Form(self.basis, {monomial: c})
            else:
                factor = factor + Form(self.basis, {left: c})
        mine = name_of(x)
        if mine in {n for n, _ in states_in(rest)} | {n for n, _ in states_in(factor)} or not isinstance(start, Form):
            return None
        if factor.value == 1:
            if states_in(rest):
                return None
            self.sums |= {name_of(x): (state, start, rest) for state in self.states.values() if state.before == x}
            return start + self._total(rest)
        return self._relative(factor, rest, start)

    def _total(self, added: Form) -> Form:
        """The sum of what the iterations add."""
        return summed(self.basis, self.turns.shown * added, self.turns.variables)

    def before_each(self, cell: Cell) -> Cell:
        """What an iteration writes: running sums are the sums over the iterations before it."""
        if isinstance(cell, Form):
            for name, (state, start, added) in self.sums.items():
                if (name, "before") in states_in(cell):
                    own = fresh(self.basis, self.turns.variables)
                    count = self.turns.count
                    there = Place(tuple((own[v], stride) for v, stride in count.parts), count.start)
                    earlier = positive(self.basis, count + there.scaled(-1))
                    sum_before = summed(self.basis, earlier * Renamed(self.basis, own).form(added), [*own.values()])
                    cell = At(self.basis, state, "before", start + sum_before).form(cell)
        stateless(cell, "what a loop writes depends on the iterations before", self.states.values())
        return cell

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
        later = At(self.basis, state, "before", state.after).form(old)
        if (later * new).value != 1:
            return None
        added = rest * later
        if states_in(added):
            return None
        begin = aligned(self.basis, state)
        if isinstance(begin, Form):
            scaled = start * At(self.basis, state, "before", begin).form(old)
        elif begin is not None and begin.flag.value == 0 and begin.sign < 0 and self._grows(old, state):
            scaled = self.basis.zero
        else:
            return None
        assert isinstance(end, Form)
        return (scaled + self._total(added)) * At(self.basis, state, "after", end).form(new)

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
