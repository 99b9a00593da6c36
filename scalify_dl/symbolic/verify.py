"""Captures of a family to a verdict for all its sizes.

report = verify_family([facts2, facts4], {"tp": None, "batch": "tokens:0", "seq": "tokens:1"})
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.verify.assumptions import Accepted
from scalify_dl.verify.conclude import conclude
from scalify_dl.verify.options import Options
from scalify_dl.verify.pipeline import analyse, peak_mb
from scalify_dl.verify.verdict import Assumption, Report, Verdict

from .cases import Case, cover
from .family import Family
from .lift import NoSymbolicForm, lift
from .symbols import resolve


@dataclass(frozen=True)
class FamilyReport:
    """A verdict for all sizes of a family."""

    verdict: Verdict
    symbols: list[str]
    domain: list[str]
    """What the sizes must satisfy for the programs to exist: `tp divides 8`, `batch >= 1`."""
    cases: list[Case] = field(default_factory=list)
    magnitude: list[str] = field(default_factory=list)
    """Bounds on sizes that keep every number of the proof below 2^29."""
    sizes: Mapping[str, int] | None = None
    """Where a verdict other than PROVED was found."""
    report: Report | None = None
    """The ordinary report there."""
    assumptions: list[Assumption] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stats: dict[str, float] = field(default_factory=dict)


def verify_family(
    captures: Sequence[Facts],
    symbols: Mapping[str, str | None],
    options: Options | None = None,
    progress: Callable[[str], None] = lambda text: None,
    keep: Callable[[Family], None] = lambda family: None,
) -> FamilyReport:
    """Verifies a family for all sizes of its symbols.

    `captures` are the facts of one pair of programs at two or more sizes; `symbols` maps names to places: None for a
    mesh axis, `input:dim` (name or position of a baseline input) for a size. `keep` is called with the lifted family.
    The captures themselves are verified first. InputError where they are not one program, or do not determine formulas.
    """
    options = options or Options()
    if len(captures) < 2:
        raise InputError(
            "one capture does not say which numbers are sizes: 32 may be vocab/tp, or the number 32",
            expected="two or more captures of the same program at different sizes",
            hint="trace the program again at other sizes, and give it with --sample 'BASE DIST tp=4', or list all"
            " captures in a family file (docs/symbolic.md)",
        )
    found, points = resolve(captures, symbols)
    names = [symbol.name for symbol in found]
    for facts, point in zip(captures, points, strict=True):
        progress("the capture at " + ", ".join(f"{name}={size}" for name, size in point.items()))
        report = conclude(analyse(facts, options))
        if report.verdict is not Verdict.PROVED:
            return FamilyReport(report.verdict, names, [], sizes=point, report=report, stats=_stats(len(facts["op"])))
    try:
        family = lift(captures, points, found)
    except NoSymbolicForm as error:
        return FamilyReport(
            Verdict.UNKNOWN,
            names,
            [],
            notes=[str(error), f"the {len(captures)} captures themselves are proved, other sizes are not"],
            stats=_stats(len(captures[0]["op"])),
        )
    keep(family)
    start = max(points, key=lambda point: [point[name] for name in names])
    out = cover(family, start, options, progress)
    notes = list(out.notes)
    verdict = Verdict.PROVED if out.complete else Verdict.UNKNOWN
    sizes, found_there = out.failed or (None, None)
    if found_there is not None:
        verdict = found_there.verdict
    elif not out.complete and out.stops:
        notes.append(f"with symbols the proof stops at {', '.join(out.stops)}")
    accepted = Accepted.load(options.accept) if options.accept else Accepted()
    assumptions = [accepted.mark(Assumption(*row)) for row in sorted(out.assumptions)]
    assumptions.append(
        accepted.mark(
            Assumption(
                "",
                f"the numbers of the programs follow {family.formulas} formulas of {', '.join(names)}, fitted on"
                f" {family.captures} captures",
                "fitted",
            )
        )
    )
    if options.strict and verdict is Verdict.PROVED and any(not a.accepted for a in assumptions):
        verdict = Verdict.UNKNOWN
        notes.append("--strict: assumptions are not accepted, so this does not count as proved")
    return FamilyReport(
        verdict,
        names,
        out.domain.texts(),
        out.cases,
        sorted(map(str, out.magnitude)),
        sizes,
        found_there,
        assumptions,
        notes,
        _stats(len(captures[0]["op"])),
    )


def _stats(ops: int) -> dict[str, float]:
    return {"ops": ops, "cpu_s": round(time.process_time(), 3), "peak_mb": round(peak_mb(), 1)}
