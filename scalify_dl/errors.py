"""Errors that a person caused and can mend: bad input, told with its place and the way out."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path


class InputError(Exception):
    """Bad input (exit status 2).

    `message` says what is wrong; `file`, `line`, `column` (1-based, 0 = unknown) say where; `expected` what would have
    been right; `hint` how to mend it. `str(error)` is the whole text, first line `file:line:column: message`.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | Path | None = None,
        line: int = 0,
        column: int = 0,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.file = None if file is None else str(file)
        self.line = line
        self.column = column
        self.expected = expected
        self.hint = hint
        super().__init__(self.render())

    def render(self) -> str:
        """The error as shown to people: place, message, what was expected, how to fix it."""
        place = from_here(self.file or "")
        if self.line:
            place += f":{self.line}" if place else f"line {self.line}"
            if self.column:
                place += f":{self.column}"
        lines = [f"{place}: {self.message}" if place else self.message]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def located(self, file: str | Path | None, line: int = 0, column: int = 0) -> InputError:
        """The same error with the place filled in where it was not known."""
        if self.file is None and file is not None:
            return type(self)(
                self.message,
                file=file,
                line=self.line or line,
                column=self.column or column,
                expected=self.expected,
                hint=self.hint,
            )
        return self

    def within(self, part: str, file: str | Path) -> InputError:
        """The same error, told with the part of a file that asked for this."""
        if self.file is None:
            message = f"{part}: {self.message.removeprefix('--')}"
            return type(self)(message, file=file, expected=self.expected, hint=self.hint)
        if self.hint is not None or type(self) is not InputError:
            return self
        hint = f"{from_here(str(file))} asks for it: {part}"
        return InputError(
            self.message, file=self.file, line=self.line, column=self.column, expected=self.expected, hint=hint
        )


def from_here(file: str) -> str:
    """A file as messages name it: relative where it lies below this folder."""
    try:
        return os.path.relpath(file) if os.path.isabs(file) and Path(file).is_relative_to(Path.cwd()) else file
    except OSError:  # this folder is gone
        return file


def in_short(items: Sequence[object]) -> str:
    """A list for a message; of a long one the beginning, and how many there are."""
    text = str(list(items))
    return text if len(text) <= 200 else f"{text[:80]}… ({len(items):,} of them)"


def one_of(word: str, words: Collection[str]) -> dict[str, str | None]:
    """`expected` and `hint` of an error about a word that is not among some."""
    from difflib import get_close_matches  # where something is wrong

    near = get_close_matches(word, words, 1)
    return {"expected": f"one of {', '.join(words)}", "hint": f"did you mean `{near[0]}`?" if near else None}
