"""Vocabulary-parallel reads and writes, masks and offsets, with knobs that break them.

Every function builds a pair; `Knobs` says what is wrong with it (nothing by default). The spellings are those of
several frameworks: a mask of what is absent as in Megatron, offsets times the mask as in vLLM, ids that wrap as in
jax.numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scalify_dl.pairing.builder import Pair, Program, Tensor


@dataclass(frozen=True)
class Knobs:
    """What to do wrong, by rank where a mapping is given."""

    lower: int = 0
    upper: int = 0
    offset: int = 0
    offset_of: dict[int, int] = field(default_factory=dict)
    bounds_of: dict[int, int] = field(default_factory=dict)
    above: str = "GE"
    below: str = "LT"
    joined: str = "and"
    swapped: bool = False
    masked: bool = True
    fill: float = 0.0
    elsewhere: int = 0
    reversed_ranks: bool = False
    reducer: str = "sum"
    wide: bool = False
    """Constants are of a wider type and cast."""


def coordinates(pair: Pair, axis: str) -> dict[int, int]:
    """Rank → coordinate along an axis."""
    at = [name for name, _ in pair.mesh.axes].index(axis)
    return {rank: place[at] for rank, place in enumerate(pair.mesh.coordinates)}


def size_of(pair: Pair, axis: str) -> int:
    return dict(pair.mesh.axes)[axis]


def firsts(pair: Pair, axis: str, size: int, knobs: Knobs) -> dict[int, int]:
    """Where every rank's rows begin."""
    n = size_of(pair, axis)
    return {r: (n - 1 - c if knobs.reversed_ranks else c) * size for r, c in coordinates(pair, axis).items()}


def everywhere(d: Program, by_rank: dict[int, int], like: Tensor) -> Tensor:
    """A number of the rank in every element."""
    if len(set(by_rank.values())) == 1:
        return d.full(min(by_rank.values()), like.shape, like.dtype)
    return d.broadcast(d.rank_constant(by_rank, like.dtype), like.shape, ())


def full(d: Program, number: float, like: Tensor, dtype: str) -> Tensor:
    """A number everywhere, cast to the type of `like` where it has another one."""
    x = d.full(number, like.shape, dtype)
    return x if dtype == like.dtype else d.convert(x, like.dtype)


def local_ids(
    d: Program, ids: Tensor, first: dict[int, int], size: int, knobs: Knobs, style: str
) -> tuple[Tensor, Tensor]:
    """(mask, local ids) in a framework's spelling."""
    low = {r: f + knobs.lower + knobs.bounds_of.get(r, 0) for r, f in first.items()}
    high = {r: f + size + knobs.upper + knobs.bounds_of.get(r, 0) for r, f in first.items()}
    start = {r: f + knobs.offset + knobs.offset_of.get(r, 0) for r, f in first.items()}
    no = full(d, knobs.elsewhere, ids, "s64" if knobs.wide else ids.dtype)
    if style == "megatron":  # the mask says what is not there
        out = d.op(
            {"and": "or", "or": "and"}[knobs.joined],
            d.compare(ids, everywhere(d, low, ids), direction={"GE": "LT", "GT": "LE"}[knobs.above]),
            d.compare(ids, everywhere(d, high, ids), direction={"LT": "GE", "LE": "GT"}[knobs.below]),
            dtype="pred",
            shape=ids.shape,
        ).result
        near = d.subtract(ids, everywhere(d, start, ids))
        return d.op("not", out).result, d.select(out, no, near)
    mask = d.op(
        knobs.joined,
        d.compare(ids, everywhere(d, low, ids), direction=knobs.above),
        d.compare(ids, everywhere(d, high, ids), direction=knobs.below),
        dtype="pred",
        shape=ids.shape,
    ).result
    if style == "vllm":  # local = mask * (ids - mask * start)
        number = d.convert(mask, ids.dtype)
        return mask, d.multiply(number, d.subtract(ids, d.multiply(number, everywhere(d, start, ids))))
    if style == "clamp":  # as XLA's partitioner does it
        return mask, d.subtract(ids, everywhere(d, start, ids))
    near = d.select(mask, d.subtract(ids, everywhere(d, start, ids)), no)
    if style == "jax":
        wrapped = d.add(near, d.full(size, ids.shape, ids.dtype))
        negative = d.compare(near, d.full(0, ids.shape, ids.dtype), direction="LT")
        return mask, d.select(negative, wrapped, near)
    return mask, near


