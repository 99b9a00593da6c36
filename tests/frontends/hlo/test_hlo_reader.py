"""HLO text: what is read, how it is spelled by different XLA versions, and where errors point."""
# ruff: noqa: E501 (tables of HLO text)

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Frame, Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Inexpressible
from scalify_dl.readers import hlo
from scalify_dl.readers.hlo.attributes import integers, parse_attributes, unquote
from scalify_dl.readers.hlo.constants import parse_constant
from scalify_dl.readers.hlo.module import parse_module
from scalify_dl.readers.hlo.types import ArrayType, parse_type

REDUCER = """\
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
"""


def module(body: str, before: str = "", header: str = "") -> str:
    return f"HloModule m{header}\n\n{before}\nENTRY %main (x: f32[8,16]) -> f32[8,16] {{\n{body}\n}}\n"


def read(body: str, before: str = "", mesh: str | None = None, header: str = "") -> Graph:
    return hlo.read_text(module(body, before, header), Mesh.parse(mesh) if mesh else None, file="m.hlo")


X = "  %x = f32[8,16]{1,0} parameter(0)\n"


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
    graph = read(X + "  %u = f32[8,16] frobnicate(%x), amount=3\n  ROOT %y = f32[8,16] cholesky(%u)")
    assert [op.kind for op in graph.ops] == ["unknown:frobnicate", "unknown:cholesky"]


def test_parameters_have_paths_from_op_name_only() -> None:
    graph = read(
        """  %x = f32[8,16] parameter(0), metadata={op_name="args[\\'w\\']"}\n  ROOT %y = f32[8,16] negate(%x)"""
    )
    assert graph.inputs[0].path == "args['w']"
    assert read(X + "  ROOT %y = f32[8,16] negate(%x)").inputs[0].path is None


BAD = {
    "empty": ("", 1, "not HLO text"),
    "no entry": ("HloModule m\n" + REDUCER, 7, "no ENTRY computation"),
    "truncated computation": (module(X + "  ROOT %y = f32[8,16] negate(%x)")[:-2], 7, "the file ends inside computation `main`"),
    "truncated operands": (module(X + "  ROOT %y = f32[8,16] add(%x, "), 6, "the operands have no `)`"),
    "truncated type": (module(X + "  ROOT %y = (f32[8,16], f32["), 6, "the type has no `)`"),
    "truncated attributes": (
        module(X + '  ROOT %y = f32[8,16] transpose(%x), dimensions={1,0}, metadata={op_name="cu'), 6, "attributes end unexpectedly",
    ),
    "no opcode": (module(X + "  ROOT %y = f32[8,16]"), 6, "no opcode"),
    "rubbish": (module(X + "  what is this"), 6, "cannot read `what is this`"),
    "undefined operand": (module(X + "  ROOT %y = f32[8,16] negate(%z)"), 6, "operand `z` is not defined"),
    "undefined computation": (module(X + "  ROOT %y = f32[8,16] call(%x), to_apply=%f"), 6, "computation `%f` is not defined"),
    "defined twice": (module(X + "  %y = f32[8,16] negate(%x)\n  ROOT %y = f32[8,16] negate(%x)"), 7, "is defined twice"),
    "cycle": (module(X + "  %a = f32[8,16] negate(%b)\n  ROOT %b = f32[8,16] negate(%a)"), 6, "depends on itself"),
    "element type": (module(X + "  ROOT %y = f99[8,16] negate(%x)"), 6, "unknown element type `f99`"),
    "missing attribute": (module(X + "  ROOT %y = f32[16,8] transpose(%x)"), 6, "attribute `dimensions` is missing"),
    "parameters": (module("  %x = f32[8,16] parameter(1)\n  ROOT %y = f32[8,16] negate(%x)"), 4, "has parameters [1]"),
    "constant": (module(X + "  %c = s32[3] constant({1,2})\n  ROOT %y = f32[8,16] negate(%x)"), 6, "2 items for s32[3]"),
    "tuple index": (module(X + "  %t = (f32[8,16]) tuple(%x)\n  ROOT %y = f32[8,16] get-tuple-element(%t), index=1"), 7, "index=1"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_malformed_text_is_refused_with_its_place(case: str) -> None:
    text, line, message = BAD[case]
    with pytest.raises(InputError) as caught:
        hlo.read_text(text, file="m.hlo")
    assert message in caught.value.message
    assert (caught.value.file, caught.value.line) == ("m.hlo", line)
    assert caught.value.column >= 1


def test_computations_that_call_themselves_are_refused() -> None:
    before = "%f (q: f32[8,16]) -> f32[8,16] {\n  %q = f32[8,16] parameter(0)\n  ROOT %n = f32[8,16] call(%q), to_apply=%f\n}\n"
    with pytest.raises(InputError, match="calls itself"):
        read(X + "  ROOT %y = f32[8,16] call(%x), to_apply=%f", before)


def test_calls_that_double_at_every_level_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalify_dl.readers.hlo.lower.OPS_LIMIT", 1000)
    before, inner = "", "negate(%q)"
    for n in range(30):
        before += f"%f{n} (q: f32[8,16]) -> f32[8,16] {{\n  %q = f32[8,16] parameter(0)\n  %a = f32[8,16] {inner}\n"
        before += f"  ROOT %b = f32[8,16] {inner.replace('%q', '%a')}\n}}\n"
        inner = f"call(%q), to_apply=%f{n}"
    with pytest.raises(InputError, match="more than 1000 ops"):
        read(X + "  ROOT %y = f32[8,16] call(%x), to_apply=%f29", before)


SHAPES = {
    "elementwise": "f32[8,17] negate(%x)",
    "transpose": "f32[8,16] transpose(%x), dimensions={1,0}",
    "transpose twice the same dim": "f32[16,16] transpose(%x), dimensions={1,1}",
    "reshape": "f32[127] reshape(%x)",
    "slice": "f32[4,16] slice(%x), slice={[0:5], [0:16]}",
    "slice outside": "f32[9,16] slice(%x), slice={[0:9], [0:16]}",
    "broadcast": "f32[2,8,17] broadcast(%x), dimensions={1,2}",
    "dot": "f32[8,8] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "concatenate": "f32[8,16] concatenate(%x, %x), dimensions={0}",
    "gather over the group": "f32[8,16] all-gather(%x), replica_groups={{0,1}}, dimensions={0}",
    "convert to a shape": "f32[16,8] convert(%x)",
}


@pytest.mark.parametrize("case", SHAPES)
def test_contradicting_shapes_are_refused(case: str) -> None:
    from scalify_dl.ir.shapes import check

    graph = read(X + "  ROOT %y = " + SHAPES[case], mesh="tp=2")
    with pytest.raises(InputError, match=r"m\.hlo:6:3: ") as caught:
        check(graph)
    assert "`y`" in caught.value.message


ATOMS = [
    "HloModule m", "ENTRY %main {", "}", "%x = f32[4]{0} parameter(0)", "ROOT %y = f32[4] add(%x, %x)", "%t = (f32[4], s32[]) tuple(%x)",
    "%c = f32[] constant(1)", "%c = s32[2] constant({1,2})", "%r = f32[] reduce(%x, %c), dimensions={0}, to_apply=%add", REDUCER,
    ", metadata={op_name=\"a\"}", "{", ")", "(", "\"", "%", "=", "StackFrames", "1 {file_location_id=1}", "\n", "  ", "\x00", "é",
    "%w = f32[4] while(%x), condition=%add, body=%add", "replica_groups={{0,1}}", "sharding={devices=[2]<=[2]}",
    "%g = f32[8] all-gather(%x), replica_groups=[1,2]<=[2], dimensions={0}", "%b = f32[2,2] bitcast(%x)",
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(ATOMS), max_size=14), st.sampled_from(["\n", "\n  ", ""]))
def test_pieces_of_text_are_read_or_refused(pieces: list[str], separator: str) -> None:
    with contextlib.suppress(InputError):
        hlo.read_text(separator.join(pieces), Mesh.parse("tp=2"))


GOOD = module(
    X
    + """\
  %c = f32[] constant(0)
  %r = f32[8] reduce(%x, %c), dimensions={1}, to_apply=%add, metadata={op_name="sum" source_file="a.py" source_line=1}
  %b = f32[8,16] broadcast(%r), dimensions={0}
  %g = f32[8,16] all-reduce(%b), replica_groups={{0,1}}, to_apply=%add
  ROOT %y = f32[8,16] subtract(%x, %g)
""",
    REDUCER,
)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.text('%(){}=,[]0 \nx"<', max_size=3))
def test_edited_text_is_read_or_refused(at: int, length: int, insert: str) -> None:
    with contextlib.suppress(InputError):
        hlo.read_text(GOOD[:at] + insert + GOOD[at + length :], Mesh.parse("tp=2"))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(GOOD) - 1))
