"""Recipes of fused ops: normalisations, losses, attention, grouped products, ranges, and the backwards of these."""

from __future__ import annotations

from typing import Any

import torch

from .recipes import recipe
from .world import Var, World, prod

aten = torch.ops.aten

# --- softmax and normalisations --------------------------------------------------------------------------------------


@recipe("aten._softmax", "aten._log_softmax", "aten._safe_softmax")
def softmax(w: World, op: Any) -> dict[str, Any]:
    """The flag is for half input on a GPU; of another type CPU kernels and shapes disagree about the gradient's."""
    x = w.tensor(kinds="f")
    found: dict[str, Any] = {"self": x, "dim": w.dim(w.of(x).dim())}
    return found | ({"dtype": w.rng.choice([None, w.of(x).dtype])} if "safe" in str(op) else {"half_to_float": False})


@recipe("aten._softmax_backward_data", "aten._log_softmax_backward_data")
def softmax_backward(w: World, op: Any) -> dict[str, Any]:
    out = w.tensor(kinds="f")
    dtype = w.of(out).dtype
    d = w.dim(w.of(out).dim())
    return {"grad_output": w.tensor(w.of(out).shape, dtype=dtype), "output": out, "dim": d, "input_dtype": dtype}


def _norm(w: World) -> tuple[list[int], list[int], Any]:
    lead, normalized = w.shape(0, 2), [max(n, 1) for n in w.shape(1, 2)]
    if prod(normalized) == 1:
        normalized[0] = 2
    return lead, normalized, w.dtype("f")


def _uneven(w: World, shape: list[int], dtype: Any, inner: int) -> Var:
    """A value of which no element is the mean of its row of so many: that deviation is rounding alone, which kernels
    round in different ways."""

    def is_even(value: torch.Tensor) -> bool:
        rows = value.reshape(-1, inner).double()
        return bool(rows.numel()) and bool((rows == rows.mean(1, keepdim=True)).any())

    x = w.tensor(shape, dtype=dtype)
    if is_even(w.of(x)):
        x = w.new(shape, dtype)
        for _ in range(20):
            value = (w.permuted(prod(shape)).reshape(shape) ** 2 / 8 - 3).to(dtype)
            if not is_even(value):
                break
        w.program.inputs[-1 - x.number] = value
        w.env[x.number] = value.clone()
    return x


def _perhaps(w: World, shape: list[int], dtype: Any) -> Var | None:
    return w.new(shape, dtype, plain=True) if w.rng.random() < 0.6 else None


@recipe("aten.native_layer_norm", "aten.layer_norm", "aten.rms_norm", "aten._fused_rms_norm")
def norm(w: World, op: Any) -> dict[str, Any]:
    lead, normalized, dtype = _norm(w)
    mixed = dtype in (torch.bfloat16, torch.float16) and w.rng.random() < 0.4 and "layer" in str(op)
    parameters = torch.float32 if mixed else dtype
    found: dict[str, Any] = {
        "input": _uneven(w, [*lead, *normalized], dtype, prod(normalized)),
        "normalized_shape": normalized,
        "weight": w.new(normalized, parameters, plain=True) if mixed else _perhaps(w, normalized, parameters),
        "eps": w.rng.choice([0.125, 0.5]),
    }
    if "layer" in str(op):
        found["bias"] = w.new(normalized, parameters, plain=True) if mixed else _perhaps(w, normalized, parameters)
    elif w.rng.random() < 0.3:
        found["eps"] = None
    return found


