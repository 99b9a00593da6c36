"""A described plan to a report: what was recorded as it is, stages as the schedule runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.facts.validate import check_meaning
from scalify_dl.finding import Finding, Happening
from scalify_dl.garbage import paused
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.origin import Origin
from scalify_dl.ir.shapes import check
from scalify_dl.pairing.export import export, tables
from scalify_dl.pairing.named import name_groups, one_name
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse, peak_mb
from scalify_dl.prove.verdict import InTime, OutputVerdict, Report, Verdict, overall
from scalify_dl.readers.read import read
from scalify_dl.readers.relations import GroupRelation, Relations, load_relations
from scalify_dl.schedule.pipeline import lower
from scalify_dl.schedule.pipeline_csv import Orders, read_orders
from scalify_dl.schedule.programs import concluded, in_time
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import judge

from ..findings import ERROR
from .file import Described
from .once import misplaced
from .played import CannotPlay, played
from .stages import check_optimisers, name_by_keys

STRUCTURE = "structure"


def report_on_described(plan: Described, options: Options, say: Callable[[str], None] = lambda text: None) -> Report:
    """The verdict on a plan file."""
    orders = _orders(plan)
    timed = concluded(judge(lower(orders), settings("both"))) if orders is not None else None
    picture = _picture(plan, orders)
    if timed is not None and timed.verdict is Verdict.REFUTED:
        return _without_values(plan, list(timed.findings), picture)
    try:
        with paused():
            facts, found = _facts(plan, orders, timed)
    except CannotPlay as problem:
        return _without_values(plan, [_cannot(plan, problem)], picture)
    from scalify_dl.report.conclude import conclude

    say("running the rules")
    analysis = analyse(facts, replace(options, mend=False), interruptible=True)
    report = conclude(analysis, say, found)
    odd = misplaced(plan, orders) if plan.stages and orders is not None else None
    if odd is not None and report.verdict is Verdict.PROVED:
        outputs = [replace(o, verdict=Verdict.UNKNOWN, reason=odd.text) for o in report.outputs]
        report = replace(report, verdict=Verdict.UNKNOWN, outputs=outputs, findings=[odd, *report.findings])
    if options.out:
        from scalify_dl.prove.results import write_results

        write_results(analysis, options.out)
    if options.certificate and report.verdict is Verdict.PROVED:
        from scalify_dl.prove.certificate import write

        say("writing the certificate")
        with paused():
            write(analysis, report, options.certificate)
    return replace(report, picture=picture)


def _orders(plan: Described) -> Orders | None:
    if plan.schedule is None:
        return None
    try:
        text = plan.schedule.read_text("utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", file=plan.schedule, expected="a CSV file as torch writes it") from None
    orders = read_orders(plan.schedule, text)
    ranks = plan.mesh.axis_size(plan.pipeline)
    if len(orders.lines) != ranks:
        raise InputError(
            f"{len(orders.lines)} lines", file=plan.schedule, line=len(orders.lines),
            expected=f"{ranks}: one for every rank along `{plan.pipeline}`", hint="was the file cut off?",
        )  # fmt: skip
    stages = max(orders.rank_of) + 1
    if plan.stages and stages != len(plan.stages):
        raise plan.place.error(
            f"{plan.schedule.name} has actions of {stages} stages, and `stages` lists {len(plan.stages)}",
            expected="the same stages in both",
        )
    return orders


def _facts(plan: Described, orders: Orders | None, timed: InTime | None) -> tuple[Facts, InTime | None]:
    """The facts, and whether they race or hang: what was recorded by itself, stages as their schedule, too, says."""
    relations = load_relations(plan.relations) if plan.relations else Relations()
    if plan.ranks:
        origins: list[Origin] = []
        facts = export(plan.baseline, plan.ranks, plan.mesh, relations, origins=origins)
        return facts, _both(timed, in_time(origins, plan.mesh.size))
    assert orders is not None
    axes = _axes(plan)
    named = replace(relations, groups={**axes, **relations.groups})
    graphs = [read(stage.program, plan.mesh, relations=named) for stage in plan.stages]
    optimisers = {
        n: read(stage.optimiser.program, plan.mesh, relations=named)
        for n, stage in enumerate(plan.stages) if stage.optimiser is not None
    }  # fmt: skip
    settled: set[str] = set()
    one_name([*graphs, *optimisers.values()], plan.mesh, named)
    of = [f"stage {n}: " for n in range(len(graphs))] + [f"the optimiser of stage {n}: " for n in optimisers]
    for graph, where in zip((*graphs, *optimisers.values()), of, strict=True):
        check(graph)
        name_by_keys(graph)
        settled |= name_groups(graph, plan.mesh, named, is_base=False)
        timed = _both(timed, in_time([Origin.of(graph)], plan.mesh.size), where)
    base = _baseline(plan)
    for port in (*base.inputs, *base.outputs):  # stages have some of them each, so only names can pair them
        port.path = port.path or port.alias or port.tensor.name
    wanted = [str(port.path) for port in base.outputs]
    check_optimisers(plan, optimisers)
    _all_given(plan, wanted)
    rest = {name: group for name, group in relations.groups.items() if name not in settled}
    graphs = played(plan, orders, graphs, wanted, optimisers)
    facts = tables(base, graphs, plan.mesh, replace(relations, groups=rest), joined=True, timed=True)
    for name in sorted(settled - relations.groups.keys()):
        facts.add("assume", facts["expect"][0][0], f"process group `{name}` is the axis `{name}` of the mesh", "given")
    check_meaning(facts)
    return facts, timed


def _baseline(plan: Described) -> Graph:
    graph = read(plan.baseline)
    if plan.stages:
        name_by_keys(graph)
    return graph


def _both(timed: InTime | None, own: InTime | None, of: str = "") -> InTime | None:
    """What a schedule says, and what programs say that wait for what they start themselves."""
    if timed is None or own is None:
        return timed or own
    assumptions = (*timed.assumptions, *(of + text for text in own.assumptions))
    return InTime(overall([timed.verdict, own.verdict]), (*timed.findings, *own.findings), assumptions)


def _all_given(plan: Described, wanted: Sequence[str]) -> None:
    """Every output of the baseline is one of some stage, and these are outputs of the baseline."""
    taken = [stage.optimiser.gradients.values() if stage.optimiser else () for stage in plan.stages]
    updates = [stage.optimiser.updates.values() if stage.optimiser else () for stage in plan.stages]
    named = [
        (stage, what, what in some) for stage, some, new in zip(plan.stages, taken, updates, strict=True)
        for what in (*stage.losses.values(), *stage.gradients.values(), *new)
    ]  # fmt: skip
    for stage, what, used in named:
        if what not in wanted and not used:
            raise stage.place.error(f"the baseline has no output `{what}`", expected=f"one of {', '.join(wanted)}")
    for what in (what for what in wanted if what not in {what for _, what, _ in named}):
        raise plan.place.error(
            f"no stage gives the baseline's output `{what}`",
            expected="it among `losses`, `gradients` or `updates` of a stage",
        )
    for what in plan.tied:
        if sum(what == other for _, other, _ in named) < 2:
            raise plan.place.error(f"tied: fewer than two stages give `{what}`", expected="gradients of several stages")


def _axes(plan: Described) -> dict[str, GroupRelation]:
    """Groups along mesh axes, by the names of the axes."""
    found = {}
    for at, (name, _) in enumerate(plan.mesh.axes):
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank, coordinates in enumerate(plan.mesh.coordinates):
            groups.setdefault((*coordinates[:at], *coordinates[at + 1 :]), []).append(rank)
        found[name] = GroupRelation(name, plan.place, tuple(map(tuple, groups.values())))
    return found


def _picture(plan: Described, orders: Orders | None) -> list[str]:
    """Stages and the ranks that run them."""
    if orders is None:
        return []
    at = [name for name, _ in plan.mesh.axes].index(plan.pipeline)
    lines = []
    for stage, place in sorted(orders.rank_of.items()):
        ranks = [str(r) for r, c in enumerate(plan.mesh.coordinates) if c[at] == place]
        shown = " ".join(ranks[:8]) + (f" … {len(ranks)} ranks" if len(ranks) > 8 else "")
        lines.append(f"stage {stage}   ranks {shown}")
    return lines


def _cannot(plan: Described, problem: CannotPlay) -> Finding:
    where = f"{plan.schedule}:{problem.line}:{problem.cell}"
    return Finding(
        "undefined", ERROR, str(problem), (Happening(problem.rank, problem.action, where),), rank=problem.rank,
        op=problem.action, name=problem.action, source=(where,), suggestion="receive it before",
    )  # fmt: skip


def _without_values(plan: Described, findings: Sequence[Finding], picture: list[str]) -> Report:
    """A schedule that cannot run as it stands has no values."""
    outputs = [port.path or port.alias or port.tensor.name for port in _baseline(plan).outputs]
    return Report(
        verdict=Verdict.REFUTED,
        title=f"{plan.file.name}: {plan.mesh}",
        outputs=[OutputVerdict("", "", name, name, Verdict.REFUTED, reason=STRUCTURE) for name in outputs],
        findings=list(findings),
        picture=picture,
        stats={"ops": 0, "tuples": 0, "cpu_s": 0.0, "peak_mb": round(peak_mb(), 1)},
    )
