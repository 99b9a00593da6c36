"""A call of somebody's own that reduces one index and needs another one whole: they are not taken for each other where
one of them has one element."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair

KIND = "custom:own.spread"
RULES = f"""
// [a, b]: how far the numbers of each row are apart, added up
opaque("{KIND}", "adds up something of every row").
.decl spreads(o:symbol)
spreads(o) :- op(o, _, "{KIND}").
factor(o, 0, 0, 100) :- spreads(o).
factor(o, 0, 1, 200) :- spreads(o).
reduction(o, "sum") :- spreads(o).
"""


def spread(shape: tuple[int, int], *, turned: bool) -> Pair:
    """The call on a value of which every rank has all, and on the value again, or its transpose."""
    pair = Pair({"tp": 2})
    x, dx = pair.input(shape)
    values = [dx, pair.dist.emit("transpose", [dx], dimensions=[1, 0])] if turned else [dx]
    expected = pair.base.add(KIND, [x], [("f32", ())]).result
    for value in values:
        pair.outputs(expected, pair.dist.add(KIND, [value], [("f32", ())]).result)
    return pair


@pytest.mark.parametrize("shape", [(1, 4), (4, 1)])
def test_a_reduced_index_is_not_taken_for_a_whole_one(shape: tuple[int, int], tmp_path: Path) -> None:
    rules = tmp_path / "own.dl"
    rules.write_text(RULES)
    tables = spread(shape, turned=True).tables()
    derived = derive(tables, [rules])
    assert len(derived.unproved) == 1
    assert audit(tables, derived.claims, trials=2, declared=derived.declared()).false == []


def test_the_same_call_is_proved(tmp_path: Path) -> None:
    rules = tmp_path / "own.dl"
    rules.write_text(RULES)
    assert derive(spread((4, 3), turned=False).tables(), [rules]).proved
