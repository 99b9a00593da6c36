"""Random steps that are unrolled loops on the distributed side: the same computation on every block of a value, or on
every shard as it comes by round a ring, added up or put side by side. The baseline works on the whole."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.ir.graph import Graph, Tensor

from .partitioner_steps import part, rank_scalar
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
    count = 33 if w.slip() and w.chance(0.3) else count  # more than a mask has bits; only some are worked on
    shape = [4 * count if count < 33 else count, 2]
    q = w.input("f32", shape=[4, 2], layout=w.layout([4, 2], pending=False))
    place = w.layout(shape, pending=form == "product" and w.chance(0.3))
    k, v = w.input("f32", shape=shape, layout=place), w.input("f32", shape=shape, layout=place)
    rows = k.dist.shape[0] // count
    if k.dist.shape[0] % count or rows == 0 or k.dist.shape != v.dist.shape or k.dist.shape[1] != q.dist.shape[1]:
        raise Retry
    if w.slip() and rows > 1:  # blocks that leave something out
        rows = rows - 1
        count = k.dist.shape[0] // rows if w.chance(0.7) else count
    turns: list[Tensor] = []
    left = w.rng.randrange(1, count) if w.slip() else count  # from this turn on, the first block of the values
    off = 1 if w.slip() and rows > 1 else 0  # the first block begins late
    for n in range(count if count < 33 else w.rng.choice([2, 3])):
        late = off if n == 0 else 0
        mine = part(w.dist, k.dist, 0, n * rows + late, (n + 1) * rows + late)
        at = n if n < left else 0
        turns.append(
            body(w, w.dist, form, q.dist, mine, part(w.dist, v.dist, 0, at * rows + late, (at + 1) * rows + late))
        )
    w.add(body(w, w.base, form, q.base, k.base, v.base), joined(w, form, turns))


@step("loop-of-exchanges", 0.4)
def loop_of_exchanges(w: World) -> None:
    """In every turn ranks add up, or gather, what each has made of the block (tensor parallel micro-batches)."""
    axis, size, _ = ring_axis(w)
    count, kind = w.rng.choice([2, 2, 3]), w.rng.choice(["all-reduce", "all-gather"])
    dim = 1 if kind == "all-reduce" else 0  # of q: columns that are summed over, or rows
    shape = [4 * size, 4] if dim == 0 else [4, 2 * size]
    q = w.input("f32", shape=shape, layout=w.pair.layout(shape, {dim: axis}))
    shape = [2 * count, shape[1]]
    k = w.input("f32", shape=shape, layout=w.pair.layout(shape, {1: axis} if dim else {}))
    v = w.input("f32", shape=[2 * count, 3], layout=w.pair.layout([2 * count, 3], {}))
    over = {"lhs_contracting_dims": [1], "rhs_contracting_dims": [1]}
    then = {"lhs_contracting_dims": [1], "rhs_contracting_dims": [0]}
    odd = w.rng.randrange(count) if w.slip() else None  # this turn meets others, or nobody
    turns = []
    for n in range(count):
        mine, values = (part(w.dist, x.dist, 0, 2 * n, 2 * n + 2) for x in (k, v))
        scores = w.emit(w.dist, "dot", [q.dist, mine], **over)
        groups = w.groups() if n == odd else w.pair.groups(axis)
        if n == odd and w.chance(0.3):
            pass
        elif kind == "all-reduce":
            scores = w.emit(w.dist, kind, [scores], reducer="max" if w.slip() else "sum", groups=groups)
        else:
            if w.slip():
                groups = [group[::-1] for group in groups]
            scores = w.emit(w.dist, kind, [scores], dimension=0, groups=groups)
        turns.append(w.emit(w.dist, "dot", [w.emit(w.dist, "exponential", [scores]), values], **then))
    if len({turn.shape for turn in turns}) > 1:
        raise Retry
    whole = w.emit(w.base, "exponential", [w.emit(w.base, "dot", [q.base, k.base], **over)])
    w.add(w.emit(w.base, "dot", [whole, v.base], **then), joined(w, "product", turns))


@step("loop-in-a-row", 0.3)
def loop_in_a_row(w: World) -> None:
    """What the turns give is put side by side, and all of it added up (losses of micro-batches, averaged)."""
    form, count = w.rng.choice(FORMS[:2]), w.rng.choice([2, 3, 4])
    shape = [2 * count, 2]
    q = w.input("f32", shape=[2, 2], layout=w.layout([2, 2], pending=False))
    place = w.layout(shape, pending=form == "product" and w.chance(0.3))
    k, v = w.input("f32", shape=shape, layout=place), w.input("f32", shape=shape, layout=place)
    rows = k.dist.shape[0] // count
    if rows * count != k.dist.shape[0] or k.dist.shape != v.dist.shape or k.dist.shape[1] != q.dist.shape[1]:
        raise Retry
    turns = []
    for n in range(count):
        mine = [part(w.dist, x, 0, n * rows, (n + 1) * rows) for x in (k.dist, v.dist)]
        turns.append(in_a_row(w, w.dist, body(w, w.dist, form, q.dist, *mine)))
    if w.slip():
        turns = w.rng.choice([turns[:-1], [*turns, turns[0]], [turns[1], *turns[1:]]])
    row = w.emit(w.dist, "concatenate", turns, dimension=0) if len(turns) > 1 else turns[0]
    whole = in_a_row(w, w.base, body(w, w.base, form, q.base, k.base, v.base))
    over = {"dimensions": [0], "reducer": "max" if w.slip() else "sum"}
    w.add(w.emit(w.base, "reduce", [whole], **over), w.emit(w.dist, "reduce", [row], **over))


def in_a_row(w: World, g: Graph, x: Tensor) -> Tensor:
    """All elements, in one dim."""
    return w.emit(g, "reshape", [x], shape=(prod(x.shape),))


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
    wide = 1 if w.slip() else 0  # a column before the blocks
    out = w.dist.splat(0.0, "f32", (width * size, q.dist.shape[0] + wide))
    turns: list[Tensor] = []
    passing = w.slip()  # now and then what was computed is passed on, and not computed again
    for n in range(size):
        again = not passing or not turns or w.chance(0.5)
        turns.append(body(w, w.dist, form, q.dist, moved, other) if again else shift(w, turns[0], at, size, n))
        if form == "chain":
            start = own_block(w, at, size, width, n + 1 if w.slip() else n)
            if w.slip():
                start = dict(zip(start, w.rng.sample(list(start.values()), len(start)), strict=True))
            out = at_columns(w, out, turns[-1], start, wide) if wide else put_block(w, out, turns[-1], 0, start)
        if n + 1 < size:
            moved = shift(w, moved, at, size, 1)
            other = other if stays else shift(w, other, at, size, 1)
    w.add(body(w, w.base, form, q.base, k.base, v.base), out if form == "chain" else joined(w, form, turns))


@step("loop-of-ranks", 0.3)
def loop_of_ranks(w: World) -> None:
    """Work on what comes by that has to do with the rank: its own rows, a sum with the others, a column of its own."""
    axis, size, at = ring_axis(w)
    k = sharded(w, 0, axis, [2 * size, 2])
    pending = {axis: "sum"} if w.chance(0.4) else {}
    q = w.input("f32", shape=[2 * size, 2], layout=w.pair.layout([2 * size, 2], {}, pending=pending))
    if k.dist.shape[1] != 2:
        raise Retry
    width, what = k.dist.shape[0], w.rng.choice(["rows", "total", "shares"])
    places = [c[at] for c in w.pair.mesh.coordinates]
    wide = w.slip()  # a column before the block
    out = w.dist.splat(0.0, "f32", (width * size, 2 + wide if what == "rows" else 2 * size))
    moved, mine = k.dist, q.base
    if what == "shares":
        q = sharded(w, 0, axis, [width, 2])
        if q.dist.shape[1] != 2:
            raise Retry
    for n in range(size):
        if what == "rows":  # of the other side, those of the same block
            block = w.emit(w.dist, "multiply", [moved, own_rows(w, q.dist, width, [(c - n) % size for c in places])])
        else:
            block = w.emit(w.dist, "dot", [moved, q.dist], lhs_contracting_dims=[1], rhs_contracting_dims=[1])
            if what == "total":
                block = w.emit(w.dist, "all-reduce", [block], reducer="sum", groups=w.pair.groups(axis))
        if block.shape[1] > out.shape[1]:
            raise Retry
        if wide and what == "rows":
            out = at_columns(w, out, block, own_block(w, at, size, width, n), w.rng.choice([0, 1]))
        elif block.shape[1] == out.shape[1]:
            out = put_block(w, out, block, 0, own_block(w, at, size, width, n))
        if n + 1 < size:
            moved = shift(w, moved, at, size, 1)
    if what == "rows":
        w.add(w.emit(w.base, "multiply", [k.base, q.base]) if q.base.shape == k.base.shape else mine, out)
    else:
        w.add(w.emit(w.base, "dot", [k.base, q.base], lhs_contracting_dims=[1], rhs_contracting_dims=[1]), out)


def own_rows(w: World, x: Tensor, width: int, block: Sequence[int]) -> Tensor:
    """`width` rows of x, each rank's those of a block of its own, by the attributes of a slice."""
    op = w.dist.add(
        "slice", [x], [("f32", (width, x.shape[1]))],
        numbers={"start": [0, 0], "limit": [width, x.shape[1]], "stride": [1, 1]},
    )  # fmt: skip
    op.rank_numbers["start", 0] = {r: b * width for r, b in enumerate(block)}
    op.rank_numbers["limit", 0] = {r: b * width + width for r, b in enumerate(block)}
    return op.result


