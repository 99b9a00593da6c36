"""What the graph of a stage has to be for a schedule to run it, part by part and once for every micro-batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from scalify_dl.ir.graph import Graph, Port

from .file import Described, Stage

__all__ = ["check_optimisers", "check_stages", "name_by_keys", "ports", "unused"]

KEY = re.compile(r"output \['([^'\]]+)'\]")
"""The path of an output that is a value of the dictionary that is returned."""


def name_by_keys(graph: Graph) -> None:
    """Outputs of a dictionary are called by its keys."""
    for port in graph.outputs:
        key = KEY.fullmatch(port.path or "")
        if key:
            port.alias, port.path = port.alias or port.path, key[1]


def ports(some: Sequence[Port]) -> dict[str, Port]:
    """By path, by name, and by what the dump calls it."""
    aliases = {port.alias: port for port in some if port.alias}
    return aliases | {port.tensor.name: port for port in some} | {port.path: port for port in some if port.path}


def check_stages(plan: Described, graphs: Sequence[Graph]) -> None:
    """InputError where a graph is not what its stage says, or does more than a stage can."""
    for n, (stage, graph) in enumerate(zip(plan.stages, graphs, strict=True)):
        _names_known(stage, graph)
        _nothing_kept(n, stage, graph)
    for n, ((one, other), (first, second)) in enumerate(zip(pairwise(plan.stages), pairwise(graphs), strict=True)):
        _passed(n, other, ports(first.outputs), one.to_next, ports(second.inputs), other.from_previous)
        _passed(n, other, ports(second.outputs), other.to_previous, ports(first.inputs), one.from_next)


def check_optimisers(plan: Described, graphs: Mapping[int, Graph]) -> None:
    """InputError where what an optimiser takes and gives is not what its graph and its stage have."""
    for n, graph in graphs.items():
        stage = plan.stages[n]
        optimiser = stage.optimiser
        assert optimiser is not None
        named = ((graph.inputs, "input", optimiser.gradients), (graph.outputs, "output", optimiser.updates))
        for some, what, names in named:
            known = ports(some)
            for name in names:
                if name not in known:
                    raise optimiser.place.error(
                        f"{optimiser.program.name} has no {what} `{name}`", expected=f"one of {', '.join(known)}"
                    )
        for name in optimiser.gradients.values():
            if optimiser.reduces and name in plan.tied:
                raise optimiser.place.error(
                    f"`{name}` is tied, and the optimiser reduces it itself", expected="one of the two"
                )
            if name not in stage.gradients.values():
                raise optimiser.place.error(
                    f"stage {n} gives no gradient `{name}`", expected=f"one of {', '.join(stage.gradients.values())}"
                )


def _names_known(stage: Stage, graph: Graph) -> None:
    for some, what, names in (
        (graph.inputs, "input", (*stage.from_previous, *stage.from_next, *stage.batch)),
        (graph.outputs, "output", (*stage.to_next, *stage.to_previous, *stage.gradients, *stage.losses)),
    ):
        known = ports(some)
        for name in names:
            if name not in known:
                raise stage.place.error(
                    f"{stage.program.name} has no {what} `{name}`", expected=f"one of {', '.join(known)}"
                )
            found = {port.tensor: port for port in some if name in (port.tensor.name, port.path)}
            if len(found) > 1:
                raise stage.place.error(
                    f"{stage.program.name}: `{name}` names {len(found)} {what}s", expected="the name of one"
                )
        if what == "input" and (again := [name for n, name in enumerate(names) if name in names[:n]]):
            raise stage.place.error(
                f"`{again[0]}` is given twice", expected="an input of the batch, or one that a neighbour gives"
            )


def _nothing_kept(n: int, stage: Stage, graph: Graph) -> None:
    """What a stage writes it finds again for the next micro-batch, which the order of a plan file does not say."""
    for port in graph.outputs:
        if port.holds is None:
            continue
        written = port.holds.path or port.holds.tensor.name
        raise stage.place.error(
            f"stage {n}: {stage.program.name} writes its input `{written}`, which passes from one micro-batch to the"
            " next: such state is not described by a plan file",
            expected="graphs of stages that leave their inputs alone",
            hint="record what every rank runs, and give that (`ranks:`)",
        )


def _passed(
    n: int, stage: Stage, made: Mapping[str, Port], sent: Sequence[str], read: Mapping[str, Port], named: Sequence[str]
) -> None:
    """What neighbours pass on is of one type on both sides."""
    for name, there in zip(sent, named, strict=True):
        one, other = made[name].tensor, read[there].tensor
        if one.type != other.type:
            raise stage.place.error(
                f"stages {n} and {n + 1}: `{name}` is {one.type}, taken as `{there}`, which is {other.type}",
                expected="the same type on both sides",
            )


def unused(graph: Graph, names: Iterable[str]) -> Iterator[str]:
    """Outputs that are none of these."""
    named = {ports(graph.outputs)[name].tensor for name in names}
    yield from (port.path or port.tensor.name for port in graph.outputs if port.tensor not in named)
