"""Wrong programs whose bug's line is known: is the first cause on that line, and does a tried edit prove the outputs?

    python -m tests.verify.bug_lines [--captures FOLDER] [PART OF A NAME…]

Programs are those beside the repository, or captures of tests/steps in FOLDER/PROGRAM.VARIANT, each with the command
that verifies it in `command.txt`.

A line of the table: what, verdict, bug's line, lines of the first cause (innermost first, those of outer frames in
brackets), whether one of these is the bug's, what became of the edit.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report
from scalify_dl.report.conclude import conclude

STEPS = Path(__file__).parents[3] / "shared" / "data" / "steps"
PROGRAMS = Path(__file__).parents[1] / "steps" / "programs"
needs_steps = pytest.mark.skipif(not STEPS.is_dir(), reason=f"the programs are not at {STEPS}")


@dataclass(frozen=True)
class Case:
    """A wrong program, and the lines of its bug in its source (none: not known)."""

    name: str
    lines: frozenset[int]
    facts: Callable[[], Facts]


def cases(folder: Path) -> dict[str, Case]:
    """Dumps of `folder/PROGRAM/dumps/VARIANT` with their command; the bug's line is where the text of `FIX` stands."""
    found = {}
    for command in sorted(folder.glob("*/dumps/wrong*/command.txt")):
        program, variant = command.parents[2], command.parent.name
        words = command.read_text("utf-8").split()
        options = words.index("--mesh")
        files = [program / word for word in words[2:options]]
        relate = program / words[words.index("--relate") + 1] if "--relate" in words else None
        text = (program / "build.py").read_text("utf-8")
        mark = _fix(text).get(variant.partition(".")[0], "")
        lines = [n for n, line in enumerate(text.splitlines(), 1) if mark and mark in line and "FIX" not in line]
        name = f"{program.name} {variant}"
        found[name] = Case(
            name, frozenset(lines[-1:]),
            lambda files=files, mesh=words[options + 1], relate=relate: export(files[0], files[1:], mesh, relate),
        )  # fmt: skip
    return found


def captures(folder: Path) -> dict[str, Case]:
    """Captures of programs of tests/steps; the bug's lines are those marked `# BUG VARIANT`."""
    found = {}
    for command in sorted(folder.glob("*.wrong*/command.txt")):
        program, _, variant = command.parent.name.rpartition(".")
        words = shlex.split(command.read_text("utf-8"))
        options = words.index("--mesh")
        text = (PROGRAMS / f"{program}.py").read_text("utf-8")
        lines = frozenset(n for n, line in enumerate(text.splitlines(), 1) if f"# BUG {variant}" in line)
        found[command.parent.name] = Case(
            command.parent.name, lines, lambda w=words, o=options: export(w[2], w[3:o], w[o + 1])
        )
    return found


def _fix(text: str) -> dict[str, str]:
    line = next((line for line in text.splitlines() if line.startswith("FIX = ")), "FIX = {}")
    found: dict[str, str] = json.loads(line.removeprefix("FIX = "))
    return found


def judge(case: Case) -> tuple[Report | None, str]:
    """The report on a wrong program, and its line of the table."""
    start = time.monotonic()
    try:
        found = conclude(analyse(case.facts(), Options()))
    except InputError as error:
        return None, f"{case.name}: bad input: {str(error).splitlines()[0]}"
    first = found.frontier[0] if found.frontier else None
    lines = [frame.line for frame in first.source] if first else []
    where = "on the line" if case.lines.issuperset(lines[:1]) else "on an outer line"
    where = where if not case.lines.isdisjoint(lines) else "elsewhere"
    tried = "; ".join(first.tried) if first else ""
    what = f"{first.name} ({first.kind})" if first else "no cause"
    place = f"{lines[0] if lines else '-'} {lines[1:] if lines[1:] else ''}"
    text = f"{case.name}: {found.verdict}, bug {sorted(case.lines)}, {what} at {place}: {where}; {tried or 'no edit'}"
    return found, f"{text}  [{time.monotonic() - start:.1f} s]"


def main() -> None:
    """The table, and its sums."""
    wanted = sys.argv[1:]
    known = captures(Path(wanted[1])) if wanted[:1] == ["--captures"] else cases(STEPS)
    wanted = wanted[2:] if wanted[:1] == ["--captures"] else wanted
    chosen = [case for name, case in known.items() if not wanted or any(part in name for part in wanted)]
    rows = []
    for case in chosen:
        _, text = judge(case)
        rows.append(text)
        print(text, flush=True)
    on_line = sum(": on the line" in row or "on an outer line" in row for row in rows)
    proved = sum(" all outputs are PROVED" in row or "the output is PROVED" in row for row in rows)
    agrees = sum("no output differs" in row for row in rows)
    print(f"{len(rows)} programs; first cause on the line: {on_line}; edit proves: {proved}, agrees only: {agrees}")


if __name__ == "__main__":
    main()
