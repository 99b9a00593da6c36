"""Random steps that are unrolled loops on the distributed side: the same computation on every block of a value, or on
every shard as it comes by round a ring, added up or put side by side. The baseline works on the whole."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.frontends.graph import Graph, Tensor

from .partitioner_steps import part
from .ring_steps import own_block, put_block, ring_axis, sharded, shift
from .world import Retry, World, step

FORMS = ["product", "scores", "chain"]


def body(w: World, g: Graph, form: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """What is done with rows of `k` and `v` in one turn: [rows of q, columns] summed over them, or one row for each."""
    if form == "chain":  # a row for each row of k
        tall = w.emit(g, "sine", [w.emit(g, "multiply", [k, v])])
        return w.emit(g, "dot", [tall, q], lhs_contracting_dims=[1], rhs_contracting_dims=[1])
    scores = w.emit(g, "dot", [q, k], lhs_contracting_dims=[1], rhs_contracting_dims=[1])
    if form == "scores":
        scores = w.emit(g, "multiply", [scores, g.splat(0.5, "f32", scores.shape)])
        scores = w.emit(g, "exponential", [scores])
    return w.emit(g, "dot", [scores, v], lhs_contracting_dims=[1], rhs_contracting_dims=[0])


def joined(w: World, form: str, turns: Sequence[Tensor]) -> Tensor:
    """The sum of all turns, in a random order, or their rows one after the other."""
    order = list(turns)
    if w.slip():
        order = w.rng.choice([order[:-1], [*order, order[0]], order[::-1]])
    if form == "chain":
        return w.emit(w.dist, "concatenate", order, dimension=0) if len(order) > 1 else order[0]
    w.rng.shuffle(order)
    total = order[0]
    for turn in order[1:]:
        total = w.emit(w.dist, "add", [total, turn])
    return total


@step("loop-over-blocks", 0.4)
def loop_over_blocks(w: World) -> None:
    """Every rank goes through the blocks of its keys and values."""
    form, count = w.rng.choice(FORMS), w.rng.choice([2, 2, 3, 4])
    shape = [4 * count, 2]
    q = w.input("f32", shape=[4, 2], layout=w.layout([4, 2], pending=False))
    place = w.layout(shape, pending=form == "product" and w.chance(0.3))
    k, v = w.input("f32", shape=shape, layout=place), w.input("f32", shape=shape, layout=place)
    rows = k.dist.shape[0] // count
    if k.dist.shape[0] % count or rows == 0 or k.dist.shape != v.dist.shape or k.dist.shape[1] != q.dist.shape[1]:
        raise Retry
    turns = []
    left = w.rng.randrange(1, count) if w.slip() else count  # from this turn on, the first block of the values
    for n in range(count):
        mine = part(w.dist, k.dist, 0, n * rows, (n + 1) * rows)
        at = n if n < left else 0
        turns.append(body(w, w.dist, form, q.dist, mine, part(w.dist, v.dist, 0, at * rows, (at + 1) * rows)))
    w.add(body(w, w.base, form, q.base, k.base, v.base), joined(w, form, turns))


@step("loop-round-a-ring", 0.4)
def loop_round_a_ring(w: World) -> None:
    """Keys and values come by, one shard after the other."""
    axis, size, at = ring_axis(w)
    form = w.rng.choice(FORMS)
    rows = w.rng.choice([1, 2]) * size
    k = sharded(w, 0, axis, [rows, 2])
    v = sharded(w, 0, axis, [rows, 2])
    q = w.input("f32", shape=[size * 2, 2], layout=w.layout([size * 2, 2], pending=False))
    if k.dist.shape != v.dist.shape or k.dist.shape[1] != q.dist.shape[1]:
        raise Retry
    width = k.dist.shape[0]
    moved, other, stays = k.dist, v.dist, w.slip()
    out = w.dist.splat(0.0, "f32", (width * size, q.dist.shape[0]))
    turns = []
    for n in range(size):
        turns.append(body(w, w.dist, form, q.dist, moved, other))
        if form == "chain":
            out = put_block(w, out, turns[-1], 0, own_block(w, at, size, width, n + 1 if w.slip() else n))
        if n + 1 < size:
            moved = shift(w, moved, at, size, 1)
            other = other if stays else shift(w, other, at, size, 1)
    w.add(body(w, w.base, form, q.base, k.base, v.base), out if form == "chain" else joined(w, form, turns))
