"""Values that are equal if those that they are made of are: for all layers of a program at once.

An execution says which values of both sides may be equal. Where ops of both sides differ over operands that may be
equal, the two are compared by the ops between alone, with these operands for unknowns. What is found is a claim on that
condition, and rules use it once they have derived the condition (lemma `equal-parts`). Parts that are alike but for
names are decided once.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalify_dl.ir.layout import Layout
from scalify_dl.ir.vocabulary import COLLECTIVES, ELEMENTWISE
from scalify_dl.oracle.dtypes import is_float
from scalify_dl.oracle.erased import CONDITIONS
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.program import Op, Shard
from scalify_dl.oracle.trial import Trial

from .between import BETWEEN, LOCAL, MOST_CANDIDATES, alike, made_of
from .compared import MOST_OPS, Answer, Pair
from .effort import now
from .form import Undecided
from .formulas import MOVES
from .rewriting import COMMUTATIVE

if TYPE_CHECKING:
    from .decide import Decider

TRIED = ELEMENTWISE | {"dot", "reduce"}
"""Kinds of ops whose results are compared; others move elements about, and are the rules'."""
FOLLOWED = LOCAL | COLLECTIVES | {"dot"}
"""Kinds of the ops between."""
SECONDS = 0.6
"""CPU time for one pair, in each way."""


class Claim(NamedTuple):
    """A pair that is equal if each of `given` is so."""

    answer: Answer
    given: tuple[Shard, ...]


class Part(NamedTuple):
    """The ops that make both values of a pair, and what these are made of."""

    ops: list[Op]
    given: tuple[Shard, ...]


def claims(decider: Decider, outputs: Collection[tuple[str, str]]) -> list[Claim]:
    """Of all values that outputs (distributed tensor, baseline value) are made of, and of these: those that agree, and
    are numbers, in an execution."""
    trial = decider.likeness
    graphs = decider.program.top("dist")
    if trial is None or len(graphs) != 1 or graphs[0].ranks != decider.program.ranks:
        return []
    outputs = [(dist, base) for dist, base in outputs if any(alike(decider, trial, [dist], [base]))]
    kept = decider.by_dist, decider.near
    try:
        return [*_Ahead(decider, trial).claims(outputs)]
    finally:
        decider.by_dist, decider.near = kept


@dataclass
class _Pattern:
    """How a part was decided: by which names, and what was found."""

    names: list[str]
    claim: Claim | None


