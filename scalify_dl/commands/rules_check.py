"""`dlverify rules check`: what fuzzing says of the rules, as a table by lemma or as JSON."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scalify_dl.audit.fuzz import Lemma, Report, Unsound, check_rules
from scalify_dl.audit.fuzz.kinds import read_kinds
from scalify_dl.audit.trials import ROUNDED, TRIALS
from scalify_dl.errors import InputError
from scalify_dl.oracle.meaning import is_opaque
from scalify_dl.oracle.meaning.load import load_meanings
from scalify_dl.oracle.rewrites import read_rewrites, where_false
from scalify_dl.prove.own_rules import read_own
from scalify_dl.prove.pipeline import rules_program
from scalify_dl.pysouffle import Program, rules_dir
from scalify_dl.whole import write_whole

from .progress import progress

WRITE_EVERY = 60.0
"""Seconds between writings of `--out`."""


def rules_check(
    files: Sequence[Path], *, meanings: Sequence[Path], seconds: float, seed: int, out: Path | None, as_json: bool
) -> int:  # fmt: skip
    """Fuzz the shipped rules together with these files; `meanings` are Python files with numeric meanings of calls.

    Status 1 if something unsound was found, 3 if a lemma was not exercised (of the files, if there are any, and of what
    they include), or another rule of theirs or an op kind that they speak about, 130 if it was interrupted before that
    was known, else 0. SIGINT and SIGTERM end the run with a report of what was done.
    """
    for file in files:
        if not file.is_file():
            raise InputError("no such rules file", file=file, expected="a Datalog file (.dl)")
    program = rules_program(files)  # what does not load is said before anything else
    given = {file.resolve() for file in files}
    said = [*files, *(file for file in read_own(files, rules_dir()) if file not in given)]
    equalities = _tried(program)
    more = {rule.relation for rule in program.rules if Path(rule.file).resolve() in {f.resolve() for f in said}}
    load_meanings(meanings)
    if out is not None:
        _write(out, Report(interrupted=True), said)  # a place that cannot be written is said at once
    last = time.monotonic()

    def tell(report: Report) -> None:
        nonlocal last
        missing = len(_missing(report, said) + _idle(report, said))
        left = f"{missing} rules to go"
        if said and not missing and not _loose_kinds(report):
            left = "all of the files is exercised; what is false is sought until the time is over (--seconds)"
        say(
            f"fuzzing the rules: {report.seconds:.0f} of {seconds:.0f} s of CPU: {report.pairs:,} pairs,"
            f" {report.tuples:,} tuples audited, {len(report.unsound)} unsound, {left}"
        )
        if out is not None and time.monotonic() - last > WRITE_EVERY:
            last = time.monotonic()
            _write(out, report, said)

    with progress("fuzzing the rules") as say, _terminable():
        if more == {"rewrite"} or (files and "holds" not in more and not read_kinds(files, None, seed).named):
            report = Report()  # nothing there that is drawn
        else:
            report = check_rules(list(files), seconds=seconds, seed=seed, trials=TRIALS | ROUNDED, progress=tell)
    report.rewrites = equalities
    if out is not None:
        _write(out, report, said)
    print(json.dumps(_content(report, said), indent=2, ensure_ascii=False) if as_json else _table(report, said))
    if report.unsound or any(report.rewrites.values()):
        return 1
    if _missing(report, said) or _idle(report, said) or _loose_kinds(report) or _says_nothing(report, said):
        return 130 if report.interrupted else 3
    return 0


def _tried(program: Program) -> dict[str, str | None]:
    """The equalities that the rules state (`rewrite`), in words, and for each where it is false, if anywhere."""
    program.run()
    return {f"{r.name}: {r.text}": where_false(r) for r in read_rewrites(program.relation("rewrite"))}


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM is treated as Ctrl-C; a second one kills."""

    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _lemmas(report: Report, files: Sequence[Path]) -> list[Lemma]:
    """Lemmas that should be exercised: those of the given files, or all."""
    own = {str(file.resolve()) for file in files}
    return [x for x in report.coverage.lemmas if not own or str(Path(x.file).resolve()) in own]


def _missing(report: Report, files: Sequence[Path]) -> list[Lemma]:
    """Those among them that were not."""
    missing = set(report.coverage.missing())
    return [x for x in _lemmas(report, files) if x in missing]


def _idle(report: Report, files: Sequence[Path]) -> list[Lemma]:
    """Other rules of the given files that derived nothing: whether what they say is so, no pair could show."""
    own = {str(file.resolve()) for file in files}
    return [x for x, rows in report.coverage.others.items() if not rows and str(Path(x.file).resolve()) in own]


def _loose_kinds(report: Report) -> dict[str, str]:
    """Op kinds that the given files speak about and that were not exercised, and in what respect."""
    return {kind: use.missing for kind, use in report.kinds.items() if use.missing}


def _says_nothing(report: Report, files: Sequence[Path]) -> bool:
    """Whether the given files have no lemma and speak about no op kind: nothing was checked."""
    said = report.kinds or report.rewrites
    return bool(files) and not report.interrupted and not _lemmas(report, files) and not said


