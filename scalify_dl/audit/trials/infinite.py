"""Infinities: zero times infinity is no number.

x[4,8] unless said, tp=2; a mask is where(m, x, -inf).
"""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.literals import Literal

from .registry import trial

Both = Callable[[Graph, Tensor], Tensor]


def all_reduced(pair: Pair, x: Tensor, reducer: str = "sum") -> Tensor:
    return pair.dist.emit("all-reduce", [x], reducer=reducer, groups=pair.groups("tp"))


def reduced(g: Graph, x: Tensor, dims: list[int], reducer: str = "sum") -> Tensor:
    return g.emit("reduce", [x], dimensions=dims, reducer=reducer)


def causal(g: Graph, shape: tuple[int, ...]) -> Tensor:
    rows, columns = (g.emit("iota", [], dimension=d, shape=shape, dtype="s32") for d in (0, 1))
    return g.emit("compare", [rows, columns], direction="GE", dtype="pred")


def strictly_causal(g: Graph, shape: tuple[int, ...]) -> Tensor:
    """The first row has nothing."""
    rows, columns = (g.emit("iota", [], dimension=d, shape=shape, dtype="s32") for d in (0, 1))
    return g.emit("compare", [rows, columns], direction="GT", dtype="pred")


def slanted(g: Graph, shape: tuple[int, ...], by: int) -> Tensor:
    rows, columns = (g.emit("iota", [], dimension=d, shape=shape, dtype="s32") for d in (0, 1))
    lower = g.emit("add", [rows, g.splat(by, "s32", shape)])
    return g.emit("compare", [lower, columns], direction="GE", dtype="pred")


def masked(g: Graph, x: Tensor, mask: Callable[[Graph, tuple[int, ...]], Tensor] = causal) -> Tensor:
    return g.emit("select", [mask(g, x.shape), x, g.splat(float("-inf"), x.dtype, x.shape)])


def first_rank(g: Graph, shape: tuple[int, ...], dtype: str = "f32") -> Tensor:
    """1 on rank 0, else 0."""
    rank = g.emit("convert", [g.emit("partition-id", [], shape=(), dtype="u32")], dtype="s32")
    here = g.emit("compare", [rank, g.splat(0, "s32", ())], direction="EQ", dtype="pred")
    return spread(g, here if dtype == "pred" else g.emit("convert", [here], dtype=dtype), shape, [])


def on_one_rank(body: Both, *, selecting: bool = False) -> Pair:
    """body(x), against the sum over ranks of it on rank 0 and zeros elsewhere."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8))
    b, d = pair.base, pair.dist
    y = body(d, dx)
    if selecting:
        kept = d.emit("select", [first_rank(d, y.shape, "pred"), y, d.splat(0.0, "f32", y.shape)])
    else:
        kept = d.emit("multiply", [y, first_rank(d, y.shape)])
    pair.outputs(body(b, x), all_reduced(pair, kept))
    return pair


def before_and_after_the_sum(body: Callable[[Graph, Tensor, Tensor], Tensor]) -> Pair:
    """body(sum, c) against the sum of body(part, c): x·w contracted over tp, c[4,8] alike on all ranks."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw), (c, dc) = pair.input((4, 6), {1: "tp"}), pair.input((6, 8), {0: "tp"}), pair.input((4, 8))
    part = body(pair.dist, matmul(pair.dist, dx, dw), dc)
    pair.outputs(body(pair.base, matmul(pair.base, x, w), c), all_reduced(pair, part))
    return pair


def log(g: Graph, x: Tensor) -> Tensor:
    return g.emit("log", [x])


def positive(g: Graph, x: Tensor) -> Tensor:
    return g.emit("add", [g.emit("multiply", [x, x]), g.splat(1e-5, "f32", x.shape)])


@trial
def a_masked_value_times_a_flag() -> Pair:
    return on_one_rank(masked)


@trial
def a_masked_value_through_other_ops_times_a_flag() -> Pair:
    return on_one_rank(lambda g, x: g.emit("negate", [g.emit("add", [masked(g, x), x])]))


@trial
def a_constant_with_an_infinity_times_a_flag() -> Pair:
    def body(g: Graph, x: Tensor) -> Tensor:
        row = g.constant(Literal("{0,-inf,1,2,inf,0,0,0}"), "f32", (8,))
        return g.emit("add", [x, spread(g, row, x.shape, [1])])

    return on_one_rank(body)


@trial
def a_quotient_by_zero_times_a_flag() -> Pair:
    return on_one_rank(lambda g, x: g.emit("divide", [x, g.emit("maximum", [x, g.splat(0.0, "f32", x.shape)])]))


