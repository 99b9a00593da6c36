"""Pairs that compute the same of two elements and not of many: none is proved where dims are large."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import load_program
from scalify_dl.oracle.compare import check, default_layouts
from scalify_dl.oracle.trial import run_trial

from .programs import (
    SIZE,
    Make,
    alone,
    compared,
    decided,
    element,
    iota,
    joined,
    number,
    over,
    part,
    scaled,
    square,
    transposed,
    turned,
    two,
    where,
    wide,
)


def moments(g: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
    return over(g, x, "sum"), over(g, square(g, x), "sum")


def counted(g: Graph, x: Tensor, dtype: str) -> Tensor:
    """How many elements there are, in a type; as a float."""
    ones = g.splat(1, dtype, x.shape)
    return scaled(g, g.emit("convert", [over(g, ones, "sum")], dtype="f32"), 1.0)


def added(g: Graph, *tensors: Tensor) -> Tensor:
    result = tensors[0]
    for tensor in tensors[1:]:
        result = two(g, "add", result, tensor)
    return result


def outer(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    return g.emit("dot", [x, y], lhs_contracting_dims=[], rhs_contracting_dims=[])


def running(g: Graph, x: Tensor, reducer: str, *, reverse: bool = False) -> Tensor:
    return g.emit("cumulative", [x], dimension=0, reducer=reducer, reverse=int(reverse))


def third_moment(g: Graph, x: Tensor) -> Tensor:
    return over(g, two(g, "multiply", square(g, x), x), "sum")


def of_two(g: Graph, x: Tensor, kind: str) -> Tensor:
    return two(g, kind, element(g, x, 0), element(g, x, 1))


def swapped(g: Graph, x: Tensor) -> Tensor:
    half = x.shape[0] // 2
    return joined(g, part(g, x, half, 2 * half), part(g, x, 0, half))


def newton(g: Graph, x: Tensor) -> Tensor:
    first, second = moments(g, x)
    cubes = two(g, "multiply", first, square(g, first))
    return scaled(g, two(g, "subtract", scaled(g, two(g, "multiply", first, second), 3.0), cubes), 0.5)


def masked(g: Graph, x: Tensor, direction: str, bound: int) -> Tensor:
    i = iota(g, x)
    return where(g, compared(g, i, g.splat(bound, "s32", x.shape), direction), x, 0.0)


def ends(g: Graph, x: Tensor) -> Tensor:
    return added(g, element(g, x, 0), element(g, x, x.shape[0] - 1))


def log_sum(g: Graph, x: Tensor) -> Tensor:
    return g.emit("log", [over(g, g.emit("exponential", [x]), "sum")])


def spare(g: Graph, x: Tensor) -> Tensor:
    """x0 + x1 by a distance: (|x0 − x1| + sum)/2 · 2 − |x0 − x1|."""
    gap = g.emit("abs", [of_two(g, x, "subtract")])
    return two(g, "subtract", scaled(g, over(g, x, "max"), 2.0), gap)


def padded(g: Graph, x: Tensor) -> Tensor:
    """x[i + 1], then 0."""
    zero = g.splat(0.0, "f32", ())
    return part(g, g.emit("pad", [x, zero], low=[0], high=[1], interior=[0]), 1, x.shape[0] + 1)


def interleaved(g: Graph, x: Tensor) -> Tensor:
    halves = transposed(g, g.emit("reshape", [x], shape=(2, x.shape[0] // 2)))
    return g.emit("reshape", [halves], shape=x.shape)


SUM: Make = lambda g, x: over(g, x, "sum")  # noqa: E731
SMALL_ONLY: dict[str, tuple[Make, Make]] = {
    "a sum, and the first two": (SUM, lambda g, x: of_two(g, x, "add")),
    "a sum, and both ends": (SUM, ends),
    "a mean, and the mean of ends": (lambda g, x: scaled(g, SUM(g, x), 0.5), lambda g, x: scaled(g, ends(g, x), 0.5)),
    "a sum, and max plus min": (SUM, lambda g, x: added(g, over(g, x, "max"), over(g, x, "min"))),
    "a sum, and twice max less the gap": (SUM, spare),
    "a maximum, and the greater of two": (lambda g, x: over(g, x, "max"), lambda g, x: of_two(g, x, "maximum")),
    "a minimum, and the lesser of two": (lambda g, x: over(g, x, "min"), lambda g, x: of_two(g, x, "minimum")),
    "a product, and of the first two": (lambda g, x: over(g, x, "prod"), lambda g, x: of_two(g, x, "multiply")),
    "a product, by moments": (
        lambda g, x: scaled(g, over(g, x, "prod"), 2.0),
        lambda g, x: two(g, "subtract", square(g, moments(g, x)[0]), moments(g, x)[1]),
    ),
    "the square of a sum, and squares and a product": (
        lambda g, x: square(g, SUM(g, x)),
        lambda g, x: added(g, moments(g, x)[1], scaled(g, of_two(g, x, "multiply"), 2.0)),
    ),
    "cubes, by Newton": (third_moment, newton),
    "a mean, divided by two": (
        lambda g, x: scaled(g, SUM(g, x), 0.5), lambda g, x: scaled(g, SUM(g, x), 1 / x.shape[0])
    ),
    "a sum of ones": (lambda g, x: added(g, SUM(g, x), g.splat(2.0, "f32", ())),
                      lambda g, x: SUM(g, two(g, "add", x, number(g, 1.0, x)))),
    "twice a constant sum": (lambda g, x: SUM(g, wide(g, SUM(g, x), x)), lambda g, x: scaled(g, SUM(g, x), 2.0)),
    "a shift of a log-sum": (
        lambda g, x: two(g, "subtract", SUM(g, added(g, x, wide(g, log_sum(g, x), x))), SUM(g, x)),
        lambda g, x: scaled(g, log_sum(g, x), 2.0),
    ),
    "a mask below two": (lambda g, x: masked(g, x, "LT", 2), lambda g, x: scaled(g, x, 1.0)),
    "a mask of all but the first": (lambda g, x: masked(g, x, "GE", 1), lambda g, x: masked(g, x, "EQ", 1)),
    "a mask of the last": (lambda g, x: masked(g, x, "NE", 1), lambda g, x: masked(g, x, "EQ", 0)),
    "positions by their square": (
        lambda g, x: two(g, "multiply", x, iota(g, x, dtype="f32")),
        lambda g, x: two(g, "multiply", x, square(g, iota(g, x, dtype="f32"))),
    ),
    "a root of positions": (
        lambda g, x: two(g, "multiply", x, iota(g, x, dtype="f32")),
        lambda g, x: two(g, "multiply", x, g.emit("sqrt", [iota(g, x, dtype="f32")])),
    ),
    "a sum of positions": (
        lambda g, x: added(g, SUM(g, x), SUM(g, iota(g, x, dtype="f32"))),
        lambda g, x: added(g, SUM(g, x), g.splat(1.0, "f32", ())),
    ),
    "the greatest position": (
        lambda g, x: added(g, SUM(g, x), over(g, iota(g, x, dtype="f32"), "max")),
        lambda g, x: added(g, SUM(g, x), g.splat(1.0, "f32", ())),
    ),
    "positions turned round": (
        lambda g, x: two(g, "multiply", x, turned(g, iota(g, x, dtype="f32"))),
        lambda g, x: two(g, "multiply", x, two(g, "subtract", number(g, 1.0, x), iota(g, x, dtype="f32"))),
    ),
    "turned round, and halves exchanged": (turned, swapped),
    "turned round, and the rest after the first": (
        turned, lambda g, x: joined(g, part(g, x, 1, x.shape[0]), part(g, x, 0, 1))
    ),
    "every second, and the first half": (
        lambda g, x: part(g, x, 0, x.shape[0], 2), lambda g, x: part(g, x, 0, x.shape[0] // 2)
    ),
    "odd ones, and the second half": (
        lambda g, x: part(g, x, 1, x.shape[0], 2), lambda g, x: part(g, x, x.shape[0] // 2, x.shape[0])
    ),
    "odd ones first, and halves exchanged": (
        swapped, lambda g, x: joined(g, part(g, x, 1, x.shape[0], 2), part(g, x, 0, x.shape[0], 2))
    ),
    "the first half, and the first one": (
        lambda g, x: SUM(g, part(g, x, 0, x.shape[0] // 2)), lambda g, x: element(g, x, 0)
    ),
    "pairs interleaved": (
        interleaved, lambda g, x: scaled(g, x, 1.0)
    ),
    "a running sum's last": (
        lambda g, x: element(g, running(g, x, "sum"), 1), SUM
    ),
    "a running sum from both ends": (
        lambda g, x: two(g, "add", running(g, x, "sum"), running(g, x, "sum", reverse=True)),
        lambda g, x: two(g, "add", wide(g, of_two(g, x, "add"), x), x),
    ),
    "a running maximum's last": (lambda g, x: element(g, running(g, x, "max"), 1), lambda g, x: over(g, x, "max")),
    "a shift by one, twice": (
        lambda g, x: padded(g, padded(g, x)), lambda g, x: scaled(g, x, 0.0)
    ),
    "a difference of neighbours": (
        lambda g, x: over(g, two(g, "subtract", part(g, x, 1, x.shape[0]), part(g, x, 0, x.shape[0] - 1)), "max"),
        lambda g, x: two(g, "subtract", element(g, x, 1), element(g, x, 0)),
    ),
    "the variance of two": (
        lambda g, x: scaled(g, square(g, of_two(g, x, "subtract")), 0.5),
        lambda g, x: two(g, "subtract", moments(g, x)[1], scaled(g, square(g, moments(g, x)[0]), 1 / x.shape[0])),
    ),
    "a spread": (
        lambda g, x: g.emit("abs", [of_two(g, x, "subtract")]),
        lambda g, x: two(g, "subtract", over(g, x, "max"), over(g, x, "min")),
    ),
    "a norm of two": (
        lambda g, x: g.emit("sqrt", [added(g, *(square(g, element(g, x, n)) for n in range(2)))]),
        lambda g, x: g.emit("sqrt", [moments(g, x)[1]]),
    ),
    "softmax of two, as a logistic": (
        lambda g, x: g.emit("exponential", [two(g, "subtract", element(g, x, 0), log_sum(g, x))]),
        lambda g, x: g.emit("logistic", [of_two(g, x, "subtract")]),
    ),
    "a log-sum of two": (
        log_sum,
        lambda g, x: g.emit("log", [added(g, *(g.emit("exponential", [element(g, x, n)]) for n in range(2)))]),
    ),
    "the other one": (
        lambda g, x: two(g, "subtract", wide(g, SUM(g, x), x), x), turned
    ),
    "the least, by the sum": (
        lambda g, x: over(g, x, "min"), lambda g, x: two(g, "subtract", SUM(g, x), over(g, x, "max"))
    ),
    "the sum of pairwise products": (
        lambda g, x: over(g, over(g, outer(g, x, x), "sum"), "sum"),
        lambda g, x: added(g, moments(g, x)[1], scaled(g, of_two(g, x, "multiply"), 2.0)),
    ),
    "the trace by a mask": (
        lambda g, x: over(g, masked(g, x, "LE", 1), "sum"), SUM
    ),
    "ones that wrap round": (
        lambda g, x: added(g, SUM(g, x), counted(g, x, "s8")),
        lambda g, x: added(g, SUM(g, x), g.splat(float(x.shape[0]), "f32", ())),
    ),
    "the first, by the sum": (
        lambda g, x: element(g, x, 0), lambda g, x: two(g, "subtract", SUM(g, x), element(g, x, 1))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL_ONLY)
def test_what_is_right_at_two_elements_alone_is_not_proved(name: str) -> None:
    assert agrees(alone(*SMALL_ONLY[name], 2)), "no attack: it is wrong at two elements"
    assert not decided(alone(*SMALL_ONLY[name], SIZE))
    assert not decided(alone(*SMALL_ONLY[name], 4 * 1024 * 1024))


def agrees(pair: Pair) -> bool:
    """Whether an execution gives the same on both sides."""
    program = load_program(pair.tables())
    ((dist, base, _),) = program.expects
    trial = run_trial(program, 1, "reals", keep_dist=[dist])
    values, expected = trial.distributed[dist], trial.baseline[base]
    layouts = default_layouts(expected.shape, values[0].shape, program.mesh)
    return any(check(expected, (), values, (), layout, program.coords, 1e-6) is None for layout in layouts)
