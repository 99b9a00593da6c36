"""A change of one row — kind, attribute, constant, shape, operand, group, peer or slice, on any rank — is seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.plans.prepare import prepare

from .small import write_small
from .tables import Edited, Row


def another(rows: list[Row], row: Row, column: int, rng: random.Random) -> str:
    """A value of that column that the row has not."""
    return rng.choice(sorted({other[column] for other in rows if other[column] != row[column]}))


def kind(t: Edited, rng: random.Random) -> None:
    row = rng.choice(t.tables["p_op"])
    row[7] = another(t.tables["p_op"], row, 7, rng)


def attribute(t: Edited, rng: random.Random) -> None:
    row = rng.choice(t.tables["p_attr"])
    row[3] = another(t.tables["p_attr"], row, 3, rng)


def constant(t: Edited, rng: random.Random) -> None:
    """A constant argument more."""
    op = rng.choice([row[0] for row in t.tables["p_op"] if row[7] == "linear"])
    t.tables["p_const"].append([op, "0", "float", "2.0"])


def shape(t: Edited, rng: random.Random) -> None:
    row = rng.choice([row for row in t.tables["p_sub_slice"] if int(row[5]) - int(row[4]) > 1])
    row[5] = str(int(row[5]) - 1)


def shifted(t: Edited, rng: random.Random) -> None:
    sizes = {row[1]: [int(n) for n in row[4].split("x")] for row in t.tables["p_full"]}
    rows = [row for row in t.tables["p_sub_slice"] if int(row[5]) - int(row[4]) < sizes[row[2]][int(row[3])]]
    row = rng.choice(rows)
    by = -1 if int(row[4]) else 1
    row[4:6] = [str(int(row[4]) + by), str(int(row[5]) + by)]


def operand(t: Edited, rng: random.Random) -> None:
    row = rng.choice(t.tables["p_in"])
    ranks = {tensor[0]: tensor[2] for tensor in t.tables["p_tensor"]}
    row[2] = rng.choice([tensor for tensor, rank in ranks.items() if rank == ranks[row[2]] and tensor != row[2]])


def group(t: Edited, rng: random.Random) -> None:
    row = rng.choice(t.tables["p_coll_member"])
    row[2] = another(t.tables["p_coll_member"], row, 2, rng)


def peer(t: Edited, rng: random.Random) -> None:
    row, column = rng.choice(t.tables["p_p2p"]), rng.choice([1, 2])
    row[column] = another(t.tables["p_p2p"], row, column, rng)


CHANGES: list[Callable[[Edited, random.Random], None]] = [
    kind, attribute, constant, shape, shifted, operand, group, peer,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_of_one_row_is_seen(tmp_path: Path, change: Callable[[Edited, random.Random], None]) -> None:
    write_small(tmp_path / "right")
    for seed in range(8):
        tables = Edited(tmp_path / "right")
        change(tables, random.Random(seed))
        try:
            prepared = prepare(tables.write(tmp_path / "changed"))
        except InputError:
            continue
        assert prepared.findings, (change.__name__, seed)
