"""Recipes of ops over windows with their backwards: pools, gradients of convolutions."""

from __future__ import annotations

from typing import Any

import torch

from .recipes import convolution, recipe
from .world import World

aten = torch.ops.aten
POOLS = [
    *(f"aten.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)),
    *(f"aten.max_pool{rank}d_with_indices" for rank in (2, 3)),
]


@recipe(*POOLS)
def pooled(w: World, op: Any) -> dict[str, Any]:
    """Windows over the last dims; some reach over the edge, by at most half of them."""
    rng = w.rng
    rank = next(n for n in (1, 2, 3) if f"{n}d" in str(op))
    window = [rng.randint(1, 3) for _ in range(rank)]
    lead = [rng.randint(1, 2) for _ in range(rng.choice([1, 2]))]
    found: dict[str, Any] = {
        "self": w.new([*lead, *[rng.randint(2, 5) for _ in range(rank)]], w.dtype("f")),
        "kernel_size": window, "stride": [rng.randint(1, 3) for _ in range(rank)] if rng.random() < 0.8 else [],
        "padding": [rng.randint(0, n // 2) for n in window],
    }  # fmt: skip
    if str(op).endswith("indices.out"):  # sized by the op
        found |= {"out": w.new([0], w.of(found["self"]).dtype), "indices": w.new([0], torch.int64)}
    if "max" in str(op):
        return found | {"dilation": [rng.randint(1, 2) for _ in range(rank)]}
    return found | ({"divisor_override": rng.choice([None, None, 2, 3])} if rank > 1 else {})


@recipe("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d")
def means_of_blocks(w: World, op: Any) -> dict[str, Any]:
    """Blocks of one size; now and then of several."""
    blocks = [w.rng.randint(1, 3) for _ in range(2 if "2d" in str(op) else 1)]
    lead = [w.rng.randint(1, 2) for _ in range(w.rng.choice([1, 2]))]
    image = [n * w.rng.randint(1, 3) + (w.rng.random() < 0.1) for n in blocks]
    return {"self": w.new([*lead, *image], w.dtype("f")), "output_size": blocks}


@recipe(*(f"aten.{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)))
def continued(w: World, op: Any) -> dict[str, Any]:
    """By no more than the dims have, less the element at which they are reflected."""
    image = [w.rng.randint(2, 4) for _ in range(next(n for n in (1, 2, 3) if f"{n}d" in str(op)))]
    lead = [w.rng.randint(1, 2) for _ in range(w.rng.choice([1, 2]))]
    padding = [w.rng.randint(0, n - 1) for n in reversed(image) for _ in range(2)]
    return {"self": w.new([*lead, *image], w.dtype("f")), "padding": padding}


@recipe("aten.avg_pool2d_backward", "aten.avg_pool3d_backward")
def means_backward(w: World, op: Any) -> dict[str, Any]:
    found = pooled(w, op)
    flags = {"ceil_mode": w.rng.random() < 0.2, "count_include_pad": w.rng.random() < 0.7}
    forward = aten.avg_pool3d if "3d" in str(op) else aten.avg_pool2d
    x = w.of(found["self"])
    shape = forward(x, found["kernel_size"], found["stride"], found["padding"], **flags).shape
    return {"grad_output": w.new(list(shape), x.dtype), **found, **flags}


@recipe("aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward")
def maxima_backward(w: World, op: Any) -> dict[str, Any]:
    """With places that somebody else found, as far as a single call goes."""
    found = pooled(w, op) | {"ceil_mode": w.rng.random() < 0.2}
    forward = aten.max_pool3d_with_indices if "3d" in str(op) else aten.max_pool2d_with_indices
    x = w.of(found["self"])
    places = forward(x, *[found[key] for key in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")])[1]
    indices = w.new(list(places.shape), torch.int64, 0, 0)
    return {"grad_output": w.new(list(places.shape), x.dtype), **found, "indices": indices}


@recipe("aten.convolution_backward")
def convolution_backward(w: World, op: Any) -> dict[str, Any]:
    found = convolution(w, aten.convolution.default)
    bias = found.pop("bias")
    x, weight = w.of(found["input"]), w.of(found["weight"])
    keys = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    shape = list(aten.convolution(x, weight, None, *[found[key] for key in keys]).shape)
    mask = [w.rng.random() < 0.8, w.rng.random() < 0.8, bias is not None and w.rng.random() < 0.8]
    if str(op).endswith("out"):  # what it writes where it is not asked to hangs on the kernel
        bias, mask = w.new([shape[1]], x.dtype), [True] * 3
    sizes = [shape[1]] if bias is not None else None
    return {"grad_output": w.new(shape, x.dtype), **found, "bias_sizes": sizes, "output_mask": mask}


@recipe("aten.im2col", "aten.col2im")
def patches(w: World, op: Any) -> dict[str, Any]:
    """Windows as columns and back: side by side, apart, or over each other and the edge."""
    rng = w.rng
    window = [rng.randint(1, 3) for _ in range(2)]
    found: dict[str, Any] = {
        "kernel_size": window, "dilation": [rng.choice([1, 1, 2]) for _ in range(2)],
        "padding": [rng.choice([0, 0, 1]) for _ in range(2)],
        "stride": window if rng.random() < 0.3 else [rng.randint(1, 3) for _ in range(2)],
    }  # fmt: skip
    least = [d * (k - 1) + 1 for k, d in zip(window, found["dilation"], strict=True)]
    size = [n + rng.randint(0, 3) for n in least]
    lead = [rng.randint(1, 2) for _ in range(rng.choice([1, 2]))]
    if "col2im" not in str(op):
        return {"self": w.new([*lead, *size], w.dtype("f")), **found}
    columns = aten.im2col(torch.zeros(*lead, *size), *found.values())
    return {"self": w.new(list(columns.shape), w.dtype("f")), "output_size": size, **found}


@recipe("aten.upsample_nearest2d", "aten.upsample_nearest2d_backward")
def repeated_pixels(w: World, op: Any) -> dict[str, Any]:
    """Each pixel so many times along each dim; now and then some more often than others."""
    rng = w.rng
    size, times = ([rng.randint(1, 3) for _ in range(2)] for _ in range(2))
    shape, out = [rng.randint(1, 2), rng.randint(1, 2), *size], [n * k for n, k in zip(size, times, strict=True)]
    if rng.random() < 0.1:
        out[0] += 1
    given = rng.random() < 0.5
    scales = {f"scales_{d}": float(k) if given else None for d, k in zip("hw", times, strict=True)}
    if "backward" in str(op):
        grad = w.new([*shape[:2], *out], w.dtype("f"))
        return {"grad_output": grad, "output_size": out, "input_size": shape, **scales}
    return {"self": w.new(shape, w.dtype("f")), "output_size": out, **scales}
