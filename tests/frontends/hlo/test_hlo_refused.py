"""HLO text that is refused: where errors point, text cut or edited anywhere, hostile text."""
# ruff: noqa: E501 (tables of HLO text)

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers import hlo
from scalify_dl.readers.hlo.module import parse_module
from tests.frontends.hlo.texts import REDUCER, X, module, read

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
    "no computation": (module(X + "  ROOT %y = f32[8,16] all-reduce(%x)"), 6, "does not say which computation it calls"),
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
