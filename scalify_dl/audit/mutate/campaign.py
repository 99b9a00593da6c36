"""Mutation campaign: breaks real graphs in every way of `operators.py` and asks the rules and the oracle about each
mutant.

    python benchmarks/mutate.py FACTS_DIR [FACTS_DIR ...] --journal FILE [--kills N] [--seconds S] [--seed S]
    python benchmarks/mutate.py --journal FILE           # only the tables

Every mutant is a line of the journal (JSON); a run that is given the same journal and seed goes on where the last one
ended, whatever ended it. Graphs take turns, so a run that is stopped early has looked at all of them.

A mutant is *killed* when the rules do not prove an output that the oracle refutes, *equivalent* when the oracle finds
no difference in any output, *rounding* when it differs only where casts round, *invented* when the difference rests on
an invented meaning, *ill-typed* when it is no valid set of facts or cannot run. **Falsely proved**: the oracle refutes
an output that the rules prove; there must be none.

The reason of a kill is what the rules say where the proof stops: an op *differs* from its counterpart, its result is
*misplaced* (what the baseline has, but elsewhere, scaled, or still pending), nothing is *derived* for it, or it is
*unsupported*.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scalify_dl.audit.derive import Derived, derive
from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.facts.files import load
from scalify_dl.facts.validate import validate
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.oracle.shrink.extents import Conflict

from .operators import OPERATORS
from .view import Tables, View

OUTCOMES = (
    "killed",
    "falsely proved",
    "equivalent, proved",
    "equivalent, unproved",
    "rounding",
    "invented",
    "ill-typed",
)
FOCUS = 30
"""Ops that one round of mutants is drawn from."""
ROUND = 12
"""Mutants of one graph before the next graph has its turn."""


class Outcome(NamedTuple):
    """What became of a mutant: one of OUTCOMES, for a kill the rules' reason, and what shows it."""

    outcome: str
    reason: str
    detail: str


def judge(tables: Tables, main: Path | None = None) -> Outcome:
    """The outcome for one mutant."""
    try:
        validate(Facts(tables))
        search = find_counterexample(load_program(tables), localise=False, trials=2)
    except (InputError, Conflict, ValueError, IndexError, KeyError) as error:
        return Outcome("ill-typed", "", str(error))
    if not search.counterexamples and search.problems:
        return Outcome("ill-typed", "", search.problems[0])
    wrong = {c.output for c in search.counterexamples if c.kind == "refutation"}
    try:
        derived = derive(tables, main=main)
    except InputError as error:
        return Outcome("killed" if wrong else "equivalent, unproved", "the rules were stopped", str(error))
    proved = {d for d, _ in derived.proved}
    if wrong & proved:
        return Outcome("falsely proved", "", f"outputs {sorted(wrong & proved)}")
    if wrong:
        return Outcome("killed", *_reason(derived))
    if any(c.kind == "precision" for c in search.counterexamples):
        rounded = {c.output for c in search.counterexamples} & proved
        if rounded and not derived.precision:
            return Outcome("falsely proved", "", f"rounding of {sorted(rounded)}")
        return Outcome("rounding", "", "")
    if search.counterexamples:
        return Outcome("invented", "", search.counterexamples[0].reason)
    return Outcome("equivalent, unproved" if derived.unproved else "equivalent, proved", "", "")


def _reason(derived: Derived) -> tuple[str, str]:
    rows = derived.program.relation
    frontier = sorted(row[0] for row in rows("frontier"))
    first = f"frontier {frontier[:3]}"
    for relation, reason in (("unsupported", "unsupported"), ("differs", "differs"), ("misplaced", "misplaced")):
        if {row[0] for row in rows(relation)} & set(frontier):
            return reason, first
    return ("not derived", first) if frontier else ("misplaced", "the outputs hold something else")


def mutants(tables: Tables, seed: str) -> Iterator[tuple[str, str, Tables]]:
    """Operator, description and tables of mutants, each once: rounds of ROUND, spread over the operators, each drawn
    from FOCUS ops; they end where two rounds bring nothing new."""
    seen: set[tuple[str, str]] = set()
    view, barren = View(tables), 0
    for number in range(1_000_000):
        rng = random.Random(f"{seed} {number}")
        view.look_at(rng, FOCUS)
        found = {name: list(operator(view, rng)) for name, operator in OPERATORS.items()}
        for each in found.values():
            rng.shuffle(each)
        fresh = 0
        while fresh < ROUND and any(found.values()):
            for name, each in found.items():
                while each:
                    description, mutant = each.pop()
                    if (name, description) not in seen:
                        seen.add((name, description))
                        fresh += 1
                        yield name, description, mutant
                        break
        barren = 0 if fresh else barren + 1
        if barren > 1:
            return