def at_columns(w: World, into: Tensor, block: Tensor, start: dict[int, int], column: int) -> Tensor:
    """As `put_block`, from a column on, perhaps another one on each rank."""
    offset = w.dist.add("constant", [], [("s32", ())])
    offset.rank_numbers["value", 0] = start
    columns = rank_scalar(w.pair, [column * (w.chance(0.5) or r) for r in range(w.pair.mesh.size)])
    return w.emit(w.dist, "dynamic-update-slice", [into, block, offset.result, columns])


@step("loop-of-attention", 0.2)
def loop_of_attention(w: World) -> None:
    """Attention of a library, which takes its heads in groups, on blocks of heads or of something else."""
    heads, group, rows, width = 4, w.rng.choice([1, 2]), 4, 4
    shapes = [(rows, heads * group, width), (rows, heads, width), (rows, heads, width), (rows, heads * group, width)]
    operands = [w.input("f32", shape=s, layout=w.pair.layout(s, {})) for s in shapes]
    dim, count = w.rng.choice([1, 1, 2, 0]), w.rng.choice([2, 4])
    turns = []
    for n in range(count):
        parts = [
            part(w.dist, x.dist, dim, n * x.dist.shape[dim] // count, (n + 1) * x.dist.shape[dim] // count)
            for x in operands
        ]  # fmt: skip
        turns.append(attention(w.dist, parts))
    w.add(attention(w.base, [x.base for x in operands]), w.emit(w.dist, "concatenate", turns, dimension=dim))


def attention(g: Graph, operands: Sequence[Tensor]) -> Tensor:
    """The call."""
    return g.add("custom:vllm.unified_attention", operands, [("f32", operands[0].shape)]).result


@step("nothing", 0.05)
def nothing(w: World) -> None:
    """A part without elements: cut out, and written somewhere."""
    t = w.twin(least=1)
    if not t.dist.shape or len(t.base.shape) != len(t.dist.shape):
        raise Retry
    results = []
    for g, x in ((w.base, t.base), (w.dist, t.dist)):
        none = part(g, x, 0, 1, 1)
        zero = g.constant(0, "s32")
        results.append((w.emit(g, "dynamic-update-slice", [x, none, *[zero] * len(x.shape)]), none))
    for base, dist in zip(*results, strict=True):
        w.add(base, dist)
