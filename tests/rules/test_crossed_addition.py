"""Additions whose operands come in the other order, of values that are pending or scaled."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair


def added(*, reducer: str = "sum", own: float = 4.0, other: float = 4.0, dtype: str = "f32") -> Pair:
    """Rows divided and reduced, of two values, added crosswise, then reduced over the ranks."""
    pair = Pair({"dp": 2})
    graphs, values = (pair.base, pair.dist), []
    for by in (own, other):
        x, dx = pair.input((8, 3), {0: "dp"}, dtype=dtype)
        made = [x, dx]
        if dtype == "f32":
            parts = [g.splat(n, dtype, v.shape) for g, v, n in ((pair.base, x, 8.0), (pair.dist, dx, by))]
            made = [g.emit("divide", [v, n]) for g, v, n in zip(graphs, made, parts, strict=True)]
        made = [g.emit("reduce", [v], dimensions=[0], reducer=reducer) for g, v in zip(graphs, made, strict=True)]
        values.append(made)
    (a, da), (b, db) = values
    total = pair.dist.emit("add", [db, da])
    whole = pair.dist.emit("all-reduce", [total], reducer=reducer, groups=pair.groups("dp"))
    if dtype == "f32":
        whole = pair.dist.emit("divide", [whole, pair.dist.splat(2.0, dtype, (3,))])
    pair.outputs(pair.base.emit("add", [a, b]), whole)
    return pair


@pytest.mark.parametrize("pair", [added(), added(dtype="s32")], ids=["real", "integer"])
def test_sums_of_pending_and_scaled_values_are_recognised_in_either_order(pair: Pair) -> None:
    assert not derive(pair.tables()).unproved


@pytest.mark.parametrize("pair", [added(reducer="max"), added(own=8.0)], ids=["maxima", "another-scale"])
def test_what_does_not_pass_an_addition_is_not(pair: Pair) -> None:
    assert derive(pair.tables()).unproved
