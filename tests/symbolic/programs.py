"""Programs at given sizes, right ones and wrong ones: what families are made of in these tests.

Every function maps sizes to a pair; `bug` says what is wrong. Bugs are of the sort that does not show at tp=2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from scalify_dl.facts.model import Facts
from scalify_dl.pairing.builder import Distributed, Pair, Program, Tensor

Sizes = Mapping[str, int]


def coordinates(pair: Pair, axis: str) -> dict[int, int]:
    """Rank to position along an axis."""
    at = [name for name, _ in pair.mesh.axes].index(axis)
    return {rank: place[at] for rank, place in enumerate(pair.mesh.coordinates)}


def reduced(d: Distributed, x: Tensor, bug: str) -> Tensor:
    """The sum over tp; the bug `pairs` sums over neighbours only."""
    if bug == "pairs":
        ranks = d.mesh.size
        return d.op("all-reduce", x, reducer="sum", groups=[[r, r + 1] for r in range(0, ranks, 2)]).result
    return x if bug == "no reduction" else d.all_reduce(x, "tp")


def bias(p: Program, x: Tensor, b: Tensor) -> Tensor:
    """x + b along the last dim."""
    return p.add(x, p.broadcast(b, x.shape, [len(x.shape) - 1]))


def mlp(sizes: Sizes, bug: str = "") -> Pair:
    """Megatron MLP over tp, the batch over dp where there is one."""
    dp = "dp" if "dp" in sizes else None
    pair = Pair(f"dp={sizes['dp']},tp={sizes['tp']}" if dp else f"tp={sizes['tp']}")
    hidden, inner = sizes.get("hidden", 8), sizes.get("inner", 32)
    b, d = pair.base, pair.dist
    x = b.input("x", (sizes["batch"], sizes["seq"], hidden))
    w1, w2, b2 = b.input("w1", (hidden, inner)), b.input("w2", (inner, hidden)), b.input("b2", (hidden,))
    b.output(bias(b, b.matmul(b.logistic(b.matmul(x, w1)), w2), b2))
    x, w1, w2, b2 = (
        d.shard("x", {0: dp} if dp else None),
        d.shard("w1", {1: "tp"}),
        d.shard("w2", {0: "tp"}),
        d.shard("b2"),
    )
    y = d.matmul(d.logistic(d.matmul(x, w1)), w2)
    if bug == "bias on every rank":
        d.output(reduced(d, bias(d, y, b2), ""))
    elif bug in ("half of the bias", "share of the bias"):  # a half is right at tp=2 only
        share = Fraction(1, 2 if bug == "half of the bias" else sizes["tp"])
        part = d.multiply(b2, d.broadcast(d.constant(share), b2.shape, ()))
        d.output(reduced(d, bias(d, y, part), ""))
    else:
        d.output(bias(d, reduced(d, y, bug), b2))
    return pair


def mean(sizes: Sizes, bug: str = "") -> Pair:
    """The mean of squares over all tokens; the batch over tp."""
    pair = Pair(f"tp={sizes['tp']}")
    b, d = pair.base, pair.dist
    shape = sizes["batch"], sizes["seq"], 4
    count = sizes["batch"] * sizes["seq"] * 4
    x = b.input("x", shape)
    b.output(b.multiply(b.reduce(b.multiply(x, x), (0, 1, 2)), b.constant(Fraction(1, count))))
    x = d.shard("x", {0: "tp"})
    factor = {
        "": Fraction(1, count),
        "frozen": Fraction(1, 8 * 5 * 4),
        "local count": Fraction(sizes["tp"], count),
    }[bug]
    total = d.multiply(d.reduce(d.multiply(x, x), (0, 1, 2)), d.constant(factor))
    d.output(reduced(d, total, ""))
    return pair


def embedding(sizes: Sizes, bug: str = "") -> Pair:
    """Vocabulary-parallel embedding: a mask, local ids, a sum."""
    pair = Pair(f"tp={sizes['tp']}")
    vocab = sizes.get("vocab", 16)
    b, d = pair.base, pair.dist
    ids = b.input("ids", (sizes["batch"], sizes["seq"]), "s32", range=(0, vocab))
    b.output(b.embedding(b.input("table", (vocab, 4)), ids))
    ids, table = d.shard("ids"), d.shard("table", {0: "tp"})
    if bug == "ids below 1000":  # no capture has a larger vocabulary
        ids = d.minimum(ids, d.full(999, ids.shape, "s32"))
    rows = table.shape[0]
    step = {"half the offset": rows // 2, "frozen offset": 20}.get(bug, rows)
    first = d.broadcast(d.rank_constant({r: c * step for r, c in coordinates(pair, "tp").items()}), ids.shape, ())
    local = d.subtract(ids, first)
    bound = rows + 1 if bug == "bound off by one" else rows
    mine = d.op(
        "and",
        d.compare(local, d.full(0, ids.shape, "s32"), direction="GE"),
        d.compare(local, d.full(bound, ids.shape, "s32"), direction="LT"),
        dtype="pred",
        shape=ids.shape,
    ).result
    read = d.embedding(table, d.select(mine, local, d.full(0, ids.shape, "s32")))
    wide = d.broadcast(mine, read.shape, [0, 1])
    d.output(reduced(d, d.select(wide, read, d.full(0.0, read.shape)) if bug != "no mask" else read, bug))
    return pair


def attention(sizes: Sizes, bug: str = "") -> Pair:
    """Grouped-query attention, two query heads to a key head, heads over tp."""
    pair = Pair(f"tp={sizes['tp']}")
    width, head, share, kv = 6, 4, 2, sizes["kv"]
    b, d = pair.base, pair.dist

    def block(p: Program, x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        q, k, v = (p.dot(x, w, ([2], [0])) for w in (wq, wk, wv))  # batch, seq, heads, head
        wide = batch, seq, k.shape[2], share, head
        k, v = (p.reshape(p.broadcast(t, wide, [0, 1, 2, 4]), q.shape) for t in (k, v))
        scores = p.dot(q, k, ([3], [3]), ([0, 2], [0, 2]))  # batch, heads, seq, seq
        i, j = p.iota(scores.shape, 2), p.iota(scores.shape, 3)
        causal = p.compare(i, j, direction="GE")
        scores = p.select(causal, scores, p.full("-inf", scores.shape))
        out = p.dot(p.softmax(scores, 3), v, ([3], [1]), ([0, 1], [0, 2]))  # batch, heads, seq, head
        return p.dot(out, wo, ([1, 3], [0, 1]))

    shapes = {"wq": (width, share * kv, head), "wk": (width, kv, head), "wv": (width, kv, head)}
    x = b.input("x", (sizes["batch"], sizes["seq"], width))
    weights = [b.input(name, shape) for name, shape in shapes.items()]
    b.output(block(b, x, *weights, b.input("wo", (share * kv, head, width))))
    x, *weights = d.shard("x"), *(d.shard(name, {1: "tp"}) for name in shapes)
    if bug == "keys as values":
        weights[2] = weights[1]
    d.output(reduced(d, block(d, x, *weights, d.shard("wo", {0: "tp"})), bug))
    return pair


def causal(sizes: Sizes, bug: str = "") -> Pair:
    """A causal mask on a block of the sequence: positions start at the rank's offset."""
    pair = Pair(f"tp={sizes['tp']}")
    b, d = pair.base, pair.dist
    seq = sizes["seq"]
    x = b.input("x", (sizes["batch"], seq, 4))
    i = b.iota(x.shape, 1)
    b.output(b.select(b.compare(i, b.full(seq - 1, x.shape, "s32"), direction="LT"), x, b.full(0.0, x.shape)))
    x = d.shard("x", {1: "tp"})
    block = x.shape[1]
    step = 10 if bug == "frozen offset" else block
    first = d.rank_constant({r: c * step for r, c in coordinates(pair, "tp").items()})
    i = d.add(d.iota(x.shape, 1), d.broadcast(first, x.shape, ()))
    d.output(d.select(d.compare(i, d.full(seq - 1, x.shape, "s32"), direction="LT"), x, d.full(0.0, x.shape)))
    return pair


