"""Runs a graph of the vocabulary in a domain of elements: what a kernel is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalify_dl.ir.graph import Graph, Op
from scalify_dl.ir.literals import ELIDED
from scalify_dl.ir.vocabulary import ELEMENTWISE, INDEX_REDUCERS
from scalify_dl.oracle import program
from scalify_dl.oracle.dtypes import is_float, storage
from scalify_dl.oracle.literals import literal_array
from scalify_dl.oracle.meaning import MEANINGS, Call, Unsupported
from scalify_dl.registry import registering

from .domain import Array, Cells, Domain, Undecided
from .frame import Value
from .numbers import Numbers

MOVES = frozenset(["broadcast", "reshape", "transpose", "slice", "concatenate", "reverse", "pad"])
_FOLDS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}
_ATTENTION_LOW = float("-inf")
RULES: dict[str, Any] = {}
rule = registering(RULES)
"""Registers what some kinds do."""


def run_graph(graph: Graph, domain: Domain, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a graph, given elements of its inputs in order."""
    runner = Runner(domain)
    for port, cells in zip(graph.inputs, inputs, strict=True):
        runner.values[id(port.tensor)] = Cells(cells.reshape(port.tensor.shape))
    for op in graph.ops:
        runner.op(op)
    return [runner.cells(port.tensor) for port in graph.outputs]


