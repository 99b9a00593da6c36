"""The sizes of a family are those at which both programs exist; formulas that fit by chance are told or mended."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest

from scalify_dl.audit import pair as audit
from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.families.doubts import Doubts
from scalify_dl.families.family import Family
from scalify_dl.families.lift import lift
from scalify_dl.families.members import family_domain
from scalify_dl.families.single import Reading
from scalify_dl.families.symbols import resolve
from scalify_dl.families.verify import FamilyReport, verify_family
from scalify_dl.pairing.builder import Pair, Program, Tensor
from scalify_dl.prove.verdict import Verdict

TOKENS = {"tp": None, "batch": "x:0", "seq": "x:1"}
Build = Callable[[Program, Tensor], Tensor]


def rows(build: Build, sizes: Mapping[str, int]) -> Facts:
    """The same program on both sides, the batch over tp."""
    pair = Pair(f"tp={sizes['tp']}")
    pair.base.output(build(pair.base, pair.base.input("x", (sizes["batch"], sizes["seq"]))))
    pair.dist.output(build(pair.dist, pair.dist.shard("x", {0: "tp"})))
    return pair.facts()


def read(facts: Facts) -> Family:
    """The family of one capture."""
    symbols, points = resolve([facts], TOKENS)
    return Reading(facts, points[0], symbols, TOKENS).family()


def proved(build: Build) -> FamilyReport:
    points = ({"tp": 2, "batch": 4, "seq": 10}, {"tp": 4, "batch": 24, "seq": 50})
    report = verify_family([rows(build, point) for point in points], TOKENS)
    assert report.verdict is Verdict.PROVED, report.notes
    return report


def top_three(p: Program, x: Tensor) -> Tensor:
    return p.op("top-k", x, k=3).results[0]


def first_four(p: Program, x: Tensor) -> Tensor:
    return p.slice(x, 1, 0, 4)


def every_third(p: Program, x: Tensor) -> Tensor:
    return p.op("slice", x, start=[0, 1], limit=[x.shape[0], 9], stride=[1, 3]).result


def window_of_five(p: Program, x: Tensor) -> Tensor:
    return p.dynamic_slice(x, [p.constant(0, "s32"), p.constant(2, "s32")], [x.shape[0], 5])


def written_window(p: Program, x: Tensor) -> Tensor:
    """A scatter of one window of three columns."""
    updates = p.full(1.0, (x.shape[0], 3))
    return p.op(
        "scatter", x, p.full(1, (1,), "s32"), updates, update_window_dims=[0, 1], inserted_window_dims=[],
        scatter_dims_to_operand_dims=[1], index_vector_dim=0, reducer="sum",
    ).result  # fmt: skip


def read_window(p: Program, x: Tensor) -> Tensor:
    """A gather of one window of four columns."""
    return p.op(
        "gather", x, p.full(1, (1,), "s32"), offset_dims=[0, 1], collapsed_slice_dims=[], start_index_map=[1],
        slice_sizes=[x.shape[0], 4], index_vector_dim=0,
    ).result  # fmt: skip


def moving_sum(p: Program, x: Tensor) -> Tensor:
    return p.op(
        "reduce-window", x, window_size=[1, 6], window_stride=[1, 1], window_pad_low=[0, 0], window_pad_high=[0, 0],
        window_dilation=[1, 1], base_dilation=[1, 1], reducer="sum",
    ).result  # fmt: skip


def cropped(p: Program, x: Tensor) -> Tensor:
    """Padding below zero takes elements away."""
    return p.op("pad", x, p.constant(0.0), low=[0, -2], high=[0, -1], interior=[0, 0]).result


def near(p: Program, x: Tensor) -> Tensor:
    """The first three positions."""
    return p.select(p.compare(p.iota(x.shape, 1), p.full(3, x.shape, "s32"), direction="LT"), x, p.full(0.0, x.shape))


def byte_positions(p: Program, x: Tensor) -> Tensor:
    return p.add(x, p.convert(p.iota(x.shape, 1, "s8"), "f32"))


def byte_length(p: Program, x: Tensor) -> Tensor:
    """The length of the sequence, in a byte."""
    return p.add(x, p.convert(p.full(x.shape[1], x.shape, "s8"), "f32"))


@pytest.mark.parametrize(
    ("build", "bound"),
    [
        (byte_length, "seq <= 127"),
        (top_three, "seq >= 3"),
        (first_four, "seq >= 4"),
        (every_third, "seq >= 9"),
        (window_of_five, "seq >= 5"),
        (written_window, "seq >= 3"),
        (read_window, "seq >= 4"),
        (moving_sum, "seq >= 6"),
        (cropped, "seq >= 4"),
        (byte_positions, "seq <= 128"),
    ],
)
def test_an_op_bounds_the_sizes_to_those_at_which_it_exists(build: Build, bound: str) -> None:
    assert bound in proved(build).domain


def test_a_truth_of_the_rank_bounds_the_ranks_to_those_on_which_it_is_one() -> None:
    """1 on rank 0 and 0 on rank 1, read as 1 less the rank, is no truth on a third one."""
    pair = audit.Pair({"tp": 2})
    x, own = pair.input((4,))
    truth = pair.dist.add("constant", [], [("pred", ())])
    truth.rank_numbers["value", 0] = {0: 1, 1: 0}
    kept = pair.dist.emit("select", [audit.spread(pair.dist, truth.result, (4,), []), own, own])
    pair.outputs(x, kept)
    families: list[Family] = []
    report = verify_family([Facts(pair.tables())], {"tp": None}, keep=families.append)
    assert report.verdict is not Verdict.PROVED or "tp <= 2" in report.domain
    assert not family_domain(families[-1]).holds({"tp": 3})


def test_a_window_that_is_all_of_a_dim_is_so_at_every_size() -> None:
    """The batch of a dynamic slice that only moves along the sequence."""
    family = read(rows(window_of_five, {"tp": 2, "batch": 6, "seq": 10}))
    sizes = {str(value) for _, key, dim, value in family.tables["attr_number"] if (key, dim) == ("sizes", 0)}
    assert sizes == {"batch", "batch/tp"}


# ---- formulas that fit by chance ----


def columns(sizes: Mapping[str, int], factor: int | None = None) -> Facts:
    """The sequence over tp; perhaps times a number on both sides."""
    pair = Pair(f"tp={sizes['tp']}")
    for p, x in (
        (pair.base, pair.base.input("x", (sizes["batch"], sizes["seq"]))),
        (pair.dist, pair.dist.shard("x", {1: "tp"})),
    ):
        p.output(p.negate(x) if factor is None else p.multiply(x, p.full(factor, x.shape)))
    return pair.facts()


CHANCE = ({"tp": 2, "batch": 5, "seq": 10}, {"tp": 4, "batch": 15, "seq": 60})
"""Sizes at which a rank's share of the sequence is as large as the batch."""


