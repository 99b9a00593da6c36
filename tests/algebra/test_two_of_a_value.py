"""One distributed value holds several baseline values: they are one unknown, and what else it holds is looked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalify_dl.algebra.between import find_cuts
from scalify_dl.algebra.compared import Pair as Compared
from scalify_dl.algebra.decide import Decider
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import load_program
from scalify_dl.oracle.addressing import layout_of
from scalify_dl.oracle.program import Program, Shard

from .programs import number, two


def squared(g: Graph, x: Tensor) -> Tensor:
    """exp(x)²."""
    e = g.emit("exponential", [x])
    return two(g, "multiply", e, e)


def two_exponentials(times: int = 2) -> tuple[Program, tuple[str, str, str]]:
    """The baseline has exp(x)² and exp(2x), and the times side the first: the program, and all three."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((3, 4))
    second = pair.base.emit("exponential", [two(pair.base, "multiply", x, number(pair.base, times, x))])
    own = squared(pair.dist, dx)
    pair.outputs(two(pair.base, "subtract", squared(pair.base, x), second), pair.dist.emit("abs", [own]))
    program = load_program(pair.tables())
    dist, base, _ = program.expects[0]
    makers = program.producer()
    return program, (*makers[base].operands, *makers[dist].operands)  # type: ignore[return-value]


ALIKE = "[0:1x3][1:1x4]|tp=r1"


@pytest.mark.parametrize("layout", [ALIKE, "[0:1x3][1:1x4]|tp=r1 *2/1"])
def test_values_that_one_value_holds_alike_are_one_unknown(layout: str) -> None:
    """… and not where it holds the second twice."""
    program, (first, second, own) = two_exponentials()
    known = [Shard(own, (), b, (), layout_of(text)) for b, text in ((first, ALIKE), (second, layout))]
    decider = Decider(program, [*program.shards, *known], numbers=frozenset({first, second}))
    compared = Compared(decider, *program.expects[0][:2], "given")
    assert compared.cuts == (first,)
    assert (second in compared.base_part.inputs) == (layout == ALIKE)


@pytest.mark.parametrize("times", [2, 3])
def test_what_else_a_known_value_holds_is_looked_for(times: int) -> None:
    program, (first, second, own) = two_exponentials(times)
    known = Shard(own, (), first, (), layout_of(ALIKE))
    decider = Decider(program, [*program.shards, known], numbers=frozenset({first}))
    trial = decider.trials[0]
    assert trial is not None
    while find_cuts(decider, trial, *program.expects[0][:2]):  # (some at a time)
        pass
    held = {shard.base for shard in decider.by_dist[own]}
    assert held == ({first, second} if times == 2 else {first})


def test_a_value_that_is_held_in_any_order_of_its_dims_is_taken_in_its_own() -> None:
    """Else x·xᵀ of one side would be followed by another formula than that of the other."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((3, 3))
    pair.outputs(two(pair.base, "multiply", x, x), two(pair.dist, "multiply", dx, dx))
    program = load_program(pair.tables())
    (known,) = program.shards
    symmetric = replace(known, layout=layout_of("[1:1x3][0:1x3]|tp="))
    decider = Decider(program, [symmetric, known])
    assert [*Compared(decider, *program.expects[0][:2], "given").shards.values()] == [known]
