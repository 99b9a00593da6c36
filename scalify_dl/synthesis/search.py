"""Which choice of every op costs least: the program is gone through op by op, with the placements of the values that
are still read.

A value is in one placement at a time; who reads it in another one pays for the way there, and it may then stay there.
Of two states after an op, one that costs no less than the other and the ways from that one to it is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf, prod
from typing import NamedTuple

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.lint.edits import BYTES

from .choices import Choice
from .layouts import Layout, Ways, local

MOST = 100
"""So many states are looked at after an op."""
COMPARED = 12
Total = tuple[float, int, int]
"""Bytes or time of what is sent; steps; elements that a rank computes."""


class Event(NamedTuple):
    """An input that is first read, an op, or an output."""

    what: Op | Tensor
    reads: tuple[Tensor, ...]
    makes: tuple[Tensor, ...]
    choices: list[Choice]


class Turn(NamedTuple):
    """What was chosen for an event, and the placements in which the values then stay."""

    event: Event
    choice: Choice
    stays: dict[Tensor, Layout]


@dataclass
class State:
    """Placements of values that are still read, what it cost to come here, and the way."""

    at: dict[Tensor, Layout]
    total: Total
    turn: Turn | None = None
    before: State | None = None


@dataclass
class Found:
    """The cheapest turns; whether all states were looked at."""

    turns: list[Turn] = field(default_factory=list)
    total: Total = (inf, 0, 0)
    complete: bool = True


def events(
    base: Graph, of: Mapping[Op, list[Choice]], given: Mapping[Tensor, Layout], wanted: Sequence[tuple[Tensor, Layout]]
) -> list[Event]:
    """A program in order: inputs where they are first read, outputs where they are made."""
    found: list[Event] = []
    ends: dict[Tensor, list[Layout]] = {}
    for t, layout in wanted:
        ends.setdefault(t, []).append(layout)
    begun: set[Tensor] = set()

    def begin(tensors: Sequence[Tensor]) -> None:
        for t in tensors:
            if t in given and t not in begun:
                begun.add(t)
                found.append(Event(t, (), (t,), [Choice((), (given[t],))]))
                end((t,))

    def end(tensors: Sequence[Tensor]) -> None:
        found.extend(Event(t, (t,), (), [Choice((layout,), ())]) for t in tensors for layout in ends.get(t, ()))

    for op in base.ops:
        begin(op.operands)
        found.append(Event(op, tuple(op.operands), tuple(op.results), of[op]))
        end(op.results)
    begin([t for t, _ in wanted])
    return found


def cheapest(steps: Sequence[Event], ways: Ways) -> Found:
    """The choices that cost least."""
    last = {t: n for n, event in enumerate(steps) for t in event.reads}
    states, found = [State({}, (0, 0, 0))], Found()
    for n, event in enumerate(steps):
        after: dict[tuple[tuple[int, Layout], ...], State] = {}
        stay = {t for t in (*event.reads, *event.makes) if last.get(t, -1) > n}
        works = [_work(event.what, choice, ways) if isinstance(event.what, Op) else 0 for choice in event.choices]
        for state in states:
            for made in _further(state, event, works, ways, stay):
                key = tuple((id(t), layout) for t, layout in made.at.items())
                if key not in after or made.total < after[key].total:
                    after[key] = made
        states = _kept(sorted(after.values(), key=lambda s: s.total), ways)
        found.complete = found.complete and len(states) < MOST
    if not states:
        return found
    at: State | None = states[0]
    found.total = states[0].total
    while at is not None and at.turn is not None:
        found.turns.append(at.turn)
        at = at.before
    found.turns.reverse()
    return found


def width(t: Tensor) -> int:
    """Bytes of an element."""
    return BYTES.get(t.dtype, 4)


def _further(
    state: State, event: Event, works: Sequence[int], ways: Ways, stay: set[Tensor]
) -> Iterator[State]:  # fmt: skip
    for choice, more_work in zip(event.choices, works, strict=True):
        needs: dict[Tensor, list[Layout]] = {}
        for t, layout in zip(event.reads, choice.needs, strict=True):
            if layout not in needs.setdefault(t, []):
                needs[t].append(layout)
        sent, hops, work = state.total
        for t, layouts in needs.items():
            for layout in layouts:
                cost, more = ways.cost(t.shape, width(t), state.at[t], layout)
                sent, hops = sent + cost, hops + more
        if sent == inf:
            continue
        work += more_work
        base = {t: layout for t, layout in state.at.items() if t not in needs or t in stay}
        base |= {t: layout for t, layout in zip(event.makes, choice.makes, strict=True) if t in stay}
        moved = [t for t in needs if t in stay]
        for where in product(*(_stays(t, state.at[t], needs[t], ways) for t in moved)):
            at = dict(zip(moved, where, strict=True))
            yield State(base | at, (sent, hops, work), Turn(event, choice, at), state)


def _stays(t: Tensor, here: Layout, read: Sequence[Layout], ways: Ways) -> list[Layout]:
    """Where a value that is read elsewhere may stay: a placement from which others are had for nothing is enough."""
    found = [here]
    for layout in read:
        if all(ways.cost(t.shape, width(t), at, layout)[0] for at in found):
            found = [at for at in found if ways.cost(t.shape, width(t), layout, at)[0]] + [layout]
    return found


def _work(op: Op, choice: Choice, ways: Ways) -> int:
    sizes = [prod(local(layout, t.shape, ways.mesh)) for layout, t in
             (*zip(choice.makes, op.results, strict=True), *zip(choice.needs, op.operands, strict=True))]  # fmt: skip
    if op.kind != "dot":
        return sizes[0]
    left = local(choice.needs[0], op.operands[0].shape, ways.mesh)
    return sizes[0] * prod(left[d] for d in op.numbers["lhs_contracting_dims"])


def _kept(states: Sequence[State], ways: Ways) -> list[State]:
    """States without those to which a cheaper one leads at no more cost."""
    found: list[State] = []
    for state in states:
        for other in found[:COMPARED]:
            sent, hops, work = other.total
            for t, layout in state.at.items():
                cost, more = ways.cost(t.shape, width(t), other.at[t], layout)
                sent, hops = sent + cost, hops + more
            if (sent, hops, work) <= state.total:
                break
        else:
            found.append(state)
            if len(found) == MOST:
                break
    return found
