"""Loops around one store: what may be run for all iterations at once, before the store itself is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scalify_dl.readers.tir.syntax import Apply, Block, Buffer, Expr, If, Load, Loop, Statement, Store


def loads(x: Expr, buffer: Buffer) -> Iterator[Load]:
    """Where an expression reads a buffer."""
    if isinstance(x, Load):
        if x.buffer is buffer:
            yield x
        for index in x.indices:
            yield from loads(index, buffer)
    elif isinstance(x, Apply):
        for argument in x.args:
            yield from loads(argument, buffer)


def one_store(body: Sequence[Statement]) -> bool:
    """Whether there is one store below, in loops, conditions and a block that is no more than that.

    Neither its place nor whether it happens may depend on what it writes.
    """
    around: list[Expr] = []
    buffer = _only(body, around)
    return buffer is not None and not any(True for x in around for _ in loads(x, buffer))


def _only(body: Sequence[Statement], around: list[Expr]) -> Buffer | None:
    if len(body) != 1:
        return None
    match body[0]:
        case Store(buffer=buffer, indices=indices):
            around += indices
            return buffer
        case Loop(start=start, extent=extent, body=inner):
            around += (start, extent)
            return _only(inner, around)
        case Block(axes=axes, conditions=conditions, init=first, body=inner):
            if len(first) > 1 or (first and not isinstance(first[0], Store)) or not isinstance(inner[0], Store):
                return None
            around += [axis.value for axis in axes] + conditions
            return _only(inner, around)
        case If(condition=condition, then=inner, otherwise=other):
            around.append(condition)
            return None if other else _only(inner, around)
    return None
