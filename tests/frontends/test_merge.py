"""Per-rank graphs become one program where they differ in numbers only; ranks that differ must agree on collectives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.readers.merge import merge


def sliced(rank: int, *, extra: bool = False, bound: int | None = None, ranks: int = 2) -> Graph:
    """x[4 r : 4 r + 4] + bound, summed over all ranks."""
    g = Graph(f"r{rank}", file=f"rank{rank}.txt")
    x = g.input("x", "s32", (16,))
    start = 4 * rank
    y = g.emit("slice", [x], start=[start], limit=[start + 4], stride=[1], name=f"slice_{rank}")
    y = g.emit("add", [y, g.splat(10 * rank if bound is None else bound, "s32", (4,))])
    if extra:
        y = g.emit("negate", [y])
    g.output(g.emit("all-reduce", [y], reducer="sum", groups=[list(range(ranks))], name="reduced"))
    return g


def test_numbers_that_differ_are_kept_per_rank() -> None:
    (program,) = merge([sliced(0), sliced(1)])
    assert list(program.ranks or ()) == [0, 1]
    cut, constant, *_ = program.ops
    assert cut.rank_numbers == {("start", 0): {0: 0, 1: 4}, ("limit", 0): {0: 4, 1: 8}}
    assert constant.rank_numbers == {("value", 0): {0: 0, 1: 10}}
    assert constant.result.literal is None
    assert program.ops[-1].groups == [[0, 1]]


def test_a_value_that_only_the_last_rank_changes() -> None:
    (program,) = merge([sliced(0, bound=5, ranks=3), sliced(1, bound=5, ranks=3), sliced(1, bound=7, ranks=3)])
    assert program.ops[1].rank_numbers == {("value", 0): {0: 5, 1: 5, 2: 7}}
    assert program.ops[0].rank_numbers["start", 0] == {0: 0, 1: 4, 2: 4}


def test_reals_that_differ_are_no_numbers_by_rank() -> None:
    """Facts have integers by rank only: rank files with 1.0 and 0.0 were refused, with a row of a table."""

    def flagged(rank: int, flag: int) -> Graph:
        g = Graph(f"r{rank}", file=f"rank{rank}.txt")
        y = g.emit("multiply", [g.input("x", "f32", (4,)), g.splat(flag, "f32", (4,))])
        g.output(g.emit("all-reduce", [y], reducer="sum", groups=[[0, 1]], name="reduced"))
        return g

    assert len(merge([flagged(0, 1), flagged(1, 0)])) == 2
    assert len(merge([flagged(0, 1), flagged(1, 1)])) == 1


def test_equal_graphs_have_nothing_per_rank() -> None:
    (program,) = merge([sliced(0), sliced(0)])
    assert not any(op.rank_numbers for op in program.ops)
    assert program.ops[1].result.literal is not None


def test_one_graph_is_every_ranks() -> None:
    (program,) = merge([sliced(0)])
    assert program.ranks is None


def test_ranks_that_differ_stay_programs() -> None:
    programs = merge(sliced(rank, extra=rank % 2 == 1, ranks=4) for rank in range(4))
    assert [list(program.ranks or ()) for program in programs] == [[0, 2], [1, 3]]


def test_only_bounds_of_slices_and_constants_are_numbers_by_rank() -> None:
    """What a transpose does on one rank is no number that rules could compare."""

    def turned(rank: int) -> Graph:
        g = Graph(f"r{rank}", file=f"rank{rank}.txt")
        x = g.input("x", "f32", (4, 4))
        g.output(g.emit("transpose", [x], dimensions=[rank, 1 - rank]))
        return g

    assert len(merge([turned(0), turned(1)])) == 2


def test_pads_by_the_rank_are_blocks_written_at_its_own_place() -> None:
    """The gradient of a slice that is the rank's own (`slice_backward`)."""

    def padded(rank: int, interior: int = 0) -> Graph:
        g = Graph(f"r{rank}", file=f"rank{rank}.txt")
        x, low = g.input("x", "f32", (4, 3)), 4 * rank
        wide = g.emit("pad", [x, g.constant(0, "f32")], low=[low, 1], high=[4 - low, 0], interior=[interior, 0])
        g.output(g.emit("negate", [wide]))
        return g

    (program,) = merge([padded(0), padded(1)])
    assert [op.kind for op in program.ops] == [
        "constant", "broadcast", "constant", "constant", "dynamic-update-slice", "negate",
    ]  # fmt: skip
    assert program.ops[2].rank_numbers == {("value", 0): {0: 0, 1: 4}}
    assert program.ops[3].result.literal is not None
    assert program.ops[-1].operands == program.ops[-2].results
    assert len(merge([padded(0, 1), padded(1, 1)])) == 2


