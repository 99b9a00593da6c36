"""FX text is read as it stands, and what is no FX text is refused with its place."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Frame
from scalify_dl.readers.fx import looks_like_fx, read_text
from scalify_dl.readers.fx.reader import parse
from scalify_dl.readers.fx.syntax import Call, Item, Ref, Symbol, tensor_type

SMALL = """
class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[8, 16]", w: "f32[32, 16]"):
         # File: /src/model.py:12 in forward, code: return self.fc(x)
        t: "f32[16, 32]" = torch.ops.aten.t.default(w);  w = None
        mm: "f32[8, 32]" = torch.ops.aten.mm.default(x, t);  x = t = None

        # No stacktrace found for following nodes
        split = torch.ops.aten.split.Tensor(mm, 16, 1);  mm = None
        getitem: "f32[8, 16]" = split[0];  split = None
        return (getitem,)
"""


def body(*lines: str, signature: str = 'x: "f32[4]"', returned: str = "(x,)") -> str:
    statements = "".join(f"        {line}\n" for line in lines)
    return f"class G(torch.nn.Module):\n    def forward(self, {signature}):\n{statements}        return {returned}\n"


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_text(text, file="g.fx.txt")
    return caught.value


def test_statements_types_and_sources() -> None:
    module, _ = parse(SMALL)
    assert [(p.name, p.type) for p in module.parameters] == [("x", "f32[8, 16]"), ("w", "f32[32, 16]")]
    t, _, split, item = module.statements
    assert t.names == ("t",)
    assert t.value == Call("torch.ops.aten.t.default", (Ref("w"),), {})
    assert t.frames == (Frame("/src/model.py", 12, "forward"),)
    assert split.frames == ()
    assert item.value == Item(Ref("split"), 0)
    assert module.returned == [Ref("getitem")]


def test_signature_by_pytree_with_bare_annotations() -> None:
    text = """class inner_f(torch.nn.Module):
    def forward(self, primals, tangents):
        primals_1: "f32[4]"; tangents_1: "f32[]";

        primals_1, primals_2, tangents_1, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)
        neg: "f32[4]" = torch.ops.aten.neg.default(primals_1);  primals_1 = None
        return pytree.tree_unflatten([neg, primals_2, None], self._out_spec)
"""
    graph = read_text(text)
    assert [p.tensor.type for p in graph.inputs] == ["f32[4]", "f32[]"]
    assert (graph.ignored_inputs, graph.ignored_outputs) == (1, 2)
    assert len(graph.outputs) == 1


def test_exported_program_names_its_parameters() -> None:
    text = (
        "ExportedProgram:\n"
        + body(signature='p_w: "f32[4]", x: "f32[4]"')
        + ("\nGraph signature: \n    # inputs\n    p_w: PARAMETER target='fc.weight'\n    x: USER_INPUT\n")
    )
    assert [p.path for p in read_text(text).inputs] == ["fc.weight", None]


def test_types_with_strides_and_devices() -> None:
    assert tensor_type("bf16[2, 3][3, 1]cuda:0") == ("bf16", (2, 3))
    assert tensor_type("b8[]") == ("pred", ())
    assert tensor_type("Sym(s0)") is None
    assert tensor_type(None) is None


def test_statement_over_several_lines() -> None:
    graph = read_text(body('y: "f32[2, 2]" = torch.ops.aten.view.default(x, [', "    2, 2])", returned="(y,)"))
    assert graph.outputs[0].tensor.shape == (2, 2)


def test_nested_modules_run_in_place_of_their_call() -> None:
    text = """class G(torch.nn.Module):
    def forward(self, x: "f32[4]"):
        wrap_body_0 = self.wrap_body_0
        wrap = torch.ops.higher_order.wrap(wrap_body_0, x);  wrap_body_0 = x = None
        y: "f32[4]" = wrap[0];  wrap = None
        return (y,)

    class wrap_body_0(torch.nn.Module):
        def forward(self, arg0: "f32[4]"):
            neg: "f32[4]" = torch.ops.aten.neg.default(arg0);  arg0 = None
            return (neg,)
