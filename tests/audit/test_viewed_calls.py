"""A call of somebody's own that sees its operand in another shape (`view_dim`): its factors say nothing of the dims of
the operand itself, so it is neither drafted over the turns of a loop nor on padded values."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz.padding_steps import gathered, uneven_shard
from scalify_dl.audit.fuzz.partitioner_steps import part
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

KIND = "custom:own.mix"
RULES = f"""
// [a, b, c] as [a * b, 2, c / 2]: mixes along the first of these
opaque("{KIND}", "mixes the first two dims, for either half of the last one").
.decl mixes(o:symbol)
mixes(o) :- op(o, _, "{KIND}").
view_dim(o, 0, 0, a * b) :- mixes(o), operand(o, 0, x), dim(x, 0, a), dim(x, 1, b).
view_dim(o, 0, 1, 2) :- mixes(o).
view_dim(o, 0, 2, c / 2) :- mixes(o), operand(o, 0, x), dim(x, 2, c).
result_view_dim(o, 0, d, n) :- mixes(o), view_dim(o, 0, d, n).
factor(o, 0, 0, 200) :- mixes(o).
factor(o, 0, d, d) :- mixes(o), (d = 1 ; d = 2).
result_factor(o, 0, 0, 300) :- mixes(o).
result_factor(o, 0, d, d) :- mixes(o), (d = 1 ; d = 2).
"""


def mixed(g: Graph, x: Tensor) -> Tensor:
    return g.add(KIND, [x], [("f32", x.shape)]).result


def over_blocks() -> Pair:
    """Block by block of what has the shape that the call sees: each block is seen in another one."""
    pair = Pair({"tp": 2})
    (x, dx), g = pair.input((2, 2, 8)), pair.dist
    y = g.emit("reshape", [dx], shape=(4, 2, 4))
    blocks = [mixed(g, part(g, y, 2, 2 * n, 2 * n + 2)) for n in range(2)]
    joined = g.emit("concatenate", blocks, dimension=2)
    pair.outputs(mixed(pair.base, x), g.emit("reshape", [joined], shape=(2, 2, 8)))
    return pair


def over_padding() -> Pair:
    """On shards that are padded along the second dim, in the shape in which the call sees them."""
    pair = Pair({"tp": 2})
    (x, dx), g = pair.input((2, 3, 4)), pair.dist
    shard = g.emit("reshape", [uneven_shard(pair, dx, 1, "tp")], shape=(2, 1, 8))
    whole = gathered(pair, g.emit("reshape", [mixed(g, shard)], shape=(2, 2, 4)), 1, "tp", 3)
    pair.outputs(mixed(pair.base, x), whole)
    return pair


def on_shards() -> Pair:
    """As the call sees it."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((2, 2, 4), {2: "tp"})
    pair.outputs(mixed(pair.base, x), mixed(pair.dist, dx))
    return pair


@pytest.mark.parametrize("build", [over_blocks, over_padding])
def test_a_call_that_sees_another_shape_is_not_drafted_on_the_dims_of_its_operand(build, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    rules = tmp_path / "own.dl"
    rules.write_text(RULES)
    tables = build().tables()
    derived = derive(tables, [rules])
    assert derived.unproved
    assert audit(tables, derived.corr, trials=2, declared=derived.declared()).false == []


def test_it_is_proved_on_dims_that_it_keeps_apart(tmp_path: Path) -> None:
    rules = tmp_path / "own.dl"
    rules.write_text(RULES)
    assert derive(on_shards().tables(), [rules]).proved
