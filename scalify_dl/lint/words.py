"""What a value holds, and what may mend a violation, in words; SPMD types per axis."""

from __future__ import annotations

from scalify_dl.ir.graph import Op
from scalify_dl.ir.layout import Digit, Pending

from .grid import Grid
from .held import Held
from .lift import Lifted


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


DUAL = {"R": "P", "P": "R"}
"""The type of a value's gradient, as it comes out of the backward of what reads it: a replicated value is read on every
rank, and its gradient is the sum of what they find; a part of a sum gives its gradient to every rank."""


def type_text(held: Held, grid: Grid) -> str:
    """`S(0)@tp · P@dp, gradient S(0)@tp · R@dp`"""
    found = types(held, grid)
    if not found:
        return "R"
    mine = " · ".join(f"{word}@{axis}" for axis, word in found.items())
    theirs = " · ".join(f"{DUAL.get(word, word)}@{axis}" for axis, word in found.items())
    return f"{mine}, gradient {theirs}"


def holds_words(held: Held, grid: Grid) -> str:
    """What a value holds, for people."""
    parts = []
    for axis, word in types(held, grid).items():
        if word.startswith("S("):
            parts.append(f"blocks of dim {word[2:-1]} over {axis}")
        elif word == "P" or word.startswith("P("):
            parts.append(f"parts of a {'sum' if word == 'P' else word[2:-1]} over {axis}")
        elif word == "V":
            parts.append(f"a mixture over {axis}")
    times = f"{held.scale} times " if held.scale != 1 else ""
    return times + (", ".join(parts) or "the whole") + f" of {held.base.type}"


def suggestion(kind: str, op: Op | None, lifted: Lifted | None, grid: Grid, held: Held | None = None) -> str | None:
    """What may mend it; whether it does, `dlverify fix` tries."""
    helds = [held] if held is not None else []
    if lifted is not None and op is not None:
        helds = [lifted.held[t] for t in op.operands if t in lifted.held]
    axes = [axis for h in helds for axis in grid.axes_of(h.pending)]
    if kind in ("non-linear", "product-of-unreduced", "unreduced-output", "gathers-unreduced") and axes:
        return f"reduce it over {', '.join(dict.fromkeys(axes))} first"
    if kind == "added-per-rank" and axes:
        return f"add it behind the reduction over {', '.join(dict.fromkeys(axes))}"
    if kind in ("multiple", "multiple-output"):
        return "reduce it once only, or divide it by the number of ranks"
    if kind in ("whole-dim", "looks-up-blocks"):
        return "gather the dim first, or combine what the ranks find"
    if kind == "group":
        return "reduce over the ranks that differ in one axis of the mesh"
    return None
