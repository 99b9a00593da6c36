"""A relations-file template: every pairing, what was guessed and what is ambiguous (`dlverify relate`)."""

from __future__ import annotations

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

from .correspond import Correspondence, place, told_by_values
from .embedding import id_ranges
from .expectations import following
from .pairing import listing
from .patterns import NAME, Entry, plain, starred
from .read_pair import read_pair
from .suggest import Pairs, alone, called, dims_of, entry, in_order, key, pairs_of

HEAD = """\
# Relations between the inputs and outputs of two programs. What is right as it stands can be deleted: it would be
# inferred again. Dims are those of the baseline; `tp:2` are the 2 major positions of axis tp, the others replicate.
# A dim that is a concatenation (fused qkv, gate and up) needs `parts:`, for each of which `dims` holds.
# An input that holds several of the baseline in a row has `of: [gate, up]` and `dim: 0` in place of `base:`.
# Stars stand for the same text in a key and in what it names: `layers.*.w1: {base: layers.*.mlp.gate.weight}`.
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
    pairs = pairs_of(base.inputs, dist.inputs, told_by_values(base, dist), "values", "input")
    given = _inputs(base, dist, mesh, pairs)
    lines += ["inputs:" if pairs.found else "inputs: {}", *given]
    lines += _outputs(base, dist, pairs)
    lines += _constants(base, dist)
    lines += _groups(dist, mesh)
    lines += [f"# reductions: {{{plain(name)}: …}}   # the dump does not say" for name in sorted(dist.reductions)]
    lines += [f"# ranges: {{{plain(t.name)}: [{lo}, {hi}]}}   # assumed" for t, (lo, hi) in id_ranges(base).items()]
    return "\n".join(lines) + "\n"


def _about(port: Port) -> str:
    """Its type; its name, too, where nothing better names it than its place."""
    return f"{port.tensor.type}" if port.path else f"{port.tensor.name} {port.tensor.type}"


def _inputs(base: Graph, dist: Graph, mesh: Mesh, pairs: Pairs) -> list[str]:
    entries = []
    for position, port in enumerate(dist.inputs):
        if position not in pairs.found:
            continue
        at, why = pairs.found[position]
        partner = base.inputs[at]
        named = port.path is not None and partner.path is not None and port.path != partner.path
        told = ", by its values" if why == "values" else ", by position: check" if why == "position" and named else ""
        said = [f" # {_about(port)}", f"    base: {NAME}  # {_about(partner)}{told}"]
        text = "\n".join([*said, *_placement(partner, port, position, mesh)])
        entries.append(Entry(called(dist.inputs, position), (called(base.inputs, at),), text))
    lines = [f"  {one.written()}" for one in starred(entries, dist.inputs)]
    return [*lines, *_left(base.inputs, dist.inputs, pairs, mesh)]


def _left(base: Sequence[Port], dist: Sequence[Port], pairs: Pairs, mesh: Mesh) -> list[str]:
    """Comments about inputs that have no partner: what their sizes let them be."""
    if not pairs.dist:
        return []
    ours, theirs = [dist[n] for n in pairs.dist], [base[n] for n in pairs.base]
    lines = [f"without a partner: {listing(theirs) or 'none'} of the baseline; what fits by its size:"]
    held, only = in_order(theirs, ours, mesh)
    if held:
        more = "" if only else MORE
        entries = [
            entry(one, base, pairs.base, dist, d, f"  # {dist[d].tensor.type}{more}")
            for d, one in zip(pairs.dist, held, strict=True)
        ]
        return [f"  # {line}" for line in [*lines, *(one.written() for one in starred(entries, dist))]]
    for n, port in enumerate(ours):
        fit = [key(base, pairs.base[b]) for b in alone(theirs, port, mesh)]
        told = f"fits {' or '.join(fit[:8])}" if fit else "no partner of its size"
        lines.append(f"{key(dist, pairs.dist[n])}: {{base: …}}  # {port.tensor.type}: {told}")
    return [f"  # {line}" for line in lines]


MORE = ", not the only way that sizes fit: check"


def _placement(base: Port, dist: Port, position: int, mesh: Mesh) -> list[str]:
    """The `dims:` lines of one pair."""
    found = Correspondence()
    try:
        place(base, dist, position, False, mesh, None, found)
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
    return [f"    dims: {dims_of(placement)}  # guessed from the shapes", *_fused(base, placement)]


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


def _outputs(base: Graph, dist: Graph, inputs: Pairs) -> list[str]:
    """The `outputs:` lines; comments where some are left over, for only what is given there is checked."""
    ways = {d: (b, True) for d, (b, _) in inputs.found.items()}
    given = {d: b for d, (b, _) in following(base, dist, ways).items()}
    pairs = pairs_of(base.outputs, dist.outputs, given, "its input", "output")
    lines = ["outputs:  # checked at the default placement where no dims are given"]
    entries = []
    for position, port in enumerate(dist.outputs):
        name = called(dist.outputs, position)
        if position in pairs.found:
            at = pairs.found[position][0]
            about = f"{_about(port)} against {_about(base.outputs[at])}"
            entries.append(Entry(name, (called(base.outputs, at),), f"{{base: {NAME}}}  # {about}"))
        else:
            entries.append(Entry(name, (), f"{{base: …}}  # {_about(port)}: no partner"))
    for one in starred(entries, dist.outputs):
        lines.append(f"  {'' if one.names else '# '}{one.written()}")
    if not pairs.dist and not pairs.base:
        return lines if pairs.found else []
    return [
        f"# {len(pairs.dist)} have no partner, and {len(pairs.base)} of the baseline. What inputs hold in the end, and",
        "# their gradients, pair as the inputs do where nothing is given here; else only what is given is checked.",
        *(f"# {line}" for line in lines),
    ]


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
    return [f"# groups: {{{plain(name)}: [{ranks}]}}   # members that the dump does not say" for name in sorted(names)]