@recipe("aten.native_layer_norm_backward", "aten._fused_rms_norm_backward")
def norm_backward(w: World, op: Any) -> dict[str, Any]:
    lead, normalized, dtype = _norm(w)
    x, grad = w.tensor([*lead, *normalized], dtype=dtype), w.tensor([*lead, *normalized], dtype=dtype)
    weight, bias = _perhaps(w, normalized, dtype), _perhaps(w, normalized, dtype)
    statistics = [*lead, *[1] * len(normalized)]
    found: dict[str, Any] = {
        "grad_out": grad, "input": x, "normalized_shape": normalized, "weight": weight,
        "rstd": w.new(statistics, dtype, plain=True),
    }  # fmt: skip
    if "layer" in str(op):
        found |= {"mean": w.new(statistics, dtype, plain=True), "bias": bias, "output_mask": [True, True, True]}
    else:
        found |= {"output_mask": [True, True]}
    if w.rng.random() < 0.3:
        found["output_mask"] = [w.rng.random() < 0.7 for _ in found["output_mask"]]
    return found


@recipe("aten.native_group_norm", "aten.native_group_norm_backward")
def group_norm(w: World, op: Any) -> dict[str, Any]:
    n, groups, each = w.rng.randint(1, 3), w.rng.randint(1, 3), w.rng.randint(1, 2)
    spatial = [max(m, 1) for m in w.shape(0, 2)]
    each += each * prod(spatial) == 1
    channels, dtype = groups * each, w.dtype("f")
    x = _uneven(w, [n, channels, *spatial], dtype, each * prod(spatial))
    found = {
        "input": x, "weight": _perhaps(w, [channels], dtype), "bias": _perhaps(w, [channels], dtype),
        "N": n, "C": channels, "HxW": prod(spatial), "group": groups, "eps": w.rng.choice([0.125, 0.5]),
    }  # fmt: skip
    if "backward" not in str(op):
        return found
    whole, rows = [n, channels, *spatial], [n, groups]
    flat = {"input": whole, "grad_out": whole, "mean": rows, "rstd": rows}
    found |= {name: w.new(shape, w.of(x).dtype, plain=True) for name, shape in flat.items()}  # kernels read them flat
    return {**found, "output_mask": [w.rng.random() < 0.8 for _ in range(3)]}


@recipe("aten.group_norm")
def channels_in_groups(w: World, op: Any) -> dict[str, Any]:
    found = group_norm(w, torch.ops.aten.native_group_norm.default)
    kept = {key: found[key] for key in ("input", "weight", "bias", "eps")}
    return kept | {"num_groups": found["group"], "cudnn_enabled": w.rng.random() < 0.5}


@recipe("aten.instance_norm")
def instance_norm(w: World, op: Any) -> dict[str, Any]:
    """Each channel of each image by itself; nothing is kept of the batch."""
    channels, image, dtype = w.rng.randint(1, 3), [w.rng.randint(2, 3), *w.rng.choice([[], [2]])], w.dtype("f")
    return {
        "input": _uneven(w, [w.rng.randint(1, 2), channels, *image], dtype, prod(image)),
        "weight": _perhaps(w, [channels], dtype), "bias": _perhaps(w, [channels], dtype), "running_mean": None,
        "running_var": None, "use_input_stats": True, "momentum": 0.5, "eps": w.rng.choice([0.125, 0.5]),
        "cudnn_enabled": w.rng.random() < 0.5,
    }  # fmt: skip


@recipe("aten._weight_norm_interface", "aten._weight_norm_interface_backward")
def weight_norm(w: World, op: Any) -> dict[str, Any]:
    """Along the first dim or the last one."""
    shape = [w.rng.randint(1, 3) for _ in range(w.rng.randint(2, 3))]
    dtype, dim = w.rng.choice([torch.float32, torch.float64]), w.rng.choice([0, len(shape) - 1])
    lengths = [n if d == dim else 1 for d, n in enumerate(shape)]
    v, g = (w.new(of, dtype, 0.5, 2.0, plain=True) for of in (shape, lengths))
    if "backward" not in str(op):
        return {"v": v, "g": g, "dim": dim}
    grad, norms = w.new(shape, dtype, plain=True), w.new(lengths, dtype, 0.5, 2.0, plain=True)
    return {"grad_w": grad, "saved_v": v, "saved_g": g, "saved_norms": norms, "dim": dim}


