"""What layers have in common, a constant of one number, asks nothing of one layer about another."""

from __future__ import annotations

from scalify_dl.facts.model import Facts
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.readers.relations import Relations


def program(rows: int, layers: int) -> Graph:
    """Each layer: what one number a row says, divided by a constant that all share, scales a value."""
    graph = Graph("step")
    for n in range(layers):
        x, scale = graph.input(f"x{n}", "f32", (rows, 16)), graph.input(f"s{n}", "f32", (rows,))
        wide = graph.emit("broadcast", [scale], shape=(rows, 16), dimensions=[0], name=f"wide{n}")
        part = graph.emit("divide", [wide, graph.splat(16.0, "f32", (rows, 16))], name=f"part{n}")
        graph.output(graph.emit("multiply", [x, part], name=f"y{n}"))
    return graph


def facts(layers: int) -> Facts:
    return tables(program(8, layers), [program(4, layers)], Mesh.parse("tp=2"), Relations())


def test_the_questions_about_operands_grow_with_the_program() -> None:
    asked = []
    for layers in (8, 16):
        found = analyse(facts(layers), Options())
        assert {row[2] for row in found.rows("output_verdict")} == {"PROVED"}
        asked.append(len(list(found.rows("wanted"))))
    assert asked[1] <= 2.2 * asked[0]
