"""Buffer assignments, as XLA dumps them (`*-buffer-assignment.txt`): which bytes of which allocation a value lies in.

allocation 11: size 5216, preallocated-temp:
 value: <19 wrapped_add @0> (size=4,offset=5120): s32[]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scalify_dl.errors import InputError

_ALLOCATION = re.compile(r"allocation (\d{1,9}): size (\d{1,18}), ?(.*)")
_VALUE = re.compile(
    r"\s+value: <\d+ (\S+?)(?:\{([\d,\s]*)\})?(?: \(phi\))? @\d+> \(size=(\d{1,18}),\s*offset=(\d{1,18})\).*"
)


class Bytes(NamedTuple):
    """A half-open range of an allocation's bytes."""

    allocation: int
    lo: int
    hi: int


@dataclass
class Assignment:
    """Places of values, by the instruction that defines them and the index into its tuple."""

    file: Path
    places: dict[tuple[str, tuple[int, ...]], Bytes] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """Of allocations that are no constants."""


def read_assignment(path: Path, text: str) -> Assignment:
    """The places that a dump gives; InputError with the line of what is not understood."""
    found = Assignment(path)
    allocation: int | None = None
    size = 0
    for number, line in enumerate(text.splitlines()[1:], 2):
        if match := _ALLOCATION.fullmatch(line):
            allocation, size = int(match[1]), int(match[2])
            if "constant" not in match[3]:
                found.sizes[allocation] = size
        elif line.lstrip().startswith("value:") or line.startswith("allocation"):
            match = _VALUE.fullmatch(line)
            if match is None or allocation is None:
                raise InputError(
                    f"cannot read `{line.strip()[:60]}`", file=path, line=number,
                    expected=" value: <19 name @0> (size=4,offset=5120): …", hint="is the dump of another version?",
                )  # fmt: skip
            lo, hi = int(match[4]), int(match[4]) + int(match[3])
            if hi > size:
                raise InputError(f"`{match[1]}` lies outside of its allocation", file=path, line=number)
            index = tuple(int(part) for part in match[2].split(",")) if match[2] and match[2].strip() else ()
            found.places[match[1], index] = Bytes(allocation, lo, hi)
        elif line.strip():
            break  # totals, and uses of values
    if not found.places:
        raise InputError("no values", file=path, expected="a buffer assignment: allocations with their values")
    return found
