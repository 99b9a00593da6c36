"""Outputs of several programs in the joined one, and what is expected of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalify_dl.ir.graph import Assumption, Graph, Port, Tensor
from scalify_dl.ir.layout import Layout, Window
from scalify_dl.ir.mesh import Mesh

from ..correspond import Correspondence
from ..paired import Paired
from .join import Joined
from .ports import same_everywhere
from .values import Alike, Own, Ragged, Unjoinable

__all__ = ["Expected", "in_joined", "outputs"]

Expected = dict[tuple[Tensor, Tensor], str]


def outputs(
    joined: Joined, programs: Sequence[Graph], expected: Sequence[Mapping[tuple[Tensor, Tensor], str]], mesh: Mesh
) -> tuple[Expected, list[dict[Tensor, Tensor]]]:
    """Puts outputs into the joined program; what is expected of them, given what is of the cells' programs; and by
    cell, which tensor an output is in it."""
    rows: Expected = {}
    placed: list[dict[Tensor, Tensor]] = [{} for _ in expected]
    for cell, of_cell in enumerate(expected):
        for (output, base), text in of_cell.items():
            tensor, text = _expected(joined, expected, cell, (output, base), text, programs, mesh)
            placed[cell].setdefault(output, tensor)
            if rows.setdefault((tensor, base), text) != text:
                raise Unjoinable("one value is expected in two ways")
    seen: set[tuple[Tensor, str | None]] = set()
    for cell, p in enumerate(joined.cells.program):
        for port in programs[p].outputs:
            tensor = placed[cell].get(port.tensor) or joined.made.at(cell, joined.values[cell][port.tensor])
            if (tensor, port.path) not in seen:
                seen.add((tensor, port.path))
                joined.graph.outputs.append(Port(tensor, port.path))
    return rows, placed


def _expected(
    joined: Joined, expected: Sequence[Mapping[tuple[Tensor, Tensor], str]], cell: int, pair: tuple[Tensor, Tensor],
    text: str, programs: Sequence[Graph], mesh: Mesh,
) -> tuple[Tensor, str]:  # fmt: skip
    """The tensor that an output is, and its layout."""
    output, base = pair
    value = joined.values[cell][output]
    if isinstance(value, Alike) and len({expected[k].get((t, base)) for k, t in _held(joined, value)}) == 1:
        return value.tensor, text
    if isinstance(value, Ragged) and not text and _windows(joined, programs, value, base, mesh):
        return joined.made.whole(value), text
    differs = not same_everywhere(Layout.parse(text), joined.cells.axes) if text else output.shape != base.shape
    if isinstance(value, (Alike, Own)) and differs:
        others = [_partner(joined, programs, expected, k, cell, output, base) for k in range(joined.cells.count)]
        texts = {text for _, text in others if text}
        if all(t is not None for t, _ in others) and len(texts) < 2:
            values = [joined.values[k][t] for k, (t, _) in enumerate(others) if t is not None]
            return joined.made.chosen(values, None), min(texts, default="")
    return joined.made.at(cell, value), text


def _held(joined: Joined, value: Alike) -> list[tuple[int, Tensor]]:
    return [(k, t) for k, values in enumerate(joined.values) for t, held in values.items() if held is value]


def _path(program: Graph, output: Tensor) -> str | None:
    return next((port.path for port in program.outputs if port.tensor is output), None)


def _partner(
    joined: Joined, programs: Sequence[Graph], expected: Sequence[Mapping[tuple[Tensor, Tensor], str]], other: int,
    cell: int, output: Tensor, base: Tensor,
) -> tuple[Tensor | None, str]:  # fmt: skip
    """The output of another cell of the same path and what layout is expected of it."""
    path = _path(programs[joined.cells.program[cell]], output)
    for port in programs[joined.cells.program[other]].outputs:
        same = port.path == path and port.tensor.type == output.type
        if same and (port.tensor, base) in expected[other]:
            return port.tensor, expected[other][port.tensor, base]
    return None, ""


def _windows(joined: Joined, programs: Sequence[Graph], value: Ragged, base: Tensor, mesh: Mesh) -> bool:
    """Whether the dumps say of every cell's part that it is the one that follows the others'."""
    at = 0
    for k, p in enumerate(joined.cells.program):
        window = Window(value.dim, at, at + value.sizes[k])
        at += value.sizes[k]
        ports = [port for port in programs[p].outputs if joined.values[k].get(port.tensor) is value]
        if value.sizes[k] and not any(_window(port, joined.cells.ranks[k], mesh) == window for port in ports):
            return False
    return at == base.shape[value.dim] if value.dim < len(base.shape) else False


def _window(port: Port, ranks: Sequence[int], mesh: Mesh) -> Window | None:
    """What some ranks have of a dim that their axis does not divide, as the dump says."""
    cut = getattr(port.placement, "window", None)
    found = {cut(rank, mesh) for rank in ranks} if cut is not None else {None}
    return found.pop() if len(found) == 1 else None


def in_joined(paired: Paired, joined: Joined, programs: Sequence[Graph], mesh: Mesh) -> tuple[Paired, Graph]:
    """What was paired of the cells' programs, of the joined program; and that program, with its outputs."""
    graph = joined.graph
    rows, placed = outputs(joined, programs, paired.expected, mesh)
    found = Correspondence(shards=joined.shards)
    for inputs, one in zip(joined.inputs, paired.found, strict=True):
        found.notes += [(inputs[t], text) for t, text in one.notes if t in inputs]
        found.assumptions += [(inputs[t], text, why) for t, text, why in one.assumptions if t in inputs]
        found.loud += one.loud
    found.notes = list(dict.fromkeys(found.notes))
    found.assumptions = list(dict.fromkeys(found.assumptions))
    elided = {
        (tensor, base, layout): None
        for cell, pairs in enumerate(paired.elided)
        for d, base, layout in pairs
        if (tensor := joined.at(cell, d)) is not None
    }
    guessed = [
        Assumption(placed[cell].get(tensor, tensor), text, why)
        for cell, some in enumerate(paired.guessed)
        for tensor, text, why in some
    ]
    bounds = {t: b for t, b in paired.bounds.items() if all(t not in inputs for inputs in joined.inputs)}
    bounds |= {inputs[t]: b for inputs in joined.inputs for t, b in paired.bounds.items() if t in inputs}
    for cell, p in enumerate(joined.cells.program):
        for tensor, text, why in programs[p].assumptions:
            now = joined.at(cell, tensor)
            if now is not None and Assumption(now, text, why) not in graph.assumptions:
                graph.assume(now, text, why)
    graph.file = programs[0].file
    graph.lookups_fail = all(program.lookups_fail for program in programs)
    known = dict.fromkeys((*(port.tensor for port in graph.inputs), *joined.made.made))
    bounds = {t: b for t, b in bounds.items() if t in known or not _of_programs(t, programs)}
    return Paired([found], [list(elided)], [rows], [list(dict.fromkeys(guessed))], bounds), graph


def _of_programs(tensor: Tensor, programs: Sequence[Graph]) -> bool:
    return any(port.tensor is tensor for program in programs for port in program.inputs)
