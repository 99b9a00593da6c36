"""Integer types of the vocabulary and the numbers that they hold."""

from __future__ import annotations


def is_integer(dtype: str) -> bool:
    """Whether it is an integer type, of any width; truth values are none."""
    return dtype[0] in "su" and dtype[1:].isdigit()


def integers_of(dtype: str) -> range:
    """The numbers of an integer type: `s8` holds -128 … 127."""
    bits = int(dtype[1:])
    return range(1 << bits) if dtype[0] == "u" else range(-(1 << bits - 1), 1 << bits - 1)
