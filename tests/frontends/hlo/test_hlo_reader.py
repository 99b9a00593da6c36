"""HLO text: what is read, and how it is spelled by different XLA versions."""
# ruff: noqa: E501 (tables of HLO text)

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from scalify_dl.ir.graph import Frame
from scalify_dl.readers import hlo
from scalify_dl.readers.hlo.attributes import integers, parse_attributes, unquote
from scalify_dl.readers.hlo.constants import parse_constant
from scalify_dl.readers.hlo.groups import check_groups
from scalify_dl.readers.hlo.types import ArrayType, parse_type
from tests.frontends.hlo.texts import X, module, read


def test_what_one_instruction_asked_for_is_not_asked_for_by_another_with_the_same_attributes() -> None:
    attributes = ', custom_call_target="f", weird={1}'
    body = f"{X}  %c = f32[8,16] custom-call(%x){attributes}\n  ROOT %a = f32[8,16] add(%c, %x){attributes}"
    assert [op.kind for op in read(body).ops] == ["custom:f", "unknown:add"]


def test_line_ends_may_be_of_any_kind(tmp_path: Path) -> None:
    text = module(f"{X}  ROOT %a = f32[8,16] add(%x, %x)")
    for end in ("\n", "\r\n", "\r"):
        (tmp_path / "m.hlo").write_bytes(text.replace("\n", end).encode())
        assert [(op.kind, op.at) for op in hlo.read(tmp_path / "m.hlo").ops] == [("add", (6, 3))]


def test_types_of_all_spellings() -> None:
    assert parse_type("f32[]") == ArrayType("f32", ())
    assert parse_type("bf16[2,3]{0,1:T(8,128)(2,1)S(1)}") == ArrayType("bf16", (2, 3), (0, 1), "T(8,128)(2,1)")
    nested = parse_type("(f32[2]{0}, (s32[], pred[4]), /*index=2*/token[])")
    assert nested == (
        ArrayType("f32", (2,), (0,)),
        (ArrayType("s32", ()), ArrayType("pred", (4,))),
        ArrayType("token", ()),
    )
    for text in ("f32", "f32[x]", "float[2]", "f32[2] extra", "(f32[2]", "f32[<=4]", "f32[2]{3}", "f32[-1]", "(" * 999):
        with pytest.raises(ValueError):
            parse_type(text)


def test_attributes_keep_nested_values_apart() -> None:
    text = ', dimensions={0,1}, window={size=2x2 pad=0_0x1_1}, config="a, b={\\"c\\": 1}", metadata={op_name="x}y"}'
    text += (
        ', replica_groups=[4,2]<=[2,2,2]T(0,2,1), backend_config={"a":{"b":[1,{}]}}, device_ids=([2,4]T(1,0)) {\'a\'}'
    )
    pairs = parse_attributes(text)
    assert list(pairs) == [
        "dimensions",
        "window",
        "config",
        "metadata",
        "replica_groups",
        "backend_config",
        "device_ids",
    ]
    assert pairs["metadata"] == '{op_name="x}y"}'
    assert unquote(pairs["config"]) == 'a, b={"c": 1}'
    assert pairs["device_ids"] == "([2,4]T(1,0)) {'a'}"
    assert integers("{0, -1,23}") == [0, -1, 23]
    with pytest.raises(ValueError, match="end unexpectedly"):
        parse_attributes(', dimensions={0,1}, metadata={op_name="cut')


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "expected", "items"),
    [
        ("1e-05", "f32", (), "1e-05", None),
        ("-inf", "f16", (), "-inf", None),
        ("true", "pred", (), "1", None),
        ("{1, 2, 3}", "s32", (3,), "{1,2,3}", (1, 2, 3)),
        ("{ { 1, 2 }, { 3, 4 } }", "s32", (2, 2), "{{1,2},{3,4}}", (1, 2, 3, 4)),
        ("{ /*i0=0*/ {1,2}, /*i0=1*/ {3,4} }", "s32", (2, 2), "{{1,2},{3,4}}", (1, 2, 3, 4)),
        ("{5, 5}", "u8", (2,), "5", (5, 5)),
        ("{...}", "f32", (64,), "{...}", None),
        ("f32[2]{0} {0.5, 1}", "f32", (2,), "{0.5,1}", None),
        ("{(1, -2), (0, 1)}", "c64", (2,), "{(1,-2),(0,1)}", None),
        ("{}", "f32", (0,), "{}", None),
        ("nan", "bf16", (), "nan", None),
    ],
)
def test_constants(text: str, dtype: str, shape: tuple[int, ...], expected: str, items: tuple[int, ...] | None) -> None:
    literal = parse_constant(text, dtype, shape)
    assert (literal.text, literal.items) == (expected, items)


