"""Lowering of HLO opcodes that take a function: reduce, reduce-window, scatter, sort, and convolution's windows.

The function is lowered to a graph and recognised there (see `regions` and `reductions`, shared with StableHLO).
"""

from __future__ import annotations

import re
from dataclasses import replace

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.vocabulary import ELEMENTWISE

from .. import reductions, regions
from .attributes import integers
from .lower import Lowering, opcode, unknown
from .module import Instruction
from .types import flatten
from .values import array, numbers_of, results, shaped, tensors


@opcode("reduce")
def reduce(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Known reducers start from their identity; index pairs become two reduces; others keep their function."""
    x = tensors(i, operands)
    count = len(x) // 2
    if len(x) % 2 or not x or len(flatten(i.type)) != count:
        raise i.error(f"has {len(x)} operands", expected="values and as many initial values")
    values, inits = x[:count], x[count:]
    name = i.attributes.get("to_apply")
    function = lo.function(name, i)
    before = len(lo.graph.ops)
    found = reductions.reduce(
        lo.graph, values, inits, numbers_of(i, "dimensions"), function, lo.producer, **lo.about(i)
    )
    for op in lo.graph.ops[before:]:
        if op.regions:
            op.regions = [lo.region(name, i)]
    lo.track(lo.graph.ops[before:])
    return shaped(found, i.type)


SCATTER = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
)


@opcode("scatter")
def scatter(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """XLA scatter with a known reducer; several operands at once, or another reducer, stay unknown."""
    x = tensors(i, operands)
    reducer = lo.recognised(regions.reducer, i, "to_apply") if len(x) == 3 else None
    if reducer not in ("replace", "sum", "max", "min", "prod"):
        return unknown(lo, i, operands)
    numbers = {key: integers(i.attributes.get(key, "")) for key in SCATTER}
    numbers["index_vector_dim"] = numbers_of(i, "index_vector_dim")
    op = lo.emit(i, "scatter", x, numbers=numbers, symbols={"reducer": [reducer]})
    promised(lo, i, op)
    return results(op)


def promised(lo: Lowering, i: Instruction, op: Op) -> None:
    """Lists what a gather or scatter says of its indices."""
    flags = [flag for flag in reductions.PROMISES if i.attributes.get(flag) == "true"]
    reductions.promised(lo.graph, op.result, op.operands[1], op.numbers["index_vector_dim"][0], flags)


def ordering(function: Graph) -> str | None:
    """`ASC` or `DESC` of a comparator; see `without_sort_keys`."""
    return regions.comparator(without_sort_keys(function))


def ordering_of_nan(function: Graph) -> str | None:
    """The same of a comparator that puts NaN above all."""
    simple = without_sort_keys(function)
    direction = regions.comparator(simple)
    return direction if direction and regions.orders_nan(simple, direction) else None


def without_sort_keys(function: Graph) -> Graph:
    """A comparator with XLA's integer sort keys replaced by the floats that they stand for.

    The key of a float is its bits b as a signed integer, `b < 0 ? b ^ 0x7fffffff : b`: a strictly increasing map of the
    floats by their total order, so comparing two keys is comparing the two floats so. Nothing is replaced where a key
    is used otherwise.
    """
    made = regions.producers(function.ops)
    floats: dict[Tensor, Tensor] = {}
    for op in function.ops:
        if op.kind != "select":
            continue
        test, flipped, bits = (made.get(t) for t in op.operands)
        if bits is None or bits.kind != "bitcast-convert" or flipped is None or test is None:
            continue
        plain, x = bits.result, bits.operands[0]
        top = 2 ** (int(plain.dtype[1:]) - 1) - 1 if plain.dtype[:1] == "s" else 0
        is_flip = flipped.kind == "xor" and {_value(t) for t in flipped.operands if t is not plain} == {top}
        negative = test.kind == "compare" and test.symbols["direction"] == ["LT"] and test.operands[0] is plain
        if top and is_flip and plain in flipped.operands and negative and _value(test.operands[1]) == 0:
            floats[op.result] = x
    uses = [op for op in function.ops if any(t in floats for t in op.operands)]
    outputs = {port.tensor for port in function.outputs}
    if not floats or outputs & floats.keys():
        return function
    if any(op.kind != "compare" or not all(t in floats for t in op.operands) for op in uses):
        return function
    simpler = Graph(function.name, function.file, function.inputs, function.outputs)
    simpler.ops = [
        replace(op, operands=[floats.get(t, t) for t in op.operands], symbols=op.symbols | total)
        for op, total in ((op, {"order": ["total"]} if op in uses else {}) for op in function.ops)
        if op.result not in floats
    ]
    needed, kept = set(outputs), []
    for op in reversed(simpler.ops):
        if not needed.isdisjoint(op.results):
            kept.append(op)
            needed.update(op.operands)
    simpler.ops = kept[::-1]
    return simpler


def _value(tensor: Tensor) -> int | None:
    """The integer that a constant holds."""
    exact = tensor.literal.rational if tensor.literal else None
    return int(exact) if exact is not None and exact.denominator == 1 else None


@opcode("sort")
def sort(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Sorted by the first operand, or by a comparator kept as a region."""
    x = tensors(i, operands)
    numbers = {"dimension": numbers_of(i, "dimensions")[:1]}
    if i.attributes.get("is_stable") == "true":
        numbers["stable"] = [1]
    order = lo.recognised(ordering, i, "to_apply")
    if order and lo.recognised(ordering_of_nan, i, "to_apply") is None:
        reductions.sorts_numbers(lo.graph, x[0])
    kept = [] if order else [lo.region(i.attributes.get("to_apply"), i)]
    return results(lo.emit(i, "sort", x, numbers=numbers, symbols={"direction": [order or "region"]}, regions=kept))


WINDOW = frozenset("size stride pad lhs_dilate rhs_dilate rhs_reversal".split())  # noqa: SIM905


def window(i: Instruction, rank: int) -> dict[str, list[int]]:
    """`window={size=2x2 stride=2x2 pad=0_0x1_1 lhs_dilate=… rhs_dilate=… rhs_reversal=…}` as number lists."""
    pairs = dict(part.split("=", 1) for part in i.attributes.get("window", "{}").strip("{}").split())
    if not WINDOW.issuperset(pairs):
        raise i.error(f"window={i.attributes['window']}", expected=", ".join(sorted(WINDOW)))

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
    """A reduction over every window; a window over everything before (or after) a position is a running reduction."""
    x = tensors(i, operands)
    reducer = lo.recognised(regions.reducer, i, "to_apply") if len(x) == 2 else None
    if reducer is None:
        return unknown(lo, i, operands)
    numbers = window(i, len(x[0].shape))
    reversed_ = any(numbers.pop("window_reversal"))
    found = None if reversed_ else reductions.windowed(x[0], x[1], reducer, numbers, lo.producer)
    if found is None:
        return unknown(lo, i, operands)
    return results(lo.emit(i, found[0], x[:1], numbers=found[1], symbols=found[2]))


@opcode("select-and-scatter")
def select_and_scatter(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Each source value goes to the selected element of its window (the gradient of pooling)."""
    x, source, init = tensors(i, operands, 3)
    reducer = lo.recognised(regions.reducer, i, "scatter")
    select = lo.recognised(regions.selector, i, "select")
    if select is None or reducer in (None, "replace") or not reductions.is_identity(init, str(reducer), lo.producer):
        return unknown(lo, i, operands)
    numbers = window(i, len(x.shape))
    if any(numbers.pop("window_reversal")):
        return unknown(lo, i, operands)
    symbols = {"select": [select], "reducer": [str(reducer)]}
    return results(lo.emit(i, "select-and-scatter", [x, source], numbers=numbers, symbols=symbols))


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
    if not any(numbers["window_reversal"]):
        del numbers["window_reversal"]
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


@opcode("map")
def map_(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A scalar function over every element: its ops, which must be elementwise, on whole arrays."""
    x = tensors(i, operands)
    if numbers_of(i, "dimensions") != list(range(len(array(i).shape))):
        return unknown(lo, i, operands)
    function = lo.region(i.attributes.get("to_apply"), i)
    shape = array(i).shape
    if any(op.kind not in ELEMENTWISE | {"constant"} for op in function.ops) or len(function.outputs) != 1:
        return unknown(lo, i, operands)
    values: dict[Tensor, Tensor] = {port.tensor: t for port, t in zip(function.inputs, x, strict=True)}
    for n, op in enumerate(function.ops):
        inner = [values[t] for t in op.operands]
        types = [(t.dtype, shape if inner else t.shape) for t in op.results]
        made = lo.emit(i, op.kind, inner, types, numbers=op.numbers, symbols=op.symbols, suffix=f".{n}")
        if op.kind == "constant":
            made.result.literal = op.result.literal
            made = lo.emit(
                i,
                "broadcast",
                made.results,
                [(op.result.dtype, shape)],
                numbers={"dimensions": []},
                suffix=f".{n}.broadcast",
            )
        values[op.result] = made.result
    return values[function.outputs[0].tensor]
