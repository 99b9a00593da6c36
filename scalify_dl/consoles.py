"""Where reports are printed: rich's console, which tells of a closed pipe as any other write does."""

from __future__ import annotations

import errno
import os
from typing import Any

import rich.console


class Console(rich.console.Console):
    """Rich itself would end the process with status 1, which reads as REFUTED, and print bold under NO_COLOR."""

    def __init__(self, **more: Any) -> None:
        plain = {"color_system": None} if os.environ.get("NO_COLOR") else {}
        super().__init__(**{**plain, **more})

    def on_broken_pipe(self) -> None:
        """What nobody reads any more is an output that cannot be written."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
