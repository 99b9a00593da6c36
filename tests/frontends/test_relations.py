"""The relations file: what is read, and where errors point."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.ir.placement import AxisPart
from scalify_dl.readers.relations import Parts, Relations, load_relations, parse_relations

EXAMPLE = """\
inputs:
  "#9":
    dims: {1: [tp]}
    parts: {dim: 1, sizes: [2048, 512, 512]}
  w_kv:
    base: "#3"
    dims: [{1: ["tp:2"]}, {1: [dp, "tp:(2)2"]}]
    parts: {dim: 0, sizes: [4, 4]}
concat:
  arg2_1: {dim: 0, of: [arg2_1, arg5_1]}
constants: {"_tensor_constant*": 0, half: 0.5, third: 1/3, dist: {mask: true}}
groups: {"12": [0, 1], "13": [[0, 2], [1, 3]]}
ranges: {primals_18: [0, 98304]}
outputs:
  "0": {base: 0, dims: {0: [tp]}, pending: {dp: sum}}
"""


def test_everything_of_the_format_is_read() -> None:
    relations = parse_relations(EXAMPLE)
    fused, kv = relations.inputs
    assert fused.key == "#9"
    assert fused.dims == {1: [AxisPart("tp")]}
    assert fused.parts == Parts(1, (2048, 512, 512))
    assert kv.base == "#3"
    assert kv.dims == ({1: [AxisPart("tp", 1, 2)]}, {1: [AxisPart("dp"), AxisPart("tp", 2, 2)]})
    assert relations.concat[0].of == ("arg2_1", "arg5_1")
    values = {(c.pattern, c.side): c.value for c in relations.constants}
    assert values == {
        ("_tensor_constant*", None): 0,
        ("half", None): 0.5,
        ("third", None): Fraction(1, 3),
        ("mask", "dist"): True,
    }
    assert relations.groups["12"].groups == ((0, 1),)
    assert relations.groups["13"].groups == ((0, 2), (1, 3))
    assert (relations.ranges[0].lo, relations.ranges[0].hi) == (0, 98304)
    assert relations.outputs[0].base == "0"
    assert relations.outputs[0].pending == {"dp": "sum"}


def test_an_empty_file_relates_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert load_relations(tmp_path / "empty.yaml") == Relations()


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the relations file"):
        load_relations(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("inputs:\n  a: {dmi: {1: tp}}\n", 2, 7, "unknown key `dmi`"),
        ("input: {}\n", 1, 1, "unknown key `input`"),
        ("inputs: [a]\n", 1, 9, "a mapping was expected"),
        ("inputs:\n  a: {dims: {x: [tp]}}\n", 2, 14, "`x` is not an integer"),
        ("inputs:\n  a: {dims: {1: ['tp:x']}}\n", 2, 18, "no mesh axis"),
        ("inputs:\n  a: {dims: {-1: [tp]}}\n", 2, 14, "is negative"),
        ("inputs:\n  a: {parts: {dim: 1}}\n", 2, 14, "needs `dim` and `sizes`"),
        ("inputs:\n  a: {parts: {dim: 1, sizes: [0, 4]}}\n", 2, 30, "must be positive"),
        ("inputs:\n  a: {dims: [{}], parts: {dim: 1, sizes: [4, 4]}}\n", 2, 3, "1 placements for 2 parts"),
        ("inputs:\n  a: {}\n  a: {}\n", 3, 3, "stands twice"),
        ("concat:\n  a: {dim: 0}\n", 2, 6, "needs `dim` and `of`"),
        ("constants: {a: b}\n", 1, 16, "is not a number"),
        ("constants: {a: {b: 1}}\n", 1, 13, "holds a mapping"),
        ("groups: {g: [0, 0]}\n", 1, 13, "distinct ranks"),
        ("groups: {g: []}\n", 1, 13, "distinct ranks"),
        ("ranges: {x: [3, 3]}\n", 1, 13, "two bounds"),
        ("outputs: {0: {pending: {tp: mean}}}\n", 1, 29, "pending: `mean`"),
        ("inputs:\n  a: {dims: {1: [tp]\n", 3, 1, "not YAML"),
        ("inputs:\n\ta: 1\n", 2, 1, "not YAML"),
    ],
)
def test_errors_name_line_and_column(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_relations(text, file="r.yaml")
    assert message in caught.value.message
    assert (caught.value.file, caught.value.line, caught.value.column) == ("r.yaml", line, column)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_relations(text)


@given(
    st.recursive(st.text("ab0:-{}[]&*!|'\"\n ", max_size=6), lambda inner: st.lists(inner, max_size=4).map("\n".join))
)
def test_yaml_like_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_relations("inputs:\n" + text)


@pytest.mark.parametrize(
    "text", ["inputs: " + "[" * 100_000, "inputs: " + "{a: " * 50, "inputs: &a {x: {}}\noutputs: *a"]
)
def test_deep_nesting_and_aliases_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_relations(text)


@given(
    st.builds(
        AxisPart, st.sampled_from(["tp", "dp", "a.b"]), st.integers(1, 9), st.one_of(st.none(), st.integers(1, 9))
    )
)
def test_axis_parts_round_trip(part: AxisPart) -> None:
    if part.size is None:
        part = AxisPart(part.axis)
    assert AxisPart.parse(str(part)) == part
