"""One block of a grid that stands for all: a kernel whose blocks do the same, each on its own part of the arguments.

Outermost loops count as a grid, but for threads, which share memory. A variable `b` of it with n values only says
where a block works if

- it occurs in indices of arguments alone, as c · b + rest with 0 ≤ rest < c, along one dim of size c · n (so block b
  reaches the b-th part of c and nothing else), and every access to that argument has it there, with that c;
- every argument that the kernel writes has it (so no block reaches what another writes).

Then block b does to the b-th parts what block 0 does to the first ones: the kernel is right for all if it is right with
n = 1, where what is stated for the whole is, part by part, what is stated for a part. The latter is for the rules to
prove (`parts.py`). Nothing else may depend on b: no condition, value, length of a loop, or place in local memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from scalify_dl.readers.tir.linear import terms
from scalify_dl.readers.tir.syntax import (
    Apply,
    Block,
    Buffer,
    Expr,
    Kernel,
    Launch,
    Let,
    Load,
    Loop,
    Number,
    Region,
    Store,
    Var,
)

Interval = tuple[int, int]
UNKNOWN = 1 << 62


@dataclass(frozen=True, slots=True)
class Cut:
    """A grid variable: how many blocks it tells apart, and which dim of which arguments (by place) it cuts."""

    var: str
    count: int
    dims: Mapping[int, int]


def one_block(kernel: Kernel) -> tuple[list[Kernel], list[Cut]]:
    """The kernel, on ever fewer blocks of its grid as far as blocks are alike, and what was cut each time."""
    cuts: list[Cut] = []
    kernels = [kernel]
    while (found := _first(kernels[-1])) is not None:
        kernels.append(found[0])
        cuts.append(found[1])
    return kernels, cuts


def _first(kernel: Kernel) -> tuple[Kernel, Cut] | None:
    """A variable of the grid of which one block stands for all, cut."""
    variables = list(_grid(kernel.body))
    for one, at in variables:
        var, extent = (one.var, one.extent) if isinstance(one, Loop) else (one.vars[at], one.extents[at])
        count = int(extent.value) if isinstance(extent, Number) else 0
        parts = _Uses(kernel, var, count, [x for x, _ in variables]).parts() if count > 1 else None
        if parts is not None:
            return _cut(kernel, one, at, parts), Cut(var, count, {_place(kernel, b): d for b, d, _ in parts})
    return None


def _grid(body: Sequence[Any]) -> Iterator[tuple[Launch | Loop, int]]:
    """The variables of the outermost loops: a launch with which of its variables, or a loop."""
    while len(body) == 1 and isinstance(body[0], (Launch, Loop)):
        one = body[0]
        if isinstance(one, Launch):
            yield from ((one, at) for at in range(len(one.vars)))
        elif one.kind == "thread" or not isinstance(one.start, Number) or one.start.value != 0:
            return
        else:
            yield one, 0
        body = one.body


def _place(kernel: Kernel, buffer: Buffer) -> int:
    return next(i for i, b in enumerate(kernel.arguments) if b is buffer)


class _Depends(Exception):
    """Something other than places in arguments depends on the variable."""


class _Uses:
    """How a kernel uses a grid variable."""

    def __init__(self, kernel: Kernel, var: str, count: int, grid: Sequence[Any]) -> None:
        self.kernel, self.var, self.count, self.grid = kernel, var, count, grid
        self.arguments = {id(b) for b in kernel.arguments}
        self.accesses: dict[int, list[tuple[int, ...]]] = {}
        """Of each argument, coefficients of the variable by dim, for each access."""

    def parts(self) -> list[tuple[Buffer, int, int]] | None:
        """Arguments with the dim that is cut and the length of a part; None where blocks are not alike."""
        try:
            self._body(self.kernel.body, {}, {})
            found = []
            outputs = {id(b) for b in self.kernel.outputs}
            for buffer in self.kernel.arguments:
                ways = set(self.accesses.get(id(buffer), []))
                if len(ways) > 1 and any(any(way) for way in ways):
                    return None
                way = next(iter(ways), ())
                cut = [d for d, c in enumerate(way) if c]
                if len(cut) > 1 or (not cut and id(buffer) in outputs):
                    return None
                if cut:
                    if buffer.shape[cut[0]] != way[cut[0]] * self.count:
                        return None
                    found.append((buffer, cut[0], way[cut[0]]))
        except _Depends:
            return None
        return found

    # ---- statements ----
    def _body(self, statements: Sequence[Any], lets: Mapping[str, Expr], ranges: Mapping[str, Interval]) -> None:
        for one in statements:
            if isinstance(one, Let):
                self._loads(one.value, lets, ranges)
                if one.var in ranges:
                    raise _Depends
                lets = {**lets, one.var: self._said(one.value, lets)}
            elif isinstance(one, Loop):
                self._free(one.start, lets, ranges)
                self._free(one.extent, lets, ranges)
                self._body(one.body, lets, self._with(one.var, one.start, one.extent, lets, ranges))
            elif isinstance(one, Launch):
                if not any(one is x for x in self.grid):
                    raise _Depends
                for var, extent in zip(one.vars, one.extents, strict=True):
                    ranges = self._with(var, Number(0, "int"), extent, lets, ranges)
                self._body(one.body, lets, ranges)
            elif isinstance(one, Block):
                inner = dict(lets)
                for axis in one.axes:
                    self._loads(axis.value, lets, ranges)
                    value = self._said(axis.value, lets)
                    if axis.kind == "R":
                        self._free(axis.value, lets, ranges)
                    elif self._occurs(value):
                        low, high = _sum_of(terms(value), ranges)
                        if low < axis.low or high >= axis.high:
                            raise _Depends
                    if axis.var in ranges:
                        raise _Depends
                    inner[axis.var] = value
                for condition in one.conditions:
                    self._free(condition, inner, ranges)
                self._body(one.init, inner, ranges)
                self._body(one.body, inner, ranges)
            elif isinstance(one, Store):
                self._access(one.buffer, one.indices, (1,) * len(one.indices), lets, ranges)
                self._free(one.value, lets, ranges)
            else:
                for part in fields(one):
                    value = getattr(one, part.name)
                    if isinstance(value, Region):
                        self._access(value.buffer, value.starts, value.extents, lets, ranges)
                    elif isinstance(value, (Number, Var, Load, Apply)):
                        self._free(value, lets, ranges)
                    elif isinstance(value, list):
                        self._body(value, lets, ranges)

    def _access(
        self, buffer: Buffer, starts: Sequence[Expr], extents: Sequence[int], lets: Mapping[str, Expr],
        ranges: Mapping[str, Interval],
    ) -> None:  # fmt: skip
        """A box of a buffer: which multiple of the variable its places begin with."""
        if id(buffer) not in self.arguments:
            for x in starts:
                self._free(x, lets, ranges)
            return
        way = []
        for x, length in zip(starts, extents, strict=True):
            self._loads(x, lets, ranges)
            parts = terms(self._said(x, lets))
            multiple = sum(parts.pop(key) for key in [*parts] if isinstance(key, Var) and key.name == self.var)
            for key in parts:
                if key is not None and not isinstance(key, Load) and self._occurs(key):
                    raise _Depends
            if multiple:
                low, high = _sum_of(parts, ranges)
                if multiple < 0 or low < 0 or high + length - 1 >= multiple:
                    raise _Depends
            way.append(multiple)
        self.accesses.setdefault(id(buffer), []).append(tuple(way))

    # ---- expressions ----
    def _said(self, x: Expr, lets: Mapping[str, Expr]) -> Expr:
        """With names of values written out."""
        if isinstance(x, Var):
            return lets.get(x.name, x)
        if isinstance(x, Apply):
            return replace(x, args=tuple(self._said(a, lets) for a in x.args))
        if isinstance(x, Load):
            return replace(x, indices=tuple(self._said(a, lets) for a in x.indices))
        return x

    def _occurs(self, x: Expr) -> bool:
        """Outside of places in arguments."""
        return any(isinstance(v, Var) and v.name == self.var for v in _outside_loads(x))

    def _free(self, x: Expr, lets: Mapping[str, Expr], ranges: Mapping[str, Interval]) -> None:
        """A value that must not depend on the variable, but for places of elements that it reads."""
        self._loads(x, lets, ranges)
        if self._occurs(self._said(x, lets)):
            raise _Depends

    def _loads(self, x: Expr, lets: Mapping[str, Expr], ranges: Mapping[str, Interval]) -> None:
        """The accesses within an expression."""
        if isinstance(x, Load):
            self._access(x.buffer, x.indices, (1,) * len(x.indices), lets, ranges)
        elif isinstance(x, Apply):
            for a in x.args:
                self._loads(a, lets, ranges)

    def _with(
        self, var: str, start: Expr, extent: Expr, lets: Mapping[str, Expr], ranges: Mapping[str, Interval]
    ) -> Mapping[str, Interval]:
        """The ranges of variables within a loop; nobody knows those of one whose length is not known."""
        if var in ranges or var in lets or any(var in _names(x) for x in lets.values()):
            raise _Depends
        try:
            first, length = (_sum_of(terms(self._said(x, lets)), ranges) for x in (start, extent))
        except _Depends:
            return {**ranges, var: (-UNKNOWN, UNKNOWN)}
        return {**ranges, var: (first[0], first[1] + max(length[1], 1) - 1)}


def _names(x: Expr) -> set[str]:
    if isinstance(x, Var):
        return {x.name}
    below = x.args if isinstance(x, Apply) else x.indices if isinstance(x, Load) else ()
    return {name for a in below for name in _names(a)}


def _outside_loads(x: Expr) -> Iterator[Expr]:
    yield x
    if isinstance(x, Apply):
        for a in x.args:
            yield from _outside_loads(a)


def _sum_of(parts: Mapping[Expr | None, int], ranges: Mapping[str, Interval]) -> Interval:
    """Least and largest value of a sum of multiples; _Depends where that is not known."""
    low = high = 0
    for key, multiple in parts.items():
        one = (1, 1) if key is None else _bounds(key, ranges)
        ends = (one[0] * multiple, one[1] * multiple)
        low, high = low + min(ends), high + max(ends)
    return low, high


def _bounds(x: Expr, ranges: Mapping[str, Interval]) -> Interval:
    if isinstance(x, Var) and x.name in ranges:
        return ranges[x.name]
    if isinstance(x, Apply) and len(x.args) == 2:
        right = x.args[1]
        if isinstance(right, Number) and isinstance(right.value, int) and right.value > 0:
            low, high = _sum_of(terms(x.args[0]), ranges)
            if x.kind == "floor-divide" or (x.kind == "truncate-divide" and low >= 0):
                return low // right.value, high // right.value
            if x.kind == "floor-modulo" or (x.kind == "truncate-modulo" and low >= 0):
                return 0, min(right.value - 1, high) if low >= 0 else right.value - 1
        if x.kind in ("minimum", "maximum"):
            pick = min if x.kind == "minimum" else max
            (a, b), (c, d) = (_sum_of(terms(y), ranges) for y in x.args)
            return pick(a, c), pick(b, d)
    raise _Depends


def _cut(kernel: Kernel, grid: Launch | Loop, at: int, parts: Sequence[tuple[Buffer, int, int]]) -> Kernel:
    """With one block along a variable, and arguments as long as its part."""
    smaller = {
        id(b): Buffer(b.name, (*b.shape[:d], length, *b.shape[d + 1 :]), b.dtype, b.scope, b.line)
        for b, d, length in parts
    }

    def rebuilt(x: Any) -> Any:
        if isinstance(x, Buffer):
            return smaller.get(id(x), x)
        if isinstance(x, list):
            return [rebuilt(y) for y in x]
        if isinstance(x, tuple):
            return tuple(rebuilt(y) for y in x)
        if is_dataclass(x) and not isinstance(x, type):
            if x is grid and isinstance(x, Loop):
                return replace(x, extent=Number(1, "int"), body=rebuilt(x.body))
            if x is grid and isinstance(x, Launch):
                extents = tuple(Number(1, "int") if i == at else n for i, n in enumerate(x.extents))
                return replace(x, extents=extents, body=rebuilt(x.body))
            return replace(x, **{f.name: rebuilt(getattr(x, f.name)) for f in fields(x) if f.init})
        return x

    result: Kernel = rebuilt(kernel)
    return result
