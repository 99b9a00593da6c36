"""Sweep files: runs by name, each a pair of programs or a facts directory, perhaps once for each of some values.

    timeout: 120                                  # for all runs: strict, accept, rules, timeout, max_memory
    runs:
      moe: {facts: moe/facts, expect: UNKNOWN}
      "{model} tp={tp}":
        over: {model: [llama, qwen2], tp: [2, 4]} # four runs
        base: "{model}.base.fx.txt"
        dist: "{model}.tp{tp}.r*.fx.txt"          # a file, a glob, or a list of them
        mesh: "tp={tp}"

The keys of a run are those of a pair in `dlverify.toml` (`project.py`). Paths are relative to the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from scalify_dl import yaml_text
from scalify_dl.errors import InputError
from scalify_dl.project import SHARED, Pair, checked, named_pair

_WHAT = "the sweep file"
_HINT = "docs/sweep.md shows one"


def load(file: Path) -> dict[str, Pair]:
    """The runs of a sweep file by name; InputError says which key is not understood."""
    node = yaml_text.compose(yaml_text.read(file, _WHAT), _WHAT, file, _HINT)
    _no_key_twice(node, file)
    content = yaml_text.load(file, _WHAT, _HINT)
    shared = checked({} if content is None else content, {**SHARED, "runs": (dict,)}, file, "")
    listed = shared.pop("runs", {})
    if not listed:
        raise InputError("no runs are listed", file=file, expected="`runs:`, a mapping of names to pairs", hint=_HINT)
    pairs: dict[str, Pair] = {}
    for pattern, said in listed.items():
        for name, one in _each(str(pattern), said, file):
            if name in pairs:
                raise InputError(
                    f"two runs are called `{name}`", file=file, hint="name every value of `over` in the name: {tp}"
                )
            pairs[name] = named_pair(name, one, shared, file, "runs.")
    return pairs


def _each(pattern: str, said: Any, file: Path) -> Iterator[tuple[str, Any]]:
    """A run once for each choice of the values that it is `over`."""
    if not isinstance(said, dict) or "over" not in said:
        yield pattern, said
        return
    over = said["over"]
    if not isinstance(over, dict) or not all(isinstance(values, list) and values for values in over.values()):
        raise InputError(f"`over` in [runs.{pattern}] is {over!r}", file=file, expected="lists of values by name")
    rest = {key: value for key, value in said.items() if key != "over"}
    for chosen in product(*over.values()):
        values = {str(name): str(value) for name, value in zip(over, chosen, strict=True)}
        yield _filled(pattern, values), _filled(rest, values)


def _filled(said: Any, values: Mapping[str, str]) -> Any:
    """With `{name}` replaced by its value in every text."""
    if isinstance(said, dict):
        return {key: _filled(value, values) for key, value in said.items()}
    if isinstance(said, list):
        return [_filled(value, values) for value in said]
    if isinstance(said, str):
        for name, value in values.items():
            said = said.replace(f"{{{name}}}", value)
    return said


def _no_key_twice(node: Any, file: Path) -> None:
    """InputError for a key that a mapping has twice: one of them would be lost."""
    if node is None or node.id not in ("mapping", "sequence"):
        return
    seen: set[str] = set()
    for item in node.value:
        key, value = item if node.id == "mapping" else (None, item)
        if key is not None and key.id == "scalar":
            if key.value in seen:
                raise InputError(
                    f"`{key.value}` stands here twice", file=file, line=key.start_mark.line + 1, hint="rename one"
                )
            seen.add(key.value)
        _no_key_twice(value, file)
