"""The user's source line of an op, and those that it was called from; of an op of the backward pass, that of the op
which it differentiates."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType

import torch

from .dumps import short_place

__all__ = ["BACKWARD", "Lines", "Place", "comments"]

OWN = (str(Path(torch.__file__).parent), str(Path(__file__).parent), str(Path(__file__).parents[2] / "api"), "<")
"""Files that are no user's."""

ENGINE = "_engine_run_backward"
"""The frame from which autograd's engine runs: what stands outside of it did not ask for this op."""

RUNNER = "record_step"
"""The function of ours that calls the step: what stands outside of it is not of the program."""

MOST = 6
"""So many lines that an op was called from are written."""

BACKWARD = ", backward"
"""Behind the function of a line whose op is differentiated here."""

Place = tuple[tuple[str, int, str], ...]
"""File, line and function: the innermost frame of the user's, and those that called it."""


class Lines:
    """Remembers where every node of autograd was made."""

    def __init__(self) -> None:
        self.made: dict[int, Place | None] = {}

    def place(self) -> Place | None:
        """Where the op that runs now is called."""
        found, backward = _frames(sys._getframe(2))
        node = torch._C._current_autograd_node()
        if node is None:
            self.made.setdefault(torch._C._autograd._get_sequence_nr() - 1, found)
        elif backward:
            made = self.made.get(node._sequence_nr(), found)
            return made and tuple((file, line, f"{function}{BACKWARD}") for file, line, function in made)
        return found


def comments(place: Place) -> list[str]:
    """The comments before statements of a line."""
    (file, line, function), *outer = place
    code = linecache.getline(file, line).strip()
    return [
        f"# File: {short_place(file)}:{line} in {function}, code: {code}",
        *(f"# called from {short_place(file)}:{line} in {function}" for file, line, function in outer),
    ]


def _frames(frame: FrameType | None) -> tuple[Place | None, bool]:
    """The frames of the user, and whether autograd's engine stands between the innermost one and the op."""
    backward = False
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) <= MOST:
        code = frame.f_code
        if code.co_name == RUNNER and code.co_filename.startswith(OWN[1]):
            break
        backward = backward or (not found and code.co_name == ENGINE)
        if not code.co_filename.startswith(OWN):
            found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(found) or None, backward