def keep(d: Program, mask: Tensor, x: Tensor, knobs: Knobs, style: str) -> Tensor:
    """x where the mask is set."""
    if not knobs.masked:
        return x
    wide = d.broadcast(mask, x.shape, range(len(mask.shape))) if mask.shape != x.shape else mask
    if style == "multiply":
        return d.multiply(x, d.convert(wide, x.dtype))
    fill = full(d, knobs.fill, x, "f64" if knobs.wide else x.dtype)
    if style == "fill" or knobs.swapped:
        inverse = d.op("not", wide).result if style == "fill" and not knobs.swapped else wide
        return d.select(inverse, fill, x)
    return d.select(wide, x, fill)


def nan_outside(p: Program, rows: Tensor, ids: Tensor, last: int) -> Tensor:
    """rows where 0 <= ids <= last, else NaN."""
    known = p.op(
        "and",
        p.compare(ids, p.full(0, ids.shape, ids.dtype), direction="GE"),
        p.compare(ids, p.full(last, ids.shape, ids.dtype), direction="LE"),
        dtype="pred",
        shape=ids.shape,
    ).result
    return p.select(p.broadcast(known, rows.shape, range(len(ids.shape))), rows, p.full("nan", rows.shape, rows.dtype))


def embedding(
    knobs: Knobs = Knobs(),
    *,
    style: str = "megatron",
    masking: str = "select",
    mesh: str = "tp=4",
    dp: str | None = None,
    vocabulary: int = 64,
    ids_range: tuple[int, int] | None = (0, 64),
    batch: int = 4,
    cast: tuple[str, str] = ("f32", "f32"),
    filled: int | None = None,
) -> Pair:
    """Embedding over a table whose rows are sharded over tp; `cast`: what rows are cast to, there and here. `filled`:
    reads out of range give NaN, the last row being that many rows off here."""
    pair = Pair(mesh, title=f"embedding, {style}")
    b = pair.base
    ids = b.input("ids", (batch, 6), "s32", **({"range": ids_range} if ids_range else {}))
    rows = b.embedding(b.input("table", (vocabulary, 8)), ids)
    if filled is not None:
        rows = nan_outside(b, rows, ids, vocabulary - 1)
    b.output(rows if cast[0] == "f32" else b.convert(rows, cast[0]))
    d = pair.dist
    local = d.shard("ids", {0: dp} if dp else None)
    table = d.shard("table", {0: "tp"})
    size = table.shape[0]
    mask, near = local_ids(d, local, firsts(pair, "tp", size, knobs), size, knobs, style)
    rows = d.embedding(table, near)
    if filled is not None:
        rows = nan_outside(d, rows, near, size - 1 + filled)
    rows = keep(d, mask, rows if cast[1] == "f32" else d.convert(rows, cast[1]), knobs, masking)
    d.output(d.all_reduce(rows, "tp", knobs.reducer))
    return pair


def scatter_rows(p: Program, rows: int, ids: Tensor, updates: Tensor) -> Tensor:
    """Zeros with `updates` added at the rows `ids`."""
    width = updates.shape[-1]
    rank = len(ids.shape)
    return p.op(
        "scatter",
        p.full(0.0, (rows, width)),
        ids,
        updates,
        update_window_dims=[rank],
        inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0],
        input_batching_dims=[],
        scatter_indices_batching_dims=[],
        index_vector_dim=rank,
        reducer="sum",
        dtype="f32",
        shape=(rows, width),
    ).result


def embedding_gradient(
    knobs: Knobs = Knobs(),
    *,
    style: str = "megatron",
    masking: str = "select",
    mesh: str = "tp=4",
    dp: str | None = None,
    vocabulary: int = 64,
) -> Pair:
    """Gradient of that embedding with respect to its table."""
    pair = Pair(mesh, title=f"gradient of an embedding, {style}")
    b = pair.base
    ids = b.input("ids", (4, 6), "s32", range=(0, vocabulary))
    b.output(scatter_rows(b, vocabulary, ids, b.input("gradient", (4, 6, 8))))
    d = pair.dist
    local = d.shard("ids", {0: dp} if dp else None)
    size = vocabulary // size_of(pair, "tp")
    mask, near = local_ids(d, local, firsts(pair, "tp", size, knobs), size, knobs, style)
    updates = keep(d, mask, d.shard("gradient", {0: dp} if dp else None), knobs, masking)
    rows = scatter_rows(d, size, near, updates)
    d.output(d.all_reduce(rows, dp) if dp else rows)
    return pair


