"""The line of a user's file that asked for an op."""

from __future__ import annotations

import os
import sys
from functools import cache
from types import FrameType

from .graph import Frame

BUILDERS: set[str] = set()
"""Files whose functions write ops for others: the line of an op is that of who calls them."""


def caller() -> list[Frame]:
    """The line that asked for the op, outside of the files that write ops for others."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _absolute(frame.f_code.co_filename) in BUILDERS:
        frame = frame.f_back
    if frame is None:
        return []
    path = _absolute(frame.f_code.co_filename)
    return [Frame(_seen_from(os.getcwd(), path), frame.f_lineno, frame.f_code.co_name)]


@cache
def _absolute(path: str) -> str:
    return os.path.abspath(path)


@cache
def _seen_from(here: str, path: str) -> str:
    inside = os.path.relpath(path, here)
    return path if inside.startswith("..") else inside