@recipe(
    "aten.native_batch_norm", "aten._native_batch_norm_legit", "aten._native_batch_norm_legit_no_training",
    "aten._native_batch_norm_legit_functional", "aten.native_batch_norm_backward", "aten.batch_norm",
)  # fmt: skip
def batch_norm(w: World, op: Any) -> dict[str, Any]:
    """Weights and statistics are one for each channel: of others kernels read, and write, what is beyond them."""
    n, channels, dtype = w.rng.randint(2, 3), w.rng.randint(1, 3), w.rng.choice([torch.float32, torch.float64])
    shape = [n, channels, *(max(m, 1) for m in w.shape(0, 2))]

    def each(low: float | None = None, high: float | None = None) -> Var:
        return w.new([channels], dtype, low, high, plain=True)

    def perhaps() -> Var | None:
        return each() if w.rng.random() < 0.6 else None

    training = "no_stats" in str(op) or w.rng.random() < 0.7
    kept = not training or "legit" in str(op) or w.rng.random() < 0.5
    found: dict[str, Any] = {
        "input": w.tensor(shape, dtype=dtype), "grad_out": w.tensor(shape, dtype=dtype),
        "weight": perhaps(), "bias": perhaps(), "save_mean": each(), "save_invstd": each(),
        "running_mean": each() if kept else None, "running_var": each(0.0, 4.0) if kept else None,
        "training": training, "train": training, "momentum": w.rng.choice([0.0, 0.5, 1.0]),
        "eps": w.rng.choice([0.125, 0.5]), "output_mask": [w.rng.random() < 0.8 for _ in range(3)],
        "cudnn_enabled": w.rng.random() < 0.5,
    }  # fmt: skip
    statistics = [channels] if training and "no_training" not in str(op) else [0]
    found |= {f"out{k}": w.new(of, dtype) for k, of in enumerate((shape, statistics, statistics))}
    found["out"] = found["out0"]
    if "backward" not in str(op):
        found |= {"save_mean": found["out1"], "save_invstd": found["out2"]}
    return {a.name: found[a.name] for a in op._schema.arguments}


@recipe("aten.native_dropout_backward")
def dropout_backward(w: World, op: Any) -> dict[str, Any]:
    grad = w.tensor(kinds="f")
    return {
        "grad_output": grad,
        "mask": w.tensor(w.of(grad).shape, dtype=torch.bool),
        "scale": w.rng.choice([2.0, 1.25]),
    }