def table(title: str, rows: Iterable[tuple[str, str]], columns: Iterable[str]) -> str:
    """A Markdown table of counts: a row per first item, a column per second."""
    counts, columns = Counter(rows), list(columns)
    lines = [f"| {title} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in dict.fromkeys(sorted(name for name, _ in counts)):
        lines.append(f"| {name} | " + " | ".join(str(counts[name, c]) for c in columns) + " |")
    totals = (sum(n for (_, column), n in counts.items() if column == c) for c in columns)
    lines.append("| **all** | " + " | ".join(f"**{n}**" for n in totals) + " |")
    return "\n".join(lines)


def tables_of(journal: list[dict[str, Any]]) -> str:
    """What a journal says: by operator, by graph, kills by operator and reason."""
    kills = [row for row in journal if row["outcome"] == "killed"]
    reasons = list(dict.fromkeys(sorted(row["reason"] for row in kills)))
    return "\n\n".join(
        (
            table("operator", ((r["operator"], r["outcome"]) for r in journal), OUTCOMES),
            table("graph", ((r["graph"], r["outcome"]) for r in journal), OUTCOMES),
            table("kills by reason", ((r["operator"], r["reason"]) for r in kills), reasons),
            f"{len(journal)} mutants, {sum(r['seconds'] for r in journal):.0f} s of CPU",
        )
    )


def read(journal: Path) -> list[dict[str, Any]]:
    """The lines of a journal; a last one that was cut off is left out."""
    rows = []
    for line in journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            print(f"{journal}: skipped a line that is no JSON: {line[:60]}", file=sys.stderr)
    return rows


def write(tables: Tables, folder: Path, note: str) -> None:
    """Saves a mutant as a facts directory."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        if rows:
            (folder / f"{name}.facts").write_text(
                "".join("\t".join(map(str, r)) + "\n" for r in rows), encoding="utf-8"
            )
    (folder / "README").write_text(note + "\n", encoding="utf-8")


def rounds(folders: list[Path], seed: int) -> Iterator[tuple[Path, str, str, Tables]]:
    """Mutants of all graphs in turn."""
    waiting = []
    for folder in folders:
        tables: Tables = dict(load(folder).tables)
        outcome = judge(tables)
        if outcome.outcome not in ("equivalent, proved", "equivalent, unproved"):
            raise InputError(f"the graph itself is {outcome.outcome}: {outcome.detail}", file=folder)
        waiting.append((folder, mutants(tables, f"{seed} {folder.name}")))
    while waiting:
        for folder, source in list(waiting):
            for _ in range(ROUND):
                found = next(source, None)
                if found is None:
                    waiting.remove((folder, source))
                    break
                yield (folder, *found)


def main() -> int:
    """Exit status 1 where anything was falsely proved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", nargs="*", type=Path)
    parser.add_argument("--journal", type=Path, required=True, help="a line per mutant; read first, then appended to")
    parser.add_argument("--kills", type=int, default=10**9, help="stop when the journal has so many kills")
    parser.add_argument("--limit", type=int, default=10**9, help="stop when the journal has so many mutants")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so much CPU time")
    parser.add_argument("--main", type=Path, help="a `verify.dl` instead of the shipped one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="where falsely proved mutants are saved")
    arguments = parser.parse_args()
    journal = read(arguments.journal)
    done = {(r["graph"], r["operator"], r["mutant"]) for r in journal}
    outcomes = Counter(r["outcome"] for r in journal)
    try:
        with arguments.journal.open("a", encoding="utf-8") as file:
            for folder, operator, mutant, tables in rounds(arguments.facts, arguments.seed):
                if outcomes["killed"] >= arguments.kills or outcomes.total() >= arguments.limit:
                    break
                if time.process_time() > arguments.seconds:
                    break
                if (folder.name, operator, mutant) in done:
                    continue
                start = time.process_time()
                said = judge(tables, arguments.main)
                row = {"graph": folder.name, "operator": operator, "mutant": mutant, **said._asdict()}
                row["seconds"] = round(time.process_time() - start, 3)
                journal.append(row)
                outcomes[said.outcome] += 1
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
                if said.outcome == "falsely proved":
                    print(f"FALSELY PROVED {folder.name}: {operator}: {mutant}: {said.detail}", flush=True)
                    if arguments.save:
                        name = f"{folder.name}-{outcomes['falsely proved']}"
                        write(tables, arguments.save / name, f"{operator}: {mutant}: {said.detail}")
                if outcomes.total() % 200 == 0:
                    said_so_far = f"{dict(outcomes)} after {time.process_time():.0f} s"
                    print(said_so_far, file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped early; the tables say what was done", file=sys.stderr)
    print(tables_of(journal))
    return 1 if outcomes["falsely proved"] else 0
