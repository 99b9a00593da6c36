"""Which sizes around an op are one size, and which dims are windows of which, whatever is known of the sizes.

A size may be anything: a formula (`families/laws`), an unknown of one capture (`families/shapes`), or an extent that is
made small (`oracle/shrink`). What relates sizes by arithmetic is theirs.

    dot [m, k] · [k, n] → [m, n]:  k = k, m = m, n = n
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .vocabulary import ONE_SHAPE

S = TypeVar("S")
Pairs = Iterator[tuple[S, S]]


@dataclass(frozen=True)
class Around(Generic[S]):
    """An op with the sizes of its operands and results; `numbers` gives an attribute that numbers dims."""

    kind: str
    operands: Sequence[Sequence[S]]
    results: Sequence[Sequence[S]]
    numbers: Callable[[str], Sequence[int]]

    def outside(self, position: int, *keys: str) -> list[int]:
        """Dims of an operand that none of these attributes names."""
        named = {d for key in keys for d in self.numbers(key)}
        return [d for d in range(len(self.operands[position])) if d not in named]


def alike(op: Around[S]) -> Pairs[S]:
    """Sizes that are the same; kinds of which nothing is known give none."""
    if op.kind in ONE_SHAPE:
        yield from _shapes([op.results[0], *op.operands, *op.results[1:]])
    elif op.kind in RULES:
        yield from RULES[op.kind](op)


def _shapes(shapes: Sequence[Sequence[S]]) -> Pairs[S]:
    for shape in shapes[1:]:
        if len(shape) == len(shapes[0]):  # a scalar may stand where a tensor may
            yield from zip(shape, shapes[0], strict=True)


def _like_first(op: Around[S]) -> Pairs[S]:
    return _shapes([op.operands[0], op.results[0]])


def _broadcast(op: Around[S]) -> Pairs[S]:
    yield from zip(op.operands[0], (op.results[0][d] for d in op.numbers("dimensions")), strict=True)


def _transpose(op: Around[S]) -> Pairs[S]:
    yield from zip((op.operands[0][d] for d in op.numbers("dimensions")), op.results[0], strict=True)


def _concatenate(op: Around[S]) -> Pairs[S]:
    for x in op.operands:
        yield from ((x[d], op.results[0][d]) for d in op.outside(0, "dimension"))


def _reduce(op: Around[S]) -> Pairs[S]:
    for x in op.operands[: len(op.results)]:
        for out in op.results:
            yield from zip((x[d] for d in op.outside(0, "dimensions")), out, strict=True)


def _dot(op: Around[S]) -> Pairs[S]:
    a, b = op.operands[:2]
    free: list[S] = []
    for side in ("batch", "contracting"):
        here, there = (op.numbers(f"{which}_{side}_dims") for which in ("lhs", "rhs"))
        yield from ((a[i], b[j]) for i, j in zip(here, there, strict=True))
    for position, which in enumerate(("lhs", "rhs")):
        rest = op.outside(position, f"{which}_batch_dims", f"{which}_contracting_dims")
        free += [op.operands[position][d] for d in rest]
    yield from zip([*(a[d] for d in op.numbers("lhs_batch_dims")), *free], op.results[0], strict=True)


def _convolution(op: Around[S]) -> Pairs[S]:
    yield op.operands[1][op.numbers("kernel_output_feature")[0]], op.results[0][op.numbers("output_feature")[0]]


def _gather(op: Around[S]) -> Pairs[S]:
    return _indexed(op, op.results[0], "offset_dims", "operand_batching_dims", "start_indices_batching_dims")


def _scatter(op: Around[S]) -> Pairs[S]:
    yield from _like_first(op)
    updates = op.operands[2]
    yield from _indexed(op, updates, "update_window_dims", "input_batching_dims", "scatter_indices_batching_dims")


def _indexed(op: Around[S], windowed: Sequence[S], windows: str, batching: str, indices_batching: str) -> Pairs[S]:
    """Dims outside of the windows are those of the indices, without that of their components."""
    x, indices = op.operands[:2]
    batch = (indices[d] for d in op.outside(1, "index_vector_dim"))
    inside = op.numbers(windows)
    yield from zip(batch, (size for d, size in enumerate(windowed) if d not in inside), strict=True)
    yield from ((x[i], indices[j]) for i, j in zip(op.numbers(batching), op.numbers(indices_batching), strict=True))


def _top_k(op: Around[S]) -> Pairs[S]:
    for out in op.results:
        yield from zip(op.operands[0][:-1], out[:-1], strict=True)


def _attention(op: Around[S]) -> Pairs[S]:
    """[batch…, heads, seq, head dim]; the result has the queries' positions and the values' width."""
    q, k, v = op.operands[:3]
    for other in (k, v):
        yield from zip(q[:-2], other[:-2], strict=True)
    yield from ((q[-1], k[-1]), (k[-2], v[-2]))
    for out in op.results:
        yield from zip([*q[:-1], v[-1]], out, strict=False)


def _attention_backward(op: Around[S]) -> Pairs[S]:
    for x, gradient in zip(op.operands[1:4], op.results, strict=False):
        yield from _shapes([x, gradient])


def _prefill(op: Around[S]) -> Pairs[S]:
    """Queries [tokens, heads, d], keys and values [tokens, kv heads, d]; results are as queries. Of other shapes it is
    a call of which nothing is known."""
    q, k, v = op.operands[:3] if len(op.operands) >= 3 else ((), (), ())
    if len(q) == len(k) == len(v) == 3:
        yield from (*zip(k, v, strict=True), (q[0], k[0]), (q[2], k[2]))
        for out in op.results:
            yield from zip(q, out, strict=False)


RULES: dict[str, Callable[[Around[Any]], Pairs[Any]]] = {
    "broadcast": _broadcast,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "reduce": _reduce,
    "dot": _dot,
    "convolution": _convolution,
    "gather": _gather,
    "scatter": _scatter,
    "select-and-scatter": _like_first,
    "dynamic-update-slice": _like_first,
    "top-k": _top_k,
    "attention": _attention,
    "attention-backward": _attention_backward,
    "custom:vllm.unified_attention": _prefill,
}


def windows(op: Around[S]) -> Iterator[tuple[int, S, S]]:
    """Of ops that read or write a window: the dim, its size, and that of the window."""
    parts: Sequence[S] = ()
    dims: Sequence[int] = ()
    if op.kind in ("dynamic-slice", "dynamic-update-slice"):
        parts = op.results[0] if op.kind == "dynamic-slice" else op.operands[1]
        dims = range(len(parts))
    elif op.kind == "gather":
        parts = [op.results[0][d] for d in op.numbers("offset_dims")]
        dims = op.outside(0, "collapsed_slice_dims", "operand_batching_dims")
    elif op.kind == "scatter":
        parts = [op.operands[2][d] for d in op.numbers("update_window_dims")]
        dims = op.outside(0, "inserted_window_dims", "input_batching_dims")
    yield from ((d, op.operands[0][d], part) for d, part in zip(dims, parts, strict=True))
