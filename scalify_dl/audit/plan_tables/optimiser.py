"""What runs behind the last micro-batch: a step against the gradient on whole weights, or on shards of them (ZeRO-1):
gradients are reduced and scattered over the copies, every copy makes its block of the new weight, and gathers all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .rows import Rows

RATE = 0.125
"""How far a step goes."""
Spans = list[tuple[int, int]]


@dataclass
class Optimiser:
    """Updates of the weights of one rank; `seq` is where its next op stands."""

    rows: Rows
    rank: int
    seq: int
    known: dict[object, int] = field(default_factory=dict)
    """Numbers of parts by tensor of the model and spans, of all ranks."""

    def whole(self, weight: str, gradient: str, full: tuple[int, int], spans: Spans, tid: int) -> None:
        """The new weight out of a whole gradient. `full`: the numbers of the weight and of its gradient."""
        self._stepped(weight, gradient, full, spans)
        self._updates(full[0], spans, tid)

    def shard(self, gradient: str, full: tuple[int, int], spans: Spans, tid: int, members: Sequence[int]) -> None:
        """The same on a block along dim 0 for every member."""
        (lo, hi), n, at = spans[0], len(members), members.index(self.rank)
        size = (hi - lo) // n
        own = [(lo + at * size, lo + (at + 1) * size), *spans[1:]]
        mine = self._tensor(full[1], own, 50)
        self._collective("ReduceScatterPrim", gradient, mine, members)
        block = self.rows.tensor(self.rank, -1, self._part(full[0], own), 0, True)
        made = self._stepped(block, mine, full, own)
        self._collective("AllGatherPrim", made, self._tensor(full[0], spans, 53), members)
        self._updates(full[0], spans, tid)

    def _stepped(self, weight: str, gradient: str, full: tuple[int, int], spans: Spans) -> str:
        far, made = self._tensor(full[1], spans, 51), self._tensor(full[0], spans, 52)
        op = self._op("mul", [gradient], [far])
        self.rows.add("const", op, 0, "float", RATE)
        self.rows.add("attr", self._op("sub", [weight, far], [made]), "alpha", "int", 1)
        return made

    def _op(self, kind: str, reads: list[str], makes: list[str]) -> str:
        self.seq += 1
        return self.rows.op(self.rank, -1, self.seq - 1, 9500, kind, kind, "-", reads, makes)

    def _collective(self, kind: str, x: str, made: str, members: Sequence[int]) -> None:
        op = self._op(kind, [x], [made])
        self.rows.add("coll", op, f"{self.rows.side}.{op}", kind, 0)
        for n, rank in enumerate(members):
            self.rows.add("coll_member", op, n, rank)

    def _updates(self, full: int, spans: Spans, tid: int) -> None:
        if ("update", tid) not in self.known:
            self.known["update", tid] = self._part(full, spans)
            self.rows.add("update", self.rows.side, self.known["update", tid], tid)

    def _part(self, full: int, spans: Spans) -> int:
        key = (full, *spans)
        if key not in self.known:
            tid = self.known[key] = self.rows.number()
            for dim, (lo, hi) in enumerate(spans):
                self.rows.add("sub_slice", self.rows.side, tid, full, dim, lo, hi)
            self.rows.add("sub_val", self.rows.side, tid, 0, 1)
        return self.known[key]

    def _tensor(self, full: int, spans: Spans, version: int) -> str:
        return self.rows.tensor(self.rank, -1, self._part(full, spans), version)
