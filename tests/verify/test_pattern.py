"""Layout text as people read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalify_dl.ir.layout import Digit, Layout, Repl
from scalify_dl.report.pattern import due, holds, pattern


@pytest.mark.parametrize(
    ("layout", "rank", "expected"),
    [
        ("[0:1x8][1:1x128][2:1x256]|tp=2:256x4", 3, "a b (tp c) -> a b c"),
        ("[0:1x8][1:1x128][2:1x256]|dp=r2|tp=2:256x4", 3, "a b (tp c) -> a b c  (replicated over dp)"),
        ("[1:1x4][0:1x8]|tp=r2", 2, "a b -> b a  (replicated over tp)"),
        ("[0:1x8]|tp=sum2", 1, "a -> a  (sum pending over tp)"),
        ("[0:1x8]|tp=max2 *1/4", 1, "a -> a  (maximum pending over tp; times 1/4 once reduced)"),
        ("[0:2x4]|tp=0:1x2", 1, "(a tp) -> a"),
        ("[0:4x2,1:1x3][0:1x2]|tp=0:2x2", 2, "(a1 tp a2) b -> (a1 b) a2"),
        ("[0:1x4]|tp=0:4x2,r2", 1, "(tp0 a) -> a  (replicated over tp1; where tp0 = 2, tp1 = 2)"),
        ("[][0:1x4]|tp=r2", 2, "a 1 -> 1 a  (replicated over tp)"),
        ("|tp=r2", 0, "() -> ()  (replicated over tp)"),
        ("[0:1x4]|a=0:4x2", 1, "(a b) -> b"),
    ],
)
def test_pattern_names_dims_in_order_and_cuts_by_axis(layout: str, rank: int, expected: str) -> None:
    assert pattern(layout, rank) == expected


def test_a_layout_that_skips_elements_is_shown_as_it_is() -> None:
    assert pattern("[0:1x4]|tp=0:8x2", 1) == "[0:1x4]|tp=0:8x2"


def test_holds_says_blocks_or_interleaved() -> None:
    assert holds("[0:1x4]|tp=0:4x2", "w") == "w: dim 0 cut over tp into 2 blocks"
    assert holds("[0:2x4]|tp=0:1x2", "w") == "w: dim 0 cut over tp into 2 interleaved parts"


def test_holds_names_the_piece_of_the_baseline_tensor() -> None:
    assert holds("[0:1x4]|tp=r2", "w", "0:4:8") == "w (dim 0 from 4 to 8): whole over tp"


@given(st.lists(st.integers(2, 5), min_size=1, max_size=4), st.data())
def test_both_sides_of_a_pattern_have_the_same_factors(sizes: list[int], data: st.DataObject) -> None:
    """Whatever dims are cut, every factor on the left stands on the right, but for mesh axes."""
    cut = data.draw(st.integers(0, len(sizes) - 1))
    order = data.draw(st.permutations(range(len(sizes))))
    layout = Layout.of(
        [[Digit(d, 1, sizes[d])] for d in order], [("tp", [Digit(cut, sizes[cut], 2)]), ("dp", [Repl(2)])]
    )
    left, right = (
        side.replace("(", " ").replace(")", " ").split() for side in pattern(str(layout)).split("  ")[0].split("->")
    )
    assert sorted(left) == sorted([*right, "tp"])


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("[0:1x8]|tp=r2 *2/1", "times 1"),
        ("[0:1x8]|dp=sum2|tp=sum2", "reduced over dp and tp"),
        ("[0:1x8]|dp=sum2|tp=r2 *1/2", "reduced over dp, times 1"),
        ("[0:2x4]|tp=0:1x2", "each dim whole or cut in contiguous blocks"),
        ("[1:1x4][0:1x8]|tp=r2 *2/1", "each dim whole or cut in contiguous blocks, times 1"),
    ],
)
def test_what_is_due_is_what_is_wrong(layout: str, words: str) -> None:
    assert due(layout) == words
