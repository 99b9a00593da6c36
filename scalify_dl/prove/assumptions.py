"""Assumptions of a run, and the file of those that a team has agreed to (`--accept`).

The file is YAML (so JSON too): a list of mappings with any of the keys `tensor`, `text`, `why`, each a text or a glob;
a saved `--json` report serves as it is. An assumption is accepted when all keys of some entry match it, in the words of
`--json` or in those that reports print:

    - {tensor: "p*", why: shape}
    - {text: "indices are in [0, 128256)"}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError

from .verdict import Assumption

_KEYS = ("tensor", "text", "why")
_IGNORED = ("accepted", "label", "words")
_NAMED = 5
"""Entries and assumptions that are named in a line of their own."""
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
        return replace(assumption, accepted=any(_fits(entry, assumption) for entry in self.entries))

    def idle(self, assumptions: Sequence[Assumption]) -> list[str]:
        """The entries that match none of these assumptions, as they are written."""
        left = [e for e in self.entries if not any(_fits(e, a) for a in assumptions)]
        return [f"{{{', '.join(f'{k}: {v}' for k, v in e.items())}}}" for e in left]


def _fits(entry: dict[str, str], a: Assumption) -> bool:
    has = {"tensor": (a.tensor, a.label), "text": (a.text, a.words, a.said), "why": (a.why,)}
    return all(any(name == v or fnmatchcase(name, v) for name in has[k]) for k, v in entry.items())


def matching_nothing(entries: Sequence[str], file: Path) -> str:
    """What is said of idle entries."""
    many = f"1 entry of {file} matches" if len(entries) == 1 else f"{len(entries)} entries of {file} match"
    more = ", …" if len(entries) > _NAMED else ""
    return f"{many} no assumption: {', '.join(entries[:_NAMED])}{more}"


def not_accepted(assumptions: Sequence[Assumption], file: Path | None) -> list[str]:
    """What is said where these would have to be accepted: each in words, and as an entry to paste."""
    many = "1 assumption is" if len(assumptions) == 1 else f"{len(assumptions)} assumptions are"
    lines = [f"proved, but strict: {many} not accepted"]
    lines += [f"not accepted: {a.said} ({a.why})" for a in assumptions[:_NAMED]]
    if len(assumptions) > _NAMED:
        return [*lines, f"and {len(assumptions) - _NAMED} more: what --json prints, once read, serves as --accept F"]
    entries = [{"tensor": a.tensor, "text": a.text, "why": a.why} for a in assumptions]
    where = f"in {file}" if file else "in a file for --accept"
    return [*lines, *(f"to accept it, {where}: - {json.dumps(entry, ensure_ascii=False)}" for entry in entries)]