def test_constants_that_do_not_fit_their_type() -> None:
    for text, shape in (("{1,2}", (3,)), ("{1,x}", (2,)), ("", ()), ("1e999999999", ())):
        with pytest.raises(ValueError):
            parse_constant(text, "f32", shape)


def test_constants_too_large_to_print_are_hashed_by_their_bytes() -> None:
    np = pytest.importorskip("numpy")
    numbers = np.linspace(-1, 1, 5000, dtype=np.float32)
    text = "{" + ", ".join(repr(float(n)) for n in numbers) + "}"
    literal = parse_constant(text, "f32", (5000,))
    digest = hashlib.sha256(b"f32[5000]" + numbers.tobytes()).hexdigest()
    assert (literal.text, literal.sha256) == ("{...}", digest)
    other = parse_constant(text.replace("-1.0", "-1.5", 1), "f32", (5000,))
    assert other.sha256 != digest


def test_constants_over_several_lines() -> None:
    graph = read(X + "  %c = s32[2,2] constant({\n    { 1, 2 },\n    { 3, 4 }\n  })\n  ROOT %y = f32[8,16] negate(%x)")
    (constant,) = [op for op in graph.ops if op.kind == "constant"]
    assert constant.result.literal is not None
    assert constant.result.literal.text == "{{1,2},{3,4}}"


@pytest.mark.parametrize(
    "spelling",
    [
        "ROOT %y = f32[8,16]{1,0} add(f32[8,16]{1,0} %x, f32[8,16]{1,0} %x)",
        "ROOT %y = f32[8,16]{1,0} add(%x, %x)",
        "ROOT y = f32[8,16] add(x, x)",
        "ROOT %y = f32[8,16]{1,0} add(f32[8,16]{1,0} x, /*index=1*/f32[8,16]{1,0} x)",
        'ROOT %y = f32[8,16]{1,0} add(%x, %x), metadata={op_name="a(b)" source_file="f.py" source_line=3}',
        "ROOT %y = f32[8,16]{1,0} add(%x, %x), control-predecessors={%x}, sharding={replicated}",
    ],
)
def test_spellings_of_one_instruction(spelling: str) -> None:
    graph = read(X + "  " + spelling)
    (op,) = graph.ops
    assert (op.kind, op.name) == ("add", "y")
    assert op.operands == [graph.inputs[0].tensor] * 2
    assert graph.outputs[0].tensor is op.result


def test_computations_in_short_form_and_in_any_order() -> None:
    text = "HloModule m\nENTRY main {\n  ROOT y = f32[4] negate(z)\n  z = f32[4] exponential(x)\n  x = f32[4] parameter(0)\n}\n"
    assert [op.kind for op in hlo.read_text(text).ops] == ["exponential", "negate"]


