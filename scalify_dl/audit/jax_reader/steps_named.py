"""Random steps: ops of StableHLO and CHLO that jax.numpy does not make, by their names."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .raw import Inner, Region, binary, emit
from .steps_access import mlir_list, truth
from .steps_data import dims_of
from .steps_plain import pair, step
from .world import Refused, World, is_bool, is_float, is_integer, is_number

SMOOTH = (
    "chlo.square", "chlo.atan", "chlo.erfc", "chlo.sinh", "chlo.cosh", "chlo.erf", "chlo.tan", "stablehlo.tan",
    "stablehlo.logistic", "stablehlo.cbrt", "stablehlo.exponential_minus_one", "stablehlo.negate",
)  # fmt: skip
JUMPS = ("stablehlo.round_nearest_afz", "stablehlo.round_nearest_even", "stablehlo.floor", "stablehlo.sign")
TESTS = ("chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf", "stablehlo.is_finite")
BROADCAST_REAL = ("add", "subtract", "multiply", "maximum", "minimum", "atan2", "divide", "power", "remainder")
BROADCAST_WHOLE = ("and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic", "divide",
                   "remainder", "add", "subtract", "multiply", "maximum", "minimum")  # fmt: skip
COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def shaped(w: World, a: int, dtype: str | None = None) -> list[tuple[tuple[int, ...], str]]:
    """The type of a value, or another dtype in its shape, as the one result of an op."""
    return [(w.types[a].shape, dtype or np.dtype(w.types[a].dtype).name)]


@step(1)
def unary_by_name(w: World) -> None:
    """Of one real value."""
    a, name = w.find(is_float), w.choice(SMOOTH + JUMPS + TESTS)
    result = shaped(w, a, "bool" if name in TESTS else None)
    if name in ("chlo.tan", "stablehlo.tan"):
        w.add(name, lambda x: emit(name, (jnp.tanh(x),), result), a)
    else:
        w.add(name, lambda x: emit(name, (x,), result), a, steady=name in SMOOTH)


@step(1)
def arithmetic_by_name(w: World) -> None:
    """Of integers, also where JAX or the program would guard: division by zero, numbers that do not
    fit. (Exponents are small: of large and of negative ones XLA has several opinions, and it would make some of a
    division by a power.)"""
    a, b = pair(w, is_integer)
    names = ("divide", "remainder", "subtract", "shift_left") + ("power",) * (np.dtype(w.types[a].dtype).name[0] == "i")
    name = w.choice(names)

    def f(x: Any, y: Any) -> Any:
        if name == "power":
            y = jnp.abs(lax.rem(y, jnp.full_like(y, 6)))
            return lax.optimization_barrier(emit("stablehlo.power", (x, y), shaped(w, a)))
        return emit(f"stablehlo.{name}", (x, y), shaped(w, a))

    w.add(f"{name} of integers", f, a, b)


@step(0.5)
def logic_by_name(w: World) -> None:
    """Arithmetic on booleans is logic."""
    a, b = pair(w, is_bool)
    name = w.choice(("add", "multiply", "maximum", "minimum", "and", "or", "xor"))
    w.add(f"{name} of booleans", lambda x, y: emit(f"stablehlo.{name}", (x, y), shaped(w, a)), a, b)


@step(1)
def broadcasting_by_name(w: World) -> None:
    """CHLO's ops that broadcast by themselves: trailing dims, or dims that are named."""
    whole = w.chance(0.5)
    a = w.find(lambda t: (is_integer if whole else is_float)(t) and len(t.shape) <= 3)
    shape, dtype = w.types[a].shape, np.dtype(w.types[a].dtype).name
    skipped = w.integer(0, len(shape))
    small = tuple(1 if w.chance(0.3) else n for n in shape[skipped:])
    name = w.choice((*(BROADCAST_WHOLE if whole else BROADCAST_REAL), "compare", "select"))
    named = {"broadcast_dimensions": mlir_list(range(skipped, len(shape)))} if w.chance(0.5) else {}
    b = w.find(lambda t: t.dtype == w.types[a].dtype)
    odd = ("divide", "power", "remainder")

    def f(x: Any, y: Any) -> Any:
        y = jnp.resize(y, small) if y.size else jnp.ones(small, y.dtype)
        if not whole and name in odd:
            # of few bits: what is rounded here is behind a jump, or in an exponent, before anybody sees it
            x, y = jnp.abs(x) + jnp.ones_like(x), jnp.where(y > jnp.zeros_like(y), 2.5, 1.5).astype(y.dtype)
        if name == "compare":
            return emit("chlo.broadcast_compare", (x, y), [(shape, "bool")], named | direction | order)
        if name == "select":
            return emit("chlo.broadcast_select", (y > jnp.zeros_like(y), x, x * x), [(shape, dtype)])
        return emit(f"chlo.broadcast_{name}", (x, y), [(shape, dtype)], named)

    direction = {"comparison_direction": f"#chlo<comparison_direction {w.choice(COMPARISONS)}>"}
    own = "FLOAT" if not whole else "UNSIGNED" if dtype[0] == "u" else "SIGNED"
    order = {"compare_type": f"#chlo<comparison_type {own}>"} if w.chance(0.5) else {}
    w.add(f"broadcast_{name}", f, a, b, steady=name not in ("compare", "select", "remainder", "atan2"))


