"""Every lowering, against JAX: the lowered graph, run by the oracle, gives what JAX gives eagerly."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.oracle import load_program, run_trial
from scalify_dl.oracle.inputs import baseline_inputs
from scalify_dl.pairing.export import tables
from scalify_dl.readers.stablehlo import read_baseline

X = jax.ShapeDtypeStruct((6, 8), jnp.float32)
Y = jax.ShapeDtypeStruct((8, 5), jnp.float32)
POSITIVE = jax.ShapeDtypeStruct((6, 8), jnp.float32)
INDEX = jax.ShapeDtypeStruct((4,), jnp.int32)
S = jax.ShapeDtypeStruct((), jnp.int32)
B = jax.ShapeDtypeStruct((6, 8), jnp.bool_)
IMAGE = jax.ShapeDtypeStruct((2, 6, 7, 4), jnp.float32)
KERNEL = jax.ShapeDtypeStruct((3, 2, 4, 6), jnp.float32)


def compare_with_jax(function, *abstract, how="reals", tolerance=2e-5, rounding=False):
    """Lowers a function, runs the graph on the oracle's inputs, and compares with the function itself on them."""
    text = jax.jit(function, keep_unused=True).lower(*abstract).as_text()
    graph = read_baseline(text.encode(), "module.mlir")
    facts = tables(graph, [read_baseline(text.encode(), "module.mlir")], Mesh((("r", 1),)))
    program = load_program(facts.tables)
    (base,) = program.top("base")
    trial = run_trial(program, 0, how, only="base", rounding=rounding)
    drawn = baseline_inputs(program, how, 0)
    args = [jnp.asarray(drawn[t][0].astype(a.dtype)) for t, a in zip(base.inputs, abstract, strict=True)]
    expected = jax.tree.leaves(function(*args))
    assert len(expected) == len(base.outputs)
    for tensor, want in zip(base.outputs, expected, strict=True):
        got = trial.baseline[tensor]
        assert got.shape == want.shape
        np.testing.assert_allclose(got.astype(want.dtype), np.asarray(want), rtol=tolerance, atol=tolerance)
    return graph


def kinds(graph):
    return {op.kind for op in graph.ops}


ELEMENTWISE = [
    jnp.abs,
    jnp.ceil,
    jnp.cos,
    jnp.exp,
    jnp.expm1,
    jnp.floor,
    jnp.isfinite,
    jax.nn.sigmoid,
    jnp.negative,
    jnp.round,
    jnp.sign,
    jnp.sin,
    jnp.square,
    jnp.tan,
    jnp.tanh,
    lax.erf,
    lax.erfc,
    jnp.sinh,
    jnp.cosh,
    jax.nn.gelu,
    jax.nn.relu,
    jax.nn.silu,
    jax.nn.softplus,
    jnp.isinf,
    jnp.isposinf,
    jnp.cbrt,
    lambda x: lax.round(x),
    lambda x: jnp.clip(x, -0.5, 0.5),
    lambda x: x.astype(jnp.int32),
    lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
    lambda x: x.astype(bool),
    lambda x: lax.reduce_precision(x, 8, 7),
    lambda x: lax.bitcast_convert_type(x, jnp.int32),
    lambda x: x**3,
    lambda x: lax.erf_inv(x * 0.5),
    lax.lgamma,
]


@pytest.mark.parametrize("number", range(len(ELEMENTWISE)))
def test_elementwise_functions(number):
    compare_with_jax(ELEMENTWISE[number], X, rounding=True, tolerance=1e-4)


@pytest.mark.parametrize("function", [jnp.log, jnp.sqrt, lax.rsqrt, jnp.log1p, lambda x: x**0.3, lambda x: x**x])
def test_functions_of_positive_values(function):
    compare_with_jax(function, POSITIVE, how="positive")


BINARY = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.divide,
    jnp.maximum,
    jnp.minimum,
    jnp.arctan2,
    jnp.equal,
    jnp.not_equal,
    jnp.less,
    jnp.less_equal,
    jnp.greater,
    jnp.greater_equal,
    lambda x, y: lax.rem(x, y + 2),
    lambda x, y: jnp.mod(x, y + 2),
    lambda x, y: jnp.where(x > y, x, y),
]


@pytest.mark.parametrize("number", range(len(BINARY)))
def test_binary_functions(number):
    compare_with_jax(BINARY[number], X, X)


