"""Lowering of reduces, scans over windows and scatters whose function is a sub-graph, shared by the XLA front ends.

The vocabulary's `reduce` starts from the reducer's identity. Another initial value becomes one more elementwise op.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import prod
from typing import Any

from scalify_dl.ir.graph import Graph, Op, Tensor

from . import regions

COMBINE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "and": "and", "or": "or", "xor": "xor"}
"""The elementwise kind of each reducer."""

INFINITE = ("bf16", "f16", "f32", "f64")


def is_identity(init: Tensor, reducer: str, made: dict[Tensor, Op]) -> bool:
    """Whether a constant initial value changes nothing (a broadcast of one counts)."""
    op = made.get(init)
    while op is not None and op.kind == "broadcast":
        op = made.get(op.operands[0])
    if op is None or op.kind != "constant" or (literal := op.result.literal) is None:
        return False
    dtype = op.result.dtype
    if reducer in ("max", "min") and dtype in INFINITE:
        return literal.text == ("-inf" if reducer == "max" else "inf")
    return literal.rational is not None and literal.rational == identity(reducer, dtype)


def identity(reducer: str, dtype: str) -> Fraction | None:
    """The exact identity of a reducer, None where it is not a number (float max and min)."""
    if reducer in ("sum", "or", "xor"):
        return Fraction(0)
    if reducer == "prod" or (reducer == "and" and dtype == "pred"):
        return Fraction(1)
    if dtype == "pred":
        return {"max": Fraction(0), "min": Fraction(1)}.get(reducer)
    signed, bits = dtype[0] == "s", dtype[1:]
    if not bits.isdigit() or dtype[0] not in "su":
        return None
    low, high = (-(2 ** (int(bits) - 1)), 2 ** (int(bits) - 1) - 1) if signed else (0, 2 ** int(bits) - 1)
    return {"max": Fraction(low), "min": Fraction(high), "and": Fraction(-1 if signed else high)}.get(reducer)


def reduce(
    graph: Graph,
    operands: Sequence[Tensor],
    inits: Sequence[Tensor],
    dimensions: Sequence[int],
    region: Graph,
    made: dict[Tensor, Op],
    **about: Any,
) -> list[Tensor]:
    """Appends a reduce and returns its results; `made` are the producers so far, `about` goes to `Graph.add`.

    A value-and-index pair becomes two reduces. An unrecognised function stays a region over operands and inits.
    """
    gone = set(dimensions)
    shape = tuple(n for d, n in enumerate(operands[0].shape) if d not in gone)
    numbers = {"dimensions": sorted(gone)}

    def emit(kind: str, arguments: Sequence[Tensor], types: Sequence[Tensor], reducer: str) -> list[Tensor]:
        return graph.add(
            kind, arguments, [(t.dtype, shape) for t in types], numbers=numbers, symbols={"reducer": [reducer]}, **about
        ).results

    if len(operands) == 1 and (reducer := regions.reducer_of_numbers(region)) not in (None, "replace"):
        assert reducer is not None
        _numbers_only(graph, operands[0], region, reducer)
        (result,) = emit("reduce", operands, operands, reducer)
        return [
            result if is_identity(inits[0], reducer, made) else start_from(graph, result, inits[0], reducer, **about)
        ]
    if (
        len(operands) == 2
        and len(dimensions) == 1
        and counts_along(operands[1], dimensions[0], made)
        and (reducer := regions.index_reducer(region))
        and is_identity(inits[0], reducer.removeprefix("arg"), made)
        and operands[0].shape[dimensions[0]] > 0
        and starts_from_a_place(inits[1], made)
    ):
        _numbers_only(graph, operands[0], region, reducer)
        (value,) = emit("reduce", operands[:1], operands[:1], reducer.removeprefix("arg"))
        (position,) = emit("reduce", operands[:1], operands[1:], reducer)
        return [value, position]
    types = [(t.dtype, shape) for t in operands]
    opaque = {"reducer": ["region"]}
    return graph.add(
        "reduce", [*operands, *inits], types, numbers=numbers, symbols=opaque, regions=[region], **about
    ).results


def _numbers_only(graph: Graph, operand: Tensor, region: Graph, reducer: str) -> None:
    """Lists that no element is NaN, where a function does not keep it as maxima do."""
    if reducer in ("max", "min", "argmax", "argmin") and not regions.keeps_nan(region):
        text = f"none of its elements is NaN (what is reduced by a comparison is taken for its {reducer})"
        graph.assume(operand, text, "finite")


def sorts_numbers(graph: Graph, operand: Tensor) -> None:
    """Lists that no element of what is sorted is NaN, as the comparator does not say where that is put."""
    graph.assume(operand, "none of its elements is NaN (what it is sorted by has no place for it)", "finite")


def starts_from_a_place(init: Tensor, made: dict[Tensor, Op]) -> bool:
    """Whether a reduction to the lowest index starts from a constant that is none below 0: what is below would be the
    place of a row that is infinite everywhere."""
    op = made.get(init)
    literal = op.result.literal if op is not None and op.kind == "constant" else None
    return literal is not None and literal.rational is not None and literal.rational >= 0


def counts_along(tensor: Tensor, dim: int, made: dict[Tensor, Op]) -> bool:
    """Whether a tensor is the index along one of its dims: an iota in a type that holds it, a broadcast of one, or
    zero along a dim of one element."""
    if tensor.dtype[0] not in "su" or tensor.shape[dim] > 2 ** (int(tensor.dtype[1:]) - (tensor.dtype[0] == "s")):
        return False
    op = made.get(tensor)
    if tensor.shape[dim] == 1 and tensor.literal is not None and tensor.literal.rational == 0:
        return True
    while op is not None and op.kind == "broadcast" and dim in op.numbers["dimensions"]:
        dim = op.numbers["dimensions"].index(dim)
        op = made.get(op.operands[0])
    return op is not None and op.kind == "iota" and op.numbers["dimension"] == [dim]


def start_from(graph: Graph, reduced: Tensor, init: Tensor, reducer: str, **about: Any) -> Tensor:
    """Combines a reduction from the identity with another initial value."""
    if reduced.shape:
        init = graph.add("broadcast", [init], [(init.dtype, reduced.shape)], numbers={"dimensions": []}, **about).result
    return graph.add(COMBINE[reducer], [reduced, init], [(reduced.dtype, reduced.shape)], **about).result


PROMISES = {
    "unique_indices": "no two of its indices are the same",
    "indices_are_sorted": "its indices are in order",
}


def promised(graph: Graph, result: Tensor, indices: Tensor, vector: int, flags: Iterable[str]) -> None:
    """What a gather or scatter says of its indices: where it is not so, it may give anything."""
    if prod(n for d, n in enumerate(indices.shape) if d != vector) > 1:
        for flag in flags:
            graph.assume(result, f"{PROMISES[flag]}, as the dump says ({flag})", "annotation")


def windowed(
    x: Tensor, init: Tensor, reducer: str | None, numbers: dict[str, list[int]], made: dict[Tensor, Op]
) -> tuple[str, dict[str, list[int]], dict[str, list[str]]] | None:
    """Kind and attributes of a reduction of x over windows; None where the vocabulary has no such op."""
    if reducer is None or reducer == "replace" or not is_identity(init, reducer, made):
        return None
    symbols, running = {"reducer": [reducer]}, cumulative(x.shape, numbers)
    if running is None:
        return "reduce-window", numbers, symbols
    dim, backwards = running
    return "cumulative", {"dimension": [dim]} | ({"reverse": [1]} if backwards else {}), symbols


def cumulative(shape: Sequence[int], window: dict[str, list[int]]) -> tuple[int, bool] | None:
    """The dim and direction (True: from the end) along which a reduce-window is a running reduction, else None.

    That is a window as long as its dim, stride 1, padded on one side so that every position sees all before (after) it.
    """
    size, low, high = window["window_size"], window["window_pad_low"], window["window_pad_high"]
    along = [d for d, n in enumerate(size) if n != 1]
    plain = all(n == 1 for key in ("window_stride", "window_dilation", "base_dilation") for n in window[key])
    if not plain or len(along) != 1:
        return None
    (d,) = along
    if size[d] != shape[d] or any(low[i] or high[i] for i in range(len(size)) if i != d):
        return None
    if (low[d], high[d]) == (shape[d] - 1, 0):
        return d, False
    return (d, True) if (low[d], high[d]) == (0, shape[d] - 1) else None
