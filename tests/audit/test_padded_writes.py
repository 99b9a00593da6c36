"""Rows that are added up in blocks correspond to a padded value where the blocks make it up, to nothing where they are
longer or shorter than that (lemmas/masked_writes/)."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz.padding_steps import gathered, uneven_shard
from scalify_dl.audit.pair import Pair
from scalify_dl.audit.trials.moved import of_rank
from scalify_dl.audit.trials.row import added


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_only_blocks_that_make_up_a_padded_value_are_parts_of_it(rows: int) -> None:
    pair = Pair({"tp": 2})
    (i, di), (u, du) = pair.input((6,), dtype="s32", range=(0, 5)), pair.input((6, 2))
    t, dt = pair.input((5, 2))
    near = pair.dist.emit("subtract", [di, of_rank(pair, [0, 3], di)])
    blocks, fitting = added(pair.dist, rows, near, du), added(pair.dist, 3, near, du)
    base = added(pair.base, 5, i, u)
    pair.outputs(base, blocks)
    product = pair.dist.emit(
        "multiply", [uneven_shard(pair, dt, 0, "tp"), fitting]
    )  # speaks of five rows padded to six
    pair.outputs(pair.base.emit("multiply", [t, base]), gathered(pair, product, 0, "tp", 5))
    derived = derive(pair.tables())
    assert len(derived.proved) == 1
    (name,) = {d for d, _ in derived.unproved}
    known = [row for row in derived.program.relation("holds") if row[0] == name]
    assert bool(known) == (rows == 3)
