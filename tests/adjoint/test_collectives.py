"""The adjoint of a collective, on all ranks together: the sum over ranks of <f(x), g> is that of <x, backward(g)>."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scalify_dl.adjoint import NoAdjoint, backward
from scalify_dl.facts.tables import TableWriter
from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.programs import Program
from scalify_dl.lint.program import Alone
from scalify_dl.oracle import load_program
from scalify_dl.oracle.execute import Machine
from scalify_dl.oracle.randomness import Draws

Make = Callable[[Program, Tensor], Tensor]
CASES: dict[str, Make] = {
    "all-reduce": lambda p, x: p.all_reduce(x, "tp"),
    "all-reduce of squares over both": lambda p, x: p.all_reduce(p.multiply(x, x), ["dp", "tp"]),
    "all-reduce max": lambda p, x: p.all_reduce(x, "tp", "max"),
    "all-gather": lambda p, x: p.all_gather(x, "tp", 1),
    "reduce-scatter": lambda p, x: p.reduce_scatter(x, "tp", 0),
    "all-to-all": lambda p, x: p.all_to_all(x, "tp", 0, 1),
    "permute": lambda p, x: p.permute(x, [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "permute to some": lambda p, x: p.permute(x, [(0, 1), (2, 3)]),
    "broadcast": lambda p, x: p.over("collective-broadcast", x, "tp"),
    "own block": lambda p, x: Alone.shard_of(p, x, 0, "tp"),  # type: ignore[arg-type]
}


def slopes(make: Make) -> tuple[float, float]:
    """By how much <f(x), g> grows as x goes some way: by a difference quotient, and by the derived backward."""
    mesh = Mesh.parse("dp=2,tp=2")
    p = Program("f", mesh)
    x = p.graph.input("x", "f32", (4, 6))
    y = make(p, x)
    g = p.graph.input("g", "f32", y.shape)
    (dx,) = backward(p, {y: g}, [x])
    assert dx is not None
    p.output(y, dx)
    writer = TableWriter(mesh)
    writer.graph(p.graph, "dist", "dist", "")
    program = load_program(writer.facts.tables)
    (dist,) = program.top("dist")
    rng = np.random.default_rng(0)
    ranks = range(mesh.size)
    xs, ways = ({r: rng.normal(size=x.shape) for r in ranks} for _ in "xy")
    gs = {r: rng.normal(size=y.shape) for r in ranks}

    def run(step: float) -> list[dict[int, np.ndarray]]:
        moved = {r: xs[r] + step * ways[r] for r in ranks}
        machine = Machine(program, Draws(program, 0).distributed, 0, False)
        kept = machine.run([dist], dict(zip(dist.inputs, (moved, gs), strict=True)))
        return [kept[t] for t in dist.outputs]

    ahead, behind = (sum(float((run(s)[0][r] * gs[r]).sum()) for r in ranks) for s in (1e-6, -1e-6))
    found = run(0.0)[1]
    return (ahead - behind) / 2e-6, sum(float((found[r] * ways[r]).sum()) for r in ranks)


@pytest.mark.parametrize("name", CASES)
def test_the_derived_backward_of_a_collective_is_its_slope(name: str) -> None:
    measured, derived = slopes(CASES[name])
    assert derived == pytest.approx(measured, rel=1e-5, abs=1e-6)


def test_what_has_no_backward_is_named() -> None:
    p = Program("f", Mesh.parse("tp=2"))
    x = p.graph.input("x", "f32", (4,))
    y = p.op("lgamma", x).result
    with pytest.raises(NoAdjoint, match="lgamma") as error:
        backward(p, {y: p.full(1.0, (4,))}, [x])
    assert error.value.op is p.graph.ops[0]


def test_integers_and_what_leads_to_none_of_the_outputs_have_no_gradient() -> None:
    p = Program("f", Mesh.parse("tp=2"))
    x, n, z = p.graph.input("x", "f32", (4,)), p.graph.input("n", "s32", (4,)), p.graph.input("z", "f32", (4,))
    y = p.multiply(x, p.convert(n, "f32"))
    p.tanh(z)
    dx, dn, dz = backward(p, {y: p.full(1.0, (4,))}, [x, n, z])
    assert dx is not None
    assert dn is None
    assert dz is None
