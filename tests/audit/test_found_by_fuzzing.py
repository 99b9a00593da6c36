"""Unsound lemmas that `rules check` found once: their minimal graphs, kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import Derived, derive
from scalify_dl.audit.fuzz import check_rules
from scalify_dl.audit.fuzz.padding_steps import first, uneven_shard
from scalify_dl.audit.fuzz.partitioner_steps import exchanged, part, rank_scalar
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.audit.trials.mesh import dropout_in_loops
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout, Pending, Repl


def derived_truths(pair: Pair) -> Derived:
    """What the rules derive, after checking that all of it is true."""
    tables = pair.tables()
    derived = derive(tables)
    assert audit(tables, derived.corr).false == []
    return derived


def scatter_rows(g: Graph, x: Tensor, ids: Tensor, updates: Tensor) -> Tensor:
    return g.emit(
        "scatter", [x, ids, updates], update_window_dims=[1], inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0],
        index_vector_dim=1, reducer="sum",
    )  # fmt: skip


def test_a_cast_to_integers_does_not_pass_a_pending_sum() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), pending={"tp": "sum"})
    pair.outputs(
        *(g.emit("convert", [v], dtype="s32") for g, v in ((pair.base, x), (pair.dist, dx))),
        layout="[0:1x8][1:1x4]|tp=sum2",
    )
    assert not derived_truths(pair).proved


def test_an_integer_division_does_not_pass_a_pending_sum() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), pending={"tp": "sum"}, dtype="s32", range=(0, 50))
    halves = (g.emit("divide", [v, g.splat(2, "s32", v.shape)]) for g, v in ((pair.base, x), (pair.dist, dx)))
    pair.outputs(*halves, layout="[0:1x8][1:1x4]|tp=sum2")
    assert not derived_truths(pair).proved


def test_what_is_scattered_into_is_not_added_on_every_rank() -> None:
    pair = Pair({"tp": 2})
    (x, dx), (i, di), (u, du) = (
        pair.input((8, 4)),
        pair.input((6,), {0: "tp"}, dtype="s32", range=(0, 8)),
        pair.input((6, 4), {0: "tp"}),
    )
    z = scatter_rows(pair.dist, dx, di, du)
    pair.outputs(
        scatter_rows(pair.base, x, i, u), pair.dist.emit("all-reduce", [z], reducer="sum", groups=pair.groups("tp"))
    )
    assert not derived_truths(pair).proved


def test_sharded_updates_scattered_into_zeros_are_a_pending_sum() -> None:
    pair = Pair({"tp": 2})
    (i, di), (u, du) = pair.input((6,), {0: "tp"}, dtype="s32", range=(0, 8)), pair.input((6, 4), {0: "tp"})
    b, d = pair.base, pair.dist
    z = scatter_rows(d, d.splat(0.0, "f32", (8, 4)), di, du)
    pair.outputs(
        scatter_rows(b, b.splat(0.0, "f32", (8, 4)), i, u),
        d.emit("all-reduce", [z], reducer="sum", groups=pair.groups("tp")),
    )
    assert derived_truths(pair).proved


def test_a_mask_for_a_uniform_value_is_not_uniform() -> None:
    pair = Pair({"dp": 2, "tp": 3})
    x, dx = pair.input((12,), {0: "tp"})
    wide = spread(pair.base, x, (6, 12), [1]), spread(pair.dist, dx, (6, 4), [1])
    masks = [g.emit("dropout-mask", [v], probability="0.5") for g, v in zip((pair.base, pair.dist), wide, strict=True)]
    pair.outputs(*masks)
    derived_truths(pair)


def test_a_rotation_over_parts_and_replicas_mixes_them() -> None:
    """tp = sum2,r2: turning by one rank keeps the sums, but no longer gives replicas the same part."""
    pair = Pair({"tp": 4})
    layout = Layout.of([[Digit(0, 1, 6)]], [("tp", [Pending("sum", 2), Repl(2)])])
    (x, dx), (y, dy) = pair.input((6,), layout=layout), pair.input((6,), layout=Layout.parse("[0:1x6]|tp=r2,sum2"))
    d = pair.dist
    turned = d.emit("collective-permute", [dx], pairs=[(r, (r + 1) % 4) for r in range(4)])
    z = d.emit("all-reduce", [d.emit("multiply", [turned, dy])], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(pair.base.emit("multiply", [x, y]), z)
    assert not derived_truths(pair).proved


def test_masks_of_one_value_in_two_shapes_are_paired_one_to_one() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((12,), {0: "tp"})
    for second in (False, True):
        results = []
        for g, v, rows in ((pair.base, x, (4, 3)), (pair.dist, dx, (2, 3))):
            y = g.emit("reshape", [v], shape=rows) if second else v
            mask = g.emit("convert", [g.emit("dropout-mask", [y], probability="0.5")], dtype="f32")
            results.append(g.emit("multiply", [y, mask]))
        pair.outputs(*results)
    derived_truths(pair)


def test_what_was_supposed_of_a_loop_and_did_not_come_back_is_not_reported() -> None:
    """The body adds over the ranks what the baseline does not: the carried value holds on entry only."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((8, 4), {0: "tp"}), pair.input((8, 4), {0: "tp"})
    results = []
    for g, v, u in ((pair.base, x, y), (pair.dist, dx, dy)):
        condition, body = Graph("condition"), Graph("body")
        i = condition.input("i", "s32", ())
        condition.input("x", "f32", v.shape)
        condition.output(condition.emit("compare", [i, condition.constant(2, "s32")], direction="LT"))
        j, a = body.input("i", "s32", ()), body.input("x", "f32", v.shape)
        body.output(body.emit("add", [j, body.constant(1, "s32")]))
        z = body.emit("sine", [a])
        if g is pair.dist:
            z = body.emit("all-reduce", [z], reducer="sum", groups=pair.groups("tp"))
        body.output(z)
        types = [("s32", ()), ("f32", v.shape)]
        loop = g.add("while", [g.constant(0, "s32"), v], types, regions=[condition, body]).results[1]
        results.append(g.emit("add", [loop, u]))
    pair.outputs(*results)
    assert not derived_truths(pair).proved


