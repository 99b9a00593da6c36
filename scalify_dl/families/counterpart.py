"""Which op of the baseline an op of the distributed program stands for: a guess from how the programs are wired.

Inputs correspond by their placement. From there an op stands for the first one that does the same to what its operands
stand for; collectives are looked through. A guess is only used where equations leave a number open, and shows in the
reading that the verdict lists.
"""

from __future__ import annotations

from collections import Counter

from scalify_dl.ir.vocabulary import COLLECTIVES

from .wiring import Op, Wiring


class Counterparts:
    """`op` and `tensor` map what is distributed to what it stands for."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.op: dict[str, Op] = {}
        self.tensor: dict[str, str] = {}
        self._taken: set[str] = set()
        placed: dict[str, set[str]] = {}
        for dist, _, base, *_ in wiring.facts["shard"]:
            placed.setdefault(dist, set()).add(base)
        self.tensor = {dist: next(iter(bases)) for dist, bases in placed.items() if len(bases) == 1}
        for op in wiring.order:
            if wiring.is_base(op):
                continue
            if op.kind in COLLECTIVES:
                if op.operands[0] in self.tensor:
                    self.tensor.setdefault(op.results[0], self.tensor[op.operands[0]])
            elif op.name not in self.op and (found := self._candidate(op)):
                self._match(op, found)

    def _candidate(self, op: Op) -> Op | None:
        """The op of the baseline that most operands speak for, first those that stand for nothing yet."""
        votes: Counter[str] = Counter()
        for position, tensor in enumerate(op.operands):
            for user, at in self.wiring.users.get(self.tensor.get(tensor, ""), ()):
                if at == position and user.kind == op.kind and len(user.operands) == len(op.operands):
                    votes[user.name] += 1
        best = None
        for name, count in votes.items():
            base = self.wiring.ops[name]
            against = sum(self.tensor.get(a, b) != b for a, b in zip(op.operands, base.operands, strict=True))
            ranks = [len(self.wiring.shape[tensor]) for tensor in (*op.operands, *op.results)]
            if against or ranks != [len(self.wiring.shape[tensor]) for tensor in (*base.operands, *base.results)]:
                continue
            key = (count, name not in self._taken)
            if best is None or key > best[0]:
                best = key, base
        return best[1] if best else None

    def _match(self, op: Op, base: Op) -> None:
        waiting = [(op, base)]
        while waiting:
            op, base = waiting.pop()
            self.op[op.name] = base
            self._taken.add(base.name)
            for mine, theirs in zip(op.results, base.results, strict=False):
                self.tensor.setdefault(mine, theirs)
            for mine, theirs in zip(op.regions, base.regions, strict=False):
                ports = zip(self.wiring.inputs.get(mine, ()), self.wiring.inputs.get(theirs, ()), strict=False)
                for a, b in ports:
                    self.tensor.setdefault(a, b)
            for mine, theirs in zip(op.operands, base.operands, strict=False):
                maker, other = self.wiring.maker.get(mine), self.wiring.maker.get(theirs)
                # what is made of constants alone has no input to speak for it
                alike = maker and other and maker.kind == other.kind
                alike = alike and len(self.wiring.shape[mine]) == len(self.wiring.shape[theirs])
                if maker and other and alike and mine not in self.tensor:
                    waiting.append((maker, other))
