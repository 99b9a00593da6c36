"""The checker's algebra on integers: ids of a known range, places of the greatest, and integers that become reals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.files import CertificateError
from scalify_dl.ir.graph import Graph, Tensor

from ..algebra.programs import matmul, number, two, wide
from .test_equal_formulas import claimed

ROW = {
    "offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1,
    "operand_batching_dims": [], "start_indices_batching_dims": [],
}  # fmt: skip


def rows(g: Graph, x: Tensor, ids: Tensor) -> Tensor:
    size = x.shape[1]
    return g.emit("gather", [x, ids], shape=(ids.shape[0], size), slice_sizes=[1, size], **ROW)


def one_hot(g: Graph, ids: Tensor, width: int, first: int = 0) -> Tensor:
    shape = (ids.shape[0], width)
    place = g.emit("iota", [], shape=(width,), dtype="s32", dimension=0)
    place = two(g, "add", place, number(g, first, place))
    like = g.splat(0, "s32", shape)
    same = g.emit("compare", [wide(g, ids, like, 0), wide(g, place, like, 1)], direction="EQ")
    return g.emit("convert", [same], dtype="f32")


def looked_up(ids: tuple[int, int] | None, dist: Callable[[Graph, Tensor, Tensor], Tensor]) -> Pair:
    pair = Pair({"tp": 1})
    (x, dx), (i, di) = pair.input((4, 2)), pair.input((3,), dtype="s32", range=ids)
    pair.outputs(rows(pair.base, x, i), dist(pair.dist, dx, di))
    return pair


def by_one_hot(first: int) -> Callable[[Graph, Tensor, Tensor], Tensor]:
    return lambda g, x, ids: matmul(g, one_hot(g, ids, 4, first), x)


def test_a_read_is_a_product_with_one_hot_rows_where_ids_are_in_range() -> None:
    claimed(looked_up((0, 4), by_one_hot(0)))
    for ids, first in (((0, 4), 1), ((0, 5), 0), ((-1, 4), 0), (None, 0)):  # a read clamps what is out of range
        with pytest.raises(CertificateError):
            claimed(looked_up(ids, by_one_hot(first)))


def test_a_read_clamps_ids_that_are_out_of_range() -> None:
    def clamped(low: int, high: int) -> Callable[[Graph, Tensor, Tensor], Tensor]:
        return lambda g, x, ids: rows(
            g, x, two(g, "minimum", two(g, "maximum", ids, number(g, low, ids)), number(g, high, ids))
        )

    claimed(looked_up((-2, 7), clamped(0, 3)))
    for low, high in ((0, 2), (1, 3)):
        with pytest.raises(CertificateError):
            claimed(looked_up((-2, 7), clamped(low, high)))


def test_a_function_of_what_is_read_is_a_read_of_the_function() -> None:
    def pair(kind: str) -> Pair:
        pair = Pair({"tp": 1})
        (x, dx), (i, di) = pair.input((4, 2)), pair.input((3,), dtype="s32", range=(0, 4))
        pair.outputs(
            pair.base.emit("exponential", [rows(pair.base, x, i)]),
            rows(pair.dist, pair.dist.emit(kind, [dx]), di),
        )
        return pair

    claimed(pair("exponential"))
    with pytest.raises(CertificateError):
        claimed(pair("logistic"))


def greatest(reducer: str, kind: str, *, turned: bool = False) -> Pair:
    """One-hot rows of where the greatest is, against those of a function of the row."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((2, 3))

    def hot(g: Graph, x: Tensor, reducer: str) -> Tensor:
        place = g.emit("reduce", [x], shape=(2,), dtype="s32", dimensions=[1], reducer=reducer)
        return one_hot(g, place, 3)

    other = pair.dist.emit(kind, [dx])
    if turned:
        other = pair.dist.emit("reverse", [other], dimensions=[1])
    found = hot(pair.dist, other, reducer)
    if turned:
        found = pair.dist.emit("reverse", [found], dimensions=[1])
    pair.outputs(hot(pair.base, x, "argmax"), found)
    return pair


def test_the_place_of_the_greatest_is_that_of_what_is_ordered_alike() -> None:
    claimed(greatest("argmax", "exponential"))
    claimed(greatest("argmin", "negate"))
    for reducer, kind in (("argmin", "exponential"), ("argmax", "negate"), ("argmax", "abs")):
        with pytest.raises(CertificateError):
            claimed(greatest(reducer, kind))
    with pytest.raises(CertificateError):  # of equals the first, from the other end
        claimed(greatest("argmax", "exponential", turned=True))


