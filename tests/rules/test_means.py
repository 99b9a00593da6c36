"""Mean losses over a sharded batch: what each rank divides by, what its gradient starts from, micro-batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program

IGNORED = -100


class Step(Pair):
    """A batch of labels and of what each row loses, and a mean over what is not ignored."""

    def __init__(self, *, labels: tuple[int, int] | None = (0, 6), axis: str = "dp") -> None:
        super().__init__({axis: 2})
        self.axis = axis
        self.x, self.dx = self.input((8, 3), {0: axis})
        self.y, self.dy = self.input((8,), {0: axis}, dtype="s32", range=labels)
        self.dist.inputs[-1].range = labels

    def mean(self, value: Tensor, by: float) -> Tensor:
        """A sum over the ranks, divided."""
        total = self.dist.emit("all-reduce", [value], reducer="sum", groups=self.groups(self.axis))
        return self.dist.emit("divide", [total, self.dist.splat(by, "f32", total.shape)])


def kept(g: Graph, labels: Tensor, bound: int = IGNORED) -> tuple[Tensor, Tensor]:
    """Which labels are not ignored, and how many."""
    mask = g.emit("compare", [labels, g.splat(bound, "s32", labels.shape)], direction="NE")
    return mask, g.emit("reduce", [g.emit("convert", [mask], dtype="f32")], dimensions=[0], reducer="sum")


def loss(g: Graph, x: Tensor, mask: Tensor) -> Tensor:
    rows = g.emit("reduce", [g.emit("multiply", [x, x])], dimensions=[1], reducer="sum")
    lost = g.emit("select", [mask, rows, g.splat(0.0, "f32", rows.shape)])
    return g.emit("reduce", [lost], dimensions=[0], reducer="sum")


def gradient(g: Graph, x: Tensor, mask: Tensor, count: Tensor) -> Tensor:
    """Of the loss, in x and summed over rows."""
    each = g.emit("divide", [g.constant(2.0, "f32"), count])
    rows = g.emit("select", [mask, spread(g, each, mask.shape, []), g.splat(0.0, "f32", mask.shape)])
    by_row = g.emit("multiply", [x, spread(g, rows, x.shape, [0])])
    return g.emit("reduce", [by_row], dimensions=[0], reducer="sum")


def mean_of_means(by: float = 2.0, labels: tuple[int, int] | None = (0, 6), bound: int = IGNORED) -> Pair:
    """Every rank divides by its own count; the average of all."""
    pair = Step(labels=labels)
    (mask, count), (dmask, dcount) = kept(pair.base, pair.y, bound), kept(pair.dist, pair.dy, bound)
    own = pair.dist.emit("divide", [loss(pair.dist, pair.dx, dmask), dcount])
    pair.outputs(pair.base.emit("divide", [loss(pair.base, pair.x, mask), count]), pair.mean(own, by))
    dgrad = gradient(pair.dist, pair.dx, dmask, dcount)
    pair.outputs(gradient(pair.base, pair.x, mask, count), pair.mean(dgrad, by))
    return pair


def one_count() -> Pair:
    """The ranks' counts are added up first, and are at least 1; labels may be anything."""
    pair = Step(labels=None)
    (mask, count), (dmask, dcount) = kept(pair.base, pair.y), kept(pair.dist, pair.dy)
    dcount = pair.dist.emit("all-reduce", [dcount], reducer="sum", groups=pair.groups("dp"))
    count = pair.base.emit("maximum", [count, pair.base.constant(1.0, "f32")])
    dcount = pair.dist.emit("maximum", [dcount, pair.dist.constant(1.0, "f32")])
    own = pair.dist.emit("divide", [loss(pair.dist, pair.dx, dmask), dcount])
    pair.outputs(pair.base.emit("divide", [loss(pair.base, pair.x, mask), count]), pair.mean(own, 1.0))
    return pair


def weighted(by: float = 2.0, *, own: bool = False, shared: float = 2.0) -> Pair:
    """The sum over weights that are given; every rank divides by the average of the ranks' sums of them, or by its own
    one, and so does the gradient."""
    pair, made = Step(), []
    m, dm = pair.input((8,), {0: "dp"})
    for g, x, weight in ((pair.base, pair.x, m), (pair.dist, pair.dx, dm)):
        count = g.emit("reduce", [weight], dimensions=[0], reducer="sum")
        if g is pair.dist and not own:
            count = pair.mean(count, shared)
        kept = g.emit("multiply", [g.emit("reduce", [x], dimensions=[1], reducer="sum"), weight])
        loss = g.emit("divide", [g.emit("reduce", [kept], dimensions=[0], reducer="sum"), count])
        each = spread(g, g.emit("divide", [g.constant(1.0, "f32"), count]), weight.shape, [])
        rows = spread(g, g.emit("multiply", [each, weight]), x.shape, [0])
        grad = g.emit("reduce", [g.emit("multiply", [rows, x])], dimensions=[0], reducer="sum")
        made.append([loss, grad])
    for base, dist in zip(*made, strict=True):
        pair.outputs(base, pair.mean(dist, by))
    return pair