def pick(p: Program, logits: Tensor, ids: Tensor) -> Tensor:
    """logits[i, ids[i]]."""
    return p.op(
        "gather",
        logits,
        ids,
        offset_dims=[],
        collapsed_slice_dims=[1],
        start_index_map=[1],
        operand_batching_dims=[0],
        start_indices_batching_dims=[0],
        slice_sizes=[1, 1],
        index_vector_dim=1,
        dtype=logits.dtype,
        shape=ids.shape,
    ).result


def cross_entropy(
    knobs: Knobs = Knobs(),
    *,
    style: str = "megatron",
    masking: str = "select",
    mesh: str = "tp=4",
    base_masks: bool = False,
    max_reducer: str = "max",
    missing_sum: bool = False,
) -> Pair:
    """Loss per token from vocabulary-parallel logits: maximum, sum of exponentials, the target's logit under a mask.

    `base_masks`: the baseline treats targets outside the vocabulary as Megatron's code on one rank does.
    """
    tokens, vocabulary = 12, 64
    pair = Pair(mesh, title=f"cross entropy, {style}")
    b = pair.base
    x, w = b.input("x", (tokens, 16)), b.input("w", (16, vocabulary))
    target = b.input("target", (tokens,), "s32", **({} if base_masks else {"range": (0, vocabulary)}))
    logits = b.matmul(x, w)
    shifted = b.subtract(logits, b.broadcast(b.reduce(logits, 1, "max"), logits.shape, (0,)))
    total = b.log(b.reduce(b.exponential(shifted), 1))
    if base_masks:
        mask, near = local_ids(b, target, {0: 0}, vocabulary, Knobs(), "plain")
        b.output(b.subtract(total, keep(b, mask, pick(b, shifted, near), Knobs(), "select")))
    else:
        b.output(b.subtract(total, pick(b, shifted, target)))
    d = pair.dist
    dx, dw, local = d.shard("x"), d.shard("w", {1: "tp"}), d.shard("target")
    size = dw.shape[1]
    part = d.matmul(dx, dw)
    top = d.all_reduce(d.reduce(part, 1, "max"), "tp", max_reducer)
    moved = d.subtract(part, d.broadcast(top, part.shape, (0,)))
    mask, near = local_ids(d, local, firsts(pair, "tp", size, knobs), size, knobs, style)
    hit = d.all_reduce(keep(d, mask, pick(d, moved, near), knobs, masking), "tp", knobs.reducer)
    sums = d.reduce(d.exponential(moved), 1)
    d.output(d.subtract(d.log(sums if missing_sum else d.all_reduce(sums, "tp")), hit))
    return pair


def causal(offset: int = 0, *, offset_of: dict[int, int] | None = None, direction: str = "GE", scale: int = 1) -> Pair:
    """Scores of a block of queries under a causal mask; the block's first position depends on the rank."""
    pair = Pair("cp=4", title="causal mask on a block of the sequence")
    b = pair.base
    q, k = b.input("q", (16, 8)), b.input("k", (16, 8))
    scores = b.dot(q, k, ([1], [1]))
    mask = b.compare(b.iota((16, 16), 0), b.iota((16, 16), 1), direction="GE")
    b.output(b.select(mask, scores, b.full(-1e9, (16, 16))))
    d = pair.dist
    dq, dk = d.shard("q", {0: "cp"}), d.shard("k")
    part = d.dot(dq, dk, ([1], [1]))
    first = {r: c * 4 * scale + offset + (offset_of or {}).get(r, 0) for r, c in coordinates(pair, "cp").items()}
    rows = d.iota((4, 16), 0)
    mine = d.compare(d.add(rows, everywhere(d, first, rows)), d.iota((4, 16), 1), direction=direction)
    d.output(d.select(mine, part, d.full(-1e9, (4, 16))))
    return pair


def rotary(offset: int = 0, *, step: int = 1, scale: int = 1) -> Pair:
    """Angles of positions, for a block of the sequence on every rank."""
    pair = Pair("cp=4", title="rotary positions of a block")
    b = pair.base
    x = b.input("x", (16, 8))
    angle = b.multiply(b.convert(b.iota((16, 8), 0), "f32"), b.full(0.125, (16, 8)))
    b.output(b.multiply(x, b.cosine(angle)))
    d = pair.dist
    dx = d.shard("x", {0: "cp"})
    first = {r: c * 4 * scale + offset for r, c in coordinates(pair, "cp").items()}
    rows = d.multiply(d.iota((4, 8), 0), d.full(step, (4, 8), "s32"))
    place = d.convert(d.add(rows, everywhere(d, first, rows)), "f32")
    d.output(d.multiply(dx, d.cosine(d.multiply(place, d.full(0.125, (4, 8))))))
    return pair


