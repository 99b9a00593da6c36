"""One op of StableHLO or CHLO as it is named, inside a JAX program: what jax.numpy does not make of its own accord."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir import ir

Shaped = tuple[tuple[int, ...], str]
"""Shape and dtype."""


class Inner(NamedTuple):
    """An op inside of a region. Operands are counted through: the region's arguments, captured values, ops before."""

    name: str
    operands: tuple[int, ...]
    dtype: str
    attributes: tuple[tuple[str, str], ...] = ()
    shape: tuple[int, ...] = ()


class Region(NamedTuple):
    """A function in a region: types of its arguments, its ops, and which values it returns."""

    arguments: tuple[str, ...]
    ops: tuple[Inner, ...]
    returns: tuple[int, ...]


def binary(name: str, dtype: str, result: str | None = None, **attributes: str) -> Region:
    """A function of two scalars that is one op."""
    return Region((dtype, dtype), (Inner(name, (0, 1), result or dtype, tuple(attributes.items())),), (2,))


def second(dtype: str) -> Region:
    """The function of two scalars that gives the second."""
    return Region((dtype, dtype), (), (1,))


def emit(
    name: str,
    operands: Sequence[Any],
    results: Sequence[Shaped],
    attributes: Mapping[str, str] | None = None,
    regions: Sequence[Region] = (),
    captured: Sequence[Any] = (),
) -> Any:
    """The results of an op (one: itself); attributes are MLIR text, `captured` are values that regions use."""
    found = OP.bind(
        *operands,
        *captured,
        name=name,
        results=tuple(results),
        attributes=tuple(sorted((attributes or {}).items())),
        regions=tuple(regions),
        captured=len(captured),
    )
    return found[0] if len(results) == 1 else found


OP = Primitive("op_as_named")
OP.multiple_results = True


def _types(*_: Any, results: Sequence[Shaped], **__: Any) -> list[ShapedArray]:
    return [ShapedArray(shape, np.dtype(dtype)) for shape, dtype in results]


def _alone(*operands: Any, **parameters: Any) -> Any:
    with jax.disable_jit(False):
        return jax.jit(partial(OP.bind, **parameters))(*operands)


def _tensor(shape: Sequence[int], dtype: str) -> ir.Type:
    return ir.RankedTensorType.get(shape, mlir.dtype_to_ir_type(np.dtype(dtype)))


def _parsed(attributes: Sequence[tuple[str, str]]) -> dict[str, ir.Attribute]:
    return {key: ir.Attribute.parse(text) for key, text in attributes}


def _lowered(
    _: Any,
    *operands: ir.Value,
    name: str,
    results: Sequence[Shaped],
    attributes: Sequence[tuple[str, str]],
    regions: Sequence[Region],
    captured: int,
) -> Sequence[ir.Value]:
    own = len(operands) - captured
    op = ir.Operation.create(
        name,
        results=[_tensor(*result) for result in results],
        operands=list(operands[:own]),
        attributes=_parsed(attributes),
        regions=len(regions),
    )
    for body, region in zip(op.regions, regions, strict=True):
        block = body.blocks.append(*(_tensor((), dtype) for dtype in region.arguments))
        with ir.InsertionPoint(block):
            values = [*block.arguments, *operands[own:]]
            for inner in region.ops:
                made = ir.Operation.create(
                    inner.name,
                    results=[_tensor(inner.shape, inner.dtype)],
                    operands=[values[n] for n in inner.operands],
                    attributes=_parsed(inner.attributes),
                )
                values += made.results
            ir.Operation.create("stablehlo.return", operands=[values[n] for n in region.returns])
    return list(op.results)


OP.def_abstract_eval(_types)
OP.def_impl(_alone)
mlir.register_lowering(OP, _lowered)
