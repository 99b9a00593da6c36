"""The captures of a family: a family file, or what the command line says; each becomes facts.

symbols:
  tp:                       # a mesh axis
  batch: tokens:0           # dim 0 of the baseline input `tokens`
relate: relations.yaml      # for every capture that does not name its own
captures:
  - {base: base-2.mlir, dist: dist-2.mlir, mesh: tp=2}
  - {base: base-4.mlir, dist: dist-4.mlir, mesh: tp=4}
  - {facts: exported-8}     # or what `dlverify export` wrote
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scalify_dl import yaml_text
from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh

from .capture import Capture
from .symbols import parse_symbols

_KEYS = ("base", "dist", "mesh", "relate", "facts")
_EXPECTED = "base, dist and mesh, perhaps relate; or facts"


@dataclass(frozen=True)
class FamilyFile:
    """A family file."""

    symbols: dict[str, str | None]
    captures: tuple[Capture, ...]


def parse_sample(text: str, relate: Path | None) -> Capture:
    """Reads `BASE DIST [DIST …] tp=4,dp=2 [RELATE.yaml]`, as a shell splits words; `relate` where none is named."""
    words = shlex.split(text)
    meshes = [i for i, word in enumerate(words) if "=" in word and not Path(word).exists()]
    if len(meshes) != 1 or meshes[0] < 2 or len(words) - meshes[0] > 2:
        raise InputError(f"--sample: `{text}`", expected="'BASE DIST tp=4', perhaps with a relations file at the end")
    at = meshes[0]
    own = Path(words[at + 1]) if len(words) > at + 1 else relate
    return Capture(Path(words[0]), tuple(map(Path, words[1:at])), words[at], own)


def load_family(file: Path) -> FamilyFile:
    """Reads a family file; places in it are relative to its folder. InputError with the place of what is wrong."""
    root = yaml_text.compose(yaml_text.read(file, "the family file"), "the family file", file)
    top = _mapping(root, file, ("symbols", "captures", "relate"), "symbols, captures, perhaps relate")
    for key in ("symbols", "captures"):
        if key not in top:
            raise InputError(f"no `{key}:`", file=file, expected="symbols and captures")
    relate = _path(top["relate"], file) if "relate" in top else None
    symbols: dict[str, str | None] = {}
    for key, node in _mapping(top["symbols"], file, None, "{tp: , batch: tokens:0}, a mesh axis alone").items():
        place = _text(node, file)
        try:
            symbols |= parse_symbols(key if place in ("", "null", "~") else f"{key}={place}")
        except InputError as error:
            raise _wrong(node, file, error.message.removeprefix("--symbolic: "), error.expected) from None
    listed = top["captures"]
    if not isinstance(listed, yaml.SequenceNode) or not listed.value:
        expected = "a list of captures, each with " + _EXPECTED
        raise _wrong(listed, file, "captures is no list, or has nothing in it", expected)
    return FamilyFile(symbols, tuple(_capture(node, file, relate) for node in listed.value))


def _capture(node: yaml.Node, file: Path, relate: Path | None) -> Capture:
    keys = _mapping(node, file, _KEYS, _EXPECTED)
    if set(keys) == {"facts"}:
        return Capture(facts=_path(keys["facts"], file))
    if "facts" in keys or not {"base", "dist", "mesh"} <= set(keys):
        raise _wrong(node, file, f"a capture with {', '.join(keys)}", _EXPECTED)
    try:
        Mesh.parse(_text(keys["mesh"], file))
    except InputError as error:
        raise _wrong(keys["mesh"], file, error.message.removeprefix("--"), error.expected) from None
    dist = keys["dist"]
    many: Sequence[yaml.Node] = dist.value if isinstance(dist, yaml.SequenceNode) else [dist]
    return Capture(
        _path(keys["base"], file),
        tuple(_path(one, file) for one in many),
        _text(keys["mesh"], file),
        _path(keys["relate"], file) if "relate" in keys else relate,
    )


def _mapping(node: Any, file: Path, allowed: Sequence[str] | None, expected: str) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise _wrong(node, file, "no keys and values", expected)
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = _text(key, file)
        if (allowed is not None and name not in allowed) or name in found:
            raise _wrong(key, file, f"`{name}` {'twice' if name in found else 'is no key'}", expected)
        found[name] = value
    return found


def _text(node: yaml.Node, file: Path) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _wrong(node, file, "a list or mapping", "a text")
    return str(node.value)


def _path(node: yaml.Node, file: Path) -> Path:
    return file.parent / _text(node, file)


def _wrong(node: Any, file: Path, message: str, expected: str | None) -> InputError:
    mark = node.start_mark if node is not None else None
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    return InputError(message, file=file, line=line, column=column, expected=expected)
