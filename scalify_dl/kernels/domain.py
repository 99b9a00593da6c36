"""What elements may be: numbers, or terms. A machine moves arrays of them about and asks a domain to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


class Undecided(Exception):
    """The text asks for something that is not followed; the message says what, with its line where it is known."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Cells:
    """An array of elements of a domain; plain arrays are whole numbers and truths that are known."""

    array: Array


class Domain(Protocol):
    """What computes elements. Arrays of elements broadcast."""

    undefined: Any
    """What memory holds that nothing has written."""
    dtype: Any
    """That of arrays of elements."""

    def argument(self, name: str, shape: tuple[int, ...], dtype: str) -> Array:
        """The elements of an argument."""

    def lift(self, values: Array, dtype: str) -> Array:
        """Known numbers as elements."""

    def known(self, cells: Array) -> Array | None:
        """Elements as whole numbers or truths, where they all are known."""

    def apply(self, kind: str, dtype: str, args: Sequence[Array], before: str) -> Array:
        """An elementwise op on operands of type `before`."""

    def fold(self, kind: str, dtype: str, cells: Array) -> Array:
        """A reduction along the last axis."""

    def contract(self, left: Array, right: Array, dtype: str) -> Array:
        """Σ over the last axes of [m, k] and [n, k]: [m, n]."""

    def gather(self, memory: Array, indices: Sequence[Array], dtype: str) -> Array:
        """Elements of a memory at places that are elements."""


IDENTITY = {"add": 0, "multiply": 1, "maximum": float("-inf"), "minimum": float("inf"), "and": True, "or": False}
"""What leaves every other element as it is."""
