"""Whether a value holds what a correspondence says: a sum is as exact as its parts."""

from __future__ import annotations

import numpy as np

from scalify_dl.ir.layout import Layout
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
