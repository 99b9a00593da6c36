"""What is PROVED of a plan, an interpreter of the plan as it stands finds: right plans, and random wrong ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from scalify_dl.audit.plans import Stuck, differences
from scalify_dl.commands.plan import report_on
from scalify_dl.errors import InputError
from scalify_dl.plans.prepare import prepare
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict

from .small import write_small
from .tables import Edited

COLUMNS = {
    "p_in": (2,), "p_out": (2,), "p_op": (2, 3, 4, 7), "p_coll_member": (2,), "p_p2p": (1, 2), "p_sub_slice": (4, 5),
    "p_attr": (3,), "p_wred": (2,), "p_mesh": (2, 4), "p_tensor": (3, 4, 5), "p_coll": (3,), "p_grad_of": (1, 2),
}  # fmt: skip


def mutate(tables: Edited, rng: random.Random) -> str:
    """Changes one row of a table, or drops it, or exchanges a column of two rows."""
    table = rng.choice(sorted(COLUMNS))
    rows = tables.tables[table]
    row = rng.choice(rows)
    before = list(row)
    column = rng.choice(COLUMNS[table])
    how = rng.randrange(4)
    if how == 0:
        rows.remove(row)
    elif how == 1:
        other = rng.choice(rows)
        row[column], other[column] = other[column], row[column]
    else:
        row[column] = rng.choice(rows)[column]
    return f"{table}: {before} -> {row} ({how})"


def agrees(directory: Path) -> bool:
    try:
        return not differences(directory)
    except Stuck:
        return False


@pytest.mark.parametrize("unit", [False, True], ids=["written out", "unit form"])
def test_the_interpreter_finds_the_right_plan_right(tmp_path: Path, unit: bool) -> None:
    assert differences(write_small(tmp_path, unit=unit)) == []


def campaign(directory: Path, seeds: range) -> tuple[int, int]:
    """Mutants that are proved, and all; fails at one that is proved and wrong."""
    proved = 0
    for seed in seeds:
        rng = random.Random(seed)
        dp, mbs = rng.choice([(2, 2), (2, 1), (1, 2), (1, 4)])
        tables = Edited(write_small(directory / "right", dp=dp, mbs=mbs, unit=rng.random() < 0.4))
        what = [mutate(tables, rng) for _ in range(rng.choice([1, 1, 1, 2]))]
        wrong = tables.write(directory / "mutant")
        try:
            prepared = prepare(wrong)
        except InputError:
            continue
        if prepared.cannot_run:
            continue
        if report_on(prepared, Options(refute=False)).verdict is Verdict.PROVED:
            proved += 1
            assert agrees(wrong), (seed, what)
    return proved, len(seeds)


def test_no_mutant_is_proved_that_the_interpreter_refutes(tmp_path: Path) -> None:
    proved, _ = campaign(tmp_path, range(60))
    assert proved


@pytest.mark.slow
def test_no_mutant_of_many_is_proved_that_the_interpreter_refutes(tmp_path: Path) -> None:
    proved, count = campaign(tmp_path, range(1000, 1300))
    assert 0 < proved < count
