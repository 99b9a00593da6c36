"""What becomes of collectives, views, constants and random ops."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.shapes import check
from scalify_dl.readers.fx import NO_REDUCTIONS, read_text
from scalify_dl.readers.fx.annotation import Annotations

MESH = Mesh.parse("tp=2")


def graph(
    *lines: str, signature: str = 'x: "f32[4, 6]"', returned: str = "(y,)", groups: bool = True, base: bool = False,
    reductions: Mapping[str, str] = NO_REDUCTIONS,
) -> Graph:  # fmt: skip
    body = "".join(f"        {line}\n" for line in lines)
    text = f"class G(torch.nn.Module):\n    def forward(self, {signature}):\n{body}        return {returned}\n"
    known = Annotations(groups={"0": [0, 1]} if groups else {}, reductions=reductions)
    found = read_text(text, None if base else MESH, file="g.fx.txt", annotations=known)
    check(found)
    return found


def kinds(found: Graph) -> list[str]:
    return [op.kind for op in found.ops]


def test_functional_collectives_have_their_members() -> None:
    found = graph(
        "a = torch.ops._c10d_functional.all_reduce.default(x, 'max', '0')",
        'w: "f32[4, 6]" = torch.ops._c10d_functional.wait_tensor.default(a);  a = None',
        "g: \"f32[8, 6]\" = torch.ops._c10d_functional.all_gather_into_tensor.default(w, 2, '0')",
        "r: \"f32[4, 6]\" = torch.ops._c10d_functional.reduce_scatter_tensor.default(g, 'avg', 2, '0')",
        "y: \"f32[4, 6]\" = torch.ops._c10d_functional.all_to_all_single.default(r, [2, 2], [2, 2], '0')",
    )
    assert kinds(found) == [
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "constant",
        "broadcast",
        "multiply",
        "all-to-all",
    ]
    assert all(op.groups == [[0, 1]] for op in found.ops if op.groups)
    assert found.ops[0].symbols["reducer"] == ["max"]
    assert found.ops[3].result.literal is not None
    assert found.ops[3].result.literal.rational == Fraction(1, 2)


def test_groups_without_members_keep_their_name() -> None:
    found = graph("y: \"f32[4, 6]\" = torch.ops.vllm.all_reduce.default(x, 'tp:0')", groups=False)
    assert (found.ops[0].groups, found.ops[0].group_name) == (None, "tp:0")


def test_a_baseline_is_alone_in_every_group() -> None:
    line = "y: \"f32[4, 6]\" = torch.ops._c10d_functional.all_reduce.default(x, 'sum', '7')"
    assert kinds(graph(line, groups=False, base=True)) == []


def test_a_baseline_over_several_ranks_is_refused() -> None:
    line = "y: \"f32[4, 6]\" = torch.ops._c10d_functional.all_reduce.default(x, 'sum', '0')"
    with pytest.raises(InputError, match="swapped"):
        graph(line, base=True)


def test_unequal_all_to_all_is_unknown() -> None:
    found = graph("y: \"f32[4, 6]\" = torch.ops._c10d_functional.all_to_all_single.default(x, [1, 3], [3, 1], '0')")
    assert kinds(found) == ["unknown:_c10d_functional.all_to_all_single.default"]


def test_collectives_in_place_are_values() -> None:
    found = graph(
        'c: "f32[4, 6]" = torch.ops.aten.clone.default(x)',
        "_torchbind_obj0 = self._torchbind_obj0",
        "_torchbind_obj1 = self._torchbind_obj1",
        "allreduce_ = torch.ops.c10d.allreduce_.default([c], _torchbind_obj0, _torchbind_obj1, None, False)",
        'y: "f32[4, 6]" = torch.ops.aten.neg.default(c)',
        reductions={"_torchbind_obj1": "sum"},
    )
    assert kinds(found) == ["all-reduce", "negate"]
    assert found.ops[1].operands[0] is found.ops[0].result


def test_what_a_write_may_have_changed_is_unknown() -> None:
    found = graph(
        'r: "f32[24]" = torch.ops.aten.reshape.default(x, [24])',
        'z: "f32[24]" = torch.ops.aten.add_.Tensor(r, 1)',
        'y: "f32[4, 6]" = torch.ops.aten.neg.default(x)',
    )
    (unknown,) = (op for op in found.ops if op.kind.startswith("unknown:"))
    assert "not clear from the text" in unknown.symbols["reason"][0]
    assert next(op for op in found.ops if op.kind == "negate").operands == unknown.results


def test_to_a_device_may_be_to_another_dtype() -> None:
    line = "y: \"bf16[4, 6]\" = torch.ops.aten.to.device(x, device(type='cpu'), torch.bfloat16)"
    assert kinds(graph(line)) == ["convert"]


def test_views_of_views_are_one_view() -> None:
    found = graph(
        'a: "f32[24]" = torch.ops.aten.view.default(x, [-1])',
        'b: "f32[4, 6]" = torch.ops.aten.view.default(a, [4, 6])',
        'c: "f32[6, 4]" = torch.ops.aten.t.default(b)',
        'y: "f32[4, 6]" = torch.ops.aten.t.default(c)',
    )
    assert found.ops == []
    assert found.outputs[0].tensor is found.inputs[0].tensor
    assert found.outputs[0].alias == "y"
    assert set(found.aliases) == {"b", "y"}


def test_unprinted_constants_are_elided() -> None:
    found = graph(
        "_tensor_constant0 = self._tensor_constant0",
        'k: "f32[]" = torch.ops.aten.lift_fresh_copy.default(_tensor_constant0)',
        'y: "f32[4, 6]" = torch.ops.aten.mul.Tensor(x, k)',
    )
    constant = found.ops[0]
    assert (constant.name, constant.result.type) == ("_tensor_constant0", "f32[]")
    assert constant.result.literal is not None
    assert constant.result.literal.is_elided


def test_uninitialised_memory_is_not_read_with_beta_zero() -> None:
    found = graph(
        'e: "f32[2, 4, 5]" = torch.ops.aten.empty.memory_format([2, 4, 5], dtype = torch.float32)',
        'y: "f32[2, 4, 5]" = torch.ops.aten.baddbmm.default(e, a, b, beta = 0.0, alpha = 0.5)',
        signature='a: "f32[2, 4, 3]", b: "f32[2, 3, 5]"',
    )
    assert kinds(found) == ["dot", "constant", "broadcast", "multiply"]


def test_dropout_is_a_random_mask_and_an_exact_scale() -> None:
    found = graph(
        "d = torch.ops.aten.native_dropout.default(x, 0.1, True)",
        'y: "f32[4, 6]" = d[0]',
        'm: "b8[4, 6]" = d[1];  d = None',
        returned="(y, m)",
    )
    assert kinds(found) == ["dropout-mask", "convert", "multiply", "constant", "broadcast", "multiply"]
    assert found.ops[0].symbols["probability"] == ["0.1"]
    assert found.ops[3].result.literal is not None
    assert found.ops[3].result.literal.rational == Fraction(10, 9)


def test_only_used_pieces_of_a_split_are_emitted() -> None:
    unequal = graph(
        "s = torch.ops.aten.split_with_sizes.default(x, [1, 2, 3], 1)",
        'y: "f32[4, 3]" = s[2];  s = None',
    )
    assert kinds(unequal) == ["slice"]
    assert unequal.ops[0].numbers["start"] == [0, 3]


def test_equal_pieces_are_blocks_of_a_dim() -> None:
    found = graph("s = torch.ops.aten.split.Tensor(x, 2, 1)", 'y: "f32[4, 2]" = s[2];  s = None')
    assert kinds(found) == ["reshape", "slice", "reshape"]
    assert found.ops[1].numbers["start"] == [0, 2, 0]


def test_gathered_pieces_put_together_along_another_dim_are_reshapes() -> None:
    found = graph(
        "g: \"f32[8, 6]\" = torch.ops._c10d_functional.all_gather_into_tensor.default(x, 2, '0')",
        "s = torch.ops.aten.split.Tensor(g, 4)",
        'a: "f32[4, 6]" = s[0]',
        'b: "f32[4, 6]" = s[1];  s = None',
        'y: "f32[4, 12]" = torch.ops.aten.cat.default([a, b], 1)',
    )
    assert kinds(found) == ["all-gather", "reshape", "transpose", "reshape"]


def test_mutating_custom_kernels_give_what_they_write() -> None:
    found = graph(
        'e: "f32[4, 6]" = torch.ops.aten.empty_like.default(x)',
        "k = torch.ops.higher_order.auto_functionalized(torch.ops._C.rms_norm.default, result = e, input = x, weight = w, epsilon = 1e-06)",
        'y: "f32[4, 6]" = k[1];  k = None',
        signature='x: "f32[4, 6]", w: "f32[6]"',
    )
    assert "rsqrt" in kinds(found)
    assert not any(kind.startswith(("custom:", "unknown:", "empty")) for kind in kinds(found))


def test_collectives_stay_though_nobody_uses_them() -> None:
    found = graph("z: \"f32[4, 6]\" = torch.ops._c10d_functional.all_reduce.default(x, 'sum', '0')", returned="(x,)")
    assert kinds(found) == ["all-reduce"]


def test_memory_that_a_permutation_overwrites_is_not_read() -> None:
    found = graph(
        "s = torch.ops.aten.sort.default(i)",
        'p: "i64[4]" = s[1];  s = None',
        'e: "i64[4]" = torch.ops.aten.empty_like.default(p)',
        'a: "i64[4]" = torch.ops.aten.arange.default(4)',
        'y: "i64[4]" = torch.ops.aten.index_put.default(e, [p], a)',
        signature='i: "i64[4]"',
    )
    assert "empty" not in kinds(found)


@pytest.mark.parametrize("kept", [(0, 1, 2), (0, 2), (0,)])
def test_statistics_of_a_library_op_have_the_printed_type(kept: tuple[int, ...]) -> None:
    types = {0: "f16[4, 6]", 1: "f32[4]", 2: "f32[4]"}
    found = graph(
        "k = torch.ops.apex.fused_layer_norm_affine_fwd.default(x, w, b, [6], 1e-05)",
        *[f'r{i}: "{types[i]}" = k[{i}]' for i in kept],
        signature='x: "f16[4, 6]", w: "f16[6]", b: "f16[6]"',
        returned=f"({', '.join(f'r{i}' for i in kept)},)",
    )
    assert [port.tensor.dtype for port in found.outputs] == [types[i].split("[")[0] for i in kept]
    assert not any(kind.startswith("unknown:") for kind in kinds(found))


def test_any_over_no_dims_reduces_nothing() -> None:
    found = graph('y: "b8[4, 6]" = torch.ops.aten.any.dims(x, [])', signature='x: "b8[4, 6]"')
    assert kinds(found) == []


@pytest.mark.parametrize(
    "line",
    [
        'y: "f32[4, 6]" = torch.ops.aten.neg.default(q)',
        'y: "f32[4, 7]" = torch.ops.aten.neg.default(x)',
        'y: "f32[4, 99999999999]" = torch.ops.aten.neg.default(x)',
        "y = x.neg()",
        'c: "f32[6, 4]" = torch.ops.aten.reshape.default(x, [6, 4]);  y: "f32[6, 4]" = torch.ops.aten.add_.Tensor(c, 1)',
        'y: "f32[4, 6]" = torch.ops.aten.add.Tensor(x, nothing[0])',
    ],
)
def test_errors_name_the_file_and_the_line(line: str) -> None:
    with pytest.raises(InputError, match=r"^g\.fx\.txt:3"):
        graph(line)


def test_what_memory_holds_stays_where_the_op_that_reads_it_first_is_unknown() -> None:
    found = graph(
        'v: "f32[4, 6]" = torch.ops.aten.type_as.default(x, x)',
        'w: "f32[4, 6]" = torch.ops.aten.tril_.default(x)',
        "y: \"f32[4, 6]\" = torch.ops.aten.scatter_reduce.two_out(v, 1, i, z, 'mean', out = o)",
        signature='x: "f32[4, 6]", i: "i64[4, 0]", z: "f32[4, 0]", o: "f32[4]"',
        returned="(v, y)",
    )
    made = {result for op in found.ops for result in op.results} | {port.tensor for port in found.inputs}
    assert all(operand in made for op in found.ops for operand in op.operands)


def test_a_number_that_a_narrow_type_rounds_keeps_its_cast() -> None:
    """0.1 in bf16 is 0.10009765625, 70000 in f16 is infinite: the cast of either is no constant of that text."""
    for value, dtype, shown, cast in [
        ("0.1", "torch.bfloat16", "bf16", True),
        ("70000.0", "torch.float16", "f16", True),
        ("-1.5", "torch.bfloat16", "bf16", False),
        ("-3.3895313892515355e+38", "torch.bfloat16", "bf16", False),
        ("-inf", "torch.float16", "f16", False),
        ("0.1", "torch.float32", "f32", False),
    ]:
        found = graph(
            f'c: "{shown}[]" = torch.ops.aten.full.default([], {value}, dtype = {dtype})',
            'y: "f64[]" = torch.ops.aten._to_copy.default(c, dtype = torch.float64)',
        )
        assert ("convert" in kinds(found)) == cast
