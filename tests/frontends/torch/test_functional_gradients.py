"""Losses, activations, convolutions and pools of `torch.nn.functional`, forward and backward, also where they bend."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from torch.nn import functional as F  # noqa: E402

from .torch_eager import agree  # noqa: E402


def grid(*shape: int) -> Any:
    """Halves from -4 to 4: among them all numbers at which a function bends."""
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) * 7 % 17 / 2 - 4).reshape(shape)


def real(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64)


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    **{n: getattr(F, n) for n in ["leaky_relu", "elu", "selu", "celu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "mish", "logsigmoid", "glu", "softsign", "tanhshrink"]},
    "leaky": lambda x: F.leaky_relu(x, 0.3), "elu of half": lambda x: F.elu(x, 0.5), "threshold": lambda x: F.threshold(x, 0.5, 2.0),
    "celu of two": lambda x: F.celu(x, 2.0), "glu of rows": lambda x: F.glu(x, 0),
    "leaky in place": lambda x: F.leaky_relu(x * 1, 0.3, inplace=True), "elu in place": lambda x: F.elu(x * 1, inplace=True),
    "xlogy": lambda x: torch.xlogy(x, 2 + x.abs()),
}  # fmt: skip
LOSSES: dict[str, Callable[..., Any]] = {
    "smooth_l1": lambda x, t, s, label, r: F.smooth_l1_loss(x, torch.zeros_like(x), reduction=r), "smooth_l1 of half": lambda x, t, s, label, r: F.smooth_l1_loss(x, t, beta=0.5, reduction=r),
    "huber": lambda x, t, s, label, r: F.huber_loss(x, torch.zeros_like(x), reduction=r), "huber of two": lambda x, t, s, label, r: F.huber_loss(x, t, delta=2.0, reduction=r),
    "soft margin": lambda x, t, s, label, r: F.soft_margin_loss(x, t.sign(), reduction=r),
    "bce": lambda x, t, s, label, r: F.binary_cross_entropy(torch.sigmoid(x), s, reduction=r),
    "bce weighted": lambda x, t, s, label, r: F.binary_cross_entropy(torch.sigmoid(x), s, s, reduction=r),
    "kl": lambda x, t, s, label, r: F.kl_div(F.log_softmax(x, -1), F.softmax(t, -1), reduction=r),
    "multi margin": lambda x, t, s, label, r: F.multi_margin_loss(x, label, reduction=r),
    "multi margin squared": lambda x, t, s, label, r: F.multi_margin_loss(x, label, p=2, margin=0.75, reduction=r),
    "triplet": lambda x, t, s, label, r: F.triplet_margin_loss(x, t, s, reduction=r),
}  # fmt: skip
CONVOLUTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "1d": (lambda x, w: F.conv1d(x, w, padding=1), (2, 4, 7), (6, 4, 3)),
    "2d": (lambda x, w: F.conv2d(x, w, padding=1), (2, 4, 5, 6), (6, 4, 3, 2)),
    "strided, a rest is left": (lambda x, w: F.conv2d(x, w, stride=(2, 3), padding=1), (2, 4, 6, 7), (6, 4, 3, 3)),
    "dilated": (lambda x, w: F.conv2d(x, w, dilation=2, stride=2), (2, 4, 8, 7), (6, 4, 3, 2)),
    "groups": (lambda x, w: F.conv2d(x, w, groups=2, padding=2), (2, 4, 5, 5), (6, 2, 3, 3)),
    "each channel": (lambda x, w: F.conv2d(x, w, groups=4, stride=2), (2, 4, 5, 5), (8, 1, 2, 2)),
    "3d": (F.conv3d, (1, 2, 4, 3, 4), (2, 2, 2, 3, 1)),
    "one by one": (F.conv2d, (2, 4, 3, 3), (6, 4, 1, 1)),
    "transposed": (F.conv_transpose1d, (2, 4, 5), (4, 6, 3)),
    "transposed, strided, padded": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), (2, 4, 4, 3), (4, 3, 3, 3)),
    "transposed, groups, dilated": (lambda x, w: F.conv_transpose2d(x, w, stride=(1, 2), groups=2, dilation=2), (2, 4, 4, 3), (4, 3, 2, 3)),
}  # fmt: skip
MAXIMA: dict[str, Callable[..., Any]] = {
    "max": lambda x: F.max_pool2d(x, 2), "max overlapping": lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
    "max dilated": lambda x: F.max_pool2d(x, (2, 3), stride=1, dilation=2), "max 1d": lambda x: F.max_pool1d(x.flatten(2), 3, 2),
    "max 3d": lambda x: F.max_pool3d(x[None], 2),
}  # fmt: skip
POOLS: dict[str, Callable[..., Any]] = {
    "mean": lambda x: F.avg_pool2d(x, 2), "mean 1d": lambda x: F.avg_pool1d(x.flatten(2), 3),
    "mean overlapping": lambda x: F.avg_pool2d(x, 3, 2, 1), "mean divided": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
}  # fmt: skip


def with_gradient(function: Callable[..., Any], *wanted: Any, others: tuple[Any, ...] = ()) -> None:
    """Result and gradients, weighted place by place, of a function's first arguments."""

    def both(*args: Any) -> list[Any]:
        leaves = [x.detach().requires_grad_() for x in args[: len(wanted)]]
        out = function(*leaves, *args[len(wanted) :])
        weights = (torch.arange(out.numel(), dtype=out.dtype) / 8 + 0.5).reshape(out.shape)
        return [out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)]

    graph = agree(both, [*wanted, *others], 1e-7)
    assert not [op.kind for op in graph.ops if op.kind.startswith(("unknown:", "custom:"))]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    with_gradient(ACTIVATIONS[name], grid(4, 18))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, reduction: str) -> None:
    others = (real(4, 6), torch.rand(4, 6, dtype=torch.float64), torch.tensor([0, 3, 5, 3]))
    with_gradient(lambda *args: LOSSES[name](*args, reduction), grid(4, 6), others=others)


def test_slopes_that_are_learnt() -> None:
    with_gradient(F.prelu, grid(2, 3, 5), torch.tensor([0.3, -0.5, 2.0], dtype=torch.float64))


def test_logarithms_of_nothing_times_nothing() -> None:
    numbers = torch.tensor([0.0, 1.0, 2.0, 0.0], dtype=torch.float64)
    agree(torch.xlogy, [numbers, torch.tensor([0.0, 3.0, 0.5, torch.inf], dtype=torch.float64)])


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    function, x, weight = CONVOLUTIONS[name]
    with_gradient(lambda x, w: function(x, w), real(*x), real(*weight))


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    with_gradient(POOLS[name], grid(2, 3, 7, 6))


@pytest.mark.parametrize("name", MAXIMA)
def test_maxima_of_windows(name: str) -> None:
    """Their gradients go to places that are an argument of their own: unknown."""
    agree(MAXIMA[name], [(grid(2, 3, 7, 6) / 2).round()])
