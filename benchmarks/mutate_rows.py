"""An adversary of facts: changes proved sets row by row and asks loading, the rules and the oracle about each.

    python benchmarks/mutate_rows.py FACTS_DIR [FACTS_DIR ...] [--seconds S] [--seed N] [--unseen] [--save DIR]

Sets take turns. The table says what became of the changes by table and column: *refused* on loading, *unproved*,
*numbers* (proved, true, and the oracle computes other numbers than before), *nothing* (proved, true, the same numbers),
*undecided* by the oracle, or *falsely proved*, of which there must be none. `--unseen` lists changes of what is said to
be a program that changed nothing: what nobody reads means nothing.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scalify_dl.audit.rows import OUTCOMES, Change, Reference, changes
from scalify_dl.errors import InputError
from scalify_dl.facts.files import load, write
from scalify_dl.facts.model import Facts
from scalify_dl.facts.schema import FREE_TEXT

TURN = 20
"""Changes of one set before the next has its turn."""


def turns(folders: list[Path], seed: int) -> Iterator[tuple[Path, Reference, Change]]:
    """Changes of all sets in turn; sets that are not proved are skipped."""
    waiting = []
    for folder in folders:
        try:
            tables = load(folder).tables
            waiting.append((folder, Reference(tables), changes(tables, random.Random(f"{seed} {folder.name}"))))
        except InputError as error:
            print(f"{folder}: {error.message}", file=sys.stderr)
    while waiting:
        for turn in list(waiting):
            folder, reference, source = turn
            for _ in range(TURN):
                change = next(source, None)
                if change is None:
                    waiting.remove(turn)
                    break
                yield folder, reference, change


def main() -> int:
    """Exit status 1 where anything was falsely proved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so much CPU time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unseen", action="store_true", help="list what changed nothing")
    parser.add_argument("--save", type=Path, help="where falsely proved sets are saved")
    arguments = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    try:
        for folder, reference, change in turns(arguments.facts, arguments.seed):
            if time.process_time() > arguments.seconds:
                break
            outcome, shown = reference.judge(change.tables)
            counts[f"{change.table}.{change.what}", outcome] += 1
            told = f"{folder.name}: {change.table} {change.what}: {change.row!r} {shown}"
            if outcome == "falsely proved":
                print(f"FALSELY PROVED {told}", flush=True)
                if arguments.save:
                    write(Facts(dict(change.tables)), arguments.save / f"{folder.name}-{sum(counts.values())}")
            elif arguments.unseen and outcome in ("nothing", "undecided") and change.table not in FREE_TEXT:
                print(f"{outcome}: {told}", flush=True)
    except KeyboardInterrupt:
        print("stopped early; the table says what was done", file=sys.stderr)
    print("| changed | " + " | ".join(OUTCOMES) + " |", "|---" * (len(OUTCOMES) + 1) + "|", sep="\n")
    for name in sorted({name for name, _ in counts}):
        print(f"| {name} | " + " | ".join(str(counts[name, o]) for o in OUTCOMES) + " |")
    totals = (sum(n for (_, outcome), n in counts.items() if outcome == o) for o in OUTCOMES)
    print("| **all** | " + " | ".join(f"**{n}**" for n in totals) + " |")
    return 1 if any(outcome == "falsely proved" for _, outcome in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
