"""Whether a program has loops in which each rank does something else, and along which mesh axes; loops that only one
of two programs has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.mesh import Mesh

__all__ = ["Loop", "axes_of_turns", "loop_of", "loops_of", "loops_of_one_side"]

Loop = tuple[int, tuple[tuple[str, int], ...]]
"""Turns (-1: not known), types and numbers of dims of what is carried."""

TURNS = 64
"""Loops of more turns stay loops."""
RANK_NUMBERS = frozenset(("partition-id", "replica-id"))
MOVES = frozenset(("broadcast", "reshape", "convert", "transpose"))


def axes_of_turns(graph: Graph, mesh: Mesh) -> tuple[str, ...]:
    """The axes along which loops, or turns one after the other, pass on what they carry, where a rank takes that or
    something else by its number."""
    found: dict[str, None] = {}
    if not any(op.kind in ("while", "collective-permute") for op in graph.ops):
        return ()
    numbered, made = _numbered(graph.ops, set()), {result: op for op in graph.ops for result in op.results}
    for op in graph.ops:
        if op.kind == "while" and "trip_count" in op.numbers:
            for permute in _takes_by_number(op, numbered, made):
                found.update(dict.fromkeys(_axes_along(permute, mesh)))
    for permute in _turn_after_turn(graph.ops, numbered):
        found.update(dict.fromkeys(_axes_along(permute, mesh)))
    return tuple(axis for axis, _ in mesh.axes if axis in found)


def _turn_after_turn(ops: Sequence[Op], numbered: set[Tensor]) -> Iterator[Op]:
    """Permutes whose result is chosen by the number of the rank, or another value, and that pass on what hangs on such
    a choice: turns of a loop that is written out already."""
    made = {result: op for op in ops for result in op.results}
    after: set[Tensor] = set()
    for op in ops:
        if op.kind == "select" and not (number := _root(op.operands[0], made)).shape and number in numbered:
            roots = [made.get(_root(value, made)) for value in op.operands[1:]]
            passed = [x for x in roots if x is not None and x.kind == "collective-permute" and x.pairs]
            if len(passed) == 1 and not any(x is not None and x.kind == "constant" for x in roots):
                after.update(op.results)
                if passed[0].operands[0] in after:
                    yield passed[0]
        if any(x in after for x in op.operands):
            after.update(op.results)


def combines_bits(ops: Sequence[Op]) -> bool:
    """Whether integers are combined bit by bit, as random draws are made of a key."""
    return any(
        (op.kind == "xor" and op.result.dtype != "pred") or any(combines_bits(region.ops) for region in op.regions)
        for op in ops
    )


def loops_of_one_side(base: Graph, dist: Graph) -> set[Loop]:
    """Loops of which one program has more than the other: no induction, carried value by carried value, pairs these."""
    found: set[Loop] = set()
    while True:  # what is inside of a loop that is written out is there in each of its turns
        counts = _loops(base, found), _loops(dist, found)
        more = {loop for loop in counts[0] | counts[1] if counts[0][loop] != counts[1][loop] and 0 <= loop[0] <= TURNS}
        if more <= found:
            return found
        found |= more


def loops_of(graph: Graph) -> set[Loop]:
    """Loops of a known number of turns that is not large."""
    return {loop for loop in _loops(graph) if 0 <= loop[0] <= TURNS}


def _loops(graph: Graph, written: Container[Loop] = (), times: int = 1) -> Counter[Loop]:
    """Every loop, those inside of others included: as often as there are turns of those that are written out."""
    found: Counter[Loop] = Counter()
    for op in graph.ops:
        inner = times
        if op.kind == "while":
            loop = loop_of(op)
            found[loop] += times
            inner *= max(loop[0], 1) if loop in written else 1
        for region in op.regions:
            found.update(_loops(region, written, inner))
    return found


def loop_of(op: Op) -> Loop:
    """What is asked of a loop that is to be paired with another one."""
    (turns,) = op.numbers.get("trip_count") or [-1]
    return turns, tuple((x.dtype, len(x.shape)) for x in op.results)


def _numbered(ops: Sequence[Op], known: set[Tensor]) -> set[Tensor]:
    """Integers and truth values that depend on the number of the rank."""
    found = set(known)
    for op in ops:
        if op.kind in RANK_NUMBERS or (
            op.kind != "while" and any(x in found for x in op.operands) and all(x.dtype[0] in "sup" for x in op.results)
        ):
            found.update(op.results)
    return found


def _takes_by_number(loop: Op, numbered: set[Tensor], outside: dict[Tensor, Op]) -> Iterator[Op]:
    """Permutes of what the loop carries, whose result is chosen, or not, by the number of the rank."""
    body = loop.regions[1]
    inputs = [port.tensor for port in body.inputs]
    made = {result: op for op in body.ops for result in op.results}
    given = dict(zip(inputs, loop.operands, strict=True))
    known = {x for x, value in given.items() if value in numbered}
    inside = _numbered(body.ops, known)
    carried = {x: _root(port.tensor, made) for x, port in zip(inputs, body.outputs, strict=True)}
    for op in body.ops:
        if op.kind not in ("select", "conditional"):
            continue
        number = _root(op.operands[0], made)
        if number in given:  # perhaps repeated before the loop
            number = _root(given[number], outside)
        if number.shape or number not in inside | numbered:
            continue
        for value in op.operands[1:]:
            root = _root(value, made)
            permute = made.get(carried.get(root, root))
            if permute is None or permute.kind != "collective-permute" or not permute.pairs:
                continue
            if root in carried or _root(permute.operands[0], made) in carried:
                yield permute


def _root(tensor: Tensor, made: dict[Tensor, Op]) -> Tensor:
    """What a value is, before ops that only move or repeat its elements."""
    while (op := made.get(tensor)) is not None and op.kind in MOVES:
        tensor = op.operands[0]
    return tensor


def _axes_along(permute: Op, mesh: Mesh) -> Iterator[str]:
    for source, target in permute.pairs or ():
        for (axis, _), a, b in zip(mesh.axes, mesh.coordinates[source], mesh.coordinates[target], strict=True):
            if a != b:
                yield axis