def counted_rows(ranks: int) -> Pair:
    """The number of rows, as a constant that is added up over the ranks; the baseline has the sum."""
    pair = Step()
    rows = pair.dist.emit("all-reduce", [pair.dist.constant(4.0, "f32")], reducer="sum", groups=pair.groups("dp"))
    total = pair.dist.emit("reduce", [pair.dx], dimensions=[0, 1], reducer="sum")
    share = pair.dist.emit("divide", [total, rows])
    whole = pair.base.emit("reduce", [pair.x], dimensions=[0, 1], reducer="sum")
    pair.outputs(pair.base.emit("divide", [whole, pair.base.constant(4.0 * ranks, "f32")]), pair.mean(share, 1.0))
    return pair


def scattered(by: float) -> Pair:
    """The gradient of a mean over picked scores: -1/n added at each label of its row."""
    pair, made = Step(), []
    for g, y, n in ((pair.base, pair.y, 8), (pair.dist, pair.dy, 4)):
        minus = g.emit("divide", [g.emit("negate", [g.constant(1.0, "f32")]), g.constant(float(n), "f32")])
        into = g.splat(0.0, "f32", (6,))
        indices = g.emit("reshape", [y], shape=(n, 1))
        op = g.add("scatter", [into, indices, spread(g, minus, (n,), [])], [("f32", (6,))])
        op.numbers.update(
            update_window_dims=[], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=[1],
            input_batching_dims=[], scatter_indices_batching_dims=[],
        )  # fmt: skip
        op.symbols["reducer"] = ["sum"]
        made.append(op.result)
    pair.outputs(made[0], pair.mean(made[1], by))
    return pair


def micro_batches(count: int, views: bool, by: float = 1.0) -> Pair:
    """A rank goes through its shard in micro-batches, each with its own mean; the chunks are cut from views."""
    pair = Step()
    (mask, number), parts = kept(pair.base, pair.y), []
    size = 4 // count
    for k in range(count):
        chunk = []
        for value in (pair.dx, pair.dy):
            if views:
                tall = pair.dist.emit("reshape", [value], shape=(count, size, *value.shape[1:]))
                cut = pair.dist.emit("slice", [tall], start=[k] + [0] * (len(tall.shape) - 1),
                                     limit=[k + 1, *tall.shape[1:]], stride=[1] * len(tall.shape))  # fmt: skip
                chunk.append(pair.dist.emit("reshape", [cut], shape=(size, *value.shape[1:])))
            else:
                chunk.append(pair.dist.emit(
                    "slice", [value], start=[k * size] + [0] * (len(value.shape) - 1),
                    limit=[k * size + size, *value.shape[1:]], stride=[1] * len(value.shape),
                ))  # fmt: skip
        dmask, dnumber = kept(pair.dist, chunk[1])
        grad = gradient(pair.dist, chunk[0], dmask, dnumber)
        parts.append(pair.dist.emit("divide", [grad, pair.dist.splat(float(count), "f32", grad.shape)]))
    total = parts[0]
    for one in parts[1:]:
        total = pair.dist.emit("add", [total, one])
    pair.outputs(gradient(pair.base, pair.x, mask, number), pair.mean(total, 2.0 * by))
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {
    "mean of means": mean_of_means,
    "one count": one_count,
    "one sum of weights": weighted,
    "a sum of weights, and no average": lambda: weighted(1.0, shared=1.0),
    "rows counted over ranks": lambda: counted_rows(2),
    "scattered": lambda: scattered(2.0),
    "micro-batches": lambda: micro_batches(2, False),
    "micro-batches of views": lambda: micro_batches(2, True),
    "four micro-batches of views": lambda: micro_batches(4, True),
}
WRONG: dict[str, Callable[[], Pair]] = {
    "summed means": lambda: mean_of_means(1.0),
    "labels without a range": lambda: mean_of_means(labels=None),
    "labels that may be ignored": lambda: mean_of_means(bound=5),
    "sums of weights of its own": lambda: weighted(own=True),
    "a sum of weights that is too small": lambda: weighted(1.0),
    "a sum of weights that is too large": lambda: weighted(shared=1.0),
    "too few rows": lambda: counted_rows(1),
    "scattered and summed": lambda: scattered(1.0),
    "micro-batches, not averaged": lambda: micro_batches(2, True, 0.5),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_step_is_proved(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert derived.proved
    assert not derived.unproved
    assert audit(tables, derived.corr, assumed=derived.assumed).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


def test_a_sum_of_weights_is_assumed_not_to_be_zero() -> None:
    tables = weighted().tables()
    ((count, _),) = {row for row in derive(tables).assumed if row[1] == "nonzero"}
    (made,) = [op for op, _, result in tables["result"] if result == count]
    assert (made, "reduce") in [(op, kind) for op, _, kind in tables["op"]]
    assert {why for _, why in derive(mean_of_means().tables()).assumed} <= {"finite", "zero sign"}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_step_is_not_proved(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
    if name != "labels without a range":  # nothing draws the ignored one
        assert find_counterexample(load_program(tables)).best is not None
