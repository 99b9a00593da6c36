"""Convolutions in a domain of elements: each window a row, each kernel a row, Σ of their products."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from scalify_dl.ir.graph import Op
from scalify_dl.oracle.meaning import Call
from scalify_dl.oracle.meaning.structural import padded

from .domain import Cells, Undecided
from .frame import Value
from .graphs import Runner, rule


@rule("convolution")
def _convolution(runner: Runner, call: Call, op: Op, values: list[Value]) -> Value:
    """With padding, strides, both dilations and feature groups, as `oracle/meaning/contraction.py` says."""
    domain, dtype = runner.domain, op.results[0].dtype
    groups = call.number("feature_group_count", 1)
    if call.number("batch_group_count", 1) != 1 or any(t.dtype != dtype for t in op.operands):
        raise Undecided("a convolution of groups of a batch, or of another type than its operands")
    spatial = [call.numbers(key, []) for key in ("input_spatial", "kernel_spatial", "output_spatial")]
    n = len(spatial[0])
    x, w = (runner.cells(t) for t in op.operands)
    x = x.transpose([call.number("input_batch"), call.number("input_feature"), *spatial[0]])
    w = w.transpose([call.number("kernel_output_feature"), call.number("kernel_input_feature"), *spatial[1]])
    for d, turned in enumerate(call.numbers("window_reversal", [0] * n)):
        w = np.flip(w, d + 2) if turned else w
    stride, dilation = call.numbers("window_stride", [1] * n), call.numbers("window_dilation", [1] * n)
    low, high = call.numbers("window_pad_low", [0] * n), call.numbers("window_pad_high", [0] * n)
    spread = [d - 1 for d in call.numbers("base_dilation", [1] * n)]
    x = padded(x, domain.lift(np.array(0), dtype), [0, 0, *low], [0, 0, *high], [0, 0, *spread])
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    size = [max((m - r) // s + 1, 0) for m, r, s in zip(x.shape[2:], reach, stride, strict=True)]
    windows = []
    for at in product(*(range(k) for k in w.shape[2:])):
        starts = [a * d for a, d in zip(at, dilation, strict=True)]
        cut = [slice(a, a + (m - 1) * s + 1, s) for a, m, s in zip(starts, size, stride, strict=True)]
        windows.append(x[(slice(None), slice(None), *cut)])
    seen = np.moveaxis(np.stack(windows, axis=2), (1, 2), (-2, -1))  # batch, spatial, feature, place in the window
    parts = []
    for rows, kernel in zip(np.split(seen, groups, axis=-2), np.split(w, groups, axis=0), strict=True):
        flat = rows.reshape(-1, prod(rows.shape[-2:]))
        parts.append(domain.contract(flat, kernel.reshape(kernel.shape[0], -1), dtype))
    found = np.concatenate(parts, axis=1).reshape(seen.shape[0], *size, w.shape[0])
    placed = [call.number("output_batch"), *spatial[2], call.number("output_feature")]
    return Cells(np.moveaxis(found, range(found.ndim), placed))
