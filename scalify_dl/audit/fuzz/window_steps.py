"""Random steps with windows and attention on values that are placed at random: dims whole, cut or in another order."""

from __future__ import annotations

from typing import Any

from scalify_dl.ir.graph import Graph, Tensor

from .ring_steps import ring_axis
from .world import Retry, Twin, World, step

Numbers = dict[str, list[int]]


@step("windows", 0.5)
def windows(w: World) -> None:
    """Pooling, its transpose, and convolutions, perhaps in groups, with some attributes at their defaults; now and then
    something about the other side's windows is different."""
    shape = [w.rng.choice([2, 4]), w.rng.choice([4, 6, 8]), 4]
    t = w.input("f32", shape=shape, layout=w.layout(shape, pending=True))
    kind = w.rng.choice(["reduce-window", "reduce-window", "select-and-scatter", "convolution", "convolution"])
    if kind == "convolution":
        grouped(w, t)
        return
    dims = w.rng.sample(range(3), w.rng.choice([1, 1, 2]))
    size, stride, dilation = w.rng.choice([(3, 1, 1), (2, 2, 1), (2, 1, 2), (2, 1, 1), (1, 2, 1)])
    low = w.rng.choice([0, 1]) if size > 1 else 0
    reach = (size - 1) * dilation + 1
    high = max(0, reach - stride - low)
    numbers = {
        key: [value if d in dims else plain for d in range(3)]
        for key, value, plain in (
            ("window_size", size, 1), ("window_stride", stride, 1), ("window_dilation", dilation, 1),
            ("base_dilation", 1, 1), ("window_pad_low", low, 0), ("window_pad_high", high, 0),
        )
    }  # fmt: skip
    symbols: dict[str, Any] = {"reducer": w.rng.choice(["sum", "max"])}
    if kind == "select-and-scatter":
        numbers["window_dilation"], symbols = [1, 1, 1], {"reducer": "sum", "select": "max"}
    other = {key: list(values) for key, values in numbers.items()}
    if w.slip():
        key, d = w.rng.choice(sorted(other)), w.rng.choice(dims)
        other[key][d] += 1
    for attributes in (numbers, other):
        for key in [k for k, values in attributes.items() if set(values) == {int("pad" not in k)}]:
            if w.chance(0.3):  # that is what it is anyway
                del attributes[key]
    base, dist = (
        pooled(w, g, kind, x, attributes, symbols)
        for g, x, attributes in ((w.base, t.base, numbers), (w.dist, t.dist, other))
    )
    if kind == "reduce-window":
        w.add(base, dist)
        return
    placed = w.layout(base.shape, pending=True)
    if tuple(placed.local_shape) != dist.shape:
        raise Retry
    source = w.input("f32", shape=base.shape, layout=placed)
    w.add(
        w.emit(w.base, kind, [t.base, source.base], **numbers, **symbols),
        w.emit(w.dist, kind, [t.dist, source.dist], **other, **symbols),
    )


def pooled(w: World, g: Graph, kind: str, x: Tensor, numbers: Numbers, symbols: dict[str, Any]) -> Tensor:
    """The windows of x, reduced."""
    reducer = symbols["reducer"] if kind == "reduce-window" else "max"
    return w.emit(g, "reduce-window", [x], **numbers, reducer=reducer)


