"""Which rows of its memory a tensor of an FX graph may touch, where slices along the first dim say so.

    x: "f32[8]";  p = slice(x, 0, 0, 4);  q = slice(x, 0, 4, 8)        p touches rows 0 … 3 of x, and q rows 4 … 7

Views of a tensor touch no more than it does. Of which view nothing is known here (`as_strided` leaves its tensor) all
of the memory may be touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalify_dl.readers.fx.syntax import Call

__all__ = ["ALL", "Rows", "Splits", "root", "view"]

MOST = 1 << 30
_ARRAY = re.compile(r"\w+\[(\d+(?:, *\d+)*)\]")
WITHIN = frozenset(
    f"aten.{name}" for name in (
        "alias.default", "detach.default", "expand.default", "permute.default", "squeeze.default", "squeeze.dim",
        "squeeze.dims", "t.default", "transpose.int", "unsqueeze.default", "view.default", "view_as_real.default",
    )
)  # fmt: skip
"""Views that lie within their tensor."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows `lo … hi-1` of a memory. Where `dims` is not 0 they are the first one of so many dims of the tensor."""

    lo: int
    hi: int
    dims: int = 0

    @property
    def region(self) -> tuple[int, int]:
        """Where it lies."""
        return self.lo, self.hi

    def cut(self, lo: int, hi: int, dims: int) -> Rows:
        """Some of them."""
        return Rows(self.lo + lo, self.lo + max(hi, lo), dims)


ALL = Rows(0, MOST)
Splits = Sequence[Rows]
"""Rows of each of several views, by index."""


def root(type_: str | None) -> Rows:
    """The rows of a tensor in memory of its own."""
    sizes = _ARRAY.fullmatch(type_ or "")
    if sizes is None:
        return ALL
    extents = [int(n) for n in sizes[1].split(",")]
    return Rows(0, extents[0], len(extents)) if extents[0] <= MOST else ALL


def view(function: str, call: Call, of: Rows) -> Rows | Splits:
    """The rows of a view, or of several."""
    if function in WITHIN:
        return Rows(*of.region)
    found = _SLICES.get(function)
    if found is None:
        return ALL
    given = _arguments(call, found)
    if given is None or not of.dims:
        return Rows(*of.region)
    dim = given["dim"] % of.dims if isinstance(given["dim"], int) else None
    if dim is None:
        return Rows(*of.region)
    if dim:
        return Rows(*of.region, of.dims - (function in ("aten.select.int", "aten.unbind.int")))
    return _taken(function, given, of)


_SLICES: Mapping[str, Sequence[tuple[str, Any]]] = {
    "aten.slice.Tensor": (("dim", 0), ("start", None), ("end", None), ("step", 1)),
    "aten.narrow.default": (("dim", None), ("start", None), ("length", None)),
    "aten.select.int": (("dim", None), ("index", None)),
    "aten.split.Tensor": (("split_size", None), ("dim", 0)),
    "aten.split_with_sizes.default": (("split_sizes", None), ("dim", 0)),
    "aten.unbind.int": (("dim", 0),),
}
"""Their parameters behind the tensor."""


def _arguments(call: Call, parameters: Sequence[tuple[str, Any]]) -> dict[str, Any] | None:
    if len(call.args) > len(parameters) + 1 or not call.args:
        return None
    given = dict(parameters)
    given.update(zip(given, call.args[1:], strict=False))
    given.update({name: value for name, value in call.kwargs.items() if name in given})
    return given


def _taken(function: str, given: dict[str, Any], of: Rows) -> Rows | Splits:
    """What is taken along the first dim; all of it where numbers are not known."""
    n, everything = of.hi - of.lo, Rows(*of.region)

    def number(value: Any, absent: int) -> int | None:
        if value is None:
            return absent
        if not isinstance(value, int):
            return None
        return min(max(value + n if value < 0 else value, 0), n)

    if function == "aten.slice.Tensor":
        lo, hi, step = number(given["start"], 0), number(given["end"], n), given["step"]
        known = lo is not None and hi is not None
        return of.cut(lo, hi, of.dims if step == 1 else 0) if known else everything  # type: ignore[arg-type]
    if function == "aten.narrow.default":
        lo, length = number(given["start"], 0), given["length"]
        return of.cut(lo, lo + length, of.dims) if lo is not None and isinstance(length, int) else everything
    if function == "aten.select.int":
        at = number(given["index"], 0)
        return of.cut(at, at + 1, 0) if at is not None else everything
    if function == "aten.unbind.int":
        return [of.cut(at, at + 1, 0) for at in range(n)]
    size = given.get("split_size")
    sizes = given.get("split_sizes") if size is None else [size] * -(-n // size) if isinstance(size, int) else None
    if not isinstance(sizes, list | tuple) or not all(isinstance(each, int) for each in sizes):
        return everything
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    return [of.cut(lo, min(lo + each, n), of.dims) for lo, each in zip(starts, sizes, strict=True)]
