"""Single edits of a distributed program, as a graph: collectives put in, changed or taken out, blocks by the rank."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.programs import Program

BYTES = {"f64": 8, "s64": 8, "u64": 8, "c64": 8, "f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "pred": 1}


@dataclass(frozen=True)
class Edit:
    """What is done, in words and as a line of the program; bytes that it moves per rank; how it is done to a copy, in
    which ops have the same numbers."""

    text: str
    line: str
    cost: int
    apply: Callable[[Graph], None]


def edited(graph: Graph, edit: Edit) -> Graph:
    """A copy of the program with an edit. InputError or ValueError where it cannot be made."""
    draft = copy.deepcopy(graph)
    edit.apply(draft)
    return draft


def size(tensor: Tensor) -> int:
    """Bytes of a value on one rank."""
    return prod(tensor.shape) * BYTES.get(tensor.dtype, 4)


def reduced(tensor: Tensor, ways: int) -> int:
    """Bytes that a rank sends for an all-reduce of a value over so many ranks."""
    return 2 * size(tensor) * (ways - 1) // ways


def ways_of(op: Op) -> int:
    """How many ranks take part in each group of a collective; 2 where it does not say."""
    return max(len(op.groups[0]) if op.groups else prod(n for _, n in op.along) if op.along else 2, 1)


def groups(mesh: Mesh, axes: Sequence[str]) -> list[list[int]]:
    """Groups of ranks that differ in these axes."""
    return Program("", mesh).groups(list(axes))


def maker(graph: Graph, tensor: Tensor) -> int:
    """The number of the op that makes a value; -1 for an input."""
    return next((n for n, op in enumerate(graph.ops) if tensor in op.results), -1)


def value(graph: Graph, original: Graph, tensor: Tensor) -> Tensor:
    """The value of a copy that is this one of the original."""
    at = maker(original, tensor)
    if at >= 0:
        return graph.ops[at].results[original.ops[at].results.index(tensor)]
    place = next(n for n, port in enumerate(original.inputs) if port.tensor is tensor)
    return graph.inputs[place].tensor


def put_in(graph: Graph, at: int, op: Op) -> None:
    """Moves the op that was added last to its place."""
    graph.ops.remove(op)
    graph.ops.insert(at, op)


def remove(graph: Graph, op: Op) -> None:
    """Takes an op out, with what was assumed of its results."""
    graph.ops.remove(op)
    graph.assumptions = [assumed for assumed in graph.assumptions if assumed.tensor not in op.results]


def read_instead(graph: Graph, old: Tensor, new: Tensor, first: int, only: Op | None = None) -> None:
    """Ops from `first` on (or one of them) and outputs read another value."""
    for op in graph.ops[first:]:
        if (only is None or op is only) and new not in op.results:
            op.operands = [new if t is old else t for t in op.operands]
    if only is None:
        for port in graph.outputs:
            if port.tensor is old:
                port.tensor = new


def reduce_first(
    graph: Graph, mesh: Mesh, tensor: Tensor, reader: Op | None, axes: Sequence[str], reducer: str
) -> Edit:
    """An all-reduce in front of an op (or of an output), for that and all later readers."""
    at = len(graph.ops) if reader is None else graph.ops.index(reader)
    first = maker(graph, tensor) + 1

    def apply(draft: Graph) -> None:
        old = value(draft, graph, tensor)
        op = draft.add("all-reduce", [old], [(old.dtype, old.shape)], name=f"{old.name}.reduced",
                       symbols={"reducer": [reducer]}, groups=groups(mesh, axes),
                       source=draft.ops[at].source if at < len(draft.ops) else ())  # fmt: skip
        put_in(draft, first, op)
        read_instead(draft, old, op.result, first)

    ways = prod(mesh.axis_size(axis) for axis in axes)
    line = f"{tensor.name} = all_reduce({tensor.name}, {reducer!r}, {', '.join(axes)})"
    where = f"in front of `{reader.name}`" if reader is not None else "in front of the output"
    cost = reduced(tensor, ways)
    return Edit(f"reduce `{tensor.name}` over {', '.join(axes)} {where}", line, cost, apply)


def take_out(graph: Graph, op: Op) -> Edit:
    """A collective whose result has its operand's shape is left out."""
    at = graph.ops.index(op)

    def apply(draft: Graph) -> None:
        gone = draft.ops[at]
        read_instead(draft, gone.result, gone.operands[0], at + 1)
        remove(draft, gone)

    sent = reduced(op.operands[0], ways_of(op)) if op.kind == "all-reduce" else size(op.operands[0])
    return Edit(f"leave out `{op.name}`", f"{op.name} = {op.operands[0].name}", -sent, apply)