class _Ahead:
    def __init__(self, decider: Decider, trial: Trial) -> None:
        self.decider, self.trial, self.program = decider, trial, decider.program
        (self.base_graph,), self.dist_graph = self.program.top("base"), self.program.top("dist")[0]
        self.inputs = {*self.dist_graph.inputs, *self.base_graph.inputs}
        self.place = {op.id: n for g in (self.dist_graph, self.base_graph) for n, op in enumerate(g.ops)}
        self.known = {t: {shard.base for shard in found} for t, found in decider.by_dist.items()}
        self.known.update({t: {shard.base for shard in found} for t, found in decider.unsure.items()})
        more = {t: found for t, found in decider.unsure.items() if self._is_number(found[0])}
        cuts = {t: [s for s in found if not s.base_piece and all(d.stride for dim in s.layout.dims for d in dim)]
                for t, found in {**more, **decider.by_dist}.items()}  # fmt: skip
        self.choices = {t: found for t, found in cuts.items()
                        if found and t not in decider.fixed and not self._repeats(t)}  # fmt: skip
        """What a value holds, or may hold: several baseline values that are equal."""
        decider.by_dist = {t: [self._plainest(found)] for t, found in self.choices.items()}
        decider.near = {}
        self.supposed: dict[str, str] = {}
        self.patterns: dict[Hashable, _Pattern] = {}

    def _repeats(self, t: str) -> bool:
        """Whether a value is a broadcast, which is followed to what it repeats: an unknown would not be alike in it."""
        return t in self.decider.makers and self.decider.makers[t].kind == "broadcast"

    def _is_number(self, shard: Shard) -> bool:
        value = self.trial.baseline.get(shard.base)
        return value is not None and bool(np.isfinite(value).all())

    def _plainest(self, found: list[Shard]) -> Shard:
        makers = self.decider.makers
        return min(found, key=lambda s: (s.layout.scale != 1, s.base in makers and makers[s.base].kind in MOVES))

    def claims(self, outputs: Collection[tuple[str, str]]) -> Iterator[Claim]:
        decider = self.decider
        ours = made_of(decider, self.dist_graph, {dist for dist, _ in outputs})
        theirs = made_of(decider, self.base_graph, {base for _, base in outputs})
        for t, found in alike(decider, self.trial, [t for t in ours if t not in self.known], theirs):
            if now() > decider.deadline:
                return
            supposed = next(((b, layout) for b, layout in found if self._follows(t, b)), None)
            if supposed is None and decider.makers[t].kind in TRIED:
                for b, layout in found[:MOST_CANDIDATES]:
                    if (claim := self._claim(t, b, layout)) is not None:
                        yield claim
                        supposed = b, layout
                        break
            elif supposed is None:
                supposed = found[0]
            if supposed is None:
                continue
            self.supposed[t] = supposed[0]
            if not self._repeats(t):
                decider.by_dist[t] = [Shard(t, (), supposed[0], (), supposed[1])]
                self.choices[t] = [*decider.by_dist[t], *(Shard(t, (), b, (), layout) for b, layout in found)]

    def _follows(self, t: str, b: str) -> bool:
        """Whether rules are expected to prove a pair by its operands."""
        ours, theirs = (self.decider.makers.get(value) for value in (t, b))
        if ours is None or theirs is None or ours.kind != theirs.kind or len(ours.operands) != len(theirs.operands):
            return False
        orders = [theirs.operands, theirs.operands[::-1]] if ours.kind in COMMUTATIVE else [theirs.operands]
        return any(all(map(self._may_hold, ours.operands, order)) for order in orders)

    def _may_hold(self, t: str, b: str) -> bool:
        if b in self.known.get(t, ()) or self.supposed.get(t) == b:
            return True
        if t not in self.decider.fixed or b not in self.decider.fixed:
            return False
        mine, other = self.trial.distributed.get(t), self.trial.baseline.get(b)
        return mine is None or other is None or all(np.array_equal(part, other) for part in mine.values())

    def _claim(self, t: str, b: str, layout: Layout) -> Claim | None:
        tried: list[tuple[Shard, ...]] = []
        for ends in BETWEEN:
            part = self._part(t, b, ends)
            if part is None or part.given in tried:
                continue
            tried.append(part.given)
            key, names = self._pattern(t, b, ends, layout, part)
            pattern = self.patterns.get(key)
            if pattern is None:
                pattern = self.patterns[key] = _Pattern(names, self._decided(t, b, ends, layout, part))
            if pattern.claim is not None:
                return self._here(_renamed(pattern.claim, dict(zip(pattern.names, names, strict=True))))
        return None

    def _here(self, claim: Claim) -> Claim | None:
        """A claim with what executions say of this very pair: others of its pattern are of other values."""
        decider, answer = self.decider, claim.answer
        ends = answer.dist, answer.base
        limited = any(what in CONDITIONS or what == "finite" for _, what in answer.needs)
        if (limited and decider.erased(*ends)) or decider.erased_infinities(*ends):
            return None
        if decider.overflows(*ends):
            needs = tuple(sorted({*answer.needs, (answer.dist, "range")}))
            return claim._replace(answer=replace(answer, needs=needs))
        return claim

    def _decided(self, t: str, b: str, ends: str, layout: Layout, part: Part) -> Claim | None:
        decider = self.decider
        decider.by_dist.update({shard.dist: [shard] for shard in part.given})
        decider.until = min(now() + SECONDS, decider.deadline)
        try:
            pair = Pair(decider, t, b, ends, local=layout)
            answer = pair.answer([layout], numbers=True)
        except (Undecided, Unsupported, Deadlock):
            return None
        finally:
            decider.until = None
        cut_alike = {*pair.shards.values()} == {*part.given}  # else the pattern is of something else
        return Claim(answer, part.given) if answer is not None and cut_alike else None

    def _part(self, t: str, b: str, ends: str) -> Part | None:
        """The ops of a pair, as `Pair` cuts them; None where they are many, or of other kinds."""
        decider, inputs = self.decider, self.inputs

        def cut(value: str) -> bool:
            return value in decider.by_dist and value != t and (value in inputs or decider.is_cut(value, ends))

        ours, ends_of_ours = self._walk(t, cut)
        near = self._walk(b, inputs.__contains__)[0] if len(ours) <= MOST_OPS else []
        read = {value for op in near for value in op.operands}
        given = tuple(self._read(value, read) for value in ends_of_ours if value in decider.by_dist)
        wanted = {shard.base for shard in given} - {b}
        theirs, ends_of_theirs = self._walk(b, wanted.__contains__)
        if len(given) != len(ends_of_ours) or not {*ends_of_theirs} <= wanted | inputs:
            return None
        ops = [*ours, *theirs]
        if len(ops) > MOST_OPS or any(op.kind not in FOLLOWED for op in ops):
            return None
        return Part(ops, given)

    def _read(self, value: str, read: set[str]) -> Shard:
        """Of the equal baseline values that one holds one that the baseline's side is made of, and the plainest."""
        found = self.choices[value]
        return self._plainest([shard for shard in found if shard.base in read] or found[:1])

    def _walk(self, target: str, cut: Any) -> tuple[list[Op], list[str]]:
        """The ops that make a value, in order, back to cuts and inputs; no more than a few."""
        ops: dict[str, Op] = {}
        ends: dict[str, None] = {}
        stack = [target]
        while stack and len(ops) <= MOST_OPS:
            value = stack.pop()
            op = self.decider.makers.get(value)
            if op is None or (value != target and cut(value)):
                ends[value] = None
            elif op.id not in ops:
                ops[op.id] = op
                stack += op.operands
        return sorted(ops.values(), key=lambda op: self.place.get(op.id, 0)), list(ends)

    def _pattern(self, t: str, b: str, ends: str, layout: Layout, part: Part) -> tuple[Hashable, list[str]]:
        """All that the decision of a part reads, with numbers for names; and the names."""
        numbers: dict[str, int] = {}
        program, rewritten = self.program, self.decider.rewritten
        used = rewritten.used if rewritten else {}

        def number(name: str) -> int:
            return numbers.setdefault(name, len(numbers))

        ops = tuple(
            (number(op.id), op.kind, *(tuple(map(number, names)) for names in (op.operands, op.results)),
             repr((op.numbers, op.symbols, op.by_rank, op.groups, op.pairs, op.declared, used.get(op.id))))
            for op in part.ops
        )  # fmt: skip
        given = tuple((number(s.dist), number(s.base), str(s.layout), self.decider.is_sound(s)) for s in part.given)
        values = [name for name in numbers if name in program.tensors]
        tensors = tuple(
            (numbers[v], d.dtype, d.shape, d.literal, d.items, d.sha256, program.ranges.get(v), v in self.decider.fixed,
             v in self.decider.bent, v in self.inputs, "" if is_float(d.dtype) or v not in self.decider.makers else v)
            for v in values for d in (program.tensors[v],)
        )  # fmt: skip
        return (number(t), number(b), ends, str(layout), ops, given, tensors), list(numbers)


def _renamed(claim: Claim, names: Mapping[str, str]) -> Claim:
    """A claim about other values."""
    answer = claim.answer

    def all_of(values: Iterable[str]) -> tuple[str, ...]:
        return tuple(names[value] for value in values)

    needs = tuple((names[what], why) for what, why in answer.needs)
    given = tuple(replace(shard, dist=names[shard.dist], base=names[shard.base]) for shard in claim.given)
    cuts, inputs = all_of(answer.cuts), all_of(answer.inputs)
    ends = names[answer.dist], names[answer.base]
    return Claim(replace(answer, dist=ends[0], base=ends[1], cuts=cuts, inputs=inputs, needs=needs), given)

