"""Gradients of slices that tile a value: a sum of their gradients, each among zeros, as one concatenation.

Both are the same numbers. Frameworks write one or the other: torch pads and adds, XLA concatenates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scalify_dl.ir.graph import Graph, Op, Tensor

__all__ = ["join_tiles"]


def join_tiles(graph: Graph) -> None:
    """Rewrites sums of a program in which all parts of a dim are among zeros."""
    maker = {t: op for op in graph.ops for t in op.results}
    readers: dict[Tensor, int] = {}
    for t in (*(t for op in graph.ops for t in op.operands), *(port.tensor for port in graph.outputs)):
        readers[t] = readers.get(t, 0) + 1
    made: list[Op] = []
    for op in graph.ops:
        leaves = list(_leaves(op, maker, readers)) if op.kind == "add" else []
        tiles = _tiles(leaves, maker)
        if tiles is None:
            made.append(op)
            continue
        dim, pads = tiles
        rest = [t for t in leaves if maker.get(t) not in pads]
        value = Tensor(op.result.dtype, op.result.shape, f"{op.name}.joined") if rest else op.result
        made.append(Op("concatenate", [pad.operands[0] for pad in pads], [value], numbers={"dimension": [dim]}))
        for n, t in enumerate(rest, 1):
            last = Tensor(op.result.dtype, op.result.shape, f"{op.name}.{n}") if n < len(rest) else op.result
            made.append(Op("add", [value, t], [last]))
            value = last
        for new in made[-len(rest) - 1 :]:
            new.name, new.source = new.result.name, op.source
    graph.ops = made


def _leaves(op: Op, maker: dict[Tensor, Op], readers: dict[Tensor, int]) -> Iterator[Tensor]:
    """What a sum adds up, where its parts are read by nobody else."""
    for t in op.operands:
        below = maker.get(t)
        if below is not None and below.kind == "add" and readers[t] == 1:
            yield from _leaves(below, maker, readers)
        else:
            yield t


def _tiles(leaves: Sequence[Tensor], maker: dict[Tensor, Op]) -> tuple[int, list[Op]] | None:
    """The dim, and the parts in their order, of values among zeros that fill it."""
    pads = [op for t in leaves if (op := maker.get(t)) is not None and op.kind == "pad" and _is_among_zeros(op, maker)]
    for dim, size in enumerate(leaves[0].shape if leaves else ()):
        mine = sorted((op for op in pads if _cut(op) == [dim]), key=lambda op: op.numbers["low"][dim])
        at = 0
        for op in mine:
            if op.numbers["low"][dim] != at:
                break
            at += op.operands[0].shape[dim]
        else:
            if at == size and len(mine) > 1:
                return dim, mine
    return None


def _is_among_zeros(op: Op, maker: dict[Tensor, Op]) -> bool:
    number = maker.get(op.operands[1])
    literal = number.result.literal if number is not None and number.kind == "constant" else None
    return (literal is not None and literal.rational == 0 and not any(op.numbers["interior"])
            and min((*op.numbers["low"], *op.numbers["high"]), default=0) >= 0)  # fmt: skip


def _cut(op: Op) -> list[int]:
    return [d for d, (low, high) in enumerate(zip(op.numbers["low"], op.numbers["high"], strict=True)) if low or high]
