"""Runs a torch function as torch does, and as its FX text is lowered; for tests that have torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from scalify_dl.facts.tables import TableWriter
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.shapes import check
from scalify_dl.oracle.execute import Machine
from scalify_dl.oracle.program import load_program
from scalify_dl.readers.fx import read_text

Array = np.ndarray[Any, Any]


def text_of(function: Callable[..., Any], args: Sequence[Any]) -> str:
    """FX readable text of a function, at the ATen level."""
    return str(make_fx(function)(*args).print_readable(print_output=False))


def lowered(function: Callable[..., Any], args: Sequence[Any]) -> Graph:
    """The graph of a function; shapes are checked op by op."""
    graph = read_text(text_of(function, args), file="case.fx.txt")
    check(graph)
    return graph


def run(graph: Graph, args: Sequence[Any]) -> list[Array]:
    """What a graph computes of torch tensors, by the oracle."""
    writer = TableWriter(Mesh((("x", 1),)))
    writer.facts.add("meta", "schema", "1")
    writer.graph(graph, "base", "base", "base/")
    program = load_program(writer.facts.tables)
    values = [arg.detach().numpy() for arg in args if isinstance(arg, torch.Tensor)]
    inputs = {
        writer.ids[port.tensor]: {0: value.astype(np.complex128) if value.dtype.kind == "c" else value}
        for port, value in zip(graph.inputs, values, strict=True)
    }
    outputs = [writer.ids[port.tensor] for port in graph.outputs]
    machine = Machine(program, lambda op, _: (_ for _ in ()).throw(AssertionError(op.kind)), keep=frozenset(outputs))
    found = machine.run(program.top("base"), inputs)
    return [found[tensor][0] for tensor in outputs]


def flat(value: Any) -> list[torch.Tensor]:
    """The tensors among the results of a function."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value or () for tensor in flat(item)] if isinstance(value, list | tuple) else []


def agree(function: Callable[..., Any], args: Sequence[Any], tolerance: float = 1e-9) -> Graph:
    """Asserts that a function and its lowering give the same; returns the graph."""
    graph = lowered(function, args)
    expected = flat(function(*args))
    actual = run(graph, args)
    assert len(actual) == len(expected)
    for have, want in zip(actual, expected, strict=True):
        wanted = want.detach().numpy()
        assert have.shape == wanted.shape
        np.testing.assert_allclose(have.astype(wanted.dtype), wanted, rtol=tolerance, atol=tolerance)
    return graph
