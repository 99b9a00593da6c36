"""Inputs of which ranks hold every n-th element along a dim: whether all outputs are proved once ranks hold blocks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod

from scalify_dl.facts import Facts
from scalify_dl.ir.layout import Digit, Entry, Layout
from scalify_dl.prove.pipeline import Analysis

from .state import proved


@dataclass(frozen=True)
class Interleaved:
    """An input of which every rank holds one of so many interleaved parts of a dim."""

    dist: str
    dim: int
    parts: int


def interleaved(analysis: Analysis) -> list[Interleaved]:
    """Such inputs, if the rules prove all outputs where ranks hold as many blocks of them; else none."""
    facts = analysis.facts
    found: list[Interleaved] = []
    blocks: dict[tuple[str, str], str] = {}
    for dist, piece, base, base_piece, text, _ in facts["shard"]:
        cut, layout = in_blocks(text)
        if cut and not piece + base_piece:
            found += [Interleaved(dist, dim, parts) for dim, parts in cut.items()]
            blocks[dist, text] = blocks[base, text] = layout
    if not found:
        return []
    edited = Facts(dict(facts.tables), facts.directory)
    edited.tables["shard"] = [
        (dist, piece, base, base_piece, blocks.get((dist, text), text), why)
        for dist, piece, base, base_piece, text, why in facts["shard"]
    ]
    old = {text for _, text in blocks}
    edited.tables["expect"] = [  # what they hold in the end lies as they do
        (dist, base, in_blocks(wanted)[1] if wanted in old else wanted) for dist, base, wanted in facts["expect"]
    ]
    return found if proved(edited, analysis.options) == len(edited["expect"]) else []


def in_blocks(text: str) -> tuple[dict[int, int], str]:
    """Dims of which ranks hold interleaved parts, with how many parts there are, and the layout with blocks of them."""
    layout = Layout.parse(text)
    local: dict[int, list[Digit]] = defaultdict(list)
    over: dict[int, list[Digit]] = defaultdict(list)
    for digit in (digit for digits in layout.dims for digit in digits if digit.stride):
        local[digit.dim].append(digit)
    for share in (entry for _, entries in layout.axes for entry in entries if isinstance(entry, Digit)):
        over[share.dim].append(share)
    cut = {
        dim: prod(share.size for share in shares)
        for dim, shares in over.items()
        if len(local[dim]) == 1 and any(share.stride < local[dim][0].stride for share in shares)
    }
    stride = {dim: local[dim][0].size * parts for dim, parts in cut.items()}
    dims = [[d._replace(stride=1) if d.dim in cut and d.stride else d for d in digits] for digits in layout.dims]
    axes: list[tuple[str, list[Entry]]] = []
    for axis, entries in layout.axes:  # major to minor, as the order of the mesh has it
        placed: list[Entry] = []
        for entry in entries:
            if isinstance(entry, Digit) and entry.dim in cut:
                stride[entry.dim] //= entry.size
                placed.append(entry._replace(stride=stride[entry.dim]))
            else:
                placed.append(entry)
        axes.append((axis, placed))
    return cut, str(Layout.of(dims, axes, layout.scale))
