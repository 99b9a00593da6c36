"""Convolutions: the gradient of either operand is a convolution of the result's gradient with the other one."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, vjp
from .structural import _one


def _moved_into(p: Program, x: Tensor, source: int, target: int, parts: int) -> Tensor:
    """The major part of one dim becomes the major part of another one."""
    if parts == 1:
        return x
    split = [n // parts if d == source else n for d, n in enumerate(x.shape)]
    wide = p.reshape(x, [*split[:source], parts, *split[source:]])
    order = [d + (d >= source) for d in range(len(x.shape))]  # where the old dims are
    order.insert(target, source)
    turned = p.transpose(wide, *order)
    return p.reshape(turned, [n * parts if d == target else n for d, n in enumerate(split)])


@vjp("convolution")
def convolution(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Stride and spreading of the operand change places; for the kernel's, batch and features do."""
    g, (x, w), at = _one(gradients), op.operands, op.numbers
    places = [at[key] for key in ("input_spatial", "kernel_spatial", "output_spatial")]
    n = len(places[0])
    stride, dilation = at.get("window_stride") or [1] * n, at.get("window_dilation") or [1] * n
    low, spread = at.get("window_pad_low") or [0] * n, at.get("base_dilation") or [1] * n
    features, batches = (at.get("feature_group_count") or [1])[0], (at.get("batch_group_count") or [1])[0]
    turned = [d for d, flag in zip(places[1], at.get("window_reversal") or [0] * n, strict=True) if flag]
    (batch,), (feature,) = at["input_batch"], at["input_feature"]
    (inner,), (outer,) = at["kernel_input_feature"], at["kernel_output_feature"]
    (out_batch,), (out_feature,) = at["output_batch"], at["output_feature"]
    wide = [
        [(t.shape[d] - 1) * by + 1 if t.shape[d] else 0 for d, by in zip(dims, factors, strict=True)]
        for t, dims, factors in zip((x, w, g), places, (spread, dilation, stride), strict=True)
    ]
    kernel = p.reverse(w, *turned) if turned else w
    groups = features * batches
    before = [k - lo - 1 for k, lo in zip(wide[1], low, strict=True)]
    after = [a + k - 1 - o - b for a, k, o, b in zip(*wide, before, strict=True)]
    back = p.op(
        "convolution", g, p.reverse(_moved_into(p, kernel, outer, inner, groups), *places[1]), dtype=x.dtype,
        shape=[s // batches if d == batch else s * batches if d == feature else s for d, s in enumerate(x.shape)],
        attributes=_numbers(
            spread, before, after, dilation, stride, (out_batch, out_feature, places[2]), (outer, inner, places[1]),
            (batch, feature, places[0]), groups, 1,
        ),
    ).result  # fmt: skip
    after = [o - a + k - lo - 1 for a, k, o, lo in zip(*wide, low, strict=True)]
    by_kernel = p.op(
        "convolution", x, g, dtype=w.dtype, shape=w.shape,
        attributes=_numbers(
            dilation, low, after, stride, spread, (feature, batch, places[0]), (out_batch, out_feature, places[2]),
            (inner, outer, places[1]), batches, features,
        ),
    ).result  # fmt: skip
    return [_moved_into(p, back, feature, batch, batches), p.reverse(by_kernel, *turned) if turned else by_kernel]


def _numbers(
    stride: Sequence[int], low: Sequence[int], high: Sequence[int], dilation: Sequence[int], spread: Sequence[int],
    operand: tuple[int, int, list[int]], kernel: tuple[int, int, list[int]], result: tuple[int, int, list[int]],
    features: int, batches: int,
) -> dict[str, int | list[int]]:  # fmt: skip
    return {
        "window_stride": list(stride), "window_pad_low": list(low), "window_pad_high": list(high),
        "window_dilation": list(dilation), "base_dilation": list(spread),
        "input_batch": operand[0], "input_feature": operand[1], "input_spatial": operand[2],
        "kernel_input_feature": kernel[0], "kernel_output_feature": kernel[1], "kernel_spatial": kernel[2],
        "output_batch": result[0], "output_feature": result[1], "output_spatial": result[2],
        "feature_group_count": features, "batch_group_count": batches,
    }  # fmt: skip
