"""A forward and a backward in two dumps as one program: what the forward hands on, the backward reads.

    graph, relations = joined(forward, backward, relations)

The relations file says which inputs of the backward are values of the forward (`handed:`, or that names are shared),
which ones hold gradients of its outputs (`cotangents:`), and of which inputs the outputs of the backward are gradients.
A handed value that no cotangent belongs to is no output of the program: it is looked at where it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

from scalify_dl.errors import InputError
from scalify_dl.ir.copies import copied
from scalify_dl.ir.graph import Graph, Port, Tensor
from scalify_dl.pairing.pairing import find_one, listing
from scalify_dl.readers.relations import GradientRelation, Relations
from scalify_dl.yaml_nodes import Place

from .given import COTANGENT


def joined(forward: Graph, backward: Graph, relations: Relations) -> tuple[Graph, Relations]:
    """One program, and what is said of it. InputError where an input of the backward is not said, or does not fit."""
    handed = _handed(forward, backward, relations)
    of = _cotangents(forward, backward, relations, handed)
    known = {port.tensor: handed[n] for n, port in enumerate(backward.inputs) if n in handed}
    kept = [m for m, port in enumerate(forward.outputs) if m in of.values() or port.tensor not in known.values()]
    made = _both(forward, backward)
    made.inputs = list(forward.inputs)
    for n, port in enumerate(backward.inputs):
        if n not in handed:
            mine = copy(port)
            mine.tensor, mine.path = copy(port.tensor), COTANGENT + _name(forward.outputs[of[n]])
            known[port.tensor] = mine.tensor
            made.inputs.append(mine)
    made.ops = [*forward.ops, *(copied(op, known, "") for op in backward.ops)]
    made.outputs = [forward.outputs[m] for m in kept]
    for port in backward.outputs:
        mine = copy(port)
        mine.tensor = known[port.tensor]
        made.outputs.append(mine)
    return made, _moved(relations, forward, backward, {n: kept.index(m) for n, m in of.items()}, made, len(kept))


def _handed(forward: Graph, backward: Graph, relations: Relations) -> dict[int, Tensor]:
    """Input of the backward → the value of the forward that it is."""
    values = [*forward.outputs, *forward.inputs]
    found: dict[int, Tensor] = {}
    for said in () if relations.handed == "names" else relations.handed:
        n = find_one(backward.inputs, said.input, said.place, "input of the backward")
        ends = {values[m].tensor for m in _named(values, said.output)}
        if len(ends) != 1:
            raise said.place.error(f"handed: `{said.output}` names {len(ends)} outputs and inputs of the forward",
                                   expected=f"one of {listing(values)}")  # fmt: skip
        found[n] = ends.pop()
        if (found[n].dtype, found[n].shape) != (backward.inputs[n].tensor.dtype, backward.inputs[n].tensor.shape):
            raise said.place.error(
                f"handed: `{said.input}` is {backward.inputs[n].tensor.type}, `{said.output}` {found[n].type}"
            )
    if relations.handed == "names":
        for n, port in enumerate(backward.inputs):
            ends = {values[m].tensor for m in _named(values, port.tensor.name)}
            if len(ends) == 1 and all((t.dtype, t.shape) == (port.tensor.dtype, port.tensor.shape) for t in ends):
                found.setdefault(n, ends.pop())
    return found


def _named(ports: Sequence[Port], name: str) -> list[int]:
    return [n for n, port in enumerate(ports) if name in (port.tensor.name, port.path, port.alias)]


def _cotangents(
    forward: Graph, backward: Graph, relations: Relations, handed: Mapping[int, Tensor]
) -> dict[int, int]:
    """Input of the backward → the output of the forward whose gradient it holds."""
    found: dict[int, int] = {}
    for said in relations.cotangents:
        if said.input == "1":
            continue
        m = find_one(forward.outputs, said.output, said.place, "output of the forward")
        n = find_one(backward.inputs, said.input, said.place, "input of the backward")
        if n in handed or n in found or m in found.values():
            raise said.place.error(f"cotangents: `{said.output}: {said.input}` is said otherwise, too")
        found[n] = m
    paths = {COTANGENT + _name(port): m for m, port in enumerate(forward.outputs)}
    for n, port in enumerate(backward.inputs):
        if n not in handed and port.path in paths:
            found.setdefault(n, paths[port.path])
    given = set(handed.values())
    left = [n for n in range(len(backward.inputs)) if n not in handed and n not in found]
    ends = [m for m, port in enumerate(forward.outputs) if m not in found.values() and port.tensor not in given]
    if len(left) == len(ends) == 1:  # there is no other way
        found[left.pop()] = ends[0]
    if left:
        names = listing([backward.inputs[n] for n in left])
        raise InputError(
            f"it is not said what these inputs of the backward are: {names}", file=backward.file,
            expected=f"`handed:` (values of the forward: {listing([*forward.outputs, *forward.inputs])})"
                     " or `cotangents:` in the relations file",
        )  # fmt: skip
    for n, m in found.items():
        mine, its = backward.inputs[n].tensor, forward.outputs[m].tensor
        if mine.shape != its.shape or (mine.dtype[0] in "fbc") != (its.dtype[0] in "fbc"):
            raise InputError(f"`{mine.name}` ({mine.type}) is no gradient of `{its.name}` ({its.type})",
                             file=backward.file)  # fmt: skip
    return found


def _both(forward: Graph, backward: Graph) -> Graph:
    """What is said of both programs as wholes."""
    if forward.names | backward.names != backward.names | forward.names:
        raise InputError("the two dumps say different things of a group of the same name", file=backward.file)
    made = replace(forward, name=f"{forward.name} and {backward.name}")
    made.lookups_fail = forward.lookups_fail and backward.lookups_fail
    made.asynchronous = forward.asynchronous or backward.asynchronous
    made.assumptions = [*forward.assumptions, *backward.assumptions]
    made.outside = [*forward.outside, *backward.outside]
    made.reductions = forward.reductions | backward.reductions
    made.names = forward.names | backward.names
    return made


def _moved(
    relations: Relations, forward: Graph, backward: Graph, of: Mapping[int, int], made: Graph, kept: int
) -> Relations:
    """What is said of gradients, by positions of the whole program."""
    at = {port.path: n for n, port in enumerate(made.inputs)}
    gradients = []
    for said in relations.gradients:
        n = find_one(backward.outputs, said.output, said.place, "output of the backward")
        m = find_one(forward.inputs, said.input, said.place, "input of the forward")
        gradients.append(GradientRelation(f"#{kept + n}", said.place, f"#{m}"))
    cotangents = [said for said in relations.cotangents if said.input == "1"]
    for m in of.values():
        key = f"#{at[COTANGENT + _name(made.outputs[m])]}"
        cotangents.append(GradientRelation(f"#{m}", Place(made.file, 0, 0), key))
    return replace(relations, gradients=tuple(gradients), cotangents=tuple(cotangents))


def _name(port: Port) -> str:
    return port.path or port.tensor.name
