"""Every lowering computes what torch computes: eager torch against the oracle on the lowered graph."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from scalify_dl.readers.fx import read_text  # noqa: E402

from .torch_eager import agree, run  # noqa: E402

aten = torch.ops.aten


def real(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64)


def positive(*shape: int) -> Any:
    return torch.rand(*shape, dtype=torch.float64) + 0.5


def ints(high: int, *shape: int, low: int = 0) -> Any:
    return torch.randint(low, high, shape)


def mask(*shape: int) -> Any:
    return torch.rand(*shape) > 0.4


bag = torch.nn.functional.embedding_bag


def bag_gradient(g: Any, i: Any, offsets: Any, mode: int, weights: Any = None, padding: int = -1) -> Any:
    kept = aten._embedding_bag(torch.zeros(7, 3, dtype=g.dtype), i, offsets, False, mode, False, weights, False, padding)
    return aten._embedding_bag_backward(g, i, offsets, *kept[1:], 7, False, mode, False, weights, padding)


Case = tuple[str, Callable[..., Any], Callable[[], list[Any]]]


def case(name: str, function: Callable[..., Any], make: Callable[[], list[Any]]) -> Case:
    return name, function, make


def with_number(function: Callable[..., Any], number: float) -> Callable[[Any], Any]:
    return lambda x: function(x, number)


UNARY = [
    "exp", "expm1", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "neg", "abs", "sign", "floor", "ceil", "trunc", "relu",
    "round", "reciprocal", "square", "exp2", "silu", "isfinite", "isnan", "isinf", "softplus",
    "leaky_relu", "elu", "relu6", "hardtanh", "positive", "detach", "clone", "alias", "gelu", "log_sigmoid_forward",
]  # fmt: skip
POSITIVE = ["lgamma", "log", "log1p", "log2", "log10", "sqrt", "rsqrt"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "atan2", "remainder", "fmod", "floor_divide", "rsub"]
COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]

CASES: list[Case] = [
    *[case(n, getattr(aten, n), lambda: [real(3, 4)]) for n in UNARY if n != "log_sigmoid_forward"],
    case("log_sigmoid", lambda x: torch.nn.functional.logsigmoid(x), lambda: [real(5)]),
    case("chunk_cat", lambda a, b: aten._chunk_cat([a, b], 0, 2), lambda: [real(5, 3), real(4)]),
    case("chunk_cat_in_another_type", lambda a, b: aten._chunk_cat.out([a.bfloat16(), b.bfloat16()], 0, 2, out=a.new_empty(2, 11)), lambda: [(real(5, 3) * 4).round(), real(4).round()]),
    case("chunk_cat_of_few", lambda a, b: aten._chunk_cat([a, b], 0, 4), lambda: [real(1, 3), real(5)]),
    case("chunk_cat_inside", lambda a, b: aten._chunk_cat([a, b], 1, 2), lambda: [real(4, 5, 2), real(4, 3)]),
    case("gelu_tanh", lambda x: aten.gelu(x, approximate="tanh"), lambda: [real(6)]),
    case("gelu_backward", aten.gelu_backward, lambda: [real(6), real(6)]),
    case("gelu_backward_tanh", lambda g, x: aten.gelu_backward(g, x, approximate="tanh"), lambda: [real(6), real(6)]),
    *[case(n, getattr(aten, n), lambda: [positive(3, 4)]) for n in POSITIVE],
    *[case(n, getattr(aten, n), lambda: [real(3, 4), real(4)]) for n in BINARY],
    *[case(f"{n}_scalar", with_number(getattr(aten, n), 3), lambda: [real(3, 4)]) for n in BINARY if n not in ("maximum", "minimum", "atan2")],
    *[case(f"{n}_ints", getattr(aten, n), lambda: [ints(9, 3, 4, low=-9), ints(5, 4, low=1)]) for n in BINARY if n != "atan2"],
    *[case(n, getattr(aten, n), lambda: [ints(4, 5), ints(4, 5)]) for n in COMPARE],
    case("compare_scalar", lambda x: x < 2, lambda: [ints(4, 5)]),
    case("mixed_dtypes", lambda a, b, c: (a + b, b * c, a * c, c + c, a / b, b / 2, c * 3), lambda: [torch.randn(3), ints(5, 3, low=1), mask(3)]),
    case("zero_dim_promotion", lambda a, b: (a + b, a * 2, b + 1.5), lambda: [ints(5, 3), torch.tensor(2.5)]),
    case("bool_arithmetic", lambda a, b: (a + b, a * b, a | b, a & b, a ^ b, ~a), lambda: [mask(6), mask(6)]),
    case("int_bits", lambda a, b: (a | b, a & b, a ^ b, ~a, a << 2, a >> 1), lambda: [ints(64, 6), ints(64, 6)]),
    case("logical", lambda a, b: (aten.logical_and(a, b), aten.logical_or(a, b), aten.logical_not(a)), lambda: [ints(2, 6), ints(2, 6)]),
    case("div_floor", lambda a, b: aten.div(a, b, rounding_mode="floor"), lambda: [real(5), real(5)]),
    case("div_trunc", lambda a, b: aten.div(a, b, rounding_mode="trunc"), lambda: [real(5), real(5)]),
    case("div_trunc_ints", lambda a, b: aten.div(a, b, rounding_mode="trunc"), lambda: [ints(9, 5, low=-9), ints(4, 5, low=1)]),
    case("add_alpha", lambda a, b: aten.add(a, b, alpha=0.5) + aten.sub(a, b, alpha=2), lambda: [real(5), real(5)]),
    *[case(f"pow_{p}", with_number(torch.pow, p), lambda: [positive(4)]) for p in (0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 2.5, 1.0)],
    case("pow_tensors", lambda x, y: x**y, lambda: [positive(4), real(4)]),
    case("pow_base", lambda y: 2.0**y, lambda: [real(4)]),
    case("pow_ints", lambda x: x**3, lambda: [ints(5, 4)]),
    case("where", lambda m, x, y: torch.where(m, x, y), lambda: [mask(3, 1), real(3, 4), real(4)]),
    case("where_scalar", lambda m, x: torch.where(m, x, 0.0), lambda: [mask(3, 4), real(3, 4)]),
    case("masked_fill", lambda x, m: x.masked_fill(m, -1e4), lambda: [real(2, 3, 4), mask(3, 4)]),
    case("clamp", lambda x: x.clamp(-0.5, 0.5), lambda: [real(9)]),
    case("clamp_min", lambda x: aten.clamp_min(x, 0.1), lambda: [real(9)]),
    case("addcmul", lambda x, y, z: aten.addcmul(x, y, z, value=0.5), lambda: [real(3), real(3), real(3)]),
    case("addcdiv", lambda x, y, z: aten.addcdiv(x, y, z, value=0.5), lambda: [real(3), real(3), positive(3)]),
    case("threshold_of_integers", lambda x: aten.threshold_backward(x, x, -1.5),
         lambda: [torch.tensor([-2, -1, 0, 3], dtype=torch.int32)]),
    case("lerp", lambda x, y: aten.lerp(x, y, 0.3), lambda: [real(3), real(3)]),
    case("silu_backward", aten.silu_backward, lambda: [real(6), real(6)]),
    case("sigmoid_backward", aten.sigmoid_backward, lambda: [real(6), real(6)]),
    case("tanh_backward", aten.tanh_backward, lambda: [real(6), real(6)]),
    case("threshold_backward", lambda g, x: aten.threshold_backward(g, x, 0), lambda: [real(6), real(6)]),
    # views
    case("view", lambda x: x.view(2, -1, 2), lambda: [real(4, 6)]),
    case("views", lambda x: x.t().unsqueeze(1).expand(6, 3, 4).permute(2, 0, 1).reshape(4, 18).squeeze(), lambda: [real(4, 6)]),
    case("flatten", lambda x: (x.flatten(1), x.unflatten(2, (2, 2)), x.flatten()), lambda: [real(2, 3, 4)]),
    case("transpose", lambda x: (x.transpose(0, -1), x.mT, x.movedim(0, 1)), lambda: [real(2, 3, 4)]),
    case("slices", lambda x: (x[1:3], x[:, ::2], x[..., -1], x[-2:, 1], x.narrow(1, 1, 2)), lambda: [real(4, 5)]),
    case("split", lambda x: (x.split(2, 1)[1], x.split([1, 4], 1)[0], x.chunk(3)[1], x.unbind(1)[3]), lambda: [real(4, 5)]),
    case("cat", lambda x, y: (torch.cat([x, y], -1), torch.stack([x, x * 2], 1)), lambda: [real(2, 3), real(2, 3)]),
    case("cat_of_split", lambda x: torch.cat(x.split(2, 0), 2), lambda: [real(6, 3, 4)]),
    case("cat_of_split_before", lambda x: torch.cat(x.split(2, 2), 0), lambda: [real(6, 3, 4)]),
    case("cat_of_split_same", lambda x: torch.cat(x.split(2, 1), 1), lambda: [real(6, 4)]),
    case("cat_with_zeros", lambda x: torch.cat([torch.zeros_like(x), x, x.new_zeros(2, 5)[:, :3]], 0), lambda: [real(4, 3)]),
    case("cat_swapped", lambda x: torch.cat([x[2:], x[:2]], 0), lambda: [real(4, 3)]),
    case("slice_scatter", lambda x, y: aten.slice_scatter(x, y, 1, 1, 3), lambda: [real(2, 5), real(2, 2)]),
    case("slice_scatter_every", lambda x, y: (aten.slice_scatter(x, y, 1, 1, None, 2), aten.slice_scatter(x, y[:, :2], 1, 1, 5, 3)), lambda: [real(2, 6), real(2, 3)]),
    case("slice_scatter_every_of_masks", lambda x, y: aten.slice_scatter(x, y, 1, 1, 5, 3), lambda: [mask(2, 6), mask(2, 2)]),
    case("select_scatter", lambda x, y: aten.select_scatter(x, y, 0, -1), lambda: [real(3, 5), real(5)]),
    case("slice_backward", lambda g: aten.slice_backward(g, [2, 9], 1, 1, 8, 3), lambda: [real(2, 3)]),
    case("slice_backward_end", lambda g: aten.slice_backward(g, [2, 9], 1, 0, -1, 1), lambda: [real(2, 8)]),
    case("slice_backward_of_nothing", lambda g: aten.slice_backward(g, [4, 3], 0, -1, 0, 1), lambda: [real(1, 3)]),
    case("slice_backward_stretched", lambda g: aten.slice_backward(g, [2, 9], 1, 1, 8, 3), lambda: [real(2, 1)]),
    case("select_backward", lambda g: aten.select_backward(g, [3, 4], 1, 2), lambda: [real(3)]),
    case("pad", lambda x: aten.constant_pad_nd(x, [1, 2, 0, 1], 7.0), lambda: [real(3, 4)]),
    case("pixel_shuffle", lambda x: (aten.pixel_shuffle(x, 2), aten.pixel_unshuffle(aten.pixel_shuffle(x, 2), 3), aten.channel_shuffle(x, 4)), lambda: [real(2, 12, 3, 6)]),
    case("means_of_blocks", lambda x: (aten._adaptive_avg_pool2d(x, [2, 3]), aten._adaptive_avg_pool2d(x[0], [4, 1])), lambda: [real(2, 3, 4, 6)]),
    case("means_of_blocks_back", lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), lambda: [real(2, 3, 2, 3), real(2, 3, 4, 6)]),
    case("pixels_repeated", lambda x: (aten.upsample_nearest2d(x, [6, 10]), aten.upsample_nearest2d(x, [3, 20], 1.0, 4.0), aten.upsample_nearest2d(x, [21, 55])), lambda: [real(2, 2, 3, 5)]),
    case("pixels_repeated_back", lambda g: aten.upsample_nearest2d_backward(g, [6, 10], [2, 3, 2, 5]), lambda: [real(2, 3, 6, 10)]),
    case("unsafe_split", lambda x: (*aten.unsafe_split(x, 2, 1), *aten.unsafe_split_with_sizes(x, [1, 4], 1), *aten.unsafe_chunk(x, 3, 1)), lambda: [real(3, 5)]),
    case("unsafe_split_written", lambda x: (y := aten.clone(x), [aten.sigmoid_(part) for part in aten.unsafe_split(y, 2, 1)[1:]], aten.neg(y))[2], lambda: [real(3, 5)]),
    case("pixel_unshuffle_of_nothing", lambda x: aten.pixel_unshuffle(x, 2), lambda: [real(3, 4, 0)]),
    case("windows_of_a_dim", lambda x: (aten.unfold(x, 1, 3, 2), aten.unfold(x, -1, 2, 2), aten.unfold(x, 0, 2, 1)), lambda: [real(2, 6, 4)]),
    case("windows_of_nothing", lambda x, y: (aten.unfold(x, 1, 0, 2), aten.unfold_copy(x, -1, 0, 1), aten.unfold(y, 0, 0, 1), aten.unfold(y, 0, 1, 1)), lambda: [real(2, 6), real()]),
    case("patches_side_by_side", lambda x: aten.im2col(x, [2, 3], [1, 1], [0, 0], [2, 3]), lambda: [real(2, 3, 4, 6)]),
    case("patches", lambda x: (aten.im2col(x, [2, 3], [2, 1], [1, 0], [1, 2]), aten.im2col(x[0], [3, 3], [1, 1], [1, 1], [1, 1])), lambda: [real(2, 3, 5, 7)]),
    case("patches_back", lambda x: aten.col2im(x, [5, 7], [2, 3], [2, 1], [1, 0], [1, 2]), lambda: [real(2, 18, 15)]),
    case("patches_back_side_by_side", lambda x: aten.col2im(x, [4, 6], [2, 3], [1, 1], [0, 0], [2, 3]), lambda: [real(2, 18, 4)]),
    case("flip_roll", lambda x: (x.flip(0, -1), x.roll(1, 0), x.roll((2, -1), (0, 1)), x.roll(3)), lambda: [real(4, 5)]),
    case("repeat", lambda x: (x.repeat(2, 1, 3), x.repeat(2, 2)), lambda: [real(2, 3)]),
    case("repeat_interleave", lambda x: x.repeat_interleave(3, 1), lambda: [real(2, 4, 3)]),
    case("to", lambda x: (x.to(torch.float32), x.long(), x.bool(), x.to(torch.int32).double()), lambda: [real(4) * 3]),
    case("to_device", lambda x: (aten.to.device(x, "cpu", torch.float32), aten.to.device(x, "cpu", torch.int64)), lambda: [real(4) * 3]),
    case("copy", lambda x, y: aten.copy(x, y), lambda: [torch.zeros(3, 4), real(4)]),
    case("complex", lambda x: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(x * 2)), lambda: [real(3, 2)]),
    case("tril", lambda x: (x.tril(), x.triu(1), x.tril(-1)), lambda: [real(4, 5)]),
    # creation
    case("arange", lambda x: (torch.arange(5) * x, torch.arange(2, 12, 2), torch.arange(0, 1, 0.25, dtype=torch.float64)), lambda: [ints(9, 5)]),
    case("full", lambda x: (torch.full((2, 3), 1.5), x.new_zeros(2), torch.ones_like(x), torch.zeros(2, dtype=torch.long), torch.full_like(x, 2), x.new_full((2, 2), 3.0)), lambda: [real(3)]),
    case("eye", lambda x: torch.eye(3, dtype=torch.float64) + x, lambda: [real(3)]),
    case("scalar_tensor", lambda x: aten.scalar_tensor(float("-inf")) < x, lambda: [real(3)]),
    case("one_hot", lambda x: (x.unsqueeze(-1) == torch.arange(4)).long(), lambda: [ints(4, 3)]),
    # contractions
    case("mm", torch.mm, lambda: [real(3, 4), real(4, 5)]),
    case("mv_dot", lambda a, b, v: (a @ v, v @ v, v @ b, v @ a.t()), lambda: [real(3, 4), real(4, 4), real(4)]),
    case("bmm", torch.bmm, lambda: [real(2, 3, 4), real(2, 4, 5)]),
    case("matmul", torch.matmul, lambda: [real(2, 1, 3, 4), real(5, 4, 2)]),
    case("addmm", lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), lambda: [real(5), real(3, 4), real(4, 5)]),
    case("baddbmm", lambda b, x, y: torch.baddbmm(b, x, y, beta=0.0, alpha=0.3), lambda: [real(2, 3, 5), real(2, 3, 4), real(2, 4, 5)]),
    case("linear", torch.nn.functional.linear, lambda: [real(2, 3, 4), real(5, 4), real(5)]),
    case("outer", torch.outer, lambda: [real(3), real(4)]),
    case("conv2d", lambda x, w, b: torch.nn.functional.conv2d(x, w, b, 2, 1, 1, 2), lambda: [real(2, 4, 7, 6), real(6, 2, 3, 3), real(6)]),
    case("conv1d", lambda x, w: torch.nn.functional.conv1d(x, w, None, 1, 2, 2), lambda: [real(2, 3, 9), real(5, 3, 3)]),
    # reductions
    case("sum", lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)), lambda: [real(2, 3, 4)]),
    case("sum_bool", lambda m: (m.sum(), m.sum(0)), lambda: [mask(3, 4)]),
    case("mean", lambda x: (x.mean(), x.mean(-1, keepdim=True), x.mean((0, 1))), lambda: [real(2, 3, 4)]),
    case("extrema", lambda x: (x.amax(1), x.amin((0, 1)), x.max(), x.min(), *x.max(1), *x.min(0, keepdim=True)), lambda: [real(3, 4)]),
    case("arg", lambda x: (x.argmax(1), x.argmin(0, keepdim=True), x.argmax()), lambda: [real(3, 4)]),
    case("any_all", lambda m: (m.any(), m.all(1), m.any(0)), lambda: [mask(3, 4)]),
    case("var", lambda x: (x.var(1), x.std(0, correction=0), x.var(), *torch.var_mean(x, 1, keepdim=True)), lambda: [real(3, 4)]),
    case("prod", lambda x: (x.prod(), x.prod(1)), lambda: [real(3, 4)]),
    case("norms", lambda x: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1, 1), torch.linalg.vector_norm(x, float("inf"))), lambda: [real(3, 4)]),
    case("logaddexp", lambda x, y: torch.logaddexp(x, y), lambda: [real(3, 4), real(4)]),
    case("logsumexp", lambda x: (x.logsumexp(1), x.logsumexp((0, 1), True)), lambda: [real(3, 4)]),
    case("logcumsumexp", lambda x, far: (x.logcumsumexp(1), x.logcumsumexp(0), (x * far).logcumsumexp(1)), lambda: [real(3, 4), torch.tensor([1.0, 2000, 1, 1])]),
    case("logcumsumexp_infinite", lambda x: x.logcumsumexp(0), lambda: [torch.tensor([-float("inf"), -float("inf"), 1.0, -float("inf"), 2.0])]),
    case("cumsum", lambda x: (x.cumsum(1), x.cumprod(0)), lambda: [real(3, 4)]),
    case("diff", lambda x, y: (x.diff(), x.diff(2, 0), x.diff(dim=1, prepend=y)), lambda: [real(4, 5), real(4, 1)]),
    case("diff_masks", lambda x: x.diff(), lambda: [mask(5)]),
    case("cumsum_ints", lambda x: x.cumsum(0), lambda: [mask(5)]),
    # normalisation and losses
    case("softmax", lambda x: (x.softmax(1), x.log_softmax(0)), lambda: [real(3, 4)]),
    case("safe_softmax", lambda x, m: aten._safe_softmax(torch.where(m, x, float("-inf")), 1), lambda: [real(3, 4), torch.tensor([[True] * 4, [False] * 4, [True, False, True, False]])]),
    case("softmax_backward", lambda g, x: (aten._softmax_backward_data(g, x.softmax(1), 1, torch.float64), aten._log_softmax_backward_data(g, x.log_softmax(1), 1, torch.float64)), lambda: [real(3, 4), real(3, 4)]),
    case("layer_norm", lambda x, w, b: torch.native_layer_norm(x, (4,), w, b, 1e-5), lambda: [real(2, 3, 4), real(4), real(4)]),
    case("layer_norm_backward", lambda g, x, w, b: aten.native_layer_norm_backward(g, x, [4], *torch.native_layer_norm(x, (4,), w, b, 1e-5)[1:], w, b, [True, True, True]), lambda: [real(2, 3, 4), real(2, 3, 4), real(4), real(4)]),
    case("rms_norm", lambda x, w: torch.nn.functional.rms_norm(x, (4,), w, 1e-6), lambda: [real(2, 3, 4), real(4)]),
    case("weight_norm", lambda v, g, h: (*aten._weight_norm_interface(v, g, 0), *aten._weight_norm_interface(v, h, 2)), lambda: [real(4, 3, 2), real(4, 1, 1), real(1, 1, 2)]),
    case("weight_norm_backward", lambda w, v, g: aten._weight_norm_interface_backward(w, v, g, v.norm(dim=1, keepdim=True), 0), lambda: [real(4, 3), real(4, 3), real(4, 1)]),
    case("group_norm", lambda x, w, b: aten.native_group_norm(x, w, b, 2, 6, 5, 3, 1e-5), lambda: [real(2, 6, 5), real(6), real(6)]),
    case("nll_loss", lambda x, t: aten.nll_loss_forward(x, t, None, 1, -100), lambda: [real(5, 4), torch.tensor([1, -100, 3, 0, 2])]),
    case("nll_loss_sum", lambda x, t: aten.nll_loss_forward(x, t, None, 2, 1), lambda: [real(5, 4), ints(4, 5)]),
    case("nll_loss_none", lambda x, t: aten.nll_loss_forward(x, t, None, 0, 1)[0], lambda: [real(5, 4), ints(4, 5)]),
    case("nll_loss_backward", lambda g, x, t, w: aten.nll_loss_backward(g, x, t, None, 1, -100, w), lambda: [real(), real(5, 4), torch.tensor([1, -100, 3, 0, 2]), torch.tensor(4.0, dtype=torch.float64)]),
    case("cross_entropy", lambda x, t: torch.nn.functional.cross_entropy(x, t), lambda: [real(5, 4), ints(4, 5)]),
    case("mse", lambda x, y: (torch.nn.functional.mse_loss(x, y), aten.mse_loss_backward(x.sum(), x, y, 1)), lambda: [real(5), real(5)]),
    case("losses_of_mixed_types", lambda x, y: (aten.huber_loss(y, x), aten.mse_loss_backward(x, y, x, 0), aten.smooth_l1_loss_backward(x, y, x, 0, 1.0), aten.soft_margin_loss(y, x), aten.soft_margin_loss_backward(x, y, x, 0)), lambda: [real(5), real(5).float()]),
    case("bce", lambda x, y: torch.nn.functional.binary_cross_entropy_with_logits(x, y), lambda: [real(5), positive(5)]),
    case("native_dropout_backward", lambda g, m: aten.native_dropout_backward(g, m, 1.25), lambda: [real(5), mask(5)]),
    case("dropout_eval", lambda x: aten.native_dropout(x, 0.5, False), lambda: [real(5)]),
    # indexing
    case("embedding", lambda w, i: torch.nn.functional.embedding(i, w), lambda: [real(7, 3), ints(7, 2, 4)]),
    case("embedding_backward", lambda g, i: aten.embedding_dense_backward(g, i, 7, -1, False), lambda: [real(2, 4, 3), ints(7, 2, 4)]),
    case("embedding_backward_padding", lambda g, i: aten.embedding_dense_backward(g, i, 7, 2, False), lambda: [real(9, 3), ints(4, 9)]),
    case("embedding_bag", lambda w, i: bag(i, w), lambda: [real(7, 3), ints(7, 4, 2)]),
    case("embedding_bag_sums", lambda w, i, f: bag(i, w, mode="sum", per_sample_weights=f), lambda: [real(7, 3), ints(7, 4, 2), real(4, 2)]),
    case("embedding_bag_padding", lambda w, i: bag(i, w, padding_idx=2), lambda: [real(3, 3), torch.tensor([[0, 2], [2, 2], [1, 0]])]),
    case("embedding_bag_offsets", lambda w, i, o: (bag(i, w, o), bag(i, w, o, mode="sum", padding_idx=1)), lambda: [real(4, 3), ints(4, 6), torch.tensor([0, 2, 2, 3, 6])]),
    case("embedding_bag_backward", lambda g, i: bag_gradient(g, i.reshape(-1), torch.arange(0, 8, 2), 1), lambda: [real(4, 3), ints(7, 4, 2)]),
    case("embedding_bag_backward_offsets", lambda g, i, o, f: (bag_gradient(g, i, o, 1, None, 2), bag_gradient(g, i, o, 0, f)), lambda: [real(5, 3), ints(7, 6), torch.tensor([0, 2, 2, 3, 6]), real(6)]),
    case("index_one", lambda x, i: x[i], lambda: [real(5, 3), ints(5, 2, 4, low=-5)]),
    case("index_second", lambda x, i: x[:, i], lambda: [real(2, 5, 3), ints(5, 4)]),
    case("index_two", lambda x, i, j: x[i, j], lambda: [real(5, 6, 3), ints(5, 4), ints(6, 2, 4, low=-6)]),
    case("index_apart", lambda x, i, j: x[i, :, j], lambda: [real(5, 6, 3), ints(5, 4), ints(3, 4)]),
    case("index_middle", lambda x, i, j: x[:, i, j], lambda: [real(2, 5, 6, 3), ints(5, 4), ints(6, 4)]),
    case("index_rows", lambda x, i: x[torch.arange(4), i], lambda: [real(4, 6), ints(6, 4)]),
    case("index_rows_more", lambda x, i: x[torch.arange(4)[:, None], i], lambda: [real(4, 6, 2), ints(6, 4, 3)]),
    case("index_rows_second", lambda x, i: x[i, torch.arange(6)], lambda: [real(4, 6, 2), ints(4, 6)]),
    case("index_positions", lambda x: x[torch.arange(2)[:, None, None, None], torch.arange(5)[None, None, None, :] + 0], lambda: [mask(2, 5)]),
    case("index_positions_swapped", lambda x: x[torch.arange(2), torch.arange(5)[:, None]], lambda: [real(2, 5, 3)]),
    case("index_positions_offset", lambda x: x[torch.arange(3) + 2], lambda: [real(7, 2)]),
    case("index_diagonal", lambda x: x[torch.arange(4), torch.arange(4)], lambda: [real(4, 6)]),
    case("index_positions_middle", lambda x: x[:, torch.arange(3) + 1, torch.arange(2)[:, None]], lambda: [real(2, 5, 4, 3)]),
    case("index_put_mask", lambda x, m: aten.index_put(x, [m], torch.zeros((), dtype=torch.float64) + x.sum()), lambda: [real(3, 4), mask(3, 4)]),
    case("index_put_mask_rows", lambda x, m: aten.index_put(x, [m], x.sum()), lambda: [real(3, 4), mask(3)]),
    case("index_put_ints", lambda x, i, v: aten.index_put(x, [i], v), lambda: [real(6, 4), torch.tensor([1, -1, 3]), real(3, 4)]),
    case("index_put_accumulate", lambda x, i, v: aten.index_put(x, [i], v, True), lambda: [real(6, 4), ints(6, 9, low=-6), real(9, 4)]),
    case("index_put_two", lambda x, i, j, v: aten.index_put(x, [i, j], v, True), lambda: [real(6, 4), ints(6, 9), ints(4, 9), real(9)]),
    case("gather", lambda x, i: (x.gather(1, i), x.gather(0, i[:, :4])), lambda: [real(3, 5), ints(3, 3, 4)]),
    case("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), lambda: [real(3, 5), ints(5, 3, 2)]),
    case("index_select", lambda x, i: x.index_select(1, i), lambda: [real(3, 5), ints(5, 4)]),
    case("scatter_add", lambda x, i, s: (x.scatter_add(1, i, s), x.scatter_add(0, i[:, :5], s)), lambda: [real(3, 5), ints(3, 3, 6), real(3, 6)]),
    case("scatter", lambda x, i, s: (x.scatter(1, i, s), x.scatter(1, i, 2.5)), lambda: [real(3, 5), torch.tensor([[0, 3], [4, 1], [2, 0]]), real(3, 2)]),
    case("scatter_reduce", lambda x, i, s: (x.scatter_reduce(1, i, s, "amax"), x.scatter_reduce(1, i, s, "prod")), lambda: [real(3, 5), ints(5, 3, 6), real(3, 6)]),
    case("scatter_reduce_without_self", lambda x, i, s: tuple(x.scatter_reduce(1, i, s, how, include_self=False) for how in ("sum", "prod", "amax", "amin")), lambda: [real(3, 5), ints(3, 3, 6), real(3, 6)]),
    case("scatter_reduce_integers_without_self", lambda x, i, s: x.scatter_reduce(1, i, s, "amin", include_self=False), lambda: [ints(9, 3, 5), ints(3, 3, 6), ints(9, 3, 6)]),
    case("index_put_unsafe", lambda x, i, v: aten._index_put_impl(x, [i], v, True, True), lambda: [real(6, 4), ints(6, 9), real(9, 4)]),
    case("index_add", lambda x, i, s: x.index_add(1, i, s, alpha=2), lambda: [real(3, 5), ints(5, 4), real(3, 4)]),
    case("topk", lambda x: (*x.topk(2), *x.topk(2, 0)), lambda: [real(4, 5)]),
    case("topk_smallest", lambda x: (*x.topk(2, largest=False), *x.topk(2, 0, False), *x[0, 0].topk(1, largest=False)), lambda: [real(4, 5)]),
    case("sort", lambda x: (*x.sort(), *x.sort(0, True), x.argsort(1)), lambda: [real(4, 5)]),
    case("histc", lambda x: (torch.histc(x, 4, 0, 3), torch.histc(x, 3, -1, 2)), lambda: [ints(6, 40).double() - 1]),
    # attention
    case("sdpa", lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), lambda: [real(2, 3, 5, 4), real(2, 3, 5, 4), real(2, 3, 5, 4)]),
    case("flash", lambda q, k, v, m: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=m, scale=0.3), lambda: [real(2, 3, 5, 4), real(2, 3, 6, 4), real(2, 3, 6, 4), real(2, 1, 5, 6)]),
    case(
        "flash_backward",
        lambda g, q, k, v, m: aten._scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, *aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=m), 0.0, False, attn_mask=m),
        lambda: [real(2, 3, 5, 4), real(2, 3, 5, 4), real(2, 3, 6, 4), real(2, 3, 6, 4), real(2, 1, 5, 6)],
    ),
    case("flash_shared_keys", lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True), lambda: [real(2, 6, 5, 4), real(2, 2, 5, 4), real(2, 2, 5, 4)]),
    case(
        "flash_shared_keys_backward",
        lambda g, q, k, v: aten._scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, *aten._scaled_dot_product_flash_attention_for_cpu(q, k, v), 0.0, False),
        lambda: [real(2, 6, 5, 4), real(2, 6, 5, 4), real(2, 2, 7, 4), real(2, 2, 7, 4)],
    ),
]  # fmt: skip


def add_in_place(x: Any) -> Any:
    y = x.clone()
    y.add_(1)
    return y * 2


def write_a_slice(x: Any) -> Any:
    y = x.clone()
    v = y[1:3]
    v.mul_(2)
    return y, v


def write_a_row_of_a_transpose(x: Any) -> Any:
    y = x.clone()
    v = y.t()
    w = y.view(-1)
    v[0].add_(5)
    return y, v, w


def write_a_column_and_everything(x: Any, z: Any) -> Any:
    y = x.clone()
    y[:, 1].copy_(z)
    y.unsqueeze(0).relu_()
    return y.sum(0), y


def write_by_masks(x: Any, m: Any) -> Any:
    y = x.clone()
    y[m] = 0.0
    y.masked_fill_(m, 3.0)
    return y


def write_twice_beside_a_view(x: Any) -> Any:
    y = torch.zeros_like(x)
    a = y.permute(1, 0)
    y.add_(x)
    b = a + 1
    y.zero_()
    return a, b, y


def write_by_index(x: Any, i: Any, v: Any) -> Any:
    y = x.clone()
    y.index_put_([i], v)
    y.scatter_(0, i[:, None].expand(3, 4), 1.5)
    return y


IN_PLACE: list[Case] = [
    case("add", add_in_place, lambda: [real(4, 4)]),
    case("slice", write_a_slice, lambda: [real(4, 4)]),
    case("row_of_transpose", write_a_row_of_a_transpose, lambda: [real(4, 4)]),
    case("column", write_a_column_and_everything, lambda: [real(4, 4), real(4)]),
    case("mask", write_by_masks, lambda: [real(4, 4), mask(4, 4)]),
    case("twice", write_twice_beside_a_view, lambda: [real(4, 4)]),
    case("index", write_by_index, lambda: [real(4, 4), torch.tensor([0, 2, 3]), real(3, 4)]),
]


@pytest.mark.parametrize(("function", "make"), [pytest.param(f, m, id=name) for name, f, m in IN_PLACE])
def test_writes_in_place_are_values(function: Callable[..., Any], make: Callable[[], list[Any]]) -> None:
    torch.manual_seed(7)
    agree(function, make(), 1e-9)


@pytest.mark.parametrize(("function", "make"), [pytest.param(f, m, id=name) for name, f, m in CASES])
def test_lowering_agrees_with_torch(function: Callable[..., Any], make: Callable[[], list[Any]]) -> None:
    torch.manual_seed(7)
    graph = agree(function, make(), 1e-6)
    assert not [op.kind for op in graph.ops if op.kind.startswith(("unknown:", "custom:"))]


def grouped(x: Any, w: Any, offs: Any) -> Any:
    """What a grouped product is, group by group."""
    out, start = torch.zeros(x.shape[0], w.shape[2], dtype=x.dtype), 0
    for e, end in enumerate(offs.tolist()):
        out[start:end] = x[start:end] @ w[e]
        start = end
    return out


def test_grouped_product_and_its_gradients() -> None:
    x, w, offs, grad = real(7, 3).requires_grad_(), real(3, 3, 5).requires_grad_(), torch.tensor([2, 2, 6]), real(7, 5)
    text = """class G(torch.nn.Module):
    def forward(self, x: "f64[7, 3]", w: "f64[3, 3, 5]", offs: "i64[3]", grad: "f64[7, 5]"):
        y: "f64[7, 5]" = torch.ops.transformers.grouped_mm_fallback.default(x, w, offs)
        b = torch.ops.transformers.grouped_mm_fallback_backward.default(x, w, offs, grad)
        dx: "f64[7, 3]" = b[0]
        dw: "f64[3, 3, 5]" = b[1];  b = None
        return (y, dx, dw)
"""
    y, dx, dw = run(read_text(text), [x, w, offs, grad])
    expected = grouped(x, w, offs)
    expected.backward(grad)
    for have, want in ((y, expected), (dx, x.grad), (dw, w.grad)):
        torch.testing.assert_close(torch.tensor(have), want.detach())
