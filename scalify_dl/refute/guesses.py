"""What was guessed about two programs, and whether a difference rests on it.

A placement that was read off a shape is one of several that fit it: contiguous blocks, interleaved ones, several
weights side by side. Inputs that are alike along the dims that it splits hold the same values under all of them, so a
difference on such inputs is there whatever the placement is. The same goes for constants that no dump prints: where all
elements are one number, it does not matter which constant is which. A named process group may be any of the groups
into which the ranks fall evenly: a difference has to be there under all of them. Values that were paired by their order
alone cannot be made alike: what rests on these is never more than a witness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from scalify_dl.ir.layout import Digit, Layout, dims_written
from scalify_dl.prove.view import View

if TYPE_CHECKING:
    from scalify_dl.oracle.program import Op, Program

FROM_SHAPES = ("shape", "name", "proposed")
"""Where `why` of a `shard` row says so, nobody said how the input is split."""

GROUPINGS = 16
"""So many ways to group the ranks of all named groups are tried."""

DISCRETE = frozenset(
    "ceil clz floor is-finite popcnt round-nearest-afz round-nearest-even sign sort top-k trunc floor-divide".split()  # noqa: SIM905
)
"""Kinds that tell equal numbers apart, or jump between numbers that differ by a rounding: no verdict from inputs that
are alike."""


@dataclass(frozen=True)
class Split:
    """An input whose placement was read off its shape."""

    name: str
    base: str
    dims: tuple[int, ...]
    line: str
    """The line of a relations file that says what was guessed."""
    sliced: bool = True
    """Whether something is sliced out of it along these dims: it may be several weights side by side."""


@dataclass
class Guesses:
    """Splits of inputs by distributed tensor; other guesses by tensor (of either side) with what was guessed."""

    splits: dict[str, Split] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    """Results of collectives over a group that is only named."""
    unprinted: set[str] = field(default_factory=set)
    """Constants of both sides whose values no dump has."""
    paired: dict[str, str] = field(default_factory=dict)
    """Outputs compared with one by their order: where such a value is read, nothing rests on it."""

    @classmethod
    def of(cls, view: View) -> Guesses:
        """What the facts say was guessed."""
        found = cls()
        sliced = {(tensor, dim) for _, tensor, dim in view.results("leads_to_slice")}
        for dist, _, base, _, text, why in view.facts("shard"):
            if why in FROM_SHAPES:
                dims = split_dims(text)
                if dims:
                    fused = any((dist, dim) in sliced for dim in dims)
                    found.splits[dist] = Split(view.name(dist), base, dims, written(view.name(dist), text), fused)
        for tensor, text, why in view.facts("assume"):
            if why == "position":
                found.assumed[tensor] = text
            elif why == "order":
                found.paired[tensor] = text
            elif why == "group":
                found.groups[tensor] = text
        hashed = {tensor for tensor, _ in view.facts("literal_hash")}
        paired = {t for row in view.facts("shard") for t in (row[0], row[2])}
        for tensor, text in view.facts("literal"):
            if text == "{...}" and tensor in paired - hashed:
                found.unprinted.add(tensor)
            elif text == "{...}" and tensor not in hashed:
                found.assumed[tensor] = f"{view.name(tensor)}: no dump has the value of this constant"
        return found

    def bear_on(self, tensors: Iterable[str]) -> Guesses:
        """Those among what some values are computed from."""
        cone = set(tensors)
        return Guesses(
            {t: split for t, split in self.splits.items() if t in cone},
            {t: text for t, text in self.assumed.items() if t in cone},
            {t: text for t, text in self.groups.items() if t in cone},
            self.unprinted & cone,
        )

    def union(self, other: Guesses) -> Guesses:
        """Those of both."""
        return Guesses(
            {**self.splits, **other.splits},
            {**self.assumed, **other.assumed},
            {**self.groups, **other.groups},
            self.unprinted | other.unprinted,
        )

    def reason(self) -> str:
        """Why a difference that they bear on is a witness only."""
        if self.splits:
            return f"the placement of {', '.join(sorted(s.name for s in self.splits.values()))} was guessed from shapes"
        if self.assumed or self.groups:
            return f"it rests on a guess: {min((self.assumed or self.groups).values())}"
        return "it rests on constants that no dump prints"

    def advice(self) -> list[str]:
        """What would make certain what was guessed."""
        lines = []
        for split in sorted(self.splits.values(), key=lambda s: s.name):
            dim = split.dims[0]
            lines.append(
                f"{split.name} was placed by its shape, a guess on which what differs rests: if it is right, write"
                f" `{split.line}` in the relations file"
                + f"; if it holds several weights side by side along dim {dim}, add"
                f" `parts: {{dim: {dim}, sizes: [a, b, …]}}`" * split.sliced
            )
        lines += [
            f"{text}: a guess on which what differs rests; say it in the relations file"
            " (`dlverify relate` writes the line)"
            for text in sorted({*self.assumed.values(), *self.groups.values()})
        ]
        if self.unprinted:
            lines.append(
                "what differs rests on constants that no dump prints: give their values under `constants:` of the"
                " relations file, or print them"
            )
        return lines

    def __bool__(self) -> bool:
        return bool(self.splits or self.assumed or self.groups or self.unprinted or self.paired)


def split_dims(text: str) -> tuple[int, ...]:
    """Baseline dims that a layout spreads over ranks."""
    layout = Layout.parse(text)
    return tuple(sorted({e.dim for _, entries in layout.axes for e in entries if isinstance(e, Digit)}))


def written(name: str, text: str) -> str:
    """The line of a relations file for an input in a layout: `inputs: {"w": {dims: {1: [tp]}}}`."""
    return f'inputs: {{"{name}": {{dims: {dims_written(text)}}}}}'


class Bearing:
    """Which guesses values depend on, and whether on what is discrete; linear in the program, whatever the number of
    values that are asked for."""

    def __init__(self, program: Program, guesses: Guesses) -> None:
        self.program, self.guesses = program, guesses
        self._producer = program.producer()
        self._guessed = [*guesses.splits, *guesses.assumed, *guesses.groups, *guesses.unprinted]
        self._bit = {tensor: 1 << n for n, tensor in enumerate(self._guessed)}
        self._discrete = 1 << len(self._guessed)
        self._memo: dict[str, int] = {}

    def on(self, tensors: Iterable[str]) -> Guesses:
        """The guesses that these outputs depend on."""
        outputs = tuple(tensors)
        paired = Guesses(assumed={t: self.guesses.paired[t] for t in outputs if t in self.guesses.paired})
        if not self._guessed:
            return paired
        bits = reduce(or_, map(self._bits, outputs), 0)
        return self.guesses.bear_on(t for n, t in enumerate(self._guessed) if bits >> n & 1).union(paired)

    def steady(self, tensors: Iterable[str]) -> bool:
        """Whether values depend on equal numbers in no way that their order or a rounding decides."""
        return not any(self._bits(tensor) & self._discrete for tensor in tensors)

    def _bits(self, tensor: str) -> int:
        stack = [tensor]
        while stack:
            here = stack[-1]
            above = read_for(self.program, self._producer, here)
            waiting = [] if here in self._memo else [t for t in above if t not in self._memo]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if here not in self._memo:
                self._memo[here] = reduce(or_, (self._memo[t] for t in above), self._own(here))
        return self._memo[tensor]

    def _own(self, tensor: str) -> int:
        """What is said of a value whatever it is computed from."""
        op = self._producer.get(tensor)
        discrete = op is not None and _is_discrete(self.program, op)
        return self._bit.get(tensor, 0) | (self._discrete if discrete else 0)


def _is_discrete(program: Program, op: Op) -> bool:
    """Whether the order of numbers, or a rounding, decides what an op makes of them."""
    real = any(program.tensors[t].dtype[0] in "fbc" for t in op.operands)
    if op.kind in DISCRETE or op.symbols.get("reducer", [""])[0].startswith("arg") or (real and op.kind == "compare"):
        return True
    return real and op.kind == "convert" and program.tensors[op.results[0]].dtype[0] in "sup"


def read_for(program: Program, producer: Mapping[str, Op], tensor: str) -> list[str]:
    """What the op that makes a tensor reads, and all values of its loop body and branches."""
    op = producer.get(tensor)
    if op is None:
        return []
    above = list(op.operands)
    for region in op.regions:
        above += program.graphs[region].inputs
        above += (result for inner in program.graphs[region].ops for result in inner.results)
    return above


def alike(program: Program, guesses: Guesses) -> Program:
    """The program with inputs that are the same under every placement that fits the shapes of guessed ones."""
    dims = dict(program.alike)
    for split in guesses.splits.values():
        dims[split.base] = tuple(sorted({*dims.get(split.base, ()), *split.dims}))
    tensors = {
        t: replace(tensor, literal="0.625" if tensor.dtype[0] in "fbc" else "1") if t in guesses.unprinted else tensor
        for t, tensor in program.tensors.items()
    }
    return replace(program, alike=dims, tensors=tensors)


def regrouped(program: Program, groups: Mapping[str, str]) -> list[Program]:
    """The program with its named groups as every even division of the ranks into blocks or strides; `groups` has the
    results of their collectives, equal texts being one group. Empty where there are too many ways."""
    ways: list[dict[str, list[list[int]]]] = [{}]
    ops = {op.results[0]: op for graph in program.graphs.values() for op in graph.ops if op.results}
    for text in sorted(set(groups.values())):
        kinds = {ops[t].kind for t, other in groups.items() if other == text}
        divisions = list(_divisions(program.ranks)) if kinds == {"all-reduce"} else [[list(program.ranks)]]
        ways = [{**way, text: division} for way in ways for division in divisions]
        if len(ways) > GROUPINGS:
            return []
    return [_with_groups(program, {t: way[text] for t, text in groups.items()}) for way in ways]


def _divisions(ranks: tuple[int, ...]) -> Iterator[list[list[int]]]:
    """Even divisions of the ranks, blocks and strides, all of them in one group first."""
    count = len(ranks)
    for number in (n for n in range(1, count + 1) if count % n == 0):
        size = count // number
        yield [list(ranks[n * size : (n + 1) * size]) for n in range(number)]
        if 1 < number < count:
            yield [list(ranks[n::number]) for n in range(number)]


def _with_groups(program: Program, groups: Mapping[str, list[list[int]]]) -> Program:
    graphs = {
        name: replace(
            graph,
            ops=[replace(op, groups=groups[op.results[0]]) if op.results and op.results[0] in groups else op
                 for op in graph.ops],
        )
        for name, graph in program.graphs.items()
    }  # fmt: skip
    return replace(program, graphs=graphs)