def test_wiring_that_differs_is_no_number() -> None:
    def build(swapped: bool) -> Graph:
        g = Graph("g")
        x, y = g.input("x", "f32", (4,)), g.input("y", "f32", (4,))
        g.output(g.emit("subtract", [y, x] if swapped else [x, y]))
        return g

    assert len(merge([build(False), build(True)])) == 2


def grouped(rank: int, group: list[int]) -> Graph:
    g = Graph(f"r{rank}", file=f"rank{rank}.txt")
    x = g.input("x", "f32", (4,))
    g.output(g.emit("all-reduce", [x], reducer="sum", groups=[group], name="ar"))
    return g


def test_groups_of_the_ranks_are_joined() -> None:
    (program,) = merge(grouped(rank, [rank // 2 * 2, rank // 2 * 2 + 1]) for rank in range(4))
    assert program.ops[0].groups == [[0, 1], [2, 3]]


def test_a_group_without_its_own_rank_is_refused() -> None:
    with pytest.raises(InputError, match="rank 1 issues"):
        merge([grouped(0, [0]), grouped(1, [0])])


def test_ranks_that_name_different_partners_are_refused() -> None:
    with pytest.raises(InputError, match="disagree"):
        merge([grouped(0, [0, 1]), grouped(1, [1, 2]), grouped(2, [1, 2])])


def ordered(kinds: list[str], extra: bool) -> Callable[[int], Graph]:
    def build(rank: int) -> Graph:
        g = Graph(f"r{rank}", file=f"rank{rank}.txt")
        x = g.input("x", "f32", (4,))
        if extra:
            x = g.emit("negate", [x])
        for n, reducer in enumerate(kinds):
            x = g.emit("all-reduce", [x], reducer=reducer, groups=[[0, 1]], name=f"ar{n}")
        g.output(x)
        return g

    return build


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (["sum", "max"], ["max", "sum"], "collective 0 over ranks"),
        (["sum", "max"], ["sum"], "collective 1 over ranks"),
        (["sum"], [], "never issues"),
    ],
)
def test_collectives_out_of_order_are_refused_with_both_places(
    first: list[str], second: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        merge([ordered(first, False)(0), ordered(second, True)(1)])
    assert caught.value.file == "rank0.txt"


def test_collectives_in_order_are_accepted() -> None:
    programs = merge([ordered(["sum", "max"], False)(0), ordered(["sum", "max"], True)(1)])
    assert len(programs) == 2


def named(*names: str | None) -> Graph:
    """Two numbers, each summed over both ranks, by a group of that name."""
    g = Graph(f"rank {names}", file="rank.txt")
    for name in names:
        x = g.input(f"x{len(g.inputs)}", "f32", (4,))
        op = g.add("all-reduce", [x], symbols={"reducer": ["sum"]}, groups=[[0, 1]], group_name=name)
        g.output(op.result)
    return g


@pytest.mark.parametrize("second", [("b", "a"), ("a", "a"), ("c", "d")])
def test_groups_of_the_same_members_are_told_apart_by_name(second: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="both names are of the ranks"):
        merge([named("a", "b"), named(*second)])


@pytest.mark.parametrize(
    ("first", "second"),
    [(("a", "b"), ("a", "b")), (("a", "a"), ("b", "b")), ((None, "a"), (None, "b")), (("g", "0"), ("g", "1"))],
)
def test_ranks_may_call_their_only_group_what_they_like(
    first: tuple[str | None, ...], second: tuple[str | None, ...]
) -> None:
    assert len(merge([named(*first), named(*second)])) == 1


def two_sums(*, turned: bool, meeting: bool) -> Graph:
    """tanh and sine of an input, in either order, perhaps each summed over all ranks where it is made."""
    g = Graph("r", file="rank.txt")
    x = g.input("x", "f32", (4,))
    found = {}
    for kind in ("sine", "tanh") if turned else ("tanh", "sine"):
        y = g.emit(kind, [x])
        found[kind] = g.emit("all-reduce", [y], reducer="sum", groups=[[0, 1]]) if meeting else y
    for kind in ("tanh", "sine"):
        g.output(found[kind])
    return g


def test_independent_ops_may_stand_in_another_order() -> None:
    (program,) = merge([two_sums(turned=False, meeting=False), two_sums(turned=True, meeting=False)])
    assert list(program.ranks or ()) == [0, 1]


def test_collectives_keep_their_order() -> None:
    assert len(merge([two_sums(turned=False, meeting=True), two_sums(turned=True, meeting=True)])) == 2
