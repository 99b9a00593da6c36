"""What people build models of, a few lines each, of the ops of a program by hand (`builder`, `lint.program.Alone`).

    y = layers.rms_norm(p, x, w)
    q, scale = layers.quantise(p, y, layers.amax(p, y, ["dp", "tp"]))

Each is nothing but its ops: whatever takes the op vocabulary takes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from scalify_dl.ir.callers import BUILDERS
from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.ir.recorder import Axes
from scalify_dl.ir.transitions import coordinate, own_block

BUILDERS.add(os.path.abspath(__file__))
FP8_LARGEST = {"f8e4m3fn": 448.0, "f8e5m2": 57344.0}


def silu(p: Program, x: Tensor) -> Tensor:
    """x times its logistic."""
    return p.multiply(x, p.logistic(x))


def dropout(p: Program, x: Tensor, probability: float) -> Tensor:
    """Some elements zero, the others larger by what is lost."""
    kept = p.select(p.dropout_mask(x, probability), x, p.full(0, x.shape, x.dtype))
    return p.multiply(kept, 1 / (1 - probability))


def _rows(p: Program, x: Tensor, like: Tensor) -> Tensor:
    """One number for each row, along the last dim."""
    return p.broadcast(x, like.shape, list(range(len(like.shape) - 1)))


def _columns(p: Program, x: Tensor, like: Tensor) -> Tensor:
    """A vector along the last dim."""
    return p.broadcast(x, like.shape, [len(like.shape) - 1])


def _mean(p: Program, x: Tensor) -> Tensor:
    last = len(x.shape) - 1
    return p.divide(p.reduce(x, last), float(x.shape[last]))


def rms_norm(p: Program, x: Tensor, weight: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Along the last dim."""
    scale = p.rsqrt(p.add(_mean(p, p.multiply(x, x)), epsilon))
    return p.multiply(p.multiply(x, _rows(p, scale, x)), _columns(p, weight, x))


