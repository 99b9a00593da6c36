"""`dlverify audit` and `dlverify rules check`: what the numeric oracle says of correspondences and rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.verify.options import Options
from scalify_dl.verify.pipeline import analyse
from scalify_dl.verify.results import has_results

from .progress import progress
from .run import load


def audit(directory: Path, relations: Path | None, rules: tuple[Path, ...], *, as_json: bool) -> int:
    """Check `corr` tuples numerically: status 0 if none is false, 1 if some are."""
    from scalify_dl.audit import audit as check
    from scalify_dl.audit import read_corr

    facts = load(directory)
    with progress("auditing") as say:
        if relations is not None:
            rows: Sequence[Sequence[str]] = read_corr(relations)
        elif has_results(directory):
            rows = read_corr(directory)
        else:
            say("running the rules")
            rows = [tuple(map(str, row)) for row in analyse(facts, Options(rules=rules)).rows("corr")]
        found = check(facts.tables, rows, progress=lambda done, total, what: say(f"auditing: {what} {done}/{total}"))
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
            print(f"  {finding.verdict}: {' '.join(part or '·' for part in finding.row)}\n    {finding.text}")
    return 1 if found.false else 0


def rules_check(files: Sequence[Path], *, seconds: float, seed: int, as_json: bool) -> int:
    """Fuzz the shipped rules together with these files: status 1 if something unsound was found, else 0."""
    from scalify_dl.audit.fuzz import check_rules

    for file in files:
        if not file.is_file():
            raise InputError("no such rules file", file=file, expected="a Datalog file (.dl)")
    with progress("fuzzing the rules") as say:
        report = check_rules(
            list(files),
            seconds=seconds,
            seed=seed,
            progress=lambda pairs, tuples: say(f"fuzzing the rules: {pairs:,} pairs, {tuples:,} tuples audited"),
        )
    if as_json:
        content = {
            "pairs": report.pairs,
            "tuples": report.tuples,
            "interrupted": report.interrupted,
            "unsound": [{"seed": u.seed, "rules": list(u.rules), "graph": u.listing()} for u in report.unsound],
            "never_exercised": [{"rule": place, "text": report.texts[place]} for place in report.never],
            "exercised": dict(report.exercised),
            "problems": dict(report.problems),
        }
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return 1 if report.unsound else 0
    for unsound in report.unsound:
        print(f"UNSOUND (seed {unsound.seed}): {', '.join(unsound.rules)}")
        print("".join(f"  {line}\n" for line in unsound.listing().splitlines()))
    for place in report.never:
        print(f"never exercised: {place}: {report.texts[place]}")
    for problem, count in report.problems.most_common(5):
        print(f"not checked, {count} times: {problem}")
    print(
        f"{report.pairs:,} pairs, {report.tuples:,} tuples audited, {len(report.unsound)} unsound,"
        f" {len(report.never)} of {len(report.texts)} lemmas never exercised" + ", interrupted" * report.interrupted
    )
    return 1 if report.unsound else 0
