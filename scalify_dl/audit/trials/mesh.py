"""Wrong programs by hand about the mesh, collectives, loops and sums of many terms."""

from __future__ import annotations

from typing import Any

from scalify_dl.audit.fuzz.partitioner_steps import part, rank_scalar
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout, Pending, Repl

from .moved import ROWS, kept, of_rank
from .registry import trial


@trial
def an_offset_that_falls_along_another_axis() -> Pair:
    """Rows of a table in blocks over `dp`, looked up and masked as if they began at 4 * dp - 4 * tp."""
    pair = Pair({"dp": 2, "tp": 2})
    (t, dt), (i, di) = pair.input((8, 2), {0: "dp"}), pair.input((6,), dtype="s32", range=(0, 8))
    g, starts = pair.dist, [0, -4, 4, 0]
    near = g.emit("subtract", [di, of_rank(pair, starts, di)])
    ends = [(starts, "GE"), ([v + 4 for v in starts], "LT")]
    mask = g.emit("and", [g.emit("compare", [di, of_rank(pair, v, di)], direction=way) for v, way in ends])
    rows = kept(g, mask, g.emit("gather", [dt, near], **ROWS))
    expected = pair.base.emit("gather", [t, i], **ROWS)
    pair.outputs(expected, g.emit("all-reduce", [rows], reducer="sum", groups=pair.groups("dp")))
    cut = g.emit("dynamic-slice", [dt, rank_scalar(pair, [0, -2, 2, 0]), g.constant(0, "s32")], sizes=[2, 2])
    pair.outputs(part(pair.base, t, 0, 0, 4), cut)
    return pair


