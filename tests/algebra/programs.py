"""Words in which programs of pairs are written: one op each, of graphs of any size."""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.algebra.decide import Decider
from scalify_dl.audit.pair import Pair
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import load_program
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report
from scalify_dl.report.conclude import conclude

SIZE = 4096
Make = Callable[[Graph, Tensor], Tensor]


def verdict(pair: Pair) -> str:
    analysis = analyse(Facts({name: list(rows) for name, rows in pair.tables().items()}), Options())
    (found,) = {row[2] for row in analysis.rows("output_verdict")}
    return str(found)


def report(pair: Pair) -> Report:
    return conclude(analyse(Facts({name: list(rows) for name, rows in pair.tables().items()}), Options()))


def decided(pair: Pair) -> bool:
    """Whether formulas alone say that they are equal."""
    program = load_program(pair.tables())
    return Decider(program, program.shards).decide(*program.expects[0]) is not None


def alone(base: Make, dist: Make, *shape: int) -> Pair:
    pair = Pair({"tp": 1})
    x, dx = pair.input(shape)
    pair.outputs(base(pair.base, x), dist(pair.dist, dx))
    return pair


def over(g: Graph, x: Tensor, reducer: str, dim: int = 0) -> Tensor:
    return g.emit("reduce", [x], dimensions=[dim], reducer=reducer)


def wide(g: Graph, x: Tensor, like: Tensor, *dims: int) -> Tensor:
    return g.emit("broadcast", [x], shape=like.shape, dimensions=list(dims))


def number(g: Graph, value: float, like: Tensor) -> Tensor:
    return g.splat(value, like.dtype, like.shape)


def two(g: Graph, kind: str, x: Tensor, y: Tensor) -> Tensor:
    return g.emit(kind, [x, y])


def scaled(g: Graph, x: Tensor, factor: float) -> Tensor:
    return two(g, "multiply", x, number(g, factor, x))


def part(g: Graph, x: Tensor, start: int, limit: int, stride: int = 1, dim: int = 0) -> Tensor:
    starts, limits, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[dim], limits[dim], strides[dim] = start, limit, stride
    return g.emit("slice", [x], start=starts, limit=limits, stride=strides)


def element(g: Graph, x: Tensor, i: int) -> Tensor:
    return g.emit("reshape", [part(g, x, i, i + 1)], shape=())


def square(g: Graph, x: Tensor) -> Tensor:
    return two(g, "multiply", x, x)


def matmul(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    return g.emit("dot", [x, w], lhs_contracting_dims=[len(x.shape) - 1], rhs_contracting_dims=[0])


def iota(g: Graph, x: Tensor, dim: int = 0, dtype: str = "s32") -> Tensor:
    return g.emit("iota", [], shape=x.shape, dtype=dtype, dimension=dim)


def where(g: Graph, shown: Tensor, x: Tensor, otherwise: float) -> Tensor:
    return g.emit("select", [shown, x, number(g, otherwise, x)])


def compared(g: Graph, x: Tensor, y: Tensor, direction: str) -> Tensor:
    return g.emit("compare", [x, y], direction=direction)


def joined(g: Graph, *parts: Tensor, dim: int = 0) -> Tensor:
    return g.emit("concatenate", list(parts), dimension=dim)


def turned(g: Graph, x: Tensor) -> Tensor:
    return g.emit("reverse", [x], dimensions=[0])


def transposed(g: Graph, x: Tensor) -> Tensor:
    return g.emit("transpose", [x], dimensions=[1, 0])
