"""What op kinds of plans compute, in numpy alone: nothing of the meanings that the fold uses.

`BW.f` gets the gradients of f's results and f's operands, and gives the gradients of those operands that it makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scalify_dl.plans.model import Op

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Unknown(Exception):
    """A kind that the interpreter does not know."""


def computed(op: Op, x: list[Array], shapes: Sequence[Shape], targets: Sequence[int | None]) -> list[Array]:
    """What a local op makes. `targets`: of every result, which operand's gradient it is, where that is said."""
    if op.kind == "local_grad_accumulation":
        return [x[0] + x[1]]
    table = BACKWARD if op.backward else FORWARD
    if op.kind not in table or op.attributes.get("alpha", "1") != "1":
        raise Unknown(f"{'BW.' if op.backward else ''}{op.kind}")
    if not op.backward and op.kind in _OF_ONE and len(x) != 1:
        raise Unknown(f"{op.kind} of {len(x)} operands")
    found = table[op.kind](op, x)
    if len(shapes) == len(found):
        return found
    if len(shapes) == 1 and targets[0] is not None and 0 < targets[0] <= len(found):
        return [found[targets[0] - 1]]
    fitting = [one for one in found if one.shape == shapes[0]]
    if len(shapes) == 1 and (len(fitting) == 1 or (op.kind == "add" and fitting)):
        return fitting[:1]
    raise Unknown(f"{len(shapes)} of {len(found)} gradients of {op.kind}")


def numbers(op: Op, key: str) -> list[int]:
    """The numbers of an attribute."""
    if key not in op.attributes:
        raise Unknown(f"{op.kind} without `{key}`")
    return [int(word) for word in re.findall(r"-?\d+", op.attributes[key])]


def number(op: Op) -> float:
    """The constant argument."""
    if len(op.constants) != 1:
        raise Unknown(f"{len(op.constants)} constants")
    return float(op.constants[0][1])


def fitted(gradient: Array, like: Array) -> Array:
    """The gradient of what was broadcast."""
    while gradient.ndim > like.ndim:
        gradient = gradient.sum(0)
    for d, n in enumerate(like.shape):
        if n == 1 and gradient.shape[d] != 1:
            gradient = gradient.sum(d, keepdims=True)
    return gradient


def _second(op: Op, x: list[Array]) -> Array:
    return x[1] if len(x) == 2 else np.asarray(number(op))


def _rows(op: Op, ids: Array, table: Array) -> tuple[Array, Array]:
    """Row and whether it is there, of every id."""
    start = numbers(op, "start")[0] if "start" in op.attributes else 0
    stop = numbers(op, "stop")[0] if "stop" in op.attributes else table.shape[0]
    ids = ids.astype(int)
    inside = (ids >= start) & (ids < stop)
    return np.where(inside, ids - start, 0), inside


def _embedding(op: Op, x: list[Array]) -> list[Array]:
    rows, inside = _rows(op, *x)
    return [x[1][rows] * inside[..., None]]


def _embedding_back(op: Op, x: list[Array]) -> list[Array]:
    rows, inside = _rows(op, x[1], x[2])
    out = np.zeros_like(x[2])
    np.add.at(out, rows, x[0] * inside[..., None])
    return [out]


def _rotated(x: Array, angles: Array) -> Array:
    pairs = (x[..., ::2] + 1j * x[..., 1::2]) * angles[None, :, None, :]
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softmax(x: Array, dim: int) -> Array:
    e = np.exp(x - x.max(dim, keepdims=True))
    return np.asarray(e / e.sum(dim, keepdims=True))


def _softmax_back(op: Op, x: list[Array]) -> list[Array]:
    y = _softmax(x[1], numbers(op, "dim")[0])
    return [y * (x[0] - (x[0] * y).sum(numbers(op, "dim")[0], keepdims=True))]


def _mask(op: Op, x: list[Array]) -> list[Array]:
    n = x[0].shape[1]
    return [np.triu(np.full((n, n), -1e6), 1).reshape(1, 1, n, n)]


def _mean(op: Op, x: list[Array]) -> list[Array]:
    return [x[0].mean(tuple(numbers(op, "dim")), keepdims=op.attributes.get("keepdim") == "True")]