def test_calls_fusions_tuples_and_copies_are_inlined() -> None:
    before = """\
%inner (p: (f32[8,16], f32[8,16])) -> (f32[8,16]) {
  %p = (f32[8,16], f32[8,16]) parameter(0)
  %l = f32[8,16] get-tuple-element(%p), index=0
  %r = f32[8,16] get-tuple-element(%p), index=1
  %d = f32[8,16] subtract(%l, %r)
  ROOT %t = (f32[8,16]) tuple(%d)
}
%fused (q: f32[8,16]) -> f32[8,16] {
  %q = f32[8,16] parameter(0)
  ROOT %n = f32[8,16] negate(%q)
}
"""
    graph = read(
        X
        + """\
  %c = f32[8,16]{0,1} copy(%x)
  %t2 = (f32[8,16], f32[8,16]) tuple(%c, %x)
  %i = (f32[8,16]) call(%t2), to_apply=%inner
  %g = f32[8,16] get-tuple-element(%i), index=0
  %f1 = f32[8,16] fusion(%g), kind=kLoop, calls=%fused
  %f2 = f32[8,16] fusion(%f1), kind=kLoop, calls=%fused
  ROOT %o = f32[8,16] opt-barrier(%f2)
""",
        before,
    )
    assert [(op.kind, op.name) for op in graph.ops] == [("subtract", "d"), ("negate", "n"), ("negate", "n")]
    assert graph.ops[0].operands == [graph.inputs[0].tensor] * 2
    assert graph.outputs[0].tensor is graph.ops[2].result


def test_inlined_ops_without_a_source_get_that_of_the_call() -> None:
    before = "%f (q: f32[8,16]) -> f32[8,16] {\n  %q = f32[8,16] parameter(0)\n  ROOT %n = f32[8,16] negate(%q)\n}\n"
    graph = read(
        X + '  ROOT %c = f32[8,16] call(%x), to_apply=%f, metadata={op_name="scope" source_file="a.py" source_line=7}',
        before,
    )
    assert list(graph.ops[0].source) == [Frame("a.py", 7, "scope")]


def test_source_stacks_of_header_tables_and_inline_lists() -> None:
    tables = """\
FileNames
1 "a.py"
2 "b.py"

FunctionNames
1 "main"
2 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10 end_line=10 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=20}

StackFrames
1 {file_location_id=1 parent_frame_id=PARENT1}
2 {file_location_id=2 parent_frame_id=PARENT2}

"""
    for first, second in (("1", "2"), ("0", "1")):  # ids of parents plus one, and as they are
        before = tables.replace("PARENT1", first).replace("PARENT2", second)
        graph = read(X + '  ROOT %y = f32[8,16] negate(%x), metadata={op_name="n" stack_frame_id=2}', before)
        assert list(graph.ops[0].source) == [Frame("b.py", 20, "f"), Frame("a.py", 10, "main")]
    inline = r"""metadata={source_file="top.py\n----\n[\'/src/top.py:46\', \'/src/low.py:9\']" source_line=46}"""
    graph = read(X + f"  ROOT %y = f32[8,16] negate(%x), {inline}")
    assert list(graph.ops[0].source) == [Frame("/src/low.py", 9), Frame("/src/top.py", 46)]


def test_cyclic_stack_frames_end() -> None:
    before = "StackFrames\n1 {file_location_id=1 parent_frame_id=2}\n2 {file_location_id=1 parent_frame_id=1}\n"
    graph = read(X + "  ROOT %y = f32[8,16] negate(%x), metadata={stack_frame_id=2}", before)
    assert len(graph.ops[0].source) <= 2


def test_unknown_opcodes_stay_and_say_so() -> None:
    graph = read(X + "  %u = f32[8,16] frobnicate(%x), amount=3\n  ROOT %y = f32[8,16] outlandish(%u)")
    assert [op.kind for op in graph.ops] == ["unknown:frobnicate", "unknown:outlandish"]


def test_parameters_have_paths_from_op_name_only() -> None:
    graph = read(
        """  %x = f32[8,16] parameter(0), metadata={op_name="args[\\'w\\']"}\n  ROOT %y = f32[8,16] negate(%x)"""
    )
    assert graph.inputs[0].path == "args['w']"
    assert read(X + "  ROOT %y = f32[8,16] negate(%x)").inputs[0].path is None


def test_groups_of_thousands_of_ranks_are_told_in_short() -> None:
    groups = [[2 * n, 2 * n + 1] for n in range(4096)]
    with pytest.raises(ValueError, match=r"4,096 of them.*rank 8192 is in no group") as error:
        check_groups(groups, 8194)
    assert len(str(error.value)) < 200