def test_a_broadcast_that_turns_dims_round_is_no_renaming() -> None:
    for shape in ((4, 4), (1, 4, 4)):
        pair = Pair({"tp": 2})
        x, dx = pair.input((4, 4))
        dims = [len(shape) - 2, len(shape) - 1]
        pair.outputs(spread(pair.base, x, shape, dims), spread(pair.dist, dx, shape, dims[::-1]))
        assert not derived_truths(pair).proved


def counting(g: Graph, x: Tensor, times: int) -> Tensor:
    """x doubled so many times, in a loop that carries numbers only."""
    condition, body = Graph("condition"), Graph("body")
    i = condition.input("i", "s32", ())
    condition.input("x", "f32", ())
    condition.output(condition.emit("compare", [i, condition.constant(times, "s32")], direction="LT"))
    j, a = body.input("i", "s32", ()), body.input("x", "f32", ())
    body.output(body.emit("add", [j, body.constant(1, "s32")]))
    body.output(body.emit("add", [a, a]))
    return g.add("while", [g.constant(0, "s32"), x], [("s32", ()), ("f32", ())], regions=[condition, body]).results[1]


def test_a_loop_over_numbers_is_no_op_of_its_operands_alone() -> None:
    for times, proved in ((3, True), (4, False)):
        pair = Pair({"tp": 2})
        x, dx = pair.input(())
        pair.outputs(counting(pair.base, x, 3), counting(pair.dist, dx, times))
        assert bool(derived_truths(pair).proved) == proved


