"""Programs of one device run on numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalify_dl.facts.tables import TableWriter
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.oracle import load_program
from scalify_dl.oracle.execute import Machine
from scalify_dl.oracle.randomness import Draws

Array = np.ndarray[Any, Any]
ONE = Mesh((("r", 1),))


def executed(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a program of one device. Unsupported where an op has no numeric meaning."""
    writer = TableWriter(ONE)
    writer.graph(graph, "base", "base", "")
    program = load_program(writer.facts.tables)
    (base,) = program.top("base")
    with np.errstate(all="ignore"):
        machine = Machine(program, Draws(program, 0).baseline, 0, False)
        kept = machine.run([base], {t: {0: x} for t, x in zip(base.inputs, inputs, strict=True)})
    return [kept[t][0] for t in base.outputs]
