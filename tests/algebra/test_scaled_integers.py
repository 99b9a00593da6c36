"""Integers of a known range that a rank holds at a scale: no formula, and no traceback."""

from __future__ import annotations

import numpy as np
import pytest

from scalify_dl.algebra.extended import multiply
from scalify_dl.algebra.finite import Leaf, Table
from scalify_dl.algebra.form import Field, Undecided


def test_a_table_at_a_scale_is_undecided() -> None:
    field = Field()
    table = Table((Leaf("ids", 0, 3),), np.arange(3))
    for pair in ((table, field.constant(2)), (field.constant(2), table)):
        with pytest.raises(Undecided):
            multiply(*pair)