@dataclass(frozen=True)
class FamilyOf:
    """A program, the sizes of its captures, where its symbols are, and its bugs."""

    build: Callable[[Sizes, str], Pair]
    sizes: tuple[Sizes, ...]
    symbols: Mapping[str, str | None]
    bugs: tuple[str, ...] = ()

    def captures(self, bug: str = "") -> list[Facts]:
        """The facts of every capture."""
        return [self.build(sizes, bug).facts() for sizes in self.sizes]


TOKENS = {"tp": None, "batch": "x:0", "seq": "x:1"}
FAMILIES = {
    "mlp": FamilyOf(
        mlp,
        ({"tp": 2, "batch": 2, "seq": 5}, {"tp": 4, "batch": 6, "seq": 25}),
        TOKENS,
        ("pairs", "no reduction", "bias on every rank", "half of the bias"),
    ),
    "mlp of any width": FamilyOf(
        mlp,
        (
            {"tp": 2, "batch": 2, "seq": 5, "inner": 4, "hidden": 3},
            {"tp": 4, "batch": 6, "seq": 25, "inner": 28, "hidden": 33},
        ),
        TOKENS | {"inner": "w1:1", "hidden": "x:2"},
        ("half of the bias",),
    ),
    "mlp on dp and tp": FamilyOf(
        mlp,
        ({"dp": 2, "tp": 2, "batch": 4, "seq": 5}, {"dp": 6, "tp": 4, "batch": 84, "seq": 25}),
        TOKENS | {"dp": None},
        ("no reduction",),
    ),
    "share of the bias": FamilyOf(
        lambda sizes, bug: mlp(sizes, "share of the bias"),
        ({"tp": 2, "batch": 2, "seq": 5}, {"tp": 4, "batch": 6, "seq": 25}),
        TOKENS,
    ),
    "mean": FamilyOf(
        mean, ({"tp": 2, "batch": 8, "seq": 5}, {"tp": 4, "batch": 24, "seq": 25}), TOKENS, ("frozen", "local count")
    ),
    "embedding": FamilyOf(
        embedding,
        ({"tp": 2, "batch": 2, "seq": 5, "vocab": 40}, {"tp": 4, "batch": 6, "seq": 25, "vocab": 280}),
        {"tp": None, "batch": "ids:0", "seq": "ids:1", "vocab": "table:0"},
        ("bound off by one", "half the offset", "frozen offset", "no mask", "pairs", "ids below 1000"),
    ),
    "attention": FamilyOf(
        attention,
        ({"tp": 2, "batch": 2, "seq": 5, "kv": 4}, {"tp": 4, "batch": 6, "seq": 25, "kv": 28}),
        TOKENS | {"kv": "wk:1"},
        ("keys as values", "pairs", "no reduction"),
    ),
    "causal": FamilyOf(
        causal, ({"tp": 2, "batch": 2, "seq": 20}, {"tp": 4, "batch": 6, "seq": 200}), TOKENS, ("frozen offset",)
    ),
}