def test_an_unknown_op_of_numbers_is_not_taken_for_a_function() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input(())
    pair.outputs(*(g.add("unknown:draw", [v], [("f32", ())]).result for g, v in ((pair.base, x), (pair.dist, dx))))
    assert not derived_truths(pair).proved


def test_a_cast_that_wraps_round_does_not_pass_a_pending_maximum() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((40,), pending={"tp": "max"}, dtype="s32", range=(0, 400))
    narrow = (g.emit("convert", [v], dtype="s8") for g, v in ((pair.base, x), (pair.dist, dx)))
    pair.outputs(*narrow, layout="[0:1x40]|tp=max2")
    assert not derived_truths(pair).proved


def test_no_sum_is_left_pending_beside_another_reduction() -> None:
    pair = Pair({"dp": 2, "tp": 2})
    x, dx = pair.input((4, 4), {0: "tp"}, pending={"dp": "max"})
    d = pair.dist
    offset = d.add("constant", [], [("s32", ())])
    offset.rank_numbers["value", 0] = {rank: 2 * at[1] for rank, at in enumerate(pair.mesh.coordinates)}
    z = d.emit("dynamic-update-slice", [d.splat(0.0, "f32", (4, 4)), dx, offset.result, d.constant(0, "s32")])
    pair.outputs(x, z)
    assert not any("max" in row[4] and "sum" in row[4] for row in derived_truths(pair).corr)


def test_an_unsigned_number_of_the_rank_wraps_round() -> None:
    """In u32, rank - 1 is never below 0: every rank adds its x."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 4))
    d = pair.dist
    before = d.emit("subtract", [d.add("partition-id", [], [("u32", ())]).result, d.constant(1, "u32")])
    there = d.emit("compare", [before, d.constant(0, "u32")], direction="GE")
    kept = d.emit("select", [spread(d, there, (4, 4), []), dx, d.splat(0.0, "f32", (4, 4))])
    pair.outputs(x, d.emit("all-reduce", [kept], reducer="sum", groups=pair.groups("tp")))
    assert not derived_truths(pair).proved


def test_an_index_below_zero_wraps_round_in_an_unsigned_type() -> None:
    """Through u32, -1 is 4294967295 in s64."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8,), {0: "tp"}, dtype="s64", range=(-4, 8))
    results = []
    for g, v in ((pair.base, x), (pair.dist, dx)):
        i = g.emit("iota", [], dtype="s32", shape=v.shape, dimension=0)
        if g is pair.dist:
            offset = g.add("constant", [], [("s32", ())])
            offset.rank_numbers["value", 0] = {0: 0, 1: 4}
            i = g.emit("add", [i, spread(g, offset.result, v.shape, [])])
        i = g.emit("subtract", [i, g.splat(1, "s32", v.shape)])
        if g is pair.base:
            i = g.emit("convert", [i], dtype="u32")
        results.append(g.emit("compare", [g.emit("convert", [i], dtype="s64"), v], direction="LE"))
    pair.outputs(*results)
    assert not derived_truths(pair).proved


def test_a_dim_without_elements_is_no_error() -> None:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((0, 4), {1: "tp"}), pair.input((4, 6), {0: "tp"})
    dots = [
        g.emit("dot", operands, lhs_contracting_dims=[1], rhs_contracting_dims=[0])
        for g, operands in ((pair.base, [x, w]), (pair.dist, [dx, dw]))
    ]
    pair.outputs(dots[0], pair.dist.emit("all-reduce", [dots[1]], reducer="sum", groups=pair.groups("tp")))
    derived_truths(pair)