def layer_norm(p: Program, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Along the last dim."""
    centred = p.subtract(x, _rows(p, _mean(p, x), x))
    scale = p.rsqrt(p.add(_mean(p, p.multiply(centred, centred)), epsilon))
    return p.add(p.multiply(p.multiply(centred, _rows(p, scale, x)), _columns(p, weight, x)), _columns(p, bias, x))


def attention(p: Program, q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> Tensor:
    """Of [heads, rows, size]."""
    scores = p.multiply(p.dot(q, k, ([2], [2]), ([0], [0])), q.shape[2] ** -0.5)
    if causal:
        seen = p.compare(p.iota(scores.shape, 1), p.iota(scores.shape, 2), direction="GE")
        scores = p.select(seen, scores, p.full(float("-inf"), scores.shape, scores.dtype))
    return p.dot(p.softmax(scores, 2), v, ([2], [1]), ([0], [0]))


def cross_entropy(p: Program, logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over rows of the loss of [rows, classes]."""
    top = p.reduce(logits, 1, "max")
    moved = p.subtract(logits, _rows(p, top, logits))
    total = p.log(p.reduce(p.exponential(moved), 1))
    hit = p.compare(p.iota(logits.shape, 1, targets.dtype), _rows(p, targets, logits), direction="EQ")
    chosen = p.reduce(p.select(hit, moved, p.full(0, logits.shape, logits.dtype)), 1)
    return p.divide(p.reduce(p.subtract(total, chosen), 0), float(logits.shape[0]))


# rounding to few bits


def amax(p: Program, x: Tensor, axes: Axes = ()) -> Tensor:
    """The largest size of an element, over these axes of the mesh, too."""
    largest = p.reduce(p.abs(x), list(range(len(x.shape))), "max")
    return p.all_reduce(largest, axes, "max") if axes else largest


def quantise(p: Program, x: Tensor, largest: Tensor, dtype: str = "f8e4m3fn") -> tuple[Tensor, Tensor]:
    """x times a scale that brings the largest to the end of the type, rounded to it; and the scale."""
    end = FP8_LARGEST[dtype]
    scale = p.divide(p.full(end, (), x.dtype), largest)
    spread = p.multiply(x, p.broadcast(scale, x.shape, []))
    ends = p.full(-end, x.shape, x.dtype), p.full(end, x.shape, x.dtype)
    return p.convert(p.clamp(ends[0], spread, ends[1]), dtype), scale


def dequantise(p: Program, q: Tensor, scale: Tensor) -> Tensor:
    """Back to the type of the scale."""
    return p.divide(p.convert(q, scale.dtype), p.broadcast(scale, q.shape, []))


def amax_update(p: Program, history: Tensor, x: Tensor, axes: Axes = ()) -> tuple[Tensor, Tensor]:
    """The largest sizes of the last steps with this one's in front, and the largest of them: what the next step scales
    by."""
    new = p.reshape(amax(p, x, axes), (1,))
    rolled = p.concatenate([new, p.slice(history, 0, 0, history.shape[0] - 1)], 0)
    return rolled, p.reduce(rolled, 0, "max")


# state in blocks


def zero_partition(p: Program, whole: Tensor, axis: str, dim: int = 0) -> Tensor:
    """The rank's block of what every rank has."""
    return own_block(p, whole, dim, axis)


def zero_gather(p: Program, block: Tensor, axis: str, dim: int = 0) -> Tensor:
    """A parameter of which every rank has a block."""
    return p.all_gather(block, axis, dim)


def zero_scatter(p: Program, gradient: Tensor, axis: str, dim: int = 0) -> Tensor:
    """The rank's block of the mean of all gradients."""
    return p.divide(p.reduce_scatter(gradient, axis, dim), float(p.mesh.axis_size(axis)))


# what goes on meanwhile


class Handle(NamedTuple):
    """A collective that was issued; its value cannot be read before `wait`."""

    value: Tensor


def start(p: Program, collective: Callable[[], Tensor]) -> Handle:
    """Issues a collective: what is written until `wait` may overlap with it."""
    p.graph.asynchronous = True
    return Handle(collective())


def wait(handle: Handle) -> Tensor:
    """The value of a collective that was issued."""
    return handle.value


# from one rank, and to one


def broadcast_from(p: Program, x: Tensor, axis: str, root: int = 0) -> Tensor:
    """What the rank at one place of an axis has, on all of them."""
    groups = [[group[root], *group[:root], *group[root + 1 :]] for group in p.groups(axis)]
    return p.op("collective-broadcast", x, groups=groups).result


def reduce_to(p: Program, x: Tensor, axis: str, root: int = 0, reducer: str = "sum") -> Tensor:
    """The reduction on one rank, zeros on the others."""
    return only_on(p, p.all_reduce(x, axis, reducer), axis, root)


def gather_to(p: Program, x: Tensor, axis: str, root: int = 0, dim: int = 0) -> Tensor:
    """The blocks of all ranks on one, zeros on the others."""
    return only_on(p, p.all_gather(x, axis, dim), axis, root)


def scatter_from(p: Program, x: Tensor, axis: str, root: int = 0, dim: int = 0) -> Tensor:
    """Every rank's block of what one has."""
    return own_block(p, broadcast_from(p, x, axis, root), dim, axis)


def send_on(p: Program, x: Tensor, axis: str) -> Tensor:
    """What the place before sent along an axis; zeros at the first, whose place nobody is before."""
    pairs = [pair for group in p.groups(axis) for pair in pairwise(group)]
    return p.permute(x, pairs)


# rings


def ring_rotate(p: Program, x: Tensor, axis: str) -> Tensor:
    """What the rank before has, along an axis."""
    at, names = p.mesh.coordinates, [name for name, _ in p.mesh.axes]
    where, size = names.index(axis), p.mesh.axis_size(axis)
    rank_of = {place: rank for rank, place in enumerate(at)}
    return p.permute(x, [(rank, rank_of[(*c[:where], (c[where] + 1) % size, *c[where + 1 :])])
                         for rank, c in enumerate(at)])  # fmt: skip


class Partial(NamedTuple):
    """Attention so far: the largest score, the sum of weights, and the weighted values, not divided yet."""

    top: Tensor
    total: Tensor
    values: Tensor


def ring_attention_step(p: Program, q: Tensor, k: Tensor, v: Tensor, before: Partial | None) -> Partial:
    """One block of keys and values more."""
    scores = p.multiply(p.dot(q, k, ([2], [2]), ([0], [0])), q.shape[2] ** -0.5)
    top = p.reduce(scores, 2, "max")
    if before is not None:
        top = p.maximum(top, before.top)
    weights = p.exponential(p.subtract(scores, p.broadcast(top, scores.shape, [0, 1])))
    total, values = p.reduce(weights, 2), p.dot(weights, v, ([2], [1]), ([0], [0]))
    if before is None:
        return Partial(top, total, values)
    shrink = p.exponential(p.subtract(before.top, top))
    old = p.multiply(before.values, p.broadcast(shrink, before.values.shape, [0, 1]))
    return Partial(top, p.add(total, p.multiply(before.total, shrink)), p.add(values, old))


def ring_attention(p: Program, q: Tensor, k: Tensor, v: Tensor, axis: str) -> Tensor:
    """Attention of the rank's rows over the keys of all ranks, which go round."""
    found = ring_attention_step(p, q, k, v, None)
    for _ in range(p.mesh.axis_size(axis) - 1):
        k, v = ring_rotate(p, k, axis), ring_rotate(p, v, axis)
        found = ring_attention_step(p, q, k, v, found)
    return p.divide(found.values, p.broadcast(found.total, found.values.shape, [0, 1]))


# experts


def top_k_gate(p: Program, scores: Tensor, k: int) -> Tensor:
    """Of [tokens, experts]: the softmax's k largest weights at their places, zeros elsewhere."""
    weights = p.softmax(scores, 1)
    values, places = p.top_k(weights, k)
    wide = (*weights.shape, k)
    hit = p.compare(p.iota(wide, 1, places.dtype), p.broadcast(places, wide, [0, 2]), direction="EQ")
    return p.reduce(p.select(hit, p.broadcast(values, wide, [0, 2]), p.full(0, wide, weights.dtype)), 2)


def moe_dispatch(p: Program, x: Tensor, gate: Tensor, axis: str) -> Tensor:
    """[experts, tokens, size]: of all ranks' tokens what the rank's experts are to see, zeros for the others."""
    wide = (gate.shape[1], *x.shape)
    chosen = p.compare(gate, 0, direction="GT")
    seen = p.select(p.broadcast(p.transpose(chosen, 1, 0), wide, [0, 1]), p.broadcast(x, wide, [1, 2]),
                    p.full(0, wide, x.dtype))  # fmt: skip
    return p.all_to_all(seen, axis, 0, 1)


def expert(p: Program, x: Tensor, weight: Tensor) -> Tensor:
    """Every expert's own matrix: [experts, tokens, size] times [experts, size, size]."""
    return p.dot(x, weight, ([2], [1]), ([0], [0]))


def moe_combine(p: Program, y: Tensor, gate: Tensor, axis: str) -> Tensor:
    """Back to the ranks whose tokens they are, and weighted."""
    mine = p.all_to_all(y, axis, 1, 0)
    return p.reduce(p.multiply(mine, p.broadcast(p.transpose(gate, 1, 0), mine.shape, [0, 1])), 0)


# what single ranks do


def only_on(p: Program, x: Tensor, axis: str, place: int = 0) -> Tensor:
    """The value on ranks at one place of an axis, zeros elsewhere: parts of the value."""
    here = p.broadcast(p.rank_constant(coordinate(p, axis)), x.shape, ())
    return p.select(p.compare(here, place, direction="EQ"), x, p.full(0, x.shape, x.dtype))


def loss_scale(p: Program, loss: Tensor, gradients: Sequence[Tensor], scale: float) -> tuple[Tensor, list[Tensor]]:
    """The loss that is differentiated, and gradients of it as those of the loss."""
    return p.multiply(loss, scale), [p.divide(g, scale) for g in gradients]