def learnt_positions(offset: int = 0, *, scale: int = 1) -> Pair:
    """Rows of a table of positions, for a block of the sequence on every rank."""
    pair = Pair("dp=2,cp=4", title="learnt positions of a block")
    b = pair.base
    table, x = b.input("positions", (16, 8)), b.input("x", (4, 16, 8))
    b.output(b.add(x, b.broadcast(b.embedding(table, b.iota((16,), 0)), (4, 16, 8), (1, 2))))
    d = pair.dist
    whole, dx = d.shard("positions"), d.shard("x", {0: "dp", 1: "cp"})
    place = d.iota((4,), 0)
    first = {r: c * 4 * scale + offset for r, c in coordinates(pair, "cp").items()}
    rows = d.embedding(whole, d.add(place, everywhere(d, first, place)))
    d.output(d.add(dx, d.broadcast(rows, dx.shape, (1, 2))))
    return pair


def rotary_product(offset: int = 0, *, scale: int = 1) -> Pair:
    """Angles as the outer product of positions and frequencies."""
    pair = Pair("cp=4", title="rotary angles by an outer product")
    b = pair.base
    frequency, x = b.input("frequency", (4,)), b.input("x", (16, 4))
    place = b.convert(b.iota((16,), 0), "f32")
    b.output(b.multiply(x, b.cosine(b.dot(place, frequency, ([], [])))))
    d = pair.dist
    same, dx = d.shard("frequency"), d.shard("x", {0: "cp"})
    mine = d.iota((4,), 0)
    first = {r: c * 4 * scale + offset for r, c in coordinates(pair, "cp").items()}
    place = d.convert(d.add(mine, everywhere(d, first, mine)), "f32")
    d.output(d.multiply(dx, d.cosine(d.dot(place, same, ([], [])))))
    return pair


def one_hot(offset: int = 0, *, direction: str = "EQ", scale: int = 1, rows: int = 64) -> Pair:
    """Rows of a table by a product with one-hot vectors, the table's rows sharded."""
    pair = Pair("dp=2,tp=4", title="one-hot embedding")
    size = rows // 4
    b = pair.base
    ids, table = b.input("ids", (12,), "s32", range=(0, rows)), b.input("table", (rows, 8))
    hot = b.compare(b.broadcast(ids, (12, rows), (0,)), b.iota((12, rows), 1), direction="EQ")
    b.output(b.matmul(b.convert(hot, "f32"), table))
    d = pair.dist
    local, part = d.shard("ids", {0: "dp"}), d.shard("table", {0: "tp"})
    columns = d.iota((6, size), 1)
    first = {r: c * size * scale + offset for r, c in coordinates(pair, "tp").items()}
    mine = d.compare(
        d.broadcast(local, (6, size), (0,)), d.add(columns, everywhere(d, first, columns)), direction=direction
    )
    d.output(d.all_reduce(d.matmul(d.convert(mine, "f32"), part), "tp"))
    return pair


def bias_on_one_rank(flags: dict[int, int] | None = None, *, swapped: bool = False, multiply: bool = False) -> Pair:
    """Row-parallel layer whose bias is added where a flag of the rank is set."""
    pair = Pair("dp=2,tp=4", title="bias on one rank")
    b = pair.base
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))
    b.output(b.add(y, b.broadcast(b.input("bias", (32,)), y.shape, (1,))))
    d = pair.dist
    part = d.matmul(d.shard("x", {0: "dp", 1: "tp"}), d.shard("w", {0: "tp"}))
    bias = d.shard("bias")
    flag = d.rank_constant(flags or {r: int(c == 0) for r, c in coordinates(pair, "tp").items()}, "pred")
    wide = d.broadcast(flag, bias.shape, ())
    nothing = d.full(0.0, bias.shape)
    if multiply:
        mine = d.multiply(bias, d.convert(wide, "f32"))
    else:
        mine = d.select(wide, nothing, bias) if swapped else d.select(wide, bias, nothing)
    d.output(d.all_reduce(d.add(part, d.broadcast(mine, part.shape, (1,))), "tp"))
    return pair