INTEGER = [
    lambda i, j: i & j,
    lambda i, j: i | j,
    lambda i, j: i ^ j,
    lambda i, j: ~i,
    lambda i, j: i << 2,
    lambda i, j: i >> 1,
    lambda i, j: lax.shift_right_logical(i, 1),
    lambda i, j: i // (j + 1),
    lambda i, j: i % (j + 1),
    lambda i, j: -i // 3,
    lambda i, j: lax.population_count(i),
    lambda i, j: lax.clz(i),
    lambda i, j: jnp.maximum(i, j),
    lambda i, j: i.astype(jnp.uint8),
]


@pytest.mark.parametrize("number", range(len(INTEGER)))
def test_integer_functions(number):
    compare_with_jax(INTEGER[number], INDEX, INDEX)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a & b,
        lambda a, b: a | b,
        lambda a, b: a ^ b,
        lambda a, b: ~a,
        lambda a, b: a.all(0),
        lambda a, b: b.any(1),
        lambda a, b: a.sum(0),
        lambda a, b: jnp.maximum(a, b),
    ],
)
def test_logic(function):
    compare_with_jax(function, B, B)


STRUCTURE = [
    lambda x: x.reshape(4, 12),
    lambda x: x.T,
    lambda x: x[None, :, None] + 0 * x[:, None, :1],
    lambda x: x[1:5:2, ::3],
    lambda x: jnp.pad(x, ((1, 2), (0, 3)), constant_values=1.5),
    lambda x: lax.pad(x, 0.0, ((-1, 0, 1), (2, -1, 0))),
    lambda x: jnp.concatenate([x, 2 * x, x[:2]], 0),
    lambda x: jnp.stack([x, -x], 1),
    lambda x: x[::-1],
    lambda x: jnp.roll(x, 3, 1),
    lambda x: jnp.tile(x, (2, 3)),
    lambda x: jnp.repeat(x, 3, axis=1),
    lambda x: jnp.broadcast_to(x[:, :1], (6, 5)),
    lambda x: lax.broadcast_in_dim(x, (8, 3, 6), (2, 0)),
    lambda x: jnp.eye(6) @ x,
    lambda x: jnp.tril(x),
    lambda x: jnp.arange(8) * x,
    lambda x: jnp.squeeze(x[:1], 0),
    lambda x: jnp.split(x, 4, 1),
    lambda x: jnp.flip(x, 1) + jnp.array([[1.0], [2], [3], [4], [5], [6]]),
    lambda x: x + np.linspace(0, 1, 8, dtype=np.float32),
    lambda x: x * np.float32(0.1),
    lambda x: jnp.full((3,), 7, jnp.int8),
]


@pytest.mark.parametrize("number", range(len(STRUCTURE)))
def test_structure(number):
    compare_with_jax(STRUCTURE[number], X)


REDUCTIONS = [
    lambda x: x.sum(),
    lambda x: x.sum(0),
    lambda x: x.mean(1),
    lambda x: x.max(1),
    lambda x: x.min((0, 1)),
    lambda x: x.prod(0),
    lambda x: jnp.var(x, 1),
    lambda x: jax.nn.softmax(x, 0),
    lambda x: jax.nn.log_softmax(x),
    lambda x: jax.nn.logsumexp(x, 1),
    lambda x: x.max(1, initial=0.25),
    lambda x: lax.reduce(x, np.float32(0.5), lax.add, (0,)),
    lambda x: x.argmax(1),
    lambda x: x.argmin(0),
    lambda x: x.argmax(),
    lambda x: jnp.cumsum(x, 1),
    lambda x: lax.cumsum(x, 0, reverse=True),
    lambda x: lax.cummax(x, 1),
    lambda x: lax.cumprod(x, 0),
    lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID"),
    lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 1), (1, 1), "SAME"),
    lambda x: jax.grad(lambda y: (lax.reduce_window(y, -np.inf, lax.max, (2, 2), (2, 2), "VALID") * y[:3, :4]).sum())(
        x
    ),
    lambda x: (x > 0).sum(0),
    lambda x: jnp.linalg.norm(x),
]


@pytest.mark.parametrize("number", range(len(REDUCTIONS)))
def test_reductions(number):
    graph = compare_with_jax(REDUCTIONS[number], X)
    assert not any("region" in op.symbols.get("reducer", ()) for op in graph.ops)


ORDER = [
    lambda x: jnp.sort(x, 1),
    lambda x: jnp.argsort(x, 0),
    lambda x: -jnp.sort(-x, 0),
    lambda x: jnp.sort(x, 1, descending=True),
    lambda x: lax.top_k(x, 3),
    lambda x: lax.sort((x, x * 2), dimension=1),
    lambda x: jnp.median(x, 1),
]