def _mean_back(op: Op, x: list[Array]) -> list[Array]:
    dims = [d % x[1].ndim for d in numbers(op, "dim")]
    kept = x[0].reshape([1 if d in dims else n for d, n in enumerate(x[1].shape)])
    return [np.broadcast_to(kept / np.prod([x[1].shape[d] for d in dims]), x[1].shape)]


def _linear_back(op: Op, x: list[Array]) -> list[Array]:
    rows, ins = x[0].reshape(-1, x[0].shape[-1]), x[1].reshape(-1, x[1].shape[-1])
    return [x[0] @ x[2], rows.T @ ins]


def _mul_back(op: Op, x: list[Array]) -> list[Array]:
    if len(x) == 2:
        return [x[0] * number(op)]
    return [fitted(x[0] * x[2], x[1]), fitted(x[0] * x[1], x[2])]


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _silu_slope(x: Array) -> Array:
    s = _sigmoid(x)
    return np.asarray(s * (1 + x * (1 - s)))


def _swap(op: Op, x: Array) -> Array:
    return np.swapaxes(x, numbers(op, "dim0")[0], numbers(op, "dim1")[0])


def _whole_sum(x: Array) -> Array:
    return np.asarray(x.sum())


def _parts(op: Op, x: Array) -> list[Array]:
    dim, size = numbers(op, "dim")[0], numbers(op, "split_size_or_sections")
    ends = np.cumsum(size)[:-1] if len(size) > 1 else range(size[0], x.shape[dim], size[0])
    return np.split(x, list(ends), dim)


def _joined_back(op: Op, x: list[Array]) -> list[Array]:
    dim = numbers(op, "dim")[0]
    return np.split(x[0], np.cumsum([y.shape[dim] for y in x[1:]])[:-1], dim)


def _kept(op: Op, x: Array) -> Array:
    """Which scores are among the largest of their token."""
    return np.asarray(x >= np.sort(x, -1)[..., -numbers(op, "k")[0], None])


def _gate(op: Op, x: list[Array]) -> list[Array]:
    some = np.where(_kept(op, x[0]), x[0], 0)
    return [some / some.sum(-1, keepdims=True)]


def _gate_back(op: Op, x: list[Array]) -> list[Array]:
    """Of y = s / sum(s): (g - sum(g y)) / sum(s) where the score is kept."""
    (y,), kept = _gate(op, x[1:]), _kept(op, x[1])
    total = np.where(kept, x[1], 0).sum(-1, keepdims=True)
    return [kept * (x[0] - (x[0] * y).sum(-1, keepdims=True)) / total]


def _experts(op: Op, x: list[Array]) -> list[Array]:
    """Expert by expert: its gate times w2 (silu(w1 x) * w3 x)."""
    tokens, gates, w1, w2, w3 = x
    each = [_silu(tokens @ a.T) * (tokens @ c.T) @ b.T for a, b, c in zip(w1, w2, w3, strict=True)]
    return [np.asarray(sum(gates[..., n, None] * y for n, y in enumerate(each)))]


def _experts_back(op: Op, x: list[Array]) -> list[Array]:
    g, tokens, gates, w1, w2, w3 = x
    out: list[list[Array]] = [[], [], [], [], []]
    for n, (a, b, c) in enumerate(zip(w1, w2, w3, strict=True)):
        one, three = tokens @ a.T, tokens @ c.T
        inner, asked = _silu(one) * three, g @ b
        d = asked * gates[..., n, None]
        d_one, d_three = d * three * _silu_slope(one), d * _silu(one)
        flat = [y.reshape(-1, y.shape[-1]) for y in (d_one, d_three, tokens, g, inner * gates[..., n, None])]
        found = (d_one @ a + d_three @ c, (asked * inner).sum(-1), flat[0].T @ flat[2], flat[3].T @ flat[4])
        for part, y in zip(out, (*found, flat[1].T @ flat[2]), strict=True):
            part.append(y)
    return [np.asarray(sum(out[0])), np.stack(out[1], -1), *map(np.stack, out[2:])]