def move_in_front(graph: Graph, mesh: Mesh, tensor: Tensor, reader: Op, later: Op) -> Edit:
    """The reduction of a result becomes that of one operand."""
    first = reduce_first(graph, mesh, tensor, reader, axes_of(mesh, later), later.symbols["reducer"][0])
    at = graph.ops.index(later)

    def apply(draft: Graph) -> None:
        gone = draft.ops[at]
        first.apply(draft)
        read_instead(draft, gone.result, gone.operands[0], draft.ops.index(gone) + 1)
        remove(draft, gone)

    text = f"take the reduction `{later.name}` in front of `{reader.name}`: reduce `{tensor.name}` alone"
    return Edit(text, first.line, first.cost - reduced(later.operands[0], ways_of(later)), apply)


def axes_of(mesh: Mesh, op: Op) -> list[str]:
    """The axes along which a collective runs; all where that is not known."""
    for chosen in subsets([axis for axis, _ in mesh.axes]):
        if {frozenset(g) for g in groups(mesh, chosen)} == {frozenset(g) for g in op.groups or ()}:
            return chosen
    return [axis for axis, _ in mesh.axes]


def subsets(names: Sequence[str]) -> list[list[str]]:
    """All that are not empty, small ones first."""
    found: list[list[str]] = []
    for mask in range(1, 1 << min(len(names), 4)):
        found.append([name for n, name in enumerate(names) if mask >> n & 1])
    return sorted(found, key=len)


def regroup(graph: Graph, mesh: Mesh, op: Op, axes: Sequence[str]) -> Edit:
    """A collective along other axes."""
    at = graph.ops.index(op)

    def apply(draft: Graph) -> None:
        changed = draft.ops[at]
        changed.groups, changed.along, changed.replica_groups_all = groups(mesh, axes), (), False

    return Edit(f"run `{op.name}` over {', '.join(axes)}", f"{op.name}: groups {groups(mesh, axes)}", 0, apply)


def other_reducer(graph: Graph, op: Op, reducer: str) -> Edit:
    """A reduction by another operation."""
    at = graph.ops.index(op)

    def apply(draft: Graph) -> None:
        draft.ops[at].symbols = {**draft.ops[at].symbols, "reducer": [reducer]}

    return Edit(f"let `{op.name}` take the {reducer}", f"{op.name}: reducer {reducer}", 0, apply)


def turned(graph: Graph, op: Op) -> Edit:
    """What ranks send each other goes the other way."""
    at, back = graph.ops.index(op), [(to, rank) for rank, to in op.pairs or ()]

    def apply(draft: Graph) -> None:
        draft.ops[at].pairs = back

    return Edit(f"turn the pairs of `{op.name}` round", f"{op.name}: pairs {back}", 0, apply)


def divided(graph: Graph, op: Op, ways: int) -> Edit:
    """What was counted several times, divided."""
    at = graph.ops.index(op)

    def apply(draft: Graph) -> None:
        old, count = draft.ops[at].result, len(draft.ops)
        number = draft.splat(ways, old.dtype, old.shape)
        made = draft.add("divide", [old, number], name=f"{old.name}.mean", source=draft.ops[at].source)
        extra = draft.ops[count:]
        draft.ops[count:] = []
        draft.ops[at + 1 : at + 1] = extra
        read_instead(draft, old, made.result, at + 1 + len(extra))

    return Edit(f"divide `{op.name}` by {ways}", f"{op.name} = {op.name} / {ways}", 1, apply)