@pytest.mark.parametrize(("dtype", "held"), [("s8", True), ("s32", False)])
def test_integers_become_real_numbers_of_types_that_hold_them(dtype: str, held: bool) -> None:
    pair = Pair({"tp": 1})
    (x, dx), (n, dn) = pair.input((3,)), pair.input((3,), dtype=dtype)
    real = pair.base.emit("convert", [n], dtype="f32")
    twice = two(pair.base, "multiply", two(pair.base, "add", x, x), real)
    whole = two(pair.dist, "multiply", dx, pair.dist.emit("convert", [dn], dtype="f32"))
    pair.outputs(twice, two(pair.dist, "add", whole, whole))
    if held:
        return claimed(pair)
    with pytest.raises(CertificateError, match="rounded"):
        claimed(pair)


@pytest.mark.parametrize(("limit", "wraps"), [(29, True), (28, False)])
def test_sums_of_integers_that_may_wrap_round_are_not_followed(limit: int, wraps: bool) -> None:
    def shifted(g: Graph, n: Tensor) -> Tensor:
        return g.emit("convert", [two(g, "add", n, number(g, 100, n))], dtype="f32")

    def plain(g: Graph, n: Tensor) -> Tensor:
        real = g.emit("convert", [n], dtype="f32")
        return two(g, "add", real, number(g, 100.0, real))

    pair = Pair({"tp": 1})
    n, dn = pair.input((2,), dtype="s8", range=(0, limit))
    pair.outputs(plain(pair.base, n), shifted(pair.dist, dn))
    if not wraps:
        return claimed(pair)
    with pytest.raises(CertificateError, match="wrap"):
        claimed(pair)


def clipped(*, bound: float = 0.5) -> Pair:
    """x times min(1, ½/|x|) against ½ x divided by max(|x|, ½)."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((2,))

    def size(g: Graph, x: Tensor) -> Tensor:
        total = g.emit("reduce", [two(g, "multiply", x, x)], dimensions=[0], reducer="sum")
        return g.emit("sqrt", [total])

    g, d = pair.base, pair.dist
    factor = two(g, "minimum", g.splat(1, "f32", ()), two(g, "divide", g.splat(0.5, "f32", ()), size(g, x)))
    most = two(d, "maximum", size(d, dx), d.splat(bound, "f32", ()))
    pair.outputs(
        two(g, "multiply", x, wide(g, factor, x)),
        two(d, "divide", two(d, "multiply", dx, number(d, bound, dx)), wide(d, most, dx)),
    )
    return pair


def test_what_is_needed_to_be_other_than_zero_decides_signs_of_roots() -> None:
    def assumed(pair: Pair) -> tuple[str, str, str]:
        """That the divisor of the baseline is not zero."""
        (root,) = [r for o, _, r in pair.tables()["result"] if o in
                   {op for op, graph, kind in pair.tables()["op"] if kind == "sqrt" and graph == "base"}]  # fmt: skip
        return root, "it is not zero where it is divided by", "nonzero"

    claimed(clipped(), assumed(clipped()))
    with pytest.raises(CertificateError):
        claimed(clipped())
    with pytest.raises(CertificateError):
        claimed(clipped(bound=0.25), assumed(clipped(bound=0.25)))


def test_what_is_no_number_may_stand_where_it_is_not_chosen() -> None:
    def guarded(first: int) -> Callable[[Graph, Tensor, Tensor], Tensor]:
        def make(g: Graph, x: Tensor, ids: Tensor) -> Tensor:
            fine = g.emit("compare", [ids, number(g, first, ids)], direction="GE")
            found: Any = rows(g, x, ids)
            nothing = g.splat(float("nan"), "f32", found.shape)
            return g.emit("select", [wide(g, fine, found, 0), found, nothing])

        return make

    claimed(looked_up((0, 4), guarded(0)))
    with pytest.raises(CertificateError):
        claimed(looked_up((0, 4), guarded(1)))


def distance(g: Graph, x: Tensor, *, absolute: bool) -> Tensor:
    """A number for how far apart two positions are, before or after, or only before."""
    i, j = (g.emit("iota", [], shape=(3, 3), dtype="s32", dimension=d) for d in (0, 1))
    apart = two(g, "subtract", i, j)
    far = g.emit("abs", [apart]) if absolute else two(g, "maximum", apart, two(g, "subtract", j, i))
    return two(g, "multiply", x, g.emit("convert", [far], dtype="f32"))


def test_how_far_apart_positions_are() -> None:
    def pair(base: Callable[[Graph, Tensor], Tensor]) -> Pair:
        made = Pair({"tp": 1})
        x, dx = made.input((3, 3))
        made.outputs(base(made.base, x), distance(made.dist, dx, absolute=True))
        return made

    claimed(pair(lambda g, x: distance(g, x, absolute=False)))
    with pytest.raises(CertificateError):
        claimed(pair(lambda g, x: x))
