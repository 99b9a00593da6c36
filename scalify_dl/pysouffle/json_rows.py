"""Relations as JSON: an array of rows, each an array of its values or, as objects, its values by attribute.

Records are arrays, or objects by field where rows are objects; `nil` is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.pysouffle.schema import Attribute, Relation
from scalify_dl.pysouffle.values import Row

Records = dict[str, list[tuple[str, str, str]]]
"""Record type → its fields: name, type, kind."""


def check(relation: Relation) -> None:
    """Refuse what has no form in JSON."""
    for attribute in relation.attributes:
        if attribute.kind == "adt":
            raise InputError(
                f"relation {relation.name} cannot be in JSON: column {attribute.name} has an adt type",
                hint="use IO=file",
            )


def read(relation: Relation, data: bytes, name: str, records: Records) -> list[Row]:
    """The rows of a text; all are arrays or all are objects, as the first one is."""
    try:
        rows = json.loads(data)
    except ValueError as error:
        raise InputError(f"cannot read the facts of relation {relation.name}: {error}", file=name) from None
    kind = dict if isinstance(rows, list) and rows and isinstance(rows[0], dict) else list
    check(relation)
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
    return [
        tuple(_value(row[a.name] if isinstance(row, dict) else row[n], a, records, name)
              for n, a in enumerate(relation.attributes))
        for row in rows
    ]  # fmt: skip


def _value(found: Any, of: Attribute, records: Records, file: str) -> Any:
    """A value of that type."""
    fields = [Attribute(*field) for field in records.get(of.type, [])]
    if of.kind != "record" or not isinstance(found, list | dict):
        return found
    fits = set(found) == {f.name for f in fields} if isinstance(found, dict) else len(found) == len(fields)
    if not fits:
        wanted = ", ".join(f.name for f in fields) or "none"
        raise InputError(f"a record of type {of.type} has other fields than {wanted}", file=file)
    values = [found[f.name] for f in fields] if isinstance(found, dict) else found
    return tuple(_value(v, f, records, file) for v, f in zip(values, fields, strict=True))


def text(relation: Relation, rows: Sequence[Row], objects: bool, records: Records) -> bytes:
    """The rows one to a line."""
    check(relation)
    lines = [_object(row, relation.attributes, records) if objects else _text(row) for row in rows]
    return ("[" + ",\n".join(lines) + "]\n").encode("utf-8", "surrogateescape")


def _object(values: Row, columns: Iterable[Attribute], records: Records) -> str:
    words = []
    for value, of in zip(values, columns, strict=True):
        inner = isinstance(value, tuple) and of.kind == "record"
        said = _object(value, [Attribute(*f) for f in records[of.type]], records) if inner else _text(value)
        words.append(f"{_text(of.name)}: {said}")
    return "{" + ", ".join(words) + "}"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, float) and math.isfinite(value):
        return repr(value).removesuffix(".0")
    return json.dumps(value, ensure_ascii=False)
