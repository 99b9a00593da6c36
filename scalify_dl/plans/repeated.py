"""Plans that are written out and regular: every copy and micro-batch does what the first ones do.

Native code compares all of them, op by op (cpp/alike.hpp has the lemma, L5), and keeps the rows of those that stand for
all. What is proved of that unit form is proved of the plan, and nothing is assumed. A plan that is not regular, or not
proved so, is read the long way, which tells what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.pysouffle._engine import repeated_plan

from .model import Side, read_side
from .tables import Tables


class Repeated(NamedTuple):
    """A regular plan."""

    unit: Side
    """The copies and the micro-batch that stand for all."""
    talk: Side
    """What all ranks send, receive and call, in their order; nothing of what they pass on."""


def read_repeated(directory: Path) -> Repeated | None:
    """A plan by its unit form; None where it is not regular, or written so already."""
    try:
        found = repeated_plan(str(directory))
    except RuntimeError:  # a file that the system cannot look at: the long way tells which
        return None
    if found is None:
        return None
    _, unit, talk = found
    try:
        kept = Repeated(_side(directory, *unit), _side(directory, *talk))
    except InputError:  # the long way tells where
        return None
    kept.unit.repeated = True
    return kept


def _side(directory: Path, texts: Mapping[str, bytes], lines: list[int]) -> Side:
    return read_side(Tables(directory, "p", texts, lines))
