"""From the tables of a plan to facts: read, check, fold."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.finding import Finding
from scalify_dl.garbage import paused
from scalify_dl.prove.verdict import InTime
from scalify_dl.schedule.programs import concluded
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import judge

from .after import AFTER
from .check import check, premises
from .findings import ERROR, about, findings
from .fold import CannotRun, Fold, Folded
from .given import NotFolded
from .meanings.declared import FILE
from .model import Op, Side, read_side
from .outputs import LOSS, Conclusion
from .repeated import read_repeated
from .schedule import lower_plan
from .slots import slots
from .tables import Tables
from .traits import Traits
from .world import World

NOT_FOLDED = "not folded"
REPEATED = "all copies and micro-batches were compared with the first ones, op by op: they do the same"


@dataclass
class Prepared:
    """A plan that was read: what is wrong with its structure, and its facts where it could be folded."""

    plan: Side
    world: World
    findings: list[Finding]
    expected: list[str]
    """Names of all outputs: the loss, and gradients by the names of their weights."""
    facts: Facts | None = None
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    """(distributed tensor, baseline tensor) → name of the output."""
    missing: list[tuple[str, str]] = field(default_factory=list)
    """Outputs that the plan does not give, and why."""
    origins: dict[str, Op] = field(default_factory=dict)
    """Op of the facts → op of the plan."""
    notes: list[str] = field(default_factory=list)
    in_time: InTime | None = None
    """Whether ranks may hang or race, where messages and collectives wait for each other."""
    broken: bool = False
    """Whether the rules found an error, told or explained by what is told."""

    @property
    def cannot_run(self) -> bool:
        """Whether some finding is an error."""
        return self.broken or any(finding.level == ERROR for finding in self.findings)


def prepare(directory: Path) -> Prepared:
    """Reads, checks and folds a directory of tables; InputError where it is none."""
    if not directory.is_dir():
        wanted = "a directory of plan tables, or a plan.yaml (docs/plans.md)"
        raise InputError("no such plan", file=directory, expected=wanted)
    with paused():
        base, plan = (read_side(Tables(directory, side)) for side in "sp")
        return _prepared(base, plan, plan)


def prepare_repeated(directory: Path) -> Prepared | None:
    """The same of a plan that is written out, by its unit form; None where that does not stand for it."""
    if not directory.is_dir():
        return None
    with paused():
        found = read_repeated(directory)
        return found and _prepared(read_side(Tables(directory, "s")), found.unit, found.talk)


def _prepared(base: Side, plan: Side, talk: Side) -> Prepared:
    """Checks and folds. `talk`: what all ranks send, receive and call."""
    with paused():
        world = World(plan)
        named = slots(plan, world)
        traits = Traits(plan, world, named)
        checked = check(premises(plan, base, world, named, traits))
        out = Prepared(plan, world, findings(plan, named, checked), expected(base))
        out.broken = any(level == ERROR for _, _, level, *_ in checked.findings)
        if out.cannot_run:
            return out
        try:
            fold = Fold(base, plan, world, named, traits, checked.delivered)
            folded = fold.run()
            outputs = Conclusion(fold, folded).run()
            if not outputs.names:
                raise NotFolded("the plan gives no output")
        except CannotRun as problem:
            out.findings.insert(0, about(plan, [problem.op], "ill-typed", ERROR, str(problem)))
            return out
        except NotFolded as problem:
            out.notes.append(f"the plan could not be folded into one program: {problem}")
            if problem.op:
                out.findings.append(about(plan, [plan.ops[problem.op]], NOT_FOLDED, "difference", str(problem)))
            return out
        out.missing = outputs.missing
        try:
            out.facts = _facts(out, folded)
        except InputError as problem:
            out.notes.append(f"the program into which the plan was folded is malformed: {problem.message}")
            return out
        out.in_time = concluded(judge(lower_plan(talk, named=False), settings("both")))
        pairs = [(row[0], row[1]) for row in out.facts["expect"]]
        out.names = dict(zip(pairs, outputs.names, strict=True))
        return out


def expected(base: Side) -> list[str]:
    """Names of the outputs that a plan has to give."""
    losses = [full.name for full in base.fulls.values() if full.loss and not full.gradient]
    updated = [base.named(weight) for weight in base.updates.values()]
    names = [base.named(weight) for weight in base.weight_of.values() if base.named(weight) not in updated]
    after = map(AFTER.format, dict.fromkeys(updated))
    return [*(losses if len(losses) > 1 else [LOSS]), *dict.fromkeys(names), *after]


def _facts(out: Prepared, folded: Folded) -> Facts:
    """The facts of the folded plan. InputError where they are contradictory."""
    world = out.world
    folded.pair.title = f"{out.plan.tables.directory.name}: {world.stages} stages, {world.micro_batches} micro-batches,"
    facts = folded.pair.facts()
    if out.plan.repeated:
        out.notes.append(REPEATED)
    elif world.unit_form:
        few = "the first copy does" if world.copies == 1 else f"the first {world.copies} do"
        text = f"dp copies {world.copies} to {world.dp - 1} are not written: they do what {few}"
        facts.add("assume", facts["expect"][0][0], text, "unit form")
    if world.written < world.micro_batches and not out.plan.repeated:
        text = (
            f"micro-batches 1 to {world.micro_batches - 1} are not written: they do what the first one does, and the"
            " gradients of all are added up"
        )
        facts.add("assume", facts["expect"][0][0], text, "unit form")
    used = {op.kind for op in out.plan.ops.values()}
    for name in sorted(out.plan.functions.keys() & used):
        text = f"`{name}` computes what {FILE} says, forwards and backwards"
        facts.add("assume", facts["expect"][0][0], text, "declared function")
    ops = [op for op, graph, _ in facts["op"] if graph == "dist"]
    out.origins = dict(zip(ops, folded.origins, strict=True))
    for kind, text in folded.opaque.items():
        out.notes.append(f"{kind} is taken as opaque: {text}")
    return facts


def picture(prepared: Prepared) -> list[str]:
    """The pipeline in lines: stages and the ranks that run them, with the numbers of findings."""
    world = prepared.world
    marks: dict[int, list[str]] = {}
    for number, finding in enumerate(prepared.findings, 1):
        for event in finding.events[:1]:
            rank = finding.rank if finding.rank is not None else prepared.plan.ops[event.name].rank
            marks.setdefault(world.stage(rank), []).append(str(number))
    lines = []
    for stage in range(world.stages):
        copies = [
            " ".join(str(world.rank_at[d, stage, t]) for t in range(world.tp)) for d in range(min(world.copies, 4))
        ]
        more = f" | … {world.dp} copies" if world.dp > len(copies) else ""
        seen = f"   finding {', '.join(marks[stage][:5])}" if stage in marks else ""
        lines.append(f"stage {stage}   ranks {' | '.join(copies)}{more}{seen}")
    return lines
