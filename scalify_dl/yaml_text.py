"""YAML files that people write: read as nodes with their places, or as plain values. What no such file has a use for
(deep nesting, aliases, bytes that are no text) is bad input with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from scalify_dl.errors import InputError

DEPTH_LIMIT = 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(path: str | Path, what: str) -> str:
    """The text of a file; `what` it is, for messages: `the relations file`."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise InputError(f"{what} is not UTF-8 text", file=path) from None
        raise InputError(f"cannot read {what}: {getattr(error, 'strerror', None) or error}", file=path) from None


def compose(text: str, what: str, file: str | Path | None = None, hint: str | None = None) -> Any:
    """The root node of a text; None where it is empty."""
    try:
        _check_nesting(text, what, file)
        return yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise InputError(f"not YAML: {error.problem}", file=file, line=line, column=column, hint=hint) from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"not YAML: {str(error).splitlines()[0]}", file=file, hint=hint) from None


def load(path: Path, what: str, hint: str | None = None) -> Any:
    """The values of a file."""
    node = compose(read(path, what), what, path, hint)
    if node is None:
        return None
    try:
        constructor = yaml.constructor.SafeConstructor()
        return constructor.construct_document(node)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise InputError(f"not YAML: {str(error).splitlines()[0]}", file=path, hint=hint) from None


def _check_nesting(text: str, what: str, file: str | Path | None) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_LIMIT or isinstance(event, yaml.AliasEvent):
            alias = "an alias, which is not read: write out what it stands for"
            found = alias if isinstance(event, yaml.AliasEvent) else f"nesting deeper than {DEPTH_LIMIT}"
            mark = event.start_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            raise InputError(f"{what.removeprefix('the ')}: {found}", file=file, line=line, column=column)