@trial
def a_logarithm_of_zero_times_a_flag() -> Pair:
    return on_one_rank(lambda g, x: log(g, g.emit("maximum", [x, g.splat(0.0, "f32", x.shape)])))


@trial
def an_inverse_root_of_zero_times_a_flag() -> Pair:
    return on_one_rank(lambda g, x: g.emit("rsqrt", [g.emit("maximum", [x, g.splat(0.0, "f32", x.shape)])]))


@trial
def a_negative_power_of_zero_times_a_flag() -> Pair:
    def body(g: Graph, x: Tensor) -> Tensor:
        rectified = g.emit("maximum", [x, g.splat(0.0, "f32", x.shape)])
        return g.emit("power", [rectified, g.splat(-2.0, "f32", x.shape)])

    return on_one_rank(body)


@trial
def a_fractional_power_of_minus_infinity_times_a_partial_sum() -> Pair:
    """The power of -inf is inf, which is no root."""

    def body(g: Graph, y: Tensor, c: Tensor) -> Tensor:
        four, half = g.splat(4.0, "f32", c.shape), g.splat(0.5, "f32", c.shape)
        rows = g.emit("select", [causal(g, c.shape), four, g.splat(float("-inf"), "f32", c.shape)])
        return g.emit("multiply", [y, g.emit("power", [rows, half])])

    return before_and_after_the_sum(body)


@trial
def a_maximum_over_nothing_times_a_flag() -> Pair:
    def body(g: Graph, x: Tensor) -> Tensor:
        none = g.emit("slice", [x], start=[0, 0], limit=[0, 8], stride=[1, 1])
        return g.emit("add", [x, spread(g, reduced(g, none, [0], "max"), x.shape, [1])])

    return on_one_rank(body)


@trial
def an_infinite_factor_of_a_partial_sum() -> Pair:
    def body(g: Graph, y: Tensor, c: Tensor) -> Tensor:
        return g.emit("multiply", [y, masked(g, c)])

    return before_and_after_the_sum(body)


@trial
def a_partial_sum_over_zero() -> Pair:
    def body(g: Graph, y: Tensor, c: Tensor) -> Tensor:
        return g.emit("divide", [y, g.emit("maximum", [c, g.splat(0.0, "f32", c.shape)])])

    return before_and_after_the_sum(body)


@trial
def a_contraction_of_a_partial_sum_with_infinities() -> Pair:
    def body(g: Graph, y: Tensor, c: Tensor) -> Tensor:
        infinite = g.emit("select", [slanted(g, c.shape, 6), c, g.splat(float("inf"), "f32", c.shape)])
        return matmul(g, y, g.emit("transpose", [infinite], dimensions=[1, 0]))

    return before_and_after_the_sum(body)


@trial
def a_logarithm_of_parts_of_a_maximum() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8), {1: "tp"})
    b, d = pair.base, pair.dist
    top = b.emit("add", [reduced(b, x, [1], "max"), b.splat(0.0, "f32", (4,))])
    pair.outputs(log(b, top), all_reduced(pair, log(d, reduced(d, dx, [1], "max")), "max"))
    return pair


