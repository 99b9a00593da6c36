"""Lint of a distributed program: it is lifted, and what was lifted is put to the rules that compare two programs.

    result = lint_graph(graph, Mesh.parse("tp=2"))
    result.verdict, result.findings, result.baseline

PROVED: every op that computes something is one op on values of one device, and every output is one, with nothing
pending but what is expected. REFUTED: a named violation, which numbers confirm. Else UNKNOWN, with what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.facts.validate import check_meaning
from scalify_dl.finding import Finding
from scalify_dl.garbage import paused
from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.layout import Layout
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.shapes import check
from scalify_dl.ir.vocabulary import COLLECTIVES
from scalify_dl.pairing.export import positions, write_tables
from scalify_dl.pairing.named import check_partners, name_constants, name_groups, one_name
from scalify_dl.pairing.paired import Paired
from scalify_dl.pairing.ranges import ranges
from scalify_dl.pairing.read_pair import rank_of
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import Analysis, analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.prove.view import View
from scalify_dl.readers.merge import merge
from scalify_dl.readers.normalise import normalise
from scalify_dl.readers.rank_files import in_order
from scalify_dl.readers.read import read
from scalify_dl.readers.relations import Relations, load_relations

from .costs import Costs
from .expected import Boundary, boundaries
from .factors import factors_of
from .given import Given, given
from .grid import Grid
from .kinds import LIFTING
from .lift import Lifted, Lifter
from .spmd import types

FURTHER = 16
"""So many results of ops without a lemma are taken as a run says that they are, to look for violations behind."""
READINGS = 24
"""So many ways to read ops that may be read in several are tried."""


@dataclass
class Result:
    """What a lint says. `proved` are ops of which the rules prove what was lifted."""

    verdict: Verdict
    findings: list[Finding]
    lifted: Lifted
    baseline: Graph
    grid: Grid
    boundaries: list[Boundary]
    assumptions: list[tuple[str, str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """What keeps the verdict from being PROVED or REFUTED."""
    ops: int = 0
    proved: int = 0
    stats: dict[str, float] = field(default_factory=dict)
    shown: list[Tensor] = field(default_factory=list)
    """Values whose placement people ask for: inputs, what collectives make, outputs."""
    gradients: dict[Tensor, dict[str, str]] = field(default_factory=dict)
    """The types of their gradients, by axis."""
    ends: dict[Tensor, Verdict] = field(default_factory=dict)
    """The verdict of outputs that are not proved."""
    view: View | None = None
    """Both programs as facts, for what is drawn."""
    costs: Costs = field(default_factory=Costs)
    borne: dict[Tensor, Layout] = field(default_factory=dict)
    """Results of ops that were not lifted, and where a run says they are what one device makes."""
    sure: set[Tensor] = field(default_factory=set)
    """Values of which the rules prove what was lifted, and which are not so in other placements, too."""
    gradients_of: dict[str, Verdict] = field(default_factory=dict)
    """Outputs that are gradients: whether they are the derived ones."""


Follow = Callable[[Sequence[Graph]], None]
"""What changes a program as it is read: opaque calls become what they are known to compute."""


def lint(
    dist: Sequence[Path], mesh: Mesh, relate: Path | None = None, options: Options | None = None,
    follow: Follow | None = None, *, backward: Sequence[Path] = (), derive_backward: bool = False,
) -> Result:  # fmt: skip
    """Reads a program and judges it; its gradients, too, against those that are derived. `backward` are dumps of its
    backward, where that is given apart."""
    from .annotated import annotate

    relations = load_relations(relate) if relate else Relations()
    derive_backward = derive_backward or bool(backward)
    with paused():
        graph, handed_on = load(dist, mesh, relations, follow), []
        if backward:
            from .apart import joined

            forward = graph
            graph, relations = joined(forward, load(backward, mesh, relations, follow), relations)
            handed_on = [port for port in forward.outputs if port not in graph.outputs]
        elif relations.handed:
            raise InputError("`handed:` is said of no backward", file=relate, expected="dumps of it: --backward")
        annotate(graph, mesh, relations)
        result = lint_graph(graph, mesh, relations, options)
        if handed_on:
            names = ", ".join(f"`{port.path or port.tensor.name}`" for port in handed_on)
            text = f"handed on to the backward, and not looked at as outputs: {names}"
            result.findings.append(Finding("handed-on", "note", text, name="the forward"))
        if not derive_backward:
            return result
        from .backward import with_backward

        return with_backward(result, graph, relations, options or Options())


def load(dist: Sequence[Path], mesh: Mesh, relations: Relations, follow: Follow | None = None) -> Graph:
    """The program of all ranks. InputError where ranks run different ones."""
    if len(dist) not in (1, mesh.size):
        raise InputError(f"{len(dist)} files for a mesh of {mesh.size} ranks", expected="one, or one per rank")
    graphs = [read(path, mesh, relations=relations) for path in in_order(dist, [rank_of(path) for path in dist], mesh)]
    if follow is not None:
        follow(graphs)
    merged = merge(iter(graphs)) if len(graphs) > 1 else graphs
    if len(merged) != 1:
        one_name(merged, mesh, relations)
        for each in merged:
            name_groups(each, mesh, relations, is_base=False)
        check_partners(merged)
        raise Several(f"the ranks run {len(merged)} different programs")
    return merged[0]


class Several(Exception):
    """Ranks that run different programs: there is no one program to lift."""


def lint_graph(dist: Graph, mesh: Mesh, relations: Relations | None = None, options: Options | None = None) -> Result:
    """Judges a program."""
    result = _placed(dist, mesh, relations or Relations(), options or Options())
    if not dist.types and not dist.transitions:
        return result
    from .annotated import check_inputs
    from .typed import OF_INVARIANT, check_types

    proved = {t: types(result.lifted.held[t], result.grid) for t in result.sure}
    check_inputs(dist, relations or Relations(), proved)
    typed = check_types(dist, mesh, proved)
    if result.verdict is Verdict.PROVED:  # values are right: what adds a share of a value to parts is no error of them
        typed.open += [f for f in typed.findings if f.kind == "mixed-types" and f.suggestion != OF_INVARIANT]
        typed.findings = [f for f in typed.findings if f not in typed.open]
    result.findings += typed.findings
    if typed.findings:
        result.verdict = Verdict.REFUTED
    elif typed.open and result.verdict is Verdict.PROVED:
        result.verdict = Verdict.UNKNOWN
    result.missing += [f"`{found.name}`: {found.text}" for found in typed.open]
    return result


def _placed(dist: Graph, mesh: Mesh, relations: Relations, options: Options) -> Result:
    from .findings import judged

    made = prepared(dist, mesh, relations, options.rules)
    first: Result | None = None
    borne: dict[Tensor, Layout] = {}
    while True:
        facts, ids, op_ids = tables(made.start, made.lifted, dist, mesh, relations, made.ends)
        check_meaning(facts)
        analysis = analyse(facts, options)
        result = judged(analysis, made.start, made.lifted, dist, Grid(mesh), made.ends, ids, op_ids)
        first = first or result
        more = {t: layout for t, layout in result.borne.items() if t not in borne}
        if result.verdict is not Verdict.UNKNOWN or not more or len(borne) > FURTHER:
            return result if result.verdict is Verdict.REFUTED else first
        borne |= more  # no lemma, but a run says what these are: a violation may be behind
        made = _lifted_again(made, mesh, relations, options.rules, borne)


@dataclass
class Prepared:
    """A program, what is given of its inputs, what it was lifted to, its outputs."""

    dist: Graph
    start: Given
    lifted: Lifted
    ends: list[Boundary]


def prepared(dist: Graph, mesh: Mesh, relations: Relations, rules: tuple[Path, ...] = ()) -> Prepared:
    """Lifts a program."""
    check(dist)
    normalise(dist)
    positions(dist)
    name_groups(dist, mesh, relations, is_base=False)
    name_constants(dist, relations, "dist")
    grid = Grid(mesh)
    start, lifted = _lifted(dist, mesh, grid, relations, rules)
    return Prepared(dist, start, lifted, boundaries(dist, lifted, grid, relations))


def _lifted_again(
    made: Prepared, mesh: Mesh, relations: Relations, rules: tuple[Path, ...], borne: Mapping[Tensor, Layout]
) -> Prepared:
    """The lift that goes on behind ops of which a run says what they make."""
    grid = Grid(mesh)
    start, lifted = _lifted(made.dist, mesh, grid, relations, rules, borne)
    return Prepared(made.dist, start, lifted, boundaries(made.dist, lifted, grid, relations))


def _lifted(
    dist: Graph, mesh: Mesh, grid: Grid, relations: Relations, more: tuple[Path, ...],
    borne: Mapping[Tensor, Layout] | None = None,
) -> tuple[Given, Lifted]:  # fmt: skip
    """The lift that stops least, over the ways to read ops that may be read in several."""
    best: tuple[tuple[int, int], Given, Lifted] | None = None
    tried: set[frozenset[tuple[object, int]]] = set()
    queue: list[dict[object, int]] = [{}]
    strange = [op for op in dist.ops if op.kind not in LIFTING and not op.regions and op.operands]
    factors = factors_of(dist, mesh, strange, more)
    while queue and len(tried) < READINGS:
        choices = queue.pop(0)
        key = frozenset(choices.items())
        if key in tried:
            continue
        tried.add(key)
        start = given(dist, mesh, relations)
        lifted = Lifter(grid, start.base, start.held, choices, factors, borne).run(dist)
        ends = boundaries(dist, lifted, grid, relations)
        wrong = sum(end.held is None or str(end.held.layout(grid)) != end.wanted for end in ends)
        known = lifted.held.keys() | lifted.ranked | lifted.mixed.keys()
        score = (sum(t not in known for op in dist.ops for t in op.results) + len(lifted.stops), wrong)
        if best is None or score < best[0]:
            best = (score, start, lifted)
        if score == (0, 0):
            break
        others = [(sort, n) for sort, count in lifted.open_choices.items() for n in range(1, count)]
        queue += [choices | {sort: n} for sort, n in others if sort not in choices]
    assert best is not None
    return best[1], best[2]


def tables(
    start: Given, lifted: Lifted, dist: Graph, mesh: Mesh, relations: Relations, ends: Sequence[Boundary]
) -> tuple[Facts, dict[Tensor, str], dict[Op, str]]:
    """The program and what was lifted as facts of a pair, with the ids of tensors and ops."""
    base = lifted.base
    expected: dict[tuple[Tensor, Tensor], str] = {}
    for end in ends:
        if end.held is not None:
            expected[end.port.tensor, end.held.base] = end.wanted if end.fits else ""
    if not expected:  # what was lifted before it stopped
        known = [t for stop in lifted.stops for t in stop.op.operands if t in lifted.held]
        for tensor in [*known, *(port.tensor for port in dist.inputs if port.tensor in lifted.held)][:4]:
            held = lifted.held[tensor]
            if held.along is None:
                expected[tensor, held.base] = str(held.layout(Grid(mesh)))
        more = [Port(tensor) for tensor, _ in expected]
        dist = replace(dist, outputs=[*dist.outputs, *more])
    outputs = dict.fromkeys(b for _, b in expected)
    probes = [t for stop in lifted.stops if stop.probe is not None for t in stop.probe.results]
    stopped = [op for op in dist.ops if any(t not in lifted.held for t in op.results)]
    read = [lifted.held[t].base for op in stopped for t in op.operands if t in lifted.held]  # else nobody reads it
    for tensor in dict.fromkeys([*outputs, *probes, *read]):
        base.output(tensor)
    _prune(base, [*(h.base for h in lifted.held.values()), *probes])
    bounds = dict(ranges(base, [dist], [start.found], relations))
    paired = Paired([start.found], [[]], [expected], [[]], bounds)
    names: dict[Tensor, str] = {}
    ops: dict[Op, str] = {}
    facts = write_tables(base, [dist], [(dist, "dist", "")], paired, mesh, names, ops)
    return facts, names, ops


def _prune(base: Graph, wanted: Sequence[Tensor]) -> None:
    """Leaves out what was made on the way and is not the counterpart of anything."""
    maker = {t: op for op in base.ops for t in op.results}
    kept: set[Op] = set()
    stack = list(wanted)
    while stack:
        op = maker.get(stack.pop())
        if op is not None and op not in kept:
            kept.add(op)
            stack += op.operands
    base.ops = [op for op in base.ops if op in kept]


def computes(op: Op) -> bool:
    """Whether an op makes numbers of others, so that one device has to do the same."""
    return op.kind not in COLLECTIVES and op.kind in LIFTING and op.kind not in (
        "constant", "iota", "broadcast", "reshape", "transpose", "slice", "dynamic-slice", "empty"
    )  # fmt: skip


def held_rows(analysis: Analysis) -> set[tuple[str, str, str]]:
    """Whole distributed values, whole baseline values, layouts as text: what the rules proved."""
    return {(d, b, text) for d, piece, b, base_piece, text in analysis.rows("corr") if not piece and not base_piece}
