"""Mutation campaign: breaks real graphs in every way of `mutations.py` and asks the rules and the oracle about each
mutant.

    python benchmarks/mutate.py FACTS_DIR [FACTS_DIR ...] [--limit N] [--seed S] [--save DIR]

A mutant is *killed* when the rules do not prove an output that the oracle refutes, *equivalent* when the oracle
finds no
difference in any output, *rounding* when it differs only where casts round, *invented* when the difference rests on
an invented
meaning, *ill-typed* when it cannot run. **Falsely proved**: the oracle refutes an output that the rules prove; there
must be none.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from mutations import OPERATORS, Tables, View

from scalify_dl.audit.derive import derive
from scalify_dl.errors import InputError
from scalify_dl.facts.files import load
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.oracle.shrink.extents import Conflict

OUTCOMES = (
    "killed",
    "falsely proved",
    "equivalent, proved",
    "equivalent, unproved",
    "rounding",
    "invented",
    "ill-typed",
)


def judge(tables: Tables, main: Path | None = None) -> tuple[str, str]:
    """The outcome for one mutant, and what shows it."""
    try:
        search = find_counterexample(load_program(tables), localise=False, trials=2)
    except (InputError, Conflict, ValueError, IndexError, KeyError) as error:
        return "ill-typed", str(error)
    if not search.counterexamples and search.problems:
        return "ill-typed", search.problems[0]
    derived = derive(tables, main=main)
    proved = {d for d, _ in derived.proved}
    wrong = {c.output for c in search.counterexamples if c.kind == "refutation"}
    if wrong & proved:
        return "falsely proved", f"outputs {sorted(wrong & proved)}"
    if wrong:
        return "killed", f"frontier {sorted(r[0] for r in derived.program.relation('frontier'))[:3]}"
    if any(c.kind == "precision" for c in search.counterexamples):
        rounded = {c.output for c in search.counterexamples} & proved
        return (
            ("falsely proved", f"rounding of {sorted(rounded)}")
            if rounded and not derived.precision
            else ("rounding", "")
        )
    if search.counterexamples:
        return "invented", search.counterexamples[0].reason
    return ("equivalent, unproved" if derived.unproved else "equivalent, proved"), ""


def mutants(tables: Tables, rng: random.Random, limit: int) -> list[tuple[str, str, Tables]]:
    """Operator, description and tables of up to `limit` mutants, spread over the operators."""
    view = View(tables)
    found = {name: list(operator(view, rng)) for name, operator in OPERATORS.items()}
    for each in found.values():
        rng.shuffle(each)
    chosen: list[tuple[str, str, Tables]] = []
    while len(chosen) < limit and any(found.values()):
        for name, each in found.items():
            if each and len(chosen) < limit:
                chosen.append((name, *each.pop()))
    return chosen


def table(counts: dict[str, Counter[str]]) -> str:
    """A Markdown table: a row per operator (or graph), a column per outcome."""
    lines = ["| | " + " | ".join(OUTCOMES) + " |", "|---" * (len(OUTCOMES) + 1) + "|"]
    total: Counter[str] = Counter()
    for name, row in counts.items():
        total += row
        lines.append(f"| {name} | " + " | ".join(str(row[o]) for o in OUTCOMES) + " |")
    lines.append("| **all** | " + " | ".join(f"**{total[o]}**" for o in OUTCOMES) + " |")
    return "\n".join(lines)


def write(tables: Tables, folder: Path, note: str) -> None:
    """Saves a mutant as a facts directory."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        if rows:
            (folder / f"{name}.facts").write_text(
                "".join("\t".join(map(str, r)) + "\n" for r in rows), encoding="utf-8"
            )
    (folder / "README").write_text(note + "\n", encoding="utf-8")


def main() -> int:
    """Exit status 1 where anything was falsely proved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=400, help="mutants per graph")
    parser.add_argument("--main", type=Path, help="a `verify.dl` instead of the shipped one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print every mutant that is not killed")
    parser.add_argument("--save", type=Path, help="where falsely proved mutants are saved")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so much CPU time")
    arguments = parser.parse_args()
    by_operator: dict[str, Counter[str]] = defaultdict(Counter)
    by_graph: dict[str, Counter[str]] = defaultdict(Counter)
    bad = 0
    try:
        for folder in arguments.facts:
            tables: Tables = dict(load(folder, validate=False).tables)
            for name, description, mutant in mutants(tables, random.Random(arguments.seed), arguments.limit):
                if time.process_time() > arguments.seconds:
                    raise KeyboardInterrupt
                outcome, detail = judge(mutant, arguments.main)
                by_operator[name][outcome] += 1
                by_graph[folder.name][outcome] += 1
                if arguments.list and outcome != "killed":
                    print(f"{outcome}: {folder.name}: {name}: {description} {detail}", flush=True)
                if outcome == "falsely proved":
                    bad += 1
                    print(f"FALSELY PROVED {folder.name}: {name}: {description}: {detail}", flush=True)
                    if arguments.save:
                        write(mutant, arguments.save / f"{folder.name}-{bad}", f"{name}: {description}: {detail}")
            print(
                f"{folder.name}: {dict(by_graph[folder.name])} ({time.process_time():.0f} s)",
                file=sys.stderr,
                flush=True,
            )
    except KeyboardInterrupt:
        print("stopped early; the tables say what was done", file=sys.stderr)
    print(table(by_operator))
    print()
    print(table(by_graph))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
