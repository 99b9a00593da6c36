"""Whether a value holds what a correspondence says: a sum is as exact as its parts."""

from __future__ import annotations

import numpy as np
import pytest

from scalify_dl.ir.layout import Layout
from scalify_dl.oracle import compare
from scalify_dl.oracle.compare import check

SUM = Layout.parse("[]|tp=sum2")
COORDS = {0: {"tp": 0}, 1: {"tp": 1}}


def test_parts_that_cancel_carry_their_rounding() -> None:
    expected = np.array([4.4466292837830323e-05])
    parts = {0: np.array([1.0]), 1: np.array([4.446629283805237e-05 - 1.0])}
    assert check(expected, (), parts, (), SUM, COORDS, 1e-12) is None


def test_what_is_no_rounding_of_the_parts_is_seen() -> None:
    expected = np.array([4.4466292837830323e-05])
    parts = {0: np.array([1.0]), 1: np.array([4.4466293e-05 - 1.0])}
    assert check(expected, (), parts, (), SUM, COORDS, 1e-12) is not None


@pytest.mark.parametrize("seed", range(12))
def test_ranks_compared_at_once_are_as_compared_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    layout = Layout.parse(("[0:1x4][1:1x3]|tp=0:4x2|dp=r2", "[0:1x4][1:1x3]|tp=0:4x2|dp=r2 *1/2")[seed % 2])
    coords = {r: {"tp": t, "dp": d} for r, (t, d) in enumerate([(0, 0), (1, 0), (1, 1), (0, 1)])}
    base = rng.normal(size=(8, 3))
    parts = {r: (float(layout.scale) * base[4 * at["tp"] : 4 * at["tp"] + 4]).copy() for r, at in coords.items()}
    for _ in range(seed % 4):
        place = int(rng.integers(4)), int(rng.integers(3))
        parts[int(rng.integers(4))][place] += float(rng.choice([1e-9, 1.0, np.nan]))
    found = []
    for most in (compare.SMALL, 0):
        monkeypatch.setattr(compare, "SMALL", most)
        found.append(check(base, (), parts, (), layout, coords, 1e-12))
    assert repr(found[0]) == repr(found[1])
    assert (found[0] is None) == (seed % 4 == 0)


@pytest.mark.parametrize("kind", ["and", "or"])
def test_bits_of_real_numbers_are_held_by_nobody(kind: str) -> None:
    parts = {0: np.array([1.0]), 1: np.array([1.0])}
    assert check(np.array([1.0]), (), parts, (), Layout.parse(f"[]|tp={kind}2"), COORDS, 1e-12) is not None
