"""Captures of a family to a verdict for all its sizes.

report = verify_family([facts2, facts4], {"tp": None, "batch": "tokens:0", "seq": "tokens:1"})
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.prove.assumptions import Accepted
from scalify_dl.prove.options import Options
from scalify_dl.prove.own_rules import rules_assumed
from scalify_dl.prove.pipeline import analyse, peak_mb
from scalify_dl.prove.verdict import Assumption, Report, Verdict
from scalify_dl.report.conclude import conclude

from .align import NoSymbolicForm
from .cases import Case, cover
from .doubts import Doubts
from .extents import Extents
from .family import Choice, Family, SizeSymbol
from .lift import lift
from .members import check_members
from .single import Reading
from .symbols import resolve
from .unify import Cell

ALTERNATIVES = 24
"""Most other readings of a constant that are tried."""
DOUBTS = 5
"""Most doubts that are told."""
MEMBERS, MEMBER_RANKS = 4, 16
"""How many members of a proved family are looked at, and how many ranks they may have."""
PLACES = 3
"""Most places of a formula that an assumption names."""


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
    inputs: Mapping[str, list[str]] = field(default_factory=dict)
    """Formulas of the dims of inputs."""
    choices: Sequence[Choice] = ()
    """Numbers that no equation gives, and how they are read."""
    stats: dict[str, float] = field(default_factory=dict)


def verify_family(
    captures: Sequence[Facts],
    symbols: Mapping[str, str | None],
    options: Options | None = None,
    progress: Callable[[str], None] = lambda text: None,
    keep: Callable[[Family], None] = lambda family: None,
    also: Sequence[tuple[str, Cell]] = (),
    told: Sequence[str] = (),
) -> FamilyReport:
    """Verifies a family for all sizes of its symbols.

    `captures` are the facts of one pair of programs at one or more sizes; `symbols` maps names to places: None for a
    mesh axis, `input:dim` (name or position of a baseline input) for a size. `keep` is called with the lifted family.
    `also` are numbers that are known to be a symbol, with its name, where there is one capture; `told` are sizes of
    which the text itself says what depends on them.
    The first capture is verified first, the others where not all members of the family are proved. InputError where
    they are not one program, or do not determine formulas.
    """
    options = options or Options()
    if not captures:
        raise InputError("no captures", expected="a pair of programs, perhaps at several sizes")
    if not symbols:
        raise InputError("no symbols: nothing is said to vary", expected="such as {tp: , batch: tokens:0}")
    found, points = resolve(captures, symbols)
    members = list(zip(captures, points, strict=True))
    failed, said = _not_proved(members[:1], options, progress)
    if failed is not None:
        return failed
    try:
        report = _for_all_sizes(members, found, symbols, options, progress, keep, also, told, said)
    except InputError:
        failed, _ = _not_proved(members[1:], options, progress)
        if failed is not None:
            return failed
        raise
    if report.verdict is not Verdict.PROVED:  # where all members are proved, these are
        failed, _ = _not_proved(members[1:], options, progress)
    return failed or report


Members = Sequence[tuple[Facts, Mapping[str, int]]]
"""Captures with their sizes."""


def _not_proved(
    members: Members, options: Options, progress: Callable[[str], None]
) -> tuple[FamilyReport | None, list[str]]:
    """The report of the first of some captures that is not proved, if there is one; and what is said of the last."""
    said: list[str] = []
    for facts, point in members:
        progress("the capture at " + ", ".join(f"{name}={size}" for name, size in point.items()))
        report = conclude(analyse(facts, options))
        said = report.scope
        if report.verdict is not Verdict.PROVED:
            stats = _stats(len(facts["op"]))
            return FamilyReport(report.verdict, [*point], [], sizes=point, report=report, stats=stats), said
    return None, said


def _for_all_sizes(
    members: Members,
    found: Sequence[SizeSymbol],
    symbols: Mapping[str, str | None],
    options: Options,
    progress: Callable[[str], None],
    keep: Callable[[Family], None],
    also: Sequence[tuple[str, Cell]],
    told: Sequence[str],
    said: Sequence[str],
) -> FamilyReport:
    """The same of the family, where its captures are proved."""
    captures, points = zip(*members, strict=True)
    names = [symbol.name for symbol in found]
    reading = None
    try:
        reading = Reading(captures[0], points[0], found, symbols, also) if len(captures) == 1 else None
        family = lift(captures, points, found, symbols) if reading is None else reading.family()
    except NoSymbolicForm as error:
        return FamilyReport(
            Verdict.UNKNOWN,
            names,
            [],
            notes=[*said, str(error), "what was captured is proved, other sizes are not"],
            stats=_stats(len(captures[0]["op"])),
        )
    extents = Extents(family, points[0])
    family.sizes |= extents.sizes
    family.integers |= extents.integers
    keep(family)
    start = max(points, key=lambda point: [point[name] for name in names])
    out = cover(family, start, options, progress)
    out.complete = out.complete and all(map(out.domain.holds, points))
    notes = [*said, *out.notes]
    listed = Doubts(reading, told).found if reading is not None else []
    verdict = Verdict.PROVED if out.complete else Verdict.UNKNOWN
    sizes, found_there = out.failed or (None, None)
    if found_there is not None:
        verdict = found_there.verdict
        if reading is not None and sizes is not None:
            _read_otherwise(reading, sizes, options, progress)
            doubts = reading.doubts()
            if verdict is Verdict.REFUTED and doubts:
                verdict = Verdict.UNKNOWN
                at = ", ".join(f"{name}={size}" for name, size in sizes.items())
                notes.append(
                    f"as it is read, the pair is refuted at {at}; one capture does not tell whether so (--sample):"
                )
                notes += doubts[:DOUBTS]
                sizes = found_there = None
    elif out.complete:
        check_members(family, out.domain, MEMBERS, MEMBER_RANKS)
        if listed:
            verdict = Verdict.UNKNOWN
            notes.append("as it is read, the pair is proved; one capture does not tell whether so (--sample):")
            notes += listed[:DOUBTS]
    elif out.stops:
        notes.append(f"with symbols the proof stops at {', '.join(out.stops)}")
    accepted = Accepted.load(options.accept) if options.accept else Accepted()
    assumptions = [accepted.mark(Assumption(*row)) for row in sorted(out.assumptions)]
    assumptions += [accepted.mark(row) for row in _formulas(family, names)]
    assumptions += [accepted.mark(Assumption("", doubt, "inferred")) for doubt in listed]
    assumptions += [accepted.mark(Assumption(*row)) for row in rules_assumed(options.rules)]
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
        family.inputs(),
        family.choices,
        _stats(len(captures[0]["op"])),
    )


def _formulas(family: Family, names: Sequence[str]) -> list[Assumption]:
    """What is assumed of the numbers at other sizes."""
    text = f"the numbers of the programs follow {family.formulas} formulas of {', '.join(names)}"
    why = "fitted" if family.captures > 1 else "inferred"
    text += (
        f", fitted on {family.captures} captures (--json lists them under reading)"
        if family.captures > 1
        else ", as one capture is read (--json lists them under reading); groups of ranks run along the same axes"
    )
    rows = [Assumption("", text, why)]
    together: dict[tuple[str, str], dict[str, None]] = {}
    for choice in family.choices:
        key = f"{choice.value} is {choice.formula}", choice.why
        together.setdefault(key, {})[choice.what] = None
    for (formula, because), places in together.items():
        shown = ", ".join(list(places)[:PLACES]) + (f" and {len(places) - PLACES} more" if len(places) > PLACES else "")
        rows.append(Assumption("", f"{formula} in {shown}: {because}", why))
    return rows


def _read_otherwise(
    reading: Reading, sizes: Mapping[str, int], options: Options, progress: Callable[[str], None]
) -> None:
    """InputError where a constant may be another size, and with that the programs are alike at these sizes."""
    for other in islice(reading.alternatives(), ALTERNATIVES):
        progress(other.text)
        try:
            pair = reading.family(other.literals).instantiate(sizes)
            report = conclude(analyse(pair, replace(options, refute=False)))
        except (ValueError, InputError):
            continue
        if report.verdict is Verdict.PROVED:
            at = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise reading.inference.error(
                other.op,
                f"{other.text}: with that the programs are alike at {at}",
                hint="one capture does not tell: give a second one (--sample)",
            )


def _stats(ops: int) -> dict[str, float]:
    return {"ops": ops, "cpu_s": round(time.process_time(), 3), "peak_mb": round(peak_mb(), 1)}
