"""Wrong programs by hand about counts that ranges decide, and numbers that differ by a factor."""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

from .number import numbers
from .registry import trial


def count(g: Graph, ids: Tensor, bound: int, way: str, dtype: str) -> Tensor:
    """How many ids compare so, counted in that type."""
    mask = g.emit("compare", [ids, g.splat(bound, ids.dtype, ids.shape)], direction=way)
    flags = g.emit("convert", [mask], dtype=dtype)
    return g.emit("reduce", [flags], dimensions=[0], reducer="sum")


def over_the_count(pair: Pair, expected: int, found: Tensor) -> None:
    """Outputs: an input over that number, and over what the distributed side counts."""
    x, dx = pair.input((4, 2))
    number = found if found.dtype == "f32" else pair.dist.emit("convert", [found], dtype="f32")
    quotient = pair.dist.emit("divide", [dx, spread(pair.dist, number, dx.shape, [])])
    pair.outputs(numbers(pair.base, "divide", x, expected), quotient)


def counted(dtype: str, *, shape: int, range: tuple[int, int], bound: int, way: str, expected: int) -> Pair:
    """A count of ids that are given to both sides, as the type `dtype`."""
    pair = Pair({"tp": 2})
    _, ids = pair.input((shape,), dtype="s32", range=range)
    pair.dist.inputs[-1].range = range
    if dtype[0] == "u":
        ids = pair.dist.emit("convert", [ids], dtype=dtype)
    over_the_count(pair, expected, count(pair.dist, ids, bound, way, "s32" if dtype[0] == "u" else dtype))
    return pair


@trial
def ids_that_a_cast_wraps_are_not_all_large() -> Pair:
    """Of ids in 250 … 259, as u8, some are 0 … 3."""
    return counted("u8", shape=4, range=(250, 260), bound=250, way="GE", expected=4)


@trial
def a_count_that_wraps_round() -> Pair:
    """200 truths are -56 in s8."""
    return counted("s8", shape=200, range=(0, 6), bound=-100, way="NE", expected=200)


@trial
def ids_that_may_be_the_last_one() -> Pair:
    """Ids in 0 … 5, compared with 5."""
    return counted("f32", shape=4, range=(0, 6), bound=5, way="NE", expected=4)


@trial
def ids_that_may_be_the_first_one() -> Pair:
    """Ids in 0 … 5, compared with 0."""
    return counted("f32", shape=4, range=(0, 6), bound=0, way="GT", expected=4)


@trial
def the_largest_count_is_no_sum_of_counts() -> Pair:
    """The maximum over two ranks of a count of 4 is 4."""
    pair = Pair({"tp": 2})
    _, ids = pair.input((4,), dtype="s32", range=(0, 6))
    pair.dist.inputs[-1].range = (0, 6)
    mine = count(pair.dist, ids, -100, "NE", "f32")
    over_the_count(pair, 8, pair.dist.emit("all-reduce", [mine], reducer="max", groups=pair.groups("tp")))
    return pair


@trial
def a_number_beside_another_term_is_no_multiple_of_its_own() -> Pair:
    """x where it is large, else 1 / 2; in the baseline 1 / 16, the ratio made good afterwards."""
    pair, made = Pair({"tp": 2}), []
    x, dx = pair.input((4, 2))
    for g, y, number in ((pair.base, x, 0.0625), (pair.dist, dx, 0.5)):
        large = g.emit("compare", [y, g.splat(0.25, "f32", y.shape)], direction="GT")
        made.append(g.emit("select", [large, g.splat(number, "f32", y.shape), y]))
    pair.outputs(made[0], numbers(pair.dist, "divide", made[1], 8))
    return pair


@trial
def numbers_that_are_no_multiples_of_reals() -> Pair:
    """6 where it is large, over 4 and then over 2, in integers."""
    pair, made = Pair({"tp": 2}), []
    x, dx = pair.input((4, 2), dtype="s32", range=(0, 6))
    for g, y, number in ((pair.base, x, 3), (pair.dist, dx, 7)):
        large = g.emit("compare", [y, g.splat(2, "s32", y.shape)], direction="GT")
        made.append(g.emit("select", [large, g.splat(number, "s32", y.shape), g.splat(0, "s32", y.shape)]))
    pair.outputs(numbers(pair.base, "multiply", made[0], 7), numbers(pair.dist, "divide", made[1], 3))
    return pair


