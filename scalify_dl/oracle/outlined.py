"""Programs of large graphs, as far as some outputs need them, without a row of tables for each op."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from scalify_dl.facts.model import Facts
from scalify_dl.facts.tables import clean, exact
from scalify_dl.ir import graph as ir
from scalify_dl.ir.vocabulary import GROUPED

from .program import Op, Program, Tensor, load_program

Ids = tuple[Mapping[ir.Tensor, str], Mapping[ir.Op, str]]
"""Of tensors and of ops."""


def outlined(outline: Facts, graphs: Sequence[ir.Graph], ids: Ids, wanted: Collection[str]) -> Program:
    """What `load_program` makes of the tables of graphs of which these are the `outline`, as far as wanted distributed
    outputs are made of it. The graphs have no regions, nor is anything said along axes of the mesh in them."""
    program = load_program(outline.tables)
    program.expects = [row for row in program.expects if row[0] in wanted]
    needed = {tensor for dist, base, _ in program.expects for tensor in (dist, base)}
    said: dict[int, dict[str, list[int]]] = {}
    for made, graph in zip(program.graphs.values(), graphs, strict=True):
        everyone = [*range(len(program.ranks))] if made.role == "dist" else [0]
        made.outputs = [tensor for tensor in made.outputs if tensor in needed]
        for op in reversed(graph.ops):
            results = [ids[0][tensor] for tensor in op.results]
            if not needed.isdisjoint(results):
                operands = [ids[0][tensor] for tensor in op.operands]
                needed.update(operands)
                made.ops.append(_op(op, ids[1][op], operands, results, everyone, said))
                for name, tensor in zip(results, op.results, strict=True):
                    if name not in program.tensors:
                        program.tensors[name] = Tensor(name, tensor.dtype, tuple(tensor.shape))
                        if tensor.name:
                            program.names[name] = clean(tensor.name)
        made.ops.reverse()
    return program


def _op(
    op: ir.Op, name: str, operands: list[str], results: list[str], everyone: list[int],
    said: dict[int, dict[str, list[int]]],
) -> Op:  # fmt: skip
    """`said` keeps numbers, which ops of the graph share."""
    numbers = said.get(id(op.numbers))
    if numbers is None:
        numbers = said[id(op.numbers)] = {exact(key): [*values] for key, values in op.numbers.items() if values}
    made = Op(name, exact(op.kind), operands, results, numbers)
    for key, texts in op.symbols.items():
        if texts:
            made.symbols[exact(key)] = [exact(text) for text in texts]
    if op.rank_numbers:
        made.numbers = {key: [*values] for key, values in numbers.items()}
        for (key, position), by_rank in sorted(op.rank_numbers.items()):
            made.by_rank.setdefault(exact(key), {})[position] = dict(sorted(by_rank.items()))
            values = made.numbers.setdefault(exact(key), [])
            values[position : position + 1] = [0]
    if op.kind in GROUPED:
        groups = [everyone] if op.groups is None and op.replica_groups_all else op.groups
        made.groups = [[0]] if groups is not None and everyone == [0] else [[*group] for group in groups or ()]
    made.pairs = list(op.pairs or ())
    return made
