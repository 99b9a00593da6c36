"""Several pairs at once: fact sets in a directory, pairs that a configuration names. Of each the verdict is known.

A pair that cannot be read is told and ends no other; the status is 2 then.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.prove.assumptions import Accepted, matching_nothing
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict, overall

from .progress import counted
from .run import check_outputs, conclude_directory, conclude_pair, expected_verdict, told

Row = tuple[str, Report, Verdict]
"""A name, what was found, and the verdict that is right."""
Bad = dict[str, InputError]
"""Pairs that are bad input, by name."""


def run_sets(directory: Path, sets: Sequence[Path], options: Options) -> int:
    """Every fact set, then a table. Status 0 if each verdict is the stated one (PROVED where none is stated)."""
    _whole(options, f"{directory} holds several fact sets")
    rows: list[Row] = []
    bad: Bad = {}
    began = time.monotonic()
    for path in sets:
        one = replace(options, out=options.out / path.name) if options.out else options
        spent = time.process_time()
        try:
            expected = expected_verdict(path) or Verdict.PROVED
            rows.append((path.name, _own_time(conclude_directory(path, one), spent), expected))
            said = rows[-1][1].verdict.value
        except InputError as error:
            bad[path.name] = error
            said = f"bad input\n{error}"
        if options.format != "quiet":
            _said(path.name, said, len(rows) + len(bad), len(sets), began)
    _idle_entries({options.accept: [r for _, r, _ in rows]} if options.accept else {})
    return _summed_up(rows, bad, options)


def verify_named(names: Sequence[str], options: Options) -> int:
    """Pairs of the configuration: these, or all. Of one pair the report, of several a table."""
    from scalify_dl.families.capture import Capture
    from scalify_dl.project import find
    from scalify_dl.readers.sizes import Sizes

    check_outputs(options)
    project = find()
    if project is None or not project.pairs:
        raise InputError(
            "no --mesh is given, and no configuration names pairs",
            file=project.file if project else None,
            expected="dlverify verify BASE DIST --mesh tp=2; or dlverify.toml here or above, with [pairs.NAME]",
            hint="`dlverify init BASE DIST` drafts one",
        )
    if len(names) > 1 and not project.pairs.keys() & set(names) and all(Path(name).is_file() for name in names):
        raise InputError(
            "two dumps or more, and no --mesh: without it, words are names of pairs",
            file=project.file,
            expected=f"dlverify verify {' '.join(names)} --mesh AXIS=N, or names of pairs",
        )
    pairs = [project.pair(name) for name in names] or list(project.pairs.values())
    if len(pairs) > 1:
        _whole(options, "several pairs are verified")
    rows: list[Row] = []
    bad: Bad = {}
    accepted: dict[Path, list[Report]] = {}
    began = time.monotonic()
    for pair in pairs:
        own = replace(
            options,
            rules=(*pair.rules, *options.rules),
            strict=options.strict or pair.strict,
            accept=options.accept or pair.accept,
            timeout=options.timeout or pair.timeout,
            max_memory=options.max_memory or pair.max_memory,
            out=options.out / pair.name if options.out and len(pairs) > 1 else options.out,
        )
        spent = time.process_time()
        try:
            pair.there()
            if pair.facts is not None:
                report = conclude_directory(pair.facts, own)
            else:
                capture = Capture(pair.base, pair.dist, pair.mesh, pair.relate, sizes=Sizes.parse(pair.sizes))
                report = conclude_pair(capture, own)
        except InputError as error:
            bad[pair.name] = error.within(f"[pairs.{pair.name}]", project.file)
            if len(pairs) == 1:
                raise bad[pair.name] from None
            said = f"bad input\n{bad[pair.name]}"
        else:
            rows.append((pair.name, _own_time(report, spent) if len(pairs) > 1 else report, Verdict(pair.expect)))
            if own.accept:
                accepted.setdefault(own.accept, []).append(report)
            said = report.verdict.value
        if len(pairs) > 1 and options.format != "quiet":
            _said(pair.name, said, len(rows) + len(bad), len(pairs), began)
    if len(pairs) > 1:
        _idle_entries(accepted)
        return _summed_up(rows, bad, options)
    ((name, report, expected),) = rows
    told([(name, report)], options, {name: expected})
    if report.verdict is expected:
        return 0
    print(f"dlverify: {name} is {report.verdict.value}, expected {expected.value}", file=sys.stderr)
    return report.verdict.exit_code or Verdict.UNKNOWN.exit_code


def _own_time(report: Report, spent: float) -> Report:
    """A report of several whose CPU time is its own: without what the process had spent before."""
    return replace(report, stats={**report.stats, "cpu_s": round(report.stats.get("cpu_s", spent) - spent, 3)})


def _idle_entries(accepted: Mapping[Path, Sequence[Report]]) -> None:
    """Tell the entries of files of agreed assumptions that no pair needs."""
    for file, reports in accepted.items():
        if idle := Accepted.load(file).idle([a for report in reports for a in report.assumptions]):
            print(f"dlverify: {matching_nothing(idle, file)}", file=sys.stderr)


def _said(name: str, said: str, done: int, total: int, began: float) -> None:
    """What became of the last one; at a terminal, how much there is still to do."""
    rest = f"  ({counted(done, total, began)})" if sys.stderr.isatty() else ""
    print(f"{name}: {said}{rest}", file=sys.stderr)


def _whole(options: Options, why: str) -> None:
    """InputError for what is asked of one pair only."""
    if options.html or options.certificate:
        raise InputError(why, hint="--html and --certificate take one of them")


def _summed_up(rows: Sequence[Row], bad: Bad, options: Options) -> int:
    """The table of all, in all formats; the status."""
    surprises = [report.verdict for _, report, expected in rows if report.verdict is not expected]
    if options.json or options.format == "json":
        from scalify_dl.report.json import as_object

        verdict = None if bad else overall([report.verdict for _, report, _ in rows]).value
        found = [
            {"set": name, "expected": e.value, "as_expected": r.verdict is e} | as_object(r) for name, r, e in rows
        ]
        found += [{"set": name, "verdict": None, "as_expected": False, "error": str(e)} for name, e in bad.items()]
        print(json.dumps({"verdict": verdict, "as_expected": not (surprises or bad), "sets": found}, indent=2))
    elif options.format == "quiet":
        from scalify_dl.report.terminal import stopped_at

        print("".join(f"{'  '.join(filter(None, (r.verdict, n, stopped_at(r))))}\n" for n, r, _ in rows), end="")
        print("".join(f"BAD INPUT  {name}: {error}\n" for name, error in bad.items()), end="", file=sys.stderr)
    else:
        from scalify_dl.report.terminal import render_table

        render_table(rows, list(bad))
    told(
        [(name, report) for name, report, _ in rows],
        options,
        {name: right for name, _, right in rows},
        {name: str(error) for name, error in bad.items()},
    )
    if bad:
        return 2
    return (overall(surprises).exit_code or Verdict.UNKNOWN.exit_code) if surprises else 0
