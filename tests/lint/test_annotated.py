"""SPMD types in the relations file: checked against what values are proved to be, bad input where they say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.annotated import annotate
from scalify_dl.lint.judge import Result, lint, lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import parse_relations


def judged(types: str, *, placed: bool = True, more: str = "") -> Result:
    """An MLP in columns and rows: `h` in blocks of dim 1, `y` in parts of a sum, `z` the same on all ranks."""
    p = Alone("dp=1,tp=2")
    x = p.place("x", (8, 16)) if placed else p.graph.input("x", "f32", (8, 16), path="x")
    up, down = p.place("up", (16, 32), {1: "tp"}), p.place("down", (32, 16), {0: "tp"})
    h = p.tanh(p.matmul(x, up))
    y = p.matmul(h, down)
    z = p.all_reduce(y, "tp")
    h.name, y.name, z.name = "h", "y", "z"
    p.result(z)
    said = parse_relations(f"expect: {types}\n{more}")
    annotate(p.graph, p.mesh, said)
    return lint_graph(p.graph, p.mesh, said)


@pytest.mark.parametrize(
    "types",
    ["{x: {tp: R}, h: {tp: S1}, y: {tp: P}, z: {tp: R}}", "{h: {tp: V}, y: {tp: V}}", "{h: {tp: S(1)}, z: {tp: I}}",
     "{'u*': {tp: S1}}"],
)  # fmt: skip
def test_what_is_so_is_proved(types: str) -> None:
    result = judged(types)
    assert result.verdict is Verdict.PROVED, (result.findings, result.missing)


@pytest.mark.parametrize(
    ("types", "text"),
    [("{h: {tp: S0}}", "`h` is said to be S0@tp, and is S(1)@tp"), ("{h: {tp: R}}", "and is S(1)@tp"),
     ("{y: {tp: R}}", "`y` is said to be R@tp, and is P@tp"), ("{z: {tp: P}}", "and is R@tp"),
     ("{z: {tp: V}}", "and is R@tp")],
)  # fmt: skip
def test_what_is_of_another_type_is_refuted(types: str, text: str) -> None:
    result = judged(types)
    assert result.verdict is Verdict.REFUTED
    (found,) = result.findings
    assert (found.kind, text in found.text) == ("other-type", True), found.text


def test_an_invariant_input_that_blocks_are_made_of_is_refuted() -> None:
    """Its gradient is a part of a sum on every rank, and nothing adds the parts up."""
    assert [f.kind for f in judged("{x: {tp: I}}").findings] == ["mixed-types"]


def test_a_type_on_what_is_guessed_decides_nothing() -> None:
    result = judged("{h: {tp: S0}}", placed=False)
    assert result.verdict is Verdict.UNKNOWN
    assert not result.findings
    assert any("said to be S0@tp" in text for text in result.missing)


@pytest.mark.parametrize(
    ("types", "message"),
    [("{v: {tp: R}}", "no value `v`"), ("{h: {}}", "no type is said"), ("{h: {ep: R}}", "no axis `ep`"),
     ("{h: {dp: R}}", "`dp` has one rank"), ("{h: {tp: R}, 'h*': {tp: R}}", "`h` is spoken of here and"),
     ("{x: {tp: S0}}", "is placed as R@tp"), ("{h: {tp: S2}}", "no dim 2"), ("{h: {tp: Q}}", "no SPMD type `Q`")],
)  # fmt: skip
def test_what_says_nothing_or_contradicts_is_bad_input(types: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        judged(types)


def test_invariant_is_no_type_where_gradients_are_values() -> None:
    with pytest.raises(InputError, match="whose backward is in it"):
        judged("{x: {tp: I}}", more="gradients: {z: x}\n")


def test_types_of_a_dump_are_checked(tmp_path: Path) -> None:
    dump, relations = tmp_path / "dist.hlo", tmp_path / "relations.yaml"
    dump.write_text(
        "HloModule dist, num_partitions=2\n\nENTRY main {\n"
        "  x = f32[8,8]{1,0} parameter(0)\n  w = f32[8,4]{1,0} parameter(1)\n"
        "  ROOT y = f32[8,4]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
    )
    for word, verdict in (("S1", Verdict.PROVED), ("S0", Verdict.REFUTED)):
        relations.write_text(
            "inputs: {x: {dims: {}}, w: {dims: {1: [tp]}}}\n" + f"expect: {{y: {{tp: {word}}}}}\n"
        )
        assert lint([dump], Mesh.parse("tp=2"), relations).verdict is verdict
