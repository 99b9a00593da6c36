"""Spellings of one function become one op, and nothing else does."""

from __future__ import annotations

import pytest

from scalify_dl.ir.graph import Graph
from scalify_dl.readers.normalise import normalise

SHAPE = (4, 8)


def written_out(numerator: float = 1, one: float = 1, swapped: bool = False, negated: bool = True) -> Graph:
    graph = Graph()
    x = graph.input("x", "f32", SHAPE)
    exponential = graph.emit("exponential", [graph.emit("negate", [x]) if negated else x])
    terms = [graph.splat(one, "f32", SHAPE), exponential]
    total = graph.emit("add", terms[::-1] if swapped else terms)
    graph.output(graph.emit("divide", [graph.splat(numerator, "f32", SHAPE), total], name="y"))
    return graph


@pytest.mark.parametrize("swapped", [False, True])
def test_the_logistic_function_written_out_is_one_op(swapped):
    graph = written_out(swapped=swapped)
    normalise(graph)
    (op,) = [op for op in graph.ops if op.result is graph.outputs[0].tensor]
    assert op.kind == "logistic"
    assert op.operands == [graph.inputs[0].tensor]


@pytest.mark.parametrize("options", [{"numerator": 2}, {"one": 2}, {"negated": False}])
def test_what_only_looks_like_it_stays(options):
    graph = written_out(**options)
    normalise(graph)
    assert "logistic" not in {op.kind for op in graph.ops}


def test_bodies_of_loops_are_rewritten_too():
    graph, body = Graph(), written_out()
    x = graph.input("x", "f32", SHAPE)
    graph.add("while", [x], [("f32", SHAPE)], regions=[Graph(), body])
    normalise(graph)
    assert "logistic" in {op.kind for op in body.ops}
