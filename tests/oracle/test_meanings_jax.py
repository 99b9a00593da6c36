"""Numeric meanings against jax.lax on random attributes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from .calls import agrees

jax = pytest.importorskip("jax", reason="jax is not installed in this environment")
from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

SEEDS = range(12)


@pytest.fixture(autouse=True)
def in_double_precision() -> Iterator[None]:
    """For these tests only: other files of the same process compare in single precision."""
    with jax.enable_x64(True):
        yield


def reals(rng: np.random.Generator, *shape: int, low: float = -2, high: float = 2) -> np.ndarray:
    return rng.uniform(low, high, shape)


UNARY = {
    "abs": lax.abs, "cbrt": lax.cbrt, "ceil": lax.ceil, "cosine": lax.cos, "erf": lax.erf, "exponential": lax.exp,
    "exponential-minus-one": lax.expm1, "floor": lax.floor, "is-finite": lax.is_finite, "logistic": lax.logistic,
    "negate": lax.neg, "sign": lax.sign, "sine": lax.sin, "tan": lax.tan, "tanh": lax.tanh,
    "round-nearest-afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round-nearest-even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
}  # fmt: skip
POSITIVE = {"log": lax.log, "log-plus-one": lax.log1p, "rsqrt": lax.rsqrt, "sqrt": lax.sqrt}
BINARY = {
    "add": lax.add, "atan2": lax.atan2, "divide": lax.div, "maximum": lax.max, "minimum": lax.min, "multiply": lax.mul,
    "remainder": lax.rem, "subtract": lax.sub,
}  # fmt: skip
INTEGER = {
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "divide": lax.div, "remainder": lax.rem,
    "shift-left": lax.shift_left, "shift-right-arithmetic": lax.shift_right_arithmetic,
    "shift-right-logical": lax.shift_right_logical, "multiply": lax.mul, "add": lax.add, "subtract": lax.sub,
}  # fmt: skip
COMPARE = {"EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge}


@pytest.mark.parametrize("kind", sorted(UNARY))
def test_unary_as_lax(kind: str) -> None:
    x = np.concatenate([reals(np.random.default_rng(0), 40), [0.5, -0.5, 1.5, 2.5, 0.0]])
    agrees(kind, [x], [UNARY[kind](jnp.asarray(x))], rtol=1e-7 if kind == "erf" else 1e-12)


@pytest.mark.parametrize("kind", sorted(POSITIVE))
def test_unary_of_positive_as_lax(kind: str) -> None:
    x = reals(np.random.default_rng(1), 40, low=0.01)
    agrees(kind, [x], [POSITIVE[kind](jnp.asarray(x))])


def test_erf_inv_as_lax() -> None:
    x = reals(np.random.default_rng(1), 40, low=-0.99, high=0.99)
    agrees("erf-inv", [x], [lax.erf_inv(jnp.asarray(x))], rtol=1e-6)


@pytest.mark.parametrize("kind", sorted(BINARY))
def test_binary_as_lax(kind: str) -> None:
    rng = np.random.default_rng(2)
    x, y = reals(rng, 5, 7), reals(rng, 5, 7)
    agrees(kind, [x, y], [BINARY[kind](jnp.asarray(x), jnp.asarray(y))])


@pytest.mark.parametrize("kind", sorted(INTEGER))
@pytest.mark.parametrize("dtype", [np.int32, np.int8])
def test_integers_as_lax(kind: str, dtype: type) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(-100, 100, 200).astype(dtype), rng.integers(-7, 40, 200).astype(dtype)
    if kind in ("divide", "remainder"):
        x[:3], y[:3] = [5, -5, 0], [0, 0, 0]
    agrees(kind, [x, y], [INTEGER[kind](jnp.asarray(x), jnp.asarray(y))])


def test_bit_counts_and_integer_power_as_lax() -> None:
    x = np.array([0, 1, 2, 255, -1, -128, 12345, 2**31 - 1], dtype=np.int32)
    agrees("popcnt", [x], [lax.population_count(jnp.asarray(x))])
    agrees("clz", [x], [lax.clz(jnp.asarray(x))])
    agrees("power", [x.astype(np.float64), np.full(8, 2.0)], [lax.pow(jnp.asarray(x, dtype=float), 2.0)])


@pytest.mark.parametrize("direction", sorted(COMPARE))
def test_compare_select_clamp_as_lax(direction: str) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 3, 30).astype(float), rng.integers(0, 3, 30).astype(float)
    less = COMPARE[direction](jnp.asarray(x), jnp.asarray(y))
    agrees("compare", [x, y], [less], direction=direction)
    agrees("select", [np.asarray(less), x, y], [lax.select(less, jnp.asarray(x), jnp.asarray(y))])
    lo, hi = np.full(30, 0.5), np.full(30, 1.5)
    agrees("clamp", [lo, x, hi], [lax.clamp(jnp.asarray(lo), jnp.asarray(x), jnp.asarray(hi))])


@pytest.mark.parametrize("seed", SEEDS)
def test_structure_as_lax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(2, 6, 3))
    x = reals(rng, *shape)
    order = [int(d) for d in rng.permutation(3)]
    agrees("transpose", [x], [lax.transpose(jnp.asarray(x), order)], dimensions=order)
    start = [int(rng.integers(0, n)) for n in shape]
    limit = [int(rng.integers(s + 1, n + 1)) for s, n in zip(start, shape, strict=True)]
    stride = [int(rng.integers(1, 3)) for _ in shape]
    agrees("slice", [x], [lax.slice(jnp.asarray(x), start, limit, stride)], start=start, limit=limit, stride=stride)
    low, high, interior = ([int(v) for v in rng.integers(lo, 3, 3)] for lo in (-1, -1, 0))
    padded = lax.pad(jnp.asarray(x), 7.0, list(zip(low, high, interior, strict=True)))
    agrees("pad", [x, 7.0], [padded], low=low, high=high, interior=interior)
    wide = lax.broadcast_in_dim(jnp.asarray(x), (shape[0], 4, shape[1], shape[2]), (0, 2, 3))
    agrees("broadcast", [x], [wide], dimensions=[0, 2, 3])
    agrees("reverse", [x], [lax.rev(jnp.asarray(x), (0, 2))], dimensions=[0, 2])
    agrees("concatenate", [x, x + 1], [lax.concatenate([jnp.asarray(x), jnp.asarray(x + 1)], 1)], dimension=1)
    agrees("iota", [], [lax.broadcasted_iota(jnp.int32, shape, 1)], dimension=1)
    starts = [int(v) for v in rng.integers(0, 7, 3)]  # jax itself wraps negative ones before XLA clamps
    sizes = [int(rng.integers(1, n + 1)) for n in shape]
    agrees("dynamic-slice", [x, *starts], [lax.dynamic_slice(jnp.asarray(x), starts, sizes)], sizes=sizes)
    update = reals(rng, *sizes)
    agrees(
        "dynamic-update-slice",
        [x, update, *starts],
        [lax.dynamic_update_slice(jnp.asarray(x), jnp.asarray(update), starts)],
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_reductions_and_order_as_lax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (4, 5, 3)).astype(float)
    dims = sorted(int(d) for d in rng.choice(3, size=int(rng.integers(1, 3)), replace=False))
    for name, function in (("sum", jnp.sum), ("max", jnp.max), ("min", jnp.min), ("prod", jnp.prod)):
        agrees("reduce", [x], [function(jnp.asarray(x), axis=tuple(dims))], dimensions=dims, reducer=name)
    axis = int(rng.integers(0, 3))
    agrees("reduce", [x], [lax.argmax(jnp.asarray(x), axis, jnp.int32)], dimensions=[axis], reducer="argmax")
    agrees("reduce", [x], [lax.argmin(jnp.asarray(x), axis, jnp.int32)], dimensions=[axis], reducer="argmin")
    for name, scan in (("sum", lax.cumsum), ("max", lax.cummax), ("min", lax.cummin), ("prod", lax.cumprod)):
        for turned in (0, 1):
            scanned = scan(jnp.asarray(x), axis=axis, reverse=bool(turned))
            agrees("cumulative", [x], [scanned], dimension=axis, reducer=name, reverse=turned)
    y = reals(rng, 4, 5, 3)
    agrees(
        "sort",
        [x, y],
        lax.sort([jnp.asarray(x), jnp.asarray(y)], dimension=axis, num_keys=1),
        dimension=axis,
        direction="ASC",
    )
    k = int(rng.integers(1, 4))
    agrees("top-k", [y], lax.top_k(jnp.asarray(y), k), k=k)


@pytest.mark.parametrize("seed", SEEDS)
def test_dot_as_lax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, inner, left, right = ([int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))] for _ in range(4))
    x, y = reals(rng, *batch, *inner, *left), reals(rng, *right, *inner, *batch)
    p, q = [int(d) for d in rng.permutation(x.ndim)], [int(d) for d in rng.permutation(y.ndim)]
    x, y = x.transpose(p), y.transpose(q)
    lb, lc = [p.index(i) for i in range(len(batch))], [p.index(len(batch) + i) for i in range(len(inner))]
    rb = [q.index(len(right) + len(inner) + i) for i in range(len(batch))]
    rc = [q.index(len(right) + i) for i in range(len(inner))]
    expected = lax.dot_general(jnp.asarray(x), jnp.asarray(y), ((lc, rc), (lb, rb)))
    agrees(
        "dot",
        [x, y],
        [expected],
        lhs_batch_dims=lb,
        rhs_batch_dims=rb,
        lhs_contracting_dims=lc,
        rhs_contracting_dims=rc,
    )


@pytest.mark.parametrize("seed", range(24))
def test_convolution_as_lax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, batches = [(1, 1), (2, 1), (1, 2)][seed % 3]
    x, w = reals(rng, 2, 4, 7, 6), reals(rng, 4, 4 // groups, 2, 3)
    axes_x, axes_w, axes_y = ([int(d) for d in rng.permutation(4)] for _ in range(3))
    stride, dilation, base = ([int(v) for v in rng.integers(1, 3, 2)] for _ in range(3))
    pads = [[int(v) for v in rng.integers(-1, 3, 2)] for _ in range(2)]
    numbers = lax.ConvDimensionNumbers(*(tuple(axes.index(i) for i in range(4)) for axes in (axes_x, axes_w, axes_y)))
    xt, wt = x.transpose(axes_x), w.transpose(axes_w)
    expected = lax.conv_general_dilated(
        jnp.asarray(xt), jnp.asarray(wt), stride, list(zip(*pads, strict=True)), base, dilation, numbers,
        feature_group_count=groups, batch_group_count=batches,
    )  # fmt: skip
    (ib, jf, *ispatial), (ko, ki, *kspatial), (ob, of, *ospatial) = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    agrees(
        "convolution", [xt, wt], [expected], window_size=[2, 3], window_stride=stride, window_dilation=dilation,
        base_dilation=base, window_pad_low=pads[0], window_pad_high=pads[1], input_batch=ib, input_feature=jf,
        input_spatial=ispatial, kernel_output_feature=ko, kernel_input_feature=ki, kernel_spatial=kspatial,
        output_batch=ob,
        output_feature=of, output_spatial=ospatial, feature_group_count=groups, batch_group_count=batches,
    )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_as_lax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = reals(rng, 6, 7)
    size, stride, dilation, base = ([int(v) for v in rng.integers(1, 4, 2)] for _ in range(4))
    size = [min(s, 2) for s in size]
    low, high = ([int(v) for v in rng.integers(0, 3, 2)] for _ in range(2))
    attributes = {"window_size": size, "window_stride": stride, "window_dilation": dilation, "base_dilation": base,
        "window_pad_low": low,
        "window_pad_high": high,
    }  # fmt: skip
    for name, function, start in (("sum", lax.add, 0.0), ("max", lax.max, -np.inf), ("min", lax.min, np.inf)):
        expected = lax.reduce_window(
            jnp.asarray(x), start, function, size, stride, list(zip(low, high, strict=True)), base, dilation
        )
        agrees("reduce-window", [x], [expected], reducer=name, **attributes)


@pytest.mark.parametrize("seed", SEEDS)
def test_select_and_scatter_is_the_gradient_of_a_max_pool(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = reals(rng, 6, 7)
    size, stride, low, high = [2, 3], [int(v) for v in rng.integers(1, 3, 2)], [1, 0], [0, 1]
    pads = list(zip(low, high, strict=True))

    def pool(v: jax.Array) -> jax.Array:
        return lax.reduce_window(v, -jnp.inf, lax.max, size, stride, pads)

    out, pullback = jax.vjp(pool, jnp.asarray(x))
    source = reals(rng, *out.shape)
    agrees(
        "select-and-scatter", [x, source], pullback(jnp.asarray(source)), reducer="sum", select="GE", window_size=size,
        window_stride=stride, window_pad_low=low, window_pad_high=high,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_gather_as_lax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = reals(rng, 5, 4, 3)
    mapped = sorted(int(d) for d in rng.choice(3, size=int(rng.integers(1, 3)), replace=False))
    batch = [2, 3][: int(rng.integers(0, 3))]
    at = int(rng.integers(0, len(batch) + 1))
    shape = [*batch[:at], len(mapped), *batch[at:]]
    indices = rng.integers(-2, 6, shape)
    sizes = [int(rng.integers(1, n + 1)) for n in x.shape]
    collapsed = [d for d in range(3) if rng.integers(0, 2)]
    for d in collapsed:
        sizes[d] = 1
    rank = len(batch) + 3 - len(collapsed)
    offsets = sorted(int(d) for d in rng.choice(rank, size=3 - len(collapsed), replace=False))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(offsets), collapsed_slice_dims=tuple(collapsed), start_index_map=tuple(mapped)
    )
    last = np.moveaxis(indices, at, -1)
    expected = lax.gather(jnp.asarray(x), jnp.asarray(last), numbers, sizes, mode=lax.GatherScatterMode.CLIP)
    agrees(
        "gather", [x, indices], [expected], offset_dims=offsets, collapsed_slice_dims=collapsed, start_index_map=mapped,
        slice_sizes=sizes, index_vector_dim=at,
    )  # fmt: skip


def test_gather_with_batching_dims_as_lax() -> None:
    rng = np.random.default_rng(5)
    x, indices = reals(rng, 4, 5, 3), rng.integers(0, 5, (4, 2, 1))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(2,), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
    )  # fmt: skip
    expected = lax.gather(jnp.asarray(x), jnp.asarray(indices), numbers, (1, 1, 3), mode=lax.GatherScatterMode.CLIP)
    agrees(
        "gather", [x, indices], [expected], offset_dims=[2], collapsed_slice_dims=[1], start_index_map=[1],
        index_vector_dim=2,
        operand_batching_dims=[0], start_indices_batching_dims=[0], slice_sizes=[1, 1, 3],
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_scatter_as_lax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = reals(rng, 5, 4, 3)
    mapped = sorted(int(d) for d in rng.choice(3, size=int(rng.integers(1, 3)), replace=False))
    count = int(rng.integers(1, 4))
    indices = rng.integers(-1, 6, (count, len(mapped)))
    inserted = [d for d in range(3) if rng.integers(0, 2)]
    window = [d for d in range(3) if d not in inserted]
    sizes = [int(rng.integers(1, x.shape[d] + 1)) for d in window]
    updates = reals(rng, count, *sizes)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, 1 + len(window))), inserted_window_dims=tuple(inserted),
        scatter_dims_to_operand_dims=tuple(mapped),
    )  # fmt: skip
    drop = lax.GatherScatterMode.FILL_OR_DROP
    for name, function in (
        ("sum", lax.scatter_add),
        ("max", lax.scatter_max),
        ("min", lax.scatter_min),
        ("prod", lax.scatter_mul),
    ):
        expected = function(jnp.asarray(x), jnp.asarray(indices), jnp.asarray(updates), numbers, mode=drop)
        agrees(
            "scatter", [x, indices, updates], [expected], update_window_dims=list(range(1, 1 + len(window))),
            inserted_window_dims=inserted, scatter_dims_to_operand_dims=mapped, index_vector_dim=1, reducer=name,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"])
def test_conversions_round_as_jax(dtype: str) -> None:
    from scalify_dl.oracle.dtypes import round_to

    names = {
        "float16": "f16",
        "bfloat16": "bf16",
        "float32": "f32",
        "float8_e4m3fn": "f8e4m3fn",
        "float8_e5m2": "f8e5m2",
    }
    rng = np.random.default_rng(6)
    x = np.concatenate([
        rng.normal(size=2000) * 10.0 ** rng.integers(-9, 6, 2000), [0.0, -0.0, 1e30, -1e30, np.inf, 65504, 65519.9,
        65520, 448, 464, 465, 57344],
    ])  # fmt: skip
    x = x.astype(np.float32).astype(np.float64)  # jax goes through float32
    expected = np.asarray(jnp.asarray(x, dtype=jnp.float32).astype(dtype).astype(jnp.float32)).astype(np.float64)
    np.testing.assert_array_equal(round_to(x, names[dtype]), expected)
