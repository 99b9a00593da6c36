"""What a program raises while it is captured: bad input, at the program's own line."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalify_dl.errors import InputError

__all__ = ["is_the_programs", "of_the_program", "told"]

OWN, LIBRARY = str(Path(__file__).parents[1]), sysconfig.get_path("stdlib")
FRAMEWORKS = ("torch", "jax", "jaxlib")
"""Frames of these, of ours and of Python's own library say nothing of the program."""


@contextmanager
def told(who: str) -> Iterator[None]:
    """Any error of the program that runs inside is an InputError that says whose it is."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise of_the_program(error, who) from None


def of_the_program(error: Exception, who: str) -> InputError:
    """An error that a program raised, at its innermost own line; the rest of its message, and how it came there, are a
    note."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_the_programs(frame.filename)]
    said, *more = str(error).strip().splitlines() or [""]
    message = f"{who} raises {type(error).__name__}: {said[:500]}".rstrip(": ")
    last = frames[-1] if frames else None
    found = InputError(message, file=last and last.filename, line=(last and last.lineno) or 0)
    note = "\n".join(line[:500] for line in more[:20]) + "\n" + "".join(traceback.format_list(frames))
    if note.strip():
        found.add_note(note.strip("\n"))
    return found


def is_the_programs(file: str) -> bool:
    """Whether a file is neither ours nor a framework's nor Python's."""
    homes = [module.__file__ for name in FRAMEWORKS if (module := sys.modules.get(name)) and module.__file__]
    if file.startswith((OWN, "<", *(str(Path(home).parent) for home in homes))):
        return False
    return "site-packages" in file or not file.startswith(LIBRARY)
