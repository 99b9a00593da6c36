"""Integer inputs that index a table: their default range is `[0, table size)`, an assumption that is listed.

There is none where the program itself provides for values beyond it (`own_ranges`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from scalify_dl.ir.graph import Graph, Op, Tensor

if TYPE_CHECKING:
    from .own_ranges import Provisions

IGNORED = -(2**15)
"""The least label that is ignored by default: -1, -100 and the like are above it, and sums with sizes do not wrap."""
CARRIERS = {
    "reshape": (0,),
    "broadcast": (0,),
    "transpose": (0,),
    "slice": (0,),
    "reverse": (0,),
    "convert": (0,),
    "concatenate": None,
    "select": (1, 2),
    "clamp": (1,),
    "maximum": None,
    "minimum": None,
}
"""Kinds whose result holds values of these operands (None: of all), perhaps clipped."""

UNCHANGED = {kind: CARRIERS[kind] for kind in ("reshape", "broadcast", "transpose", "convert", "concatenate")}
"""Those whose result holds all of them."""


def provisions(graph: Graph) -> Provisions:
    """What a program does with values of its integer inputs."""
    from .own_ranges import Provisions  # where there are such inputs

    return Provisions(graph)


Asked = Callable[[Graph], "Provisions"]
"""`provisions`, perhaps kept for each program."""


def id_ranges(
    graph: Graph, bounded: Container[Tensor] = (), dists: Sequence[Graph] = (), asked: Asked = provisions
) -> dict[Tensor, tuple[int, int]]:
    """Integer inputs whose values reach the indices of a gather from one dim, with the narrowest such bounds; without
    those that are `bounded` already, and those for whose other values the program provides. So are positions of writes
    into a dim of which ranks have blocks."""
    found = {t: size for t, size in (positions(graph, dists) | _tables(graph, CARRIERS)).items() if t not in bounded}
    sure = certain(graph)
    in_doubt = {t for t, size in found.items() if sure.get(t) != size} - only_looked_up(graph)
    if in_doubt:
        program = asked(graph)
        found = {t: size for t, size in found.items() if t not in in_doubt or not program.beyond(t, size)}
    return {tensor: (0, size) for tensor, size in found.items()}


def ids_with_ignored(
    graph: Graph, dists: Sequence[Graph], pairs: Sequence[tuple[Tensor, Tensor, bool]], bounded: Container[Tensor],
    asked: Asked,
) -> dict[Tensor, tuple[int, int]]:  # fmt: skip
    """Integer inputs that are looked up, and of which the program does something else with all that are negative
    (labels that are ignored: `id >= 0`; not with -100 alone), and tells none beyond the table from others: at least
    `IGNORED`, and below its size."""
    signed = {t: size for t, size in _tables(graph, CARRIERS).items() if t not in bounded and t.dtype[0] == "s"}
    if not signed:
        return {}
    program = asked(graph)
    found = {
        t: (IGNORED, size)
        for t, size in signed.items()
        if program.ends(t, size) == {"below"}
        and not program.beyond(t, size, strictly=True)
        and program.looks_up_negative(t, size)
    }
    theirs: dict[Tensor, list[set[str]]] = {}
    for b, d, _ in pairs if found else ():
        for other in map(asked, dists) if b in found else ():
            if d in other.users and other.beyond(d, found[b][1], strictly=True):
                del found[b]
                break
            if d in other.users:
                theirs.setdefault(b, []).append(other.ends(d, found[b][1]))
    return {t: span for t, span in found.items() if t in theirs and "above" not in set.intersection(*theirs[t])}


def ranges_of_run(graph: Graph) -> dict[Tensor, tuple[int, int]]:
    """Integer inputs as those of `id_ranges`, and those that are compared with all classes, whatever the program
    provides for other values, if the run that was captured had none of these (labels of which none is ignored)."""
    seen = {port.tensor: port.seen for port in graph.inputs if port.seen is not None}
    if not seen:
        return {}
    found = classes(graph)
    return {t: (0, found[t]) for t, (lo, hi) in seen.items() if t in found and lo >= 0 and hi <= found[t]}


def classes(graph: Graph) -> dict[Tensor, int]:
    """Inputs whose values are looked up in a table, or compared with all classes, and how many there are."""
    return _classes(graph) | _tables(graph, CARRIERS)


def looked_up_by_others(
    base: Graph, dists: Sequence[Graph], pairs: Sequence[tuple[Tensor, Tensor, bool]]
) -> dict[Tensor, tuple[int, int]]:
    """The same of inputs that the baseline computes with and no more (positions whose angles it makes), where the other
    side looks them up as they are in tables of its own: values beyond these are none that it runs on."""
    theirs = classes(base)
    found: dict[Tensor, tuple[int, int]] = {}
    for graph in dists:
        sizes, seen = certain(graph), {port.tensor: port.seen for port in graph.inputs if port.seen is not None}
        for b, d, whole in pairs:
            if whole and b not in theirs and d in sizes and d in seen and seen[d][0] >= 0 and seen[d][1] <= sizes[d]:
                found[b] = 0, min(sizes[d], found.get(b, (0, sizes[d]))[1])
    return found


def only_looked_up(graph: Graph) -> set[Tensor]:
    """Inputs that are carried as they are to the indices of gathers, and used for nothing else."""
    decided = {port.tensor for port in graph.outputs}
    for op in reversed(graph.ops):
        if op.kind == "gather":
            looked_up = op.operands[1:2]
            decided.update(operand for operand in op.operands if operand not in looked_up)
        elif op.kind not in UNCHANGED or not decided.isdisjoint(op.results):
            decided.update(op.operands)
    return {port.tensor for port in graph.inputs} - decided


def certain(graph: Graph) -> dict[Tensor, int]:
    """Inputs that are looked up as they are, where an index out of range is an error: sizes of their tables. Other
    values are none that the program runs on, whatever it compares them with."""
    return _tables(graph, UNCHANGED) if graph.lookups_fail else {}


def _tables(graph: Graph, carriers: Mapping[str, tuple[int, ...] | None]) -> dict[Tensor, int]:
    """Inputs whose values reach indices, and the size of the smallest table."""
    lookups = [op for op in graph.ops if op.kind == "gather" and len(op.numbers.get("start_index_map", ())) == 1]
    made = _made(graph) if lookups else {}
    inputs = {port.tensor for port in graph.inputs if port.tensor.dtype[0] in "su"}
    found: dict[Tensor, int] = {}
    for op in lookups:
        if carriers is UNCHANGED and "wrap" in op.symbols.get("mode", ()):
            continue
        table = op.operands[0].shape[op.numbers["start_index_map"][0]]
        for tensor in _origins(op.operands[1], made, carriers):
            if tensor in inputs:
                found[tensor] = min(table, found.get(tensor, table))
    return found


def _writes(graph: Graph) -> Iterator[tuple[Tensor, int, int]]:
    """Positions at which one element of a dim is written, how many there are, and how many dims what is written has."""
    for op in graph.ops:
        if op.kind == "dynamic-update-slice":
            into, update, *starts = op.operands
            for start, extent, part in zip(starts, into.shape, update.shape, strict=True):
                if part == 1 < extent:
                    yield start, extent, len(into.shape)


def positions(graph: Graph, dists: Sequence[Graph]) -> dict[Tensor, int]:
    """Scalar inputs that are positions in a dim, where distributed programs write into blocks of such a dim."""
    blocks = {(dims, extent) for dist in dists for _, extent, dims in _writes(dist)}
    made = _made(graph) if blocks else {}
    inputs = {port.tensor for port in graph.inputs if port.tensor.dtype[0] in "su" and not port.tensor.shape}
    found: dict[Tensor, int] = {}
    for start, extent, dims in _writes(graph) if blocks else ():
        if any(n == dims and block < extent and extent % block == 0 for n, block in blocks):
            for tensor in _origins(start, made, CARRIERS) & inputs:
                found[tensor] = min(extent, found.get(tensor, extent))
    return found


def _classes(graph: Graph) -> dict[Tensor, int]:
    """Inputs whose values are compared with all of `[0, size)` (as one-hots are made), and the size."""
    equalities = [op for op in graph.ops if op.kind == "compare" and "EQ" in op.symbols.get("direction", ())]
    made = _made(graph) if equalities else {}
    inputs = {port.tensor for port in graph.inputs if port.tensor.dtype[0] in "su"}
    found: dict[Tensor, int] = {}
    for op in equalities:
        for values, classes in (op.operands, op.operands[::-1]):
            count = made.get(classes)
            while count is not None and count.kind in ("broadcast", "convert"):
                count = made.get(count.operands[0])
            if count is None or count.kind != "iota":
                continue
            size = count.results[0].shape[count.numbers["dimension"][0]]
            for tensor in _origins(values, made, CARRIERS) & inputs:
                found[tensor] = min(size, found.get(tensor, size))
    return found


def _made(graph: Graph) -> dict[Tensor, Op]:
    """The op that makes each tensor."""
    return {result: op for op in graph.ops for result in op.results}


def _origins(tensor: Tensor, made: Mapping[Tensor, Op], carriers: Mapping[str, tuple[int, ...] | None]) -> set[Tensor]:
    """Inputs whose values a tensor carries."""
    seen: set[Tensor] = set()
    pending = [tensor]
    origins = set()
    while pending:
        tensor = pending.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        op = made.get(tensor)
        if op is None:
            origins.add(tensor)
        elif op.kind in carriers:
            positions = carriers[op.kind]
            pending += op.operands if positions is None else [op.operands[n] for n in positions if n < len(op.operands)]
    return origins
