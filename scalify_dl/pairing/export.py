"""Two dumps → facts: read, merge ranks, pair, place, write tables.

facts = export("base.hlo", ["dist.hlo"], "tp=2", "relations.yaml")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scalify_dl import __version__
from scalify_dl.facts.model import Facts
from scalify_dl.facts.premises import check_premises
from scalify_dl.facts.schema import VERSION
from scalify_dl.facts.tables import Outline, TableWriter, clean
from scalify_dl.facts.validate import check_written
from scalify_dl.garbage import paused
from scalify_dl.ir.graph import Frame, Graph, Op, Tensor
from scalify_dl.ir.layout import Layout
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.origin import IN_TIME, ONE_FILE, SCHEDULE, SPMD, Origin
from scalify_dl.ir.placement import Placement
from scalify_dl.ir.shapes import check
from scalify_dl.readers.batched import computes_on_vectors
from scalify_dl.readers.normalise import normalise
from scalify_dl.readers.relations import Relations, load_relations
from scalify_dl.readers.sizes import Sizes

from .correspond import Correspondence, Shard, correspond
from .expectations import expectations, given_by, given_by_some, put_together
from .folded import fold_alike
from .in_a_row import taken_apart
from .named import all_used, check_partners, name_constants, name_groups, one_name
from .paired import Paired
from .ranges import ranges
from .read_pair import read_pair
from .written_out import keys_written_out, loops_written_out, written_out

if TYPE_CHECKING:
    from .joining import Cells

Whole = Callable[[Graph, Graph, Paired, Mesh], Facts | None]
"""What may say of a baseline and one distributed program, paired, what its tables are to say; None: all of it."""


def export(
    base: str | Path,
    dist: Sequence[str | Path] | str | Path,
    mesh: str | Mesh,
    relate: str | Path | Relations | None = None,
    sizes: Sizes | None = None,
    origins: list[Origin] | None = None,
    follow: Callable[[Sequence[Graph]], None] | None = None,
    *,
    fold: bool = True,
    whole: Whole | None = None,
) -> Facts:
    """The facts of a baseline and a distributed program.

    `base` and `dist` are dumps (HLO text, StableHLO, FX text); one `dist` file is an SPMD program, several are ranks
    0 … n-1 in row-major order of the mesh. `mesh` is `dp=2,tp=4` text or a `Mesh`; `relate` a relations file; `sizes`
    are those that the dumps leave open; `fold` as for `tables`. The distributed programs are added to `origins`.
    `follow` may change the programs as they are read (opaque calls become what they are known to compute). `whole` may
    take the place of the tables of one distributed program (`blocks`).
    Raises InputError for bad input.
    """
    mesh = mesh if isinstance(mesh, Mesh) else Mesh.parse(mesh)
    files = [dist] if isinstance(dist, str | Path) else list(dist)
    relations = relate if isinstance(relate, Relations) else load_relations(relate) if relate else Relations()
    with paused():
        base_graph, dist_graphs = read_pair(base, files, mesh, relations, sizes, follow)
        facts = tables(
            base_graph, dist_graphs, mesh, relations, joined=True, timed=origins is not None, fold=fold, whole=whole
        )  # fmt: skip
        if origins is not None:
            origins += map(Origin.of, dist_graphs)
        same = mesh.size > 1 and _same_text(Path(base), files)
        given = _Given(files, same, mesh.size > 1 and len(files) == 1 and not dist_graphs[0].for_all)
        _say(facts, relations, given)
        if (again := facts.again) is not None:
            facts.again = lambda: (other := again()) and _say(other, relations, given)
        if facts.whole is not None:
            whole_facts = facts.whole.facts
            facts.whole = replace(facts.whole, facts=cache(lambda: _say(whole_facts(), relations, given)))
        check_written(facts)  # what describes no program is told here as it is of facts that are read
        return facts


class _Given(NamedTuple):
    """The files of the distributed side: whether each is the baseline's text; whether it is one that may be of one
    rank of several."""

    files: Sequence[str | Path]
    same: bool
    alone: bool


def _say(facts: Facts, relations: Relations, given: _Given) -> Facts:
    """Adds what somebody said of the pair, and what its files are."""
    if relations.why != "given":
        for table in ("shard", "range", "assume"):
            rows = facts.tables[table]
            rows[:] = [(*row[:-1], relations.why) if row[-1] == "given" else row for row in rows]
    if len(given.files) > 1:
        facts.add("meta", "dist_files", clean(f"{given.files[0]} … {given.files[-1]} ({len(given.files)} files)"))
    if given.alone:
        facts.add("meta", "alone", ONE_FILE)
        if facts["expect"]:
            facts.add("assume", facts["expect"][0][0], ONE_FILE, SPMD)
    if given.same:
        facts.add("meta", "same_text", "every distributed file is the baseline's text, word for word")
    return facts


def _same_text(base: Path, files: Sequence[str | Path]) -> bool:
    """Whether somebody gave one file twice."""
    size = base.stat().st_size
    return all(Path(f).stat().st_size == size for f in files) and {base.read_bytes()} == {
        Path(f).read_bytes() for f in files
    }


def tables(
    base: Graph, dists: Sequence[Graph], mesh: Mesh, relations: Relations | None = None, *, joined: bool = False,
    timed: bool = False, fold: bool = True, whole: Whole | None = None,
) -> Facts:  # fmt: skip
    """The facts of graphs: what every front end, and programs built by hand, end in. `joined`: several programs become
    one, and loops in which ranks do different things are written out, where they can. `timed`: the order of programs
    is judged, too, so that what waits for ever is no bad input. `fold`: numbers computed of constants on one side are
    the constants that the other has (`folded`)."""
    relations = taken_apart(base, dists, mesh, relations or Relations())
    batches = not any(map(computes_on_vectors, (base, *dists)))
    for graph in (base, *dists):
        check(graph)
        normalise(graph, batches=batches)
        positions(graph)
    folded = fold_alike(base, dists) if fold else 0
    one_name(dists, mesh, relations)
    named = [name_groups(graph, mesh, relations, is_base=graph is base) for graph in (base, *dists)]
    if len(dists) > 1:  # merging saw groups only that the dumps name
        check_partners(dists)
    values = [name_constants(graph, relations, "base" if graph is base else "dist") for graph in (base, *dists)]
    known = [op for graph in (base, *dists) for op in graph.ops]
    constants = [op.result.name for op in known if op.kind == "constant" and op.result.literal is not None]
    all_used("constants", [r.pattern for r in relations.constants], values, relations, constants)
    all_used("groups", list(relations.groups), named, relations, [op.group_name or "" for op in known])
    asked = [{r.pattern for r in relations.reductions for name in graph.reductions if fnmatchcase(name, r.pattern)}
             for graph in dists]  # fmt: skip
    all_used("reductions", [r.pattern for r in relations.reductions], asked, relations,
              [name for graph in dists for name in graph.reductions])  # fmt: skip
    facts = _in_some_form(base, dists, mesh, relations, joined=joined, timed=timed, fold=fold, whole=whole)
    if folded and "folded" not in facts.meta:
        facts.add("meta", "folded", str(folded))
    return facts


def _in_some_form(
    base: Graph, dists: Sequence[Graph], mesh: Mesh, relations: Relations, *, joined: bool, timed: bool,
    fold: bool, whole: Whole | None,
) -> Facts:  # fmt: skip
    if joined and (len(dists) > 1 or any(op.kind in ("send", "recv") for op in dists[0].ops)):
        facts = _joined(base, dists, mesh, relations, timed)
        if facts is not None:
            return facts
    if not joined or len(dists) > 1:
        return _written(base, dists, mesh, relations)
    given = partial(_given, base, dists[0], mesh, relations)
    if fold and (programs := keys_written_out(base, dists[0], mesh, given)) is not None:
        folded = fold_alike(programs[0], [programs[1]])
        facts = _written(programs[0], [programs[1]], mesh, relations)
        if folded:
            facts.add("meta", "folded", str(folded))
        return facts
    new_base, new_dist = written_out(base, dists[0], mesh, given)
    facts = _written(new_base, [new_dist], mesh, relations, whole)
    if new_base is base and new_dist is dists[0]:
        facts.again = partial(_without_loops, base, new_dist, mesh, relations)
    return facts


def _without_loops(base: Graph, dist: Graph, mesh: Mesh, relations: Relations) -> Facts | None:
    with paused():
        programs = loops_written_out(base, dist, mesh)
        return None if programs is None else _written(programs[0], [programs[1]], mesh, relations)


def _written(
    base: Graph, dists: Sequence[Graph], mesh: Mesh, relations: Relations, whole: Whole | None = None
) -> Facts:
    paired = _paired(base, dists, dists, mesh, relations)
    if whole is not None and len(dists) == 1 and (facts := whole(base, dists[0], paired, mesh)) is not None:
        return facts
    several = len(dists) > 1
    names = [(graph, f"dist{n}" if several else "dist", f"r{n}/" if several else "") for n, graph in enumerate(dists)]
    return write_tables(base, dists, names, paired, mesh)


def _given(base: Graph, dist: Graph, mesh: Mesh, relations: Relations) -> Sequence[Shard]:
    return correspond(base, dist, mesh, relations).shards


def _paired(base: Graph, dists: Sequence[Graph], parties: Sequence[Graph], mesh: Mesh, relations: Relations) -> Paired:
    """`parties` are the programs, or several that run one of them."""
    found = [correspond(base, graph, mesh, relations) for graph in parties]
    names = [text for graph in parties for port in graph.inputs for text in (port.tensor.name, port.path or "")]
    all_used("inputs", [r.key for r in relations.inputs], [f.used for f in found], relations, names)
    elided = [_pair_elided(base, graph, mesh) for graph in parties]
    pairs = [f.sure(graph) for graph, f in zip(parties, found, strict=True)]
    inputs = {id(graph.inputs): some for graph, some in zip(parties, pairs, strict=True)}
    for graph in dists:
        put_together(given_by(base, graph, dists), graph, mesh, relations, inputs.get(id(graph.inputs)))
    expected = [
        expectations(given_by(base, graph, parties), graph, mesh, relations, some)
        for graph, some in zip(parties, pairs, strict=True)
    ]
    bounds = dict(ranges(base, parties, found, relations))
    return Paired(found, elided, [rows for rows, _ in expected], [guessed for _, guessed in expected], bounds)


def _joined(base: Graph, dists: Sequence[Graph], mesh: Mesh, relations: Relations, timed: bool) -> Facts | None:
    """The facts of several programs, or of one whose ranks send each other messages, as one; None where they do not
    become one."""
    from .joining import NeverComes, Unjoinable, cells_of  # most pairs have one program, in which nothing is sent

    cells = cells_of(dists, mesh)
    if cells is not None:
        try:
            return _of_cells(base, dists, cells, mesh, relations)
        except NeverComes as never:
            if not timed:
                raise never.error from None
        except Unjoinable:
            pass
    return None


def _of_cells(base: Graph, dists: Sequence[Graph], cells: Cells, mesh: Mesh, relations: Relations) -> Facts:
    """The facts of several programs as one. Unjoinable where they do not become one."""
    from .joining import in_joined, join, rows_of

    parties = [replace(dists[p], ranks=cells.ranks[k]) for k, p in enumerate(cells.program)]
    paired = _paired(base, dists, parties, mesh, relations)
    joined = join(dists, cells, [rows_of(found) for found in paired.found])
    paired, graph = in_joined(paired, joined, dists, mesh)
    check(graph)
    return write_tables(base, dists, [(graph, "dist", "")], paired, mesh)


def write_tables(
    base: Graph, dists: Sequence[Graph], written: Sequence[tuple[Graph, str, str]], paired: Paired, mesh: Mesh,
    names: dict[Tensor, str] | None = None, ops: dict[Op, str] | None = None, *, outline: bool = False,
) -> Facts:  # fmt: skip
    """The tables of a baseline and of `written`: graphs, their names and what ids begin with. The ids of tensors and
    ops are added to `names` and `ops`; those that are there are used. `outline`: without ops but constants."""
    writer = (Outline if outline else TableWriter)(mesh, names, ops)
    facts = writer.facts
    for key, value in _meta(base, dists, paired.found):
        facts.add("meta", key, clean(value))
    writer.graph(base, "base", "base", "base/")
    for graph, name, prefix in written:
        writer.graph(graph, "dist", name, prefix)
    ids = writer.ids
    if names is not None:
        names |= ids
    if ops is not None:
        ops |= writer.op_ids
    for correspondence in paired.found:
        _write_correspondence(facts, correspondence, ids)
    for pairs in paired.elided:
        for d, b, layout in pairs:
            facts.add("shard", ids[d], "", ids[b], "", str(layout), "elided")
    known = {row[0] for row in facts["shard"]}
    for tensor, text in _unpaired(base, [graph for graph, _, _ in written]):
        if ids[tensor] not in known:
            facts.add("placement_note", ids[tensor], clean(text))
    for expected, guessed in zip(paired.expected, paired.guessed, strict=True):
        facts.extend("expect", ((ids[d], ids[b], text) for (d, b), text in expected.items()))
        facts.extend("assume", ((ids[tensor], clean(text), why) for tensor, text, why in guessed))
    if facts["expect"] and (len(dists) > 1 or any(graph.asynchronous for graph in dists)):
        facts.add("assume", facts["expect"][0][0], IN_TIME, SCHEDULE)
    for tensor, (lo, hi, why) in paired.bounds.items():
        facts.add("range", ids[tensor], lo, hi, why)
    for port in base.inputs:
        bounds = paired.bounds.get(port.tensor)
        if bounds is None and port.seen is not None:
            facts.add("seen", ids[port.tensor], *port.seen)
        if bounds is not None and bounds.why == "ignored":  # of negative labels only this one is drawn
            facts.add("seen", ids[port.tensor], bounds.lo, bounds.hi)
    check_premises(facts)
    return facts


def _meta(base: Graph, dists: Sequence[Graph], found: Sequence[Correspondence]) -> Iterator[tuple[str, str]]:
    yield "schema", VERSION
    yield "producer", f"scalify-dl {__version__}"
    yield "base_file", base.file or base.name
    yield "dist_file", " ".join(dict.fromkeys(graph.file or graph.name for graph in dists))
    ignored = sum(graph.ignored_inputs + graph.ignored_outputs for graph in (base, *dists))
    if ignored:
        yield "ignored_non_tensors", str(ignored)
    outside = dict.fromkeys(text for graph in (base, *dists) for text in graph.outside)
    if outside:
        yield "outside", "; ".join(outside)
    if some := given_by_some(dists):
        yield "given_by_some", ", ".join(some)
    loud = dict.fromkeys(text for correspondence in found for text in correspondence.loud)
    if loud:
        yield "pairing", "; ".join(loud)


def positions(graph: Graph) -> None:
    """Ops without a source stack get their place in the dump."""
    if graph.file is None:
        return
    for op in graph.ops:
        if not op.source and op.at[0]:
            op.source = [Frame(graph.file, op.at[0])]
        for region in op.regions:
            positions(region)


def _unprinted(graph: Graph) -> dict[tuple[str, tuple[int, ...]], list[Tensor]]:
    """Constants of which a dump says neither value nor hash, by type."""
    found: dict[tuple[str, tuple[int, ...]], list[Tensor]] = {}
    for op in graph.ops:
        literal = op.result.literal if op.kind == "constant" else None
        if literal is not None and literal.is_elided and literal.sha256 is None:
            found.setdefault((op.result.dtype, op.result.shape), []).append(op.result)
    return found


def _pair_elided(base: Graph, dist: Graph, mesh: Mesh) -> list[tuple[Tensor, Tensor, Layout]]:
    """Unprinted constants of one type pair in order of occurrence, where both sides have equally many: assumed."""
    base_constants = _unprinted(base)
    pairs = []
    for key, tensors in _unprinted(dist).items():
        partners = base_constants.get(key, [])
        if len(partners) == len(tensors):
            layout = Placement().layout(key[1], mesh)
            pairs += [(d, b, layout) for d, b in zip(tensors, partners, strict=True)]
    return pairs


def _unpaired(base: Graph, dists: Sequence[Graph]) -> Iterator[tuple[Tensor, str]]:
    """Unprinted distributed constants that pair with none of the baseline, and how to say what they are."""
    base_constants = _unprinted(base)
    for graph in dists:
        for key, tensors in _unprinted(graph).items():
            others = base_constants.get(key, [])
            if len(others) != len(tensors):
                for tensor in tensors:
                    text = f"{len(tensors)} such constants here, {len(others)} in the baseline, and no dump prints them"
                    yield tensor, f"{text}; say what it is in the relations file: constants: {{{tensor.name}: VALUE}}"


def _write_correspondence(facts: Facts, found: Correspondence, ids: dict[Tensor, str]) -> None:
    for shard in found.shards:
        dist_piece, base_piece, layout = shard.row
        facts.add("shard", ids[shard.dist], dist_piece, ids[shard.base], base_piece, layout, shard.why)
    for tensor, text in found.notes:
        facts.add("placement_note", ids[tensor], clean(text))
    for tensor, text, why in found.assumptions:
        facts.add("assume", ids[tensor], text, why)
