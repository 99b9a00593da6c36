"""`dlverify sweep`: many pairs, several at once; a table at the end."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.junit import listed
from scalify_dl.sweep.file import load
from scalify_dl.sweep.runs import Result
from scalify_dl.sweep.runs import sweep as run_all
from scalify_dl.whole import write_whole

from .progress import counted
from .run import check_outputs

ERROR = "ERROR"
"""In place of a verdict, where there is none."""


def sweep(file: Path, out: Path | None, jobs: int | None, junit: Path | None = None, *, as_json: bool) -> int:
    """Do what is lacking, print the table; 0 if every verdict is the expected one."""
    pairs = load(file)
    check_outputs(Options(junit=junit), [file])
    folder = out or file.with_suffix(".results")
    if folder.exists() and not folder.is_dir():
        raise InputError("not a directory", file=folder, expected="a directory for results, or a name for a new one")
    done: list[str] = []
    began = time.monotonic()

    def said(result: Result) -> None:
        done.append(result["name"])
        line = f"{len(done)}/{len(pairs)} {result['name']}: {verdict(result)}"
        rest = f"  ({counted(len(done), len(pairs), began)})" if sys.stderr.isatty() else ""
        print(line + rest, file=sys.stderr, flush=True)

    results = run_all(pairs, folder, jobs or os.cpu_count() or 1, said)
    rows = [row(result, pairs[result["name"]].expect) for result in results]
    wrong = [r["verdict"] for r in rows if not r["as_expected"]]
    if junit:
        write_whole(junit, listed(file.stem, [(r["name"], _wrong(r), r["cpu_s"]) for r in rows]))
    if as_json:
        print(json.dumps({"runs": rows, "as_expected": not wrong}, indent=2, ensure_ascii=False))
    else:
        _print(rows)
    if not wrong:
        return 0
    return 2 if ERROR in wrong else max(Verdict(v).exit_code or Verdict.UNKNOWN.exit_code for v in wrong)


def _wrong(line: dict[str, Any]) -> str:
    """What is wrong with a line of the table; nothing where the verdict is the expected one."""
    return "" if line["as_expected"] else f"{line['verdict']}, expected {line['expected']}: {line['why']}"


def verdict(result: Result) -> str:
    """Of a run; ERROR where it has none."""
    return str(result["report"]["verdict"]) if "report" in result else ERROR


def row(result: Result, expected: str) -> dict[str, Any]:
    """A line of the table."""
    report = result.get("report", {})
    outputs = report.get("outputs", [])
    found = verdict(result)
    return {
        "name": result["name"],
        "verdict": found,
        "expected": expected,
        "as_expected": found == expected,
        "proved": sum(o["verdict"] == "PROVED" for o in outputs),
        "outputs": len(outputs),
        "ops": report.get("stats", {}).get("ops", 0),
        "cpu_s": report.get("stats", {}).get("cpu_s", 0.0),
        "peak_mb": report.get("stats", {}).get("peak_mb", 0.0),
        "why": "" if found == "PROVED" else result.get("error") or _why(report),
    }


def _why(report: dict[str, Any]) -> str:
    """Where a proof stops, in a line."""
    causes = report["frontier"]
    if causes:
        first = causes[0]
        more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
        missing = "" if not first["lemma_missing"] else "no lemma: "
        return f"{missing}{first['op']} ({first['kind']}): {first['found'] or first['expected'] or ''}{more}"
    reasons = [o["reason"] for o in report["outputs"] if o["reason"]]
    return next(iter([*report["notes"], *reasons]), "")


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from scalify_dl.consoles import Console

    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = 10_000
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("run", "verdict", "expected", "outputs", "ops", "CPU s", "MB", "why"):
        table.add_column(heading, overflow="fold", justify="right" if heading in ("ops", "CPU s", "MB") else "left")
    for r in rows:
        proved = f"{r['proved']}/{r['outputs']} proved"
        figures = (f"{r['ops']:,}", f"{r['cpu_s']:.1f}", f"{r['peak_mb']:.0f}")
        table.add_row(r["name"], r["verdict"], r["expected"], proved, *figures, r["why"])
    console.print(table)
    counts = Counter(r["verdict"] for r in rows)
    told = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    as_expected = sum(r["as_expected"] for r in rows)
    cpu = sum(r["cpu_s"] for r in rows)
    console.print(f"\n{len(rows)} run{'s' * (len(rows) != 1)}: {told}; {as_expected} as expected; {cpu:.1f} s CPU")