def test_a_value_that_ranks_have_alike_is_no_block_of_a_repetition() -> None:
    """x at the block of the rank's tp, zeros beside it: dealt to dp, only ranks with dp = tp have a part."""
    pair = Pair({"dp": 2, "tp": 2})
    x, dx = pair.input((4, 4))
    d = pair.dist
    offset = d.add("constant", [], [("s32", ())])
    offset.rank_numbers["value", 0] = {rank: 4 * at[1] for rank, at in enumerate(pair.mesh.coordinates)}
    z = d.emit("dynamic-update-slice", [d.splat(0.0, "f32", (4, 8)), dx, d.constant(0, "s32"), offset.result])
    pair.outputs(x, d.emit("reduce-scatter", [z], dimension=1, reducer="sum", groups=pair.groups("dp")))
    derived_truths(pair)


def test_a_part_without_elements_that_is_passed_on_does_not_keep_the_rules_going() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2), {0: "tp"})
    whole = exchanged(pair, dx, 0, "tp", 1, 2)
    none = exchanged(pair, dx, 0, "tp", 1, 0)
    pair.outputs(part(pair.base, x, 0, 1, 5), whole)
    pair.outputs(part(pair.base, x, 0, 1, 1), none)
    derived_truths(pair)


def test_a_number_is_not_what_it_is_where_it_is_spread_over_nothing() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((0,))
    products = (
        g.emit("multiply", [v, g.emit("broadcast", [g.constant(2.0, "f32")], shape=(0,), dimensions=[])])
        for g, v in ((pair.base, x), (pair.dist, dx))
    )
    pair.outputs(*products)
    derived_truths(pair)


def test_a_broadcast_to_a_dim_without_elements_has_that_dim() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,), {0: "tp"})
    wide = pair.base.emit("broadcast", [pair.base.constant(2.0, "f32")], shape=(1, 2, 0), dimensions=[])
    two = pair.dist.emit("broadcast", [pair.dist.constant(2.0, "f32")], shape=(1, 2), dimensions=[])
    pair.outputs(x, dx)
    pair.outputs(wide, two, layout="[][1:1x2]|tp=r2")
    tables = pair.tables()
    assert audit(tables, derive(tables).corr).false == []


def test_attention_without_heads_does_not_end_the_run() -> None:
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((4, 4, 4)), pair.input((4, 0, 4))
    pair.outputs(*(
        g.add("custom:vllm.unified_attention", [u, v, v, u], [("f32", (4, 4, 4))]).result
        for g, u, v in ((pair.base, x, y), (pair.dist, dx, dy))
    ))  # fmt: skip
    assert not derive(pair.tables()).proved


def test_the_terms_of_a_sum_that_is_too_deep_to_follow_are_not_all_of_it() -> None:
    pair = Pair({"tp": 2})
    xs = [pair.input((3,)) for _ in range(35)]
    sums = [xs[0][0], xs[5][1]]
    for x, _ in xs[1:]:
        sums[0] = pair.base.emit("add", [sums[0], x])
    for _, dx in xs[6:]:
        sums[1] = pair.dist.emit("add", [sums[1], dx])
    pair.outputs(*sums)
    assert not derived_truths(pair).proved


def attention(g: Graph, operands: list[Tensor]) -> Tensor:
    kind, like = ("attention", 0) if len(operands) < 6 else ("attention-backward", 1)
    return g.add(kind, operands, [("f32", operands[like].shape)], symbols={"scale": ["0.5"]}).result


def test_the_first_dim_of_a_mask_with_fewer_dims_counts_heads() -> None:
    pair = Pair({"tp": 4})
    operands = [pair.input((4, 4, 3, 2), {0: "tp"}) for _ in range(3)] + [pair.input((4, 3, 3), {0: "tp"})]
    pair.outputs(attention(pair.base, [x for x, _ in operands]), attention(pair.dist, [y for _, y in operands]))
    assert not derived_truths(pair).proved


def test_what_is_a_mask_as_well_as_a_sum_of_exponentials_has_the_dims_of_a_mask_there() -> None:
    pair = Pair({"tp": 4})
    operands = [pair.input((4, 4, 4, 2), {0: "tp"}) for _ in range(5)] + 2 * [pair.input((4, 4, 4), {0: "tp"})]
    pair.outputs(attention(pair.base, [x for x, _ in operands]), attention(pair.dist, [y for _, y in operands]))
    assert not derived_truths(pair).proved


