"""A relations-file template: every pairing, what was guessed and what is ambiguous (`dlverify relate`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import gcd
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Port
from scalify_dl.ir.layout import dims_written, piece_text
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Placement, inferred
from scalify_dl.ir.vocabulary import GROUPED
from scalify_dl.readers.sizes import Sizes

from .correspond import Correspondence, place
from .embedding import id_ranges
from .pairing import pair_rest
from .read_pair import read_pair

HEAD = """\
# Relations between the inputs and outputs of two programs. What is right as it stands can be deleted: it would be
# inferred again. Dims are those of the baseline; `tp:2` are the 2 major positions of axis tp, the others replicate.
# A dim that is a concatenation (fused qkv, gate and up) needs `parts:`, for each of which `dims` holds.
# An input that holds several of the baseline in a row has `of: [gate, up]` and `dim: 0` in place of `base:`.
"""


def relations_template(
    base: str | Path, dist: Sequence[str | Path] | str | Path, mesh: str | Mesh, sizes: Sizes | None = None
) -> str:
    """YAML text that `load_relations` reads, with comments about what is guessed. InputError for unreadable dumps.

    `sizes` are those that the dumps leave open.
    """
    mesh = mesh if isinstance(mesh, Mesh) else Mesh.parse(mesh)
    files = [dist] if isinstance(dist, str | Path) else list(dist)
    base_graph, dist_graphs = read_pair(base, files, mesh, None, sizes)
    return template(base_graph, dist_graphs[0], mesh)


def template(base: Graph, dist: Graph, mesh: Mesh) -> str:
    """The template of two graphs."""
    lines = [HEAD.rstrip()]
    lines += ["inputs:", *(_inputs(base, dist, mesh) or ["  {}"])]
    lines += _outputs(base, dist)
    lines += _constants(base, dist)
    lines += _groups(dist, mesh)
    lines += [f"# reductions: {{{quoted(name)}: …}}   # the dump does not say" for name in sorted(dist.reductions)]
    lines += [f"# ranges: {{{quoted(t.name)}: [{lo}, {hi}]}}   # assumed" for t, (lo, hi) in id_ranges(base).items()]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A YAML string."""
    return json.dumps(text, ensure_ascii=False)


def _pairs(base: Sequence[Port], dist: Sequence[Port], what: str) -> tuple[dict[int, int], list[str]]:
    """Pairs by path or position, as far as there are partners, and what to say about it."""
    try:
        found = pair_rest(base, dist, {}, (), what, "")
        return {d: b for d, (b, _) in found.items()}, []
    except InputError:
        pairs = {n: n for n in range(min(len(base), len(dist)))}
        counts = f"{len(base)} baseline and {len(dist)} distributed {what}s"
        return pairs, [f"  # {counts}: paired by position as far as it goes; check"]


def _inputs(base: Graph, dist: Graph, mesh: Mesh) -> list[str]:
    pairs, lines = _pairs(base.inputs, dist.inputs, "input")
    for position, port in enumerate(dist.inputs):
        name = port.path or port.tensor.name
        lines.append(f'  "#{position}":  # {name} {port.tensor.type}')
        if position not in pairs:
            lines.append("    base: ''  # no partner: name a baseline input")
            continue
        partner = base.inputs[pairs[position]]
        lines.append(f'    base: "#{pairs[position]}"  # {partner.path or partner.tensor.name} {partner.tensor.type}')
        lines += _placement(partner, port, mesh)
    return lines


def _placement(base: Port, dist: Port, mesh: Mesh) -> list[str]:
    """The `dims:` lines of one pair."""
    found = Correspondence()
    try:
        place(base, dist, 0, False, mesh, None, found)
    except InputError as error:
        return [f"    # {error.message}"]
    if dist.placement is not None and found.shards:
        if found.shards[0].base_piece:
            return [f"    # from the dump: every rank has {piece_text(found.shards[0].base_piece)} of it"]
        return [f"    # dims: {dims_written(str(found.shards[0].layout))}  # from the dump"]
    placement = inferred(base.tensor.shape, dist.tensor.shape, mesh)
    if placement is None:
        return [*_candidates(base, dist, mesh), "    dims: {}  # ambiguous: choose"]
    if not placement.dims:
        return ["    dims: {}  # replicated: the shapes agree"]
    return [f"    dims: {_dims(placement)}  # guessed from the shapes", *_fused(base, placement)]


def _dims(placement: Placement) -> str:
    return "{" + ", ".join(f"{d}: [{', '.join(map(str, parts))}]" for d, parts in placement.dims.items()) + "}"


def _fused(base: Port, placement: Placement) -> list[str]:
    if len(base.tensor.shape) < 2:
        return []
    dim = next(iter(placement.dims))
    return [f"    # parts: {{dim: {dim}, sizes: [a, b, …]}}  # if dim {dim} of size {base.tensor.shape[dim]} is fused"]


def _candidates(base: Port, dist: Port, mesh: Mesh) -> list[str]:
    """What could explain each dim that differs."""
    lines = []
    for d, (whole, local) in enumerate(zip(base.tensor.shape, dist.tensor.shape, strict=True)):
        if whole == local:
            continue
        if local and whole % local == 0:
            ways = whole // local
            options = [f"[{axis}]" for axis, size in mesh.axes if size == ways]
            options += [f"[{axis}:{ways}]" for axis, size in mesh.axes if size > ways and size % ways == 0]
            options += [
                f"[{a}, {b}]"
                for a, m in mesh.axes
                for b, n in mesh.axes
                if a != b and m > 1 and n > 1 and m * n == ways
            ]
            lines.append(f"    # dim {d}: {whole} → {local}, {ways} ways: {' or '.join(options) or 'parts: ?'}")
        else:
            lines.append(
                f"    # dim {d}: {whole} → {local}: no even split;"
                f" parts: {{dim: {d}, sizes: [a, b, …]}} with multiples of {gcd(whole, local)}?"
            )
    return lines


def _outputs(base: Graph, dist: Graph) -> list[str]:
    pairs, notes = _pairs(base.outputs, dist.outputs, "output")
    lines = ["outputs:  # checked at the default placement where no dims are given", *notes]
    for position, port in enumerate(dist.outputs):
        name = port.path or port.tensor.name
        if position in pairs:
            partner = base.outputs[pairs[position]]
            about = f"{name} {port.tensor.type} against {partner.path or partner.tensor.name} {partner.tensor.type}"
            lines.append(f'  "#{position}": {{base: "#{pairs[position]}"}}  # {about}')
        else:
            lines.append(f"  # {quoted(f'#{position}')}: {{base: …}}  # {name} {port.tensor.type}: no partner")
    return lines if pairs else []


def _unprinted(graph: Graph) -> Iterator[str]:
    for op in graph.ops:
        if op.kind == "constant" and op.result.literal is not None and op.result.literal.is_elided:
            yield f"{op.result.name} {op.result.type}"


def _constants(base: Graph, dist: Graph) -> list[str]:
    lines = []
    for side, graph in (("base", base), ("dist", dist)):
        names = list(_unprinted(graph))
        if names:
            shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            lines.append(f"# constants: {{{side}: {{NAME: VALUE}}}}   # not printed: {shown}")
    return lines


def _groups(dist: Graph, mesh: Mesh) -> list[str]:
    names = {op.group_name for op in dist.ops if op.kind in GROUPED and op.groups is None and op.group_name}
    ranks = ", ".join(map(str, range(mesh.size)))
    return [f"# groups: {{{quoted(name)}: [{ranks}]}}   # members that the dump does not say" for name in sorted(names)]