def test_a_share_that_grows_like_another_size_is_still_the_share() -> None:
    captures = [columns(point) for point in CHANCE]
    symbols, points = resolve(captures, TOKENS)
    family = lift(captures, points, symbols, TOKENS)
    shares = {str(size) for tensor, dim, size in family.tables["dim"] if not tensor.startswith("base/") and dim == 1}
    assert shares == {"seq/tp"}
    assert verify_family(captures, TOKENS).verdict is Verdict.PROVED


def test_a_number_that_two_formulas_give_is_an_error_that_names_both() -> None:
    captures = [columns(point, point["batch"]) for point in CHANCE]
    with pytest.raises(InputError, match=r"batch or seq/tp.*do not tell"):
        verify_family(captures, TOKENS)


@pytest.mark.parametrize(
    ("here", "there", "points"),
    [
        (lambda s: s["batch"] + 2, lambda s: 2 * s["tp"], ((2, 2, 5), (4, 6, 25))),
        (lambda s: s["seq"] - 1, lambda s: 2 * s["batch"], ((2, 2, 5), (4, 6, 13))),
        (lambda s: s["seq"] - 1, lambda s: s["batch"], ((2, 4, 5), (4, 12, 13))),
        (lambda s: 4, lambda s: 8 * s["batch"] // s["tp"] ** 2, ((2, 2, 5), (4, 8, 25))),
        (lambda s: 4, lambda s: 4 * s["seq"] // (s["tp"] * s["batch"]), ((2, 2, 4), (4, 6, 24))),
    ],
)
def test_two_numbers_that_are_alike_in_both_captures_are_not_one(
    here: Callable[[Mapping[str, int]], int], there: Callable[[Mapping[str, int]], int], points: tuple[tuple[int, ...]]
) -> None:
    captures = []
    for point in points:
        sizes = dict(zip(("tp", "batch", "seq"), point, strict=True))
        pair = Pair(f"tp={sizes['tp']}")
        b, x = pair.base, pair.base.input("x", (sizes["batch"], sizes["seq"]))
        b.output(b.multiply(x, b.full(here(sizes), x.shape)))
        d, x = pair.dist, pair.dist.shard("x")
        d.output(d.multiply(x, d.full(there(sizes), x.shape)))
        captures.append(pair.facts())
    with pytest.raises(InputError, match="do not tell"):
        verify_family(captures, TOKENS)


def test_a_placement_that_multiplies_to_its_dim_in_the_captures_only_is_an_error() -> None:
    captures = [columns(point) for point in CHANCE]
    symbols, points = resolve(captures, TOKENS)
    family = lift(captures, points, symbols, TOKENS)
    for number, row in enumerate(family.shards):
        wrong = row[4].dims[1][0]
        family.shards[number] = (*row[:4], _with_size(row[4], wrong, "batch"), row[5])
    from scalify_dl.families.extents import Extents

    with pytest.raises(InputError, match=r"placement.*batch.*seq"):
        Extents(family, points[0])


def _with_size(layout, entry, size):
    from dataclasses import replace

    from scalify_dl.ir.expression import Expression

    changed = replace(entry, size=Expression.symbol(size))
    return replace(layout, dims=tuple(tuple(changed if e is entry else e for e in dims) for dims in layout.dims))


# ---- what one capture does not tell ----


def one_capture(build: Build, sizes: Mapping[str, int]) -> FamilyReport:
    return verify_family([rows(build, sizes)], TOKENS)


def times(value: float | str | Fraction) -> Build:
    return lambda p, x: p.multiply(x, p.full(value, x.shape))


@pytest.mark.parametrize(
    ("build", "sizes", "reading"),
    [
        (times(0.25), {"tp": 2, "batch": 6, "seq": 4}, "1/seq"),
        (times(0.25), {"tp": 2, "batch": 6, "seq": 16}, "the root of 1/seq"),
        (times("0.35355338"), {"tp": 2, "batch": 6, "seq": 8}, "the root of 1/seq"),
        (times(9), {"tp": 2, "batch": 6, "seq": 8}, "seq [+] 1"),
        (times(2), {"tp": 2, "batch": 10, "seq": 8}, "seq/4"),
        (first_four, {"tp": 2, "batch": 6, "seq": 16}, "a part of it"),
        (top_three, {"tp": 2, "batch": 4, "seq": 10}, "a part of it"),
        (window_of_five, {"tp": 2, "batch": 4, "seq": 10}, "a part of it"),
        (near, {"tp": 2, "batch": 14, "seq": 11}, "a part of seq"),
    ],
)
def test_a_number_that_may_be_a_formula_needs_a_second_capture(
    build: Build, sizes: Mapping[str, int], reading: str
) -> None:
    report = one_capture(build, sizes)
    assert report.verdict is Verdict.UNKNOWN
    assert any("--sample" in note for note in report.notes)
    assert any(re.search(f"may be a number, or .*{reading}", a.text) for a in report.assumptions)


def test_a_number_that_only_the_mesh_could_be_needs_a_second_capture() -> None:
    """0.5 on both sides of two ranks: the distributed one may be 1/tp."""
    report = one_capture(times(0.5), {"tp": 2, "batch": 6, "seq": 5})
    assert report.verdict is Verdict.UNKNOWN
    assert any(re.search(r"\(0\.5\) may be a number, or .*\b1/tp", note) for note in report.notes), report.notes
    assert one_capture(times(0.5), {"tp": 5, "batch": 35, "seq": 9}).verdict is Verdict.PROVED


def averaged(p: Program, x: Tensor) -> Tensor:
    total = p.reduce(x, [1])
    return p.multiply(total, p.full(Fraction(1, x.shape[1]), total.shape))


def last_masked(p: Program, x: Tensor) -> Tensor:
    last = p.full(x.shape[1] - 1, x.shape, "s32")
    return p.select(p.compare(p.iota(x.shape, 1), last, direction="LT"), x, p.full(0.0, x.shape))


def kept_rows(p: Program, x: Tensor) -> Tensor:
    """`reshape(6, -1)` and `reshape(batch, -1)`."""
    return p.reduce(p.reshape(p.reshape(x, (*x.shape, 1)), x.shape), [1], "max")


def whole_slice(p: Program, x: Tensor) -> Tensor:
    """`x[:, :7]` and `x[:, :seq]`."""
    return p.reduce(p.op("slice", x, start=[0, 0], limit=list(x.shape), stride=[1, 1]).result, [1], "max")


def whole_window(p: Program, x: Tensor) -> Tensor:
    zero = p.constant(0, "s32")
    return p.reduce(p.dynamic_slice(x, [zero, zero], list(x.shape)), [1], "max")


def numbered(p: Program, x: Tensor) -> Tensor:
    """The sum of positions below 7, or below seq."""
    total = p.reduce(p.convert(p.iota((x.shape[1],), 0), "f32"), [0])
    return p.add(x, p.broadcast(total, x.shape, []))


@pytest.mark.parametrize(
    ("build", "reading"),
    [
        (averaged, "1/seq"),
        (last_masked, "seq - 1"),
        (kept_rows, "batch"),
        (whole_slice, "seq"),
        (whole_window, "seq"),
        (numbered, "seq"),
    ],
)
def test_a_number_that_is_read_as_a_formula_may_be_a_number(build: Build, reading: str) -> None:
    """A program that has the number in its place is the same text: right here, and wrong at other sizes."""
    report = one_capture(build, {"tp": 2, "batch": 22, "seq": 7})
    assert report.verdict is Verdict.UNKNOWN
    assert any("--sample" in note for note in report.notes)
    assert any(f"may be a number, or {reading}" in note for note in report.notes), report.notes


@pytest.mark.parametrize(
    ("value", "reading"),
    [
        (6, "a part of seq"),
        (26, "seq [+] 3"),
        (276, "a multiple of seq"),
        (Fraction(3, 23), "3/seq"),
        (Fraction(22, 23), "22/seq"),
        (11.5, "seq/2"),
        (Fraction(1, 22), r"1/\(seq - 1\)"),
        ("110.30412", "a power of seq"),
        ("3.1354942", "the logarithm of seq"),
        ("0.95745337", "an exponential of 1/seq"),
        (0.1, r"1/\(2\*tp\)"),
        (0.37, None),
        (0.044715, None),
        (0.5, None),
    ],
)
def test_a_number_that_is_made_of_a_size_is_doubtful(value: float | str | Fraction, reading: str | None) -> None:
    facts = rows(times(value), {"tp": 5, "batch": 35, "seq": 23})
    symbols, points = resolve([facts], TOKENS)
    found = Doubts(Reading(facts, points[0], symbols, TOKENS)).found
    if reading is None:
        assert found == []
    else:
        assert any(re.search(f"may be a number, or .*{reading}", text) for text in found), found


def test_numbers_that_equations_give_are_certain() -> None:
    """A matrix product, an activation and a residual leave no choice of the numbers around them."""

    def block(p: Program, x: Tensor) -> Tensor:
        merged = p.reshape(x, (x.shape[0] * x.shape[1],))
        return p.add(x, p.reshape(p.tanh(merged), x.shape))

    assert one_capture(block, {"tp": 4, "batch": 12, "seq": 5}).verdict is Verdict.PROVED


def test_a_number_that_no_size_gives_is_a_number() -> None:
    report = one_capture(times(0.044715), {"tp": 2, "batch": 6, "seq": 8})
    assert report.verdict is Verdict.PROVED
    assert not any("number" in a.text and "constant" in a.text for a in report.assumptions)
