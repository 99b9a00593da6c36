"""Experts, losses of split vocabularies, data parallel means, ZeRO, dropout, optimisers: steps of training."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Pair

from .zoo import MERGED, block, mean, offset, program


def experts(p: Program, x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """[experts, tokens, width], each by its own weights."""
    return p.dot(p.relu(p.dot(x, up, ([2], [1]), ([0], [0]))), down, ([2], [1]), ([0], [0]))


@program("ep=2")
def tokens_to_experts_and_back(p: Pair, ok: bool) -> None:
    """Slots of tokens go to the ranks of their experts and back; wrong: weighted before they are back."""
    b, d = p.base, p.dist
    x, gate = b.input("x", (4, 8, 4)), b.input("gate", (4, 8))
    y = experts(b, x, b.input("up", (4, 4, 8)), b.input("down", (4, 8, 4)))
    b.output(b.reduce(b.multiply(y, b.broadcast(gate, y.shape, [0, 1])), 0))
    x, gate = d.shard("x", {1: "ep"}), d.shard("gate", {1: "ep"})
    y = experts(d, d.all_to_all(x, "ep", 0, 1), d.shard("up", {0: "ep"}), d.shard("down", {0: "ep"}))
    if ok:
        y = d.all_to_all(y, "ep", 1, 0)
        d.output(d.reduce(d.multiply(y, d.broadcast(gate, y.shape, [0, 1])), 0))
    else:
        gate = d.reshape(gate, (2, 8))
        y = d.all_to_all(d.multiply(y, d.broadcast(gate, y.shape, [0, 1])), "ep", 1, 0)
        d.output(d.reduce(y, 0))


@program("ep=2")
def experts_on_all_tokens_summed(p: Pair, ok: bool) -> None:
    """Every rank runs its experts on all tokens; their weighted sum is over ranks; wrong: softmax of own scores."""
    b, d = p.base, p.dist
    x, w = b.input("x", (8, 4)), b.input("w", (4, 4, 4))
    gate = b.softmax(b.matmul(x, b.input("router", (4, 4))), 1)
    y = b.dot(w, x, ([1], [1]))
    b.output(b.dot(gate, b.transpose(y, 2, 0, 1), ([1], [1]), ([0], [0])))
    x, w = d.shard("x"), d.shard("w", {0: "ep"})
    if ok:
        gate = block(d, d.softmax(d.matmul(x, d.shard("router")), 1), 1, "ep")
    else:
        gate = d.softmax(d.matmul(x, d.shard("router", {1: "ep"})), 1)
    y = d.dot(w, x, ([1], [1]))
    d.output(d.all_reduce(d.dot(gate, d.transpose(y, 2, 0, 1), ([1], [1]), ([0], [0])), "ep"))


@program("ep=2,dp=2")
def gradients_of_experts_and_of_the_router(p: Pair, ok: bool) -> None:
    """Experts' gradients are summed over dp, the router's over both; wrong: over dp only."""
    b, d = p.base, p.dist
    x, g, r = b.input("x", (4, 8, 4)), b.input("g", (4, 8, 4)), b.input("r", (4, 8, 4))
    b.output(b.dot(x, g, ([1], [1]), ([0], [0])), b.reduce(b.multiply(x, r), [0, 1]))
    x, g, r = (d.shard(n, {1: "dp", 0: "ep"}) for n in "xgr")
    own = d.reduce(d.multiply(x, r), [0, 1])
    d.output(d.all_reduce(d.dot(x, g, ([1], [1]), ([0], [0])), "dp"), d.all_reduce(own, ["ep", "dp"] if ok else "dp"))


@program("ep=2")
def balance_of_experts(p: Pair, ok: bool) -> None:
    """Share of tokens times mean score, over all tokens; wrong: the product of a rank's own, then the mean."""
    b, d = p.base, p.dist
    share, score = b.input("share", (8, 4)), b.input("score", (8, 4))
    b.output(b.reduce(b.multiply(mean(b, share, [0], 8), mean(b, score, [0], 8)), 0))
    share, score = (mean(d, d.shard(n, {0: "ep"}), [0], 4) for n in ("share", "score"))
    if ok:
        share, score = (d.divide(d.all_reduce(t, "ep"), 2.0) for t in (share, score))
        d.output(d.reduce(d.multiply(share, score), 0))
    else:
        d.output(d.divide(d.all_reduce(d.reduce(d.multiply(share, score), 0), "ep"), 2.0))


@program("ep=2", right=False)
def capacity_counted_per_rank(p: Pair, ok: bool) -> None:
    """Places of tokens in their expert are counted along tokens that ranks hold in blocks."""
    b, d = p.base, p.dist
    place = b.cumulative(b.input("hot", (8, 4)), 0)
    b.output(b.tanh(place))
    d.output(d.tanh(d.cumulative(d.shard("hot", {0: "ep"}), 0)))