def test_windows_of_blocks_that_are_padded_at_their_end_are_not_those_of_the_whole() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((2, 4), {1: "tp"})
    window = {"window_size": [1, 2], "window_stride": [1, 1], "window_dilation": [1, 2], "base_dilation": [1, 1]}
    pair.outputs(*(
        g.emit("reduce-window", [v], **window, window_pad_low=[0, 0], window_pad_high=[0, 2], reducer="max")
        for g, v in ((pair.base, x), (pair.dist, dx))
    ))  # fmt: skip
    assert not derived_truths(pair).proved


def masked_read(mask: Callable[[Graph, Tensor], Tensor]) -> Pair:
    """Rows of a table over tp, by ids below 8; `mask(g, ids)` is true over the whole numbers and masks as well."""
    pair = Pair({"tp": 2})
    (t, dt), (i, di) = pair.input((8, 2), {0: "tp"}), pair.input((8,), dtype="s32", range=(0, 8))
    g = pair.dist
    low, high = (spread(g, rank_scalar(pair, ends), (8,), []) for ends in ([0, 4], [4, 8]))
    ends = [g.emit("compare", [di, end], direction=way) for end, way in ((low, "GE"), (high, "LT"))]
    kept = g.emit("and", [g.emit("and", ends), mask(g, di)])
    attributes = {
        "offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "slice_sizes": [1, 2],
        "index_vector_dim": 1, "mode": "clamp",
    }  # fmt: skip
    rows = g.emit("gather", [dt, g.emit("subtract", [di, low])], **attributes)
    mine = g.emit("select", [spread(g, kept, rows.shape, [0]), rows, g.splat(0.0, "f32", rows.shape)])
    expected = pair.base.emit("gather", [t, i], **attributes)
    pair.outputs(expected, g.emit("all-reduce", [mine], reducer="sum", groups=pair.groups("tp")))
    return pair


def positive(g: Graph, x: Tensor, kind: str, numbers: list[int]) -> Tensor:
    for number in numbers:
        x = g.emit(kind, [x, g.splat(number, x.dtype, x.shape)])
    return g.emit("compare", [x, g.splat(0, x.dtype, x.shape)], direction="GE")


@pytest.mark.parametrize(
    "mask",
    [
        pytest.param(lambda g, ids: positive(g, ids, "add", [2**29] * 4), id="sum"),
        pytest.param(lambda g, ids: positive(g, g.splat(2**29, "s32", ids.shape), "add", [2**29] * 3), id="constants"),
        pytest.param(lambda g, ids: positive(g, ids, "multiply", [2**28, 8]), id="product"),
        pytest.param(lambda g, ids: positive(g, ids, "divide", [0]), id="quotient by zero"),
    ],
)
def test_a_solver_does_not_prove_what_wraps_round_or_divides_by_zero(mask: Callable[[Graph, Tensor], Tensor]) -> None:
    assert not derived_truths(masked_read(mask)).proved
    assert derived_truths(masked_read(lambda g, ids: positive(g, ids, "add", [2**20] * 4))).proved


def test_positions_that_wrapped_round_are_not_widened() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,), dtype="s64", range=(0, 6))
    found = []
    for g, y, dtype in ((pair.base, x, "s32"), (pair.dist, dx, "s64")):
        z = g.emit("iota", [], shape=(4,), dtype=dtype, dimension=0)
        for _ in range(3):
            z = g.emit("add", [z, g.splat(2**30 - 1, dtype, (4,))])
        found.append(g.emit("multiply", [y, g.emit("convert", [z], dtype="s64")]))
    pair.outputs(*found)
    assert not derived_truths(pair).proved