def test_truncated_text_is_refused(at: int) -> None:
    text = GOOD[:at]
    if text.rstrip() == GOOD.rstrip():
        return
    with pytest.raises(InputError):
        hlo.read_text(text, Mesh.parse("tp=2"))


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\nENTRY %m {\n  ROOT %x = " + "(" * 100_000,
        "HloModule m\nENTRY %m {\n  ROOT %x = f32[4] constant(" + "{" * 100_000 + ")\n}\n",
        "HloModule m" + ", a={" * 50_000,
        'HloModule m, a="' + "\\" * 100_001,
        "HloModule m\nENTRY %m {\n  %x = f32[4] parameter(0), metadata={" + 'a="b" ' * 50_000 + "\n}\n",
        "HloModule m\nENTRY %m {\n  %x = f32[4] add(" + "%a, " * 100_000 + ")\n}\n",
        "HloModule m" + " " * 1_000_000,
        "HloModule m\n" + "%" * 1_000_000 + "{\n",
        "HloModule m\nENTRY %m {\n  ROOT %x = f32[" + "9" * 100_000 + "] parameter(0)\n}\n",
    ],
)
def test_hostile_text_is_refused_quickly(text: str) -> None:
    with pytest.raises(InputError):
        hlo.read_text(text)


def test_long_chains_do_not_overflow_the_stack() -> None:
    lines = [f"  %v{n + 1} = f32[8,16] negate(%v{n})" for n in range(20_000)]
    body = "\n".join(["  %v0 = f32[8,16] parameter(0)", *reversed(lines), "  ROOT %y = f32[8,16] negate(%v20000)"])
    assert len(read(body).ops) == 20_001
    assert parse_module(module(body)).entry.root.name == "y"


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


def test_a_known_trip_count_that_cannot_be_counted_is_an_assumption() -> None:
    graph = read(ENTRY, loop(5, "NE"))
    assert graph.ops[-1].numbers["trip_count"] == [5]
    assert [(a.text, a.why) for a in graph.assumptions] == [
        ("the loop runs 5 times, as the dump says (known_trip_count)", "annotation")
    ]


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
