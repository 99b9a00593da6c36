"""The user's source line of an op; of an op of the backward pass, that of the op which it differentiates."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType

import torch

from .dumps import short_place

__all__ = ["Lines", "Place", "comment"]

OWN = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<")
"""Files that are no user's."""

ENGINE = "_engine_run_backward"
"""The frame from which autograd's engine runs: what stands outside of it did not ask for this op."""

Place = tuple[str, int, str]


class Lines:
    """Remembers at which line every node of autograd was made."""

    def __init__(self) -> None:
        self.made: dict[int, Place | None] = {}

    def place(self) -> Place | None:
        """File, line and function of the op that runs now."""
        found, backward = _frame(sys._getframe(2))
        node = torch._C._current_autograd_node()
        if node is None:
            self.made.setdefault(torch._C._autograd._get_sequence_nr() - 1, found)
        elif backward:
            return self.made.get(node._sequence_nr(), found)
        return found


def comment(place: Place) -> str:
    """The comment before statements of a line."""
    file, line, function = place
    return f"# File: {short_place(file)}:{line} in {function}, code: {linecache.getline(file, line).strip()}"


def _frame(frame: FrameType | None) -> tuple[Place | None, bool]:
    """The innermost frame of the user, and whether autograd's engine stands between it and the op."""
    backward = False
    while frame is not None:
        code = frame.f_code
        backward = backward or code.co_name == ENGINE
        if not code.co_filename.startswith(OWN):
            return (code.co_filename, frame.f_lineno, code.co_name), backward
        frame = frame.f_back
    return None, backward