@trial
def half_on_each_of_two_ranks_is_no_pending_half() -> Pair:
    """1 / 2 wherever a sharded x is large, added up over ranks that have the same x."""
    pair, made = Pair({"dp": 2, "tp": 2}), []
    x, dx = pair.input((4, 2), {0: "dp"})
    for g, y, number in ((pair.base, x, 0.0625), (pair.dist, dx, 0.5)):
        large = g.emit("compare", [y, g.splat(0.25, "f32", y.shape)], direction="GT")
        made.append(g.emit("select", [large, g.splat(number, "f32", y.shape), g.splat(0.0, "f32", y.shape)]))
    summed = pair.dist.emit("all-reduce", [made[1]], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(made[0], numbers(pair.dist, "divide", summed, 8))
    return pair


@trial
def a_root_of_what_may_be_negative() -> Pair:
    """The square of a root of -1 is no number."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), {0: "tp"})
    root = pair.dist.emit("sqrt", [dx])
    pair.outputs(pair.base.emit("abs", [x]), pair.dist.emit("abs", [pair.dist.emit("multiply", [root, root])]))
    return pair


@trial
def a_square_of_what_is_half_a_root() -> Pair:
    """The root of a square beside a value of which no root was taken."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((4,)), pair.input((4,))
    squares = [g.emit("multiply", [v, v]) for g, v in ((pair.base, x), (pair.dist, dx))]
    side = pair.dist.emit("concatenate", [pair.dist.emit("sqrt", [squares[1]]), dy], dimension=0)
    found = pair.dist.emit("multiply", [side, side])
    pair.outputs(pair.base.emit("concatenate", [squares[0], y], dimension=0), found)
    return pair


def weighted(counted: Callable[[Graph, Tensor, Tensor], Tensor], factor: float = 1.0, dtype: str = "f32") -> Pair:
    """The sum of x, whose rows are over tp, over what is counted of x and weights; there the count of all ranks times
    `factor` divides, and the sum is multiplied by it."""
    pair, parts = Pair({"tp": 2}), []
    whole = None if dtype == "f32" else (-9, 9)
    x, dx = pair.input((4,), {0: "tp"}, dtype=dtype, range=whole)
    m, dm = pair.input((4,), {0: "tp"}, dtype=dtype, range=whole)
    for g, y, weight in ((pair.base, x, m), (pair.dist, dx, dm)):
        added = g.emit("reduce", [y], dimensions=[0], reducer="sum")
        parts.append((added, g.emit("reduce", [counted(g, y, weight)], dimensions=[0], reducer="sum")))
    count = pair.dist.emit("all-reduce", [parts[1][1]], reducer="sum", groups=pair.groups("tp"))
    if factor != 1.0:
        count = numbers(pair.dist, "multiply", count, factor)
    share = pair.dist.emit("divide", [parts[1][0], count])
    total = pair.dist.emit("all-reduce", [share], reducer="sum", groups=pair.groups("tp"))
    if factor != 1.0:
        total = numbers(pair.dist, "divide", total, factor)
    pair.outputs(pair.base.emit("divide", list(parts[0])), total)
    return pair


@trial
def a_partial_sum_over_a_sum_of_differences() -> Pair:
    """That is 0 where the inputs are alike, which nothing says of them."""
    return weighted(lambda g, x, m: g.emit("subtract", [g.emit("maximum", [m, x]), m]))


@trial
def a_share_of_four_times_a_count_is_no_four_times_the_share() -> Pair:
    return weighted(lambda g, x, m: m, 4.0)


@trial
def a_share_of_a_count_of_integers_is_cut_off() -> Pair:
    """1 / 2 + 1 / 2 is 0 + 0."""
    return weighted(lambda g, x, m: g.emit("maximum", [m, g.splat(2, "s32", m.shape)]), dtype="s32")


@trial
def an_integer_over_twice_a_count_is_no_half_of_the_quotient() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (n, dn) = (pair.input((4,), dtype="s32", range=(1, 9)) for _ in range(2))
    twice = pair.dist.emit("all-reduce", [dn], reducer="sum", groups=pair.groups("tp"))
    half = pair.dist.emit("divide", [dx, twice])
    total = pair.dist.emit("all-reduce", [half], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(pair.base.emit("divide", [x, n]), total)
    return pair


@trial
def a_partial_sum_over_a_count_that_its_range_says_is_zero() -> Pair:
    """Of 0 … 2, given as an input, some are 0."""
    pair = Pair({"tp": 2})
    (x, dx), (n, dn) = pair.input((4, 8), {1: "tp"}), pair.input((4,), dtype="s32", range=(0, 3))
    parts = []
    for g, y, count in ((pair.base, x, n), (pair.dist, dx, dn)):
        added = g.emit("reduce", [y], dimensions=[1], reducer="sum")
        parts.append(g.emit("divide", [added, g.emit("convert", [count], dtype="f32")]))
    pair.outputs(parts[0], pair.dist.emit("all-reduce", [parts[1]], reducer="sum", groups=pair.groups("tp")))
    return pair


@trial
def a_root_of_what_may_be_minus_infinity() -> Pair:
    """The square of a root of what is masked by -inf is no number there."""
    pair, made = Pair({"tp": 2}), []
    x, dx = pair.input((4, 2), {0: "tp"})
    for g, y in ((pair.base, x), (pair.dist, dx)):
        large = g.emit("compare", [y, g.splat(0.25, "f32", y.shape)], direction="GT")
        made.append(g.emit("select", [large, g.emit("abs", [y]), g.splat(float("-inf"), "f32", y.shape)]))
    root = pair.dist.emit("sqrt", [made[1]])
    pair.outputs(made[0], pair.dist.emit("multiply", [root, root]))
    return pair


@trial
def a_number_beside_a_pending_sum_is_added_by_every_rank() -> Pair:
    """x + 1/2, where each of two ranks has a part of x and adds 1/2; the number is an own term elsewhere."""
    pair, made = Pair({"tp": 2}), []
    x, dx = pair.input((4, 2), pending={"tp": "sum"})
    y, dy = pair.input((4, 2))
    for g, a, b in ((pair.base, x, y), (pair.dist, dx, dy)):
        half = g.splat(0.5, "f32", a.shape)
        large = g.emit("compare", [b, g.splat(0.25, "f32", b.shape)], direction="GT")
        chosen = g.emit("select", [large, half, g.splat(0.0, "f32", b.shape)])
        made.append((chosen, g.emit("add", [a, half])))
    pair.outputs(made[0][0], made[1][0])
    summed = pair.dist.emit("all-reduce", [made[1][1]], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(made[0][1], summed)
    return pair


def one_hot_rows(
    lo: int, hi: int, *, places: int = 8, dtype: str = "s32", along: int = 0, over: tuple[int, ...] = (1,),
) -> Pair:  # fmt: skip
    """x times sums of -1/8 at the ids of rows, in lo … hi - 1, of so many places: -1/8 in the baseline. Thrice."""
    shape = (4, places)
    pair = Pair({"tp": 2})
    g = pair.dist
    for _ in range(3):
        _, ids = pair.input((shape[along],), dtype=dtype, range=(lo, hi))
        g.inputs[-1].range = (lo, hi)
        line = g.emit("iota", [], shape=shape, dtype=dtype, dimension=1)
        mask = g.emit("compare", [spread(g, ids, shape, [along]), line], direction="EQ")
        rows = g.emit("select", [mask, g.splat(-0.125, "f32", shape), g.splat(0.0, "f32", shape)])
        total = g.emit("reduce", [rows], dimensions=list(over), reducer="sum")
        x, dx = pair.input(total.shape)
        pair.outputs(numbers(pair.base, "multiply", x, -0.125), g.emit("multiply", [dx, total]))
    return pair


@trial
def a_row_whose_id_is_negative_adds_up_to_nothing() -> Pair:
    """Ids in -1 … 7."""
    return one_hot_rows(-1, 8)


@trial
def a_row_whose_id_is_beyond_its_places_adds_up_to_nothing() -> Pair:
    """Ids in 0 … 8."""
    return one_hot_rows(0, 9)


@trial
def a_row_in_which_every_place_has_an_id_of_its_own() -> Pair:
    """Eight ids, one for each place: none of them need be there, or all."""
    return one_hot_rows(0, 8, along=1)


@trial
def places_that_are_counted_again_from_nothing() -> Pair:
    """300 places, counted in u8: an id of 3 is at two of them."""
    return one_hot_rows(0, 200, places=300, dtype="u8")


@trial
def all_rows_add_up_to_as_many_numbers() -> Pair:
    """Four rows with -1/8 in each."""
    return one_hot_rows(0, 8, over=(0, 1))


def chosen_where(bounded: Callable[[Graph, Tensor], Tensor], direction: str) -> Pair:
    """The baseline's rows where ids of 0 … 5, bounded in that way, compare so with 2; else zeros."""
    pair = Pair({"tp": 2})
    _, ids = pair.input((4,), dtype="s32", range=(0, 6))
    pair.dist.inputs[-1].range = (0, 6)
    x, dx = pair.input((4,))
    g = pair.dist
    holds = g.emit("compare", [bounded(g, ids), g.splat(2, "s32", ids.shape)], direction=direction)
    pair.outputs(x, g.emit("select", [holds, dx, g.splat(0.0, "f32", dx.shape)]))
    return pair


def at_most(g: Graph, x: Tensor, number: int) -> Tensor:
    return g.emit("minimum", [x, g.splat(number, "s32", x.shape)])


def at_least(g: Graph, x: Tensor, number: int) -> Tensor:
    return g.emit("maximum", [x, g.splat(number, "s32", x.shape)])


@trial
def bounds_out_of_order() -> Pair:
    """At most 1, and then at least 3: not below 2."""
    return chosen_where(lambda g, ids: at_least(g, at_most(g, ids, 1), 3), "LT")


@trial
def bounds_out_of_order_the_other_way() -> Pair:
    """At least 3, and then at most 1: not 2 or more."""
    return chosen_where(lambda g, ids: at_most(g, at_least(g, ids, 3), 1), "GE")


@trial
def clamped_between_bounds_out_of_order() -> Pair:
    """The upper bound, 1, is what counts: not 2 or more."""

    def clamped(g: Graph, ids: Tensor) -> Tensor:
        lower, upper = (g.splat(number, "s32", ids.shape) for number in (3, 1))
        return g.emit("clamp", [lower, ids, upper])

    return chosen_where(clamped, "GE")


@trial
def the_greatest_of_nothing() -> Pair:
    """Of no elements, each of which is 2."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,))
    most = pair.dist.emit("reduce", [pair.dist.splat(2.0, "f32", (4, 0))], dimensions=[1], reducer="max")
    pair.outputs(numbers(pair.base, "multiply", x, 2), pair.dist.emit("multiply", [dx, most]))
    return pair


@trial
def nothing_found_on_a_rank_and_nothing_found_anywhere() -> Pair:
    """Whether nothing is above 1/2; each rank asks whether its own number is 0, and what they count is of no use."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((2, 16), {0: "tp"})
    found = []
    for g, value in ((pair.base, x), (pair.dist, dx)):
        mask = g.emit("compare", [value, g.splat(0.5, "f32", value.shape)], direction="GT")
        found.append(g.emit("reduce", [mask], dimensions=[0], reducer="or"))
    number = pair.dist.emit("convert", [found[1]], dtype="s32")
    total = pair.dist.emit("all-reduce", [number], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(pair.base.emit("convert", [found[0]], dtype="s32"), total)
    own = pair.dist.emit("compare", [number, pair.dist.splat(0, "s32", (16,))], direction="EQ")
    told = pair.dist.emit("all-reduce", [own], reducer="or", groups=pair.groups("tp"))
    pair.outputs(pair.base.emit("not", [found[0]]), told)
    return pair
