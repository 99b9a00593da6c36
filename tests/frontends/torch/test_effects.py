"""Ops that are not in torch's schemas, sub-modules and collectives: what they may write is never lost."""

from __future__ import annotations

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers.fx import read_text
from scalify_dl.readers.fx.annotation import Annotations

SIGNATURE = 'x: "f32[4, 6]", z: "f32[4, 6]", w: "f32[6]", b: "f32[8, 6]"'
MESH = Mesh.parse("tp=2")
KNOWN = Annotations(groups={"0": [0, 1]}, reductions={"_torchbind_obj1": "sum"})


def graph(*lines: str, returned: str = "(y,)", more: str = "") -> Graph:
    body = "".join(f"        {line}\n" for line in lines)
    text = f"class G(torch.nn.Module):\n    def forward(self, {SIGNATURE}):\n{body}        return {returned}\n{more}"
    return read_text(text, MESH, file="g.fx.txt", annotations=KNOWN)


def unknown(found: Graph, tensor: Tensor) -> bool:
    """Whether a tensor depends on an op without a meaning."""
    made = {result: op for op in found.ops for result in op.results}
    todo, seen = [tensor], set()
    while todo:
        x = todo.pop()
        op = made.get(x)
        if op is None or x in seen:
            continue
        seen.add(x)
        if op.kind.startswith(("unknown:", "custom:")):
            return True
        todo.extend(op.operands)
    return False


READ = 'y: "f32[4, 6]" = torch.ops.aten.neg.default(x)'


@pytest.mark.parametrize(
    "line",
    [
        "k = torch.ops.mylib.scale_.default(x, 2.0)",
        'k: "f32[4, 6]" = torch.ops.mylib.scale_.default(x, 2.0)',
        "k = torch.ops.mylib.update.default(x, z)",
        'k: "f32[4, 6]" = torch.ops.mylib.update.default(z, out = x)',
        "torch.ops.mylib.update.default([z, x])",
        "k = torch.ops.higher_order.triton_kernel_wrapper_mutation(kernel_idx = 0, kwargs = {'a': x, 'b': z})",
        "k = torch.ops.symm_mem.two_shot_all_reduce_.default(x, 'sum', '0')",
        "k = torch.ops.c10d.recv_.default([x], self.pg, 0, 0)",
        "k = torch.ops.c10d.reduce_.default([x], self.pg, self.op, 0, 0)",
        "k = torch.ops.c10d.scatter_.default([x], [[z, z]], self.pg, 0)",
        "k = torch.ops.c10d.gather_.default([[x, w]], [z], self.pg, 0)",
        "k = torch.ops.c10d.alltoall_.default([x], [z], self.pg)",
        "k = torch.ops.c10d.new_collective_.default([x], self.pg)",
        "k = torch.ops.aten.bernoulli_.Tensor(x, z)",
        "k = torch.ops.aten.brand_new_.default(x)",
        "k = torch.ops.inductor.resize_storage_bytes_.default(x, 0)",
        "k = torch.ops.inductor.accumulate_grad_.default(x, z)",
        "k = torch.ops.aten.index_fill_.int_Scalar(x, 0, i, 1.0)",
        "k = torch.ops.aten.set_data.default(x, z)",
    ],
)
def test_what_is_written_by_what_is_not_known_is_unknown(line: str) -> None:
    if "index_fill" in line:
        line = line.replace(", i,", ", z,")
    found = graph(line, READ)
    if "set_data" in line:
        assert found.ops[0].operands == [found.inputs[1].tensor]
    elif "bernoulli" in line:
        assert "rng-uniform" in [op.kind for op in found.ops]
    else:
        assert unknown(found, found.outputs[0].tensor)
    assert any(port.holds is found.inputs[0] for port in found.outputs)


