"""Misplacement campaign: breaks a program that lint proves in every way of `edits.py`, and asks lint of each mutant.

    python benchmarks/misplaced.py DIST… --mesh tp=2 [--relate F] [--sorts S] [--limit N] [--fix] [--journal FILE]

What is right is said by numbers: a mutant is *wrong* if a run on all ranks differs from the single-device program that
was recovered of the program as it is. Of the wrong ones: *refuted*, *unknown*, or *accepted*, because the mutant is
another single-device program; such ones are listed. The line is right if the edited op, or one that it reads or that
reads it (values that are only moved in between aside), stands there. With `--fix` every refuted mutant is put to `fix`,
too: *mended* if the first or second way of the list gives the numbers that the program had before. With `--pair` lint
is not asked: the mutant is compared with the recovered program, as `verify` does with a baseline; *mended* if the rules
prove all outputs with the edits that it shows. Numbers that are wrong (`scale`) are asked for by `--sorts` only.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.finding import Finding
from scalify_dl.garbage import paused
from scalify_dl.ir.graph import Graph, Op
from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.fix import fix
from scalify_dl.lint.judge import Prepared, lint_graph, load, prepared, tables
from scalify_dl.lint.lines import lines
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import LARGE, analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations, load_relations
from scalify_dl.report.conclude import conclude

from .edits import Broken, ways
from .placements import Said, said_wrongly

SORTS = "dropped,doubled,reducer,group,slice,own,placement"
SLOW = 5.0
"""CPU seconds that a mutant of one layer should not take."""
MOVES = frozenset(("reshape", "transpose", "broadcast", "convert", "slice", "concatenate"))


class Outcome(NamedTuple):
    """What became of a mutant: what lint says, whether a line is right, what mends it, seconds. `noted`: by a note
    that the program has not, where it is one of one device."""

    said: str
    line: bool | None
    noted: bool
    kinds: str
    mended: int | None
    seconds: float


def near(graph: Graph, at: int) -> set[Op]:
    """An op, those that it reads and those that read it, through ops that only move values."""
    found = {graph.ops[at]}
    maker = {t: op for op in graph.ops for t in op.results}
    readers: dict[object, list[Op]] = {}
    for op in graph.ops:
        for t in op.operands:
            readers.setdefault(t, []).append(op)
    for down in (False, True):
        front = [graph.ops[at]]
        while front:
            op = front.pop()
            step = [r for t in op.results for r in readers.get(t, ())] if down else [
                maker[t] for t in op.operands if t in maker
            ]  # fmt: skip
            front += [o for o in step if o.kind in MOVES and o not in found]
            found.update(step)
    return found


def is_wrong(
    start: Prepared, mesh: Mesh, relations: Relations, edits: Sequence[Callable[[Graph], None]]
) -> bool | None:
    """Whether numbers of all ranks differ from what the program computed before it was edited; None where it cannot be
    run."""
    mine = copy.deepcopy(start)
    try:
        for edit in edits:
            edit(mine.dist)
        facts, _, _ = tables(mine.start, mine.lifted, mine.dist, mesh, relations, mine.ends)
        search = find_counterexample(load_program(facts.tables), localise=False, trials=2, rounding=False)
    except (InputError, ValueError, KeyError, IndexError):
        return None
    if search.counterexamples:
        return any(c.kind == "refutation" for c in search.counterexamples)
    return None if search.problems else False


def right_line(ops: Iterable[Op], findings: Iterable[Finding]) -> bool:
    """Whether a finding is told where the edit is."""
    places = {lines(op)[:1] for op in ops}
    told = [(f.source[:1], *((e.source,) for e in f.events)) for f in findings]
    return any(place in places for finding in told for place in finding if place and place != ("",))


def notes(findings: Iterable[Finding]) -> set[tuple[str, str | None]]:
    """What is told as odd."""
    return {(f.kind, f.name) for f in findings if f.level == "note"}


def judge(
    start: Prepared, broken: Broken | Said, mesh: Mesh, relations: Relations, mend: bool,
    usual: Collection[tuple[str, str | None]] = (),
) -> Outcome | None:  # fmt: skip
    """The outcome of a mutant; None for one that is as right as it was, or cannot be run. `usual`: the notes of the
    program as it is."""
    draft, said = copy.deepcopy(start.dist), relations
    if isinstance(broken, Said):  # the program that its inputs are said to be of has other shapes
        said = broken.of(relations)
        places = [op for op in draft.ops if any(t.name == broken.input.name for t in op.operands)]
    else:
        if not is_wrong(start, mesh, relations, [broken.of]):
            return None
        places = [draft.ops[broken.at]]
        broken.of(draft)
    began = time.process_time()
    try:
        result = lint_graph(draft, mesh, said)
    except InputError as error:
        return Outcome("REFUTED", None, False, f"bad input: {error}", None, round(time.process_time() - began, 2))
    told = [f for f in result.findings if f.level == "error"]
    odd = [f for f in result.findings if f.level == "note" and (f.kind, f.name) not in usual]
    noted = result.verdict is not Verdict.REFUTED and bool(odd)
    around = {o for op in places for o in near(draft, draft.ops.index(op))}
    line = right_line(around, told or odd) if told or noted else None
    words = sorted({f.kind for f in told or odd}) or result.missing[:1]
    mended = None
    if mend and result.verdict is Verdict.REFUTED and isinstance(broken, Broken):
        began = time.process_time()
        mended = _mended(draft, broken, start, mesh, relations)
    seconds = round(time.process_time() - began, 2)
    return Outcome(result.verdict.value, line, noted, ", ".join(words), mended, seconds)


def _mended(draft: Graph, broken: Broken, start: Prepared, mesh: Mesh, relations: Relations) -> int:
    """The place in the list of the first way after which the numbers are what they were; 0 where there is none."""
    for place, way in enumerate(fix(draft, mesh, relations).ways, 1):
        if is_wrong(start, mesh, relations, [broken.of, *(edit.apply for edit in way)]) is False:
            return place
    return 0


def paired(start: Prepared, broken: Broken, mesh: Mesh, relations: Relations) -> Outcome | None:
    """The outcome of a mutant that is compared with the program that was recovered before it was broken."""
    if not is_wrong(start, mesh, relations, [broken.of]):
        return None
    mine = copy.deepcopy(start)
    broken.of(mine.dist)
    op = mine.dist.ops[broken.at]
    around = near(mine.dist, broken.at)
    facts, _, _ = tables(mine.start, mine.lifted, mine.dist, mesh, relations, mine.ends)
    began = time.process_time()
    report = conclude(analyse(facts, Options(), numbers_first=len(facts["op"]) > LARGE))
    seconds = round(time.process_time() - began, 2)
    tried = [text for cause in report.frontier for text in cause.tried]
    places = {place for o in (*around, op) for place in lines(o)[:1]}
    line = any(str(frame) in places for cause in report.frontier[:1] for frame in cause.source[:1])
    mended = int(bool(tried) and all(text.endswith("PROVED") and "random" not in text for text in tried))
    words = "; ".join(text for cause in report.frontier[:1] for text in cause.suggestion)
    return Outcome(report.verdict.value, line, False, words, mended, seconds)


def mutants(start: Prepared, mesh: Mesh, seed: int, only: Collection[str]) -> Iterator[Broken | Said]:
    """All of these sorts, which take turns, each in random order."""
    sorts: dict[str, list[Broken | Said]] = {}
    all_of_them: Iterator[Broken | Said] = chain(ways(start.dist, mesh), said_wrongly(start, mesh))
    for broken in all_of_them:
        if broken.sort in only or (not only and broken.sort != "scale"):
            sorts.setdefault(broken.sort, []).append(broken)
    for each in sorts.values():
        random.Random(seed).shuffle(each)
    while any(sorts.values()):
        for each in sorts.values():
            if each:
                yield each.pop()


def campaign(
    graph: Graph, mesh: Mesh, relations: Relations, limit: int, seed: int, mend: bool, only: Collection[str] = (),
    pair: bool = False,
) -> Iterator[Any]:  # fmt: skip
    """One row for each mutant that is wrong."""
    start = prepared(graph, mesh, relations)
    usual, count = notes(lint_graph(copy.deepcopy(start.dist), mesh, relations).findings if not pair else ()), 0
    for broken in mutants(start, mesh, seed, only):
        if count >= limit:
            break
        if pair and isinstance(broken, Broken):
            found = paired(start, broken, mesh, relations)
        else:
            found = judge(start, broken, mesh, relations, mend, usual)
        if found is not None:
            count += 1
            yield {"sort": broken.sort, "mutant": broken.text, **found._asdict()}


def summary(rows: list[Any]) -> str:
    """Counts by sort."""
    text = [f"{'':<10}{'wrong':>7}{'REFUTED':>9}{'noted':>7}{'line':>6}{'UNKNOWN':>9}{'PROVED':>8}{'mended':>8}"]
    for sort in (*dict.fromkeys(row["sort"] for row in rows), ""):
        mine = [row for row in rows if not sort or row["sort"] == sort]
        said = Counter(row["said"] for row in mine)
        line, mended = sum(row["line"] is True for row in mine), sum(row["mended"] in (1, 2) for row in mine)
        noted = sum(row["noted"] for row in mine)
        text.append(f"{sort or 'all':<10}{len(mine):>7}{said['REFUTED']:>9}{noted:>7}{line:>6}{said['UNKNOWN']:>9}"
                    f"{said['PROVED']:>8}{mended:>8}")  # fmt: skip
    found = [row for row in rows if row["said"] == "REFUTED" or row["noted"]]
    right, slow = sum(row["line"] is True for row in found), [row["seconds"] for row in rows if row["seconds"] > SLOW]
    text.append(f"found (REFUTED or noted) {len(found)} of {len(rows)}, at the line {right} of these")
    text.append(f"over {SLOW:g} CPU-s: {len(slow)}, at most {max((row['seconds'] for row in rows), default=0)}")
    return "\n".join(text)


def main() -> int:
    """Prints a row for each mutant that is not refuted at its line, and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", nargs="+", type=Path)
    parser.add_argument("--mesh", required=True)
    parser.add_argument("--relate", type=Path)
    parser.add_argument("--limit", type=int, default=10**9, help="so many wrong mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sorts", help=f"only these, joined by commas: {SORTS}")
    parser.add_argument("--fix", action="store_true", help="mend what is refuted")
    parser.add_argument("--pair", action="store_true", help="compare with the recovered program instead, and mend")
    parser.add_argument("--journal", type=Path, help="write a JSON line for each mutant")
    said = parser.parse_args()
    mesh, relations = Mesh.parse(said.mesh), load_relations(said.relate) if said.relate else Relations()
    rows = []
    with paused(), (said.journal or Path("/dev/null")).open("a") as journal:
        graph, sorts = load(said.dist, mesh, relations), said.sorts.split(",") if said.sorts else ()
        for row in campaign(graph, mesh, relations, said.limit, said.seed, said.fix, sorts, said.pair):
            rows.append(row)
            journal.write(json.dumps(row, ensure_ascii=False) + "\n")
            journal.flush()
            found = row["line"] and (row["said"] == "REFUTED" or row["noted"])
            if not found or ((said.fix or said.pair) and row["mended"] not in (1, 2)):
                print(row["said"], row["mutant"], row["kinds"][:200], row["mended"],
                      row["seconds"], sep=" | ", file=sys.stderr)
    print(summary(rows))
    return 0
