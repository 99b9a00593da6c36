"""Numeric meanings of calls of somebody's own, from a Python file."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Iterable
from pathlib import Path

from scalify_dl.errors import InputError

from .base import MEANINGS


def load_meanings(files: Iterable[Path]) -> None:
    """Runs Python files, which register meanings with `@meaning("custom:…")`.

    Raises InputError where a file is not there, fails (with the line), registers nothing, or gives a kind of the
    vocabulary another meaning.
    """
    for file in files:
        if not file.is_file():
            raise InputError("no such file of meanings", file=file, expected="a Python file")
        before = dict(MEANINGS)
        try:
            runpy.run_path(str(file))
        except (Exception, SystemExit) as error:
            lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
            line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else 0
            raise InputError(f"{type(error).__name__}: {error}", file=file, line=line or 0) from None
        fresh = [kind for kind in MEANINGS if MEANINGS[kind] is not before.get(kind)]
        taken = [kind for kind in fresh if kind in before and not kind.startswith(("custom:", "unknown:"))]
        if taken:
            MEANINGS.update(before)
            raise InputError(
                f"another meaning for `{taken[0]}`, a kind of the vocabulary", file=file,
                expected="kinds that begin with `custom:` or `unknown:`",
            )  # fmt: skip
        if not fresh:
            raise InputError(
                "registers no meaning", file=file, expected='a function under @meaning("custom:…")',
                hint="from scalify_dl.oracle.meaning import meaning",
            )  # fmt: skip
