"""Types of gradients (`datalog/lift/types.dl`) against numbers: random programs of one axis, well placed, go backward
on ranks as these types say; what is a part of a sum is summed, what is whole is not, and the gradient is to be that of
one device. Taken the other way round it is to be another one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import count

from scalify_dl.adjoint import backward
from scalify_dl.adjoint.derive import RULES
from scalify_dl.adjoint.run import ONE
from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.lint.judge import Result, lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.lint.spmd import types
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.export import tables
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations

AXIS, SIZE = "tp", 8
Parts = dict[str, Tensor]
"""A gradient, by its types: what is a part of a sum on every rank, what is whole, what lies in blocks."""


def drawn(seed: int, ways: int = 2) -> Alone:
    """A random program with a value of every type on the way."""
    rng, number = random.Random(seed), count()
    p = Alone(f"{AXIS}={ways}")
    whole: list[Tensor] = [p.place("x", (SIZE, SIZE))]
    word, value = "R", whole[0]

    def weight(dims: Mapping[int, str]) -> Tensor:
        return p.place(f"w{next(number)}", (SIZE, SIZE), dims)

    for _ in range(rng.randint(4, 8)):
        if word == "P":
            if rng.random() < 0.3:
                value = p.negate(value)
            elif rng.random() < 0.6:
                word, value = "R", p.all_reduce(value, AXIS)
            else:
                word, value = "S0", p.reduce_scatter(value, AXIS, 0)
            continue
        step = rng.choice(("tanh", "gain", "columns", "rows", "whole", "gather", "again"))
        if step == "tanh":
            value = p.tanh(value)
        elif step == "gain":
            gain = p.place(f"w{next(number)}", (SIZE,), {0: AXIS} if word == "S1" else {})
            value = p.multiply(value, p.broadcast(gain, value.shape, [1]))
        elif step == "columns" and word == "R":
            word, value = "S1", p.matmul(value, weight({1: AXIS}))
        elif step == "rows" and word == "S1":
            word, value = "P", p.matmul(value, weight({0: AXIS}))
        elif step == "whole" and word != "S1":
            value = p.matmul(value, weight({}))
        elif step == "gather" and word != "R":
            word, value = "R", p.all_gather(value, AXIS, int(word[1]))
        elif step == "again" and word == "R":
            value = p.add(value, rng.choice(whole))
        if word == "R":
            whole.append(value)
    p.result(value, {int(word[1]): AXIS} if word[0] == "S" else {}, {AXIS: "sum"} if word == "P" else {})
    return p


def tried(seed: int, ways: int = 2, *, wrong: bool = False) -> str:
    """`agrees` if all gradients are those of one device; `types` if they are of other types than was derived."""
    p = drawn(seed, ways)
    (end,) = p.graph.outputs
    result = lint_graph(p.graph, p.mesh)
    if result.verdict is not Verdict.PROVED or end.tensor not in result.lifted.held:
        return f"not placed: {result.missing}"
    inputs = [port for port in p.graph.inputs if port.tensor in result.gradients]
    held = result.lifted.held[end.tensor]
    one = Graph("derived", inputs=list(result.baseline.inputs), ops=list(result.baseline.ops))
    b = Program("derived", ONE, one)
    seed_of_all = b.input("seed", held.base.shape)
    inner = {port.path: port.tensor for port in result.baseline.inputs}
    gradients = backward(b, {held.base: seed_of_all}, [inner[port.path] for port in inputs])
    parts = _backward(p, result, end)
    p.graph.outputs = []
    for port, gradient in zip(inputs, gradients, strict=True):
        mine = parts.get(port.tensor, {})
        if {_word(w) for w in mine} != {_word(w) for w in result.gradients[port.tensor][AXIS].split(" + ")}:
            return "types"
        assert gradient is not None
        one.output(gradient, path=port.path)
        whole = [p.all_reduce(g, AXIS) if (w == "P") is not wrong and w in "PR" else g for w, g in mine.items()]
        total = whole[0] if len(whole) == 1 else p.add(*whole)
        p.graph.outputs.append(Port(total, port.path, None if "P" in mine or "R" in mine else port.placement))
    facts = tables(one, [p.graph], p.mesh, Relations())
    return find_counterexample(load_program(facts.tables), localise=False).status


def _word(word: str) -> str:
    return "S" if word[0] == "S" else word


def _backward(p: Alone, result: Result, end: Port) -> dict[Tensor, Parts]:
    """Every rank's backward: local ops by their rules, collectives as the types of their gradients say."""
    words = {t: types(held, result.grid)[AXIS] for t, held in result.lifted.held.items()}
    word = words[end.tensor]
    lies = {int(word[2:-1]): AXIS} if word[0] == "S" else {}
    seed = p.place("seed", result.lifted.held[end.tensor].base.shape, lies)
    known: dict[Tensor, Parts] = {end.tensor: {word if word[0] == "S" else "R": seed}}
    for op in list(reversed(p.graph.ops)):
        for its, g in list(known.get(op.result, {}).items()):
            for operand, gradient in zip(op.operands, _of_operands(p, op, its, g), strict=True):
                if gradient is not None and operand in words:
                    mine = words[operand]
                    way = ("P" if words[op.result] != "R" else its) if mine == "R" else "R" if mine == "P" else mine
                    had = known.setdefault(operand, {})
                    had[way] = p.add(had[way], gradient) if way in had else gradient
    return known


def _of_operands(p: Alone, op: Op, its: str, g: Tensor) -> list[Tensor | None]:
    dim = op.numbers.get("dimension", [0])[0]
    if op.kind == "all-reduce":
        return [g if its == "R" else p.all_reduce(g, AXIS)]
    if op.kind == "all-gather":
        return [p.shard_of(g, dim, AXIS) if its == "R" else p.reduce_scatter(g, AXIS, dim)]
    if op.kind == "reduce-scatter":
        return [p.all_gather(g, AXIS, dim)]
    return list(RULES[op.kind](p, op, [g])) if op.operands else []