"""
    assert [op.kind for op in read_text(text).ops] == ["negate"]


def test_unknown_op_is_kept_and_said() -> None:
    graph = read_text(body('y: "f32[4]" = torch.ops.aten.mystery.default(x, 3, mode = "fast")', returned="(y,)"))
    (op,) = graph.ops
    assert op.kind == "unknown:aten.mystery.default"
    assert (op.numbers["arg1"], op.symbols["mode"]) == ([3], ["fast"])
    assert op.symbols["reason"]


@pytest.mark.parametrize(("number", "known"), [("65504.0", True), ("65520.0", False), ("2147483647", False)])
def test_numbers_beyond_the_type_of_a_tensor_are_unknown(number: str, known: bool) -> None:
    """Kernels compute with them in a wider type: `0 * 65520.0` is 0, and 0 times infinity is not."""
    graph = read_text(
        body(f'y: "f16[4]" = torch.ops.aten.mul.Tensor(x, {number})', returned="(y,)").replace("f32[4]", "f16[4]")
    )
    assert any(op.kind == "unknown:aten.mul.Tensor" for op in graph.ops) != known


def test_a_way_between_two_tensors_by_a_complex_number_is_unknown() -> None:
    graph = read_text(
        body('y: "c64[4]" = torch.ops.aten.lerp.Scalar(x, x, (0.5 + 2j))', returned="(y,)").replace("f32[4]", "c64[4]")
    )
    (op,) = graph.ops
    assert op.kind == "unknown:aten.lerp.Scalar"


def test_foreign_op_is_opaque_with_results_by_item() -> None:
    graph = read_text(
        body("k = torch.ops.mine.kernel.default(x, 1e-05)", 'a: "f32[4]" = k[0]', 'b: "i32[2]" = k[2]', returned="(a,)")
    )
    (op,) = graph.ops
    assert op.kind == "custom:mine.kernel"
    assert op.symbols["arg1"] == ["1e-05"]


def test_numbers_that_depend_on_data_make_their_users_unknown() -> None:
    graph = read_text(
        body(
            'n: "Sym(u0)" = torch.ops.aten.item.default(x)',
            'm: "Sym(u0 + 1)" = n + 1',
            'y: "f32[2]" = torch.ops.aten.slice.Tensor(x, 0, 0, m)',
            returned="(y,)",
        )
    )
    assert [op.kind for op in graph.ops] == ["unknown:aten.item.default", "unknown:aten.slice.Tensor"]


def test_text_without_types_is_refused() -> None:
    error = refused(body("y = torch.ops.aten.neg.default(x)", signature="x", returned="(y,)"))
    assert "print_readable" in str(error)


def test_buffers_that_a_foreign_kernel_only_writes_are_no_operands() -> None:
    graph = read_text(
        body(
            'e: "f32[4]" = torch.ops.aten.empty_like.default(x)',
            "k = torch.ops.higher_order.auto_functionalized(torch.ops.mine.kernel.default, out = e, x = x)",
            'y: "f32[4]" = k[1]',
            returned="(y,)",
        )
    )
    assert [(op.kind, [t.name for t in op.operands]) for op in graph.ops] == [("custom:mine.kernel", ["x"])]


def test_effects_compute_nothing() -> None:
    text = body("a = torch.ops.aten._assert_tensor_metadata.default(x, None, None, torch.float32);  a = None")
    assert read_text(text).ops == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('y: "f32[5]" = torch.ops.aten.neg.default(x)', "printed as f32[5]"),
        ('y: "f32[4]" = torch.ops.aten.neg.default(z)', "`z` is used before"),
        ('y: "f32[4]" = torch.ops.aten.view.default(x, [3, 2])', "cannot be viewed"),
        ('x: "f32[4]" = torch.ops.aten.neg.default(x)', "defined twice"),
        ('y: "f32[s0]" = torch.ops.aten.mystery.default(x)', "a size that is no formula"),
        ('torch: "f32[4]" = torch.ops.aten.neg.default(x)', "shadows"),
        ("y = x.view(2, 2)", "only named operators"),
        ("y = torch.add(x, x)", "no ATen op"),
        ("y = (lambda: x)()", "only named operators"),
        ("y = [i for i in x]", "does not occur in FX text"),
        ("import os", "does not occur in FX text"),
        ("y = __import__('os').system('true')", "only named operators"),
        ("y = x; os = 3", "one statement a line"),
        ("y = torch.ops.aten.neg.default(x", "not a statement"),
        ("y = 'a", "not a statement"),
        ("y = f'{x}'", "does not occur in FX text"),
        ("y = torch.ops.aten.add.Tensor(x, 99999999999999999999999)", "64 bits"),
        ("y = torch.ops.aten.slice.Tensor(x, 3, 0, 1)", "dim 3"),
        ('y: "f32[99999999999]" = torch.ops.aten.neg.default(x)', "larger than"),
    ],
)
def test_contradictions_are_refused_with_their_line(line: str, message: str) -> None:
    error = refused(body(line))
    assert message in str(error)
    assert error.line == 3
    assert error.file == "g.fx.txt"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "class G:\n  pass\n",
        "class G(torch.nn.Module):\n",
        "class G(torch.nn.Module):\n    def forward(self, x):\n",
        "class G(torch.nn.Module):\n    def forward(self, x\n",
        SMALL[: SMALL.index("return")],
        SMALL + SMALL,
    ],
)
def test_truncated_text_is_refused(text: str) -> None:
    assert refused(text).file == "g.fx.txt"


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5000 + "x" + ")" * 5000,
        "[" * 100 + "]" * 100,
        "-" * 20000 + "1",
        "1" + "+1" * 50000,
        "x" + "[0]" * 3000,
        "torch" + ".a" * 50000 + "(x)",
        "9" * 20000,
        "'" + "a" * 200_000 + "'",
        "{" * 500 + "}" * 500,
        "\x00",
        "1e999999999",
        "torch.ops.aten.full.default([2147483647, 2147483647], 1)",
        "torch.ops.aten.pow.Tensor_Scalar(x, 10000000000000)",
        "torch.ops.aten.unbind.int(x, 0)",
        "2 ** 9999999999",
        "torch.ops.aten.unbind.int(torch.ops.aten.new_zeros.default(x, [2000000000]))",
    ],
)
def test_hostile_expressions_end_cleanly(expression: str) -> None:
    with contextlib.suppress(InputError):
        read_text(body(f"y = {expression}"), file="g.fx.txt")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(SMALL)), st.integers(0, 40), st.text(max_size=12))
def test_damaged_text_is_read_or_refused(at: int, gone: int, inserted: str) -> None:
    damaged = SMALL[:at] + inserted + SMALL[at + gone :]
    with contextlib.suppress(InputError):
        read_text(damaged, file="g.fx.txt")


def test_a_size_too_large_of_an_item_is_refused() -> None:
    error = refused(body("k = torch.ops.mine.kernel.default(x)", 'y: "f32[99999999999]" = k[0]', returned="(y,)"))
    assert "larger than" in str(error)


@pytest.mark.parametrize("op", ["unbind.int(y)", "split.Tensor(y, 1)", "chunk.default(y, 2000000000)"])
def test_a_tensor_in_billions_of_pieces_is_refused(op: str) -> None:
    error = refused(body(f"z = torch.ops.aten.{op}", signature='y: "f32[2000000000]"', returned="(y,)"))
    assert "pieces" in str(error)


def test_content_tells_the_kind() -> None:
    assert looks_like_fx(SMALL)
    assert not looks_like_fx("HloModule m\nENTRY main { }\n")


def test_symbols_are_names_only() -> None:
    module, _ = parse(body("y = torch.ops.aten.sum.default(x, dtype = torch.float64)"))
    assert module.statements[0].value.kwargs == {"dtype": Symbol("torch.float64")}