def own_block(graph: Graph, mesh: Mesh, op: Op, dim: int, axis: str) -> Edit | None:
    """A slice with the same bounds on all ranks becomes each rank's own block; None where blocks do not fit."""
    (x,), block, ways = op.operands, op.result.shape[dim], mesh.axis_size(axis)
    if block * ways != x.shape[dim]:
        return None
    at = graph.ops.index(op)
    where = [name for name, _ in mesh.axes].index(axis)

    def apply(draft: Graph) -> None:
        changed = draft.ops[at]
        for key, more in (("start", 0), ("limit", block)):
            bounds = {rank: place[where] * block + more for rank, place in enumerate(mesh.coordinates)}
            changed.rank_numbers[key, dim] = bounds

    line = f"{op.name} = {x.name}[rank({axis}) * {block} : (rank({axis}) + 1) * {block}]  # dim {dim}"
    return Edit(f"let `{op.name}` take the rank's own block along {axis}", line, 0, apply)


def scatter(graph: Graph, mesh: Mesh, op: Op, dim: int, axes: Sequence[str]) -> Edit:
    """A block of parts of a sum becomes the block of the sum."""
    at = graph.ops.index(op)

    def apply(draft: Graph) -> None:
        changed = draft.ops[at]
        changed.kind, changed.operands, changed.groups = "reduce-scatter", changed.operands[:1], groups(mesh, axes)
        changed.numbers, changed.symbols, changed.rank_numbers = {"dimension": [dim]}, {"reducer": ["sum"]}, {}

    ways = prod(mesh.axis_size(axis) for axis in axes)
    cost = size(op.operands[0]) * (ways - 1) // ways
    line = f"{op.name} = reduce_scatter({op.operands[0].name}, dim={dim}, {', '.join(axes)})"
    return Edit(f"let `{op.name}` reduce over {', '.join(axes)}, too: a reduce-scatter", line, cost, apply)


def gather_first(graph: Graph, mesh: Mesh, tensor: Tensor, reader: Op | None, dim: int, axes: Sequence[str]) -> Edit:
    """A dim of an operand is gathered in front of an op whose result does not have that dim, or of the output."""
    at = graph.ops.index(reader) if reader is not None else len(graph.ops)
    ways = prod(mesh.axis_size(axis) for axis in axes)

    def apply(draft: Graph) -> None:
        old, read_by = value(draft, graph, tensor), draft.ops[at] if reader is not None else None
        shape = tuple(n * ways if d == dim else n for d, n in enumerate(old.shape))
        op = draft.add("all-gather", [old], [(old.dtype, shape)], name=f"{old.name}.whole",
                       numbers={"dimension": [dim]}, groups=groups(mesh, axes),
                       source=read_by.source if read_by is not None else ())  # fmt: skip
        put_in(draft, at, op)
        read_instead(draft, old, op.result, at + 1, read_by)

    line = f"{tensor.name} = all_gather({tensor.name}, dim={dim}, {', '.join(axes)})"
    where = f"in front of `{reader.name}`" if reader is not None else "in front of the output"
    text = f"gather dim {dim} of `{tensor.name}` {where}"
    return Edit(text, line, size(tensor) * (ways - 1), apply)


def gather_instead(graph: Graph, mesh: Mesh, op: Op, axes: Sequence[str]) -> Edit:
    """A value that is repeated along a dim which ranks hold in blocks is gathered."""
    at, dim = graph.ops.index(op), op.numbers["dimension"][0]

    def apply(draft: Graph) -> None:
        changed = draft.ops[at]
        changed.kind, changed.operands, changed.groups = "all-gather", changed.operands[:1], groups(mesh, axes)

    line = f"{op.name} = all_gather({op.operands[0].name}, dim={dim}, {', '.join(axes)})"
    cost = size(op.operands[0]) * (len(op.operands) - 1)
    return Edit(f"let `{op.name}` gather what it repeats", line, cost, apply)


def reslice(graph: Graph, op: Op, dim: int, start: int) -> Edit:
    """A slice of the same size from another place."""
    at, width = graph.ops.index(op), op.result.shape[dim]

    def apply(draft: Graph) -> None:
        changed = draft.ops[at]
        for key, value in (("start", start), ("limit", start + width)):
            changed.numbers = {**changed.numbers, key: [
                value if d == dim else n for d, n in enumerate(changed.numbers[key])]}  # fmt: skip

    line = f"{op.name} = {op.operands[0].name}[{start}:{start + width}]  # dim {dim}"
    return Edit(f"let `{op.name}` begin at {start}", line, 0, apply)
