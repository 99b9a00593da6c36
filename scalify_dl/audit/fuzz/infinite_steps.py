"""Random steps with infinities: what makes them, what ends them, what multiplies by zero or passes a pending sum."""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Tensor

from .world import Retry, Twin, World, step

MAKERS = ("log", "divide", "rsqrt", "power", "mask", "add", "max", "none")
ENDERS = ("exponential", "tanh", "logistic", "maximum", "clamp", "again", "is-finite", "negate", "abs", "none", "none")


def _made(w: World, g: Graph, x: Tensor, maker: str, ender: str, sign: float) -> Tensor:
    """x, infinite here and there, or not any more."""

    def number(value: float) -> Tensor:
        return g.splat(value, "f32", x.shape)

    def chosen(y: Tensor, other: float) -> Tensor:
        return w.emit(g, "select", [w.emit(g, "compare", [x, number(0.0)], direction="GT"), y, number(other)])

    y = x
    if maker in ("log", "rsqrt"):
        y = w.emit(g, maker, [w.emit(g, "relu", [x])])
    elif maker == "divide":
        y = w.emit(g, "divide", [x, w.emit(g, "relu", [x])])
    elif maker == "power":
        y = w.emit(g, "power", [w.emit(g, "relu", [x]), number(-2.0)])
    elif maker == "mask":
        y = chosen(x, sign * float("inf"))
    elif maker == "add":
        y = w.emit(g, "add", [x, number(sign * float("inf"))])
    elif maker == "max":  # a row less its maximum
        y = chosen(x, -float("inf"))
        top = w.emit(g, "reduce", [y], dimensions=[len(x.shape) - 1], reducer="max")
        wide = w.emit(g, "broadcast", [top], shape=x.shape, dimensions=list(range(len(x.shape) - 1)))
        y = w.emit(g, "subtract", [y, wide])
    if ender in ("exponential", "tanh", "logistic", "negate", "abs"):
        return w.emit(g, ender, [y])
    if ender == "maximum":
        return w.emit(g, "maximum", [y, number(-3.0)])
    if ender == "clamp":
        return w.emit(g, "clamp", [number(-3.0), y, number(3.0)])
    if ender == "again":
        return chosen(y, 0.5)
    if ender == "is-finite":
        return w.emit(g, "select", [w.emit(g, "is-finite", [y]), y, number(0.5)])
    return y


def infinite(w: World, t: Twin) -> Twin:
    """The value with infinities, made alike on both sides."""
    maker, ender, sign = w.rng.choice(MAKERS), w.rng.choice(ENDERS), w.rng.choice([1.0, -1.0])
    if not t.base.shape or len(t.base.shape) != len(t.dist.shape):
        raise Retry
    return Twin(*(_made(w, g, x, maker, ender, sign) for g, x in ((w.base, t.base), (w.dist, t.dist))))


@step("infinite", 0.4)
def infinities(w: World) -> None:
    """A value that may be infinite."""
    t = infinite(w, w.twin(least=1))
    w.add(t.base, t.dist)


@step("flagged-infinite", 0.5)
def flagged(w: World) -> None:
    """A value that may be infinite on one rank, by a product or a choice, and added up over the ranks."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    t = infinite(w, w.input("f32", shape=[2, 6], layout=w.pair.layout([2, 6], {})))
    g, chosen = w.dist, w.rng.randrange(ways)
    index = [name for name, _ in w.pair.mesh.axes].index(axis)
    mark = g.add("constant", [], [("s32", ())])
    mark.rank_numbers["value", 0] = {r: int(at[index] == chosen) for r, at in enumerate(w.pair.mesh.coordinates)}
    here = w.emit(g, "compare", [mark.result, g.constant(1, "s32")], direction="EQ")
    wide = w.emit(g, "broadcast", [here], shape=t.dist.shape, dimensions=[])
    if w.chance(0.3):
        kept = w.emit(g, "select", [wide, t.dist, g.splat(0.0, "f32", t.dist.shape)])
    else:
        kept = w.emit(g, "multiply", [t.dist, w.emit(g, "convert", [wide], dtype="f32")])
    w.add(t.base, w.emit(g, "all-reduce", [kept], reducer="sum", groups=w.pair.groups(axis)))


@step("infinite-factor", 0.6)
def factor(w: World) -> None:
    """A pending sum, times or over a value that may be infinite or zero; a pending maximum under a function."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    if ways == 1:
        raise Retry
    reducer = w.rng.choice(["sum", "sum", "max"])
    x = w.input("f32", shape=[2, 6 * ways], layout=w.pair.layout([2, 6 * ways], {1: axis}))
    if reducer == "max" and w.chance(0.5):
        x = Twin(w.emit(w.base, "abs", [x.base]), w.emit(w.dist, "abs", [x.dist]))
    base, dist = (
        w.emit(g, "reduce", [v], dimensions=[1], reducer=reducer) for g, v in ((w.base, x.base), (w.dist, x.dist))
    )
    if reducer == "max":
        kind = w.rng.choice(["log", "sqrt", "log-plus-one", "exponential", "floor"])
        base, dist = w.emit(w.base, kind, [base]), w.emit(w.dist, kind, [dist])
    else:
        c = infinite(w, w.input("f32", shape=[2], layout=w.pair.layout([2], {})))
        kind = w.rng.choice(["multiply", "divide", "dot"])
        if kind == "dot":
            numbers = {
                "lhs_batch_dims": [0],
                "rhs_batch_dims": [0],
                "lhs_contracting_dims": [],
                "rhs_contracting_dims": [],
            }
            base, dist = (
                w.emit(w.base, kind, [base, c.base], **numbers),
                w.emit(w.dist, kind, [dist, c.dist], **numbers),
            )
        else:
            base, dist = w.emit(w.base, kind, [base, c.base]), w.emit(w.dist, kind, [dist, c.dist])
    w.add(base, w.emit(w.dist, "all-reduce", [dist], reducer=reducer, groups=w.pair.groups(axis)))