_OF_ONE = frozenset(
    """silu sigmoid sum multiref pow rsqrt mean softmax transpose unsqueeze expand view reshape identity contiguous
    float to div split moe_gate""".split()  # noqa: SIM905
)
"""Forward kinds of one operand."""
Kind = Callable[[Op, list[Array]], list[Array]]
FORWARD: dict[str, Kind] = {
    "linear": lambda op, x: [x[0] @ x[1].T],
    "matmul": lambda op, x: [x[0] @ x[1]],
    "silu": lambda op, x: [_silu(x[0])],
    "sigmoid": lambda op, x: [_sigmoid(x[0])],
    "sum": lambda op, x: [_whole_sum(x[0])],
    "multiref": lambda op, x: [x[0]] * len(op.makes),
    "add": lambda op, x: [x[0] + _second(op, x)],
    "sub": lambda op, x: [x[0] - _second(op, x)],
    "mul": lambda op, x: [x[0] * _second(op, x)],
    "div": lambda op, x: [x[0] / number(op)],
    "pow": lambda op, x: [x[0] ** number(op)],
    "rsqrt": lambda op, x: [1 / np.sqrt(x[0])],
    "mean": _mean,
    "softmax": lambda op, x: [_softmax(x[0], numbers(op, "dim")[0])],
    "embedding": _embedding,
    "create_mask": _mask,
    "apply_mask": lambda op, x: [x[0] + x[1]],
    "apply_rotary_emb": lambda op, x: [_rotated(x[0], x[2]), _rotated(x[1], x[2])],
    "transpose": lambda op, x: [_swap(op, x[0])],
    "unsqueeze": lambda op, x: [np.expand_dims(x[0], numbers(op, "dim")[0])],
    "expand": lambda op, x: [np.broadcast_to(x[0], numbers(op, "size"))],
    "view": lambda op, x: [x[0].reshape(numbers(op, "size"))],
    "split": lambda op, x: _parts(op, x[0]),
    "cat": lambda op, x: [np.concatenate(x, numbers(op, "dim")[0])],
    "moe_gate": _gate,
    "moe_experts": _experts,
    **dict.fromkeys(("identity", "contiguous", "float", "to", "IdentityPrim"), lambda op, x: [x[0]]),
}
FORWARD["reshape"] = FORWARD["view"]
BACKWARD: dict[str, Kind] = {
    "linear": _linear_back,
    "matmul": lambda op, x: [x[0] @ np.swapaxes(x[2], -1, -2), np.swapaxes(x[1], -1, -2) @ x[0]],
    "silu": lambda op, x: [x[0] * _silu_slope(x[1])],
    "sigmoid": lambda op, x: [x[0] * _sigmoid(x[1]) * (1 - _sigmoid(x[1]))],
    "sum": lambda op, x: [x[0].reshape(()) * np.ones_like(x[1])],
    "multiref": lambda op, x: [sum(x[1:], x[0])],
    "add": lambda op, x: [fitted(x[0], y) for y in x[1:]],
    "mul": _mul_back,
    "div": lambda op, x: [x[0] / number(op)],
    "pow": lambda op, x: [x[0] * number(op) * x[1] ** (number(op) - 1)],
    "rsqrt": lambda op, x: [x[0] * -0.5 * x[1] ** -1.5],
    "mean": _mean_back,
    "softmax": _softmax_back,
    "embedding": _embedding_back,
    "apply_mask": lambda op, x: [x[0]],
    "apply_rotary_emb": lambda op, x: [_rotated(x[0], x[4].conj()), _rotated(x[1], x[4].conj())],
    "transpose": lambda op, x: [_swap(op, x[0])],
    "expand": lambda op, x: [fitted(x[0], x[1])],
    "split": lambda op, x: [np.concatenate(x[:-1], numbers(op, "dim")[0])],
    "cat": _joined_back,
    "moe_gate": _gate_back,
    "moe_experts": _experts_back,
    **dict.fromkeys(("view", "reshape", "unsqueeze"), lambda op, x: [x[0].reshape(x[1].shape)]),
    **dict.fromkeys(("identity", "contiguous", "float", "to", "IdentityPrim"), lambda op, x: [x[0]]),
}
