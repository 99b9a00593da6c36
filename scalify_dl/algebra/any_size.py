"""A pair that is equal at some sizes, for all of them: the same formulas with symbols in the place of the sizes.

Where the parts of dims are was found at the sizes at hand (`spread.py`). Here each part that a variable stands for, and
each number of an op, is a polynomial of symbols; both sides are followed anew, and each step that asks for a number
must have one answer for all values of the symbols, which are whole and above 0. So nothing is left of the sizes at
hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from scalify_dl.ir.layout import Digit, Entry, Layout
from scalify_dl.oracle.addressing import layout_of
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.program import Graph, Op, Shard
from scalify_dl.sizes import Narrower, Untold, quotient

from .compared import Answer, Pair
from .decide import Decider
from .effort import now
from .form import Undecided
from .spread import Part, Parts, Spread, size


@dataclass(frozen=True)
class Formulas:
    """What the numbers of a program are at all sizes."""

    dims: Mapping[str, tuple[int, ...]]
    numbers: Mapping[tuple[str, str, int], int]
    """Of ops, those that are no numbers: by op, key and position."""
    by_rank: Mapping[tuple[str, str, int, int], int]
    """The same of numbers that depend on the rank, which comes last."""
    literals: Mapping[str, tuple[int, int]]
    """Constants: numerator and denominator."""


@dataclass(frozen=True)
class ForAll:
    """An answer for all sizes: in which layout, and what has to be less than integer types hold."""

    answer: Answer
    layout: Layout
    bounds: tuple[int, ...]


def sized(spread: Spread, formulas: Formulas) -> Spread:
    """The same parts with formulas in the place of sizes; Undecided where the sizes at hand do not tell of what."""
    known: dict[int, int] = {}
    for t, dims in spread.parts.items():
        for parts, extent in zip(dims, formulas.dims[t], strict=True):
            whole = [part for part in parts if part.whole]
            if len(whole) == 1:
                found = quotient(extent, prod(part.size for part in parts if not part.whole))
                if found is not None:
                    known.setdefault(whole[0].size, found)
    sizes = {
        t: tuple(_sized(each, extent, known) for each, extent in zip(dims, formulas.dims[t], strict=True))
        for t, dims in spread.parts.items()
    }
    told = {key for graph in spread.program.graphs.values() for op in graph.ops for key in _keys(op)}
    if not told.issuperset([*formulas.numbers, *formulas.by_rank]):  # ranks that are alike at the sizes at hand only
        raise Undecided("numbers that are no numbers of ops at the sizes at hand")
    graphs = {name: _with_sizes(graph, formulas) for name, graph in spread.program.graphs.items()}
    return Spread(replace(spread.program, graphs=graphs), sizes, formulas.literals)


def _sized(parts: Parts, extent: int, known: Mapping[int, int]) -> Parts:
    """The parts of one dim: their product must be what the dim is."""
    whole = [part for part in parts if part.whole]
    cut = prod(part.size for part in parts if not part.whole)
    sizes = [quotient(extent, cut)] if len(whole) == 1 else [known.get(part.size) for part in whole]
    found = []
    for part in parts:
        here = sizes.pop(0) if part.whole else part.size
        if here is None:
            raise Undecided("a dim whose parts have no known sizes")
        found.append(Part(here, part.whole))
    if size(found) != extent:
        raise Undecided("a dim whose parts are no sizes that multiply to it")
    return tuple(found)


def _keys(op: Op) -> Iterator[tuple[str, str, int] | tuple[str, str, int, int]]:
    yield from ((op.id, key, n) for key, values in op.numbers.items() for n in range(len(values)))
    yield from ((op.id, key, n, r) for key, at in op.by_rank.items() for n, ranks in at.items() for r in ranks)


def _with_sizes(graph: Graph, formulas: Formulas) -> Graph:
    return replace(graph, ops=[_op_with_sizes(op, formulas) for op in graph.ops])


def _op_with_sizes(op: Op, formulas: Formulas) -> Op:
    numbers = {
        key: [formulas.numbers.get((op.id, key, n), value) for n, value in enumerate(values)]
        for key, values in op.numbers.items()
    }
    by_rank = {
        key: {
            n: {rank: formulas.by_rank.get((op.id, key, n, rank), value) for rank, value in values.items()}
            for n, values in positions.items()
        }
        for key, positions in op.by_rank.items()
    }
    return replace(op, numbers=numbers, by_rank=by_rank)


def layout_for_all(layout: Layout, at: Sequence[Parts], for_all: Sequence[Parts]) -> Layout:
    """A layout at the sizes at hand with formulas in the place of strides and sizes: it cuts dims where parts end."""

    def entry(each: Entry) -> Entry:
        if not isinstance(each, Digit):
            return each
        ends = dict(_ends(at[each.dim], for_all[each.dim])) if each.stride else {}
        stride, end = ends.get(each.stride), ends.get(each.stride * each.size)
        found = quotient(end, stride) if stride is not None and end is not None else None
        if stride is None or found is None:
            raise Undecided("a layout that cuts a dim elsewhere than ops do")
        return Digit(each.dim, stride, found)

    dims = [tuple(d for d in map(entry, digits) if isinstance(d, Digit)) for digits in layout.dims]
    return Layout(tuple(dims), tuple((axis, tuple(map(entry, entries))) for axis, entries in layout.axes), layout.scale)


def _ends(at: Parts, for_all: Parts) -> Iterator[tuple[int, int]]:
    """Where parts end, and factors of those that are cut: at the sizes at hand, and for all."""
    here = there = 1
    yield here, there
    for mine, other in zip(reversed(at), reversed(for_all), strict=True):
        if not mine.whole:
            yield from ((here * n, there * n) for n in range(2, mine.size) if mine.size % n == 0)
        here, there = here * mine.size, there * other.size
        yield here, there


def decided_for_all(
    decider: Decider, given: Sequence[Shard], formulas: Formulas, output: tuple[str, str, str], wanted: Layout | None
) -> ForAll | None:
    """Whether an output is the baseline's for all sizes, if it is at those at hand; why not is in `decider.reasons`.

    `given` says what inputs hold, for all sizes; `output` is the pair and its layout at the sizes at hand, `wanted`
    what that is for all."""
    dist, base, text = output
    answer = decider.decide(dist, base, text)
    if answer is None:
        return None
    other = Decider(decider.program, [*given], max(decider.deadline - now(), 0))
    for spread in decider.spreads:
        if spread is None:
            continue
        try:
            here = sized(spread, formulas)
            layout = wanted or layout_for_all(layout_of(answer.layout), spread.parts[base], here.parts[base])
        except (Undecided, Untold, Narrower) as error:
            decider.reasons.append(str(error))
            continue
        for reading in ("", *(reading for _, reading in decider.readings)):
            try:
                pair = Pair(other, dist, base, "inputs", reading=reading, spread=here)
                needs = pair.needs_of(layout)
            except (Undecided, Unsupported, Deadlock, Untold, Narrower) as error:
                decider.reasons.append(str(error))
                continue
            if needs is not None and needs <= {*answer.needs}:
                return ForAll(answer, layout, tuple(pair.basis.bounds))
            decider.reasons.append("formulas with symbols for sizes differ, or need more")
    return None