@step(0.5)
def complex_by_name(w: World) -> None:
    """Complex numbers made with broadcasting, or by arithmetic, and their parts."""
    a, b = pair(w, lambda t: t.dtype in (np.float32, np.float64))
    made = shaped(w, a, "complex64" if w.types[a].dtype == np.float32 else "complex128")
    name = w.choice(("add", "subtract", "multiply", "negate", "broadcast_complex"))
    rank = len(w.types[a].shape)
    skipped = w.integer(0, rank)
    named = {"broadcast_dimensions": mlir_list(range(skipped, rank))} if w.chance(0.5) else {}

    def f(x: Any, y: Any) -> Any:
        fewer = jnp.resize(y, y.shape[skipped:]) if y.size else jnp.ones(y.shape[skipped:], y.dtype)
        p = emit("chlo.broadcast_complex", (x, fewer), made, named)
        if name == "negate":
            p = emit("stablehlo.negate", (p,), made)
        elif name != "broadcast_complex":
            p = emit(f"stablehlo.{name}", (p, lax.complex(y, x)), made)
        return jnp.real(p), jnp.imag(p)

    w.add(f"complex {name}", f, a, b)


@step(0.5)
def matrix_product_by_name(w: World) -> None:
    """`stablehlo.dot` of vectors and matrices, of booleans too."""
    a = w.find(lambda t: len(t.shape) in (1, 2))
    n = w.types[a].shape[-1]
    b = w.find(
        lambda t: t.dtype == w.types[a].dtype and len(t.shape) in (1, 2) and t.shape[0] == n and 0 not in t.shape
    )
    shape = w.types[a].shape[:-1] + w.types[b].shape[1:]
    result = [(shape, np.dtype(w.types[a].dtype).name)]
    precision = {"precision_config": "[#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>]"}
    attributes = precision if w.chance(0.5) else {}
    w.add("dot", lambda x, y: emit("stablehlo.dot", (x, y), result, attributes), a, b)


@step(0.5)
def map_by_name(w: World) -> None:
    """A scalar function over all elements."""
    a, b = pair(w, is_number)
    dtype = np.dtype(w.types[a].dtype).name
    every = mlir_list(range(len(w.types[a].shape)))
    name = w.choice(("add", "multiply", "subtract", "maximum"))
    inner = Region(
        (dtype, dtype),
        (Inner("stablehlo.maximum", (0, 1), dtype), Inner(f"stablehlo.{name}", (2, 1), dtype)),
        (3,),
    )
    w.add("map", lambda x, y: emit("stablehlo.map", (x, y), shaped(w, a), {"dimensions": every}, [inner]), a, b)


@step(1)
def branch_by_name(w: World) -> None:
    """A branch by an index that may be out of range: then it is the last."""
    i = w.find(lambda t: t.shape == () and (t.dtype == np.int32 or is_bool(t)))
    scalar = w.find(lambda t: t.shape == () and is_number(t))
    dtype = np.dtype(w.types[scalar].dtype).name
    count = 2 if is_bool(w.types[i]) else w.integer(1, 4)
    names = [w.choice(("add", "multiply", "maximum", "subtract")) for _ in range(count)]
    regions = [Region((), (Inner(f"stablehlo.{name}", (0, 0), dtype),), (w.integer(0, 1),)) for name in names]
    op = "stablehlo.if" if is_bool(w.types[i]) else "stablehlo.case"
    w.add(op, lambda j, x: emit(op, (j,), [((), dtype)], {}, regions, (x,)), i, scalar)


@step(0.5)
def size_by_name(w: World) -> None:
    """The size of a dim."""
    a = w.find(lambda t: bool(t.shape))
    d = w.integer(0, len(w.types[a].shape) - 1)
    attribute = {"dimension": f"{d} : i64"}
    w.add("size", lambda x: emit("stablehlo.get_dimension_size", (x,), [((), "int32")], attribute), a)


