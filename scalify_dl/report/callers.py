"""Which line of a stack leads: not that of code which does right where something else calls it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from scalify_dl.prove.verdict import Frame, RootCause
from scalify_dl.prove.view import View, user_frames

Stack = tuple[Frame, ...]


def frames_to_blame(view: View, cause: RootCause, right: set[str], *, handed: int) -> Stack:
    """The frames of a cause without those of functions that others call, or hand something else, and that do right
    then. `handed`: so many functions of both programs may have been handed what is wrong with the op; of a collective
    that it lacks none was: the baseline needs none.
    """
    frames = cause.source
    if len(frames) < 2:
        return frames
    dist = {graph for graph, role in view.facts("graph") if role == "dist"}
    graphs = {op: graph for op, graph, kind in view.facts("op") if kind == cause.kind and op != cause.op}
    made = {op for op, _, tensor in view.facts("result") if tensor in right}
    of_dist = {op for op, graph in graphs.items() if graph in dist} & made
    of_base = {op for op, graph in graphs.items() if graph not in dist}
    shared = [_common(frames, stack) for stack in _stacks(view, of_dist).values()]
    shared += [min(handed, _common(frames, stack)) for stack in _stacks(view, of_base).values()]
    if any(shared):
        return frames[max(shared):]
    return frames[1:] if frames in _stacks(view, of_dist).values() and _does_only(view, cause) else frames


def _common(frames: Stack, others: Stack) -> int:
    """So many functions, innermost first, do the same for another caller; none where the caller is the same."""
    return next((n for n, (one, other) in enumerate(zip(frames, others, strict=False)) if one != other), 0)


def _does_only(view: View, cause: RootCause) -> bool:
    """Whether the innermost function does nothing but an op of this kind: what it is handed makes the difference."""
    inner, *outer = cause.source
    every = _stacks(view, {op for op, _, _ in view.facts("op")})
    kinds = {op: kind for op, _, kind in view.facts("op")}
    inside = {
        op for op, stack in every.items()
        if list(stack[1:]) == outer and (stack[0].file, stack[0].function) == (inner.file, inner.function)
    }  # fmt: skip
    return inner.function != outer[0].function and {kinds[op] for op in inside} == {cause.kind}


def _stacks(view: View, ops: Iterable[str]) -> dict[str, Stack]:
    """The user's frames of ops, innermost first."""
    rows: dict[str, list[tuple[int, Frame]]] = defaultdict(list)
    for op, pos, *frame in view.facts("source"):
        if op in ops:
            rows[op].append((pos, Frame(*frame)))
    return {op: user_frames(frame for _, frame in sorted(stack, key=lambda p: p[0])) for op, stack in rows.items()}
