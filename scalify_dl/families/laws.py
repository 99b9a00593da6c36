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

from scalify_dl.ir.alike import Around, alike, windows
from scalify_dl.ir.dtypes import integers_of, is_integer
from scalify_dl.ir.expression import Expression

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

    @property
    def around(self) -> Around[Expression]:
        """Its sizes."""
        return Around(self.kind, self.operands, self.results, self.list)

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
    """The laws of an op; kinds that have none (opaque calls) give nothing."""
    around = call.around
    yield from (Law("same", "a dim", one, other) for one, other in alike(around))
    if call.kind in RULES:
        yield from RULES[call.kind](call)
    yield from (Law("least", f"dim {i}", whole, part) for i, whole, part in windows(around))


def _reshape(call: Call) -> Laws:
    before, after = (prod(shape, start=ONE) for shape in (call.operands[0], call.results[0]))
    yield Law("same", "elements", before, after)


def _constant(call: Call) -> Laws:
    """A number is one of its type; those of 32 bits are at all sizes for which a verdict is."""
    dtype = call.dtypes[0]
    if dtype == "pred" or (is_integer(dtype) and int(dtype[1:]) < 32):
        numbers = range(2) if dtype == "pred" else integers_of(dtype)
        for number in call.ends.get("value", {}).get(0, ()):
            yield Law("least", f"a {dtype} number", number, Expression.number(numbers.start))
            yield Law("least", f"{dtype} numbers", Expression.number(numbers.stop - 1), number)


def _iota(call: Call) -> Laws:
    """Positions fit in their type; those of 32 bits do at all sizes for which a verdict is."""
    dtype = call.dtypes[0]
    if is_integer(dtype) and int(dtype[1:]) < 32:
        most = Expression.number(integers_of(dtype).stop)
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
    along = call.number("dimension")
    yield Law("same", f"dim {along}", sum((x[along] for x in call.operands), ZERO), call.results[0][along])


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
    x, source = call.operands[:2]
    for i, (size, result) in enumerate(zip(x, source, strict=True)):
        yield from _window(call, i, size, result)


def _convolution(call: Call) -> Laws:
    (x, w), out = call.operands[:2], call.results[0]
    at = call.number
    groups, batches = (call.size(key, 0, 1) for key in ("feature_group_count", "batch_group_count"))
    features, kernels = w[at("kernel_input_feature")], w[at("kernel_output_feature")]
    yield Law("same", "input features", features * groups, x[at("input_feature")])
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


def _gather(call: Call) -> Laws:
    for i, whole in enumerate(call.operands[0]):
        yield Law("least", f"dim {i}", whole, call.size("slice_sizes", i, 1))
    for i, _, part in windows(call.around):
        yield Law("same", f"dim {i}", call.size("slice_sizes", i, 1), part)


def _dynamic_slice(call: Call) -> Laws:
    for i, part in enumerate(call.results[0]):
        yield Law("same", f"dim {i}", call.size("sizes", i, 1), part)


def _top_k(call: Call) -> Laws:
    k = call.size("k", 0, 1)
    yield Law("least", "the last dim", call.operands[0][-1], k)
    yield from (Law("same", "the last dim", k, out[-1]) for out in call.results)


def _loop(call: Call) -> Laws:
    for x, out in zip(call.operands, call.results, strict=False):
        yield from (Law("same", f"dim {i}", *pair) for i, pair in enumerate(zip(x, out, strict=True)))


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


RULES: dict[str, Callable[[Call], Laws]] = {
    "constant": _constant,
    "reshape": _reshape,
    "iota": _iota,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "convolution": _convolution,
    "gather": _gather,
    "dynamic-slice": _dynamic_slice,
    "top-k": _top_k,
    "while": _loop,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
}
