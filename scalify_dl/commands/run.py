"""`dlverify run` and `dlverify verify`: facts, or two programs, to a verdict."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.garbage import paused
from scalify_dl.ir.origin import Origin, has_order
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import InTime, Report, Verdict, overall
from scalify_dl.report.conclude import conclude

from .progress import progress

if TYPE_CHECKING:
    from scalify_dl.families.capture import Capture


def verify(pair: Capture, options: Options) -> int:
    """Export in memory, run, print; the exit status."""
    check_outputs(options)
    with progress("reading the programs"):
        origins: list[Origin] = []
        facts = pair.load(origins)
        timed = None
        if has_order(origins):
            from scalify_dl.schedule.programs import in_time  # where there is an order to be checked

            timed = in_time(origins, len(facts.ranks))
    return print_report(_conclude(facts, options, timed), options)


def run(directory: Path, options: Options) -> int:
    """Load, run, print; the exit status. A directory of fact sets is run set by set."""
    check_outputs(options)
    sets = fact_sets(directory)
    return _run_all(directory, sets, options) if sets else print_report(_conclude(load(directory), options), options)


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


def _conclude(facts: Facts, options: Options, timed: InTime | None = None) -> Report:
    with progress("running the rules") as say:
        analysis = analyse(facts, options, interruptible=True)
        report = conclude(analysis, say, timed)
        if options.out:
            from scalify_dl.prove.results import write_results

            say("writing the relations")
            write_results(analysis, options.out)
        if options.certificate and report.verdict is Verdict.PROVED and list(analysis.rows("proved_equal")):
            text = "no certificate is written: outputs rest on equal normal forms, which certificates do not hold yet"
            print(f"dlverify: {text}", file=sys.stderr)
        elif options.certificate and report.verdict is Verdict.PROVED:
            from scalify_dl.prove.certificate import write

            say("writing the certificate")
            with paused():
                write(analysis, report, options.certificate)
        elif options.certificate:
            print(f"dlverify: no certificate is written: the verdict is {report.verdict.value}", file=sys.stderr)
    return report


def check_outputs(options: Options) -> None:
    """Refuse places that cannot be written to before any work is done."""
    for file in (options.sarif, options.html, options.certificate):
        if file is not None and (not file.parent.is_dir() or file.is_dir()):
            raise InputError("cannot write here", file=file, expected="a file in an existing directory")
    out = options.out
    if out is not None and out.exists():
        from scalify_dl.prove.results import has_results

        if not out.is_dir():
            raise InputError("not a directory", file=out, expected="a directory, or a name for a new one")
        if any(out.iterdir()) and not has_results(out) and not fact_sets(out):
            raise InputError("this directory holds other files", file=out, expected="a new, empty or earlier --out")


def print_report(report: Report, options: Options) -> int:
    """Print a report, in all formats that are asked for; the exit status."""
    if options.sarif:
        from scalify_dl.report import sarif
        from scalify_dl.whole import write_whole

        write_whole(options.sarif, sarif.render(report))
    if options.html:
        from scalify_dl.report import html
        from scalify_dl.whole import write_whole

        write_whole(options.html, html.render(report))
    if options.json:
        from scalify_dl.report import json as format_json

        print(format_json.render(report))
    else:
        from scalify_dl.report import terminal

        terminal.render(report)
    return report.verdict.exit_code


def _run_all(directory: Path, sets: list[Path], options: Options) -> int:
    """Every fact set, then a table. Status 0 if each verdict is the stated one (PROVED where none is stated)."""
    if options.sarif or options.html or options.certificate:
        raise InputError(f"{directory} holds several fact sets", hint="--sarif, --html and --certificate take one set")
    rows: list[tuple[Path, Report, Verdict | None]] = []
    for path in sets:
        one = replace(options, out=options.out / path.name) if options.out else options
        expected = expected_verdict(path)
        report = _conclude(load(path), one)
        rows.append((path, report, expected))
        print(f"{path.name}: {report.verdict.value}", file=sys.stderr)
    surprises = [report.verdict for _, report, expected in rows if report.verdict is not (expected or Verdict.PROVED)]
    verdict = overall([report.verdict for _, report, _ in rows])
    if options.json:
        from scalify_dl.report.json import as_object

        found = [
            {"set": p.name, "expected": e.value if e else None, "as_expected": r.verdict is (e or Verdict.PROVED)}
            | as_object(r)
            for p, r, e in rows
        ]
        print(json.dumps({"verdict": verdict.value, "as_expected": not surprises, "sets": found}, indent=2))
    else:
        from scalify_dl.report.terminal import render_table

        render_table([(p.name, r, e) for p, r, e in rows])
    if not surprises:
        return 0
    return overall(surprises).exit_code or Verdict.UNKNOWN.exit_code
