"""Random programs on two ranks for the checker's algebra of large dims; some values are made in two ways."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from scalify_dl.ir.graph import Graph, Tensor

from .pair import Pair

RANKS = 2
SIZES = (2, 3, 4, 6)


class Draw:
    """Ops on what is there, some written in several ways."""

    def __init__(self, rng: random.Random, g: Graph, pool: list[Tensor], groups: Any) -> None:
        self.rng, self.g, self.pool, self.groups = rng, g, pool, groups
        self.twins: list[tuple[Tensor, Tensor]] = []
        """What may be the same, in two ways of writing."""

    def number(self, value: float, like: Tensor) -> Tensor:
        return self.g.splat(value, like.dtype, like.shape)

    def two(self, kind: str, x: Tensor, y: Tensor) -> Tensor:
        return self.g.emit(kind, [x, y])

    def wide(self, x: Tensor, like: Tensor, dim: int) -> Tensor:
        dims = [d for d in range(len(like.shape)) if d != dim]
        return self.g.emit("broadcast", [x], shape=like.shape, dimensions=dims)

    def over(self, x: Tensor, reducer: str, dim: int) -> Tensor:
        """Over a dim: at once, in pieces, or in another shape."""
        how, size, g = self.rng.random(), x.shape[dim], self.g
        if how < 0.4 or size < 2:
            return g.emit("reduce", [x], dimensions=[dim], reducer=reducer)
        if how < 0.75:
            at = self.rng.randrange(1, size)
            again = at + (self.rng.random() < 0.1) - (self.rng.random() < 0.1)
            if not 0 < again < size:
                again = at
            parts = [self.over(self.part(x, dim, *ends), reducer, dim) for ends in ((0, at), (again, size))]
            self.rng.shuffle(parts)
            return self.two({"sum": "add", "max": "maximum", "min": "minimum"}[reducer], *parts)
        if size % 2:
            return self.over(x, reducer, dim)
        shape = (*x.shape[:dim], *self.rng.choice(((2, size // 2), (size // 2, 2))), *x.shape[dim + 1 :])
        split = g.emit("reshape", [x], shape=shape)
        return g.emit("reduce", [split], dimensions=[dim, dim + 1], reducer=reducer)

    def part(self, x: Tensor, dim: int, start: int, limit: int, stride: int = 1) -> Tensor:
        starts, limits, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        starts[dim], limits[dim], strides[dim] = start, limit, stride
        return self.g.emit("slice", [x], start=starts, limit=limits, stride=strides)

    def product(self, x: Tensor, y: Tensor) -> Tensor:
        """x[…, k] · y[k, …]: as a product of matrices, in halves, or written out."""
        inner, how, g = x.shape[-1], self.rng.random(), self.g
        last = len(x.shape) - 1
        if how < 0.5:
            return g.emit("dot", [x, y], lhs_contracting_dims=[last], rhs_contracting_dims=[0])
        if how < 0.75 and inner > 1:
            at = self.rng.randrange(1, inner)
            return self.two("add", *(self.product(self.part(x, last, a, b), self.part(y, 0, a, b))
                                     for a, b in ((0, at), (at, inner))))  # fmt: skip
        shape = (*x.shape, *y.shape[1:])
        left = g.emit("broadcast", [x], shape=shape, dimensions=[*range(len(x.shape))])
        right = g.emit("broadcast", [y], shape=shape, dimensions=[*range(last, len(shape))])
        return self.over(self.two("multiply", left, right), "sum", last)

    def causal(self, x: Tensor) -> Tensor:
        """Its upper triangle hidden, in some spelling."""
        g, n = self.g, len(x.shape)
        i, j = (g.emit("iota", [], shape=x.shape, dtype="s32", dimension=d) for d in (n - 2, n - 1))
        more = self.rng.choice((0, 0, 0, 1, -1))
        if more:
            i = self.two("add", i, self.number(more, i))
        how = self.rng.randrange(4)
        seen = (
            g.emit("compare", [i, j], direction="GE") if how == 0
            else g.emit("compare", [j, i], direction="LE") if how == 1
            else g.emit("not", [g.emit("compare", [j, i], direction="GT")]) if how == 2
            else g.emit("compare", [self.two("subtract", i, j), self.number(0, i)], direction="GE")
        )  # fmt: skip
        low = self.rng.choice((-math.inf, -math.inf, 0.0))
        return g.emit("select", [seen, x, self.number(low, x)])

    def softmax(self, x: Tensor, dim: int) -> Tensor:
        g, moved = self.g, x
        if self.rng.random() < 0.6:
            moved = self.two("subtract", x, self.wide(self.over(x, "max", dim), x, dim))
        weights = g.emit("exponential", [moved])
        return self.two("divide", weights, self.wide(self.over(weights, "sum", dim), x, dim))

    def plus(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        """x·(y + z), or multiplied out."""
        if self.rng.random() < 0.5:
            return self.two("multiply", self.two("add", y, z), x)
        other = z if self.rng.random() < 0.9 else y
        return self.two("add", self.two("multiply", x, other), self.two("multiply", y, x))

    def step(self) -> None:
        """One more value, at times in two ways."""
        rng, pool = self.rng, self.pool
        x = rng.choice(pool)
        alike = [t for t in pool if t.shape == x.shape]
        y, z = rng.choice(alike), rng.choice(alike)
        dim = rng.randrange(len(x.shape)) if x.shape else None
        makes: list[Callable[[], Tensor]] = [lambda: self.one(x, y), lambda: self.plus(x, y, z)]
        makes += [lambda: self.moved(x, y)] * 3
        if dim is not None:
            reducer = rng.choice(("sum", "sum", "max", "min"))
            makes += [lambda: self.over(x, reducer, dim)] * 2 + [lambda: self.softmax(x, dim)]
            fitting = [t for t in pool if t.shape and t.shape[0] == x.shape[-1] and len(t.shape) + len(x.shape) <= 5]
            if fitting:
                right = rng.choice(fitting)
                makes += [lambda: self.product(x, right)] * 2
        if len(x.shape) >= 2:
            makes += [lambda: self.softmax(self.causal(x), len(x.shape) - 1), lambda: self.causal(x)]
        make = rng.choice(makes)
        first = make()
        if rng.random() < 0.5:
            second = make()
            if second.shape == first.shape:
                self.twins.append((first, second))
        if math.prod(first.shape) <= 72 and len(first.shape) <= 3:
            pool.append(first)

    def one(self, x: Tensor, y: Tensor) -> Tensor:
        """A value by one op."""
        rng, g = self.rng, self.g
        kind = rng.randrange(10)
        if kind == 9:  # what is nothing, beside a maximum
            nothing = self.number(-math.inf, x)
            y = self.causal(y) if len(y.shape) >= 2 and rng.random() < 0.7 else y
            most = self.two("maximum", *rng.choice(((nothing, y), (x, y), (y, nothing))))
            old = nothing if rng.random() < 0.6 else x
            return g.emit("exponential", [self.two("subtract", old, most)])
        if kind < 4:
            return self.two(rng.choice(("add", "subtract", "multiply", "maximum", "minimum")), x, y)
        if kind == 4:
            name = rng.choice(("exponential", "negate", "abs", "tanh", "logistic", "relu", "sine"))
            return g.emit(name, [x])
        if kind == 5:
            return self.two("divide", x, self.two("add", self.two("multiply", y, y), self.number(1, y)))
        if kind == 6:
            above = self.two("add", g.emit("abs", [x]), self.number(1, x))
            return g.emit(rng.choice(("sqrt", "log", "rsqrt")), [above])
        if kind == 7:
            seen = g.emit("compare", [x, y], direction=rng.choice(("GT", "GE", "LT", "LE")))
            return g.emit("select", [seen, x, self.number(0, x)])
        reducer = rng.choice(("sum", "max"))
        return g.emit("all-reduce", [x], reducer=reducer, groups=self.groups)

    def moved(self, x: Tensor, y: Tensor) -> Tensor:
        """Elements of one or two values at other places."""
        rng, g, n = self.rng, self.g, len(x.shape)
        kind = rng.randrange(8)
        if kind < 3 or not n:
            return self.reshaped(x, shape_of(rng, math.prod(x.shape)))
        if kind == 3:
            order = [*range(n)]
            rng.shuffle(order)
            return g.emit("transpose", [x], dimensions=order)
        if kind < 6:
            dim = rng.randrange(n)
            start = rng.randrange(x.shape[dim])
            return self.part(x, dim, start, rng.randrange(start + 1, x.shape[dim] + 1), rng.choice((1, 1, 2)))
        if kind == 6:
            return g.emit("concatenate", [x, y], dimension=rng.randrange(n))
        ends = [[rng.randrange(2) for _ in range(n)] for _ in range(2)]
        return g.emit("pad", [x, g.splat(0, "f32", ())], low=ends[0], high=ends[1], interior=[0] * n)

    def reshaped(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """At once, or by way of one dim."""
        if self.rng.random() < 0.5:
            x = self.g.emit("reshape", [x], shape=(math.prod(shape),))
        return self.g.emit("reshape", [x], shape=shape)


def shape_of(rng: random.Random, count: int) -> tuple[int, ...]:
    """A shape of so many elements."""
    shape: list[int] = []
    while count > 1:
        size = rng.choice([n for n in range(2, count + 1) if count % n == 0])
        shape.append(size)
        count //= size
    rng.shuffle(shape)
    if rng.random() < 0.2:
        shape.insert(rng.randrange(len(shape) + 1), 1)
    return tuple(shape)


def drawn(rng: random.Random) -> tuple[Pair, Draw]:
    """A program on two ranks."""
    pair = Pair({"tp": RANKS})
    pool = []
    for _ in range(rng.randrange(2, 4)):
        shape = tuple(rng.choice(SIZES) for _ in range(rng.randrange(1, 4)))
        even = [d for d, size in enumerate(shape) if size % RANKS == 0]
        split = {rng.choice(even): "tp"} if even and rng.random() < 0.6 else {}
        base, dist = pair.input(shape, split)
        pair.base.emit("negate", [base])
        pool.append(dist)
    draw = Draw(rng, pair.dist, pool, pair.groups("tp"))
    for _ in range(rng.randrange(2, 7)):
        draw.step()
    return pair, draw
