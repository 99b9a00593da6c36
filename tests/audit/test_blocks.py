"""Reads at several indices of a table that is in blocks along them (datalog/lemmas/block_gathers/)."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import Derived, derive
from scalify_dl.audit.fuzz.partitioner_steps import Blocks, block_gather, read_attributes
from scalify_dl.audit.pair import Pair
from scalify_dl.audit.trials.index import scatter_in_blocks

HEIGHTS = (8, 4)


def read(*, clamp: bool, slip: int = 0, window: bool = False, crossed: bool = False, total: bool = True) -> Pair:
    """A table[8,4] or [8,4,6] over dp and tp, read at ids[5,2]; `crossed`: offsets of the other axis' coordinate."""
    pair = Pair({"dp": 2, "tp": 2})
    shape = (*HEIGHTS, 6) if window else HEIGHTS
    blocks = Blocks.of(pair, shape, ["dp", "tp"], {})
    table, dtable = pair.input(shape, layout=blocks.layout)
    ids, dids = pair.input((5, 2), dtype="s32", range=(0, 8))
    if crossed:
        blocks = Blocks.of(pair, shape, ["tp", "dp"], {})
    y = block_gather(pair, dtable, dids, blocks, HEIGHTS, clamp=clamp, slip=slip)
    if total:
        y = pair.dist.emit("all-reduce", [y], reducer="sum", groups=pair.groups("dp", "tp"))
    pair.outputs(pair.base.emit("gather", [table, ids], **read_attributes(shape, 1, 2)), y)
    return pair


def sound(pair: Pair) -> Derived:
    tables = pair.tables()
    derived = derive(tables)
    assert audit(tables, derived.corr).false == []
    return derived


@pytest.mark.parametrize("window", [False, True])
def test_ids_clamped_to_the_table_read_through_a_mask_are_a_pending_sum(window: bool) -> None:
    derived = sound(read(clamp=True, window=window))
    assert not derived.unproved
    assert not [row for row in derived.program.relation("assumption") if row[2] == "overflow"]


WRONG = {
    "ids beyond the table read as zero": {"clamp": False},
    "an upper bound too high": {"clamp": True, "slip": 1},
    "an upper bound too low": {"clamp": True, "slip": -1},
    "blocks of the other axis": {"clamp": True, "crossed": True},
    "the sum left out": {"clamp": True, "total": False},
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("window", [False, True])
def test_a_wrong_masked_read_is_not(name: str, window: bool) -> None:
    assert not sound(read(**WRONG[name], window=window)).proved


@pytest.mark.parametrize(("dtype", "width"), [("u8", 128), ("s8", 64), ("s32", 192)])
def test_a_scatter_in_blocks_whose_rows_the_type_counts_is_proved(dtype: str, width: int) -> None:
    assert derive(scatter_in_blocks(dtype, width).tables()).proved
