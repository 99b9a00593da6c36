"""MLIR locations → source stacks: JAX nests a name (the op's path), call sites and named file positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalify_dl.ir.graph import Frame

if TYPE_CHECKING:
    from jaxlib.mlir import ir

DUMP = "-"
"""The file name that the parser gives to positions in the module's own text."""
DEPTH_LIMIT = 200
TRANSPOSED = "transpose("
"""In the path of an op that JAX made when it differentiated what stands at its place."""

Stack = tuple[Frame, ...]


def stack(location: ir.Location) -> Stack:
    """Frames of a location, innermost first; empty where it only tells a place in the dump."""
    from jaxlib.mlir import ir

    frames: list[Frame] = []
    backward = False
    todo: list[tuple[ir.Location, str]] = [(location, "")]
    while todo and len(frames) < DEPTH_LIMIT:
        here, function = todo.pop()
        if isinstance(here, ir.FileLineColLoc):
            if here.filename != DUMP:
                frames.append(Frame(here.filename, here.start_line, function))
        elif isinstance(here, ir.NameLoc):
            backward = backward or TRANSPOSED in here.name_str
            todo.append((here.child_loc, here.name_str))
        elif isinstance(here, ir.CallSiteLoc):
            todo += [(here.caller, function), (here.callee, function)]
        elif isinstance(here, ir.FusedLoc):
            first = next(iter(here.locations), None)
            if first is not None:
                todo.append(
                    (ir.Location.from_attr(first.attr) if not isinstance(first, ir.Location) else first, function)
                )
    return tuple(frame.backward for frame in frames) if backward else tuple(frames)


def position(location: ir.Location) -> tuple[int, int]:
    """Line and column in the dump, (0, 0) where the module carries source locations instead."""
    from jaxlib.mlir import ir

    if isinstance(location, ir.FileLineColLoc) and location.filename == DUMP:
        return location.start_line, location.start_col
    return 0, 0


def argument_name(location: ir.Location) -> str | None:
    """The name that JAX gives to a function argument (`params['w']`)."""
    from jaxlib.mlir import ir

    return location.name_str if isinstance(location, ir.NameLoc) else None


def under_call(inner: Stack, call: Stack) -> Stack:
    """The stack of an op of an inlined function: its own frames up to what it shares with the call, then the call's.

    A function traced once and called again carries the stack of its first call below its own frames.
    """
    if not inner:
        return call
    if call and call[0] == call[0].backward:
        inner = tuple(frame.backward for frame in inner)
    shared = 0
    while shared < min(len(inner), len(call)) and inner[-1 - shared].backward == call[-1 - shared].backward:
        shared += 1
    return inner[: len(inner) - shared] + call
