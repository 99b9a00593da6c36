"""`dlverify audit`: what the numeric oracle says of correspondences."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from scalify_dl.audit.table import Row
from scalify_dl.oracle.meaning.load import load_meanings
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.results import has_results

from .progress import counted, progress
from .run import load


def audit(
    directory: Path, relations: Path | None, rules: tuple[Path, ...], meanings: Sequence[Path], *, as_json: bool
) -> int:  # fmt: skip
    """Check `corr` tuples numerically: status 0 if none is false, 1 if some are. `meanings` are Python files with
    numeric meanings of calls."""
    from scalify_dl.audit import audit as check
    from scalify_dl.audit import read_corr
    from scalify_dl.audit.derive import declared_structures, taken_for_granted
    from scalify_dl.audit.table import places_in

    load_meanings(meanings)
    facts, declared, finite = load(directory), None, None
    assumed: frozenset[tuple[str, str]] = frozenset()
    places: dict[Row, str] = {}
    with progress("auditing") as say:
        if relations is not None:
            told = places_in(relations)
            rows: Sequence[Sequence[str]] = [row for _, row in told]
            places = {row: place for place, row in reversed(told)}
        elif has_results(directory):
            rows = read_corr(directory)
        else:
            say("running the rules")
            analysis = analyse(facts, Options(rules=rules))
            rows = [tuple(map(str, row)) for row in analysis.rows("corr")]
            declared = declared_structures(analysis.program)
            finite = {str(row[0]) for row in analysis.rows("assumption") if row[2] == "finite"}
            assumed = taken_for_granted(analysis.program)
        began = time.monotonic()
        found = check(
            facts.tables,
            rows,
            declared=declared,
            finite=finite,
            assumed=assumed,
            progress=lambda done, total, what: say(f"auditing: {what} {counted(done, total, began)}"),
        )
    if as_json:
        findings = [
            {
                "dist": f.row[0],
                "dist_piece": f.row[1],
                "base": f.row[2],
                "base_piece": f.row[3],
                "layout": f.row[4],
                "verdict": f.verdict,
                "text": f.text,
                "seed": f.seed,
                "place": places.get(f.row),
            }
            for f in found.findings
        ]
        print(
            json.dumps(
                {
                    "counts": found.counts,
                    "trials": found.trials,
                    "sizes": found.sizes,
                    "problems": found.problems,
                    "interrupted": found.interrupted,
                    "findings": findings,
                },
                indent=2,
            )
        )
    else:
        counts = ", ".join(f"{n:,} {verdict}" for verdict, n in sorted(found.counts.items())) or "no tuples"
        print(f"{counts} ({found.trials} trials, {found.sizes} sizes){', interrupted' if found.interrupted else ''}")
        for problem in found.problems:
            print(f"  {problem}")
        for finding in found.false:
            where = f"{places[finding.row]}: " if finding.row in places else ""
            print(f"  {where}{finding.verdict}: {' '.join(part or '·' for part in finding.row)}\n    {finding.text}")
    return 1 if found.false else 0
