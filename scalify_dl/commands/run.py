"""`dlverify run` and `dlverify verify`: facts, or two programs, to a verdict."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.garbage import paused
from scalify_dl.ir.origin import Origin, has_order
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import LARGE, Analysis, analyse
from scalify_dl.prove.verdict import InTime, Report, Verdict
from scalify_dl.report.conclude import conclude

from .progress import progress

if TYPE_CHECKING:
    from scalify_dl.families.capture import Capture

_last: list[Report] = []
"""The last report that was printed, with the run behind it: freed with the process, not object by object before."""


def verify(pair: Capture, options: Options) -> int:
    """Export in memory, run, print; the exit status."""
    check_outputs(options, [file for file in (pair.base, *pair.dist) if file])
    return print_report(conclude_pair(pair, options), options)


def conclude_pair(pair: Capture, options: Options) -> Report:
    """Read two programs; the report."""
    from scalify_dl.blocks.whole import by_blocks  # facts and schedules do without

    _last.clear()
    begun = time.monotonic()
    with progress("reading the programs", quiet=options.format == "quiet"):
        origins: list[Origin] = []
        blocks = by_blocks(options, begun)
        facts = pair.load(origins, whole=blocks)
        analysis = None
        if blocks is not None and blocks.told and (analysis := blocks.conclude(facts)) is None:
            origins.clear()
            facts = pair.load(origins)
        timed = None
        if has_order(origins):
            from scalify_dl.schedule.programs import in_time  # where there is an order to be checked

            timed = in_time(origins, len(facts.ranks))
    return conclude_facts(facts, options, timed, begun, analysis)


def conclude_directory(directory: Path, options: Options) -> Report:
    """Read a directory of facts; the report."""
    begun = time.monotonic()
    return conclude_facts(load(directory), options, begun=begun)


def run(directory: Path, options: Options) -> int:
    """Load, run, print; the exit status. A directory of fact sets is run set by set."""
    check_outputs(options, directory.glob("*.facts"))
    sets = fact_sets(directory)
    if not sets:
        return print_report(conclude_directory(directory, options), options)
    from .several import run_sets

    return run_sets(directory, sets, options)


def load(directory: Path) -> Facts:
    """A validated facts directory."""
    from scalify_dl.facts.files import load

    sets = fact_sets(directory)
    if directory.is_dir() and not sets and not any(directory.glob("*.facts")):
        raise InputError(
            f"{directory} holds no fact tables",
            expected="tables such as op.facts, or directories of them",
            hint="`dlverify export BASE DIST --mesh … -o DIRECTORY` writes them; `dlverify verify` does without",
        )
    if sets:
        raise InputError(f"{directory} holds {len(sets)} fact sets", expected="one of them", hint=f"as in {sets[0]}")
    with progress("reading the facts"):
        return load(directory)


def fact_sets(directory: Path) -> list[Path]:
    """The fact sets below a directory that is none itself; empty for a fact set."""
    if not directory.is_dir() or any(directory.glob("*.facts")):
        return []
    return sorted(p for p in directory.iterdir() if p.is_dir() and any(p.glob("*.facts")))


def expected_verdict(directory: Path) -> Verdict | None:
    """The verdict that the set's `expected.json` states, if it has one."""
    file = directory / "expected.json"
    if not file.is_file():
        return None
    try:
        return Verdict(json.loads(file.read_text("utf-8"))["verdict"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            "no expected verdict in this file", file=file, expected='{"verdict": "PROVED"}, or REFUTED or UNKNOWN'
        ) from error


def conclude_facts(
    facts: Facts, options: Options, timed: InTime | None = None, begun: float | None = None,
    analysis: Analysis | None = None,
) -> Report:  # fmt: skip
    """Run the rules, if they were not; the report, and what is to be kept of the run. `begun`: when reading did."""
    with progress("running the rules", quiet=options.format == "quiet") as say:
        numbers_first = len(facts["op"]) > LARGE
        if analysis is None:
            analysis = analyse(facts, options, interruptible=True, numbers_first=numbers_first, begun=begun)
        report = conclude(analysis, say, timed)
        if options.out:
            from scalify_dl.prove.results import write_results

            say("writing the relations")
            write_results(analysis, options.out)
        if options.certificate and report.verdict is Verdict.PROVED:
            from scalify_dl.prove.certificate import not_replayed, write

            say("writing the certificate")
            why = not_replayed(analysis)
            if why:
                print(f"dlverify: no certificate is written: {why}", file=sys.stderr)
            else:
                with paused():
                    write(analysis, report, options.certificate)
        elif options.certificate:
            print(f"dlverify: no certificate is written: the verdict is {report.verdict.value}", file=sys.stderr)
    return report


def check_outputs(options: Options, inputs: Iterable[Path] = ()) -> None:
    """Refuse what cannot be done as it is asked for before any work is done: places that cannot be written to, one
    place for two things, a baseline that is none, two formats."""
    if options.json and options.format not in ("text", "json"):
        raise InputError(f"--json and --output-format {options.format} together", expected="one of them")
    files = [f for f in (options.sarif, options.html, options.junit, options.certificate) if f is not None]
    for file in files:
        there = file.exists() or file.is_symlink()
        if not file.parent.is_dir() or file.is_dir() or not os.access(file if there else file.parent, os.W_OK):
            raise InputError("cannot write here", file=file, expected="a file in an existing directory")
    places = Counter(_place(f) for f in (*files, *((options.out,) if options.out else ())) if not _passes(f))
    if twice := next((place for place, count in places.items() if count > 1), None):
        raise InputError("two things cannot be written to one place", file=twice, expected="a name for each")
    if read := sorted(places.keys() & {_place(file) for file in inputs}):
        raise InputError("this would be written over what is read", file=read[0], expected="another name")
    known(options)
    out = options.out
    if out is not None and out.exists():
        from scalify_dl.prove.results import has_results

        if not out.is_dir():
            raise InputError("not a directory", file=out, expected="a directory, or a name for a new one")
        sets = fact_sets(out)
        if not has_results(out) and not all(entry in sets for entry in out.iterdir()):
            raise InputError("this directory holds other files", file=out, expected="a new, empty or earlier --out")


def _place(file: Path) -> Path:
    """The file that is meant, links followed; links that lead round in a circle are left."""
    return Path(os.path.realpath(file))


def _passes(file: Path) -> bool:
    """Whether the place is a device or a pipe, which takes everything."""
    return file.exists() and not file.is_file() and not file.is_dir()


def known(options: Options) -> frozenset[str] | None:
    """The fingerprints of the baseline, where one is given."""
    if options.baseline is None:
        return None
    from scalify_dl.report.annotations import known as read

    return read(options.baseline)


def print_report(report: Report, options: Options) -> int:
    """Print a report, in all formats that are asked for; the exit status."""
    _last[:] = [report]
    return told([(Path(report.file).name or "dlverify", report)], options) or report.verdict.exit_code


def told(
    rows: Sequence[tuple[str, Report]], options: Options, expected: Mapping[str, Verdict] | None = None,
    bad: Mapping[str, str] | None = None,
) -> int:  # fmt: skip
    """Write reports, by name, to the files that are asked for, and print the only one of them; 0. `bad` are errors of
    pairs without a report."""
    if options.sarif or options.html or options.junit:
        from scalify_dl.whole import write_whole

    reports = [report for _, report in rows]
    right = expected or {}
    wrong = [row for row in rows if row[1].verdict is Verdict.PROVED or row[1].verdict is not right.get(row[0])]
    told_of = [report for _, report in wrong]  # one that comes out REFUTED as it should has nothing to be mended
    names = [name for name, _ in wrong] if len(rows) > 1 else []
    old = known(options)
    if options.sarif:
        from scalify_dl.report import sarif

        write_whole(options.sarif, sarif.render(told_of, None, old, names, bad))
    if options.html:
        from scalify_dl.report import html

        write_whole(options.html, html.render(reports[0]))
    if options.junit:
        from scalify_dl.report import junit

        write_whole(options.junit, junit.render(rows, expected, bad))
    if len(rows) == 1 and not bad:
        _print(reports[0], options)
    if options.format == "github":
        from scalify_dl.report import github
        from scalify_dl.report.annotations import annotate

        found = annotate(told_of, names=names)
        print("".join(f"{line}\n" for line in github.lines(found, old or frozenset())), end="")
    return 0


def _print(report: Report, options: Options) -> None:
    if options.json or options.format == "json":
        from scalify_dl.report import json as format_json

        print(format_json.render(report))
    elif options.format == "quiet":
        from scalify_dl.report.terminal import stopped_at

        print("  ".join(filter(None, (report.verdict.value, report.title, stopped_at(report)))))
    else:
        from scalify_dl.report import terminal

        terminal.render(report)
