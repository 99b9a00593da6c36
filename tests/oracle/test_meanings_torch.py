"""Numeric meanings against torch eager: ops whose exact form torch defines."""

from __future__ import annotations

import numpy as np
import pytest

from .calls import agrees, run

torch = pytest.importorskip("torch", reason="torch is not installed in this environment")
from torch.nn import functional as F  # noqa: E402

SEEDS = range(8)


def reals(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    return torch.tensor(rng.uniform(-2, 2, shape))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_and_its_gradient_as_torch(approximate: str) -> None:
    kind = "gelu" if approximate == "none" else "gelu-tanh"
    x, grad = reals(np.random.default_rng(0), 50), reals(np.random.default_rng(1), 50)
    agrees(kind, [x], [F.gelu(x, approximate=approximate).numpy()])
    expected = torch.ops.aten.gelu_backward(grad, x, approximate=approximate)
    agrees(f"{kind}-backward", [grad, x], [expected.numpy()])


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("relu", torch.relu),
        ("softplus", F.softplus),
        ("logistic", torch.sigmoid),
        ("erf", torch.erf),
        ("trunc", torch.trunc),
        ("lgamma", torch.lgamma),
    ],
)
def test_activations_as_torch(kind: str, function: object) -> None:
    x = reals(np.random.default_rng(2), 60)
    agrees(kind, [x], [function(x).numpy()])  # type: ignore[operator]


def test_floor_divide_as_torch() -> None:
    rng = np.random.default_rng(3)
    a, b = torch.tensor(rng.integers(-20, 20, 90)), torch.tensor(rng.integers(1, 6, 90) * rng.choice([-1, 1], 90))
    agrees("floor-divide", [a, b], [torch.div(a, b, rounding_mode="floor").numpy()])
    x, y = reals(rng, 40), reals(rng, 40)
    agrees("floor-divide", [x, y], [torch.div(x, y, rounding_mode="floor").numpy()])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("masking", ["none", "causal", "boolean", "additive"])
def test_attention_and_its_gradient_as_torch(seed: int, masking: str) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, head = (int(n) for n in rng.integers(2, 6, 3))
    if masking == "causal":
        columns = rows
    q, k, v = (reals(rng, 2, 3, n, head).requires_grad_() for n in (rows, columns, columns))
    mask = None
    if masking == "boolean":
        mask = torch.tensor(rng.integers(0, 2, (2, 1, rows, columns)).astype(bool))
        mask[..., 0] = True
    if masking == "additive":
        mask = reals(rng, 1, 3, rows, columns)
    out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=masking == "causal", scale=0.25)
    operands = [t.detach().numpy() for t in (q, k, v)] + ([mask.numpy()] if mask is not None else [])
    attributes = {"scale": "0.25", "causal": int(masking == "causal")}
    agrees("attention", operands, [out.detach().numpy()], **attributes)
    total = run("attention", operands, [("f64", ()), ("f64", ())], **attributes)[1]
    grad = reals(rng, *out.shape)
    expected = torch.autograd.grad(out, (q, k, v), grad)
    backward = [grad.numpy(), *operands[:3], out.detach().numpy(), total, *operands[3:]]
    agrees("attention-backward", backward, [e.numpy() for e in expected], **attributes)


@pytest.mark.parametrize("seed", SEEDS)
def test_scans_sorts_and_indexing_as_torch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = reals(rng, 4, 5)
    axis = int(rng.integers(0, 2))
    agrees("cumulative", [x], [torch.logcumsumexp(x, axis).numpy()], dimension=axis, reducer="logsumexp")
    keys = torch.tensor(rng.integers(0, 3, (4, 5)))
    values, order = torch.sort(keys, dim=axis, stable=True, descending=True)
    index = np.broadcast_to(np.arange(keys.shape[axis]).reshape([-1 if d == axis else 1 for d in range(2)]), keys.shape)
    agrees("sort", [keys, index], [values.numpy(), order.numpy()], dimension=axis, direction="DESC")
    table, ids = reals(rng, 7, 3), torch.tensor(rng.integers(-7, 7, (2, 4)))
    agrees(
        "gather", [table, ids], [table[ids].numpy()], offset_dims=[2], collapsed_slice_dims=[0], start_index_map=[0],
        index_vector_dim=2, slice_sizes=[1, 3], mode="wrap",
    )  # fmt: skip
    source, where = reals(rng, 6, 3), torch.tensor(rng.integers(0, 4, 6))
    expected = torch.zeros(4, 3, dtype=torch.float64).index_add(0, where, source)
    agrees(
        "scatter", [np.zeros((4, 3)), where, source], [expected.numpy()], update_window_dims=[1],
        inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0], index_vector_dim=1, reducer="sum",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "name"), [("float16", "f16"), ("bfloat16", "bf16"), ("float32", "f32"), ("float8_e5m2", "f8e5m2")]
)
def test_casts_round_as_torch(dtype: str, name: str) -> None:
    rng = np.random.default_rng(4)
    x = torch.tensor(rng.normal(size=3000) * 10.0 ** rng.integers(-9, 5, 3000)).float().double()
    (found,) = run("convert", [x.numpy()], [(name, (3000,))], rounding=True)
    expected = x.float().to(getattr(torch, dtype)).double().numpy()
    np.testing.assert_array_equal(found, expected)


def test_casts_to_integers_and_booleans_as_torch() -> None:
    x = torch.tensor([1.7, -1.7, 0.0, 2.5, -0.4])
    agrees("convert", [x], [x.to(torch.int32).numpy()])
    agrees("convert", [x], [x.to(torch.bool).numpy()])
