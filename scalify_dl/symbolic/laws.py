"""What every op kind demands of the sizes around it, at all sizes: the conditions under which a program exists.

A law is `same` (two numbers are one), `least` (one is at least the other) or `whole` (a quotient is a whole number).
The first must hold as functions of the sizes; the others bound the sizes that a family has. These are the shape rules
of docs/facts.md for formulas in place of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from scalify_dl.facts.vocabulary import ELEMENTWISE, words

from .expression import Expression

ONE = Expression.number(1)
ZERO = Expression.number(0)
Shape = list[Expression]


class Law(NamedTuple):
    """`kind` is same, least or whole; `what` says in words what is compared."""

    kind: str
    what: str
    one: Expression
    other: Expression = ONE


Laws = Iterator[Law]


@dataclass(frozen=True)
class Call:
    """An op with the formulas around it. `ends` has every attribute by key and position: its values on the first and
    last ranks along every axis (one where it does not depend on the rank)."""

    kind: str
    operands: Sequence[Shape]
    results: Sequence[Shape]
    dtypes: Sequence[str]
    """Types of the results."""
    ends: dict[str, dict[int, list[Expression]]]
    ranks: Expression | None
    """How many ranks a group of a collective has."""

    def list(self, key: str) -> list[int]:
        """A list attribute that numbers dims."""
        found = self.ends.get(key, {})
        return [int(found[i][0].constant or 0) for i in sorted(found)]

    def number(self, key: str, default: int = 0) -> int:
        """An attribute that numbers a dim."""
        return int(self.size(key, 0, default).constant or 0)

    def size(self, key: str, position: int, default: int) -> Expression:
        """An attribute that counts elements, on the first rank."""
        found = self.ends.get(key, {}).get(position)
        return found[0] if found else Expression.number(default)


def laws(call: Call) -> Laws:
    """The laws of an op; kinds that have none (opaque calls, constants) give nothing."""
    if call.kind in ALIKE:
        yield from _alike([*call.operands, *call.results])
    elif call.kind in RULES:
        yield from RULES[call.kind](call)


def _alike(shapes: Sequence[Shape]) -> Laws:
    for shape in shapes[1:]:
        if len(shape) == len(shapes[0]):  # a scalar may stand where a tensor may
            yield from _pairs(list(zip(shapes[0], shape, strict=True)))


def _pairs(pairs: Sequence[tuple[Expression, Expression]]) -> Laws:
    for i, (one, other) in enumerate(pairs):
        yield Law("same", f"dim {i}", one, other)


def _like_first(call: Call) -> Laws:
    yield from _alike([call.operands[0], call.results[0]])


def _broadcast(call: Call) -> Laws:
    yield from _pairs([(call.operands[0][i], call.results[0][j]) for i, j in enumerate(call.list("dimensions"))])


def _transpose(call: Call) -> Laws:
    yield from _pairs([(call.operands[0][i], call.results[0][j]) for j, i in enumerate(call.list("dimensions"))])


def _reshape(call: Call) -> Laws:
    before, after = (prod(shape, start=ONE) for shape in (call.operands[0], call.results[0]))
    yield Law("same", "elements", before, after)


def _iota(call: Call) -> Laws:
    """Positions fit in their type; those of 32 bits do at all sizes for which a verdict is."""
    dtype = call.dtypes[0]
    if dtype[0] in "su" and dtype[1:].isdigit() and int(dtype[1:]) < 32:
        most = Expression.number(2 ** (int(dtype[1:]) - (dtype[0] == "s")))
        yield Law("least", f"{dtype} positions", most, call.results[0][call.number("dimension")])


def _slice(call: Call) -> Laws:
    for i, (whole, part) in enumerate(zip(call.operands[0], call.results[0], strict=True)):
        starts, limits = (call.ends[key][i] for key in ("start", "limit"))
        stride = call.size("stride", i, 1)
        for n in range(max(len(starts), len(limits))):
            start, limit = (ends[n if len(ends) > 1 else 0] for ends in (starts, limits))
            yield Law("least", f"the start along dim {i}", start, ZERO)
            yield Law("least", f"dim {i}", whole, limit)
            length = limit - start
            if stride == ONE:
                yield Law("same", f"dim {i}", length, part)
            else:
                yield Law("least", f"the steps along dim {i}", part * stride, length)
                yield Law("least", f"the steps along dim {i}", length, (part - ONE) * stride + ONE)


def _pad(call: Call) -> Laws:
    for i, (x, out) in enumerate(zip(call.operands[0], call.results[0], strict=True)):
        low, high, interior = (call.size(key, i, 0) for key in ("low", "high", "interior"))
        yield Law("same", f"dim {i}", low + x + (x - ONE) * interior + high, out)


def _concatenate(call: Call) -> Laws:
    along, out = call.number("dimension"), call.results[0]
    for i, size in enumerate(out):
        if i == along:
            yield Law("same", f"dim {i}", sum((x[i] for x in call.operands), ZERO), size)
        else:
            yield from (Law("same", f"dim {i}", x[i], size) for x in call.operands)


def _reduce(call: Call) -> Laws:
    gone = set(call.list("dimensions"))
    for x in call.operands[: len(call.results)]:
        kept = [size for i, size in enumerate(x) if i not in gone]
        for out in call.results:
            yield from _pairs(list(zip(kept, out, strict=True)))


def _window(call: Call, i: int, x: Expression, out: Expression) -> Laws:
    """out = floor((x padded - window dilated) / stride) + 1, at least 1."""
    window, stride, dilation, base = (
        call.size(key, i, 1) for key in ("window_size", "window_stride", "window_dilation", "base_dilation")
    )
    low, high = (call.size(key, i, 0) for key in ("window_pad_low", "window_pad_high"))
    room = (x - ONE) * base + ONE + low + high - ((window - ONE) * dilation + ONE)
    if stride == ONE:
        yield Law("same", f"dim {i}", room + ONE, out)
    else:
        yield Law("least", f"the steps of windows along {i}", room, (out - ONE) * stride)
        yield Law("least", f"the steps of windows along {i}", out * stride - ONE, room)


def _reduce_window(call: Call) -> Laws:
    for x, out in zip(call.operands, call.results, strict=False):
        for i, (size, result) in enumerate(zip(x, out, strict=True)):
            yield from _window(call, i, size, result)


def _select_and_scatter(call: Call) -> Laws:
    yield from _like_first(call)
    x, source = call.operands[:2]
    for i, (size, result) in enumerate(zip(x, source, strict=True)):
        yield from _window(call, i, size, result)


def _convolution(call: Call) -> Laws:
    (x, w), out = call.operands[:2], call.results[0]
    at = call.number
    groups, batches = (call.size(key, 0, 1) for key in ("feature_group_count", "batch_group_count"))
    features, kernels = w[at("kernel_input_feature")], w[at("kernel_output_feature")]
    yield Law("same", "input features", features * groups, x[at("input_feature")])
    yield Law("same", "output features", kernels, out[at("output_feature")])
    yield Law("same", "the batch", out[at("output_batch")] * batches, x[at("input_batch")])
    for count in (groups, batches):
        if count != ONE:
            yield Law("whole", "groups", kernels, count)
    spatial = (call.list(key) for key in ("input_spatial", "kernel_spatial", "output_spatial"))
    for i, (here, kernel, there) in enumerate(zip(*spatial, strict=True)):
        if i in call.ends.get("window_size", {}):
            yield Law("same", f"window {i}", w[kernel], call.size("window_size", i, 1))
        sized = dict(call.ends, window_size={**call.ends.get("window_size", {}), i: [w[kernel]]})
        whole = Call(call.kind, call.operands, call.results, call.dtypes, sized, call.ranks)
        yield from _window(whole, i, x[here], out[there])


def _dot(call: Call) -> Laws:
    a, b = call.operands[:2]
    batch = [call.list("lhs_batch_dims"), call.list("rhs_batch_dims")]
    summed = [call.list("lhs_contracting_dims"), call.list("rhs_contracting_dims")]
    for i, j in zip(batch[0] + summed[0], batch[1] + summed[1], strict=True):
        yield Law("same", f"dims {i} and {j}", a[i], b[j])
    made = [a[i] for i in batch[0]]
    for x, used in ((a, {*batch[0], *summed[0]}), (b, {*batch[1], *summed[1]})):
        made += [size for i, size in enumerate(x) if i not in used]
    yield from _pairs(list(zip(made, call.results[0], strict=True)))


def _indices(call: Call, windows: Sequence[int], windowed: Shape) -> Laws:
    """Dims outside of the windows are those of the indices, without that of their components."""
    indices = call.operands[1]
    vector = call.number("index_vector_dim", len(indices))
    batch = [size for i, size in enumerate(indices) if i != vector]
    outside = [size for i, size in enumerate(windowed) if i not in windows]
    yield from _pairs(list(zip(batch, outside, strict=True)))


def _gather(call: Call) -> Laws:
    x, indices, out = call.operands[0], call.operands[1], call.results[0]
    offsets, batching = call.list("offset_dims"), call.list("operand_batching_dims")
    yield from _indices(call, offsets, out)
    for i, j in zip(batching, call.list("start_indices_batching_dims"), strict=True):
        yield Law("same", f"batching dim {i}", x[i], indices[j])
    sizes = [call.size("slice_sizes", i, 1) for i in range(len(x))]
    for i, (whole, part) in enumerate(zip(x, sizes, strict=True)):
        yield Law("least", f"dim {i}", whole, part)
    dropped = {*call.list("collapsed_slice_dims"), *batching}
    kept = [size for i, size in enumerate(sizes) if i not in dropped]
    yield from _pairs([(size, out[j]) for size, j in zip(kept, offsets, strict=True)])


def _scatter(call: Call) -> Laws:
    x, indices, updates = call.operands[:3]
    windows, batching = call.list("update_window_dims"), call.list("input_batching_dims")
    yield from _like_first(call)
    yield from _indices(call, windows, updates)
    for i, j in zip(batching, call.list("scatter_indices_batching_dims"), strict=True):
        yield Law("same", f"batching dim {i}", x[i], indices[j])
    gone = {*call.list("inserted_window_dims"), *batching}
    for i, j in zip((i for i in range(len(x)) if i not in gone), windows, strict=True):
        yield Law("least", f"dim {i}", x[i], updates[j])


def _dynamic_slice(call: Call) -> Laws:
    for i, (whole, part) in enumerate(zip(call.operands[0], call.results[0], strict=True)):
        yield Law("same", f"dim {i}", call.size("sizes", i, 1), part)
        yield Law("least", f"dim {i}", whole, part)


def _dynamic_update_slice(call: Call) -> Laws:
    yield from _like_first(call)
    for i, (whole, part) in enumerate(zip(*call.operands[:2], strict=True)):
        yield Law("least", f"dim {i}", whole, part)


def _top_k(call: Call) -> Laws:
    (x,) = call.operands
    k = call.size("k", 0, 1)
    yield Law("least", "the last dim", x[-1], k)
    for out in call.results:
        yield from _pairs(list(zip([*x[:-1], k], out, strict=True)))


def _attention(call: Call) -> Laws:
    """[batch…, heads, seq, head dim]; the result has the queries' positions and the values' width."""
    q, k, v = call.operands[:3]
    yield from _pairs(list(zip(q[:-2], k[:-2], strict=True)))
    yield from _pairs(list(zip(q[:-2], v[:-2], strict=True)))
    yield Law("same", "the width of heads", q[-1], k[-1])
    yield Law("same", "keys and values", k[-2], v[-2])
    for out in call.results:
        yield from _pairs(list(zip([*q[:-1], v[-1]], out, strict=False)))


def _attention_backward(call: Call) -> Laws:
    for x, gradient in zip(call.operands[1:4], call.results, strict=False):
        yield from _alike([x, gradient])


def _loop(call: Call) -> Laws:
    yield from (law for x, out in zip(call.operands, call.results, strict=False) for law in _alike([x, out]))


def _scaled(call: Call, more: str | None, less: str | None) -> Laws:
    """The result is as the operand, one dim times the ranks of a group, another one divided by them."""
    x, out = call.operands[0], call.results[0]
    for i, (before, after) in enumerate(zip(x, out, strict=True)):
        if call.ranks is not None:
            before = before * call.ranks if more and call.number(more) == i else before
            if less and call.number(less) == i:
                yield Law("whole", f"dim {i}", x[i], call.ranks)
                before = before / call.ranks
            yield Law("same", f"dim {i}", before, after)


def _all_gather(call: Call) -> Laws:
    yield from _scaled(call, "dimension", None)


def _reduce_scatter(call: Call) -> Laws:
    yield from _scaled(call, None, "dimension")


def _all_to_all(call: Call) -> Laws:
    yield from _scaled(call, "concat_dimension", "split_dimension")


ALIKE = ELEMENTWISE | words("reverse cumulative sort all-reduce collective-permute collective-broadcast dropout-mask")
"""Kinds whose operands and results have one shape."""
RULES: dict[str, Callable[[Call], Laws]] = {
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "iota": _iota,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "convolution": _convolution,
    "dot": _dot,
    "gather": _gather,
    "scatter": _scatter,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "top-k": _top_k,
    "attention": _attention,
    "attention-backward": _attention_backward,
    "while": _loop,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
}
