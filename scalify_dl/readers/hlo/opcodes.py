"""Lowering of HLO opcodes that compute by themselves: elementwise, structural, contractions, indexing."""

from __future__ import annotations

import re
from math import prod

from scalify_dl.ir.graph import Tensor

from ..orders import LOGICAL, comparison_order
from ..orders import OPCODES as ELEMENTWISE
from .attributes import integers
from .constants import parse_constant
from .functions import promised
from .lower import Lowering, opcode, unknown
from .memory import reread
from .module import Instruction
from .types import flatten
from .values import array, numbers_of, results, tensors

_SLICE = re.compile(r"\[\s*(\d+)\s*:\s*(\d+)\s*(?::\s*(\d+)\s*)?\]")


@opcode(*ELEMENTWISE)
def elementwise(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Operands of the result's shape; scalar operands (of `select`, `clamp`) are broadcast."""
    x = tensors(i, operands)
    type_ = array(i)
    if i.opcode in ("select", "clamp"):
        x = [broadcast_scalar(lo, i, t, type_.shape, n) for n, t in enumerate(x)]
    symbols, numbers = {}, {}
    kind = ELEMENTWISE[i.opcode]
    if x and x[0].dtype == "pred":
        kind = LOGICAL.get(kind, kind)
    if i.opcode == "compare":
        direction = i.attributes.get("direction")
        if direction not in ("EQ", "NE", "LT", "LE", "GT", "GE"):
            raise i.error(f"direction={direction}", expected="EQ, NE, LT, LE, GT or GE")
        symbols["direction"] = [direction]
        if (order := i.attributes.get("type")) is not None:
            symbols |= comparison_order(order, x[0].dtype)
    elif i.opcode == "reduce-precision":
        numbers = {key: numbers_of(i, key)[:1] for key in ("exponent_bits", "mantissa_bits")}
    return results(lo.emit(i, kind, x, numbers=numbers, symbols=symbols))


@opcode("bitcast-convert")
def bitcast_convert(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """The same bits as another type of the same width; other widths change the shape and stay unknown."""
    (x,) = tensors(i, operands, 1)
    if x.shape != array(i).shape:
        return unknown(lo, i, operands)
    return x if x.dtype == array(i).dtype else lo.emit(i, "bitcast-convert", [x], symbols={"from": [x.dtype]}).result


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


@opcode("reshape")
def reshape(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Row-major."""
    (x,) = tensors(i, operands, 1)
    return results(lo.emit(i, "reshape", [x]))


@opcode("bitcast")
def bitcast(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """The same bytes read with another type, see `memory`."""
    (x,) = tensors(i, operands, 1)
    source, target = lo.stored(i, x), array(i)
    if x.dtype != target.dtype:
        same = x.shape == target.shape and reread(source, target._replace(dtype=x.dtype)) == []
        return bitcast_convert(lo, i, operands) if same else unknown(lo, i, operands)
    if prod(x.shape) != prod(target.shape):
        raise i.error(f"{x.type} and {i.type_text} hold different numbers of elements")
    steps = reread(source, target)
    if steps is None:
        return unknown(lo, i, operands)
    for n, (kind, numbers) in enumerate(steps):
        suffix = "" if n + 1 == len(steps) else f".{kind}{n}"
        if kind == "transpose":
            x = transposed(lo, i, x, list(numbers), suffix)
        else:
            x = lo.emit(i, kind, [x], [(x.dtype, numbers)], suffix=suffix).result
    return x


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
        raise i.error(
            f"padding={text} for {x[0].type}", expected="low_high or low_high_interior per dim, joined by `x`"
        )
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


GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)


@opcode("gather")
def gather(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """XLA gather."""
    numbers = {key: integers(i.attributes.get(key, "")) for key in GATHER}
    numbers["slice_sizes"] = numbers_of(i, "slice_sizes")
    numbers["index_vector_dim"] = numbers_of(i, "index_vector_dim")
    op = lo.emit(i, "gather", tensors(i, operands, 2), numbers=numbers)
    promised(lo, i, op)
    return results(op)


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
    return results(lo.emit(i, "dynamic-slice", [x, *rest], numbers={"sizes": numbers_of(i, "dynamic_slice_sizes")}))


@opcode("dynamic-update-slice")
def dynamic_update_slice(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A window overwritten."""
    x, update, *rest = tensors(i, operands)
    return results(lo.emit(i, "dynamic-update-slice", [x, update, *starts(lo, i, rest, len(x.shape))]))


@opcode("topk")
def top_k(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """The k largest along the last dim."""
    if i.attributes.get("largest", "true") != "true":
        return unknown(lo, i, operands)
    return results(lo.emit(i, "top-k", tensors(i, operands, 1), numbers={"k": numbers_of(i, "k")[:1]}))
