"""A change of one row — kind, attribute, constant, shape, operand, group, peer or slice, on any rank — is seen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from scalify_dl.audit.folds.rows import CHANGES, seen

from .small import write_small
from .tables import Edited


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_one_row_is_seen(tmp_path: Path, name: str) -> None:
    write_small(tmp_path / "right")
    for seed in range(8):
        tables = Edited(tmp_path / "right")
        text = CHANGES[name](tables, random.Random(seed))
        assert seen(tables.write(tmp_path / "changed")) in ("bad input", "finding"), text
