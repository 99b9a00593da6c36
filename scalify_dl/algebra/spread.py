"""Programs with an index variable in the place of each part of a dim that no op cuts.

A dim is a number in mixed radix, major to minor: 4096 of a sequence in 2 blocks is 2 × 2048. Parts that some op cuts
(blocks, halves) are followed element by element; of the others one element is, which stands for all. So the cost does
not depend on sizes. Where the parts are is what `oracle.shrink` finds of the program; that ops agree with them is
checked at each op (`indexing.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import NamedTuple

from scalify_dl.ir.layout import Digit, Entry, Layout
from scalify_dl.oracle.program import Graph, Op, Program, Shard
from scalify_dl.oracle.shrink.constraints import RULES, Shapes
from scalify_dl.oracle.shrink.extents import Conflict, Sizes
from scalify_dl.oracle.shrink.rows import expected_rows, fits, relate
from scalify_dl.sizes import least, quotient

from .form import Undecided
from .sized import coded
from .variables import Variable


class Part(NamedTuple):
    """Some values of an index; `whole` where a variable stands for it."""

    size: int
    whole: bool


Parts = tuple[Part, ...]
"""Of a dim, major to minor; none of size 1, no two that are cut beside each other."""


def merged(parts: Iterable[Part]) -> Parts:
    """The parts, cut ones that are beside each other as one."""
    found: list[Part] = []
    for part in parts:
        if part.size == 1:
            continue
        if found and not part.whole and not found[-1].whole:
            part = Part(found.pop().size * part.size, False)
        found.append(part)
    return tuple(found)


def small(parts: Parts) -> int:
    """How many elements of the dim are followed."""
    return prod(part.size for part in parts if not part.whole)


def size(parts: Iterable[Part]) -> int:
    """The size of the dim."""
    return prod(part.size for part in parts)


def tail(parts: Parts) -> Parts:
    """The parts from the first whole one on."""
    first = next((n for n, part in enumerate(parts) if part.whole), len(parts))
    return parts[first:]


def variables(dims: Sequence[Parts]) -> list[Variable]:
    """The variables of a tensor, in order: named by dim and place."""
    return [v for d in range(len(dims)) for v in of_dim(dims, d)]


def of_dim(dims: Sequence[Parts], d: int) -> list[Variable]:
    """The variables of one dim."""
    return [Variable(("at", d, n), coded(part.size)) for n, part in enumerate(p for p in dims[d] if p.whole)]


ELSEWHERE = "a layout that cuts a dim elsewhere than ops do"


class Taken(NamedTuple):
    """A digit of a dim at small sizes, what parts it has, and the variables for these."""

    digit: Digit
    parts: Parts
    variables: tuple[Variable, ...]


def taken(dims: Sequence[Parts], digit: Digit) -> Taken:
    """What a digit of a layout takes of its dim. Undecided where it cuts what is whole."""
    below, inside = 1, 1
    low = 1  # of the small dim
    found: list[Part] = []
    names: list[Variable] = []
    own = of_dim(dims, digit.dim)
    for part in reversed(dims[digit.dim]):
        name = own.pop() if part.whole else None
        left = part.size
        if below != digit.stride and not found:
            step, left = _taken_of(left, digit.stride, below)
            if part.whole and left != 1:
                raise Undecided(ELSEWHERE)
            below, low = below * step, low * (1 if part.whole else step)
        if left != 1 and below == digit.stride and inside != digit.size:
            step, left = _taken_of(left, digit.size, inside)
            if part.whole and step != part.size:
                raise Undecided(ELSEWHERE)
            inside *= step
            found.insert(0, Part(step, part.whole))
            if name is not None:
                names.insert(0, name)
    if below != digit.stride or inside != digit.size:
        raise Undecided(ELSEWHERE)
    parts = merged(found)
    return Taken(Digit(digit.dim, low, small(parts)), parts, tuple(names))


def _taken_of(left: int, wanted: int, have: int) -> tuple[int, int]:
    """How much of a part is taken to get from one product of parts to another, and what is left of it."""
    missing = quotient(wanted, have)
    step = least(left, missing) if missing is not None else None
    rest = quotient(left, step) if step is not None else None
    if step is None or rest is None:
        raise Undecided(ELSEWHERE)
    return step, rest


@dataclass(frozen=True)
class Spread:
    """A program at small sizes (its ops have the attributes that they had), and the parts of all dims."""

    program: Program
    parts: dict[str, tuple[Parts, ...]]
    literals: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Constants that are sizes, or one over another, where sizes are symbols."""

    def layout(self, dist: str, base: str, layout: Layout) -> tuple[Layout, dict[Variable, Variable]]:
        """A layout at small sizes, and which variables of the distributed value those of the baseline's are."""
        theirs, ours = self.parts[base], self.parts[dist]
        if len(layout.dims) != len(ours):
            raise Undecided("a layout of another number of dims")
        names: dict[Variable, Variable] = {}
        dims: list[list[Digit]] = []
        for d, digits in enumerate(layout.dims):
            found = [
                taken(theirs, digit) if digit.stride else Taken(digit, merged([Part(digit.size, False)]), ())
                for digit in digits
            ]
            if merged(part for each in found for part in each.parts) != ours[d]:
                raise Undecided("a layout whose parts are not those of the value")
            held = [v for each in found for v in each.variables]
            if not names.keys().isdisjoint(held):
                raise Undecided("a layout that takes a dim twice")
            names.update(zip(held, of_dim(ours, d), strict=True))
            dims.append([each.digit for each in found])
        axes = [(axis, [self._entry(theirs, entry) for entry in entries]) for axis, entries in layout.axes]
        if names.keys() != set(variables(theirs)):
            raise Undecided("a layout that holds one element of what is whole")
        return Layout.of(dims, axes, layout.scale), names

    def _entry(self, theirs: Sequence[Parts], entry: Entry) -> Entry:
        if not isinstance(entry, Digit):
            return entry
        found = taken(theirs, entry)
        if found.variables:
            raise Undecided("what a mesh axis deals out is whole")
        return found.digit