class Runner:
    """Values of a graph, op by op."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.values: dict[int, Value] = {}

    def cells(self, tensor: Any) -> Array:
        """A value as elements."""
        value = self.values[id(tensor)]
        return value.array if isinstance(value, Cells) else self.domain.lift(value, tensor.dtype)

    def call(self, op: Op) -> Call:
        """The op as the oracle sees it."""
        if op.regions or op.rank_numbers:
            raise Undecided(f"the op `{op.kind}` ({op.name}) is not followed")
        types = [program.Tensor(t.name or "t", t.dtype, t.shape, *_literal(t)) for t in op.results]
        names = [t.name or "x" for t in op.operands]
        return Call(program.Op(op.name, op.kind, names, [t.id for t in types], op.numbers, op.symbols), 0, types)

    def op(self, op: Op) -> None:
        """One op."""
        try:
            found = self._op(op)
        except (Unsupported, KeyError, ValueError, IndexError, TypeError) as error:
            raise Undecided(f"the op `{op.kind}` ({op.name}) is not followed: {error}") from None
        for tensor, value in zip(op.results, found, strict=True):
            array = value.array if isinstance(value, Cells) else value
            if array.shape != tensor.shape:
                raise Undecided(f"the op `{op.kind}` ({op.name}) made shape {array.shape}")
            self.values[id(tensor)] = value

    def _op(self, op: Op) -> list[Value]:
        try:
            return self._followed(op)
        except Undecided:
            if not isinstance(self.domain, Numbers) or op.kind not in MEANINGS:
                raise
        typed = []
        for t in op.operands:
            cells = self.cells(t)
            if not is_float(t.dtype) and not np.isfinite(cells).all():
                raise Undecided(f"the op `{op.kind}` ({op.name}) of what is not defined")
            typed.append(cells if is_float(t.dtype) else cells.astype(storage(t.dtype)))
        return [Cells(np.asarray(x, dtype=np.float64)) for x in MEANINGS[op.kind](self.call(op), typed)]

    def _followed(self, op: Op) -> list[Value]:
        call, dtype = self.call(op), op.results[0].dtype
        values = [self.values[id(t)] for t in op.operands]
        if op.kind == "constant":
            return [self._constant(call)]
        plain = [v for v in values if not isinstance(v, Cells)]
        if len(plain) == len(values) and not is_float(dtype) and all(not is_float(t.dtype) for t in op.operands):
            typed = [v.astype(storage(t.dtype)) for v, t in zip(plain, op.operands, strict=True)]
            return [np.asarray(x) for x in MEANINGS[op.kind](call, typed)]
        if op.kind == "iota":
            return [Cells(self.domain.lift(np.asarray(MEANINGS["iota"](call, [])[0]), dtype))]
        if op.kind in RULES:
            found = RULES[op.kind](self, call, op, values)
            return found if isinstance(found, list) else [found]
        xs = [self.cells(t) for t in op.operands]
        if op.kind in MOVES:
            return [Cells(np.asarray(MEANINGS[op.kind](call, xs)[0]))]
        if op.kind in ELEMENTWISE:
            return [Cells(self._elementwise(call, op, xs, dtype))]
        raise Undecided(f"the op `{op.kind}` ({op.name}) is not followed")

    def _constant(self, call: Call) -> Value:
        tensor = call.results[0]
        if tensor.literal is None or tensor.literal == ELIDED:
            raise Undecided(f"the constant {tensor.id} is not printed")
        array = np.broadcast_to(np.asarray(literal_array(tensor)), tensor.shape)
        return Cells(self.domain.lift(array, tensor.dtype)) if is_float(tensor.dtype) else np.array(array)

    def _elementwise(self, call: Call, op: Op, xs: list[Array], dtype: str) -> Array:
        domain, before = self.domain, op.operands[0].dtype
        kind = op.kind
        if kind == "compare":
            return domain.apply(call.symbol("direction"), "pred", xs, before)
        if kind == "select":
            return domain.apply("select", dtype, xs, dtype)
        if kind == "clamp":
            low = domain.apply("maximum", dtype, [xs[0], xs[1]], dtype)
            return domain.apply("minimum", dtype, [low, xs[2]], dtype)
        if kind == "relu":
            return domain.apply("maximum", dtype, [xs[0], domain.lift(np.array(0), dtype)], dtype)
        if kind in ("divide", "remainder") and not is_float(dtype):
            kind = "truncate-divide" if kind == "divide" else "truncate-modulo"
        if kind in ("shift-right-arithmetic", "shift-right-logical"):
            if (kind == "shift-right-logical") == (dtype[0] == "s"):
                raise Undecided(f"`{kind}` of {dtype}")
            kind = "shift-right"
        return domain.apply(kind, dtype, xs, before)


def _literal(tensor: Any) -> tuple[Any, ...]:
    found = tensor.literal
    return (None, None, None) if found is None else (found.text, found.items, found.sha256)


@rule("reduce")
def _reduce(runner: Runner, call: Call, op: Op, values: list[Value]) -> Value:
    name = call.symbol("reducer", "")
    if name in INDEX_REDUCERS and len(op.operands) == 1:
        return _first_place(runner, call, op)
    if len(op.operands) != 1 or name not in _FOLDS:
        raise Undecided(f"a reduction by `{name}`")
    x, axes = runner.cells(op.operands[0]), call.numbers("dimensions", [])
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose([*kept, *axes]).reshape([*(x.shape[d] for d in kept), -1])
    return Cells(runner.domain.fold(_FOLDS[name], op.results[0].dtype, rows))


def _first_place(runner: Runner, call: Call, op: Op) -> Value:
    """Where the first one of the greatest, or least, elements of rows is."""
    domain, before, dtype = runner.domain, op.operands[0].dtype, op.results[0].dtype
    (axis,) = call.numbers("dimensions", [])
    greatest = call.symbol("reducer") == "argmax"
    best, *others = np.moveaxis(runner.cells(op.operands[0]), axis, 0)
    place = domain.lift(np.zeros(best.shape, dtype=np.int64), dtype)
    for at, x in enumerate(others, 1):
        better = domain.apply("GT" if greatest else "LT", "pred", [x, best], before)
        place = domain.apply("select", dtype, [better, domain.lift(np.array(at), dtype), place], dtype)
        best = domain.apply("maximum" if greatest else "minimum", before, [best, x], before)
    return Cells(place.reshape(op.results[0].shape))


@rule("cumulative")
def _cumulative(runner: Runner, call: Call, op: Op, values: list[Value]) -> Value:
    kind, dtype = _FOLDS[call.symbol("reducer")], op.results[0].dtype
    x = np.moveaxis(runner.cells(op.operands[0]), call.number("dimension"), 0)
    x = x[::-1] if call.number("reverse", 0) else x
    rows = [x[0]]
    for row in x[1:]:
        rows.append(runner.domain.apply(kind, dtype, [rows[-1], row], dtype))
    found = np.stack(rows[::-1] if call.number("reverse", 0) else rows)
    return Cells(np.moveaxis(found, 0, call.number("dimension")))


@rule("dot")
def _dot(runner: Runner, call: Call, op: Op, values: list[Value]) -> Value:
    dtype = op.results[0].dtype
    xs = []
    for t in op.operands:
        x = runner.cells(t)
        plain = t.dtype == dtype or (is_float(t.dtype) and is_float(dtype))
        xs.append(x if plain else runner.domain.apply("convert", dtype, [x], t.dtype))
    batch = call.numbers("lhs_batch_dims", []), call.numbers("rhs_batch_dims", [])
    inner = call.numbers("lhs_contracting_dims", []), call.numbers("rhs_contracting_dims", [])
    free = [[d for d in range(x.ndim) if d not in b and d not in c] for x, b, c in zip(xs, batch, inner, strict=True)]
    depth = int(np.prod([xs[0].shape[d] for d in inner[0]], dtype=int))
    sides = []
    for x, b, c, f in zip(xs, batch, inner, free, strict=True):
        rows = int(np.prod([x.shape[d] for d in f], dtype=int))
        sides.append(x.transpose([*b, *f, *c]).reshape(-1, rows, depth))
    found = np.stack([runner.domain.contract(a, b, dtype) for a, b in zip(*sides, strict=True)])
    return Cells(found.reshape(op.results[0].shape))


@rule("convert")
def _convert(runner: Runner, call: Call, op: Op, values: list[Value]) -> Value:
    x = runner.cells(op.operands[0])
    return Cells(runner.domain.apply("convert", op.results[0].dtype, [x], op.operands[0].dtype))


@rule("attention")
def _attention(runner: Runner, call: Call, op: Op, values: list[Value]) -> list[Value]:
    """softmax(scale · q kᵀ + mask) v."""
    domain, dtype = runner.domain, op.results[0].dtype
    q, k, v, *mask = (runner.cells(t) for t in op.operands)
    if mask or q.shape[:-2] != k.shape[:-2] or len(op.results) != 1:
        raise Undecided("attention with a mask, or whose heads differ")
    text = call.symbol("scale", "")
    scale = domain.lift(np.array(float(text) if text else q.shape[-1] ** -0.5), dtype)
    flat = [x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)]
    out = []
    for a, b, c in zip(*flat, strict=True):
        scores = domain.apply("multiply", dtype, [domain.contract(a, b, dtype), scale], dtype)
        if call.number("causal", 0):
            rows, columns = np.indices(scores.shape)
            scores = np.where(columns <= rows, scores, domain.lift(np.array(_ATTENTION_LOW), dtype))
        top = domain.fold("maximum", dtype, scores)[:, None]
        weights = domain.apply("exponential", dtype, [domain.apply("subtract", dtype, [scores, top], dtype)], dtype)
        sums = domain.fold("add", dtype, weights)[:, None]
        found = domain.contract(weights, np.ascontiguousarray(c.T), dtype)
        out.append(domain.apply("divide", dtype, [found, sums], dtype))
    return [Cells(np.stack(out).reshape(op.results[0].shape))]
