"""Relations as JSON: an array of rows, each an array of its values or, as objects, its values by attribute."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.pysouffle.schema import Relation
from scalify_dl.pysouffle.values import Row


def check(relation: Relation, objects: bool) -> None:
    """Refuse what has no form in JSON."""
    refused = ("adt", "record") if objects else ("adt",)
    for attribute in relation.attributes:
        if attribute.kind in refused:
            raise InputError(
                f"relation {relation.name} cannot be in JSON"
                f"{' as objects' if objects else ''}: column {attribute.name} has a {attribute.kind} type",
                hint="use IO=file" if attribute.kind == "adt" else 'leave out format="object", or use IO=file',
            )


def read(relation: Relation, data: bytes, name: str) -> list[Row]:
    """The rows of a text; all are arrays or all are objects, as the first one is."""
    try:
        rows = json.loads(data)
    except ValueError as error:
        raise InputError(f"cannot read the facts of relation {relation.name}: {error}", file=name) from None
    kind = dict if isinstance(rows, list) and rows and isinstance(rows[0], dict) else list
    check(relation, kind is dict)
    if not isinstance(rows, list) or not all(isinstance(row, kind) for row in rows):
        raise InputError(
            f"cannot read the facts of relation {relation.name}: expected an array of arrays, or one of objects",
            file=name,
        )
    names = [attribute.name for attribute in relation.attributes]
    for number, row in enumerate(rows, 1):
        fits = set(row) == set(names) if isinstance(row, dict) else len(row) == len(names)
        if not fits:
            raise InputError(
                f"row {number} of relation {relation.name} has other columns than {', '.join(names)}", file=name
            )
    return [tuple(map(_value, (row[n] for n in names) if isinstance(row, dict) else row)) for row in rows]


def _value(found: Any) -> Any:
    """Records are arrays, `nil` is null."""
    return tuple(map(_value, found)) if isinstance(found, list) else found


def text(relation: Relation, rows: Sequence[Row], objects: bool) -> bytes:
    """The rows one to a line."""
    check(relation, objects)
    names = [_text(attribute.name) + ": " for attribute in relation.attributes]
    if objects:
        lines = ["{" + ", ".join(n + _text(v) for n, v in zip(names, row, strict=True)) + "}" for row in rows]
    else:
        lines = [_text(row) for row in rows]
    return ("[" + ",\n".join(lines) + "]\n").encode("utf-8", "surrogateescape")


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, float) and math.isfinite(value):
        return repr(value).removesuffix(".0")
    return json.dumps(value, ensure_ascii=False)
