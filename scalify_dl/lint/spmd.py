"""SPMD types per axis of the mesh, of a value and of its gradient: tables for `datalog/lift/types.dl`, and its answers.

    R  the same on all ranks, gradient P: a part of a sum on every rank
    I  the same on all ranks, as its gradient is
    P  a part of a sum, gradient R
    S  blocks of a dim, gradient alike
    V  anything else
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.layout import Digit, Pending
from scalify_dl.pysouffle import Program

from .grid import Grid
from .held import Held
from .lift import Lifted

Words = dict[str, str]
"""Axis → type."""


def types(held: Held, grid: Grid) -> dict[str, str]:
    """The SPMD type of a value along every axis: R, S(dim), P (a sum), P(max), or V where it is neither."""
    found: dict[str, str] = {}
    for axis, size in grid.mesh.axes:
        entries = [e for (name, _), e in zip(grid.positions, held.mesh, strict=True) if name == axis]
        words = {_word(e) for e in entries}
        if held.along is not None and any(grid.positions[p][0] == axis for piece in held.parts for p in piece.cut):
            words = {f"S({held.along})"}
        found[axis] = "R" if size == 1 or not words else words.pop() if len(words) == 1 else "V"
    return found


def _word(entry: object) -> str:
    if isinstance(entry, Digit):
        return f"S({entry.dim})"
    if isinstance(entry, Pending):
        return "P" if entry.reducer == "sum" else f"P({entry.reducer})"
    return "R"


def type_rows(alive: Iterable[Op], lifted: Lifted, grid: Grid, ids: Mapping[Tensor, str]) -> list[tuple[str, str, str]]:
    """The types of all values of reals that ops read or make."""
    values = {t for op in alive for t in (*op.operands, *op.results) if t.dtype[0] in "fbc" and t in lifted.held}
    return [(ids[t], axis, word) for t in values for axis, word in types(lifted.held[t], grid).items()]


def read_types(program: Program, ids: Mapping[Tensor, str], shown: Iterable[Tensor]) -> dict[Tensor, Words]:
    """The types of gradients of values that are shown: a word for each axis, several where readers differ."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for value, axis, word in program.relation("gradient"):
        found[str(value)][str(axis)].add(str(word))
    return {
        t: {axis: " + ".join(sorted(words)) for axis, words in found[ids[t]].items()} for t in shown if ids[t] in found
    }


def with_gradient(held: Held, grid: Grid, gradient: Mapping[str, str]) -> tuple[Words, Words]:
    """The types of a value and of its gradient."""
    mine = types(held, grid)
    same = {axis for axis, word in mine.items() if word == "R" == gradient.get(axis)}
    return {a: "I" if a in same else word for a, word in mine.items()}, {
        a: "I" if a in same else gradient[a] for a in mine if a in gradient
    }


def type_text(held: Held, grid: Grid, gradient: Mapping[str, str]) -> str:
    """`S(0)@tp · P@dp, gradient S(0)@tp · R@dp`"""
    mine, theirs = with_gradient(held, grid, gradient)
    text = " · ".join(f"{word}@{axis}" for axis, word in mine.items()) or "R"
    back = " · ".join(f"{word}@{axis}" if "+" not in word else f"({word})@{axis}" for axis, word in theirs.items())
    return f"{text}, gradient {back}" if back else text