def test_a_custom_op_whose_results_are_read_is_assumed_to_write_nothing() -> None:
    found = graph('k: "f32[4, 6]" = torch.ops.mylib.f.default(x)', READ, returned="(y, k)")
    assert not unknown(found, found.outputs[0].tensor)
    assert any("`mylib.f` writes none of its arguments" in assumption.text for assumption in found.assumptions)


def test_a_custom_op_whose_result_only_dead_code_reads_is_an_effect() -> None:
    found = graph(
        'k: "f32[4, 6]" = torch.ops.mylib.f.default(x)', 'd: "f32[4, 6]" = torch.ops.aten.neg.default(k)', READ
    )
    assert unknown(found, found.outputs[0].tensor)


def test_effects_reach_through_views() -> None:
    found = graph(
        'v: "f32[6]" = torch.ops.aten.select.int(x, 0, 1)',
        "k = torch.ops.mylib.scale_.default(v, 2.0)",
        READ,
    )
    assert unknown(found, found.outputs[0].tensor)


def test_a_kernel_that_is_called_as_it_is_writes_what_its_lowering_says() -> None:
    found = graph(
        "k = torch.ops._C.fused_add_rms_norm.default(x, z, w, 1e-06)",
        'y: "f32[4, 6]" = torch.ops.aten.add.Tensor(x, z)',
    )
    assert not unknown(found, found.outputs[0].tensor)
    assert [port.holds and port.holds.tensor.name for port in found.outputs] == [None, "x", "z"]
    (total,) = (op for op in found.ops if op.kind == "add" and op.operands == [p.tensor for p in found.inputs[:2]])
    assert found.outputs[2].tensor is total.result


INNER = """
    class sub_0(torch.nn.Module):
        def forward(self, a: "f32[4, 6]", c: "f32[4, 6]"):
            r: "f32[4, 6]" = torch.ops.aten.mul_.Tensor(a, 2.0);  a = None
            return {returned}
"""


@pytest.mark.parametrize(
    ("call", "returned"),
    [
        ("k = self.sub_0(x, z)", "(r,)"),
        ('k: "f32[4, 6]" = self.sub_0(x, z)', "r"),
        ("k = torch.ops.higher_order.wrap(sub_0, x, z)", "(c,)"),
        ("k = torch.ops.higher_order.invoke_subgraph(sub_0, 'sub_0', x, z)", "(c,)"),
    ],
)
def test_a_sub_module_that_writes_an_argument_is_seen_by_its_caller(call: str, returned: str) -> None:
    found = graph("sub_0 = self.sub_0", call, READ, more=INNER.replace("{returned}", returned))
    negated = next(op for op in found.ops if op.kind == "negate")
    assert [op.kind for op in found.ops if op.results == negated.operands] == ["multiply"]
    assert found.outputs[-1].holds is found.inputs[0]


@pytest.mark.parametrize("name", ["cond", "while_loop", "map_impl", "scan"])
def test_a_body_that_may_write_loses_what_it_is_given(name: str) -> None:
    call = f"k = torch.ops.higher_order.{name}(sub_0, [x, z])"
    found = graph("sub_0 = self.sub_0", call, READ, more=INNER.replace("{returned}", "(r,)"))
    assert unknown(found, found.outputs[0].tensor)
    pure = INNER.replace("{returned}", "(r,)").replace("mul_.", "mul.")
    found = graph("sub_0 = self.sub_0", call, READ, more=pure)
    assert not unknown(found, found.outputs[0].tensor)


