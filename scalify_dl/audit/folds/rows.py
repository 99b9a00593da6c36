"""`python -m scalify_dl.audit.folds.rows DIRECTORY --count 1000`: one row of a right plan changed, on any rank and
micro-batch: its kind, attribute, constant, shape, slice, operand, group or peer. Each change has to be seen."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.plans.prepare import Prepared, prepare, prepare_repeated
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict

from .edited import Edited, Row

Change = Callable[[Edited, random.Random], str]


def _another(rows: list[Row], row: Row, column: int, rng: random.Random) -> str:
    """A value of that column that the row has not."""
    found = sorted({other[column] for other in rows if other[column] != row[column]})
    return rng.choice(found) if found else f"{row[column]}1"


def _cell(table: str, column: int) -> Change:
    def change(t: Edited, rng: random.Random) -> str:
        rows = t.tables[table]
        row = rng.choice(rows)
        before, row[column] = row[column], _another(rows, row, column, rng)
        return f"{row[0]}: {before} -> {row[column]}"

    return change


def _attribute(t: Edited, rng: random.Random) -> str:
    """Another value that the attribute has elsewhere, or a new one."""
    row = rng.choice(t.tables["p_attr"])
    same = [r for r in t.tables["p_attr"] if r[1] == row[1]]
    before, row[3] = row[3], _another(same, row, 3, rng)
    return f"{row[0]} {row[1]}: {before} -> {row[3]}"


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _constant(t: Edited, rng: random.Random) -> str:
    """Another constant, or one more."""
    rows = t.tables["p_const"]
    numbers = [row for row in rows if _is_number(row[3])]
    if numbers and rng.random() < 0.7:
        row = rng.choice(numbers)
        before, row[3] = row[3], str(float(row[3]) + rng.choice([1.0, -0.5, 1e-4]))
        return f"{row[0]}: {before} -> {row[3]}"
    op = rng.choice([row[0] for row in t.tables["p_op"] if row[7] in ("linear", "mul", "silu")])
    rows.append([op, str(len(t.of("p_const", op))), "float", "2.0"])
    return f"{op}: one more"


def _shape(t: Edited, rng: random.Random) -> str:
    row = rng.choice([row for row in t.tables["p_sub_slice"] if int(row[5]) - int(row[4]) > 1])
    row[5] = str(int(row[5]) - 1)
    return f"tid {row[1]}: dim {row[3]} to {row[5]}"


def _slice(t: Edited, rng: random.Random) -> str:
    """The same size elsewhere."""
    sizes = {row[1]: [int(n) for n in row[4].split("x")] for row in t.tables["p_full"] if row[4] not in ("", "()")}
    rows = [row for row in t.tables["p_sub_slice"] if int(row[5]) - int(row[4]) < sizes[row[2]][int(row[3])]]
    row = rng.choice(rows)
    by = -1 if int(row[4]) else 1
    row[4:6] = [str(int(row[4]) + by), str(int(row[5]) + by)]
    return f"tid {row[1]}: dim {row[3]} {row[4]}:{row[5]}"


def _operand(t: Edited, rng: random.Random) -> str:
    """Another tensor of the rank, of any shape or of its own."""
    row = rng.choice(t.tables["p_in"])
    sizes: dict[str, tuple[str, ...]] = {}
    for r in t.tables["p_sub_slice"]:
        sizes[r[1]] = (*sizes.get(r[1], ()), str(int(r[5]) - int(r[4])))
    tensors = {r[0]: r for r in t.tables["p_tensor"]}
    here = tensors[row[2]]
    found = [x for x, r in tensors.items() if r[2] == here[2] and x != row[2]]
    alike = [x for x in found if sizes.get(tensors[x][4]) == sizes.get(here[4])]
    before, row[2] = row[2], rng.choice(alike if alike and rng.random() < 0.7 else found)
    return f"{row[0]} {row[1]}: {before} -> {row[2]}"


def _peer(t: Edited, rng: random.Random) -> str:
    row, column = rng.choice(t.tables["p_p2p"]), rng.choice([1, 2])
    before, row[column] = list(row), _another(t.tables["p_p2p"], row, column, rng)
    return f"{before} -> {row}"


CHANGES: dict[str, Change] = {
    "kind": _cell("p_op", 7), "attribute": _attribute, "constant": _constant, "shape": _shape, "slice": _slice,
    "operand": _operand, "group": _cell("p_coll_member", 2), "peer": _peer,
}  # fmt: skip


def seen(directory: Path) -> str:
    """How a change is seen: by `bad input`, a `finding` about the structure, by the `values`; empty where it is not."""
    try:
        regular = prepare_repeated(directory)
        if regular is not None and not regular.findings and _proved(regular):
            return ""
        prepared = prepare(directory)
    except InputError:
        return "bad input"
    if prepared.findings:
        return "finding"
    return "" if _proved(prepared) else "values"


def _proved(prepared: Prepared) -> bool:
    return report_on(prepared, Options(refute=False)).verdict is Verdict.PROVED


def changes(directory: Path, first: int, count: int) -> Iterator[tuple[str, str, str]]:
    """(kind of change, what it is, how it is seen)."""
    names = list(CHANGES)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            tables = Edited(directory)
            name = names[seed % len(names)]
            text = CHANGES[name](tables, random.Random(seed))
            shutil.rmtree(Path(folder) / "changed", ignore_errors=True)
            yield name, text, seen(tables.write(Path(folder) / "changed"))


def main() -> int:
    """Exit status 1 where a change is not seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000)
    given = parser.parse_args()
    start, numbers, unseen = time.process_time(), Counter[str](), []
    for name, text, how in changes(given.directory, given.first, given.count):
        numbers[f"{name}: {how or 'NOT SEEN'}"] += 1
        unseen += [] if how else [f"{name}: {text}"]
    for key, number in sorted(numbers.items()):
        print(f"{number:8}  {key}")
    print(*unseen, f"{len(unseen)} of {given.count} not seen, {time.process_time() - start:.0f} CPU-s", sep="\n")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
