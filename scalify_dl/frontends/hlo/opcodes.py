"""Lowering of HLO opcodes that compute: elementwise, structural, reductions, contractions, indexing, windows."""

from __future__ import annotations

import re
from math import prod

from ..graph import Tensor
from ..literals import Literal
from ..vocabulary import ELEMENTWISE
from .attributes import integers, unquote
from .constants import parse_constant
from .lower import OPCODES, Lowering, array, numbers_of, opcode, opened, results, shaped, tensors, unknown
from .module import Instruction
from .types import flatten

RENAMED = {"count-leading-zeros": "clz"}
_SLICE = re.compile(r"\[\s*(\d+)\s*:\s*(\d+)\s*(?::\s*(\d+)\s*)?\]")


def elementwise(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Operands of the result's shape; scalar operands (of `select`, `clamp`) are broadcast."""
    x = tensors(i, operands)
    type_ = array(i)
    if i.opcode in ("select", "clamp"):
        x = [broadcast_scalar(lo, i, t, type_.shape, n) for n, t in enumerate(x)]
    symbols, numbers = {}, {}
    if i.opcode == "compare":
        direction = i.attributes.get("direction")
        if direction not in ("EQ", "NE", "LT", "LE", "GT", "GE"):
            raise i.error(f"direction={direction}", expected="EQ, NE, LT, LE, GT or GE")
        symbols["direction"] = [direction]
    elif i.opcode == "reduce-precision":
        numbers = {key: numbers_of(i, key)[:1] for key in ("exponent_bits", "mantissa_bits")}
    return results(lo.emit(i, RENAMED.get(i.opcode, i.opcode), x, numbers=numbers, symbols=symbols))


for _kind in sorted(ELEMENTWISE | set(RENAMED)):
    OPCODES[_kind] = elementwise


def broadcast_scalar(lo: Lowering, i: Instruction, x: Tensor, shape: tuple[int, ...], n: int = 0) -> Tensor:
    """A scalar repeated to `shape`; anything else as it is."""
    if x.shape != () or shape == ():
        return x
    op = lo.emit(i, "broadcast", [x], [(x.dtype, shape)], numbers={"dimensions": []}, suffix=f".broadcast{n}")
    return op.result


@opcode("constant")
def constant(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Exact text, canonical; `{...}` is elided."""
    types = flatten(i.type)
    if len(types) != 1 or types[0].dtype in ("token", "opaque"):
        return unknown(lo, i, [])
    type_ = types[0]
    try:
        literal = parse_constant(i.operand_text, type_.dtype, type_.shape)
    except ValueError as error:
        raise i.error(str(error)) from None
    op = lo.emit(i, "constant", [])
    op.result.literal = literal
    return op.result


@opcode("iota")
def iota(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Index along one dim."""
    return results(lo.emit(i, "iota", [], numbers={"dimension": numbers_of(i, "iota_dimension")[:1]}))


@opcode("broadcast")
def broadcast(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Result dims in ascending order, a transpose before where they are not."""
    (x,) = tensors(i, operands, 1)
    dimensions = numbers_of(i, "dimensions") if "dimensions" in i.attributes else []
    if dimensions != sorted(dimensions) and len(dimensions) == len(x.shape):
        order = sorted(range(len(dimensions)), key=lambda d: dimensions[d])
        x = transposed(lo, i, x, order, ".transpose")
        dimensions = sorted(dimensions)
    return results(lo.emit(i, "broadcast", [x], numbers={"dimensions": dimensions}))


def transposed(lo: Lowering, i: Instruction, x: Tensor, order: list[int], suffix: str) -> Tensor:
    """x with its dims permuted; x itself where the order is the identity."""
    if order == sorted(order):
        return x
    shape = tuple(x.shape[d] for d in order)
    return lo.emit(i, "transpose", [x], [(x.dtype, shape)], numbers={"dimensions": order}, suffix=suffix).result


@opcode("reshape", "dynamic-reshape")
def reshape(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Row-major."""
    if i.opcode == "dynamic-reshape":
        return unknown(lo, i, operands)
    (x,) = tensors(i, operands, 1)
    return results(lo.emit(i, "reshape", [x]))


@opcode("bitcast")
def bitcast(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """The same bytes read with another type: physical order → reshape → logical order."""
    (x,) = tensors(i, operands, 1)
    type_ = array(i)
    if x.dtype != type_.dtype:
        return unknown(lo, i, operands)
    source_order = lo.memory_order(i)
    target_order = type_.minor_to_major or tuple(reversed(range(len(type_.shape))))
    if x.shape == type_.shape and source_order == target_order:
        return x
    if prod(x.shape) != prod(type_.shape):
        raise i.error(f"{x.type} and {i.type_text} hold different numbers of elements")
    physical = transposed(lo, i, x, list(reversed(source_order)), ".physical")
    major = list(reversed(target_order))
    shape = tuple(type_.shape[d] for d in major)
    if physical.shape != shape:
        last = major == sorted(major)
        physical = lo.emit(i, "reshape", [physical], [(x.dtype, shape)], suffix="" if last else ".reshape").result
    back = [major.index(d) for d in range(len(major))]
    return transposed(lo, i, physical, back, "")


@opcode("transpose")
def transpose(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Result dim j is operand dim `dimensions[j]`."""
    (x,) = tensors(i, operands, 1)
    return results(lo.emit(i, "transpose", [x], numbers={"dimensions": numbers_of(i, "dimensions")}))


@opcode("reverse")
def reverse(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Elements in opposite order."""
    (x,) = tensors(i, operands, 1)
    return results(lo.emit(i, "reverse", [x], numbers={"dimensions": numbers_of(i, "dimensions")}))


@opcode("slice")
def slice_(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """`slice={[lo:hi:step], …}`."""
    (x,) = tensors(i, operands, 1)
    text = i.attributes.get("slice", "")
    bounds = _SLICE.findall(text)
    if _SLICE.sub("", text.strip("{}")).strip(", ") or len(bounds) != len(x.shape):
        raise i.error(f"slice={text} for {x.type}", expected="one [lo:hi] or [lo:hi:step] per dim")
    numbers = {
        "start": [int(lo_) for lo_, _, _ in bounds],
        "limit": [int(hi) for _, hi, _ in bounds],
        "stride": [int(step or 1) for _, _, step in bounds],
    }
    return results(lo.emit(i, "slice", [x], numbers=numbers))


@opcode("pad")
def pad(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """`padding=low_high[_interior]x…`."""
    x = tensors(i, operands, 2)
    text = i.attributes.get("padding", "")
    entries = [list(map(int, part.split("_"))) for part in text.split("x")] if x[0].shape else []
    if any(len(entry) not in (2, 3) for entry in entries) or len(entries) != len(x[0].shape):
        raise i.error(f"padding={text} for {x[0].type}", expected="low_high or low_high_interior per dim, joined by `x`")
    numbers = {
        "low": [entry[0] for entry in entries],
        "high": [entry[1] for entry in entries],
        "interior": [entry[2] if len(entry) == 3 else 0 for entry in entries],
    }
    return results(lo.emit(i, "pad", x, numbers=numbers))


@opcode("concatenate")
def concatenate(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Along one dim."""
    return results(
        lo.emit(i, "concatenate", tensors(i, operands), numbers={"dimension": numbers_of(i, "dimensions")[:1]})
    )


@opcode("dot")
def dot(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Contraction; batch and contracting dims as stated (none where they are absent)."""
    x = tensors(i, operands)
    if len(x) != 2:
        return unknown(lo, i, operands)  # sparse or scaled dots carry metadata operands
    keys = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    numbers = {key: integers(i.attributes[key]) if key in i.attributes else [] for key in keys}
    return results(lo.emit(i, "dot", x, numbers=numbers))


# ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────────────

INTEGER_BITS = re.compile(r"([su])(\d+)\Z")
FINITE_LOWEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38}
AFTERWARDS = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply", "and": "and", "or": "or", "xor": "xor"}


def is_identity(reducer: str, literal: Literal | None, dtype: str) -> bool:
    """Whether reducing from this initial value is reducing from nothing."""
    if literal is None:
        return False
    text = literal.text
    if reducer in ("sum", "xor", "or") and text == "0":
        return True
    if reducer == "prod":
        return text == "1"
    if reducer == "and":
        return text == ("1" if dtype == "pred" else "-1")
    if reducer in ("max", "min"):
        if text == ("-inf" if reducer == "max" else "inf"):
            return True
        match = INTEGER_BITS.match(dtype)
        if match and literal.rational is not None:
            bits = int(match[2])
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if match[1] == "s" else (0, 2**bits - 1)
            return literal.rational == (low if reducer == "max" else high)
        if dtype == "pred":
            return text == ("0" if reducer == "max" else "1")
    return False


def from_init(lo: Lowering, i: Instruction, reducer: str, result: Tensor, init: Tensor) -> Tensor:
    """A reduction from another value than the identity: the value is combined afterwards."""
    if is_identity(reducer, init.literal, init.dtype):
        return result
    value = broadcast_scalar(lo, i, init, result.shape)
    return lo.emit(i, AFTERWARDS[reducer], [result, value], [(result.dtype, result.shape)], suffix=".init").result


@opcode("reduce")
def reduce(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Plain reducers per operand, index reductions, anything else with its computation as a region."""
    x = tensors(i, operands)
    if len(x) % 2 or not x:
        raise i.error(f"has {len(x)} operands", expected="values and as many initial values")
    count = len(x) // 2
    values, inits = x[:count], x[count:]
    dimensions = numbers_of(i, "dimensions")
    name = i.attributes.get("to_apply")
    computation = lo.called(name, i)
    kinds = lo.reducers.variadic(computation.name)
    types = [(t.dtype, t.shape) for t in flatten(i.type)]
    if len(types) != count:
        raise i.error(f"{count} values, {len(types)} results")
    if len(kinds) != count:
        kinds = [None]
    if count == 2 and kinds[0] in ("argmax", "argmin"):
        return index_reduction(lo, i, kinds[0], values, inits, dimensions, types)
    if None in kinds or "replace" in kinds:
        op = lo.emit(
            i,
            "reduce",
            x,
            types,
            numbers={"dimensions": dimensions},
            symbols={"reducer": ["region"]},
            regions=[lo.region(computation.name, i)],
        )
        return shaped(op.results, i.type)
    found: list[Tensor] = []
    for n, kind in enumerate(kinds):
        assert kind is not None
        op = lo.emit(
            i,
            "reduce",
            [values[n]],
            [types[n]],
            numbers={"dimensions": dimensions},
            symbols={"reducer": [kind]},
            suffix=f".{n}" if count > 1 else "",
        )
        found.append(from_init(lo, i, kind, op.result, inits[n]))
    return shaped(found, i.type)


def is_iota(lo: Lowering, x: Tensor, dimension: int) -> bool:
    """Whether x is the index along a dim, possibly repeated along others."""
    op = lo.producer.get(x)
    if op is not None and op.kind == "broadcast" and dimension in op.numbers["dimensions"]:
        dimension = op.numbers["dimensions"].index(dimension)
        op = lo.producer.get(op.operands[0])
    return op is not None and op.kind == "iota" and op.numbers["dimension"] == [dimension]


def index_reduction(
    lo: Lowering,
    i: Instruction,
    kind: str,
    values: list[Tensor],
    inits: list[Tensor],
    dimensions: list[int],
    types: list[tuple[str, tuple[int, ...]]],
) -> object:
    """(value, index) pairs reduced to the best value and its lowest index, over an iota along the one reduced dim."""
    best = "max" if kind == "argmax" else "min"
    zero = inits[1].literal is not None and inits[1].literal.text == "0"
    if len(dimensions) != 1 or not is_iota(lo, values[1], dimensions[0]) or not zero or not is_identity(best, inits[0].literal, inits[0].dtype):
        op = lo.emit(
            i,
            "reduce",
            [*values, *inits],
            types,
            numbers={"dimensions": dimensions},
            symbols={"reducer": ["region"]},
            regions=[lo.region(i.attributes["to_apply"], i)],
        )
        return shaped(op.results, i.type)
    numbers = {"dimensions": dimensions}
    value = lo.emit(i, "reduce", [values[0]], [types[0]], numbers=numbers, symbols={"reducer": [best]}, suffix=".value")
    index = lo.emit(i, "reduce", [values[0]], [types[1]], numbers=dict(numbers), symbols={"reducer": [kind]}, suffix=".index")
    return shaped([value.result, index.result], i.type)


# ── indexing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

GATHER = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims")
SCATTER = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
)


@opcode("gather")
def gather(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """XLA gather."""
    numbers = {key: integers(i.attributes.get(key, "")) for key in GATHER}
    numbers["slice_sizes"] = numbers_of(i, "slice_sizes")
    numbers["index_vector_dim"] = numbers_of(i, "index_vector_dim")
    return results(lo.emit(i, "gather", tensors(i, operands, 2), numbers=numbers))


@opcode("scatter")
def scatter(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """XLA scatter with a known reducer; several operands at once, or another reducer, stay unknown."""
    x = tensors(i, operands)
    kind = lo.reducers.binary(lo.called(i.attributes.get("to_apply"), i).name) if len(x) == 3 else None
    if kind not in ("replace", "sum", "max", "min", "prod"):
        return unknown(lo, i, operands)
    numbers = {key: integers(i.attributes.get(key, "")) for key in SCATTER}
    numbers["index_vector_dim"] = numbers_of(i, "index_vector_dim")
    return results(lo.emit(i, "scatter", x, numbers=numbers, symbols={"reducer": [kind]}))


def starts(lo: Lowering, i: Instruction, x: list[Tensor], rank: int) -> list[Tensor]:
    """Scalar starts; older text gives them as one vector."""
    if len(x) == 1 and x[0].shape == (rank,) and rank != 0:
        vector = x[0]
        scalars = []
        for d in range(rank):
            bounds = {"start": [d], "limit": [d + 1], "stride": [1]}
            item = lo.emit(i, "slice", [vector], [(vector.dtype, (1,))], numbers=bounds, suffix=f".start{d}")
            scalars.append(lo.emit(i, "reshape", [item.result], [(vector.dtype, ())], suffix=f".scalar{d}").result)
        return scalars
    return x


@opcode("dynamic-slice")
def dynamic_slice(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A window whose starts are values."""
    x, *rest = tensors(i, operands)
    rest = starts(lo, i, rest, len(x.shape))
    return results(
        lo.emit(i, "dynamic-slice", [x, *rest], numbers={"sizes": numbers_of(i, "dynamic_slice_sizes")})
    )


@opcode("dynamic-update-slice")
def dynamic_update_slice(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A window overwritten."""
    x, update, *rest = tensors(i, operands)
    return results(lo.emit(i, "dynamic-update-slice", [x, update, *starts(lo, i, rest, len(x.shape))]))


@opcode("sort")
def sort(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Sorted by the first operand, or by a comparator kept as a region."""
    x = tensors(i, operands)
    numbers = {"dimension": numbers_of(i, "dimensions")[:1]}
    if i.attributes.get("is_stable") == "true":
        numbers["stable"] = [1]
    name = lo.called(i.attributes.get("to_apply"), i).name
    order = lo.reducers.order(name)
    symbols = {"direction": [order if order else "region"]}
    regions = [] if order else [lo.region(name, i)]
    return results(lo.emit(i, "sort", x, numbers=numbers, symbols=symbols, regions=regions))


@opcode("topk")
def top_k(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """The k largest along the last dim."""
    if i.attributes.get("largest", "true") != "true":
        return unknown(lo, i, operands)
    return results(lo.emit(i, "top-k", tensors(i, operands, 1), numbers={"k": numbers_of(i, "k")[:1]}))


# ── windows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def window(i: Instruction, rank: int) -> dict[str, list[int]]:
    """`window={size=2x2 stride=2x2 pad=0_0x1_1 lhs_dilate=… rhs_dilate=… rhs_reversal=…}` as number lists."""
    pairs = dict(part.split("=", 1) for part in i.attributes.get("window", "{}").strip("{}").split() if "=" in part)

    def sizes(key: str, default: int) -> list[int]:
        values = [int(part) for part in pairs[key].split("x")] if key in pairs else [default] * rank
        if len(values) != rank:
            raise i.error(f"window {key}={pairs.get(key)} for {rank} dims")
        return values

    padding = [part.split("_") for part in pairs["pad"].split("x")] if "pad" in pairs else [["0", "0"]] * rank
    if len(padding) != rank or any(len(entry) != 2 for entry in padding):
        raise i.error(f"window pad={pairs.get('pad')} for {rank} dims")
    return {
        "window_size": sizes("size", 1),
        "window_stride": sizes("stride", 1),
        "window_pad_low": [int(low) for low, _ in padding],
        "window_pad_high": [int(high) for _, high in padding],
        "window_dilation": sizes("rhs_dilate", 1),
        "base_dilation": sizes("lhs_dilate", 1),
        "window_reversal": sizes("rhs_reversal", 0),
    }


@opcode("reduce-window")
def reduce_window(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A reduction over every window."""
    x = tensors(i, operands)
    kind = lo.reducers.binary(lo.called(i.attributes.get("to_apply"), i).name) if len(x) == 2 else None
    if kind in (None, "replace") or kind is None:
        return unknown(lo, i, operands)
    numbers = window(i, len(x[0].shape))
    del numbers["window_reversal"]
    if not is_identity(kind, x[1].literal, x[1].dtype) and any(numbers["window_pad_low"] + numbers["window_pad_high"]):
        return unknown(lo, i, operands)  # padding is filled with the initial value
    op = lo.emit(i, "reduce-window", [x[0]], numbers=numbers, symbols={"reducer": [kind]})
    return from_init(lo, i, kind, op.result, x[1])


@opcode("select-and-scatter")
def select_and_scatter(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Each source value goes to the selected element of its window (the gradient of pooling)."""
    x = tensors(i, operands, 3)
    reducer = lo.reducers.binary(lo.called(i.attributes.get("scatter"), i).name)
    comparison = lo.called(i.attributes.get("select"), i)
    direction = comparison.root.attributes.get("direction") if comparison.root.opcode == "compare" else None
    if reducer != "sum" or direction not in ("GE", "GT", "LE", "LT") or not is_identity("sum", x[2].literal, x[2].dtype):
        return unknown(lo, i, operands)
    numbers = window(i, len(x[0].shape))
    numbers = {key: numbers[key] for key in ("window_size", "window_stride", "window_pad_low", "window_pad_high")}
    return results(
        lo.emit(i, "select-and-scatter", x[:2], numbers=numbers, symbols={"reducer": [reducer], "select": [direction]})
    )


_LABELS = re.compile(r"([\w?]+)_([\w?]+)->([\w?]+)\Z")


@opcode("convolution")
def convolution(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """`dim_labels=b01f_01io->b01f`."""
    x = tensors(i, operands, 2)
    labels = _LABELS.match(i.attributes.get("dim_labels", ""))
    rank = len(x[0].shape)
    if not labels or any(len(part) != rank for part in labels.groups()):
        raise i.error(f"dim_labels={i.attributes.get('dim_labels')} for {x[0].type} and {x[1].type}")
    spatial = [str(d) for d in range(rank - 2)]
    numbers = window(i, rank - 2)
    del numbers["window_size"]
    try:
        for name, part, first, second in (
            ("input", labels[1], ("batch", "b"), ("feature", "f")),
            ("kernel", labels[2], ("input_feature", "i"), ("output_feature", "o")),
            ("output", labels[3], ("batch", "b"), ("feature", "f")),
        ):
            numbers[f"{name}_{first[0]}"] = [part.index(first[1])]
            numbers[f"{name}_{second[0]}"] = [part.index(second[1])]
            numbers[f"{name}_spatial"] = [part.index(d) for d in spatial]
    except ValueError:
        raise i.error(f"dim_labels={labels[0]}") from None
    for key in ("feature_group_count", "batch_group_count"):
        numbers[key] = integers(i.attributes.get(key, "1"))[:1]
    return results(lo.emit(i, "convolution", x, numbers=numbers))


# ── random, opaque ───────────────────────────────────────────────────────────────────────────────────────────────────


@opcode("rng")
def rng(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """`distribution=rng_uniform` or `rng_normal` with its two parameters."""
    distribution = i.attributes.get("distribution", "")
    kind = {"rng_uniform": "rng-uniform", "rng_normal": "rng-normal"}.get(distribution, "rng")
    return results(lo.emit(i, kind, tensors(i, operands)))


@opcode("rng-bit-generator")
def rng_bit_generator(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """New state and bits."""
    algorithm = i.attributes.get("algorithm", "rng_default")
    op = lo.emit(i, "rng-bit-generator", tensors(i, operands), symbols={"algorithm": [algorithm]})
    return shaped(op.results, i.type)


IGNORED = frozenset({"metadata", "sharding", "frontend_attributes", "custom_call_target", "api_version", "backend_config",
                     "operand_layout_constraints", "custom_call_has_side_effect", "opaque", "control-predecessors",
                     "called_computations", "to_apply", "output_to_operand_aliasing", "statistics", "schedule"})
MARKERS = frozenset({"Sharding", "MoveToHost", "MoveToDevice", "PinToHost", "annotate_device_placement", "LayoutConstraint"})


@opcode("custom-call")
def custom_call(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """An opaque call, with its target, configuration and numbers; markers that change nothing are their operand."""
    target = unquote(i.attributes.get("custom_call_target", ""))
    if not target:
        raise i.error("attribute `custom_call_target` is missing")
    flat = [tensor for operand in operands for tensor in opened(operand) if tensor is not None]
    if target in MARKERS and len(operands) == 1:
        return operands[0]
    symbols: dict[str, list[str]] = {}
    numbers: dict[str, list[int]] = {}
    config = unquote(i.attributes.get("backend_config", i.attributes.get("opaque", "")))
    if config:
        symbols["config"] = [" ".join(config.split())]
    for key, value in i.attributes.items():
        if key not in IGNORED:
            if re.fullmatch(r"-?\d{1,9}|\{[\d,\s-]*\}", value):
                numbers[key] = integers(value)
            else:
                symbols[key] = [" ".join(unquote(value).split())]
    name = re.sub(r"\s+", "_", target)
    types = [(t.dtype, t.shape) for t in flatten(i.type) if t.dtype not in ("token", "opaque")]
    if not types:
        return shaped([], i.type)
    called = i.attributes.get("called_computations", "").strip("{}")
    names = [part.strip() for part in called.split(",") if part.strip()]
    if i.attributes.get("to_apply"):
        names.append(i.attributes["to_apply"])
    regions = [lo.region(part, i) for part in names]
    op = lo.emit(i, f"custom:{name}", flat, types, numbers=numbers, symbols=symbols, regions=regions)
    return shaped(op.results, i.type)

