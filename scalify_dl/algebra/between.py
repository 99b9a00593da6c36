"""Values on the way to an output that are equal on both sides: proved one after the other, each is a cut for the next.

An execution says which are worth comparing. A value is a cut only if its formulas are finite numbers, given what the
steps to it need; that is listed with the output's own. What differs is no cut, and nothing rests on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import islice, permutations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from scalify_dl.ir.layout import Digit, Layout, Repl
from scalify_dl.ir.vocabulary import ELEMENTWISE
from scalify_dl.oracle.compare import check, default_layouts
from scalify_dl.oracle.dtypes import is_float
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.program import Graph, Program, Shard
from scalify_dl.oracle.trial import Trial

from .cells import Array
from .compared import ROUGHLY, Answer, Pair
from .effort import now
from .form import Undecided
from .formulas import MOVES, is_outer

if TYPE_CHECKING:
    from .decide import Decider

Shapes = tuple[tuple[int, ...], tuple[int, ...]]
"""Of a baseline value, and of one that may hold it."""
BETWEEN = ("all", "rows", "sums", "bent")
"""Which of the values that are equal are cuts, one way after the other."""
FEW_OPS = 600
LOCAL_OPS = 48
"""Ops that make a value of a large program from what is known, up to which it is looked at."""
LOCAL = ELEMENTWISE | MOVES | {"constant", "iota", "reduce", "scatter"}
"""Kinds of these ops: contractions are the rules'."""
MOST_PAIRS = 160
"""Pairs that are looked at for one output."""
MOST_DIMS = 5
"""Dims, not of size 1, whose order is looked for."""
MOST_CANDIDATES = 2
"""Baseline values that one is compared with: those of its kind first."""
ENOUGH = 6
"""Values between from which the rules are to go on first."""
SECONDS = 0.6
"""CPU time for one of them, in each way."""


def find_cuts(decider: Decider, trial: Trial, dist: str, base: str, *, local: bool = False) -> bool:
    """Proves values on the way to an output equal, and enters them as cuts; whether there are any.

    `local`: the execution was of the program at small sizes, so each is proved by the ops that make it of what is
    known, with variables in the place of sizes. Sums and the like are then left to the rules.
    """
    program = decider.program
    (base_graph,), dist_graph = program.top("base"), program.top("dist")[0]
    known = {**decider.near, **decider.by_dist} if local else decider.by_dist
    ours = [t for t in made_of(decider, dist_graph, {dist}) if t != dist and not (local and t in known)]
    theirs = [b for b in made_of(decider, base_graph, {base}) if b != base]
    held = {t: {shard.base for shard in known.get(t, ())} for t in ours}
    if local:
        ours = [t for t in ours if _kind(decider, t) in ELEMENTWISE and _near(decider, t)]
        theirs = [b for b in theirs if _kind(decider, b) in LOCAL]
    elif len(ours) + len(theirs) > FEW_OPS:
        return False
    begun = len(decider.between)
    for t, candidates in islice(alike(decider, trial, ours, theirs), MOST_PAIRS):
        if now() > decider.deadline or len(decider.between) >= begun + ENOUGH:
            break
        parted = None
        for b, layout in candidates[:MOST_CANDIDATES]:
            if (t, b) in decider.unlike or b in held[t] or (held[t] and _kind(decider, b) in MOVES):
                continue
            pair, answer = _proved(decider, t, b, layout, local=local)
            if answer is not None:
                decider.by_dist[t] = [Shard(t, (), b, (), layout), *known.get(t, ())]
                decider.between[t] = answer
                break
            decider.unlike.add((t, b))
            parted = parted or (pair and pair.difference_in_words())
        else:
            if parted:
                decider.differences.setdefault((dist, base), parted)
    return len(decider.between) > begun


def _near(decider: Decider, target: str) -> bool:
    """Whether few ops, and no contractions, make a value of what is known."""
    seen, stack = set[str](), [target]
    while stack and len(seen) <= LOCAL_OPS:
        op = decider.makers.get(stack.pop())
        if op is not None and op.id not in seen:
            if op.kind not in LOCAL and not is_outer(op):
                return False
            seen.add(op.id)
            stack += [t for t in op.operands if t not in decider.by_dist and t not in decider.near]
    return len(seen) <= LOCAL_OPS


