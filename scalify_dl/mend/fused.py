"""Inputs that were placed by their shapes, or by the dump, as contiguous shards, and may be several in a row:
the parts are those that the baseline's slices take. The program placed so is put to the rules."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from scalify_dl.facts import Facts
from scalify_dl.facts.model import Row
from scalify_dl.ir.layout import Digit, Entry, Layout, Window, piece_text
from scalify_dl.prove.pipeline import Analysis
from scalify_dl.refute.guesses import split_dims

from .state import proved


@dataclass(frozen=True)
class Parts:
    """An input that is several values side by side along a dim, and in which contiguous layout it was taken to be."""

    dist: str
    base: str
    layout: str
    dim: int
    sizes: tuple[int, ...]
    """Of the parts, in the baseline."""
    why: str
    """Who said that it is one: its `shape`, or an `annotation` of the dump."""
    slices: tuple[str, ...]
    """What takes parts of it, in the distributed program."""


def fused(analysis: Analysis) -> list[Parts]:
    """Guessed inputs with their parts, if the rules prove all outputs once these are placed part by part; else none."""
    facts = analysis.facts
    found = _candidates(analysis)
    if not found:
        return []
    edited = Facts(dict(facts.tables), facts.directory)
    parts = {p.dist: p for p in found}
    edited.tables["shard"] = [row for row in facts["shard"] if row[0] not in parts]
    edited.tables["shard"] += [row for p in found for row in _rows(p, facts)]
    return found if proved(edited, analysis.options) == len(edited["expect"]) else []


def _candidates(analysis: Analysis) -> list[Parts]:
    """Of which input what parts are taken by slices of the baseline that fit its placement."""
    facts = analysis.facts
    size = {(tensor, dim): n for tensor, dim, n in facts["dim"]}
    read = {op: tensor for op, pos, tensor in facts["operand"] if pos == 0}
    leads: dict[tuple[str, int], list[str]] = defaultdict(list)
    for op, tensor, dim in analysis.rows("leads_to_slice"):
        leads[tensor, dim].append(op)
    taken: dict[str, list[Row]] = defaultdict(list)
    for op, *row in analysis.rows("sliced"):
        taken[op].append(tuple(row))
    found = []
    for dist, _, base, _, layout, why in facts["shard"]:
        dims = split_dims(layout) if why in ("shape", "annotation") else ()
        if len(dims) != 1 or (dist, dims[0]) not in leads:
            continue
        (dim,), extent = dims, size[base, dims[0]]
        ways = extent // size[dist, dim]
        cuts: dict[int, set[int]] = defaultdict(set)  # by the size of what is cut: parts may be a dim of their own
        for op in leads[base, dim]:
            for d, *ends in taken[op]:
                cuts[size.get((read.get(op, ""), d), 0)].update(ends)
        inner = max((n for n in cuts if n and not extent % n), default=extent)
        at = sorted({0, extent, *(n * (extent // inner) for n in cuts[inner])})
        sizes = tuple(hi - lo for lo, hi in pairwise(at))
        if len(sizes) > 1 and not any(n % ways for n in sizes):
            found.append(Parts(dist, base, layout, dim, sizes, why, tuple(leads[dist, dim])))
    return found


def _rows(parts: Parts, facts: Facts) -> list[Row]:
    """The correspondences of the parts, each placed as the whole was taken to be."""
    layout, dim, rows = Layout.parse(parts.layout), parts.dim, []
    here = there = 0
    whole = next(n for tensor, d, n in facts["dim"] if tensor == parts.base and d == dim)
    for n in parts.sizes:
        local = layout.local_shape[dim] * n // whole
        dims = [[Digit(dim, 1, local)] if d == dim else list(digits) for d, digits in enumerate(layout.dims)]
        axes = [(axis, [_within(e, dim, n, whole) for e in entries]) for axis, entries in layout.axes]
        piece = Layout.of(dims, axes)
        window, base = Window(dim, here, here + local), Window(dim, there, there + n)
        rows.append((parts.dist, piece_text([window]), parts.base, piece_text([base]), str(piece), "shape"))
        here, there = here + local, there + n
    return rows


def _within(entry: Entry, dim: int, part: int, whole: int) -> Entry:
    """What an entry of a mesh axis is in a part of that dim."""
    if isinstance(entry, Digit) and entry.dim == dim:
        return entry._replace(stride=entry.stride * part // whole)
    return entry
