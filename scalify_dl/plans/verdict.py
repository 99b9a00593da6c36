"""A prepared plan to a report: by its structure where it cannot run, else by its values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from scalify_dl.deadline import OutOfTime, until
from scalify_dl.finding import Finding
from scalify_dl.garbage import paused
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse, peak_mb
from scalify_dl.prove.verdict import OutputVerdict, Report, Verdict, overall

from .findings import about, value_findings
from .model import read_side
from .prepare import Prepared, expected, picture, prepare, prepare_repeated
from .stages import OtherStages
from .tables import Tables

STRUCTURE = "structure"
"""Why outputs of a plan that cannot run are refuted."""
CROSSED = (
    "a message is taken for another op's than the one whose value comes next on its channel: which of the two a rank "
    "gets rests on the transport (by order, or by tag), so nothing is said to be proved"
)
"""Why a plan whose messages go by other names than they come by is not proved, whatever its values are."""


def judge_plan(directory: Path, options: Options, say: Callable[[str], None] = lambda text: None) -> Report:
    """The verdict on a directory of tables. What is regular and proved is proved by its unit form; a certificate is of
    the plan as it is written."""
    try:
        return _judged(directory, options, say)
    except OutOfTime:
        text = "no time was left (--timeout) to read and fold the plan"
        return Report(Verdict.UNKNOWN, directory.name, [], notes=[text], stats=_stats(0))
    except OtherStages as problem:
        names = expected(read_side(Tables(directory, "s")))
        return Report(
            Verdict.UNKNOWN, directory.name,
            [OutputVerdict("", "", name, name, Verdict.UNKNOWN, reason=str(problem)) for name in names],
            notes=[str(problem)], stats=_stats(0),
        )  # fmt: skip


def _judged(directory: Path, options: Options, say: Callable[[str], None]) -> Report:
    deadline = None if options.timeout is None else time.monotonic() + options.timeout

    def left() -> Options:
        return options if deadline is None else replace(options, timeout=max(deadline - time.monotonic(), 0.001))

    with until(deadline):
        regular = None if options.certificate else prepare_repeated(directory)
    if regular is not None:
        say("running the rules")
        report = report_on(regular, replace(left(), refute=False), say)
        if report.verdict is Verdict.PROVED or (deadline is not None and time.monotonic() >= deadline):
            return report
    with until(deadline):
        prepared = prepare(directory)
    say("running the rules")
    return report_on(prepared, left(), say)


def report_on(prepared: Prepared, options: Options, say: Callable[[str], None] = lambda text: None) -> Report:
    """The verdict on a plan: by its structure where it cannot run, else by its values."""
    if prepared.cannot_run:
        return _without_values(prepared, Verdict.REFUTED, STRUCTURE)
    if prepared.facts is None:
        return _without_values(prepared, Verdict.UNKNOWN, "; ".join(prepared.notes))
    from scalify_dl.report.conclude import conclude

    options = replace(options, mend=False)  # edits of the folded program are none of the plan
    analysis = analyse(prepared.facts, options, interruptible=True)
    report = conclude(analysis, say, prepared.in_time)
    if options.out:
        from scalify_dl.prove.results import write_results

        say("writing the relations")
        write_results(analysis, options.out)
    outputs = [replace(o, name=prepared.names.get((o.tensor, o.base_tensor), o.name)) for o in report.outputs]
    outputs += [OutputVerdict("", "", name, "", Verdict.UNKNOWN, reason=why) for name, why in prepared.missing]
    crossed = [CROSSED] if any(finding.kind == "message" for finding in prepared.findings) else []
    verdict = overall([report.verdict, *(o.verdict for o in outputs), *(Verdict.UNKNOWN for _ in crossed)])
    found = prepared.findings + [_missing(prepared, name, why) for name, why in prepared.missing]
    found += report.findings
    found += value_findings(report.frontier, prepared.origins, prepared.plan, found, report.downstream)
    report = replace(
        report, verdict=verdict, outputs=outputs, findings=found, picture=picture(prepared),
        notes=report.notes + prepared.notes + crossed,
    )  # fmt: skip
    if options.certificate and verdict is Verdict.PROVED:
        from scalify_dl.certificate.premises import KEY
        from scalify_dl.prove.certificate import write

        from .certificate import said

        say("writing the certificate")
        with paused():
            write(analysis, report, options.certificate, {KEY: said(prepared)})
    return report


def _missing(prepared: Prepared, name: str, why: str) -> Finding:
    """An output that the plan does not give; told at the last op of the first rank."""
    last = max(prepared.plan.ops.values(), key=lambda op: (-op.rank, op.seq))
    return about(prepared.plan, [last], "output", "difference", f"{name}: {why}")


def _without_values(prepared: Prepared, verdict: Verdict, reason: str) -> Report:
    """The report on a plan that ends at its structure."""
    return Report(
        verdict=verdict,
        title=f"{prepared.plan.tables.directory.name}: {prepared.world.stages} stages",
        outputs=[OutputVerdict("", "", name, name, verdict, reason=reason) for name in prepared.expected],
        findings=prepared.findings,
        picture=picture(prepared),
        notes=prepared.notes,
        stats=_stats(len(prepared.plan.ops)),
    )


def _stats(ops: int) -> dict[str, float]:
    """Figures where no rules of values ran."""
    return {"ops": ops, "tuples": 0, "cpu_s": round(time.process_time(), 3), "peak_mb": round(peak_mb(), 1)}