def grouped(w: World, t: Twin) -> None:
    """A convolution of dims [batch, window, feature] in groups of batches or of features, or not."""
    features, batches = w.rng.choice([(1, 1), (1, 1), (2, 1), (4, 1), (1, 2)])
    shape = (w.rng.choice([1, 3]), t.base.shape[2] // features, w.rng.choice([4, 8]))
    for _ in range(20):
        placed = w.layout(shape, pending=False)
        if placed.local_shape[1] * features == t.dist.shape[2]:
            break
    else:
        raise Retry
    if t.dist.shape[0] % batches or placed.local_shape[2] % (features * batches):
        raise Retry
    kernel = w.input("f32", shape=shape, layout=placed)
    edge = [shape[0] // 2]
    attributes = {
        "window_size": [shape[0]], "window_stride": [1], "window_dilation": [1], "base_dilation": [1],
        "window_pad_low": edge, "window_pad_high": edge, "input_batch": [0], "input_feature": [2],
        "input_spatial": [1], "kernel_input_feature": [1], "kernel_output_feature": [2], "kernel_spatial": [0],
        "output_batch": [0], "output_feature": [2], "output_spatial": [1],
    }  # fmt: skip
    if features * batches > 1 or w.chance(0.5):
        attributes |= {"feature_group_count": [features], "batch_group_count": [batches]}
    w.add(*(
        w.emit(g, "convolution", [x, k], **attributes)
        for g, x, k in ((w.base, t.base, kernel.base), (w.dist, t.dist, kernel.dist))
    ))  # fmt: skip


@step("channel-wise", 0.4)
def channel_wise(w: World) -> None:
    """A convolution in groups, of features or of batches, of which each rank along an axis does its own."""
    axis, ranks, _ = ring_axis(w)
    of_batches, groups = w.chance(0.4), ranks * w.rng.choice([1, 2])
    size, each, out = (w.rng.choice([1, 2]) for _ in range(3))
    shape, cut = ([groups * size, 4, each], 0) if of_batches else ([size, 4, groups * each], 2)
    operands = []
    for dims, dim in ((shape, cut), ([w.rng.choice([1, 3]), each, groups * out], 2)):
        placed = w.pair.layout(dims, {dim: axis})
        for _ in range(30 if w.slip() else 0):
            other = w.layout(dims, pending=w.chance(0.3))
            if other.local_shape == placed.local_shape:
                placed = other
                break
        operands.append(w.input("f32", shape=dims, layout=placed))
    edge, fewer = [operands[1].base.shape[0] // 2], groups // ranks
    numbers = {
        "window_size": [operands[1].base.shape[0]], "window_stride": [1], "window_dilation": [1], "base_dilation": [1],
        "window_pad_low": edge, "window_pad_high": edge, "input_batch": [0], "input_feature": [2],
        "input_spatial": [1], "kernel_input_feature": [1], "kernel_output_feature": [2], "kernel_spatial": [0],
        "output_batch": [0], "output_feature": [2], "output_spatial": [1],
    }  # fmt: skip
    counts = [(1, n) if of_batches else (n, 1) for n in (groups, fewer)]
    w.add(*(
        w.emit(g, "convolution", xs, **numbers, feature_group_count=[features], batch_group_count=[batches])
        for g, xs, (features, batches) in (
            (w.base, [t.base for t in operands], counts[0]), (w.dist, [t.dist for t in operands], counts[1])
        )
    ))  # fmt: skip


@step("attention", 0.5)
def attention(w: World) -> None:
    """Attention, or its gradient, of operands that are placed alike, mostly; with a mask that may have fewer dims."""
    shape = [w.rng.choice([2, 4]), w.rng.choice([2, 4]), 4, w.rng.choice([2, 4])]
    alike = w.layout(shape, pending=False)

    def operand(dims: list[int]) -> Twin:
        layout = alike if dims == shape and not w.slip() else None
        if layout is None:
            split = {d: a for a, n in w.pair.mesh.axes for d in [w.rng.randrange(len(dims))] if dims[d] % n == 0}
            layout = w.layout(dims, pending=w.chance(0.2)) if w.slip() else w.pair.layout(dims, split)
        return w.input("f32", shape=dims, layout=layout)

    backward = w.chance(0.4)
    operands = [operand(shape) for _ in range(5 if backward else 3)]
    if backward:
        operands.append(operand(shape[:3]))
    if w.chance(0.5):
        operands.append(operand([*shape[:3], shape[2]][w.rng.choice([0, 0, 1, 2]) :]))
    kind, results = ("attention-backward", 3) if backward else ("attention", 2)
    made, causal = [], w.rng.choice([0, 0, 1])
    for g, xs in ((w.base, [o.base for o in operands]), (w.dist, [o.dist for o in operands])):
        dims = xs[0].shape
        if any(x.shape != dims for x in xs[: 5 if backward else 3]) or (backward and xs[5].shape != dims[:3]):
            raise Retry
        if len(xs) in (4, 7) and any(
            n not in (1, m) for n, m in zip(xs[-1].shape[::-1], (dims[2], *dims[2::-1]), strict=False)
        ):
            raise Retry
        types = [("f32", dims), ("f32", dims if backward else dims[:3]), ("f32", dims)][:results]
        made.append(g.add(kind, xs, types, symbols={"scale": ["0.5"]}, numbers={"causal": [causal]}).results)
    for base, dist in zip(*made, strict=True):
        w.add(base, dist)