def _content(report: Report, files: Sequence[Path]) -> dict[str, Any]:
    coverage, missing = report.coverage, set(_missing(report, files))
    return {
        "pairs": report.pairs,
        "tuples": report.tuples,
        "seconds": round(report.seconds, 2),
        "interrupted": report.interrupted,
        "unsound": [{"pair": u.name, "rules": list(u.rules), "graph": u.listing()} for u in report.unsound],
        "lemmas": [
            {
                "lemma": x.name,
                "rule": f"{Path(x.file).name}:{x.line}",
                "text": x.text,
                "derived": coverage.derived[x],
                "rich": coverage.rich[x],
                "whole_only": x.whole,
                "exercised": x not in missing,
            }
            for x in _lemmas(report, files)
        ],
        "never_exercised": [x.name for x in _missing(report, files)],
        "never_derived": [{"rule": f"{Path(x.file).name}:{x.line}", "text": x.text} for x in _idle(report, files)],
        "kinds": {
            kind: {"calls": use.calls, "derived": use.derived, "rich": use.rich, "missing": use.missing}
            for kind, use in report.kinds.items()
        },
        "rewrites": {text: {"false": false} for text, false in report.rewrites.items()},
        "problems": dict(report.problems),
    }


def _write(out: Path, report: Report, files: Sequence[Path]) -> None:
    """Writes the JSON file in one go."""
    write_whole(out, json.dumps(_content(report, files), indent=2, ensure_ascii=False) + "\n")


MOST = 8
"""Names of pairs that are listed."""


def _by_fault(found: Sequence[Unsound]) -> list[list[Unsound]]:
    """What was found, the smallest graphs first, each with those in which all of its lemmas take part: they are likely
    false for the same reason, and to be looked at when that one is mended."""
    groups: list[list[Unsound]] = []
    for unsound in sorted(found, key=lambda u: (len(u.tables["op"]), len(u.rules))):
        of = next((group for group in groups if set(group[0].rules) <= set(unsound.rules)), None)
        if of is None:
            groups.append([unsound])
        else:
            of.append(unsound)
    return groups


def _table(report: Report, files: Sequence[Path]) -> str:
    coverage, missing = report.coverage, set(_missing(report, files))
    lines = []
    for unsound, *more in _by_fault(report.unsound):
        lines.append(f"UNSOUND ({unsound.name}): {', '.join(unsound.rules)}")
        listing = unsound.listing()
        lines += [f"  {line}" for line in listing.splitlines()]
        own = [kind for kind in report.kinds if kind in listing]
        if own and not {lemma.name for lemma in _lemmas(report, files)} & set(unsound.rules):
            where = ", ".join(map(str, files))
            lines.append(f"  these lemmas rest on what {where} says of {', '.join(own)}: look there")
        if more:
            some = ", ".join(u.name for u in more[:MOST]) + ", …" * (len(more) > MOST)
            lines.append(f"  these lemmas take part in {len(more)} more, of larger graphs: {some} (--out has all)")
    for text, false in report.rewrites.items():
        lines.append(f"rewrite {text}" + (f"\n  FALSE: {false}" if false else ": true for all numbers that were tried"))
    lemmas = _lemmas(report, files)
    if lemmas:
        width = max(len(x.name) for x in lemmas)
        lines.append(f"{'lemma':{width}} {'derived':>9} {'rich':>9}")
        for x in lemmas:
            mark = "  NOT EXERCISED: " + x.text[:120] if x in missing else "  whole values only" if x.whole else ""
            lines.append(f"{x.name:{width}} {coverage.derived[x]:9,} {coverage.rich[x]:9,}{mark}")
    if report.kinds:
        width = max(len(kind) for kind in report.kinds)
        lines.append(f"{'op kind':{width}} {'calls':>9} {'derived':>9} {'rich':>9}")
        for kind, use in report.kinds.items():
            mark = f"  NOT EXERCISED: {use.missing}" if use.missing else ""
            lines.append(f"{kind:{width}} {use.calls:9,} {use.derived:9,} {use.rich:9,}{mark}")
        if any(not use.drawable and not use.calls for use in report.kinds.values()):
            lines.append("  a call can be made up where rules declare its factors, or --meaning says what it computes")
        invented = [kind for kind, use in report.kinds.items() if use.calls and is_opaque(kind)]
        if invented:
            lines.append(
                f"  {', '.join(invented)}: stood for by random functions of the structure that the rules declare;"
                " whether the real calls have it, only --meaning can show"
            )
    for x in _idle(report, files):
        lines.append(f"NOT EXERCISED: {Path(x.file).name}:{x.line} derived nothing: {x.text[:120]}")
    if _says_nothing(report, files):
        lines.append("NOT EXERCISED: the files have no lemma (a rule for `holds`) and speak about no op kind")
    for problem, count in report.problems.most_common(5):
        lines.append(f"not checked, {'once' if count == 1 else f'{count} times'}: {problem}")
    lines.append(
        f"{report.pairs:,} pairs, {report.tuples:,} tuples audited in {report.seconds:.0f} s of CPU,"
        f" {len(report.unsound)} unsound,"
        f" exercised: {len(lemmas) - len(missing)} of {len(lemmas)} lemmas"
        + f", {len(report.kinds) - len(_loose_kinds(report))} of {len(report.kinds)} op kinds" * bool(report.kinds)
        + ", interrupted" * report.interrupted
    )
    return "\n".join(lines)