def test_collectives_into_lists_and_views_write_them() -> None:
    found = graph(
        "s = torch.ops.aten.split.Tensor(b, 4)",
        'p: "f32[4, 6]" = s[0]',
        'q: "f32[4, 6]" = s[1]',
        "_torchbind_obj0 = self._torchbind_obj0",
        "_torchbind_obj1 = self._torchbind_obj1",
        "k = torch.ops.c10d.allgather_.default([[p, q]], [x], _torchbind_obj0)",
        "l = torch.ops.c10d.allreduce_coalesced_.default([z], _torchbind_obj0, _torchbind_obj1)",
        'y: "f32[8, 6]" = torch.ops.aten.neg.default(b)',
    )
    assert not unknown(found, found.outputs[0].tensor)
    assert [port.holds and port.holds.tensor.name for port in found.outputs] == [None, "z", "b"]
    assert [op.kind for op in found.ops if op.kind.startswith("all-")] == ["all-gather", "all-reduce"]


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("k = torch.ops.c10d.alltoall_base_.default(b, b, _torchbind_obj0, [], [])", False),
        ("k = torch.ops.c10d.alltoall_base_.default(p, q, _torchbind_obj0, [], [])", True),
        ("k = torch.ops.c10d._allgather_base_.default(b, q, _torchbind_obj0)", True),
        ("k = torch.ops.c10d._allgather_base_.default(b, m, _torchbind_obj0)", False),
        ("k = torch.ops.c10d._reduce_scatter_base_.default(p, b, _torchbind_obj0, _torchbind_obj1)", True),
        ("k = torch.ops.c10d._reduce_scatter_base_.default(m, b, _torchbind_obj0, _torchbind_obj1)", False),
        ("k = torch.ops.c10d.reduce_scatter_.default([m], [[p, q]], _torchbind_obj0, _torchbind_obj1)", False),
        ("k = torch.ops.c10d.allgather_.default([[p, m]], [x], _torchbind_obj0)", False),
        ("k = torch.ops.c10d.allreduce_coalesced_.default([p, m], _torchbind_obj0, _torchbind_obj1)", False),
        ("k = torch.ops._c10d_functional.all_reduce_coalesced_.default([b, p], 'sum', '0')", False),
        ("k = torch.ops._c10d_functional.all_gather_into_tensor_out.default(m, 2, '0', out = b)", False),
        ("k = torch.ops._c10d_functional.all_reduce_.default(b, 'sum', '0')", True),
    ],
)
def test_a_collective_that_writes_what_it_still_reads_is_unknown(line: str, known: bool) -> None:
    """Backends write while they read. A rank's own part may stay where it is; that it is its own is listed."""
    found = graph(
        "s = torch.ops.aten.split.Tensor(b, 4)",
        'p: "f32[4, 6]" = s[0]',
        'q: "f32[4, 6]" = s[1]',
        'm: "f32[4, 6]" = torch.ops.aten.slice.Tensor(b, 0, 2, 6)',
        "_torchbind_obj0 = self._torchbind_obj0",
        "_torchbind_obj1 = self._torchbind_obj1",
        line,
        'y: "f32[8, 6]" = torch.ops.aten.neg.default(b)',
    )
    assert unknown(found, found.outputs[0].tensor) is not known
    listed = [assumption.why for assumption in found.assumptions]
    assert listed == (["own part"] if known and "base_" in line and "alltoall" not in line else [])


def test_what_a_written_input_holds_is_an_output_that_pairs_by_the_input() -> None:
    found = graph('k: "f32[4, 6]" = torch.ops.aten.mul_.Tensor(z, 2.0)', returned="(k,)")
    assert [port.tensor for port in found.outputs] == [found.ops[-1].result] * 2
    assert [(port.holds and port.holds.tensor.name) for port in found.outputs] == [None, "z"]
    assert [port.path for port in found.outputs] == [None, "written input 1"]