def over_halves(pair: Pair, entries: list[Digit | Repl | Pending], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """An input whose layout differs between the halves of `tp`, four ranks."""
    rows = shape[0] // 2 if any(isinstance(e, Digit) for e in entries) else shape[0]
    return pair.input(shape, layout=Layout.of([[Digit(0, 1, rows)], [Digit(1, 1, shape[1])]], [("tp", entries)]))


@trial
def every_rank_its_part_of_what_it_shares_with_one_other() -> Pair:
    """Halves over the minor half of the axis, of which every rank takes a quarter by its place on the whole axis."""
    pair = Pair({"tp": 4})
    x, dx = over_halves(pair, [Repl(2), Digit(0, 8, 2)], (16, 2))
    offset = rank_scalar(pair, [0, 2, 4, 6])
    pair.outputs(x, pair.dist.emit("dynamic-slice", [dx, offset, pair.dist.constant(0, "s32")], sizes=[2, 2]))
    return pair


@trial
def the_exponential_of_terms_side_by_side() -> Pair:
    """Terms of a pending sum are gathered, each gets its exponential, and these are dealt out and added up."""
    pair = Pair({"tp": 4})
    x, dx = over_halves(pair, [Repl(2), Pending("sum", 2)], (4, 2))
    g = pair.dist
    terms = g.emit("exponential", [g.emit("all-gather", [dx], dimension=0, groups=pair.groups("tp"))])
    mine = g.emit("dynamic-slice", [terms, rank_scalar(pair, [0, 4, 8, 12]), g.constant(0, "s32")], sizes=[4, 2])
    added = g.emit("all-reduce", [mine], reducer="sum", groups=[[0, 1], [2, 3]])
    pair.outputs(pair.base.emit("exponential", [x]), added)
    return pair


def own_block(pair: Pair, x: Tensor, shape: tuple[int, int], beside: int) -> Tensor:
    """x written into zeros as the block of the rank along dim 0, and at some place along dim 1."""
    starts = [x.shape[0] * at[-1] for at in pair.mesh.coordinates]
    offsets = [rank_scalar(pair, starts), pair.dist.constant(beside, "s32")]
    return pair.dist.emit("dynamic-update-slice", [pair.dist.splat(0.0, "f32", shape), x, *offsets])


@trial
def a_block_that_is_narrower_than_what_it_is_written_into() -> Pair:
    """One block of rows to a rank, the columns behind others."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2), {0: "tp"})
    pair.outputs(x, own_block(pair, dx, (8, 4), 2))
    return pair


@trial
def copies_in_blocks_dealt_along_the_other_axis() -> Pair:
    """What ranks have alike, each in its block of zeros: only ranks with dp = tp get a part."""
    pair = Pair({"dp": 2, "tp": 2})
    x, dx = pair.input((4, 4))
    z = own_block(pair, dx, (8, 4), 0)
    pair.outputs(x, pair.dist.emit("reduce-scatter", [z], dimension=0, reducer="sum", groups=pair.groups("dp")))
    return pair


@trial
def a_block_of_rows_without_a_column() -> Pair:
    """The rank's rows, cut along the columns, too: by a dynamic slice, and by a slice."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4))
    g = pair.dist
    offset = rank_scalar(pair, [0, 4])
    pair.outputs(x, g.emit("dynamic-slice", [dx, offset, g.constant(0, "s32")], sizes=[4, 2]))
    op = g.add("slice", [dx], [("f32", (4, 2))], numbers={"start": [0, 0], "limit": [4, 2], "stride": [1, 1]})
    op.rank_numbers["start", 0], op.rank_numbers["limit", 0] = {0: 0, 1: 4}, {0: 4, 1: 8}
    pair.outputs(x, op.result)
    return pair


@trial
def a_sum_and_itself() -> Pair:
    """x + y + z, and the same once more."""
    pair = Pair({"tp": 2})
    sums = []
    inputs = [pair.input((3,)) for _ in range(3)]
    for side, g in enumerate((pair.base, pair.dist)):
        x, y, z = (value[side] for value in inputs)
        sums.append(g.emit("add", [g.emit("add", [x, y]), z]))
    pair.outputs(sums[0], pair.dist.emit("add", [sums[1], sums[1]]))
    return pair


def tree(g: Graph, terms: list[Tensor]) -> Tensor:
    """Added up in halves."""
    half = len(terms) // 2
    return terms[0] if len(terms) == 1 else g.emit("add", [tree(g, terms[:half]), tree(g, terms[half:])])


@trial
def one_of_65_terms() -> Pair:
    """A sum of 65 terms, and the first of them; and all but the first."""
    pair = Pair({"tp": 2})
    inputs = [pair.input((2,)) for _ in range(65)]
    base = tree(pair.base, [x for x, _ in inputs])
    pair.outputs(base, pair.dist.emit("negate", [pair.dist.emit("negate", [inputs[0][1]])]))
    pair.outputs(base, tree(pair.dist, [d for _, d in inputs[1:]]))
    return pair


@trial
def a_clamp_for_one_of_two_indices() -> Pair:
    """Pairs of indices, all clamped to the number of rows, though there are more columns."""
    pair = Pair({"tp": 2})
    (t, dt), (i, di) = pair.input((8, 16)), pair.input((6, 2), dtype="s32", range=(0, 16))
    g = pair.dist
    low, high = (g.splat(n, "s32", di.shape) for n in (0, 7))
    clamped = g.emit("minimum", [g.emit("maximum", [di, low]), high])
    attributes: dict[str, Any] = {
        "offset_dims": [], "collapsed_slice_dims": [0, 1], "start_index_map": [0, 1], "slice_sizes": [1, 1],
        "index_vector_dim": 1, "mode": "clamp",
    }  # fmt: skip
    pair.outputs(pair.base.emit("gather", [t, i], **attributes), g.emit("gather", [dt, clamped], **attributes))
    return pair


@trial
def negative_ids_that_do_not_wrap() -> Pair:
    """The baseline counts them from the end, the distributed side reads row 0."""
    pair = Pair({"tp": 2})
    (t, dt), (i, di) = pair.input((8, 2)), pair.input((6,), dtype="s32", range=(-8, 8))
    g, attributes = pair.dist, ROWS | {"mode": "wrap"}
    positive = g.emit("maximum", [di, g.splat(0, "s32", di.shape)])
    pair.outputs(pair.base.emit("gather", [t, i], **attributes), g.emit("gather", [dt, positive], **attributes))
    return pair


@trial
def a_value_that_goes_astray_beside_another() -> Pair:
    """x <- x + y, where y <- 2 y in the baseline, and 3 y on the ranks."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((4,)), pair.input((4,))
    loops = []
    for g, a, b, factor in ((pair.base, x, y, 2.0), (pair.dist, dx, dy, 3.0)):
        condition, body = Graph("condition"), Graph("body")
        types = [("s32", ()), ("f32", (4,)), ("f32", (4,))]
        i, *_ = (condition.input(f"p{n}", *kind) for n, kind in enumerate(types))
        condition.output(condition.emit("compare", [i, condition.constant(3, "s32")], direction="LT"))
        j, u, v = (body.input(f"p{n}", *kind) for n, kind in enumerate(types))
        body.output(body.emit("add", [j, body.constant(1, "s32")]))
        body.output(body.emit("add", [u, v]))
        body.output(body.emit("multiply", [v, body.splat(factor, "f32", (4,))]))
        loops.append(g.add("while", [g.constant(0, "s32"), a, b], types, regions=[condition, body]))
    pair.outputs(loops[0].results[1], loops[1].results[1])
    return pair


def dropout_in_loops(base_inside: bool, dist_inside: bool) -> Pair:
    """y <- y + x * mask, three times; the mask is drawn in every step, or once before the loop."""
    pair = Pair({"tp": 2})
    inputs = pair.input((8, 4), {0: "tp"})
    results = []
    for g, x, inside in zip((pair.base, pair.dist), inputs, (base_inside, dist_inside), strict=True):
        condition, body = Graph("condition"), Graph("body")
        types = [("s32", ())] + 3 * [("f32", x.shape)]
        i, *_ = (condition.input(f"p{n}", *kind) for n, kind in enumerate(types))
        condition.output(condition.emit("compare", [i, condition.constant(3, "s32")], direction="LT"))
        j, y, u, m = (body.input(f"p{n}", *kind) for n, kind in enumerate(types))
        body.output(body.emit("add", [j, body.constant(1, "s32")]))
        body.output(body.emit("add", [y, body.emit("multiply", [u, mask(body, u) if inside else m])]))
        body.output(u)
        body.output(m)
        entering = [g.constant(0, "s32"), g.emit("negate", [x]), x, x if inside else mask(g, x)]
        results.append(g.add("while", entering, types, regions=[condition, body]).results[1])
    pair.outputs(*results)
    return pair


def mask(g: Graph, x: Tensor) -> Tensor:
    return g.emit("convert", [g.emit("dropout-mask", [x], probability="0.5")], dtype="f32")


@trial
def one_mask_for_all_steps_of_a_loop_that_draws_in_each() -> Pair:
    return dropout_in_loops(base_inside=True, dist_inside=False)


@trial
def a_mask_in_each_step_of_a_loop_that_has_one() -> Pair:
    return dropout_in_loops(base_inside=False, dist_inside=True)


@trial
def a_pad_at_the_other_end() -> Pair:
    """Zeros in front of the rows, or behind them."""
    pair = Pair({"tp": 2})
    outputs = [
        g.emit("pad", [x, g.constant(0.0, "f32")], low=[low, 0], high=[1 - low, 0], interior=[0, 0])
        for g, x, low in zip((pair.base, pair.dist), pair.input((4, 2)), (1, 0), strict=True)
    ]
    pair.outputs(*outputs)
    return pair


@trial
def another_part_that_begins_inside_a_row() -> Pair:
    """Parts of a reshape that are made of no whole rows: the same one is used twice."""
    pair = Pair({"tp": 2})
    (x, dx), *rest = (pair.input(shape) for shape in ((4, 2), (1,), (2,), (2,), (2,), (1,)))
    b, g = pair.base, pair.dist
    joined = b.emit("concatenate", [u for u, _ in rest], dimension=0)
    sums = b.emit("add", [b.emit("reshape", [x], shape=(8,)), joined])
    mine = part(g, g.emit("reshape", [dx], shape=(8,)), 0, 1, 3)
    for lo, other in ((1, rest[1][1]), (5, rest[3][1])):
        added = g.emit("add", [mine, other])
        pair.outputs(b.emit("exponential", [part(b, sums, 0, lo, lo + 2)]), g.emit("exponential", [added]))
    return pair


@trial
def another_branch() -> Pair:
    """A choice between computations, which are others on the ranks."""
    pair = Pair({"tp": 2})
    (c, dc), (x, dx) = pair.input((), dtype="s32", range=(0, 2)), pair.input(())
    outputs = []
    for g, which, v, kinds in ((pair.base, c, x, ("sine", "negate")), (pair.dist, dc, dx, ("negate", "sine"))):
        branches = [Graph("first"), Graph("second")]
        for branch, k in zip(branches, kinds, strict=True):
            branch.output(branch.emit(k, [branch.input("v", "f32", ())]))
        op = g.add(
            "conditional", [which, v, v], [("f32", ())], regions=branches, numbers={"branch_operand_count": [1, 1]}
        )
        outputs.append(op.result)
    pair.outputs(*outputs)
    return pair


@trial
def twice_one_of_two_terms() -> Pair:
    """2 x + y, where the baseline adds x and y."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((4,)), pair.input((4,))
    g = pair.dist
    pair.outputs(
        pair.base.emit("add", [x, y]), g.emit("add", [g.emit("multiply", [dx, g.splat(2.0, "f32", (4,))]), dy])
    )
    return pair


@trial
def the_reverse_of_a_column_along_its_only_row() -> Pair:
    """Reversed along a dim of one element, where the baseline reverses the other one."""
    pair = Pair({"tp": 2})
    outputs = [
        g.emit("reverse", [x], dimensions=[d])
        for g, x, d in zip((pair.base, pair.dist), pair.input((4, 1)), (0, 1), strict=True)
    ]
    pair.outputs(*outputs)
    return pair


@trial
def attention_of_a_library_and_its_negation() -> Pair:
    """The call makes a result with other dims than those that its heads and groups have."""
    pair = Pair({"tp": 2})
    (q, dq), (k, dk), (v, dv) = (pair.input((4, heads, 2), {1: "tp"}) for heads in (8, 4, 4))
    calls = [
        g.add("custom:vllm.unified_attention", [a, b, c, a], [("f32", a.shape)]).result
        for g, a, b, c in ((pair.base, q, k, v), (pair.dist, dq, dk, dv))
    ]
    pair.outputs(calls[0], pair.dist.emit("negate", [calls[1]]))
    return pair


@trial
def the_last_terms_of_a_long_sum() -> Pair:
    """A sum of 35 terms, one after the other, and of the last 30."""
    pair = Pair({"tp": 2})
    inputs = [pair.input((3,)) for _ in range(35)]
    sums = [inputs[0][0], inputs[5][1]]
    for x, _ in inputs[1:]:
        sums[0] = pair.base.emit("add", [sums[0], x])
    for _, dx in inputs[6:]:
        sums[1] = pair.dist.emit("add", [sums[1], dx])
    pair.outputs(*sums)
    return pair
