"""Losses, activations, convolutions and pools of `torch.nn.functional`, forward and backward, also where they bend."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from torch.nn import functional as F  # noqa: E402

from .torch_eager import agree, lowered  # noqa: E402


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


def test_a_transposed_convolution_takes_its_weight_for_finite_where_zeros_are_put_in() -> None:
    """Torch multiplies no zeros, of which an infinite weight makes what is no number."""
    for window, listed in ((3, True), (1, False)):
        graph = agree(F.conv_transpose1d, [real(2, 4, 5), real(4, 6, window)])
        assert [(a.tensor is graph.inputs[1].tensor, a.why) for a in graph.assumptions] == [(True, "finite")] * listed


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    with_gradient(POOLS[name], grid(2, 3, 7, 6))


@pytest.mark.parametrize("values", ["ties", "numbers", "infinities"])
@pytest.mark.parametrize("name", MAXIMA)
def test_maxima_of_windows(name: str, values: str) -> None:
    x = (grid(2, 3, 7, 6) / 2).round() if values == "ties" else real(2, 3, 7, 6)
    with_gradient(MAXIMA[name], x if values != "infinities" else torch.where(x < 1, -torch.inf, x))


def test_places_of_maxima() -> None:
    x = (grid(2, 3, 7, 6) / 2).round()
    agree(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), [x])
    agree(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), [x - torch.inf])


def test_places_from_elsewhere_are_unknown() -> None:
    def back(grad: Any, x: Any) -> Any:
        _, places = F.max_pool2d(x, 2, return_indices=True)
        return torch.ops.aten.max_pool2d_with_indices_backward(grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places + 1)

    def other(grad: Any, x: Any) -> Any:
        _, places = F.max_pool2d(x, (1, 2), 2, return_indices=True)
        return torch.ops.aten.max_pool2d_with_indices_backward(grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places)

    for function in (back, other):
        graph = lowered(function, [real(1, 1, 3, 2), real(1, 1, 6, 4)])
        assert any(op.kind.startswith("unknown:") for op in graph.ops)


NORMS: dict[str, Callable[..., Any]] = {
    "batch": lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, True, 0.3), "batch, plain": lambda x, w, b, m, v: F.batch_norm(x + 0 * w.sum() + 0 * b.sum(), m, v, training=True),
    "batch of running": lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, False, 0.3), "batch without running": lambda x, w, b, m, v: F.batch_norm(x, None, None, w, b, True),
    "batch of two dims": lambda x, w, b, m, v: F.batch_norm(x[:, :, 0, 0], m, v, w, b, True),
    "groups": lambda x, w, b, m, v: F.group_norm(x, 3, w, b), "groups of one dim": lambda x, w, b, m, v: F.group_norm(x[..., 0], 2, w, b, 0.1),
    "instances": lambda x, w, b, m, v: F.instance_norm(x, weight=w, bias=b), "instances, running": lambda x, w, b, m, v: F.instance_norm(x, m, v, w, b, True, 0.3),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMS)
def test_statistics_of_batches_and_what_is_kept_of_them(name: str) -> None:
    def both(x: Any, w: Any, b: Any, m: Any, v: Any) -> list[Any]:
        leaves = [a.detach().requires_grad_() for a in (x, w, b)]
        m, v = m * 1, v * 1  # written
        out = NORMS[name](*leaves, m, v)
        weights = (torch.arange(out.numel(), dtype=out.dtype) / 8 + 0.5).reshape(out.shape).sin()
        return [out.detach(), m, v, *torch.autograd.grad((out * weights).sum(), leaves)]

    graph = agree(both, [real(4, 6, 5, 3), real(6), real(6), real(6), real(6).abs() + 0.5], 1e-7)
    assert not [op.kind for op in graph.ops if op.kind.startswith(("unknown:", "custom:"))]