@pytest.mark.parametrize("number", range(len(ORDER)))
def test_order(number):
    graph = compare_with_jax(ORDER[number], X)
    assert not any("region" in op.symbols.get("direction", ()) for op in graph.ops)


CONTRACTIONS = [
    lambda x, y: x @ y,
    lambda x, y: jnp.einsum("ab,bc->ca", x, y),
    lambda x, y: lax.dot(x, y),
    lambda x, y: jnp.outer(x[0], y[0]),
    lambda x, y: jnp.einsum("ab,bc->abc", x, y),
    lambda x, y: jnp.einsum("ab,ac->abc", x, x) @ y,
    lambda x, y: x[0] @ y[:, 0],
    lambda x, y: lax.dot_general(
        x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), (([1], [0]), ([], [])), preferred_element_type=jnp.float32
    ),
]


@pytest.mark.parametrize("number", range(len(CONTRACTIONS)))
def test_contractions(number):
    compare_with_jax(CONTRACTIONS[number], X, Y, tolerance=3e-2 if number == 7 else 2e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"window_strides": (1, 1), "padding": "SAME"},
        {"window_strides": (2, 1), "padding": ((1, 0), (2, 2)), "rhs_dilation": (2, 1)},
        {"window_strides": (1, 2), "padding": ((0, 1), (2, 0)), "lhs_dilation": (2, 2)},
    ],
)
def test_convolutions(options):
    def convolve(x, w):
        return lax.conv_general_dilated(x, w, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)

    compare_with_jax(convolve, IMAGE, KERNEL)


def test_grouped_convolution():
    kernel = jax.ShapeDtypeStruct((3, 3, 1, 8), jnp.float32)
    compare_with_jax(
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4
        ),
        IMAGE,
        kernel,
    )


def test_gradient_of_a_convolution_reverses_the_kernel():
    def loss(x, w):
        return (lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) ** 2).sum()

    compare_with_jax(jax.grad(loss, (0, 1)), IMAGE, KERNEL, tolerance=2e-4)


INDEXING = [
    lambda x, i, s: x[i],
    lambda x, i, s: x[:, i],
    lambda x, i, s: x[i, i],
    lambda x, i, s: jnp.take(x, i, axis=1, mode="clip"),
    lambda x, i, s: jnp.take_along_axis(x, i[:, None] % 3, 0),
    lambda x, i, s: x[s],
    lambda x, i, s: lax.dynamic_slice(x, (s, s), (2, 3)),
    lambda x, i, s: lax.dynamic_update_slice(x, x[:2, :2] * 3, (s, s)),
    lambda x, i, s: x.at[i].set(0.5),
    lambda x, i, s: x.at[:, i].add(x[:, :4]),
    lambda x, i, s: x.at[i].max(0.3),
    lambda x, i, s: x.at[i].mul(2.0),
    lambda x, i, s: jax.nn.one_hot(i, 5),
    lambda x, i, s: x[jnp.arange(4), i],
    lambda x, i, s: jax.grad(lambda t: (t[i] ** 2).sum())(x),
    lambda x, i, s: lax.dynamic_index_in_dim(x, s, 1),
    lambda x, i, s: jnp.where(s > 1, x, -x),
    lambda x, i, s: jnp.searchsorted(jnp.arange(5.0), x[0]),
    lambda x, i, s: jax.vmap(lambda row, k: row[k])(x[:4], i),
]


@pytest.mark.parametrize("number", range(len(INDEXING)))
def test_indexing(number):
    compare_with_jax(INDEXING[number], X, INDEX, S)


CONTROL = [
    lambda x, s: lax.cond(s > 1, lambda y: y * 2, lambda y: y - 1, x),
    lambda x, s: lax.switch(s, [jnp.sin, jnp.cos, lambda y: y + x[0, 0]], x),
    lambda x, s: lax.fori_loop(0, 4, lambda i, c: c * 0.5 + i, x),
    lambda x, s: lax.while_loop(lambda c: c[0] < s, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1],
    lambda x, s: lax.scan(lambda c, row: (c + row, c * row), x[0], x),
    lambda x, s: lax.map(lambda row: row.sum() * x[0], x),
    lambda x, s: lax.fori_loop(0, s, lambda i, c: c + x, x),
    lambda x, s: jax.grad(lambda y: lax.scan(lambda c, r: (jnp.tanh(c + r), None), y[0], y)[0].sum())(x),
    lambda x, s: lax.associative_scan(jnp.add, x),
    lambda x, s: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x),
    lambda x, s: jax.grad(jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)).sum()))(x),
    lambda x, s: jax.jit(lambda y: y + 1)(jax.jit(lambda y: y * 2)(x)),
]