@trial
def zeros_in_the_padding_times_infinities() -> Pair:
    """Rows padded to an even number, contracted with a weight that has infinities, and added up."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((5, 4)), pair.input((4, 4))
    b, d = pair.base, pair.dist

    def infinite(g: Graph, t: Tensor) -> Tensor:
        return g.emit("select", [causal(g, t.shape), t, g.splat(float("inf"), "f32", t.shape)])

    padded = d.emit(
        "pad", [d.emit("multiply", [dx, dx]), d.splat(0.0, "f32", ())], low=[0, 0], high=[1, 0], interior=[0, 0]
    )
    rank = d.emit("convert", [d.emit("partition-id", [], shape=(), dtype="u32")], dtype="s32")
    start = d.emit("multiply", [rank, d.splat(3, "s32", ())])
    shard = d.emit("dynamic-slice", [padded, start, d.splat(0, "s32", ())], sizes=[3, 4])
    parts = reduced(d, matmul(d, shard, infinite(d, dw)), [0])
    pair.outputs(
        reduced(b, matmul(b, b.emit("multiply", [x, x]), infinite(b, w)), [0]),
        all_reduced(pair, parts),
    )
    return pair


def read_by_products(function: Both) -> Pair:
    """A vocabulary-parallel read of a function of a table; ids of other ranks read rows that a product masks."""
    pair = Pair({"tp": 2})
    table, dtable = pair.input((8, 4), {0: "tp"})
    ids, dids = pair.input((6,), dtype="s32", range=(0, 8))
    b, d = pair.base, pair.dist

    def read(g: Graph, t: Tensor, i: Tensor) -> Tensor:
        index = g.emit("reshape", [i], shape=(6, 1))
        return g.emit(
            "gather", [function(g, t), index], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0],
            slice_sizes=[1, 4], index_vector_dim=[1], operand_batching_dims=[], start_indices_batching_dims=[],
        )  # fmt: skip

    rank = d.emit("convert", [d.emit("partition-id", [], shape=(), dtype="u32")], dtype="s32")
    first = spread(d, d.emit("multiply", [rank, d.splat(4, "s32", ())]), (6,), [])
    local = d.emit("subtract", [dids, first])
    low = d.emit("compare", [local, d.splat(0, "s32", (6,))], direction="GE", dtype="pred")
    high = d.emit("compare", [local, d.splat(4, "s32", (6,))], direction="LT", dtype="pred")
    mine = d.emit("and", [low, high])
    rows = read(d, dtable, d.emit("select", [mine, local, d.splat(0, "s32", (6,))]))
    kept = d.emit("multiply", [rows, spread(d, d.emit("convert", [mine], dtype="f32"), (6, 4), [0])])
    pair.outputs(read(b, table, ids), all_reduced(pair, kept))
    return pair


@trial
def infinite_rows_of_a_table_masked_by_products() -> Pair:
    return read_by_products(lambda g, t: log(g, g.emit("maximum", [t, g.splat(0.0, "f32", t.shape)])))


@trial
def rows_of_a_table_that_are_no_numbers_masked_by_products() -> Pair:
    return read_by_products(lambda g, t: g.emit("sqrt", [t]))


@trial
def roots_of_parts_of_a_maximum_that_have_nothing() -> Pair:
    """The first rank has -inf everywhere, of squares."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8), {1: "tp"})
    mask, dmask = pair.input((4, 8), {1: "tp"}, dtype="pred")

    def squares(g: Graph, t: Tensor, m: Tensor) -> Tensor:
        kept = g.emit("select", [m, g.emit("multiply", [t, t]), g.splat(float("-inf"), "f32", t.shape)])
        return reduced(g, kept, [1], "max")

    parts = pair.dist.emit("sqrt", [squares(pair.dist, dx, dmask)])
    pair.outputs(pair.base.emit("sqrt", [squares(pair.base, x, mask)]), all_reduced(pair, parts, "max"))
    return pair


@trial
def a_partial_sum_over_a_count_that_may_be_zero() -> Pair:
    return over_a_count(lambda g, n, zero: g.emit("maximum", [n, zero]))


@trial
def a_partial_sum_over_a_bounded_count_that_may_be_zero() -> Pair:
    return over_a_count(lambda g, n, zero: g.emit("clamp", [zero, n, g.splat(5, "s32", (4,))]))


def over_a_count(body: Callable[[Graph, Tensor, Tensor], Tensor]) -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (n, dn) = pair.input((4, 8), {1: "tp"}), pair.input((4,), dtype="s32", range=(0, 3))

    def mean(g: Graph, t: Tensor, count: Tensor) -> Tensor:
        least = body(g, count, g.splat(0, "s32", (4,)))
        return g.emit("divide", [reduced(g, t, [1]), g.emit("convert", [least], dtype="f32")])

    pair.outputs(mean(pair.base, x, n), all_reduced(pair, mean(pair.dist, dx, dn)))
    return pair


def over_exponentials(crossed: bool, summed: int, mask: tuple[int, int]) -> Pair:
    """A pending sum over sums of exponentials of u[2,2,2] less its maxima over dim 2, with -inf where the one index is
    below the other."""
    pair = Pair({"tp": 2})
    (x, dx), (c, dc) = pair.input((2, 2, 8), {2: "tp"}), pair.input((2, 2, 2))

    def quotient(g: Graph, t: Tensor, u: Tensor) -> Tensor:
        low, high = (g.emit("iota", [], dimension=d, shape=u.shape, dtype="s32") for d in mask)
        below = g.emit("compare", [low, high], direction="LT", dtype="pred")
        u = g.emit("select", [below, g.splat(float("-inf"), "f32", u.shape), u])
        top = reduced(g, u, [2], "max")
        if crossed:
            top = g.emit("transpose", [top], dimensions=[1, 0])
        e = g.emit("exponential", [g.emit("subtract", [u, spread(g, top, u.shape, [0, 1])])])
        return g.emit("divide", [reduced(g, t, [2]), reduced(g, e, [summed])])

    pair.outputs(quotient(pair.base, x, c), all_reduced(pair, quotient(pair.dist, dx, dc)))
    return pair


