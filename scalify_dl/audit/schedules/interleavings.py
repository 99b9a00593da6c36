"""All interleavings of a small program: what ends in each of them, and what is ever in flight at once.

This is the definition that rules and machine are meant to decide, by trying: every state that a run can be in.
"""

from __future__ import annotations

from dataclasses import dataclass

from .program import Chains
from .simulator import Machine

State = tuple[int, ...]
"""For each chain twice the place that it has come to, and one more where the event there has started."""


@dataclass(frozen=True)
class Tried:
    """Events by number: those that have ended where nothing more can happen, for each such state, and pairs that touch
    their bytes at once in some state (a send does so until it is received)."""

    ends: set[frozenset[int]]
    together: set[tuple[int, int]]
    states: int


def all_runs(program: Chains, capacity: int | None, most: int) -> Tried | None:
    """All states that runs can be in; None where there are more than `most`."""
    machine = Machine(program, capacity)
    pieces = program.pieces()
    number = {id(piece): e for e, piece in enumerate(pieces)}
    place = {number[id(p)]: (c, n) for c, (_, _, some) in enumerate(program.chains) for n, p in enumerate(some)}
    chains = [[number[id(p)] for p in some] for _, _, some in program.chains]
    waits = [[place[number[id(d)]] for d in p.waits if id(d) in number] for p in pieces]
    partner = {number[e]: place[number[id(p)]] for e, p in machine.partner.items()}
    receives = {
        c: [place[e] for e, p in enumerate(pieces) if p.receives == c] for c in {p.sends for p in pieces} - {None}
    }

    reading = {
        e for e, p in enumerate(pieces)
        if p.sends is not None and e in partner and all(how == "reads" for how, *_ in p.touches)
    }  # fmt: skip

    def started(state: State, at: tuple[int, int]) -> bool:
        return state[at[0]] > 2 * at[1]

    def ended(state: State, at: tuple[int, int]) -> bool:
        return state[at[0]] >= 2 * at[1] + 2

    def may_end(state: State, e: int) -> bool:
        piece = pieces[e]
        if piece.sends is not None:
            if capacity is None:
                return True
            taken = sum(started(state, at) for at in receives[piece.sends])
            return machine.number[id(piece)] - taken < capacity
        if piece.receives is not None:
            return e in partner and started(state, partner[e])
        if piece.joins is not None:
            call = machine.gathering[machine.call[id(piece)]]
            whole = len(call) == len(program.members[piece.joins[0]])
            return whole and all(started(state, place[number[id(p)]]) for p in call)
        return True

    def touching(state: State, e: int) -> bool:
        return e not in reading or not ended(state, partner[e])

    first = tuple(0 for _ in chains)
    seen, stack = {first}, [first]
    ends: set[frozenset[int]] = set()
    together: set[tuple[int, int]] = set()
    while stack:
        state = stack.pop()
        flying = [e for e in (chains[c][n >> 1] for c, n in enumerate(state) if n & 1) if touching(state, e)]
        together.update((min(e, f), max(e, f)) for k, e in enumerate(flying) for f in flying[:k])
        stopped = True
        for c, n in enumerate(state):
            if n == 2 * len(chains[c]):
                continue
            e = chains[c][n >> 1]
            if may_end(state, e) if n & 1 else all(ended(state, at) for at in waits[e]):
                stopped = False
                after = (*state[:c], n + 1, *state[c + 1 :])
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
        if len(seen) > most:
            return None
        if stopped:
            ends.add(frozenset(e for c, n in enumerate(state) for e in chains[c][: n >> 1]))
    return Tried(ends, together, len(seen))