class _Counted(Shapes):
    """Dims along which positions are compared are cut alike; integers are what they are, whatever they count."""

    def keep_counts(self, tensors: Sequence[str]) -> None:
        """Nothing to keep."""


class _Uncounted(_Counted):
    """Positions cut no dims."""

    def counts(self, tensor: str) -> int | None:
        """None."""
        return None


def spread(program: Program, known: Iterable[Shard], most_elements: int, *, counted: bool) -> Spread | None:
    """The program with variables in the place of sizes; None where it has none, stays large, or has empty tensors."""
    if any(0 in tensor.shape for tensor in program.tensors.values()):
        return None
    s = _Counted(program) if counted else _Uncounted(program)
    try:
        for graph in program.graphs.values():
            for op in graph.ops:
                _constrain(s, op)
        for row in [*program.shards, *expected_rows(program), *known]:
            if not row.dist_piece and not row.base_piece and fits(program, row):
                relate(s, row)
        dims = {t: s.dims(t) for t in program.tensors}  # of what no op reads, too, before sizes are chosen
        sizes = s.extents.solve(1)
        parts = {t: tuple(_parts(s, sizes, d) for d in dims[t]) for t in program.tensors}
    except Conflict:
        return None
    tensors = {
        t: replace(declared, shape=tuple(small(dim) for dim in parts[t])) for t, declared in program.tensors.items()
    }
    if tensors == program.tensors or sum(prod(t.shape) for t in tensors.values()) > most_elements:
        return None
    return Spread(replace(program, tensors=tensors), parts)


def of_parts(
    program: Program, parts: Sequence[Graph], known: Iterable[Shard], row: Shard, most_elements: int
) -> Spread | None:
    """Some ops of both sides alone with variables in the place of sizes, given what is known of what they read, and
    where their results are to be."""
    graphs, known = {graph.id: graph for graph in parts}, list(known)
    tensors = dict.fromkeys(shard.base for shard in known)  # in order: sizes are numbered in it
    tensors |= dict.fromkeys(t for g in parts for t in (*g.inputs, *(r for op in g.ops for r in op.results)))
    if any(op.regions for graph in parts for op in graph.ops):
        return None
    some = replace(program, graphs=graphs, tensors={t: program.tensors[t] for t in tensors}, shards=[], expects=[],
                   region_graphs=set())  # fmt: skip
    return spread(some, [*known, row], most_elements, counted=True)


def _constrain(s: Shapes, op: Op) -> None:
    rule = RULES.get(op.kind)
    if op.kind == "sort":  # rows are ordered element by element
        along = op.number("dimension", 0)[0]
        for tensor in (*op.operands, *op.results):
            s.extents.keep(s.dims(tensor)[along])
    if rule is None or any(0 in s.program.tensors[t].shape for t in (*op.operands, *op.results)):
        s.keep_all(op)
    else:
        rule(s, op)


def _parts(s: Shapes, sizes: Sizes, dim: int) -> Parts:
    extents = s.extents
    chain, _ = extents.structure(dim)
    root = extents.root(dim)
    if extents.size(dim) < 1:
        return (Part(0, False),)
    found = [Part(hi // lo, sizes.atoms[root, lo] == 1 and hi > lo) for lo, hi in pairwise(chain)]
    return merged(reversed(found))