@trial
def exponentials_less_the_maximum_of_another_row() -> Pair:
    """Row (0, 1) is empty, and the maximum of row (1, 0) is a number."""
    return over_exponentials(crossed=True, summed=2, mask=(0, 1))


@trial
def exponentials_summed_over_another_dim() -> Pair:
    """Every row has a number; what is summed up has none where the second index is 0 and the third 1."""
    return over_exponentials(crossed=False, summed=0, mask=(1, 2))


def over_chosen(along: int, direction: str, mask: tuple[int, int], *, bounded: bool = True) -> Pair:
    """A pending sum over sums, along a dim, of the two largest (along dim 2) of a softmax, along the first dim, of
    u[2,2,2] with -inf where the indices compare so. Not `bounded`: divided by sums that may be infinite."""
    pair = Pair({"tp": 2})
    (x, dx), (c, dc) = pair.input((2, 2, 8), {2: "tp"}), pair.input((2, 2, 2))

    def quotient(g: Graph, t: Tensor, u: Tensor) -> Tensor:
        first, second = (g.emit("iota", [], dimension=d, shape=u.shape, dtype="s32") for d in mask)
        out = g.emit("compare", [first, second], direction=direction, dtype="pred")
        u = g.emit("select", [out, g.splat(float("-inf"), "f32", u.shape), u])
        kept = [d for d in range(3) if d != along]
        e = g.emit("exponential", [g.emit("subtract", [u, spread(g, reduced(g, u, [along], "max"), u.shape, kept)])])
        summed = e if bounded else g.emit("exponential", [g.emit("negate", [u])])
        p = g.emit("divide", [e, spread(g, reduced(g, summed, [along]), u.shape, kept)])
        largest = g.add("top-k", [p], [("f32", (2, 2, 2)), ("s32", (2, 2, 2))], numbers={"k": [2]}).results[0]
        return g.emit("divide", [reduced(g, t, [2]), reduced(g, largest, [along])])

    pair.outputs(quotient(pair.base, x, c), all_reduced(pair, quotient(pair.dist, dx, dc)))
    return pair


@trial
def the_largest_along_another_dim_than_a_softmax() -> Pair:
    """A softmax over dim 0 of a diagonal is 1 and 0: the second largest along dim 2 are all 0."""
    return over_chosen(0, "NE", (0, 2))


@trial
def the_largest_of_what_is_divided_by_infinities() -> Pair:
    return over_chosen(2, "LT", (1, 2), bounded=False)


def times_attention(result: int, mask: Callable[[Graph, tuple[int, ...]], Tensor], left_out: float = -1.0) -> Pair:
    """A pending sum times attention of c over itself (or, `result` 1, the logarithm of its sums of exponentials), where
    the mask has that times infinity."""

    def body(g: Graph, y: Tensor, c: Tensor) -> Tensor:
        lines = g.emit("reshape", [c], shape=(1, 4, 8))
        scores = g.splat(0.0, "f32", (4, 4)), g.splat(left_out * float("inf"), "f32", (4, 4))
        added = g.emit("reshape", [g.emit("select", [mask(g, (4, 4)), *scores])], shape=(1, 4, 4))
        types = [("f32", (1, 4, 8)), ("f32", (1, 4))]
        numbers, symbols = {"causal": [0]}, {"scale": ["0.5"]}
        op = g.add("attention", [lines, lines, lines, added], types, numbers=numbers, symbols=symbols)
        if result:
            rows = spread(g, g.emit("reshape", [op.results[1]], shape=(4,)), (4, 8), [0])
        else:
            rows = g.emit("reshape", [op.results[0]], shape=(4, 8))
        return g.emit("multiply", [y, rows])

    return before_and_after_the_sum(body)


@trial
def logarithms_of_attention_that_sees_nothing() -> Pair:
    return times_attention(1, strictly_causal)


@trial
def a_magnitude_of_what_may_be_negative() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,), {0: "tp"})
    pair.outputs(pair.base.emit("abs", [x]), dx)
    return pair


@trial
def a_magnitude_of_what_may_be_minus_infinity() -> Pair:
    """What is masked by -inf, where all else is no less than 0."""
    pair, made = Pair({"tp": 2}), []
    x, dx = pair.input((4,), {0: "tp"})
    for g, y in ((pair.base, x), (pair.dist, dx)):
        large = g.emit("compare", [y, g.splat(0.25, "f32", y.shape)], direction="GT")
        made.append(g.emit("select", [large, g.emit("abs", [y]), g.splat(float("-inf"), "f32", y.shape)]))
    pair.outputs(pair.base.emit("abs", [made[0]]), made[1])
    return pair
