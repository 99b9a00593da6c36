"""`python -m scalify_dl.audit.folds.campaign --first 0 --count 1000 --out FILE`: random plans and mutants of them."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from .compare import Outcome, outcome
from .draw import write_random
from .edited import Edited
from .mutants import mutate

RIGHT = 8
"""Every how many-th plan is left as it is: it has to be PROVED, and right."""
SECONDS = 1.0
"""CPU seconds that the proof of a mutant may take, which mostly is none: formulas of what is not proved take longer."""


def one(seed: int, directory: Path) -> tuple[str, Outcome]:
    """A random plan or mutant; what it is, and what became of it."""
    rng = random.Random(seed)
    right, text = write_random(directory / "right", rng)
    if seed % RIGHT == 0:
        found = outcome(right, seed)
        if found.verdict != "PROVED" or found.runs != "right" or found.regular not in ("", "PROVED"):
            found.mismatches.append(f"a right plan is {found.verdict}, {found.runs}")
        return text, found
    tables = Edited(right)
    what = [mutate(tables, rng) for _ in range(rng.choice((1, 1, 1, 2)))]
    shutil.rmtree(directory / "mutant", ignore_errors=True)
    return f"{text}; {'; '.join(what)}", outcome(tables.write(directory / "mutant"), seed, SECONDS)


def campaign(first: int, count: int, out: Path | None = None, seconds: float | None = None) -> tuple[Counter[str], int]:
    """Numbers by what became of plans, and mismatches; a line of JSON each to `out`."""
    numbers: Counter[str] = Counter()
    mismatches = 0
    end = time.process_time() + seconds if seconds else None
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            if end and time.process_time() > end:
                break
            try:
                text, found = one(seed, Path(folder))
            except Exception as problem:  # a crash is a mismatch, too
                text, found = f"seed {seed}", Outcome("crash", mismatches=[f"{type(problem).__name__}: {problem}"])
            numbers["plans"] += 1
            numbers["values compared"] += found.compared
            numbers[f"{found.verdict}, {found.runs}" if found.runs else found.verdict] += 1
            numbers["proved by their unit form"] += found.regular == "PROVED"
            mismatches += len(found.mismatches)
            if out is not None:
                row = {"seed": seed, "plan": text, "verdict": found.verdict, "runs": found.runs}
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row | {"mismatches": found.mismatches}) + "\n")
    return numbers, mismatches


def main() -> int:
    """Exit status 1 where fold and interpreter disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--out", type=Path, help="a line of JSON for every plan")
    parser.add_argument("--seconds", type=float, help="CPU seconds at most")
    given = parser.parse_args()
    numbers, mismatches = campaign(given.first, given.count, given.out, given.seconds)
    for text, number in numbers.most_common():
        print(f"{number:8}  {text}")
    print(f"{mismatches:8}  mismatches")
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