@step(1)
def reduction_by_name(w: World) -> None:
    """A reduction by any op of scalars, from any number, of several values at once."""
    a = w.find(lambda t: bool(t.shape))
    shape, dtype = w.types[a].shape, np.dtype(w.types[a].dtype).name
    dims = dims_of(w, a)
    if any(shape[d] < 2 for d in dims):
        raise Refused("XLA leaves out the number where there is nothing to add up")
    names = ["add", "multiply", "maximum", "minimum"] + ["and", "or", "xor"] * (not is_float(w.types[a]))
    name, start = w.choice(names), w.choice((0, 1, 2))
    kept = tuple(n for d, n in enumerate(shape) if d not in dims)
    attributes = {"dimensions": mlir_list(dims)}
    region = binary(f"stablehlo.{name}", dtype)
    if w.chance(0.2):
        both = Region(
            (dtype,) * 4,
            (Inner(f"stablehlo.{name}", (0, 2), dtype), Inner("stablehlo.maximum", (1, 3), dtype)),
            (4, 5),
        )
        w.add("reduce two", lambda x: emit("stablehlo.reduce", (x, x, x.dtype.type(start), x.dtype.type(0)),
                                           [(kept, dtype)] * 2, attributes, [both]), a)  # fmt: skip
        return
    w.add(
        f"reduce {name}",
        lambda x: emit("stablehlo.reduce", (x, x.dtype.type(start)), [(kept, dtype)], attributes, [region]),
        a,
    )


@step(1)
def sort_by_name(w: World) -> None:
    """Sorted by a comparator, the whole order among them; equal keys keep their order unless that is never seen."""
    a = w.find(lambda t: bool(t.shape) and (is_number(t) or is_bool(t)))
    shape, dtype = w.types[a].shape, np.dtype(w.types[a].dtype).name
    more = [w.find(lambda t: t.shape == shape) for _ in range(w.integer(0, 2))]
    total = is_float(w.types[a]) and w.chance(0.5)
    direction = {"comparison_direction": f"#stablehlo<comparison_direction {w.choice(('LT', 'GT'))}>"}
    if total:
        direction["compare_type"] = "#stablehlo<comparison_type TOTALORDER>"
    dtypes = [dtype, *(np.dtype(w.types[b].dtype).name for b in more)]
    less = Region(
        tuple(d for d in dtypes for _ in range(2)),
        (Inner("stablehlo.compare", (0, 1), "bool", tuple(direction.items())),),
        (2 * len(dtypes),),
    )
    attributes = {
        "dimension": f"{w.integer(0, len(shape) - 1)} : i64",
        "is_stable": truth(bool(more) or w.chance(0.5)),
    }
    results = [(shape, d) for d in dtypes]

    def f(x: Any, *rest: Any) -> Any:
        if total:  # zeros of both signs are told apart by the whole order
            x = jnp.where(x == jnp.zeros_like(x), jnp.zeros_like(x), x)
        return emit("stablehlo.sort", (x, *rest), results, attributes, [less])

    w.add("sort", f, a, *more, steady=False)


@step(0.3)
def ranks_by_name(w: World) -> None:
    """Collectives of a program that runs on one device, and its ids."""
    a = w.find(lambda t: bool(t.shape) and is_number(t))
    shape, dtype = w.types[a].shape, np.dtype(w.types[a].dtype).name
    d = f"{w.integer(0, len(shape) - 1)} : i64"
    groups = {"replica_groups": "dense<0> : tensor<1x1xi64>"}
    channel = {"channel_handle": "#stablehlo.channel_handle<handle = 1, type = 1>"} if w.chance(0.5) else {}
    spread = {"split_dimension": d, "concat_dimension": d, "split_count": "1 : i64"}
    adding = [binary("stablehlo.add", dtype)]
    name, attributes, regions = w.choice((
        ("all_reduce", groups, adding), ("all_gather", groups | {"all_gather_dim": d}, []),
        ("reduce_scatter", groups | {"scatter_dimension": d}, adding), ("all_to_all", groups | spread, []),
        ("collective_broadcast", groups, []),
        ("collective_permute", {"source_target_pairs": "dense<0> : tensor<1x2xi64>"}, []),
        ("partition_id", {}, []), ("replica_id", {}, []),
    ))  # fmt: skip
    if name.endswith("_id"):
        w.add(name, lambda x: x + emit(f"stablehlo.{name}", (), [((), "uint32")]).astype(x.dtype), a)
    else:
        w.add(name, lambda x: emit(f"stablehlo.{name}", (x,), [(shape, dtype)], attributes | channel, regions), a)
