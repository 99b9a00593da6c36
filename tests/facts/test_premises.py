"""Premises of hand-written facts: every element is placed once, by what its type can be."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.facts.premises import overlap
from scalify_dl.facts.validate import validate
from scalify_dl.ir.layout import Window
from scalify_dl.pairing.builder import Pair


def pair(dtype: str = "f32") -> Facts:
    """base: a - b; dist: x - x, placed as a."""
    both = Pair("tp=2")
    b = both.base
    b.output(b.subtract(b.input("a", (8,), dtype), b.input("b", (8,), dtype)))
    b.input("n", (4,), "s32", range=(0, 4))
    d = both.dist
    x = d.shard("a")
    d.output(d.subtract(x, x))
    d.shard("n")
    return both.facts()


def refused(facts: Facts, message: str) -> InputError:
    with pytest.raises(InputError) as caught:
        validate(facts)
    assert message in str(caught.value), caught.value
    return caught.value


WHOLE = "[0:1x8]|tp=r2"
HALF = "[0:1x4]|tp=r2"


@pytest.mark.parametrize(
    "row",
    [
        ("a", "", "base/b", "", WHOLE, "given"),
        ("a", "0:0:4", "base/b", "0:0:4", HALF, "given"),
        ("a", "0:2:6", "base/a", "0:4:8", HALF, "given"),
        ("a", "", "base/b", "", WHOLE, "elided"),
    ],
)
def test_an_element_is_placed_once(row: tuple[str, ...]) -> None:
    facts = pair()
    validate(facts)
    facts.add("shard", *row)
    caught = refused(facts, "two rows say what `a` holds")
    assert (caught.file, caught.line) == ("shard.facts", 3)
    assert "in line 1" in caught.message


def test_pieces_beside_each_other_are_premises() -> None:
    facts = pair()
    facts.tables["shard"] = [
        ("a", "0:0:4", "base/a", "0:4:8", HALF, "given"),
        ("a", "0:4:8", "base/b", "0:0:4", HALF, "given"),
    ]
    validate(facts)
    facts.add("shard", "a", "0:3:5", "base/a", "0:0:2", "[0:1x2]|tp=r2", "given")
    refused(facts, "two rows say what `a` holds (0:3:4)")


windows = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(1, 3)), max_size=2, unique_by=lambda w: w[0]
).map(lambda ws: [Window(d, lo, lo + n) for d, lo, n in ws])


@given(windows, windows)
def test_pieces_overlap_where_they_share_an_element(ours: list[Window], theirs: list[Window]) -> None:
    def elements(piece: list[Window]) -> set[tuple[int, ...]]:
        return {at for at in product(range(8), range(8)) if all(w.lo <= at[w.dim] < w.hi for w in piece)}

    assert (overlap(ours, theirs) is not None) == bool(elements(ours) & elements(theirs))


def test_element_types_agree() -> None:
    facts = pair()
    facts.tables["tensor"] = [(t, g, "bf16" if t == "a" else dtype, r) for t, g, dtype, r in facts["tensor"]]
    refused(facts, "`a` is bf16, `base/a` is f32")


@pytest.mark.parametrize(("dtype", "scale"), [("s32", "1/2"), ("s32", "2/1"), ("f32", "0/1")])
def test_scales_that_no_value_can_have_are_refused(dtype: str, scale: str) -> None:
    facts = pair(dtype)
    facts.tables["shard"][0] = ("a", "", "base/a", "", f"{WHOLE} *{scale}", "given")
    refused(facts, f"scales {dtype} by")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("n", 4, 4, "given")], "no s32 lies in 4 ≤ x < 4"),
        ([("a", 0, 4, "given")], "`a` is f32"),
        ([("n", 0, 4, "given"), ("base/n", 4, 8, "given")], "of which it is a part"),
    ],
)
def test_ranges_can_be_met(rows: list[tuple[str, int, int, str]], message: str) -> None:
    facts = pair()
    facts.tables["range"] = list(rows)
    refused(facts, message)


def test_ranges_are_of_inputs() -> None:
    facts = pair("s32")
    facts.add("range", "subtract", 0, 4, "given")
    refused(facts, "`subtract` is computed")


def parted(dtype: str, layout: str, ranges: list[tuple[str, int, int]]) -> Facts:
    """base: n; dist: n is held by a and by b, in a layout of whole pieces."""
    both = Pair("tp=2")
    both.base.output(both.base.input("a", (4,), dtype))
    both.base.input("b", (4,), dtype)
    a, _ = both.dist.shard("a"), both.dist.shard("b")
    both.dist.output(a)
    facts = both.facts()
    facts.tables["shard"] = [(dist, "", "base/a", "", layout, "given") for dist in "ab"]
    facts.tables["range"] = [(tensor, lo, hi, "given") for tensor, lo, hi in ranges]
    return facts


def test_ranges_of_all_that_holds_an_input_agree() -> None:
    apart = [("a", 0, 4), ("b", 10, 20)]
    refused(parted("s32", "[0:1x4]|tp=r2", apart), "`b` lies in 10 ≤ x < 20, `a`, as `base/a`, in 0 ≤ x < 4")
    facts = parted("s32", "[0:1x4]|tp=r2", apart)
    facts.tables["shard"] = [
        (dist, f"0:{at}:{at + 2}", "base/a", f"0:{at}:{at + 2}", "[0:1x2]|tp=r2", "given")
        for dist, at in (("a", 0), ("b", 2), ("a", 2), ("b", 0))
    ]
    refused(facts, "as `base/a`")
    facts.tables["shard"] = facts.tables["shard"][:2]
    validate(facts)


def test_parts_of_a_sum_are_smaller_than_it() -> None:
    validate(parted("s32", "[0:1x4]|tp=sum2", [("a", 0, 4), ("base/a", 5, 7)]))
    refused(parted("s32", "[0:1x4]|tp=sum2", [("a", 0, 4), ("base/a", 7, 9)]), "of which it is a part")
    refused(parted("s32", "[0:1x4]|tp=max2", [("a", 0, 4), ("base/a", 5, 7)]), "of which it is a part")


@pytest.mark.parametrize("reducer", ["and", "or"])
def test_bits_of_reals_are_not_pending(reducer: str) -> None:
    validate(parted("s32", f"[0:1x4]|tp={reducer}2", []))
    refused(parted("f32", f"[0:1x4]|tp={reducer}2", []), "combines the bits of f32")
    facts = parted("f32", "[0:1x4]|tp=r2", [])
    facts.tables["expect"] = [(dist, base, f"[0:1x4]|tp={reducer}2") for dist, base, _ in facts["expect"]]
    refused(facts, "combines the bits of f32")