def loss(p: Program, x: Tensor, hit: Tensor, top, total) -> Tensor:  # type: ignore[no-untyped-def]
    """log sum exp minus the score of the label, with what is done to maxima and sums over words."""
    most = top(p.reduce(x, 1, "max"))
    shifted = p.subtract(x, p.broadcast(most, x.shape, [0]))
    label = total(p.reduce(p.select(hit, shifted, p.full(0.0, x.shape)), 1))
    return p.subtract(p.log(total(p.reduce(p.exponential(shifted), 1))), label)


def words(p: Program, labels: Tensor, width: int, first: Tensor | None = None) -> Tensor:
    """Where a column is the label's."""
    place = p.iota((labels.shape[0], width), 1)
    if first is not None:
        place = p.add(place, p.broadcast(first, place.shape, []))
    return p.compare(p.broadcast(labels, place.shape, [0]), place, direction="EQ")


@program("tp=2")
def loss_of_a_split_vocabulary(p: Pair, ok: bool) -> None:
    """Cross entropy of columns over ranks; wrong: the label's score is not summed."""
    b, d = p.base, p.dist
    x, labels = b.input("x", (6, 32)), b.input("labels", (6,), "s32", range=(0, 32))
    b.output(mean(b, loss(b, x, words(b, labels, 32), lambda t: t, lambda t: t), [0], 6))
    x, labels = d.shard("x", {1: "tp"}), d.shard("labels")
    calls: list[Tensor] = []

    def total(t: Tensor) -> Tensor:
        calls.append(t)
        return d.all_reduce(t, "tp") if ok or len(calls) > 1 else t

    hit = words(d, labels, 16, offset(d, "tp", 16))
    d.output(mean(d, loss(d, x, hit, lambda t: d.all_reduce(t, "tp", "max"), total), [0], 6))


@program("tp=2", right=False)
def largest_score_summed(p: Pair, ok: bool) -> None:
    """The maxima of blocks are added up: the softmax is none the worse, the logarithm of the sum of all is."""
    b, d = p.base, p.dist
    x = b.input("x", (6, 32))
    b.output(b.add(b.log(b.reduce(b.exponential(b.subtract(x, b.broadcast(b.reduce(x, 1, "max"), x.shape, [0]))), 1)),
                   b.reduce(x, 1, "max")))  # fmt: skip
    x = d.shard("x", {1: "tp"})
    top = d.all_reduce(d.reduce(x, 1, "max"), "tp", "sum")
    total = d.all_reduce(d.reduce(d.exponential(d.subtract(x, d.broadcast(top, x.shape, [0]))), 1), "tp")
    d.output(d.add(d.log(total), d.all_reduce(d.reduce(x, 1, "max"), "tp", "max")))


@program("tp=2")
def gradient_of_scores_of_a_split_vocabulary(p: Pair, ok: bool) -> None:
    """Softmax minus the label, back through the head; wrong: what comes back is not summed before it is normed."""
    b, d = p.base, p.dist
    x, head = b.input("x", (6, 8)), b.input("head", (8, 32))
    labels = b.input("labels", (6,), "s32", range=(0, 32))
    g = b.subtract(b.softmax(b.matmul(x, head), 1), b.convert(words(b, labels, 32), "f32"))
    b.output(b.dot(x, g, ([0], [0])), b.tanh(b.dot(g, head, ([1], [1]))))
    x, head, labels = d.shard("x"), d.shard("head", {1: "tp"}), d.shard("labels")
    y = d.matmul(x, head)
    e = d.exponential(d.subtract(y, d.broadcast(d.all_reduce(d.reduce(y, 1, "max"), "tp", "max"), y.shape, [0])))
    e = d.divide(e, d.broadcast(d.all_reduce(d.reduce(e, 1), "tp"), y.shape, [0]))
    g = d.subtract(e, d.convert(words(d, labels, 16, offset(d, "tp", 16)), "f32"))
    dx = d.dot(g, head, ([1], [1]))
    d.output(d.dot(x, g, ([0], [0])), d.tanh(d.all_reduce(dx, "tp") if ok else dx))


@program("dp=4")
def mean_loss_of_all_rows(p: Pair, ok: bool) -> None:
    """The mean of means of equal shards; wrong: the mean is squared first."""
    b, d = p.base, p.dist
    whole = mean(b, b.input("x", (16, 2)), [0, 1], 32)
    b.output(b.multiply(whole, whole))
    own = mean(d, d.shard("x", {0: "dp"}), [0, 1], 8)
    if ok:
        own = d.divide(d.all_reduce(own, "dp"), 4.0)
        d.output(d.multiply(own, own))
    else:
        d.output(d.divide(d.all_reduce(d.multiply(own, own), "dp"), 4.0))


