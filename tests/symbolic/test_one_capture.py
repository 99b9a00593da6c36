"""One capture read at other sizes: as several are, as the program is written, or an error that says what is open."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.facts.validate import validate
from scalify_dl.families.family import Family
from scalify_dl.families.lift import lift
from scalify_dl.families.report import as_object
from scalify_dl.families.shapes import groups_with_ones
from scalify_dl.families.single import Reading
from scalify_dl.families.symbols import resolve
from scalify_dl.families.unify import Contradiction, Unifier
from scalify_dl.families.verify import verify_family
from scalify_dl.ir.expression import Expression
from scalify_dl.ir.literals import Literal
from scalify_dl.pairing.builder import Pair, Program, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict

from .programs import FAMILIES, Sizes, coordinates

SHOWN = {"meta", "source", "tensor_name", "output_name", "placement_note", "assume"}
READ_ALIKE = ["mlp", "mlp on dp and tp", "mean", "embedding", "attention", "causal"]
"""Families of which every size is named, or follows from one that is."""


def read(facts: Facts, symbols: dict[str, str | None]) -> Reading:
    found, points = resolve([facts], symbols)
    return Reading(facts, points[0], found, symbols)


def same(one: Facts, other: Facts) -> list[str]:
    """Tables that differ."""
    return [
        table
        for table in one
        if table not in SHOWN and sorted(map(repr, one[table])) != sorted(map(repr, other[table]))
    ]


@pytest.mark.parametrize("name", READ_ALIKE)
def test_one_capture_is_read_as_several_are(name: str) -> None:
    captures = FAMILIES[name].captures()
    symbols, points = resolve(captures, FAMILIES[name].symbols)
    fitted = lift(captures, points, symbols)
    for capture in captures:
        family = read(capture, dict(FAMILIES[name].symbols)).family()
        assert family.axes == fitted.axes
        for table in ("dim", "attr_number", "range"):
            assert _numbers(family, table) == _numbers(fitted, table)
        for field in ("shards", "expected", "literals", "rank_numbers", "groups", "permutes"):
            assert getattr(family, field) == getattr(fitted, field), field


def _numbers(family: Family, table: str) -> list[str]:
    return sorted(map(repr, family.tables[table]))


@pytest.mark.parametrize("name", READ_ALIKE)
def test_members_are_the_programs_at_other_sizes(name: str) -> None:
    family = FAMILIES[name]
    small, large = family.sizes
    for here, there in ((small, large), (large, small), (small, small)):
        member = read(family.build(here, "").facts(), dict(family.symbols)).family().instantiate(there)
        validate(member)
        assert same(member, family.build(there, "").facts()) == []


# ---- random programs: what is read from one size is what is built at another ----

Step = Callable[[Program, Tensor], Tensor]


def merge(at: int) -> Step:
    def apply(p: Program, x: Tensor) -> Tensor:
        i = at % max(1, len(x.shape) - 1)
        return p.reshape(x, [*x.shape[:i], x.shape[i] * x.shape[i + 1], *x.shape[i + 2 :]]) if len(x.shape) > 1 else x

    return apply


def turned(at: int) -> Step:
    def apply(p: Program, x: Tensor) -> Tensor:
        i = at % len(x.shape)
        return p.transpose(x, *range(i, len(x.shape)), *range(i))

    return apply


def repeated(at: int, times: int) -> Step:
    def apply(p: Program, x: Tensor) -> Tensor:
        i = at % (len(x.shape) + 1)
        shape = [*x.shape[:i], times, *x.shape[i:]]
        return p.broadcast(x, shape, [d for d in range(len(shape)) if d != i])

    return apply


def positions(at: int) -> Step:
    def apply(p: Program, x: Tensor) -> Tensor:
        return p.add(x, p.convert(p.iota(x.shape, at % len(x.shape)), "f32"))

    return apply


def summed(at: int) -> Step:
    def apply(p: Program, x: Tensor) -> Tensor:
        return p.reduce(x, at % len(x.shape)) if len(x.shape) > 2 else x

    return apply


def mean(at: int) -> Step:
    def apply(p: Program, x: Tensor) -> Tensor:
        if len(x.shape) < 3:
            return x
        i = at % len(x.shape)
        total = p.reduce(x, i)
        return p.multiply(total, p.full(Fraction(1, x.shape[i]), total.shape))

    return apply


def twice(at: int) -> Step:
    return lambda p, x: p.concatenate([x, p.negate(x)], at % len(x.shape))


def flat_and_back(p: Program, x: Tensor) -> Tensor:
    count = 1
    for size in x.shape:
        count *= size
    return p.reshape(p.exponential(p.reshape(x, [count])), x.shape)


steps = st.one_of(
    st.builds(merge, st.integers(0, 3)),
    st.builds(turned, st.integers(1, 3)),
    st.builds(repeated, st.integers(0, 3), st.sampled_from([3, 4])),
    st.builds(positions, st.integers(0, 3)),
    st.builds(summed, st.integers(0, 3)),
    st.builds(mean, st.integers(0, 3)),
    st.builds(twice, st.integers(0, 3)),
    st.just(flat_and_back),
)


def chain(sizes: Sizes, listed: list[Step]) -> Pair:
    """The same steps on both sides; the batch is cut over tp."""
    pair = Pair(f"tp={sizes['tp']}")
    x = pair.base.input("x", (sizes["batch"], sizes["seq"], 6))
    y = pair.dist.shard("x", {0: "tp"})
    for step in listed:
        x, y = step(pair.base, x), step(pair.dist, y)
    pair.base.output(x)
    pair.dist.output(y)
    return pair


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=6))
def test_random_programs_are_read_as_they_are_written(listed: list[Step]) -> None:
    small, large = {"tp": 2, "batch": 14, "seq": 11}, {"tp": 3, "batch": 15, "seq": 8}
    family = read(chain(small, listed).facts(), {"tp": None, "batch": "x:0", "seq": "x:1"}).family()
    assert same(family.instantiate(large), chain(large, listed).facts()) == []


# ---- verdicts ----


@pytest.mark.parametrize("name", ["mlp", "attention"])
def test_right_programs_are_proved_for_all_sizes(name: str) -> None:
    report = verify_family(FAMILIES[name].captures()[:1], FAMILIES[name].symbols)
    assert report.verdict is Verdict.PROVED, report.notes
    assert any(a.why == "inferred" for a in report.assumptions)
    listed = as_object(report)["reading"]
    assert next(iter(listed["inputs"].values()))[:2] == ["batch", "seq"]


@pytest.mark.parametrize(
    ("name", "bug", "reading"),
    [
        ("causal", "", "(19) may be a number, or seq - 1"),
        ("mean", "", "1/(4*batch*seq)"),
        ("mean", "frozen", "1/(4*batch*seq)"),
        ("embedding", "", "(20) may be a number, or vocab/tp"),
        ("embedding", "frozen offset", "(20) may be a number, or vocab/tp"),
    ],
)
def test_a_right_program_and_one_that_has_a_number_in_place_of_a_size_are_one_text(
    name: str, bug: str, reading: str
) -> None:
    report = verify_family(FAMILIES[name].captures(bug)[:1], FAMILIES[name].symbols)
    assert report.verdict is Verdict.UNKNOWN
    assert any(reading in a.text for a in report.assumptions), [a.text for a in report.assumptions]


def test_readings_that_no_equation_decides_are_assumptions() -> None:
    report = verify_family(FAMILIES["causal"].captures()[:1], FAMILIES["causal"].symbols)
    assert any("19 is seq - 1" in a.text for a in report.assumptions)


@pytest.mark.parametrize(
    ("name", "bug", "capture"),
    [
        ("mlp", "pairs", 1),
        ("mlp", "no reduction", 0),
        ("mean", "frozen", 1),
        ("causal", "frozen offset", 1),
    ],
)
def test_wrong_programs_are_refuted(name: str, bug: str, capture: int) -> None:
    report = verify_family(FAMILIES[name].captures(bug)[capture : capture + 1], FAMILIES[name].symbols)
    assert report.verdict is Verdict.REFUTED
    assert report.sizes is not None


def test_a_bug_that_the_capture_does_not_show_is_found() -> None:
    family = FAMILIES["embedding"]
    report = verify_family(family.captures("ids below 1000")[:1], {"tp": None, "vocab": "table:0"})
    assert report.verdict is Verdict.REFUTED
    assert report.sizes is not None
    assert report.sizes["vocab"] > 1000


@pytest.mark.parametrize("bug", ["half of the bias", "share of the bias"])
def test_a_half_on_two_ranks_needs_a_second_capture(bug: str) -> None:
    with pytest.raises(InputError, match=r"1/2 in the capture.*1/tp") as error:
        verify_family([FAMILIES["mlp"].build(FAMILIES["mlp"].sizes[0], bug).facts()], FAMILIES["mlp"].symbols)
    assert "--sample" in str(error.value)


# ---- what one capture does not tell ----


def pair_of(build: Callable[[Program, Tensor], Tensor], shape: tuple[int, ...], mesh: str = "tp=2") -> Facts:
    """The same program on both sides, whole on every rank."""
    pair = Pair(mesh)
    pair.base.output(build(pair.base, pair.base.input("x", shape)))
    pair.dist.output(build(pair.dist, pair.dist.shard("x")))
    return pair.facts()


def test_a_size_that_splits_in_two_ways_is_an_error_that_names_them() -> None:
    facts = pair_of(lambda p, x: p.reshape(x, (3, 4, 6)), (3, 24))
    with pytest.raises(InputError, match=r"inner/6, 6 or 4, inner/4") as error:
        read(facts, {"inner": "x:1"})
    assert "--sample" in str(error.value)


def test_a_size_of_one_is_an_error() -> None:
    with pytest.raises(InputError, match="batch is 1"):
        read(pair_of(lambda p, x: p.negate(x), (1, 4)), {"batch": "x:0"})


def test_a_size_that_a_table_fixes_is_an_error() -> None:
    table = Literal("{1.0,2.0,3.0,5.0}", None)
    facts = pair_of(lambda p, x: p.multiply(x, p.constant(table, "f32", x.shape)), (4,))
    with pytest.raises(InputError, match=r"both (size and 4|4 and size)"):
        read(facts, {"size": "x:0"})


def test_one_size_with_two_names_is_an_error() -> None:
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    b.output(b.add(b.input("x", (4,)), b.input("y", (4,))))
    d.output(d.add(d.shard("x"), d.shard("y")))
    with pytest.raises(InputError, match=r"both a and b|both b and a"):
        read(pair.facts(), {"a": "x:0", "b": "y:0"})


def test_dims_that_nothing_relates_to_a_size_are_numbers() -> None:
    family = read(pair_of(lambda p, x: p.reshape(x, (4, 2, 3)), (4, 6)), {"batch": "x:0"}).family()
    assert [str(e) for t, i, e in family.tables["dim"] if t == "base/reshape"] == ["batch", "2", "3"]


def test_what_is_read_of_a_dim_is_within_it_at_every_size() -> None:
    captures = [pair_of(lambda p, x: p.slice(x, 0, 1, 3), (seq, 6)) for seq in (4, 20)]
    report = verify_family(captures, {"seq": "x:0"})
    assert report.verdict is Verdict.PROVED
    assert report.domain == ["seq >= 3"]


def test_rows_that_are_added_one_by_one_may_be_all_there_are() -> None:
    """A loop over them that was written out: at other sizes it has other ops (it was REFUTED there)."""

    def rows(p: Program, x: Tensor, count: int) -> Tensor:
        total = p.slice(x, 0, 0, 1)
        for n in range(1, count):
            total = p.add(total, p.slice(x, 0, n, n + 1))
        return total

    pair = Pair("tp=2")
    pair.base.output(rows(pair.base, pair.base.input("x", (6, 3)), 6))
    pair.dist.output(pair.dist.all_reduce(rows(pair.dist, pair.dist.shard("x", {0: ["tp"]}), 3), ["tp"]))
    report = verify_family([pair.facts()], {"seq": "x:0"})
    assert report.verdict is Verdict.UNKNOWN
    assert any("take all of dim 0" in note for note in report.notes)


def test_a_bare_name_lists_the_inputs() -> None:
    with pytest.raises(InputError, match=r"0 is 4x6"):
        read(pair_of(lambda p, x: p.negate(x), (4, 6)), {"batch": None})


def heads(sizes: Sizes, drop: bool = False) -> Pair:
    """A sum along the middle; at one head per rank a program may `drop` that dim."""
    pair = Pair(f"tp={sizes['tp']}")
    b, d = pair.base, pair.dist
    b.output(b.reduce(b.input("x", (4, 3, 5)), 1))
    x = d.shard("x", {0: "tp"})
    d.output(d.reshape(d.reduce(d.reshape(x, (3, 5)), 0), (1, 5)) if drop else d.reduce(x, 1))
    return pair


def test_dims_of_one_element_are_doubtful() -> None:
    assert verify_family([heads({"tp": 2}).facts()], {"tp": None}).verdict is Verdict.PROVED
    assert verify_family([heads({"tp": 4}).facts()], {"tp": None}).verdict is Verdict.PROVED
    reading = read(heads({"tp": 4}, drop=True).facts(), {"tp": None})
    assert [str(size) for size in dict(reading.inputs())["base/x"]] == ["4", "3", "5"]
    assert any("4/tp have one element" in doubt for doubt in reading.doubts())


@pytest.mark.parametrize(
    ("here", "there", "groups"),
    [
        ([2, 32, 16], [2, 32, 1, 16], [([0], [0]), ([1, 2], [1, 2, 3])]),
        ([2, 1, 32], [2, 1, 4, 8], [([0], [0]), ([1], [1]), ([2], [2, 3])]),
        ([6, 1], [2, 3, 1], [([0], [0, 1]), ([1], [2])]),
        ([1, 6], [6], [([0, 1], [0])]),
    ],
)
def test_a_dim_of_one_element_belongs_to_its_neighbours(here: list[int], there: list[int], groups: object) -> None:
    assert groups_with_ones(here, there) == groups


# ---- positions of ranks ----


def own_block(sizes: Sizes, step: int = 1) -> Pair:
    """Every rank adds positions of its block, from its number on the minor axis."""
    pair = Pair(f"dp=2,tp={sizes['tp']}")
    b, d = pair.base, pair.dist
    x = b.input("x", (sizes["seq"], 4))
    b.output(b.add(x, b.convert(b.iota(x.shape, 0), "f32")))
    x = d.shard("x", {0: "tp"})
    rank = d.op("remainder", d.partition_id(), d.constant(sizes["tp"] * step, "u32")).result
    first = d.multiply(d.convert(rank, "s32"), d.constant(x.shape[0], "s32"))
    i = d.add(d.iota(x.shape, 0), d.broadcast(first, x.shape, ()))
    d.output(d.add(x, d.convert(i, "f32")))
    return pair


def test_a_rank_modulo_an_axis_is_read_with_the_axis() -> None:
    reading = read(own_block({"tp": 4, "seq": 20}).facts(), {"tp": None, "seq": "x:0"})
    assert {str(f) for f in reading.literals.values()} == {"tp", "seq/tp"}


def test_a_table_with_an_entry_per_rank_has_no_symbolic_form() -> None:
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    x = b.input("x", (8, 4))
    b.output(b.add(x, b.convert(b.iota(x.shape, 0), "f32")))
    x = d.shard("x", {0: "tp"})
    table = d.constant(Literal("{0,4}", None, (0, 4)), "s32", (2,))
    first = d.reshape(d.dynamic_slice(table, [d.partition_id()], [1]), ())
    d.output(d.add(x, d.convert(d.add(d.iota(x.shape, 0), d.broadcast(first, x.shape, ())), "f32")))
    report = verify_family([pair.facts()], {"tp": None})
    assert report.verdict is Verdict.UNKNOWN
    assert any("entry for every rank" in note for note in report.notes)


@pytest.mark.parametrize("tp", [1, 2])
def test_a_position_on_an_axis_of_one_rank_is_zero(tp: int) -> None:
    right = analyse(own_block({"tp": tp, "seq": 20}).facts(), Options())
    assert [row[2] for row in right.rows("output_verdict")] == ["PROVED"]
    wrong = analyse(own_block({"tp": tp, "seq": 20}, step=2).facts(), Options())  # counts dp as well
    assert [row[2] for row in wrong.rows("output_verdict")] != ["PROVED"]


def test_coordinates_of_a_pair_are_row_major() -> None:
    assert coordinates(Pair("dp=2,tp=2"), "tp") == {0: 0, 1: 1, 2: 0, 3: 1}


# ---- equations ----


def number(value: int) -> Expression:
    return Expression.number(value)


def test_products_give_the_one_that_is_missing() -> None:
    u = Unifier({"batch": 2})
    for name, value in (("batch", 2), ("seq", 5), ("flat", 10), ("other", 10)):
        u.add((name,), value)
    u.product([("batch",), ("seq",)], [("flat",)])
    u.same(("flat",), ("other",))
    u.decide(("batch",), Expression.symbol("batch"))
    u.decide(("other",), Expression.parse("10*batch/2"))
    u.propagate()
    assert u.formula(("seq",)) == number(5)


def test_sums_give_the_one_that_is_missing() -> None:
    u = Unifier({"seq": 5})
    for name, value in (("limit", 5), ("start", 1), ("size", 4)):
        u.add((name,), value)
    u.total([(1, ("limit",)), (-1, ("start",)), (-1, ("size",))])
    u.decide(("limit",), Expression.symbol("seq"))
    u.constant(("start",))
    u.propagate()
    assert str(u.formula(("size",))) == "seq - 1"


def test_two_formulas_of_one_cell_are_a_contradiction() -> None:
    u = Unifier({"seq": 5})
    u.add(("a",), 5)
    u.add(("b",), 5)
    u.same(("a",), ("b",))
    u.decide(("a",), Expression.symbol("seq"))
    with pytest.raises(Contradiction):
        u.constant(("b",))
