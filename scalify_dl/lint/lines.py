"""Where an op stands in the user's files."""

from __future__ import annotations

from scalify_dl.ir.graph import Op
from scalify_dl.prove.verdict import Frame
from scalify_dl.prove.view import user_frames


def lines(op: Op) -> tuple[str, ...]:
    """The user's frames of an op, innermost first."""
    return tuple(f.said for f in user_frames(Frame(f.file, f.line, f.function) for f in op.source))