@program("dp=2")
def momentum_and_step(p: Pair, ok: bool) -> None:
    """Momentum of the mean gradient; wrong: of the rank's own, and only the weight is averaged."""
    b, d = p.base, p.dist
    w, m, x, g = b.input("w", (8, 4)), b.input("m", (8, 4)), b.input("x", (16, 8)), b.input("g", (16, 4))
    m = b.add(b.multiply(m, 0.9), b.divide(b.dot(x, g, ([0], [0])), 16.0))
    b.output(b.subtract(w, b.multiply(m, 0.1)), m)
    w, m, x, g = d.shard("w"), d.shard("m"), d.shard("x", {0: "dp"}), d.shard("g", {0: "dp"})
    own = d.divide(d.dot(x, g, ([0], [0])), 8.0)
    own = d.divide(d.all_reduce(own, "dp"), 2.0) if ok else own
    m = d.add(d.multiply(m, 0.9), own)
    d.output(d.subtract(w, d.multiply(m, 0.1)), m)


@program("dp=2")
def adam_of_a_shard(p: Pair, ok: bool) -> None:
    """ZeRO: gradient scattered, moments and weight of the rank's rows, weight gathered; wrong: not scattered by sum."""
    b, d = p.base, p.dist

    def step(p: Program, w: Tensor, m: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        m = p.add(p.multiply(m, 0.9), p.multiply(g, 0.1))
        v = p.add(p.multiply(v, 0.99), p.multiply(p.multiply(g, g), 0.01))
        return p.subtract(w, p.divide(m, p.add(p.sqrt(p.abs(v)), 1e-8))), m, v

    w, m, v = (b.input(n, (8, 4)) for n in "wmv")
    b.output(*step(b, w, m, v, b.dot(b.input("x", (16, 8)), b.input("g", (16, 4)), ([0], [0]))))
    w, m, v = (d.shard(n, {0: "dp"}) for n in "wmv")
    g = d.dot(d.shard("x", {0: "dp"}), d.shard("g", {0: "dp"}), ([0], [0]))
    w, m, v = step(d, w, m, v, d.reduce_scatter(g, "dp", 0) if ok else block(d, g, 0, "dp"))
    d.output(d.all_gather(w, "dp", 0), m, v)


@program("fsdp=2")
def weights_gathered_for_use(p: Pair, ok: bool) -> None:
    """Forward and backward with gathered weights, gradients scattered; wrong: gathered along columns."""
    b, d = p.base, p.dist
    x, w, g = b.input("x", (8, 4)), b.input("w", (4, 4)), b.input("g", (8, 4))
    b.output(b.tanh(b.matmul(x, w)), b.dot(x, g, ([0], [0])), b.dot(g, w, ([1], [1])))
    x, w, g = d.shard("x", {0: "fsdp"}), d.shard("w", {0: "fsdp"}), d.shard("g", {0: "fsdp"})
    whole = d.all_gather(w, "fsdp", 0) if ok else d.reshape(d.all_gather(w, "fsdp", 1), (4, 4))
    d.output(d.tanh(d.matmul(x, whole)), d.reduce_scatter(d.dot(x, g, ([0], [0])), "fsdp", 0),
             d.dot(g, whole, ([1], [1])))  # fmt: skip


@program("dp=2")
def clipped_by_the_norm_of_all(p: Pair, ok: bool) -> None:
    """Gradients in shards: squares are summed over ranks; wrong: every rank scales by the norm of its shard."""
    b, d = p.base, p.dist
    g = b.input("g", (8, 4))
    total = b.reduce(b.multiply(g, g), [0, 1])
    b.output(b.multiply(g, b.broadcast(b.minimum(b.rsqrt(b.add(total, 1e-6)), 1.0), g.shape, [])))
    g = d.shard("g", {0: "dp"})
    total = d.reduce(d.multiply(g, g), [0, 1])
    total = d.all_reduce(total, "dp") if ok else total
    d.output(d.multiply(g, d.broadcast(d.minimum(d.rsqrt(d.add(total, 1e-6)), 1.0), g.shape, [])))


@program("dp=2")
def accumulated_and_then_reduced(p: Pair, ok: bool) -> None:
    """Two micro-batches are added before one reduction; wrong: one of them was reduced already."""
    b, d = p.base, p.dist
    x, y, g, h = (b.input(n, (8, 4)) for n in "xygh")
    b.output(b.tanh(b.add(b.dot(x, g, ([0], [0])), b.dot(y, h, ([0], [0])))))
    x, y, g, h = (d.shard(n, {0: "dp"}) for n in "xygh")
    first, second = d.dot(x, g, ([0], [0])), d.dot(y, h, ([0], [0]))
    first = first if ok else d.all_reduce(first, "dp")
    d.output(d.tanh(d.all_reduce(d.add(first, second), "dp")))


@program("dp=2")
def statistics_of_a_batch(p: Pair, ok: bool) -> None:
    """Mean and mean of squares over all rows; wrong: the variance of a rank's rows is averaged."""
    b, d = p.base, p.dist
    x = b.input("x", (8, 4))
    m = mean(b, x, [0], 8)
    b.output(b.subtract(mean(b, b.multiply(x, x), [0], 8), b.multiply(m, m)))
    x = d.shard("x", {0: "dp"})
    m, s = mean(d, x, [0], 4), mean(d, d.multiply(x, x), [0], 4)
    if ok:
        m, s = (d.divide(d.all_reduce(t, "dp"), 2.0) for t in (m, s))
        d.output(d.subtract(s, d.multiply(m, m)))
    else:
        d.output(d.divide(d.all_reduce(d.subtract(s, d.multiply(m, m)), "dp"), 2.0))


@program("tp=2")
def dropout_of_what_all_have(p: Pair, ok: bool) -> None:
    """One mask for all ranks behind the sum, given as an input; wrong: a rank's own columns of it, twice."""
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 8)))
    b.output(b.multiply(y, b.convert(b.input("keep", (8, 8), "pred"), "f32")))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    keep = d.convert(d.shard("keep", {} if ok else {1: "tp"}), "f32")
    d.output(d.multiply(d.all_reduce(y, "tp"), keep if ok else d.concatenate([keep, keep], 1)))


