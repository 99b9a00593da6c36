"""Ops once more, in the same graph or another one."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from .graph import Graph, Op, Port, Tensor

__all__ = ["copied"]


def copied(op: Op, known: dict[Tensor, Tensor], prefix: str) -> Op:
    """An op once more, with bodies of its own; its results are added to what is `known`."""
    new = copy(op)
    new.operands, new.name = [known[x] for x in op.operands], prefix + op.name
    new.results = [Tensor(t.dtype, t.shape, prefix + t.name, t.literal) for t in op.results]
    new.numbers = {key: list(values) for key, values in op.numbers.items()}
    new.symbols = {key: list(values) for key, values in op.symbols.items()}
    new.rank_numbers = {key: dict(values) for key, values in op.rank_numbers.items()}
    new.regions = [_body(region, prefix) for region in op.regions]
    known.update(zip(op.results, new.results, strict=True))
    return new


def _body(region: Graph, prefix: str) -> Graph:
    new = copy(region)
    known = {port.tensor: copy(port.tensor) for port in region.inputs}
    new.inputs = [_moved(port, known) for port in region.inputs]
    new.ops = [copied(op, known, prefix) for op in region.ops]
    new.outputs = [_moved(port, known) for port in region.outputs]
    new.name = prefix + region.name
    return new


def _moved(port: Port, known: Mapping[Tensor, Tensor]) -> Port:
    new = copy(port)
    new.tensor = known[port.tensor]
    return new
