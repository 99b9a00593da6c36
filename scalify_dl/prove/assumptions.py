"""Assumptions of a run, and the file of those that a team has agreed to (`--accept`).

The file is YAML (so JSON too): a list of mappings with any of the keys `tensor`, `text`, `why`, each a text or a glob;
a saved `--json` report serves as it is. An assumption is accepted when all keys of some entry match it:

    - {tensor: "p*", why: shape}
    - {text: "indices are in [0, 128256)"}
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError

from .verdict import Assumption

_KEYS = ("tensor", "text", "why")
_IGNORED = ("accepted", "label", "words")
_HINT = "copy entries from `assumptions` of a --json report"


@dataclass(frozen=True)
class Accepted:
    """The agreed assumptions; by default none."""

    entries: tuple[dict[str, str], ...] = ()

    @classmethod
    def load(cls, path: Path) -> Accepted:
        """Read the file; InputError names the entry that is not understood."""
        from scalify_dl import yaml_text  # proofs start without

        content: Any = yaml_text.load(path, "the accepted assumptions", _HINT)
        if isinstance(content, dict) and isinstance(content.get("sets"), list):  # of several pairs
            reports = [one for one in content["sets"] if isinstance(one, dict)]
            content = [entry for one in reports for entry in one.get("assumptions") or []]
        elif isinstance(content, dict):
            content = content.get("assumptions")
        if not isinstance(content, list):
            raise InputError("no list of assumptions", file=path, expected="a list of mappings", hint=_HINT)
        entries = []
        for i, entry in enumerate(content, 1):
            wrong = not isinstance(entry, dict) or not entry or set(entry) - {*_KEYS, *_IGNORED}
            if wrong or not set(entry) & {*_KEYS}:
                raise InputError(
                    f"entry {i} is not an assumption: {entry!r}",
                    file=path,
                    expected="a mapping with some of the keys tensor, text, why",
                    hint=_HINT,
                )
            for key, value in entry.items():
                if key in _KEYS and not isinstance(value, str) and (key != "tensor" or type(value) is not int):
                    raise InputError(f"`{key}` of entry {i} is {value!r}", file=path, expected="a text", hint=_HINT)
            entries.append({k: str(v) for k, v in entry.items() if k in _KEYS})
        return cls(tuple(entries))

    def mark(self, assumption: Assumption) -> Assumption:
        """The assumption, marked as accepted if some entry matches it."""
        has = {"tensor": assumption.tensor, "text": assumption.text, "why": assumption.why}
        fits = any(all(has[k] == v or fnmatchcase(has[k], v) for k, v in e.items()) for e in self.entries)
        return replace(assumption, accepted=fits)
