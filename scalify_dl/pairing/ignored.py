"""Labels of which one value is ignored: `labels == -100`, as `cross_entropy` has it.

Such a label is -100, or one of the classes. Ranges are intervals, so all that is negative is ignored instead: that is
the same for all these labels. What is compared with -100 is compared with 0; the range is `[-100, classes)`, an
assumption (`ignored`), and of negative labels only -100 is drawn where counterexamples are looked for. So it is where a
captured run had ignored labels; one that had none says `[0, classes)`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from scalify_dl.ir.graph import Graph, Op, Tensor

from .embedding import classes

MOVES = frozenset(("reshape", "broadcast", "transpose", "slice", "reverse", "concatenate", "convert", "select"))
"""Kinds whose result holds elements of their operands, and no others."""
WIDE = ("s32", "s64")
DIRECTIONS = {"EQ": "LT", "NE": "GE"}
LEAST = -(2**15)


def ignored_by_value(
    base: Graph, dists: Sequence[Graph], pairs: Sequence[tuple[Tensor, Tensor, bool]], bounded: Container[Tensor]
) -> dict[Tensor, tuple[int, int]]:
    """Integer inputs of the baseline that are one of so many classes, or the one negative number that it compares them
    with, and that the captured run had: that number, and how many. Comparisons of both sides with it become such with
    0."""
    told = {port.tensor: port.ignores for port in base.inputs if port.ignores is not None}
    seen = {port.tensor: port.seen for port in base.inputs if port.seen is not None and port.seen[0] < 0}
    sizes = classes(base) if seen else {}
    found = {
        t: (lo, sizes[t])
        for t, (lo, hi) in seen.items()
        if t in sizes and t.dtype in WIDE and t not in bounded and hi <= sizes[t] and _ignored(base, t) == lo
    }
    for tensor, (number, _) in found.items():
        for graph in {id(graph.ops): graph for graph in (base, *dists)}.values():
            inputs = {tensor} if graph is base else {d for b, d, _ in pairs if b is tensor and d.dtype in WIDE}
            _with_zero(graph, inputs, number)
    for port in base.inputs:
        if port.tensor in found:
            port.ignores = found[port.tensor]
    return told | found


def _ignored(graph: Graph, tensor: Tensor) -> int | None:
    """The one number below 0 that a program compares an input with, for equality."""
    numbers = {number for _, _, number in _comparisons(graph, {tensor}, None)}
    return numbers.pop() if len(numbers) == 1 else None


def _with_zero(graph: Graph, inputs: Container[Tensor], number: int) -> None:
    """Elements of these inputs are that number, or none is below 0: which is it, is asked by a comparison with 0."""
    for op, place, _ in list(_comparisons(graph, inputs, number)):
        old = op.operands[place]
        (direction,) = op.symbols["direction"]
        count = len(graph.ops)
        zero = graph.splat(0, old.dtype, old.shape, source=op.source)
        made, graph.ops[count:] = graph.ops[count:], []
        at = graph.ops.index(op)
        graph.ops[at:at] = made
        op.operands = [op.operands[1 - place], zero]
        op.symbols = {**op.symbols, "direction": [DIRECTIONS[direction]]}


def _comparisons(graph: Graph, inputs: Container[Tensor], number: int | None) -> Iterator[tuple[Op, int, int]]:
    """Comparisons, for equality, of what holds elements of the inputs alone with a number below 0 (that one): the op,
    the place of the number, and the number. Beside elements of the inputs the number itself may stand, and any that is
    not negative."""
    numbers: dict[Tensor, int] = {}
    held: dict[Tensor, bool] = {port.tensor: True for port in graph.inputs if port.tensor in inputs}
    for op in graph.ops:
        result = op.results[0] if len(op.results) == 1 else None
        if op.kind == "constant" and result is not None and result.literal is not None:
            exact = result.literal.rational
            if exact is not None and exact.denominator == 1:
                numbers[result] = int(exact)
        elif op.kind == "broadcast" and op.operands[0] in numbers:
            numbers[op.results[0]] = numbers[op.operands[0]]
        elif op.kind in MOVES and result is not None and result.dtype in WIDE:
            parts = op.operands[1:] if op.kind == "select" else op.operands
            if any(held.get(part) for part in parts):
                held[result] = all(held.get(part) or _allowed(numbers.get(part), number) for part in parts)
        elif op.kind == "compare" and op.symbols["direction"][0] in DIRECTIONS:
            for place in (0, 1):
                found = numbers.get(op.operands[place])
                is_held = held.get(op.operands[1 - place], False)
                if is_held and found is not None and LEAST <= found < 0 and number in (None, found):
                    yield op, place, found


def _allowed(found: int | None, number: int | None) -> bool:
    return found is not None and (found >= 0 or found == number)
