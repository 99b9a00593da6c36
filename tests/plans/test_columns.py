"""Tables by column: native code and Python read the same, or native code leaves a table to Python."""

from __future__ import annotations

import random
from array import array
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.plans.tables import TABLES, Tables
from scalify_dl.pysouffle._engine import table_columns


def test_texts_and_numbers_by_column() -> None:
    found = table_columns("a\t-1\tä b\nb\t22\t\n".encode(), 3, (1,))
    assert found == [["a", "b"], array("q", [-1, 22]), ["ä b", ""]]
    assert table_columns(b"", 2, (0,)) == [array("q"), []]


@pytest.mark.parametrize(
    "text",
    [
        b"a\t1\t2\n",
        b"a\n",
        b"\n",
        b"a\tb\n",
        b"a\t1\n\n",
        b"a\t+1\n",
        b"a\t1_0\n",
        b"a\t\n",
        b"\xff\t1\n",
        b"a\t" + b"9" * 20,
    ],
)
def test_what_is_not_plain_is_left_to_python(text: bytes) -> None:
    assert table_columns(text, 2, (1,)) is None


def test_both_readers_agree(tmp_path: Path) -> None:
    rng, table = random.Random(7), TABLES["coll"]
    cells = ["1", "-3", "", "x y", "é", "+1", "1_0", " 4", "10000000000000000000", "\r", "0x1"]
    for name in TABLES:
        (tmp_path / f"p_{name}.tsv").write_bytes(b"")
    tables = Tables(tmp_path, "p")
    plain = 0
    for _ in range(3000):
        rows = [[rng.choice(cells[:4]) for _ in range(3)] + [rng.choice("123")] for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.5:
            rng.choice(rows)[rng.randrange(4)] = rng.choice(cells)
        if rng.random() < 0.1:
            rng.choice(rows).pop()
        text = "\n".join("\t".join(row) for row in rows).encode() + rng.choice((b"", b"\n"))
        native = table_columns(text, len(table.columns), table.numbers)
        try:
            expected = tables._row_by_row(table, text)
        except InputError:
            assert native is None
        else:
            assert native in (None, expected)
            plain += native is not None
    assert plain > 1000
