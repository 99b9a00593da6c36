"""Layouts: text, canonical form, what they cover."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalify_dl.ir.layout import (
    Digit,
    Entry,
    Layout,
    Pending,
    Repl,
    Window,
    merge,
    parse_piece,
    piece_shape,
    piece_text,
)

sizes = st.integers(1, 6)
digits = st.builds(Digit, st.integers(0, 3), st.integers(1, 40), sizes)
local = st.one_of(digits, st.builds(Digit, st.just(0), st.just(0), sizes))  # stride 0: repeated
entries = st.one_of(digits, st.builds(Repl, sizes), st.builds(Pending, st.sampled_from(["sum", "max", "or"]), sizes))
layouts = st.builds(
    lambda dims, axes, scale: Layout.of(dims, [(f"a{n}", axis) for n, axis in enumerate(axes)], scale),
    st.lists(st.lists(local, max_size=3), max_size=4),
    st.lists(st.lists(entries, max_size=3), max_size=3),
    st.fractions(min_value=Fraction(-8), max_value=8, max_denominator=9).filter(bool),
)


@given(layouts)
def test_text_round_trips(layout: Layout) -> None:
    assert Layout.parse(str(layout)) == layout


@given(layouts)
def test_canonical_form_is_a_fixed_point_and_keeps_extents(layout: Layout) -> None:
    assert layout.canonical == layout
    assert layout.canonical.local_shape == layout.local_shape
    assert layout.canonical.axis_sizes == layout.axis_sizes


@given(st.lists(entries, max_size=6))
def test_merging_keeps_the_number_of_positions(found: list[Entry]) -> None:
    assert prod(entry.size for entry in merge(found)) == prod(entry.size for entry in found)


@given(st.integers(1, 5), st.integers(2, 5), st.integers(2, 5), st.integers(1, 9))
def test_digits_that_continue_each_other_are_one(dim: int, major: int, minor: int, stride: int) -> None:
    assert merge([Digit(dim, stride * minor, major), Digit(dim, stride, minor)]) == (Digit(dim, stride, major * minor),)


def test_example_of_the_documentation() -> None:
    layout = Layout.parse("[0:1x8][1:1x128][2:1x256]|dp=r2|tp=2:256x4")
    assert layout.local_shape == (8, 128, 256)
    assert layout.axis_sizes == {"dp": 2, "tp": 4}
    assert layout.gaps((8, 128, 1024)) is None
    assert layout.gaps((8, 128, 2048)) == "digits cover 1024 of 2048 elements of baseline dim 2"


@pytest.mark.parametrize(
    ("text", "shape", "problem"),
    [
        ("[0:1x4]|tp=0:2x2", (8,), "overlap or leave gaps"),
        ("[0:1x4][2:1x4]|tp=r2", (4, 4), "names baseline dim 2"),
        ("[0:1x4]|tp=r2", (8,), "digits cover 4 of 8"),
    ],
)
def test_layouts_that_do_not_cover_the_baseline_say_why(text: str, shape: tuple[int, ...], problem: str) -> None:
    assert problem in (Layout.parse(text).gaps(shape) or "")


@pytest.mark.parametrize(
    "text",
    [
        "[0:1x8",
        "0:1x8]",
        "[sum2]|tp=r2",
        "[0:0x2]|tp=r2",
        "[0:1]|tp=r2",
        "[0:1x8]|tp",
        "[0:1x8]|tp=q2",
        "[0:1x8]|tp=r2 *1/0",
        "[0:1x8] *x",
        "x",
    ],
)
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Layout.parse(text)


@given(st.text(alphabet="[]0123456789:x,|=rsumtp */-", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        layout = Layout.parse(text)
    except ValueError:
        return
    assert Layout.parse(str(layout)) == layout


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50), st.integers(1, 50)), max_size=4, unique_by=lambda w: w[0])
)
def test_pieces_round_trip(found: list[tuple[int, int, int]]) -> None:
    windows = tuple(sorted(Window(dim, lo, lo + size) for dim, lo, size in found))
    assert parse_piece(piece_text(windows)) == windows


def test_pieces_must_fit_and_ascend() -> None:
    assert piece_shape(parse_piece("1:2:6"), (4, 8)) == (4, 4)
    with pytest.raises(ValueError, match="does not fit"):
        piece_shape(parse_piece("1:2:9"), (4, 8))
    for text in ("1:4:4", "1:5", "2:0:1,1:0:1"):
        with pytest.raises(ValueError):
            parse_piece(text)
