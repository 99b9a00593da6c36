"""HLO text: tiles of memory, attributes that nothing reads, trip counts, groups and device orders."""

from __future__ import annotations

import numpy as np
import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Inexpressible
from tests.frontends.hlo.texts import X, read

TILED = """\
  %x = f32[4,4]{1,0:T(2,2)} parameter(0)
  %b = f32[16]{0} bitcast(%x)
  ROOT %y = f32[4,4]{1,0} reshape(%b)"""


def run(graph: Graph, x: np.ndarray) -> np.ndarray:
    """What a graph of reshapes and transposes makes of its input."""
    values = {graph.inputs[0].tensor: x}
    for op in graph.ops:
        value = values[op.operands[0]]
        values[op.result] = (
            value.reshape(op.result.shape) if op.kind == "reshape" else value.transpose(op.numbers["dimensions"])
        )
    return values[graph.outputs[0].tensor]


def test_a_bitcast_of_tiles_reads_them_in_the_order_of_memory() -> None:
    x = np.arange(16).reshape(4, 4)
    tiled = x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4)
    np.testing.assert_array_equal(run(read(TILED), x), tiled)


def test_a_bitcast_to_tiles_is_the_way_back() -> None:
    x = np.arange(16)
    graph = read("  %x = f32[16]{0} parameter(0)\n  ROOT %y = f32[4,4]{0,1:T(2,2)} bitcast(%x)")
    # memory: column block, row block, column, row
    np.testing.assert_array_equal(run(graph, x), x.reshape(2, 2, 2, 2).transpose(1, 3, 0, 2).reshape(4, 4))


def test_tiles_in_tiles_and_dims_of_one_element() -> None:
    x = np.arange(32).reshape(4, 8)
    graph = read("  %x = f32[4,8]{1,0:T(4,4)(2,1)} parameter(0)\n  ROOT %y = f32[32]{0} bitcast(%x)")
    memory = x.reshape(1, 4, 2, 4).transpose(0, 2, 1, 3).reshape(2, 2, 2, 4, 1).transpose(0, 1, 3, 2, 4)
    np.testing.assert_array_equal(run(graph, x), memory.reshape(32))
    graph = read("  %x = f32[8,100]{1,0:T(8,128)} parameter(0)\n  ROOT %y = f32[1,8,100]{2,1,0:T(8,128)} bitcast(%x)")
    assert [op.kind for op in graph.ops] == ["reshape"]


@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{1,0:D(D,C)}", "{1,0:T(2,*)}"])
def test_a_bitcast_over_gaps_or_of_another_format_is_unknown(layout: str) -> None:
    graph = read(f"  %x = f32[4,4]{layout} parameter(0)\n  ROOT %y = f32[16]{{0}} bitcast(%x)")
    assert [op.kind for op in graph.ops] == ["unknown:bitcast"]


def test_an_attribute_that_no_lowering_reads_makes_the_instruction_unknown() -> None:
    graph = read(X + "  ROOT %y = f32[8,16] add(%x, %x), saturate=true")
    assert [op.kind for op in graph.ops] == ["unknown:add"]
    graph = read(X + '  ROOT %y = f32[8,16] add(%x, %x), metadata={op_name="a"}, backend_config="b"')
    assert [op.kind for op in graph.ops] == ["add"]


def test_an_attribute_given_twice_is_bad_input() -> None:
    with pytest.raises(InputError, match="given twice"):
        read(X + "  ROOT %y = f32[16,8] transpose(%x), dimensions={1,0}, dimensions={0,1}")


def test_a_value_that_is_not_of_the_declared_type_is_bad_input() -> None:
    for line in ("f32[8,8] copy(%x)", "bf16[8,16] copy(%x)", "s32[8,16] optimization-barrier(%x)"):
        with pytest.raises(InputError, match="is declared as"):
            read(X + f"  ROOT %y = {line}")


def test_the_size_of_a_dim_is_a_number() -> None:
    graph = read(X + "  ROOT %y = s32[] get-dimension-size(%x), dimensions={1}")
    (literal,) = [op.result.literal for op in graph.ops if op.kind == "constant"]
    assert (literal.text, graph.outputs[0].tensor.dtype) == ("16", "s32")
    with pytest.raises(InputError, match=r"dimensions=\{2\}"):
        read(X + "  ROOT %y = s32[] get-dimension-size(%x), dimensions={2}")


def test_a_custom_call_with_a_side_effect_is_unknown() -> None:
    graph = read(X + '  ROOT %y = f32[8,16] custom-call(%x), custom_call_target="f", custom_call_has_side_effect=true')
    assert [op.kind for op in graph.ops] == ["unknown:custom-call"]


LOOP = """\
%cond (c: (s32[], f32[8,16])) -> pred[] {
  %c = (s32[], f32[8,16]) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %n = s32[] constant(BOUND)
  ROOT %t = pred[] compare(%i, %n), direction=DIRECTION
}
%body (b: (s32[], f32[8,16])) -> (s32[], f32[8,16]) {
  %b = (s32[], f32[8,16]) parameter(0)
  %j = s32[] get-tuple-element(%b), index=0
  %v = f32[8,16] get-tuple-element(%b), index=1
  %one = s32[] constant(STEP)
  %next = s32[] add(%j, %one)
  %w = f32[8,16] add(%v, %v)
  ROOT %r = (s32[], f32[8,16]) tuple(%next, %w)
}
"""
ENTRY = """\
  %x = f32[8,16] parameter(0)
  %zero = s32[] constant(0)
  %init = (s32[], f32[8,16]) tuple(%zero, %x)
  %l = (s32[], f32[8,16]) while(%init), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %y = f32[8,16] get-tuple-element(%l), index=1"""


