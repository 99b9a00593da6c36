"""All interleavings of a small program: what ends in each of them, and what is ever in flight at once.

This is the definition that rules and machine are meant to decide, by trying: every state that a run can be in. A state
is how far each chain has come: twice the events that have ended there, and one more where the next one has started.
States are looked at all at once that are equally many steps from the beginning, as rows of a matrix, so that a million
take a few seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .program import Chains, Piece
from .simulator import Machine

States = npt.NDArray[np.int16]
"""One row a state, one column a chain."""


@dataclass
class Tried:
    """Events by number: those that have ended where nothing more can happen, for each such state, and pairs that touch
    their bytes at once in some state (a send does so until it is received, a receive once its send has started)."""

    ends: set[frozenset[int]] = field(default_factory=set)
    together: set[tuple[int, int]] = field(default_factory=set)
    states: int = 0


def all_runs(program: Chains, capacity: int | None, most: int) -> Tried | None:
    """All states that runs can be in; None where there are more than `most`."""
    steps = _Steps(program, capacity)
    tried = Tried()
    layer = np.zeros((1, len(steps.lengths)), np.int16)
    while len(layer):
        tried.states += len(layer)
        if tried.states > most:
            return None
        steps.in_flight(layer, tried.together)
        stopped, following = np.ones(len(layer), bool), []
        for c in range(len(steps.lengths)):
            able = steps.possible(layer, c)
            stopped &= ~able
            after = layer[able]
            after[:, c] += 1
            following.append(after)
        for state in layer[stopped].tolist():
            tried.ends.add(frozenset(e for c, n in enumerate(state) for e in steps.chains[c][: n >> 1]))
        layer = _distinct(np.concatenate(following))
    return tried


def _distinct(layer: States) -> States:
    """Each state once. States that fit into a number are compared as one."""
    bits = [int(n).bit_length() for n in layer.max(axis=0, initial=0)]
    if sum(bits) >= 63:
        rows = np.ascontiguousarray(layer).view(np.dtype((np.void, layer.itemsize * layer.shape[1]))).ravel()
        return layer[np.unique(rows, return_index=True)[1]]
    keys = np.zeros(len(layer), np.int64)
    for column, width in zip(layer.T, bits, strict=True):
        keys = (keys << width) | column
    return layer[np.unique(keys, return_index=True)[1]]


def _places(column: npt.NDArray[np.int16]) -> list[int]:
    """How far a chain has come in some state."""
    places: list[int] = np.flatnonzero(np.bincount(column)).tolist()
    return places


class _Steps:
    """What the next step of a chain needs of the others."""

    def __init__(self, program: Chains, capacity: int | None) -> None:
        pieces = program.pieces()
        self.number = {id(piece): e for e, piece in enumerate(pieces)}
        self.chains = [[self.number[id(p)] for p in some] for _, _, some in program.chains]
        self.lengths = [2 * len(some) for some in self.chains]
        self.place = {e: (c, n) for c, some in enumerate(self.chains) for n, e in enumerate(some)}
        self.machine, self.capacity, self.program = Machine(program, capacity), capacity, program
        self.takes: dict[int, list[tuple[int, int]]] = {}
        for piece in pieces:
            if piece.receives is not None:
                self.takes.setdefault(piece.receives, []).append(self.place[self.number[id(piece)]])
        self.needs = [[self._need(p, way) for p in some for way in (0, 1)] for _, _, some in program.chains]
        self.partner = {self.number[e]: self.place[self.number[id(p)]] for e, p in self.machine.partner.items()}
        self.reading = {
            e for e, p in enumerate(pieces)
            if p.sends is not None and e in self.partner and all(how == "reads" for how, *_ in p.touches)
        }  # fmt: skip
        self.writing = {
            e for e, p in enumerate(pieces)
            if p.receives is not None and e in self.partner and all(how == "writes" for how, *_ in p.touches)
        }  # fmt: skip

    def _need(self, piece: Piece, ending: int) -> list[tuple[int, int]] | Piece | None:
        """How far other chains have to be for an event to start, or to end; a send that needs room; None: never."""
        if not ending:
            waits = [self.place[self.number[id(d)]] for d in piece.waits if id(d) in self.number]
            return [(c, 2 * n + 2) for c, n in waits]
        if piece.sends is not None:
            return [] if self.capacity is None else piece
        if piece.receives is not None:
            partner = self.machine.partner.get(id(piece))
            return None if partner is None else [self._begun(partner)]
        if piece.joins is not None:
            call = self.machine.gathering[self.machine.call[id(piece)]]
            whole = len(call) == len(self.program.members[piece.joins[0]])
            return [self._begun(p) for p in call] if whole else None
        return []

    def _begun(self, piece: Piece) -> tuple[int, int]:
        c, n = self.place[self.number[id(piece)]]
        return c, 2 * n + 1

    def possible(self, layer: States, c: int) -> npt.NDArray[np.bool_]:
        """States in which a chain can go on."""
        able = np.zeros(len(layer), bool)
        for n in _places(layer[:, c]):
            need = self.needs[c][n] if n < self.lengths[c] else None
            if need is None:
                continue
            here = layer[:, c] == n
            if isinstance(need, Piece):
                assert need.sends is not None
                some = layer[here]
                taken = sum((some[:, d] > 2 * m for d, m in self.takes.get(need.sends, [])), np.zeros(len(some), int))
                able[here] = self.machine.number[id(need)] - taken < (self.capacity or 0)
                continue
            for d, least in need:
                here = here & (layer[:, d] >= least)
            able |= here
        return able

    def in_flight(self, layer: States, together: set[tuple[int, int]]) -> None:
        """Adds the pairs that touch their bytes at once in one of these states."""
        flying: list[tuple[int, Any]] = []
        for c, some in enumerate(self.chains):
            for n in _places(layer[:, c]):
                if n & 1:
                    e = some[n >> 1]
                    touching = layer[:, c] == n
                    if e in self.reading:
                        d, m = self.partner[e]
                        touching &= layer[:, d] < 2 * m + 2
                    elif e in self.writing:
                        d, m = self.partner[e]
                        touching &= layer[:, d] > 2 * m
                    flying.append((e, touching))
        for k, (e, here) in enumerate(flying):
            for f, there in flying[:k]:
                pair = (min(e, f), max(e, f))
                if pair not in together and (here & there).any():
                    together.add(pair)
