"""Constraints of convolutions: windows that lie side by side are digits of what they lie in, others stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..program import Op
from .constraints import Shapes, rule

_PLAIN = {"window_pad_low": 0, "window_pad_high": 0, "base_dilation": 1, "window_dilation": 1, "window_reversal": 0}


def spatial(op: Op) -> list[tuple[int, int, int]]:
    """Spatial dims of a convolution: of what is read, of the kernel, of the result."""
    dims = (op.number(key, 0, []) for key in ("input_spatial", "kernel_spatial", "output_spatial"))
    return list(zip(*dims, strict=True))


def side_by_side(op: Op, shapes: Iterable[Sequence[int]]) -> list[bool]:
    """For each spatial dim whether windows lie side by side and cover it: patches, or windows of one element.

    `shapes`: of what is read, of the kernel, of the result."""
    x, w, z = shapes
    dims = spatial(op)
    ones = [1] * len(dims)
    plain = {key: op.number(key, 0, [at] * len(dims)) for key, at in _PLAIN.items()}
    return [
        op.number("window_stride", 0, ones)[n] == w[b]
        and x[a] == z[c] * w[b]
        and all(plain[key][n] == at for key, at in _PLAIN.items())
        for n, (a, b, c) in enumerate(dims)
    ]


@rule("convolution")
def convolution(s: Shapes, op: Op) -> None:
    """The batch, and features where nothing is grouped, as labelled; windows side by side: which one, and where in it.

    Other spatial dims stay."""
    x, w, z = s.dims(op.operands[0]), s.dims(op.operands[1]), s.dims(op.results[0])
    extents, batch = s.extents, (x[op.number("input_batch", 0)[0]], z[op.number("output_batch", 0)[0]])
    if op.number("batch_group_count", 0, [1]) != [1]:
        s.keep_all(op)
        return
    extents.same(*batch)
    if op.number("feature_group_count", 0, [1]) == [1]:
        extents.same(x[op.number("input_feature", 0)[0]], w[op.number("kernel_input_feature", 0)[0]])
        extents.same(z[op.number("output_feature", 0)[0]], w[op.number("kernel_output_feature", 0)[0]])
    else:
        for dim in {*x, *w, *z}.difference(batch):
            extents.keep(dim)
    shapes = [s.program.tensors[t].shape for t in (*op.operands, *op.results)]
    for (a, b, c), beside in zip(spatial(op), side_by_side(op, shapes), strict=True):
        if beside:
            extents.link(x[a], 1, w[b], 1, extents.size(w[b]))
            extents.link(x[a], extents.size(w[b]), z[c], 1, extents.size(z[c]))
        else:
            for dim in (x[a], w[b], z[c]):
                extents.keep(dim)
