"""Bounds of integer inputs: given, known by the front end, or `[0, size)` of what embeddings index and caches are
written at; on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.readers.relations import RangeRelation, Relations

from .correspond import Correspondence
from .embedding import (
    certain,
    id_ranges,
    ids_with_ignored,
    looked_up_by_others,
    only_looked_up,
    positions,
    provisions,
    ranges_of_run,
)
from .ignored import ignored_by_value
from .pairing import find, listing


class Bounds(NamedTuple):
    """lo ≤ x < hi, and where that is from."""

    lo: int
    hi: int
    why: str


def ranges(
    base: Graph, dists: Sequence[Graph], found: Sequence[Correspondence], relations: Relations
) -> Iterator[tuple[Tensor, Bounds]]:
    """Bounds of inputs of all graphs; what is given goes before what a dump says, and that before a default.

    Raises InputError where the relations file says two things about one input, or about both sides of a pair.
    """
    given = _given(base, dists, relations)
    pairs = [(shard.base, shard.dist, not shard.base_piece) for one in found for shard in one.shards]
    for b, d, whole in pairs:
        if b in given and d in given:
            ours, theirs = given[d], given[b]
            if whole and (ours.lo, ours.hi) != (theirs.lo, theirs.hi):
                raise ours.place.twice(f"ranges: {ours.key} and {theirs.key} are one input, bounded", theirs.place)
    bounds = {tensor: Bounds(relation.lo, relation.hi, "given") for tensor, relation in given.items()}
    _spread(bounds, pairs)
    known = {
        port.tensor: Bounds(*port.range, "dump")
        for graph in (base, *dists)
        for port in graph.inputs
        if port.range is not None and port.tensor not in bounds
    }
    _spread(known, pairs)
    bounds = known | bounds
    seen = looked_up_by_others(base, dists, pairs) | ranges_of_run(base)
    of_run = {t: Bounds(lo, hi, "captured run") for t, (lo, hi) in seen.items() if t not in bounds}
    _spread(of_run, pairs)
    bounds = of_run | bounds
    one_ignored = ignored_by_value(base, dists, pairs, bounds)
    of_one = {t: Bounds(lo, hi, "ignored") for t, (lo, hi) in one_ignored.items() if t not in bounds}
    _spread(of_one, pairs)
    bounds = of_one | bounds
    asked = cache(provisions)
    defaults = id_ranges(base, bounds, dists, asked)
    sure = certain(base)
    ends: dict[Tensor, list[set[str]]] = {}
    for graph in dists if defaults else ():
        inputs = {port.tensor for port in graph.inputs} - only_looked_up(graph)
        in_doubt = [(b, d) for b, d, _ in pairs if b in defaults and d in inputs and sure.get(b) != defaults[b][1]]
        if in_doubt:
            program = asked(graph)
            told = {b for b, d in in_doubt if program.beyond(d, defaults[b][1], strictly=True)}
            defaults = {t: span for t, span in defaults.items() if t not in told}
            for b, d in in_doubt:
                if b in defaults:
                    ends.setdefault(b, []).append(program.ends(d, defaults[b][1]))
    for b, of_ranks in ends.items():
        if len(of_ranks) == len(dists) and set.intersection(*of_ranks):
            defaults.pop(b, None)
    some_ignored = ids_with_ignored(base, dists, pairs, {*bounds, *defaults}, asked)
    bounds |= {t: Bounds(lo, hi, "labels") for t, (lo, hi) in some_ignored.items()}
    placed = positions(base, dists)
    bounds |= {t: Bounds(lo, hi, "positions" if t in placed else "embedding ids") for t, (lo, hi) in defaults.items()}
    _spread(bounds, pairs)
    order = dict.fromkeys(port.tensor for graph in (base, *dists) for port in graph.inputs)
    return ((tensor, bounds[tensor]) for tensor in order if tensor in bounds)


def _given(base: Graph, dists: Sequence[Graph], relations: Relations) -> dict[Tensor, RangeRelation]:
    """What `ranges:` says, by input."""
    found: dict[Tensor, RangeRelation] = {}
    for relation in relations.ranges:
        ports = [graph.inputs[n] for graph in (base, *dists) for n in find(graph.inputs, relation.key)]
        if not ports:
            raise relation.place.error(f"ranges: no input `{relation.key}`", expected=f"one of {listing(base.inputs)}")
        integers = dict.fromkeys(port.tensor for port in ports if port.tensor.dtype[0] in "su")  # ranks may share one
        if not integers:
            what = ports[0].tensor.type
            raise relation.place.error(f"ranges: `{relation.key}` is {what}", expected="an integer input")
        for tensor in integers:
            if tensor in found:
                raise relation.place.twice(f"ranges: `{tensor.name}` is bounded", found[tensor].place)
            found[tensor] = relation
    return found


def _spread(bounds: dict[Tensor, Bounds], pairs: Sequence[tuple[Tensor, Tensor, bool]]) -> None:
    """Bounds of a value hold for what is a part of it; those of the whole come from it, too."""
    for b, d, whole in pairs:
        if whole and d in bounds and b not in bounds:
            bounds[b] = bounds[d]
    for b, d, _ in pairs:
        if b in bounds and d not in bounds:
            bounds[d] = bounds[b]