@recipe("aten.native_dropout", "aten.dropout", "aten.feature_dropout")
def dropout(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor([2, *w.shape(1, 2)] if 0 not in w.extents else [2, 3], "f")
    found = {"input": x, "p": w.rng.choice([0.0, 0.5, 1.0]), "train": w.rng.random() < 0.3}
    if str(op).endswith("out"):
        found |= {"out0": w.another(x), "out1": w.new(w.of(x).shape, torch.bool)}
    return found


# --- losses ----------------------------------------------------------------------------------------------------------


def _target(w: World, shape: list[int], classes: int, ignored: int) -> Var:
    var = w.index(shape, classes)
    if shape and prod(shape) and w.rng.random() < 0.5:
        x = w.program.inputs[-1 - var.number]
        x.view(-1)[w.rng.randrange(x.numel())] = ignored
        w.env[var.number] = x.clone()
    return var


@recipe("aten.nll_loss_forward", "aten.nll_loss2d_forward")
@recipe("aten.nll_loss", "aten.nll_loss_nd", "aten.cross_entropy_loss")
def nll(w: World, op: Any) -> dict[str, Any]:
    classes, dtype = w.rng.randint(1, 4), w.dtype("f")
    several = "loss_nd" in str(op) or "cross" in str(op)
    spatial = [2, 3] if "2d" in str(op) else w.rng.choice([[], [], [], [2], [2, 3]]) if several else []
    batch = [w.rng.randint(1, 4)] if "2d" in str(op) or spatial or w.rng.random() < 0.85 else []
    ignored = w.rng.choice([-100, -100, 0, classes - 1])
    found: dict[str, Any] = {
        "self": w.tensor([*batch, classes, *spatial], dtype=dtype),
        "target": _target(w, [*batch, *spatial], classes, ignored),
        "weight": w.tensor([classes], dtype=dtype) if w.rng.random() < 0.3 else None,
        "reduction": w.rng.randint(0, 2),
        "ignore_index": ignored,
    }
    if "cross" in str(op):
        if w.rng.random() < 0.2:  # of probabilities
            shape = list(w.of(found["self"]).shape)
            found |= {"target": w.tensor(shape, dtype=dtype), "ignore_index": -100}
        if w.rng.random() < 0.3:
            found["label_smoothing"] = w.rng.choice([0.25, 0.5])
    return found


@recipe("aten.multi_margin_loss", "aten.multi_margin_loss_backward")
def margins(w: World, op: Any) -> dict[str, Any]:
    rows, classes, dtype = w.rng.randint(1, 3), w.rng.randint(2, 4), w.rng.choice([torch.float32, torch.float64])
    found: dict[str, Any] = {
        "self": w.tensor([rows, classes], dtype=dtype), "target": w.index([rows], classes), "p": w.rng.choice([1, 2]),
        "margin": w.rng.choice([1.0, 0.5, 2.0]), "reduction": w.rng.randint(0, 2),
        "weight": _perhaps(w, [classes], dtype) if w.rng.random() < 0.1 else None,
    }  # fmt: skip
    if "backward" not in str(op):
        return found
    if str(op).endswith("grad_input"):  # sized by the op
        found["grad_input"] = w.new([0], dtype)
    return {"grad_output": w.tensor([rows] if found["reduction"] == 0 else [], dtype=dtype), **found}


@recipe("aten.nll_loss_backward", "aten.nll_loss2d_backward")
def nll_backward(w: World, op: Any) -> dict[str, Any]:
    found = nll(w, "aten.nll_loss2d_forward" if "2d" in str(op) else "aten.nll_loss_forward")
    dtype = w.of(found["self"]).dtype
    grad = list(w.of(found["target"]).shape) if found["reduction"] == 0 else []
    total = w.new([], dtype, 1, 4)
    return {"grad_output": w.tensor(grad, dtype=dtype), **found, "total_weight": total}


@recipe("aten.binary_cross_entropy_with_logits")
def bce(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(kinds="f")
    shape, dtype = w.of(x).shape, w.of(x).dtype
    return {
        "self": x,
        "target": w.new(shape, dtype, 0, 1),
        "weight": _perhaps(w, shape, dtype) if w.rng.random() < 0.3 else None,
        "pos_weight": _perhaps(w, shape, dtype) if w.rng.random() < 0.3 else None,
    }


@recipe("aten.mse_loss", "aten.l1_loss", "aten.mse_loss_backward")
def distance(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(kinds="f")
    shape, dtype = w.of(x).shape, w.of(x).dtype
    found: dict[str, Any] = {"self": x, "target": w.tensor(shape, dtype=dtype), "reduction": w.rng.randint(0, 2)}
    if "backward" in str(op):
        found["grad_output"] = w.tensor(shape if found["reduction"] == 0 else [], dtype=dtype)
    return found


# --- attention and experts -------------------------------------------------------------------------------------------


def _heads(w: World) -> tuple[dict[str, Any], list[int], list[int]]:
    b, h, q, k, d = (w.rng.randint(1, 3) for _ in range(5))
    dtype = w.rng.choice(w.reals)
    d = 8 if dtype in (torch.bfloat16, torch.float16) else d
    lead = [b, h]
    w.special = False
    found = {name: w.new([*lead, n, d], dtype) for name, n in (("query", q), ("key", k), ("value", k))}
    return found, lead, [q, k]


@recipe("aten.scaled_dot_product_attention", "aten._scaled_dot_product_flash_attention_for_cpu")
def attention(w: World, op: Any) -> dict[str, Any]:
    found, lead, scores = _heads(w)
    found |= {
        "is_causal": w.rng.random() < 0.4,
        "scale": w.rng.choice([None, 0.5]),
        "dropout_p": w.rng.choice([0.0] * 9 + [0.5]),
    }
    if not found["is_causal"] and w.rng.random() < 0.5:
        kind = w.of(found["query"]).dtype if "flash" in str(op) or w.rng.random() < 0.5 else torch.bool
        shape = w.rng.choice([[*lead, *scores], [1, 1, *scores], scores])
        found["attn_mask"] = w.tensor(shape, dtype=kind)
    if "flash" not in str(op) and w.rng.random() < 0.2:
        b, h, q, d = w.of(found["query"]).shape
        found["query"] = w.tensor([b, 2 * h, q, d], dtype=w.of(found["key"]).dtype)
        found |= {"enable_gqa": True, "attn_mask": None}
    return found


@recipe("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(w: World, op: Any) -> dict[str, Any]:
    found, lead, scores = _heads(w)
    causal, scale = w.rng.random() < 0.4, w.rng.choice([None, 0.5])
    q, k, v = (w.of(found[name]) for name in ("query", "key", "value"))
    mask = None if causal or w.rng.random() < 0.5 else w.new([*lead, *scores], q.dtype)
    bias = None if mask is None else w.of(mask)
    out, total = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=bias, scale=scale)
    saved = []
    for x in (out, total):
        var = w.new(x.shape, x.dtype)
        w.program.inputs[-1 - var.number] = x.clone(memory_format=torch.contiguous_format)
        w.env[var.number] = x.clone()
        saved.append(var)
    grad = w.tensor(out.shape, dtype=out.dtype)
    return {"grad_out": grad, **found, "out": saved[0], "logsumexp": saved[1], "dropout_p": 0.0, "is_causal": causal,
            "scale": scale, "attn_mask": mask}  # fmt: skip


@recipe("aten._grouped_mm")
def grouped(w: World, op: Any) -> dict[str, Any]:
    """Rows in groups; bf16 alone has a kernel."""
    groups, k, m = w.rng.randint(1, 3), 8, 8
    ends = sorted(w.rng.randint(0, 6) for _ in range(groups))
    ends[-1] = 8
    offs = w.new([groups], torch.int32, 0, 1)
    w.program.inputs[-1 - offs.number] = torch.tensor(ends, dtype=torch.int32)
    w.env[offs.number] = torch.tensor(ends, dtype=torch.int32)
    dtype = torch.bfloat16
    shapes = w.rng.choice([([8, k], [groups, k, m]), ([k, 8], [8, m])])
    return {"self": w.tensor(shapes[0], dtype=dtype), "mat2": w.tensor(shapes[1], dtype=dtype), "offs": offs}


@recipe("aten.histc")
def histogram(w: World, op: Any) -> dict[str, Any]:
    return {"self": w.new(w.shape(), w.rng.choice([torch.float32, torch.float64]), -3, 3), "bins": w.rng.randint(1, 5),
            "min": -2, "max": w.rng.choice([2, 6])}  # fmt: skip


# --- out of nothing --------------------------------------------------------------------------------------------------


@recipe("aten.arange", "prims.iota")
def counted(w: World, op: Any) -> dict[str, Any]:
    rng = w.rng
    if str(op).startswith("prims"):
        return {
            "length": rng.randint(0, 5),
            "start": rng.randint(-3, 3),
            "step": rng.randint(-2, 3),
            "dtype": rng.choice([torch.int64, torch.int32]),
            "device": torch.device("cpu"),
            "requires_grad": False,
        }
    found: dict[str, Any] = {"start": rng.choice([0, 1, -2, 0.5, 250]), "end": rng.choice([0, 3, 5, 4.5, 7])}
    found["end"] += found["start"] if found["start"] == 250 else 0
    if str(op).endswith("start_step"):
        found["step"] = rng.choice([1, 2, 3, 0.5])
        if rng.random() < 0.2:
            found["start"], found["end"], found["step"] = found["end"], found["start"], -found["step"]
    return found


@recipe("aten.empty_strided", "aten.new_empty_strided")
def laid_out(w: World, op: Any) -> dict[str, Any]:
    """Each element at a place of its own: what is written to several at once is not defined."""
    size = w.shape()
    return {"size": size, "stride": [prod(size[d + 1 :]) for d in range(len(size))]}


@recipe("aten.randint", "aten.randint_like")
def whole(w: World, op: Any) -> dict[str, Any]:
    return {"low": 0, "high": 5, "size": w.shape()}


@recipe("aten._fused_adam", "aten._fused_adamw", "aten._fused_sgd")
def stepped(w: World, op: Any) -> dict[str, Any]:
    """Parameters with their gradients and state, all of one dtype and layout; squares are none below zero."""
    dtype, rng = w.dtype("f"), w.rng
    shapes = [w.shape(0, 2) for _ in range(rng.randint(1, 2))]
    amsgrad, momentum = rng.random() < 0.5, rng.choice([0.0, 0.5, 0.875])

    def each(low: float = -4, high: float = 4) -> list[Var]:
        return [w.new(shape, dtype, low, high, plain=True) for shape in shapes]

    found: dict[str, Any] = {"self": each(), "grads": each()}
    if "sgd" in str(op):
        found |= {"momentum_buffer_list": each() if momentum else [], "momentum": momentum}
    else:
        found |= {"exp_avgs": each(), "exp_avg_sqs": each(0), "max_exp_avg_sqs": each(0) if amsgrad else []}
        found |= {"state_steps": [w.new([], torch.float32, 1, 5) for _ in shapes], "amsgrad": amsgrad}
        found |= {"beta1": rng.choice([0.5, 0.875]), "beta2": rng.choice([0.75, 0.5]), "eps": rng.choice([0.5, 0.125])}
    found |= {"weight_decay": rng.choice([0.0, 0.25]), "dampening": rng.choice([0.0, 0.25])}
    rate = w.new([], torch.float64, 0, 1) if "tensor_lr" in str(op) else rng.choice([0.5, 0.125])
    found |= {"lr": rate, "grad_scale": w.new([], torch.float32, 1, 4) if rng.random() < 0.3 else None}
    found["found_inf"] = w.new([], torch.float32, 0, 1) if rng.random() < 0.3 else None
    return {key: value for key, value in found.items() if key in {a.name for a in op._schema.arguments}}


@recipe("aten._foreach_norm")
def lengths(w: World, op: Any) -> dict[str, Any]:
    """Numbers are what it writes: text does not show that a list is resized."""
    xs = [w.tensor(kinds="f") for _ in range(w.rng.randint(1, 2))]
    found: dict[str, Any] = {"self": xs, "ord": w.rng.choice([2, 1, 2.0, float("inf"), 0, 3])}
    wide = w.rng.random() < 0.3 and "dtype" in {a.name for a in op._schema.arguments}
    found["dtype"] = torch.float64 if wide else None
    if "out" in str(op):
        found["out"] = [w.new([], torch.float64 if wide else w.of(x).dtype) for x in xs]
    return found


@recipe("aten.soft_margin_loss", "aten.soft_margin_loss_backward")
def signs(w: World, op: Any) -> dict[str, Any]:
    """Small numbers: the exponential inside of the kernel stays in its type."""
    shape, dtype = w.shape(), w.dtype("f")
    found = {"self": w.new(shape, dtype, -2, 2), "target": w.new(shape, dtype, -1, 1)}
    return found | ({"grad_output": w.new([], dtype)} if "backward" in str(op) else {})


@recipe("aten.binary_cross_entropy")
def shares(w: World, op: Any) -> dict[str, Any]:
    """Probabilities; an `out` is what its kernel keeps the losses in, too, before they are reduced."""
    shape, dtype = w.shape(), w.dtype("f")
    found: dict[str, Any] = {"self": w.new(shape, dtype, 0, 1), "target": w.new(shape, dtype, 0, 1)}
    return found | ({"reduction": 0} if str(op).endswith("out") else {})
