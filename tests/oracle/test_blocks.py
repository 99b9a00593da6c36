"""Values that are blocks of baseline values, as micro-batches are."""

from __future__ import annotations

import numpy as np

from scalify_dl.oracle.blocks import Blocks

WHOLE = np.random.default_rng(0).uniform(-1, 1, (6, 4, 5))
OTHER = np.random.default_rng(1).uniform(-1, 1, (6, 5))
blocks = Blocks([WHOLE, OTHER], 1e-9)


def test_rows_of_a_value_are_a_block_of_it() -> None:
    assert blocks.hold({0: OTHER[2:4], 1: OTHER[4:6]})
    assert blocks.hold({0: WHOLE[3], 1: OTHER[:, 1:3]})  # each rank of another one
    assert blocks.hold({0: OTHER[None, 2:4]})


def test_rows_of_different_places_are_no_block() -> None:
    assert not blocks.hold({0: OTHER[[2, 4]]})
    assert not blocks.hold({0: OTHER[2:4], 1: OTHER[4:6] + 1e-3})
    assert not blocks.hold({0: WHOLE[:, :, ::-1][:, :, :2]})


def test_numbers_that_stand_everywhere_tell_nothing() -> None:
    assert not Blocks([np.zeros((9, 9))], 1e-9).hold({0: np.zeros((2, 2))})
