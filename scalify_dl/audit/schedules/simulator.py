"""A machine that runs schedules step by step, in a random order: what the rules say is compared with what it does.

It shares nothing with the rules but the pieces: queues hold messages, members gather, and a question such as "may these
two be in flight at once?" is put by keeping both from ending and running everything else as far as it goes.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable

from .program import Chains, Piece

Place = tuple[int, int]


class Machine:
    """One program and one capacity (None: any number)."""

    def __init__(self, program: Chains, capacity: int | None, seed: int = 0) -> None:
        self.program, self.capacity = program, capacity
        self.random = random.Random(seed)
        self.calls: defaultdict[tuple[int, int], list[list[Piece]]] = defaultdict(list)
        self.present = {id(piece) for piece in program.pieces()}
        self.number: dict[int, int] = {}
        self.partner: dict[int, Piece] = {}
        self._match()

    def _match(self) -> None:
        """Messages by queue: what is sent is put in line, a receive takes the first."""
        lines: defaultdict[int, tuple[deque[Piece], deque[Piece]]] = defaultdict(lambda: (deque(), deque()))
        self.gathering: dict[tuple[int, int], list[Piece]] = {}
        turns: Counter[tuple[int, int]] = Counter()
        self.call: dict[int, tuple[int, int]] = {}
        for piece in self.program.pieces():
            if piece.sends is not None:
                self.number[id(piece)] = len(lines[piece.sends][0])
                lines[piece.sends][0].append(piece)
            elif piece.receives is not None:
                lines[piece.receives][1].append(piece)
            elif piece.joins is not None:
                call = (piece.joins[0], turns[piece.joins])
                turns[piece.joins] += 1
                self.gathering.setdefault(call, []).append(piece)
                self.call[id(piece)] = call
        self.pairs: list[tuple[Piece, Piece]] = []
        self.alone: list[Piece] = []
        for sent, wanted in lines.values():
            while sent and wanted:
                pair = (sent.popleft(), wanted.popleft())
                self.pairs.append(pair)
                self.partner[id(pair[0])], self.partner[id(pair[1])] = pair[1], pair[0]
            self.alone += [*sent, *wanted]

    def run(self, frozen: Iterable[Piece] = (), apart: int | None = None) -> tuple[set[int], set[int]]:
        """Ids of pieces that started and that ended, where `frozen` ones never end.

        With `apart`, a rank: partners are always there, and only this rank's chains run, so that what order there is
        comes from the rank alone.
        """
        held = {id(piece) for piece in frozen}
        chains = [pieces for rank, _, pieces in self.program.chains if apart is None or rank == apart]
        mine = {id(piece) for pieces in chains for piece in pieces}
        at = [0] * len(chains)
        started: set[int] = set()
        ended: set[int] = set()
        taken: Counter[int] = Counter()
        moved = True
        order = list(range(len(chains)))
        while moved:
            moved = False
            self.random.shuffle(order)
            for c in order:
                while at[c] < len(chains[c]):
                    piece = chains[c][at[c]]
                    if id(piece) not in started:
                        awaited = [d for d in piece.waits if id(d) in self.present and id(d) in mine]
                        if not all(id(d) in ended for d in awaited):
                            break
                        started.add(id(piece))
                        moved = True
                        if piece.receives is not None:
                            taken[piece.receives] += 1
                    if id(piece) in held or not (apart is not None or self._may_end(piece, started, taken)):
                        break
                    ended.add(id(piece))
                    at[c] += 1
                    moved = True
        return started, ended

    def _may_end(self, piece: Piece, started: set[int], taken: Counter[int]) -> bool:
        if piece.sends is not None:
            return self.capacity is None or self.number[id(piece)] - taken[piece.sends] < self.capacity
        if piece.receives is not None:
            partner = self.partner.get(id(piece))
            return partner is not None and id(partner) in started
        if piece.joins is not None:
            call = self.gathering[self.call[id(piece)]]
            return len(call) == len(self.program.members[piece.joins[0]]) and all(id(p) in started for p in call)
        return True