def test_uninitialised_memory_that_is_filled_in_part_is_not_all_known() -> None:
    found = graph(
        "s = torch.ops.aten.sort.default(i)".replace("(i)", "(w)"),
        'p: "i64[6]" = s[1];  s = None',
        'e: "f32[8]" = torch.ops.aten.empty.memory_format([8], dtype = torch.float32)',
        'k: "f32[8]" = torch.ops.aten.index_put_.default(e, [p], w)',
        'y: "f32[8]" = torch.ops.aten.neg.default(e)',
    )
    assert "empty" in [op.kind for op in found.ops]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_body_whose_operands_are_cast_as_it_runs_is_not_what_its_text_says(enabled: bool) -> None:
    call = f"k = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, {enabled}, None, sub_0, x, z)"
    inner = INNER.replace("{returned}", "(r,)").replace("mul_.Tensor(a, 2.0);  a = None", "matmul.default(a, c)")
    inner = inner.replace("[4, 6]", "[4, 4]").replace('r: "f32', 'r: "bf16' if enabled else 'r: "f32')
    lines = ["sub_0 = self.sub_0", call.replace("x, z", "u, v"), f'g: "{"bf16" if enabled else "f32"}[4, 4]" = k[0]']
    lines.append('y: "f32[4, 4]" = torch.ops.aten._to_copy.default(g, dtype = torch.float32)')
    before = ['u: "f32[4, 4]" = torch.ops.aten.slice.Tensor(x, 1, 0, 4)']
    before.append('v: "f32[4, 4]" = torch.ops.aten.slice.Tensor(z, 1, 0, 4)')
    found = graph(*before, *lines, more=inner)
    assert unknown(found, found.outputs[0].tensor) == enabled


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("torch.ops._C.fused_add_rms_norm.default(x, z, w, 1e-06)", True),
        ("torch.ops._C.fused_add_rms_norm.default(x, x, w, 1e-06)", False),
        ("torch.ops._C.rms_norm.default(z, x, w, 1e-06)", True),
        ("torch.ops._C.rms_norm.default(x, x, w, 1e-06)", False),
    ],
)
def test_a_kernel_whose_arguments_share_memory_is_unknown(line: str, known: bool) -> None:
    """What it gives depends on the order in which it reads and writes."""
    found = graph(f"k = {line}", returned="(x, z)")
    assert any(unknown(found, port.tensor) for port in found.outputs) != known


def test_switching_gradients_on_and_off_computes_nothing() -> None:
    found = graph(
        "off = torch._C._set_grad_enabled(False);  off = None",
        'a: "f32[4, 6]" = torch.ops.aten.add_.Tensor(x, 1);  a = None',
        "on = torch._C._set_grad_enabled(True);  on = None",
        READ,
    )
    assert [port.holds is not None for port in found.outputs] == [False, True]
    assert not any(unknown(found, port.tensor) for port in found.outputs)


def test_a_switch_that_casts_what_follows_is_refused() -> None:
    with pytest.raises(InputError, match="_enter_autocast"):
        graph("k = torch.amp.autocast_mode._enter_autocast('cpu', torch.bfloat16, True, False)", READ)


@pytest.mark.parametrize(
    "lines",
    [
        ["v = torch.ops.aten.diagonal.default(x)", "k = torch.ops.aten.zero_.default(v)"],
        ["v = torch.ops.aten.renorm.default(x, 2, 0, 1.0)", "k = torch.ops.aten.add_.Tensor(v, z)"],
        ["v = torch.ops.aten.renorm.default(x, 2, 0, 1.0)", "k = torch.ops.aten._foreach_add_.List([v], [z])"],
        ["v = torch.ops.aten.renorm.default(x, 2, 0, 1.0)", "k = torch.ops.aten.neg.out(z, out = v)"],
    ],
)
def test_memory_of_what_has_no_printed_type_is_not_passed_over(lines: list[str]) -> None:
    """Nodes that a pass has put in: the write through `v` was lost, and two programs that differ in it were PROVED."""
    with pytest.raises(InputError, match="its type is not printed"):
        graph(*lines, 'y: "f32[4, 6]" = torch.ops.aten.neg.default(x)')


def test_what_a_custom_op_gives_without_a_type_is_said_to_lie_elsewhere() -> None:
    found = graph("n = torch.ops.mylib.count.default(x)", 'y: "f32[4, 6]" = torch.ops.aten.mul.Scalar(x, n)')
    assert any("shares no memory" in assumed.text for assumed in found.assumptions)