def test_an_offset_that_falls_along_an_axis_is_not_that_of_blocks() -> None:
    pair = Pair({"dp": 2, "tp": 2})
    x, dx = pair.input((8, 2))
    offset = rank_scalar(pair, [0, -4, 4, 0])
    rows = pair.dist.emit("dynamic-slice", [dx, offset, pair.dist.constant(0, "s32")], sizes=[4, 2])
    pair.outputs(x, rows)
    assert not derived_truths(pair).proved


def test_a_part_of_a_reshape_that_begins_inside_a_row_is_not_made_of_whole_rows() -> None:
    pair = Pair({"tp": 2})
    (x, dx), *rest = (pair.input(shape) for shape in ((4, 2), (1,), (2,), (5,)))
    b, g = pair.base, pair.dist
    joined = b.emit("concatenate", [u for u, _ in rest], dimension=0)
    total = b.emit("add", [b.emit("reshape", [x], shape=(8,)), joined])
    rows = part(b, x, 0, 0, 1), part(g, dx, 0, 0, 1)
    pair.outputs(b.emit("exponential", [rows[0]]), g.emit("exponential", [rows[1]]))
    wrong = g.emit("add", [g.emit("reshape", [rows[1]], shape=(2,)), rest[1][1]])
    pair.outputs(part(b, total, 0, 1, 3), wrong)
    assert len(derived_truths(pair).proved) == 1


def test_what_is_padded_with_some_numbers_is_not_padded_with_zeros_because_the_same_makes_both() -> None:
    """0 x, whose padding is 0 at first, and 2 behind a mask; times a value that is padded with 1."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((5, 2)), pair.input((5, 3))
    b, g = pair.base, pair.dist
    mine, other = (uneven_shard(pair, v, 0, "tp", filler=1.0) for v in (dx, dy))
    start = g.emit("broadcast", [rank_scalar(pair, first(pair, "tp", 3))], shape=mine.shape, dimensions=[])
    place = g.emit("add", [g.emit("iota", [], shape=mine.shape, dtype="s32", dimension=0), start])
    mask = g.emit("compare", [place, g.splat(5, "s32", mine.shape)], direction="LT")
    zero = g.emit("multiply", [mine, g.splat(0.0, "f32", mine.shape)])
    kept = g.emit("select", [mask, zero, g.splat(2.0, "f32", mine.shape)])
    dims = {"lhs_contracting_dims": [0], "rhs_contracting_dims": [0]}
    product = g.emit("dot", [kept, other], **dims)
    pair.outputs(
        b.emit("dot", [b.emit("multiply", [x, b.splat(0.0, "f32", (5, 2))]), y], **dims),
        g.emit("all-reduce", [product], reducer="sum", groups=pair.groups("tp")),
    )
    assert not derived_truths(pair).proved


@pytest.mark.parametrize("inside", [False, True])
def test_dropout_that_both_draw_as_often_in_loops_is_proved(inside: bool) -> None:
    assert derived_truths(dropout_in_loops(inside, inside)).proved


@pytest.mark.parametrize("seed", [86, 97, 98])
def test_parts_that_cancel_leave_their_rounding_in_a_product(seed: int) -> None:
    """A true correspondence that was reported: a part of a sum is rounded, and small sums carry that."""
    pair = Pair({"tp": 4})
    x, dx = pair.input((6, 12, 4), pending={"tp": "sum"})
    whole = pair.dist.emit("all-reduce", [dx], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(
        *(g.emit("reduce", [v], dimensions=[0, 1, 2], reducer="prod") for g, v in ((pair.base, x), (pair.dist, whole)))
    )
    tables = pair.tables()
    assert audit(tables, derive(tables).corr, trials=2, seed=seed).false == []


def test_what_is_wanted_addresses_no_places_beyond_the_value() -> None:
    """Strides of another extent, where a constant stands beside what is cut along the dim that is joined."""
    assert check_rules(pairs=1, seed=29445891).unsound == []
