"""The run: facts into the engine, rules to their fixpoint, arithmetic obligations discharged, conclusion.

    analysis = analyse(facts, Options())
    report = analysis.report()

The rules decide; this file moves tables. One engine run covers all rules. Where rules derive `obligation` tuples, a
solver is asked about them, what it proved or refuted goes back in as facts, and the engine resumes; nothing is ever
retracted. Where outputs are left over, and the pair can be had in another form (`Facts.again`: its loops written out),
the rules run once more on that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from scalify_dl.algebra.effort import now
from scalify_dl.deadline import OutOfTime, until
from scalify_dl.facts import TABLES, Facts
from scalify_dl.pysouffle import EvaluationError, Program, rules_dir

from .ahead import claims_of_parts
from .normal_forms import AGAIN, BESIDE, BRIEFLY, SECONDS, different_in_numbers, equalities, unproved
from .options import Options
from .own_rules import check_own, read_own
from .view import Row, View

MAIN = "verify.dl"
LARGE = 5_000
"""Ops of both programs above which formulas of outputs are compared after their numbers, and the place of a difference
is first looked for on a part of them."""
_GUARDS = ("timeout:", "max_memory:", "max_tuples:")


class Solver(Protocol):
    """Discharges arithmetic: from undecided rows of `obligation` to rows of `proved` and of `refuted`.

    `relation` gives rows of the run, for what the obligations mention.
    """

    def __call__(
        self, obligations: list[Row], relation: Callable[[str], Iterable[Row]]
    ) -> tuple[list[Row], list[Row]]: ...


def rule_files(more: Iterable[Path] = ()) -> list[Path]:
    """The rules of a run: the shipped ones, with the meanings of opaque ops that ship, then the user's files.

    InputError where one of these is none, or says what such a file may not (own_rules.py).
    """
    files = [*more]
    read_own(files, rules_dir())
    return [rules_dir() / MAIN, *(file.resolve() for file in files)]


def rules_program(more: Iterable[Path] = (), text: str = "", **options: Any) -> Program:
    """All rules of a run as a program, with further rule text at the end; InputError where they do not load.

    Options are those of `Program.from_source`.
    """
    more = [*more]
    source = "".join(f'#include "{file}"\n' for file in rule_files(more)) + text
    program = Program.from_source(source, name="rules", include_dirs=[rules_dir()], **options)
    check_own(program, read_own(more, rules_dir()), rules_dir())
    return program


@cache
def _shipped() -> Program:
    """The shipped rules, read once for all runs of a process, and compiled once for all that find them as they are."""
    return rules_program(kept=rules_dir() / "__pycache__" / "rules.compiled")


def fact_relations(program: Program) -> dict[str, str]:
    """Relations that are read from the facts, and the table that each is: some names are keywords of the language."""
    found = {}
    for directive in program.directives:
        if directive.kind == "input":
            table = directive.parameters.get("filename", directive.name).removesuffix(".facts")
            if table in TABLES:
                found[directive.name] = table
    return found


@dataclass
class Analysis:
    """A run that is finished, or that a guard stopped: the facts, and the engine with everything derived."""

    facts: Facts
    program: Program
    options: Options
    stopped: str = ""
    """Why the rules could not be run to the end; empty if they were."""
    refuted_obligations: list[Row] = field(default_factory=list)
    deadline: float | None = None
    """When all that is done with it has to end, as `time.monotonic()` counts."""
    begun: float = field(default_factory=time.process_time)
    """When its rules began, in CPU seconds of the process."""
    notes: list[str] = field(default_factory=list)
    """What was not tried, and why."""
    waiting: bool = False
    """Whether formulas of outputs that are not proved are still to be compared (`compare_formulas`)."""
    elsewhere: tuple[int, int] = (0, 0)
    """Ops of the pair, and tuples that were derived of its blocks, where the facts are of the whole (`blocks`)."""
    other: Analysis | None = None
    """The run on another form of the pair, if rules follow it further, though they prove no more outputs: edits of a
    wrong program may be proved there."""

    def rows(self, relation: str) -> Iterable[Row]:
        """Rows of a derived relation; none where the rules do not have it."""
        return self.program.relation(relation) if relation in self.program.relations else []

    @property
    def outputs_left(self) -> int:
        """How many outputs are not proved."""
        return sum(row[2] != "PROVED" for row in self.rows("output_verdict"))

    @property
    def waiting_ops(self) -> int:
        """How many ops are not proved because of what they read."""
        return len({op for (op,) in self.rows("blocked")})

    @property
    def view(self) -> View:
        """Facts and results, as reports read them."""
        return View(lambda name: self.facts.tables.get(name, []), self.rows)

    def stats(self) -> dict[str, float]:
        """The figures of the report: ops, tuples, CPU seconds of the process so far, peak resident megabytes."""
        return {
            "ops": self.elsewhere[0] or len(self.facts["op"]),
            "tuples": self.program.total_tuples + self.elsewhere[1],
            "cpu_s": round(time.process_time(), 3),
            "peak_mb": round(peak_mb(), 1),
        }


INTERRUPTED = "the rules were stopped (interrupted)"


def analyse(
    facts: Facts,
    options: Options,
    solver: Solver | None = None,
    more: str = "",
    *,
    interruptible: bool = False,
    numbers_first: bool = False,
    begun: float | None = None,
    again: float = AGAIN,
) -> Analysis:
    """Run the rules (and `more` rule text) on facts; `numbers_first`: where runs of both sides are compared, too,
    formulas are left to `compare_formulas`. `begun`: when the facts began to be read, which `timeout` counts from.
    `again`: CPU seconds for formulas that are looked at once more when the rules have gone on.

    A guard that stops them is no error, nor is Ctrl-C where they are `interruptible`: the verdict then is UNKNOWN and
    says why.
    """
    begun = time.monotonic() if begun is None else begun
    deadline = None if options.timeout is None else begun + options.timeout
    analysis = _by_rules(facts, options, solver, more, deadline, interruptible)
    left = analysis.outputs_left
    if facts.again is not None and left and not analysis.stopped and (other := facts.again()) is not None:
        second = _by_rules(other, options, solver, more, deadline, interruptible)
        if not second.stopped and second.outputs_left < left:
            analysis = second
        elif not second.stopped and second.waiting_ops < analysis.waiting_ops:
            analysis.other = second
    waits = numbers_first and options.refute and not options.rules  # own equalities are always read
    if not waits and not analysis.stopped:
        _run(analysis, _by_formulas(analysis, solver, None, again), interruptible)
    analysis.waiting = waits and not analysis.stopped
    return analysis


def _by_rules(
    facts: Facts, options: Options, solver: Solver | None, more: str, deadline: float | None, interruptible: bool,
    told: Mapping[str, Iterable[Row]] | None = None,
) -> Analysis:  # fmt: skip
    """What the rules derive; `told`: of facts and answers."""
    program = rules_program(options.rules, more) if options.rules or more else _shipped().fresh()
    for relation, table in fact_relations(program).items():
        program.insert(relation, facts[table])
    for relation, rows in (told or {}).items():
        program.insert(relation, rows)
    analysis = Analysis(facts, program, options, deadline=deadline)
    _run(analysis, _solved(analysis, solver), interruptible)
    return analysis


def derive(facts: Facts, options: Options, told: Mapping[str, Iterable[Row]], deadline: float | None) -> Analysis:
    """What the rules, and no formulas, derive of facts and of what is told them (`ANSWERS`)."""
    return _by_rules(facts, options, None, "", deadline, interruptible=False, told=told)


def compare_formulas(analysis: Analysis, outputs: Collection[tuple[str, str]]) -> None:
    """Proves some outputs by their formulas, if these are equal."""
    analysis.waiting = False
    _run(analysis, _by_formulas(analysis, None, outputs), interruptible=False)


def _run(analysis: Analysis, rounds: Iterator[None], interruptible: bool) -> None:
    memory = None if analysis.options.max_memory is None else analysis.options.max_memory * 1_000_000
    try:
        for _ in rounds:
            deadline = analysis.deadline
            left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
            analysis.program.run(timeout=left, max_memory=memory)
    except EvaluationError as error:
        if not error.message.startswith(_GUARDS):
            raise
        why = error.message.splitlines()[0]
        if why.startswith("timeout:"):  # what is said of the rules is what was left to them
            why = f"timeout: reading and rules took more than {analysis.options.timeout:g} s"
        analysis.stopped = f"the rules were stopped ({why})"
    except KeyboardInterrupt:
        if not interruptible:
            raise
        analysis.stopped = INTERRUPTED


def _by_formulas(
    analysis: Analysis, solver: Solver | None, outputs: Collection[tuple[str, str]] | None, again: float = AGAIN
) -> Iterator[None]:
    """One run more whenever formulas of outputs (None: of all that are not proved), or of parts of them, are equal."""
    late = "no time was left (--timeout) to compare what is written differently by its formulas"
    parts: dict[str, list[Row]] | None = None
    while parts is None or parts:  # what rules make of claims may be what others are made of
        try:
            with until(analysis.deadline):
                parts = claims_of_parts(analysis.facts, analysis.rows, outputs)
        except OutOfTime:
            analysis.notes.append(late)
            return
        if parts:
            for relation, rows in parts.items():
                analysis.program.insert(relation, rows)
            yield from _solved(analysis, solver)
    try:
        with until(analysis.deadline):
            differ = different_in_numbers(analysis.facts, analysis.rows, outputs)
    except OutOfTime:
        analysis.notes.append(late)
        return
    if differ:  # equal at most for some numbers: a while is enough
        outputs = unproved(analysis.rows, outputs)
        if outputs - differ:
            yield from _compared(analysis, solver, outputs - differ, BESIDE, BESIDE, late)
        yield from _compared(analysis, solver, differ, BRIEFLY, BRIEFLY, late, differ=True)
    else:
        yield from _compared(analysis, solver, outputs, SECONDS, again, late)


def _compared(
    analysis: Analysis, solver: Solver | None, outputs: Collection[tuple[str, str]] | None, seconds: float, left: float,
    late: str, *, differ: bool = False,
) -> Iterator[None]:  # fmt: skip
    """The same for some outputs, in some CPU seconds at first and others when the rules have gone on. `differ`: a run
    says that they do."""
    before, later = None, False
    while True:
        begun = now()
        try:
            with until(analysis.deadline):
                found = equalities(analysis.facts, analysis.rows, seconds, before, outputs, differ=differ)
        except OutOfTime:
            analysis.notes.append(late)
            return
        if found.proved:
            analysis.program.insert("proved_equal", found.proved)
            analysis.program.insert("assumed_equality", found.needs)
            yield from _solved(analysis, solver)
        if later:
            left -= now() - begun
        if not found.more or left <= 0:
            analysis.notes += found.parted
            return
        seconds, before, later = left, found.found, True


def _solved(analysis: Analysis, solver: Solver | None) -> Iterator[None]:
    """One run of the engine, and one more whenever the solver decided something."""
    asked: set[Row] = set()
    while True:
        yield
        fresh = [row for row in analysis.rows("obligation") if row not in asked]
        if not fresh:
            return
        if solver is None:  # imported where something is left to decide
            from scalify_dl.obligations import Discharger, default_folder

            solver = Discharger(default_folder())
        asked.update(fresh)
        proved, refuted = solver(fresh, analysis.rows)
        analysis.refuted_obligations += refuted
        for relation, rows in (("proved", proved), ("refuted", refuted)):
            if rows and relation in analysis.program.relations:
                analysis.program.insert(relation, rows)
        if not proved and not refuted:
            return


def peak_mb() -> float:
    """Peak resident memory of this process in MB."""
    try:
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