@program("tp=2")
def dropout_of_split_columns(p: Pair, ok: bool) -> None:
    """The mask is in blocks as the columns are; wrong: the first columns of a mask for all on every rank."""
    b, d = p.base, p.dist
    y = b.tanh(b.matmul(b.input("x", (8, 4)), b.input("w", (4, 16))))
    b.output(b.multiply(y, b.input("keep", (8, 16))))
    y = d.tanh(d.matmul(d.shard("x"), d.shard("w", {1: "tp"})))
    keep = d.shard("keep", {1: "tp"}) if ok else d.slice(d.shard("keep"), 1, 0, 8)
    d.output(d.multiply(y, keep))


@program("pp=2,dp=2", wrong=False, into=MERGED)
def stages_that_hand_on(p: Pair, ok: bool) -> None:
    """Two stages on two ranks: what the second makes of what the first sends, summed with zeros of the first."""
    b, d = p.base, p.dist
    x, w = b.input("x", (8, 4)), b.input("w", (2, 4, 4))
    h = b.tanh(b.matmul(x, b.reshape(b.slice(w, 0, 0, 1), (4, 4))))
    b.output(b.tanh(b.matmul(h, b.reshape(b.slice(w, 0, 1, 2), (4, 4)))))
    x, w = d.shard("x", {0: "dp"}), d.reshape(d.shard("w", {0: "pp"}), (4, 4))
    h = d.tanh(d.matmul(x, w))
    sent = d.permute(h, [(0, 2), (1, 3), (2, 0), (3, 1)])
    y = d.tanh(d.matmul(sent, w))
    last = d.compare(offset(d, "pp", 1), d.constant(1, "s32"), direction="EQ")
    d.output(d.all_reduce(d.select(d.broadcast(last, y.shape, []), y, d.full(0.0, y.shape)), "pp"))


@program("x=2,y=2")
def matrix_over_two_axes(p: Pair, ok: bool) -> None:
    """Rows over one axis, columns over the other: the sum is over that of the summed dim; wrong: over the other."""
    b, d = p.base, p.dist
    b.output(b.tanh(b.matmul(b.input("x", (8, 8)), b.input("w", (8, 8)))))
    y = d.matmul(d.shard("x", {0: "y", 1: "x"}), d.shard("w", {0: "x"}))
    d.output(d.tanh(d.all_reduce(y, "x" if ok else "y")))


@program("dp=2,tp=2")
def low_rank_update(p: Pair, ok: bool) -> None:
    """LoRA: x a b, a whole, b in columns; gradients of a are sums over tp and dp; wrong: over dp only."""
    b, d = p.base, p.dist
    x, a, c, g = b.input("x", (8, 16)), b.input("a", (16, 2)), b.input("c", (2, 16)), b.input("g", (8, 16))
    b.output(b.matmul(b.matmul(x, a), c), b.dot(x, b.dot(g, c, ([1], [1])), ([0], [0])))
    x, a, c, g = d.shard("x", {0: "dp"}), d.shard("a"), d.shard("c", {1: "tp"}), d.shard("g", {0: "dp", 1: "tp"})
    da = d.dot(x, d.dot(g, c, ([1], [1])), ([0], [0]))
    d.output(d.matmul(d.matmul(x, a), c), d.all_reduce(da, ["dp", "tp"] if ok else "dp"))
