"""Windows: each element's gradient is the sum of those of the windows that it is in."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, NoAdjoint, vjp
from .structural import _one


def _numbers(op: Op, key: str, rank: int, default: int) -> list[int]:
    return list(op.numbers.get(key) or [default] * rank)


@vjp("reduce-window")
def reduce_window(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """A sum of windows over the gradient, spread by the stride; of maxima, to the element that was taken."""
    g, (x, *more) = _one(gradients), op.operands
    reducer = op.symbols.get("reducer", [""])[0]
    rank = len(x.shape)
    if more or reducer not in ("sum", "max", "min"):
        raise NoAdjoint(f"no backward is known of windows that are combined by {reducer} (`{op.name}`)")
    size, stride = _numbers(op, "window_size", rank, 1), _numbers(op, "window_stride", rank, 1)
    low, dilation = _numbers(op, "window_pad_low", rank, 0), _numbers(op, "window_dilation", rank, 1)
    high = _numbers(op, "window_pad_high", rank, 0)
    if any(n != 1 for n in _numbers(op, "base_dilation", rank, 1)):
        raise NoAdjoint(f"no backward is known of windows over what is spread (`{op.name}`)")
    if reducer != "sum":
        if any(n != 1 for n in dilation):
            raise NoAdjoint(f"no backward is known of extremes of windows with gaps (`{op.name}`)")
        made = p.op("select-and-scatter", x, g, window_size=size, window_stride=stride, window_pad_low=low,
                    window_pad_high=high, reducer="sum", select="GE" if reducer == "max" else "LE")  # fmt: skip
        return [made.result]
    return [_spread(p, g, x, size, stride, low, dilation)]


def _spread(
    p: Program, g: Tensor, x: Tensor, size: Sequence[int], stride: Sequence[int], low: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:  # fmt: skip
    """Element i has the sum of g[o] over windows o and their places k with o stride + k dilation - low = i."""
    span = [(k - 1) * d for k, d in zip(size, dilation, strict=True)]
    before = [s - lo for s, lo in zip(span, low, strict=True)]
    wide = [max((n - 1) * s + 1, 0) for n, s in zip(g.shape, stride, strict=True)]
    after = [n + s - b - w for n, s, b, w in zip(x.shape, span, before, wide, strict=True)]
    zero = p.constant(0, g.dtype)
    padded = p.op("pad", g, zero, low=before, high=after, interior=[s - 1 for s in stride]).result
    return p.op("reduce-window", padded, window_size=list(size), window_dilation=list(dilation), reducer="sum").result