@pytest.mark.parametrize("number", range(len(CONTROL)))
def test_control_flow(number):
    compare_with_jax(CONTROL[number], X, S)


def test_counting_loops_have_a_trip_count():
    def loop(x):
        return lax.scan(lambda c, row: (c + row, None), x[0], x)[0]

    graph = read_baseline(jax.jit(loop).lower(X).as_text().encode())
    (op,) = [op for op in graph.ops if op.kind == "while"]
    assert op.numbers["trip_count"] == [6]


def test_a_loop_until_something_happens_has_none():
    def loop(x):
        return lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1, x)

    graph = read_baseline(jax.jit(loop).lower(X).as_text().encode())
    (op,) = [op for op in graph.ops if op.kind == "while"]
    assert "trip_count" not in op.numbers


def test_complex_numbers():
    def function(x):
        z = lax.complex(x, -x) * np.complex64(1 + 2j)
        return jnp.real(z * z), jnp.imag(jnp.exp(z)), jnp.abs(z)

    compare_with_jax(function, X)


def test_threefry_random_bits_are_computed():
    compare_with_jax(lambda x: x + jax.random.uniform(jax.random.key(3), (6, 8)), X)


def test_fourier_transforms():
    def function(x):
        spectrum = jnp.fft.rfft(x)
        return jnp.real(jnp.fft.fft2(x)), jnp.imag(spectrum), jnp.fft.irfft(spectrum), jnp.abs(jnp.fft.ifft(x, axis=0))

    compare_with_jax(function, X)


def test_an_unknown_op_is_kept_and_named():
    text = """
    module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.map"(%x) ({
        ^bb0(%a: tensor<f32>): stablehlo.return %a : tensor<f32>
      }) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> } }"""
    assert "unknown:stablehlo.map" in kinds(read_baseline(text.encode()))


def test_a_size_that_depends_on_values_is_told():
    text = """
    module { func.func public @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<?xf32> {
      %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32>
      return %0 : tensor<?xf32> } }"""
    with pytest.raises(InputError, match=r"set_dimension_size.*dynamic shapes are not supported"):
        read_baseline(text.encode())


def test_a_custom_call_is_opaque_and_keeps_its_target():
    text = """
    module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @my_norm(%x) {backend_config = "eps=1e-6"} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> } }"""
    (op,) = read_baseline(text.encode()).ops
    assert op.kind == "custom:my_norm"
    assert op.symbols == {"config": ["eps=1e-6"]}


TYPED = "{api_version = 4 : i32, backend_config = {a = 1 : i64}}"
ROWS, COLUMNS = "dense<[1, 0]> : tensor<2xindex>", "dense<[0, 1]> : tensor<2xindex>"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{backend_config = "1"}', TYPED),
        (TYPED, TYPED.replace("1 : i64", '"1"')),
        (TYPED, '{backend_config = "{a = 1 : i64}"}'),
        ('{backend_config = "a  b"}', '{backend_config = "a b"}'),
        ('{backend_config = "a\\0Ab"}', '{backend_config = "a b"}'),
        ("{k = 1 : i64}", '{k = "1"}'),
        ("{k = 1 : i64}", "{}"),
        ("{called_computations = [@f]}", "{called_computations = [@g]}"),
        (f"{{operand_layouts = [{COLUMNS}], result_layouts = [{ROWS}]}}", "{}"),
    ],
)
def test_custom_calls_with_other_attributes_are_other_calls(one, other):
    def identity(attributes):
        text = f"""
        module {{
          func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {{ return %x : tensor<4xf32> }}
          func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {{
            %0 = stablehlo.sine %x : tensor<4xf32>
            return %0 : tensor<4xf32> }}
          func.func public @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{
            %0 = stablehlo.custom_call @k(%x) {attributes} : (tensor<4x4xf32>) -> tensor<4x4xf32>
            return %0 : tensor<4x4xf32> }} }}"""
        (op,) = read_baseline(text.encode()).ops
        return op.kind, op.numbers, op.symbols

    assert identity(one) != identity(other)
    assert identity(one) == identity(one)
