"""What a value holds, and what may mend a violation, in words."""

from __future__ import annotations

from scalify_dl.ir.graph import Op

from .grid import Grid
from .held import Held
from .lift import Lifted
from .spmd import types


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
