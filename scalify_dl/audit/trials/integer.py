"""Wrong programs by hand about integers: right over the whole numbers, but not where these wrap round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scalify_dl.audit.fuzz.padding_steps import uneven_shard
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

from .number import numbers
from .registry import TRIALS

Make = Callable[[Graph, Tensor], Tensor]


def as_type(g: Graph, x: Tensor, dtype: str) -> Tensor:
    return g.emit("convert", [x], dtype=dtype)


def total(g: Graph, x: Tensor, dims: Sequence[int] = (0,), dtype: str = "") -> Tensor:
    if not dtype:
        return g.emit("reduce", [x], dimensions=list(dims), reducer="sum")
    shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    said: dict[str, Any] = {"numbers": {"dimensions": list(dims)}, "symbols": {"reducer": ["sum"]}}
    return g.add("reduce", [x], [(dtype, shape)], **said).result


def product(g: Graph, x: Tensor, y: Tensor, dtype: str) -> Tensor:
    """x[n, m] · y[n, k], over n."""
    dims: dict[str, Any] = {"lhs_contracting_dims": [0], "rhs_contracting_dims": [0]}
    dims |= {"lhs_batch_dims": [], "rhs_batch_dims": []}
    return g.add("dot", [x, y], [(dtype, (x.shape[1], y.shape[1]))], numbers=dims).result


def one_sum(dtype: str, make: Make, bounds: tuple[int, int] | None = None, *, first: Make | None = None) -> Pair:
    """The sum over rows of x[8, 4] (after `first`), which are sharded, and what `make` makes of it before it is reduced
    over the ranks."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), {0: "tp"}, dtype=dtype, range=bounds)
    return alike(pair, x, dx, lambda g, v: make(g, total(g, first(g, v) if first else v)))


def alike(pair: Pair, x: Tensor, dx: Tensor, make: Make) -> Pair:
    """What `make` makes on both sides, on the distributed one added up over the ranks."""
    return reduced(pair, make(pair.base, x), make(pair.dist, dx))


def reduced(pair: Pair, base: Tensor, dist: Tensor, reducer: str = "sum") -> Pair:
    pair.outputs(base, pair.dist.emit("all-reduce", [dist], reducer=reducer, groups=pair.groups("tp")))
    return pair


def pending_operand(dtype: str, other: str, make: Callable[[Graph, Tensor, Tensor], Tensor]) -> Pair:
    """x[4, 2] pending as a sum, w[4, 3] on every rank, and what `make` makes of both."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), dtype=dtype, pending={"tp": "sum"})
    w, dw = pair.input((4, 3), dtype=other)
    return reduced(pair, make(pair.base, x, w), make(pair.dist, dx, dw))


def convolved(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    """x[4, 2] as a batch of 2 points with 4 features, by kernels of one point."""
    dims = {"input_batch": [1], "input_feature": [0], "kernel_input_feature": [0], "kernel_output_feature": [1]}
    dims |= {"output_batch": [0], "output_feature": [1], "feature_group_count": [1], "batch_group_count": [1]}
    return g.add("convolution", [x, w], [("s32", (2, 3))], numbers=dims).result


def swapped_product() -> Pair:
    """The distributed side multiplies w by the pending x, and turns the result."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), dtype="s8", pending={"tp": "sum"})
    w, dw = pair.input((4, 3), dtype="s8")
    turned = pair.dist.emit("transpose", [product(pair.dist, dw, dx, "s32")], dimensions=[1, 0])
    return reduced(pair, product(pair.base, x, w, "s32"), turned)


