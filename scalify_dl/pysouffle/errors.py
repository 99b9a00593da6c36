"""Errors of the engine. The C++ side raises them by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scalify_dl.errors import InputError, from_here


class Diagnostic(NamedTuple):
    """One message about a program or a facts file. `text` is the whole of it: place, source line, caret, hint."""

    severity: str  # "error" or "warning"
    file: str
    line: int  # 1-based, 0: unknown
    column: int
    message: str
    source_line: str
    hint: str
    text: str

    def __str__(self) -> str:
        return self.text


class SourceError(InputError):
    """A program or facts file that cannot be used. `diagnostics` lists everything that was found in one go."""

    def __init__(self, diagnostics: Sequence[Sequence[object]]) -> None:
        self.diagnostics = [Diagnostic(*d) for d in diagnostics]  # type: ignore[arg-type]
        first = self.diagnostics[0]
        super().__init__(
            first.message, file=first.file or None, line=first.line, column=first.column, hint=first.hint or None
        )

    def render(self) -> str:
        """All diagnostics, as they are shown."""
        return "\n".join(d.text.replace(d.file, from_here(d.file), 1) for d in self.diagnostics)


class EvaluationError(InputError):
    """A run that could not go on: a guard (timeout, tuples, memory), division by zero, overflow, a failing functor."""

    def __init__(self, message: str, **_: object) -> None:
        super().__init__(message)
