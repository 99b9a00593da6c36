"""Random steps: convolutions, reductions over windows and their gradients, every attribute away from its default."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .raw import binary, emit
from .steps_access import mlir_list
from .steps_plain import step
from .world import LIMIT, Refused, World, is_bool, is_float, is_integer, is_number


def pairs(padding: list[tuple[int, int]]) -> str:
    """Padding as the text of an MLIR matrix."""
    rows = ", ".join(f"[{low}, {high}]" for low, high in padding)
    return f"dense<[{rows}]> : tensor<{len(padding)}x2xi64>" if padding else "dense<> : tensor<0x2xi64>"


def spread(n: int, dilation: int) -> int:
    """The extent of a dim with holes."""
    return (n - 1) * dilation + 1 if n else 0


def fitting(extent: int, size: int, stride: int) -> int:
    """How many windows there are in an extent."""
    return (extent - size) // stride + 1 if extent >= size else 0


@step(2)
def convolution(w: World) -> None:
    """Any order of dims, strides, padding, dilations, reversal, groups of features or batches, another result type. Of
    finite numbers: padding against an infinity is 0 to XLA, and no number by definition."""
    spatial = w.choice((0, 1, 2, 2, 3))
    groups = w.choice((1, 1, 2, 3))
    of_batch = groups > 1 and w.chance(0.4)
    features, outputs = w.integer(1, 2), w.integer(1, 2)
    extents = [w.integer(2, 5 if spatial < 3 else 3) for _ in range(spatial)]
    kernel = [w.integer(1, 3 if spatial < 3 else 2) for _ in range(spatial)]
    batch = groups * w.integer(1, 2) if of_batch else w.integer(1, 2)
    stride, holes, inside = ([w.choice((1, 1, 2, 3)) for _ in range(spatial)] for _ in range(3))
    padding = [(w.integer(-1, 2), w.integer(-1, 2)) for _ in range(spatial)]
    places = [[int(d) for d in w.rng.permutation(spatial + 2)] for _ in range(3)]

    def laid(order: list[int], sizes: list[int]) -> tuple[tuple[int, ...], str]:
        """A shape with its dims in an order, and the labels."""
        return tuple(sizes[d] for d in order), ", ".join(labels[d] for d in order)

    found = [
        fitting(spread(n, h) + low + high, spread(k, i), s)
        for n, h, (low, high), k, i, s in zip(extents, holes, padding, kernel, inside, stride, strict=True)
    ]
    if any(spread(n, h) + low + high < 0 for n, h, (low, high) in zip(extents, holes, padding, strict=True)):
        raise Refused("nothing is left")
    labels = ["b", "f", *map(str, range(spatial))]
    image, first = laid(places[0], [batch, features if of_batch else features * groups, *extents])
    result, third = laid(places[2], [batch // groups if of_batch else batch, outputs * groups, *found])
    labels[:2] = "o", "i"
    window, second = laid(places[1], [outputs * groups, features, *kernel])
    dtype = w.choice(("float32", "float32", "int32", "int8", "bfloat16", "float64"))
    wide = {"int8": "int32", "bfloat16": "float32"}.get(dtype, dtype) if w.chance(0.5) else dtype
    flips = ", ".join(w.choice(("true", "false")) for _ in range(spatial))
    attributes = {
        "dimension_numbers": f"#stablehlo.conv<[{first}]x[{second}]->[{third}]>",
        "window_strides": mlir_list(stride),
        "padding": pairs(padding),
        "lhs_dilation": mlir_list(holes),
        "rhs_dilation": mlir_list(inside),
        "feature_group_count": f"{1 if of_batch else groups} : i64",
        "batch_group_count": f"{groups if of_batch else 1} : i64",
    }
    if w.chance(0.4) and spatial:
        attributes["window_reversal"] = f"array<i1: {flips}>"
    x = w.find(lambda t: t.dtype == dtype and np.prod(t.shape) > 0)
    a, b = int(np.prod(image)), int(np.prod(window))
    if max(a, b, int(np.prod(result))) > LIMIT:
        raise Refused("too large")

    def f(v: Any) -> Any:
        flat = jnp.resize(jnp.clip(v, -9, 9) if is_float(v) else v, (a + b,))
        parts = flat[:a].reshape(image), flat[a:].reshape(window)
        return emit("stablehlo.convolution", parts, [(result, wide)], attributes)

    w.add("convolution", f, x)


@step(1)
def window(w: World) -> None:
    """A reduction over windows, of any type; holes in what is seen and in what sees, padding that may cut."""
    a = w.find(lambda t: len(t.shape) <= 3 and (is_number(t) or is_bool(t)))
    shape, dtype = w.types[a].shape, np.dtype(w.types[a].dtype).name
    rank = len(shape)
    size = [w.integer(1, min(3, max(n, 1))) for n in shape]
    stride, holes, inside = ([w.choice((1, 1, 2)) for _ in range(rank)] for _ in range(3))
    padding = [(w.integer(-1, 2), w.integer(-1, 2)) for _ in range(rank)]
    if any(spread(n, h) + low + high < 0 for n, h, (low, high) in zip(shape, holes, padding, strict=True)):
        raise Refused("nothing is left")
    found = tuple(
        fitting(spread(n, h) + low + high, spread(k, i), s)
        for n, h, (low, high), k, i, s in zip(shape, holes, padding, size, inside, stride, strict=True)
    )
    attributes = {
        "window_dimensions": mlir_list(size),
        "window_strides": mlir_list(stride),
        "base_dilations": mlir_list(holes),
        "window_dilations": mlir_list(inside),
        "padding": pairs(padding),
    }
    name, start = w.choice(reducers(w, a))
    region = binary(f"stablehlo.{name}", dtype)
    top = 9 if is_float(w.types[a]) else None

    def f(x: Any) -> Any:
        made = emit("stablehlo.reduce_window", (x, np.dtype(dtype).type(start)), [(found, dtype)], attributes, [region])
        return made if top is None else jnp.clip(made, -top, top)

    w.add(f"reduce_window {name}", f, a)


def reducers(w: World, a: int) -> list[tuple[str, Any]]:
    """Ops that reduce values of a type, and where each of them starts from."""
    type_ = w.types[a]
    if is_bool(type_):
        return [("or", False), ("and", True), ("maximum", False), ("minimum", True), ("add", False)]
    if is_float(type_):
        return [("add", 0), ("maximum", -np.inf), ("minimum", np.inf), ("multiply", 1)]
    info = jnp.iinfo(type_.dtype)
    return [("add", 0), ("maximum", info.min), ("minimum", info.max), ("multiply", 1), ("or", 0), ("xor", 0)]


@step(1)
def selected(w: World) -> None:
    """Numbers added (or put together otherwise) where each window has its extreme element."""
    a = w.find(lambda t: 1 <= len(t.shape) <= 3 and 0 not in t.shape and (is_float(t) or is_integer(t)))
    shape, dtype = w.types[a].shape, np.dtype(w.types[a].dtype).name
    size = [w.integer(1, min(3, n)) for n in shape]
    stride = [w.choice((1, 1, 2)) for _ in shape]
    # every window sees an element: else nobody says where its number goes
    padding = [(w.integer(0, k - 1), w.integer(0, k - 1)) for k in size]
    found = tuple(fitting(n + sum(p), k, s) for n, p, k, s in zip(shape, padding, size, stride, strict=True))
    attributes = {
        "window_dimensions": mlir_list(size),
        "window_strides": mlir_list(stride),
        "padding": pairs(padding),
    }
    way = {"comparison_direction": f"#stablehlo<comparison_direction {w.choice(('GE', 'LE'))}>"}
    name, start = w.choice([r for r in reducers(w, a) if r[0] not in ("or", "xor", "multiply")])
    regions = [binary("stablehlo.compare", dtype, "bool", **way), binary(f"stablehlo.{name}", dtype)]

    def f(x: Any) -> Any:
        source = (jnp.arange(int(np.prod(found))) % 7).reshape(found).astype(dtype)
        operands = (x, source, np.dtype(dtype).type(start))
        made = emit("stablehlo.select_and_scatter", operands, [(shape, dtype)], attributes, regions)
        return jnp.clip(made, -99, 99) if is_float(w.types[a]) else made

    w.add(f"select_and_scatter {name}", f, a, steady=False)


@step(0.5)
def pooled(w: World) -> None:
    """The gradient of a maximum over windows."""
    a = w.find(lambda t: t.dtype == np.float32 and 1 <= len(t.shape) <= 3 and 0 not in t.shape)
    size = [w.integer(1, min(3, n)) for n in w.types[a].shape]
    stride = [w.choice((1, 1, 2)) for _ in size]

    def f(x: Any) -> Any:
        return (lax.reduce_window(x, -jnp.asarray(np.inf, x.dtype), lax.max, size, stride, "SAME") * 2).sum()

    w.add("pool gradient", jax.grad(f), a, steady=False)