def _proved(decider: Decider, t: str, b: str, layout: Layout, *, local: bool) -> tuple[Pair | None, Answer | None]:
    """One pair of values, and whether they are equal numbers."""
    pair, tried = None, list[object]()
    readings = ("", "masks") if decider.has_masks else ("",)
    spreads = (None,) if local or not decider.has_many_ids else [parts for parts in decider.spreads if parts]
    for spread, reading, ends in product(spreads, readings, BETWEEN):
        decider.until = min(now() + SECONDS, decider.deadline)
        try:
            cut = Pair(decider, t, b, ends, reading=reading, local=layout if local else None, spread=spread)
            begun = cut.cuts, cut.dist_part.inputs, reading, spread and spread.parts
            if begun in tried:
                continue
            tried.append(begun)
            pair = cut
            answer = pair.answer([layout], numbers=True)
            if answer is not None:
                return pair, answer
        except (Undecided, Unsupported, Deadlock):
            continue
        finally:
            decider.until = None
    return pair, None


def made_of(decider: Decider, graph: Graph, targets: set[str]) -> list[str]:
    """The real values that some are made of, and these, in order, but for inputs and constants."""
    needed, stack = {*targets}, [*targets]
    while stack:
        op = decider.makers.get(stack.pop())
        for operand in op.operands if op else ():
            if operand not in needed:
                needed.add(operand)
                stack.append(operand)
    tensors = decider.program.tensors
    return [
        t
        for op in graph.ops
        for t in op.results
        if t in needed and t not in decider.fixed and is_float(tensors[t].dtype)
    ]


def alike(
    decider: Decider, trial: Trial, ours: list[str], theirs: list[str]
) -> Iterator[tuple[str, list[tuple[str, Layout]]]]:
    """Values of the distributed side, in order, and the baseline values that they hold in an execution."""
    program = decider.program
    by_ends: dict[Any, list[str]] = {}
    for b in theirs:
        if b in trial.baseline and (key := _ends([trial.baseline[b]])) is not None:
            by_ends.setdefault(key, []).append(b)
    for t in ours:
        values = trial.distributed.get(t)
        candidates: list[tuple[str, Layout]] = []
        for scale in decider.scales if values else ():
            key = _ends([part / float(scale) for part in values.values()]) if values else None
            candidates = [
                (b, layout) for b in by_ends.get(key, ()) if (layout := _held(program, trial, t, b, scale)) is not None
            ]
            if candidates:
                break
        if candidates:
            candidates.sort(key=lambda found: _kind(decider, found[0]) != _kind(decider, t))
            yield t, candidates


def _held(program: Program, trial: Trial, t: str, b: str, scale: Fraction) -> Layout | None:
    """The layout, at that scale, in which a value holds one of the baseline in an execution."""
    expected, values = trial.baseline[b], trial.distributed[t]
    small, large = expected.shape, next(iter(values.values())).shape
    for layout, found in _layouts((small, large), (program.tensors[b].shape, program.tensors[t].shape), program.mesh):
        try:
            if check(expected, (), values, (), replace(layout, scale=scale), program.coords, ROUGHLY) is None:
                return replace(found, scale=scale)
        except (IndexError, ValueError):
            continue
    return None


def _layouts(small: Shapes, large: Shapes, mesh: Mapping[str, int]) -> Iterator[tuple[Layout, Layout]]:
    """Layouts at the sizes of an execution and at those of the program: the usual ones; whole dims in any order."""
    yield from zip(default_layouts(*small, mesh), default_layouts(*large, mesh), strict=False)
    theirs, ours = ([d for d, size in enumerate(shape) if size != 1] for shape in large)
    if len(theirs) != len(ours) or len(ours) > MOST_DIMS:
        return
    for order in permutations(theirs):
        if all(base[b] == dist[d] for base, dist in (small, large) for b, d in zip(order, ours, strict=True)):
            held = dict(zip(ours, order, strict=True))
            yield tuple(  # type: ignore[misc]
                Layout.of(
                    [[Digit(held[d], 1, size)] if d in held else [] for d, size in enumerate(dist)],
                    [(axis, [Repl(size)]) for axis, size in mesh.items()],
                )
                for _, dist in (small, large)
            )


def _kind(decider: Decider, tensor: str) -> str:
    return decider.makers[tensor].kind if tensor in decider.makers else ""


def _ends(parts: list[Array]) -> tuple[str, str] | None:
    """The least and the greatest element of a value, roughly; None where it is no number, or empty."""
    parts = [part for part in parts if part.size]
    if not parts or any(part.dtype.kind != "f" or not np.isfinite(part).all() for part in parts):
        return None
    least, most = min(part.min() for part in parts), max(part.max() for part in parts)
    return f"{least:.5e}", f"{most:.5e}"
