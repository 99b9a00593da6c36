"""How formats are told: their readers are only imported for files that they read."""

from __future__ import annotations

import re

ASSIGNMENT = "BufferAssignment:"
_RUN = re.compile(r'\s*\{\s*"format":\s*"scalify-dl run"')
_FX = re.compile(r"^\s*class\s[^\n]*Module[\s\S]*?^\s*def forward\(", re.MULTILINE)


def looks_like_hlo(text: str) -> bool:
    """Does a module's header come first?"""
    first = next((line for line in text[:4096].splitlines() if line.strip() and line[:2] != "//"), "")
    return first.startswith("HloModule")


def is_scheduled(text: str) -> bool:
    """Whether the text of an HLO module is in the order of issue."""
    return looks_like_hlo(text) and "is_scheduled=true" in text[: text.find("\n", text.find("HloModule"))]


def looks_like_assignment(text: str) -> bool:
    """Does the dump's first word stand first?"""
    return text.startswith(ASSIGNMENT)


def looks_like_fx(text: str) -> bool:
    """Is there a module with a `forward`?"""
    return _FX.search(text, 0, 1_000_000) is not None


def looks_like_run(text: str) -> bool:
    """Does the format of recorded runs come first?"""
    return _RUN.match(text[:200]) is not None


def looks_like_msccl(text: str) -> bool:
    """Does an `<algo` element come first?"""
    return "<algo" in text[:2000] and text.lstrip()[:1] == "<"
