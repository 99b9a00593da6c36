"""Texts of programs as symbols of the fact tables."""

from __future__ import annotations


def escaped(text: str) -> str:
    """A text as one line without control characters, that no other text gives; a plain text as it is."""
    plain = text.isprintable() and "\\" not in text
    return text if plain else text.encode("unicode_escape").decode("ascii")