def one_dim_after_the_other() -> Pair:
    """Dims of a pending s8 are added up as s32, on the distributed side one after the other."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), dtype="s8", pending={"tp": "sum"})
    return reduced(pair, total(pair.base, x, [0, 1], "s32"), total(pair.dist, total(pair.dist, dx, [0], "s32")))


def twice(dtype: str, make: Make) -> Pair:
    """A value that ranks have alike, added up over them, then what `make` makes of it, halved."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,), dtype=dtype)
    double = pair.dist.emit("all-reduce", [dx], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(make(pair.base, x), numbers(pair.dist, "multiply", make(pair.dist, double), 0.5))
    return pair


def in_two_steps() -> Pair:
    """Rows of s8 are added up as s8, and these sums as s32; the ranks add up everything as s32."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), {0: "tp"}, dtype="s8")
    base = total(pair.base, total(pair.base, x, [0]), [0], "s32")
    return reduced(pair, base, total(pair.dist, dx, [0, 1], "s32"))


def one_element_widened() -> Pair:
    """A pending s8 whose dim of one element is reduced as s32."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 1), dtype="s8", pending={"tp": "sum"})
    return reduced(pair, total(pair.base, x, [1], "s32"), total(pair.dist, dx, [1], "s32"))


def large_steps() -> Pair:
    """Four times 2 ** 30 - 1, and 4, is 2 ** 32: nothing as s32, but not as s64."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,), dtype="s64", range=(1, 6))
    found = []
    for g, times in ((pair.base, 0), (pair.dist, 4)):
        at = g.emit("iota", [], shape=(4,), dtype="s64", dimension=0)
        for _ in range(times):
            at = numbers(g, "add", at, 2**30 - 1)
        found.append(numbers(g, "add", at, 4) if times else at)
    pair.outputs(pair.base.emit("multiply", [x, found[0]]), pair.dist.emit("multiply", [dx, found[1]]))
    return pair


def positions_compared(dtype: str) -> Pair:
    """Rows below 2 of a block, by positions that wrap round: 2 ** 30 is added three times, and compared."""
    pair = Pair({"tp": 2})
    (x, dx), g = pair.input((8, 2), {0: "tp"}), pair.dist
    mark = g.add("constant", [], [(dtype, ())])
    mark.rank_numbers["value", 0] = {0: 0, 1: 4}
    at = g.emit("add", [g.emit("iota", [], shape=(4,), dtype=dtype, dimension=0), spread(g, mark.result, (4,), [])])
    there = pair.base.emit("iota", [], shape=(8,), dtype=dtype, dimension=0)
    for _ in range(3):
        at = numbers(g, "add", at, 2**30 - 1)
    inside = numbers_compared(g, at, "GE", 2**30), numbers_compared(pair.base, there, "GE", 0)
    kept = [
        s.emit("select", [spread(s, m, v.shape, [0]), v, s.splat(0.0, "f32", v.shape)])
        for s, m, v in ((pair.dist, inside[0], dx), (pair.base, inside[1], x))
    ]
    pair.outputs(kept[1], kept[0])
    return pair


def numbers_compared(g: Graph, x: Tensor, direction: str, number: int) -> Tensor:
    return g.emit("compare", [x, g.splat(number, x.dtype, x.shape)], direction=direction)


def beyond_its_type(number: int, dtype: str, direction: str, bound: int) -> Pair:
    """u8 300 is 44, s8 -300 is -44: no comparison that whole numbers make."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,))
    there = numbers_compared(pair.dist, pair.dist.splat(number, dtype, (4,)), direction, bound)
    outcome = pair.dist.emit("select", [there, dx, numbers(pair.dist, "multiply", dx, 2.0)])
    pair.outputs(x, outcome)
    return pair


def positions_of_the_greatest() -> Pair:
    """Of 300 numbers, as s8 on the ranks."""
    pair, found = Pair({"tp": 2}), []
    for g, x, dtype in zip((pair.base, pair.dist), pair.input((2, 300), {0: "tp"}), ("s32", "s8"), strict=True):
        types = [("f32", (*x.shape[:-1], 4)), (dtype, (*x.shape[:-1], 4))]
        found.append(as_type(g, g.add("top-k", [x], types, numbers={"k": [4], "dimension": [1]}).results[1], "s32"))
    pair.outputs(*found)
    return pair


def positions_of_two_types() -> Pair:
    """Of 300 numbers, the positions of the greatest, and a second time; then as s8 on the ranks."""
    pair, outputs = Pair({"tp": 2}), []
    for g, x, second in zip((pair.base, pair.dist), pair.input((2, 300), {0: "tp"}), ("s32", "s8"), strict=True):
        for dtype in ("s32", second):
            types = [("f32", (*x.shape[:-1], 4)), (dtype, (*x.shape[:-1], 4))]
            found = g.add("top-k", [x], types, numbers={"k": [4], "dimension": [1]}).results[1]
            outputs.append(as_type(g, found, "s64"))
    for base, dist in zip(outputs[:2], outputs[2:], strict=True):
        pair.outputs(base, dist)
    return pair


def a_number_that_leaves_its_type() -> Pair:
    """On the first rank 10, on the other 256, which is 0 as u8: only on one it is 1 or more."""
    pair = Pair({"tp": 2})
    (x, dx), g = pair.input((8, 2), {0: "tp"}), pair.dist
    mark = g.add("constant", [], [("u8", ())])
    mark.rank_numbers["value", 0] = {0: 0, 1: 246}
    on_rank = spread(g, numbers(g, "add", mark.result, 10), (4, 2), [])
    inside = g.emit("compare", [as_type(g, on_rank, "s32"), g.splat(1, "s32", (4, 2))], direction="GE")
    pair.outputs(x, g.emit("select", [inside, dx, g.splat(0.0, "f32", (4, 2))]))
    return pair


def reals_to_integers(make: Callable[[Graph, Tensor, Tensor], Tensor]) -> Pair:
    """Sums of reals as s32 lose what is behind the point: once, or on every rank."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((4, 2), {0: "tp"}), pair.input((4, 3), {0: "tp"})
    return reduced(
        pair,
        make(pair.base, numbers(pair.base, "multiply", x, 9.5), w),
        make(pair.dist, numbers(pair.dist, "multiply", dx, 9.5), dw),
    )


def to(dtype: str) -> Make:
    return lambda g, x: as_type(g, x, dtype)


def padded_mask() -> Pair:
    """A padded dim is cut back by positions that have wrapped round from 2 ** 31 on."""
    pair = Pair({"tp": 2})
    (x, dx), g = pair.input((13, 2)), pair.dist
    own = uneven_shard(pair, dx, 0, "tp")
    mark = g.add("constant", [], [("s32", ())])
    mark.rank_numbers["value", 0] = {0: 0, 1: 7}
    at = g.emit("add", [g.emit("iota", [], shape=(7,), dtype="s32", dimension=0), spread(g, mark.result, (7,), [])])
    end = g.splat(13, "s32", (7,))
    for number in (2**30 - 1, 2**30 - 7):
        at, end = numbers(g, "add", at, number), numbers(g, "add", end, number)
    inside = spread(g, g.emit("compare", [at, end], direction="LT"), (7, 2), [0])
    ones = [numbers(s, "add", numbers(s, "multiply", v, 0.0), 1.0) for s, v in ((pair.base, x), (g, own))]
    kept = g.emit("select", [inside, ones[1], g.splat(0.0, "f32", (7, 2))])
    return reduced(pair, total(pair.base, ones[0]), total(g, kept))


def extreme(before: str, after: str, reducer: str = "max", bounds: tuple[int, int] | None = None) -> Pair:
    """Parts of a maximum, cast."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((64,), dtype=before, pending={"tp": reducer}, range=bounds)
    return reduced(pair, as_type(pair.base, x, after), as_type(pair.dist, dx, after), reducer)


def range_of_a_sum() -> Pair:
    """The range of a value says nothing of parts that add up to it."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), dtype="s32", range=(0, 10), pending={"tp": "sum"})
    return alike(pair, x, dx, to("f32"))


def rows_on_many_ranks() -> Pair:
    """Two of the rows would fit."""
    pair = Pair({"tp": 8})
    x, dx = pair.input((8, 4), {0: "tp"}, dtype="s32", range=(0, 2**29))
    return alike(pair, x, dx, lambda g, v: as_type(g, total(g, v), "f32"))


def maximum_of_nothing() -> Pair:
    """The greatest of no numbers is the least of its type."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((2, 0), {0: "tp"}, dtype="s32", range=(0, 5))

    def make(g: Graph, v: Tensor) -> Tensor:
        return as_type(g, total(g, g.emit("reduce", [v], dimensions=[1], reducer="max")), "f32")

    return alike(pair, x, dx, make)


def rows_that_are_parts() -> Pair:
    """Each rank has a row of s8; their sum as s32 is not that of the ranks."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((2, 8), {0: "tp"}, dtype="s8")
    return reduced(pair, total(pair.base, x, [0], "s32"), pair.dist.emit("reshape", [dx], shape=(8,)))


def both_dims(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    return total(g, x, [0, 1], "s32")


INTEGERS: dict[str, Callable[[], Pair]] = {
    "u32 to f32": lambda: one_sum("u32", to("f32")),
    "s32 to s64": lambda: one_sum("s32", to("s64")),
    "s64 to f64": lambda: one_sum("s64", to("f64")),
    "s8 to s16": lambda: one_sum("s8", to("s16")),
    "s4 to s8": lambda: one_sum("s4", to("s8")),
    "a range that is too large": lambda: one_sum("s32", to("f32"), (0, 2**29)),
    "products": lambda: one_sum("s32", to("f32"), (0, 2**15), first=lambda g, x: g.emit("multiply", [x, x])),
    "divided": lambda: one_sum("s32", lambda g, x: numbers(g, "divide", x, 2), (0, 9)),
    "divided as s4": lambda: one_sum("s4", lambda g, x: numbers(g, "divide", x, 2)),
    "remainder": lambda: one_sum("s32", lambda g, x: numbers(g, "remainder", x, 3), (0, 9)),
    "shifted": lambda: one_sum("s32", lambda g, x: numbers(g, "shift-right-logical", x, 1), (0, 9)),
    "dot to s32": lambda: pending_operand("s8", "s8", lambda g, x, w: product(g, x, w, "s32")),
    "dot to f32": lambda: pending_operand("u32", "u32", lambda g, x, w: product(g, x, w, "f32")),
    "dot from the right": lambda: pending_operand("s8", "s8", lambda g, x, w: product(g, w, x, "s32")),
    "dot with operands swapped": swapped_product,
    "one dim after the other": one_dim_after_the_other,
    "convolution to s32": lambda: pending_operand("s8", "s8", convolved),
    "reduction to s32": lambda: pending_operand("s8", "s8", lambda g, x, w: total(g, x, [0], "s32")),
    "reduction in two steps": in_two_steps,
    "reduction of one element": one_element_widened,
    "reduction over two dims": lambda: pending_operand("s8", "s8", both_dims),
    "to pred": lambda: one_sum("s32", to("pred"), (-1, 2)),
    "parts below zero": lambda: one_sum("s32", to("f32"), first=lambda g, x: numbers(g, "and", x, -4)),
    "divided by zero": lambda: one_sum("u32", to("f32"), (0, 1), first=lambda g, x: numbers(g, "divide", x, 0)),
    "unsigned differences": lambda: one_sum("u32", to("f32"), (0, 9), first=lambda g, x: numbers(g, "subtract", x, 4)),
    "negative as unsigned": lambda: one_sum("s32", to("f32"), (-9, 9), first=to("u32")),
    "greatest to s8": lambda: extreme("s32", "s8"),
    "greatest to u8": lambda: extreme("u16", "u8"),
    "greatest of large numbers to u8": lambda: extreme("u16", "u8", bounds=(0, 60000)),
    "greatest of both signs to u16": lambda: extreme("s8", "u16"),
    "greatest of bytes to s8": lambda: extreme("u8", "s8"),
    "least to pred": lambda: extreme("s32", "pred", "min"),
    "a range of a sum": range_of_a_sum,
    "rows on many ranks": rows_on_many_ranks,
    "the greatest of nothing": maximum_of_nothing,
    "a mask of positions that wrap round": padded_mask,
    "rows that are parts": rows_that_are_parts,
    "twice an integer": lambda: twice("s32", to("f32")),
    "twice a truth value": lambda: twice("pred", to("f32")),
    "large steps": large_steps,
    "dot of reals": lambda: reals_to_integers(lambda g, x, w: product(g, x, w, "s32")),
    "convolution of reals": lambda: reals_to_integers(convolved),
    "sum of reals": lambda: reals_to_integers(lambda g, x, w: total(g, x, [0], "s32")),
    "a number that leaves its type on a rank": a_number_that_leaves_its_type,
    "positions of the greatest": positions_of_the_greatest,
    "positions of two types": positions_of_two_types,
    "positions that wrap round": lambda: positions_compared("s32"),
    "too large a constant": lambda: beyond_its_type(300, "u8", "GE", 200),
    "too small a constant": lambda: beyond_its_type(-300, "s8", "LE", -100),
}  # fmt: skip
TRIALS |= {f"integers: {name}": build for name, build in INTEGERS.items()}
