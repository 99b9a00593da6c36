"""Integers that follow from the sizes of a module's inputs, and how ops compute with them where it is lowered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from .types import is_open

if TYPE_CHECKING:
    from .scope import Site, Value

KNOWN_LIMIT = 64
"""Most elements of a value that is computed with as sizes."""


@dataclass(eq=False, slots=True)
class Known:
    """Integers that follow from the sizes of the inputs, row by row, and the op that made them."""

    dtype: str
    shape: tuple[int, ...]
    items: tuple[int, ...]
    about: dict[str, Any]


FOLDS: dict[str, Callable[[Site, list[Known]], tuple[int, ...] | None]] = {}
"""How ops compute with known values; None where they do not."""


def fold(site: Site) -> list[Value] | None:
    """The result of an op that computes a number or a shape from sizes only; None for every other op."""
    function = FOLDS.get(site.op.name) if site.module.sized else None
    if function is None or len(site.op.results) != 1:
        return None
    type_ = site.type
    if type_[0][0] not in "psu" or is_open(type_) or len(type_[1]) > 2 or prod(type_[1]) > KNOWN_LIMIT:
        return None
    values = site.values
    known = [value for value in map(site.known, values) if value is not None]
    if len(known) < len(values):
        return None
    items = function(site, known)
    return None if items is None else [Known(*type_, items, site.about)]
