"""Calls that are linear in several operands together, and in others by themselves: each family has its own scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

GATED = """
opaque("custom:gated", "(a + c) * g"). elementwise("custom:gated").
linear_operand("custom:gated", 0, 1, "sum"). linear_operand("custom:gated", 2, 1, "sum").
linear_operand("custom:gated", 1, 2, "sum").
"""
MIXED = """
opaque("custom:mixed", "a + c, where c may be integers"). elementwise("custom:mixed").
linear_operand("custom:mixed", 0, 1, "sum"). linear_operand("custom:mixed", 1, 1, "sum").
"""


def call(g: Graph, kind: str, operands: list[Tensor]) -> Tensor:
    return g.add(f"custom:{kind}", operands, [("f32", operands[0].shape)]).result


def gated(a: int, g: int, c: int) -> Pair:
    """Operands that are so many times the baseline's, by all-reduces over tp=2 or tp=2, dp=2; the result is halved."""
    pair = Pair({"dp": 2, "tp": 2})
    values = [pair.input((4,)) for _ in range(3)]

    def times(x: Tensor, n: int) -> Tensor:
        for axis in ("tp", "dp")[: n.bit_length() - 1]:
            x = pair.dist.emit("all-reduce", [x], reducer="sum", groups=pair.groups(axis))
        return x

    result = call(pair.dist, "gated", [times(dx, n) for (_, dx), n in zip(values, (a, g, c), strict=True)])
    half = pair.dist.emit("multiply", [result, pair.dist.splat(1 / (a * g), "f32", (4,))])
    pair.outputs(call(pair.base, "gated", [x for x, _ in values]), half)
    return pair


@pytest.mark.parametrize(
    ("scales", "right"),
    [
        ((1, 1, 1), True),
        ((2, 2, 2), True),
        ((2, 1, 2), True),
        ((1, 2, 1), True),
        ((1, 2, 2), False),
        ((2, 2, 4), False),
    ],
)
def test_operands_of_a_family_have_one_scale_whatever_the_others_have(
    tmp_path: Path, scales: tuple[int, int, int], right: bool
) -> None:
    rules = tmp_path / "gated.dl"
    rules.write_text(GATED)
    tables = gated(*scales).tables()
    derived = derive(tables, [rules])
    assert bool(derived.proved) == right
    assert audit(tables, derived.claims, declared=derived.declared()).false == []


@pytest.mark.parametrize("scaled", [False, True])
def test_what_no_reduction_passes_belongs_to_its_family(tmp_path: Path, scaled: bool) -> None:
    """a is pending, or twice the baseline's; beside it are integers, through which neither passes."""
    rules = tmp_path / "mixed.dl"
    rules.write_text(MIXED)
    pair = Pair({"tp": 2})
    (a, da), (c, dc) = pair.input((4, 6), {} if scaled else {1: "tp"}), pair.input((4,), dtype="s32", range=(0, 5))
    top = pair.base.emit("reduce", [a], dimensions=[1], reducer="sum")
    part = pair.dist.emit("reduce", [da], dimensions=[1], reducer="sum")
    if scaled:
        part = pair.dist.emit("all-reduce", [part], reducer="sum", groups=pair.groups("tp"))
    result = call(pair.dist, "mixed", [part, dc])
    if scaled:
        result = pair.dist.emit("multiply", [result, pair.dist.splat(0.5, "f32", (4,))])
    else:
        result = pair.dist.emit("all-reduce", [result], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(call(pair.base, "mixed", [top, c]), result)
    derived = derive(pair.tables(), [rules])
    assert not derived.proved
