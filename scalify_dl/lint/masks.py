"""Masked reads of a table in blocks that keep other rows than the rank's: what a run says of them, and in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from scalify_dl.finding import Finding, Happening
from scalify_dl.ir.graph import Op, Tensor

from .lift import MOVING, Lifted
from .lines import lines

if TYPE_CHECKING:
    from .numbers import Run


def strays(
    op: Op, lifted: Lifted, run: Callable[[], Run], ids: Mapping[Tensor, str], proved: Collection[tuple[str, str]]
) -> bool:  # fmt: skip
    """Whether what a mask keeps of a read of the ranks' blocks is, in a run, of other rows than those that were asked
    for. What the read of the whole table reads is proved to be what ranks hold of it."""
    held = lifted.held.get(op.result)
    if held is None or (ids[op.result], ids[held.base]) in proved:
        return False
    return _read_of(held.base, lifted, ids, proved) and run().strays(ids[op.result], ids[held.base])


def _read_of(value: Tensor, lifted: Lifted, ids: Mapping[Tensor, str], proved: Collection[tuple[str, str]]) -> bool:
    """Whether a value is a read, moved, of values that are proved to be what ranks hold."""
    known, maker = {base for _, base in proved}, {t: o for o in lifted.base.ops for t in o.results}
    stack = [value]
    while stack:
        op = maker.get(stack.pop())
        if op is None or op.kind not in MOVING | {"gather"}:
            return False
        stack += [t for t in op.operands if ids[t] not in known]
    return True


def of_mask(op: Op, kind: str, words: str, lifted: Lifted, maker: Mapping[Tensor, Op]) -> Finding:
    """The finding, with the places where the rank's bounds meet what is looked up."""
    events = [Happening(None, o.name, (lines(o) or ("",))[0]) for o in (op, *_bounds(op, lifted, maker))]
    places = dict.fromkeys(f"`{e.name}`" + (f" ({e.source})" if e.source else "") for e in events[1:])
    text = f"{words}: in a run ranks keep rows that were not asked for" + (
        f"; the rank's bounds come in at {', '.join(list(places)[:8])}" if places else "")  # fmt: skip
    return Finding(kind, "error", text, tuple(events), op=op.name, name=op.name, source=lines(op))


def _bounds(op: Op, lifted: Lifted, maker: Mapping[Tensor, Op]) -> list[Op]:
    """Where numbers of the rank meet other values on the way to a mask or to the indices of its read."""
    found: list[Op] = []
    seen, stack = {op}, [op]
    while stack:
        at = stack.pop(0)
        for made in (maker[t] for t in at.operands if t in lifted.mixed and t in maker):
            if made not in seen:
                seen.add(made)
                stack.append(made)
                if not lifted.ranked.isdisjoint(made.operands):
                    found.append(made)
                found += [o for t in made.operands if (o := maker.get(t)) and o.kind == "compare" and t in lifted.held]
    return found
