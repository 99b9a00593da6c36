"""Asynchronous pairs say three times what is computed: operands and result at the start, the result when it is done."""

from __future__ import annotations

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers import hlo

from .test_edited_programs import function, module

DIFFERENCE = function("w", "%p = f32[4] parameter(0); %q = f32[4] parameter(1); ROOT %s = f32[4] subtract(%p, %q)")
CALLED = (
    "%x = f32[4] parameter(0); %y = f32[4] parameter(1); %s = {0} async-start(%x, %y), calls=%w;"
    " %u = {1} async-update(%s); ROOT %d = {2} async-done(%u)"
)
GATHERED = (
    "%x = f32[4] parameter(0); %s = {0} all-gather-start(%x), replica_groups={{{{0,1}}}}, dimensions={{0}};"
    " ROOT %d = {1} all-gather-done(%s)"
)
SENT = (
    "%x = f32[4] parameter(0); %s = {0} collective-permute-start(%x), source_target_pairs={{{{0,1}},{{1,0}}}};"
    " ROOT %d = {1} collective-permute-done(%s)"
)
PAIR = "((f32[4], f32[4]), f32[4], u32[])"


def read(text: str, *types: str) -> Graph:
    before = DIFFERENCE if text is CALLED else ""
    return hlo.read_text(module(text.format(*types), before, ", num_partitions=1, replica_count=2"), Mesh.parse("dp=2"))


@pytest.mark.parametrize(
    ("text", "types"),
    [
        (CALLED, (PAIR, PAIR, "f32[4]")),
        (GATHERED, ("(f32[4], f32[8])", "f32[8]")),
        (SENT, ("(f32[4], f32[4], u32[], u32[])", "f32[4]")),
    ],
)
def test_what_fits_is_read(text: str, types: tuple[str, ...]) -> None:
    assert read(text, *types).outputs[0].tensor.type == types[-1]


@pytest.mark.parametrize(
    ("text", "types"),
    [
        (CALLED, (other, PAIR, "f32[4]"))
        for other in (
            "((f32[4], f32[4]), f32[5], u32[])", "((f32[4], f32[3]), f32[4], u32[])", "((f32[4]), f32[4], u32[])",
            "(f32[4], (f32[4], f32[4]), u32[])", "((f32[4], f32[4]), bf16[4], u32[])", "f32[4]", "()",
        )
    ]
    + [
        (CALLED, (PAIR, "((f32[4], f32[4]), f32[5], u32[])", "f32[4]")),
        (CALLED, (PAIR, PAIR, "f32[5]")),
        (GATHERED, ("(f32[3], f32[8])", "f32[8]")),
        (GATHERED, ("(f32[4], f32[8])", "f32[4]")),
        (SENT, ("(f32[4], f32[5], u32[], u32[])", "f32[4]")),
        (SENT, ("(f32[5], f32[4], u32[], u32[])", "f32[4]")),
        (SENT, ("(f32[4], f32[4], u32[], u32[])", "bf16[4]")),
    ],
)  # fmt: skip
def test_what_does_not_is_bad_input(text: str, types: tuple[str, ...]) -> None:
    with pytest.raises(InputError):
        read(text, *types)