def loop(bound: int, direction: str = "LT", step: int = 1, dtype: str = "s32") -> str:
    text = LOOP.replace("BOUND", str(bound)).replace("DIRECTION", direction).replace("STEP", str(step))
    return text.replace("s32", dtype)


def test_a_known_trip_count_that_the_condition_contradicts_is_bad_input() -> None:
    assert read(ENTRY, loop(5)).ops[-1].numbers["trip_count"] == [5]
    with pytest.raises(InputError, match="known_trip_count says 5 steps, its condition counts 7"):
        read(ENTRY, loop(7))
    widened = "%n = s32[] convert(%i)\n  ROOT"  # a counter of u8 that wraps round before it exceeds 299
    endless = loop(9, dtype="u8").replace("%n = u8[] constant(9)", "%m = s32[] constant(300)")
    endless = endless.replace("ROOT", widened, 1).replace("compare(%i, %n)", "compare(%n, %m)")
    with pytest.raises(InputError, match="known_trip_count says 300 steps, its condition counts 301"):
        read(ENTRY.replace("s32", "u8").replace('"5"', '"300"'), endless)


def test_a_known_trip_count_that_cannot_be_counted_is_an_assumption() -> None:
    graph = read(ENTRY.replace("%zero = s32[] constant(0)", "%zero = s32[] parameter(1)"), loop(5))
    assert graph.ops[-1].numbers["trip_count"] == [5]
    assert [(a.text, a.why) for a in graph.assumptions] == [
        ("the loop runs 5 times, as the dump says (known_trip_count)", "annotation")
    ]


@pytest.mark.parametrize("op", ["maximum", "add"])
def test_long_chains_of_integers_in_a_loop_are_followed(op: str) -> None:
    """Sums of what is not known, too, each of which is read twice."""
    chain = "\n".join(f"  %k{n + 1} = s32[] {op}(%k{n}, %k{n})" for n in range(1200))
    start = "%zero = s32[] constant(0)" if op == "maximum" else "%zero = s32[] parameter(1)"
    counting = loop(5).replace("%next = s32[] add(%j, %one)", f"%k0 = s32[] add(%j, %one)\n{chain}")
    graph = read(ENTRY.replace("%zero = s32[] constant(0)", start), counting.replace("%next", "%k1200"))
    assert graph.ops[-1].numbers["trip_count"] == [5]
    assert len(graph.assumptions) == 1


def test_a_known_trip_count_of_a_counter_that_wraps_round_is_not_believed() -> None:
    """255 is never reached by steps that wrap round before it, nor exceeded by a u8."""
    for counting in (loop(255, "LE", 1, "u8"), loop(255, "NE", 2, "u8"), loop(-1, "GE", 1, "s8")):
        graph = read(ENTRY.replace("s32", "u8" if "u8" in counting else "s8"), counting)
        assert "trip_count" not in graph.ops[-1].numbers
        assert not graph.assumptions


@pytest.mark.parametrize(
    ("bound", "direction", "step", "trips"), [(5, "NE", 1, 5), (-6, "NE", -2, 3), (0, "EQ", 1, 1), (3, "EQ", 1, 0)]
)
def test_loops_until_a_number_are_counted(bound: int, direction: str, step: int, trips: int) -> None:
    entry = ENTRY.replace(', backend_config={"known_trip_count":{"n":"5"}}', "")
    assert read(entry, loop(bound, direction, step)).ops[-1].numbers["trip_count"] == [trips]


def test_a_counter_that_wraps_round_is_not_counted() -> None:
    entry = ENTRY.replace("s32", "s8").replace(', backend_config={"known_trip_count":{"n":"5"}}', "")
    assert "trip_count" not in read(entry, loop(127, "LT", 100, "s8")).ops[-1].numbers
    assert read(entry, loop(120, "LT", 60, "s8")).ops[-1].numbers["trip_count"] == [2]


def test_a_broadcast_with_a_channel_goes_over_partitions() -> None:
    graph = read(
        X + "  ROOT %y = f32[8,16] collective-broadcast(%x), channel_id=1, replica_groups={{0,1},{2,3}}",
        mesh="tp=4",
        header=", num_partitions=4",
    )
    assert graph.ops[-1].groups == [[0, 1], [2, 3]]


def test_a_broadcast_that_leaves_ranks_out_is_unknown() -> None:
    graph = read(
        X + "  ROOT %y = f32[8,16] collective-broadcast(%x), channel_id=1, replica_groups={{1,0}}",
        mesh="tp=4",
        header=", num_partitions=4",
    )
    assert graph.ops[-1].kind == "unknown:collective-broadcast"


def test_a_device_order_that_no_layout_says_leaves_the_input_unplaced() -> None:
    graph = read(
        "  %x = f32[4,16] parameter(0), sharding={devices=[2,1]1,0}\n  ROOT %y = f32[4,16] add(%x, %x)", mesh="tp=2"
    )
    placement = graph.inputs[0].placement
    assert placement is not None
    with pytest.raises(Inexpressible, match="does not split over digits"):
        placement.layout((8, 16), Mesh.parse("tp=2"))
