"""Programs by hand with the baseline that they are meant to compute: lint sees the distributed side alone, the baseline
is there to confirm, on numbers of all ranks, that a right one is right and a wrong one wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Distributed, Pair

Make = Callable[[bool], Pair]
RIGHT: dict[str, Make] = {}
WRONG: dict[str, Make] = {}
MERGED: dict[str, Make] = {}
"""Right programs in which ranks do something for themselves and put it right behind."""


def program(
    mesh: str, *, right: bool = True, wrong: bool = True, into: dict[str, Make] = RIGHT
) -> Callable[[Callable[[Pair, bool], None]], None]:
    """Enters a program, which is told whether to be right: with its wrong twin, or one of them alone."""

    def enter(build: Callable[[Pair, bool], None]) -> None:
        def make(ok: bool) -> Pair:
            pair = Pair(mesh, title=build.__name__)
            build(pair, ok)
            return pair

        if right:
            into[build.__name__] = make
        if wrong:
            WRONG[build.__name__] = make

    return enter


def block(d: Distributed, x: Tensor, dim: int, axis: str) -> Tensor:
    """The rank's own block of a dim."""
    mesh = d.mesh
    size = x.shape[dim] // mesh.axis_size(axis)
    at = [name for name, _ in mesh.axes].index(axis)
    starts = {rank: place[at] * size for rank, place in enumerate(mesh.coordinates)}
    return d.slice(x, dim, starts, {rank: start + size for rank, start in starts.items()})


def offset(d: Distributed, axis: str, step: int) -> Tensor:
    """The rank's coordinate on an axis, times a number."""
    at = [name for name, _ in d.mesh.axes].index(axis)
    return d.rank_constant({rank: place[at] * step for rank, place in enumerate(d.mesh.coordinates)})


def mean(p: Program, x: Tensor, dims: Sequence[int], count: int) -> Tensor:
    """Sum over dims, divided by a count."""
    return p.divide(p.reduce(x, dims), float(count))


def rms(p: Program, x: Tensor, w: Tensor, dim: int, total: Tensor | None = None) -> Tensor:
    """RMS norm along the last dim of a matrix; `total` is the sum of squares where it is at hand."""
    rows = list(range(dim))
    square = p.reduce(p.multiply(x, x), dim) if total is None else total
    scale = p.rsqrt(p.add(p.divide(square, float(w.shape[0])), 1e-5))
    return p.multiply(p.multiply(x, p.broadcast(scale, x.shape, rows)), p.broadcast(w, x.shape, [dim]))


def attention(p: Program, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[heads, seq, dim] each, softmax over keys."""
    scores = p.dot(q, k, ([2], [2]), ([0], [0]))
    return p.dot(p.softmax(scores, 2), v, ([2], [1]), ([0], [0]))
