"""Whether a program provides for values of an integer input beyond `[0, size)`: then that is no range to assume.

    where(id == -1, 0, table[id])        # a compare that is false all over the range, and true elsewhere
    table[max(id, 0)]                    # a maximum that changes nothing within the range, and something elsewhere

What is computed of the input alone, and constants, is evaluated on values within the range and beyond it. An op that
decides nothing within, but something beyond, is a provision. None are what frameworks add to an index: counting
negative ones from the end (`where(i < 0, i + size, i)`), NaN for those out of bounds, and a clamp to both ends of the
range that only a gather reads.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import fmod
from typing import Any, NamedTuple

from scalify_dl.ir.graph import Graph, Op, Tensor

_POSITIONAL = frozenset(
    ("reshape", "broadcast", "transpose", "slice", "reverse", "concatenate", "pad", "reduce-precision")
)
_NEAR = 130
_ENDS = ("below", "above")


class Values(NamedTuple):
    """What a tensor holds for each value of the input: truths (`b`), integers of at most 64 bits (`i`) or reals (`f`).

    Lists, since proofs start without numpy.
    """

    of: list[Any]
    sort: str


def _remainder(x: Any, y: Any) -> Any:
    """With the sign of x."""
    if isinstance(x, float) or isinstance(y, float):
        return fmod(x, y)
    return abs(x) % abs(y) * (1 if x >= 0 else -1)


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip
_OF_BITS: Mapping[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    **_OF_BITS, "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "maximum": max, "minimum": min,
    "remainder": _remainder, "floor-divide": operator.floordiv,
}  # fmt: skip
_OF_TRUTHS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.or_,
    "multiply": operator.and_,
    "maximum": max,
    "minimum": min,
    **_OF_BITS,
}
_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "abs": abs, "negate": operator.neg, "sign": lambda x: (x > 0) - (x < 0), "relu": lambda x: max(x, 0),
}  # fmt: skip


_ANY = _POSITIONAL | {"and", "reduce"}
_ALL = frozenset({"compare", "select", "clamp", "convert", "not", *_UNARY, *_BINARY})
"""Kinds whose results hold something of one operand that does, or of operands that all do or are constants."""


class Provisions:
    """What a program does with values of its integer inputs; `ops` are those that read anything of these (or of what
    it is `given`, for a loop's body)."""

    def __init__(self, graph: Graph, given: Iterable[Tensor] = ()) -> None:
        self.graph = graph
        self.fixed: dict[Tensor, int | float] = {}
        self.ops: list[Op] = []
        users: dict[Tensor, list[Op]] = defaultdict(list)
        reached = {*given, *(port.tensor for port in graph.inputs if port.tensor.dtype[0] in "su")}
        for op in graph.ops:
            kind, operands = op.kind, op.operands
            if kind == "constant" or kind in _POSITIONAL:
                self._fix(op)
            if reached.isdisjoint(operands):
                continue
            self.ops.append(op)
            for operand in operands:
                if operand in reached:
                    users[operand].append(op)
            if kind in _ANY or (kind in _ALL and all(x in reached or x in self.fixed for x in operands)):
                reached.update(op.results)
        self.users = dict(users)

    @cached_property
    def makers(self) -> dict[Tensor, Op]:
        """The op that makes each tensor."""
        return {result: op for op in self.graph.ops for result in op.results}

    def _fix(self, op: Op) -> None:
        """Remembers the number that a result holds everywhere."""
        number = _scalar(op) if op.kind == "constant" else None
        if op.kind in _POSITIONAL and len(op.operands) == 1:
            number = self.fixed.get(op.operands[0])
        if number is not None:
            self.fixed[op.results[0]] = number

    def beyond(self, tensor: Tensor, size: int, *, strictly: bool = False) -> bool:
        """Whether the program tells values of an input beyond `[0, size)` from others.

        `strictly`: not by bounds at 0 or `size` alone, which are those of the first and the last rank's part of a
        table.
        """
        return tensor in self.users and _Walk(self, size, strictly).through(self.ops, {tensor})

    def ends(self, tensor: Tensor, size: int) -> set[str]:
        """Ends of `[0, size)` beyond which the program tells values from others.

        A rank's part of a table begins at 0 on the first rank, and ends at `size` on the last one, only: an end that
        all ranks provide beyond is no part's, but the program's own.
        """
        if tensor not in self.users:
            return set()
        return {end for end in _ENDS if _Walk(self, size, False, end).through(self.ops, {tensor})}


    def looks_up_negative(self, tensor: Tensor, size: int) -> bool:
        """Whether negative values of an input are looked up as they are, counted from the end of the table, or others
        of it in their place: not counted from another place than its end."""
        walk = _Walk(self, size, strictly=False, end="no")
        walk.through(self.ops, {tensor})
        for op in self.ops:
            index = op.operands[1] if op.kind == "gather" else None
            if index in walk.known:
                below = zip(walk.known[index].of[: walk.first], walk.values.of, strict=False)
                if not all(x in (given, given + size) or 0 <= x < size for x, given in below):
                    return False
        return True


class _Walk:
    def __init__(self, program: Provisions, size: int, strictly: bool, end: str = "") -> None:
        self.program, self.size, self.strictly, self.end = program, size, strictly, end
        self.fixed, self.users = dict(program.fixed), program.users
        near = range(-_NEAR, min(size, _NEAR) + _NEAR)
        stated = {number for number in self.fixed.values() if isinstance(number, int) and abs(number) < 2**31}
        around = {sign * number + d for number in sorted(stated)[:1000] for sign in (-1, 1) for d in (-1, 0, 1)}
        far = [-(2**31), 2**31 - 1, -size - 1, -size, 2 * size, size // 2]
        self.values = Values(sorted({*near, *range(size - _NEAR, size + _NEAR), *far, *around}), "i")
        self.first, self.last = (bisect_left(self.values.of, bound) for bound in (0, size))
        self.known: dict[Tensor, Values] = {}
        self.beside: dict[Tensor, list[bool]] = {}
        """Where a tensor holds constants beside the input's values (padding): which values these are."""

    def through(self, ops: Sequence[Op], inputs: Iterable[Tensor]) -> bool:
        """Whether any of the ops is a provision; `inputs` hold the input's values, where nothing else is known."""
        known = self.known
        for tensor in inputs:
            known.setdefault(tensor, self.values)
        for op in ops:
            if not any(operand in known for operand in op.operands):
                continue
            if op.regions:
                if op.kind == "while" and any(self._inside(op, region) for region in op.regions):
                    return True
                continue
            made = self._value(op)
            if made is None:
                continue
            known[op.results[0]] = made
            self._beside(op, made)
            if self._decides(op, made, [known[x] for x in op.operands if x in known]) and not self._usual(op):
                return True
        return False

    def _beside(self, op: Op, made: Values) -> None:
        """Remembers constants that come to stand beside the input's values."""
        masks = [self.beside[x] for x in op.operands if x in self.beside]
        if op.kind in ("concatenate", "pad"):
            masks += [[x == number for x in made.of] for number in (self.fixed.get(x) for x in op.operands)
                      if number is not None]  # fmt: skip
        if masks:
            self.beside[op.results[0]] = [any(here) for here in zip(*masks, strict=True)]

    def _inside(self, op: Op, region: Graph) -> bool:
        """Whether a loop's body, or condition, has a provision."""
        for port, operand in zip(region.inputs, op.operands, strict=False):
            if operand in self.known:
                self.known[port.tensor] = self.known[operand]
            elif operand in self.fixed:
                self.fixed[port.tensor] = self.fixed[operand]
        inner = Provisions(region, (*self.known, *self.fixed))
        self.fixed |= inner.fixed
        self.users, outer = {**self.users, **inner.users}, self.users
        found = self.through(inner.ops, ())
        self.users = outer
        return found

    def _value(self, op: Op) -> Values | None:
        """The result as a function of the input; None where it is none, or not an elementwise one."""
        known, fixed = self.known, self.fixed
        if op.kind in _POSITIONAL:
            return next(known[x] for x in op.operands if x in known)
        if len(op.results) != 1 or not all(x in known or x in fixed for x in op.operands):
            return None
        xs = [known[x] if x in known else self._everywhere(fixed[x]) for x in op.operands]
        made = self._apply(op, xs)
        return None if made is None else _wrapped(made, op.results[0].dtype)

    def _everywhere(self, number: int | float) -> Values:
        return Values([number] * len(self.values.of), "f" if isinstance(number, float) else "i")

    def _apply(self, op: Op, xs: Sequence[Values]) -> Values | None:
        sort = max((x.sort for x in xs), key="bif".index)
        if op.kind == "compare":
            return Values([*map(_COMPARE[op.symbols["direction"][0]], xs[0].of, xs[1].of)], "b")
        if op.kind == "select":
            sort = max((x.sort for x in xs[1:]), key="bif".index)
            return Values([a if truth else b for truth, a, b in zip(*(x.of for x in xs), strict=True)], sort)
        if op.kind == "clamp":
            return Values([min(max(x, lo), hi) for lo, x, hi in zip(*(x.of for x in xs), strict=True)], sort)
        if op.kind == "convert":
            return Values([x != 0 for x in xs[0].of], "b") if op.results[0].dtype == "pred" else xs[0]
        if op.kind == "not":
            flipped = {"b": operator.not_, "i": operator.invert}.get(sort)
            return None if flipped is None else Values([*map(flipped, xs[0].of)], sort)
        if op.kind in _UNARY:
            return None if sort == "b" else Values([*map(_UNARY[op.kind], xs[0].of)], sort)
        of_bits = op.kind in _OF_BITS and sort == "f"  # of a real
        divides = op.kind in ("remainder", "floor-divide")
        function = (_OF_TRUTHS if sort == "b" else _BINARY).get(op.kind)
        if function is None or of_bits or (divides and 0 in xs[1].of):
            return None
        return Values([*map(function, xs[0].of, xs[1].of)], sort)

    def _decides(self, op: Op, made: Values, xs: Sequence[Values]) -> bool:
        """Whether an op does nothing within the range, and something beyond."""
        if self.end == "no":
            return False
        first, last = self.first, self.last
        within, beyond = made.of[first:last], self._beyond(made)
        if op.kind == "compare" or (op.kind == "convert" and made.sort == "b"):
            beside = next((self.beside[x] for x in op.results if x in self.beside), [])
            here = {*within, *(x for x, there in zip(made.of, beside, strict=False) if there)}
            if len(here) != 1:
                return False
            if self.strictly:
                return len({*made.of[:first]}) > 1 or len({*made.of[last:]}) > 1
            return not here.issuperset(beyond)
        if self.strictly or made.sort == "b" or op.kind in (*_POSITIONAL, "select", "convert"):
            return False
        return any(within == x.of[first:last] and beyond != self._beyond(x) for x in xs)

    def _beyond(self, values: Values) -> list[Any]:
        """Those out of the range, at the end that is asked for or at both."""
        below = [] if self.end == "above" else values.of[: self.first]
        return below if self.end == "below" else below + values.of[self.last :]

    def _usual(self, op: Op) -> bool:
        """Whether this is what a framework adds to an index."""
        if op.kind == "compare":
            return self._from_the_end(op) or self._guards(op.result)
        return self._into_range(op) and self._clamps(op.result)

    def _into_range(self, op: Op) -> bool:
        """Whether what it gives is within the range, whatever it is given: one end alone is no framework's clamp."""
        return all(0 <= x < self.size for x in self.known[op.result].of)

    def _from_the_end(self, op: Op) -> bool:
        """`where(i < 0, i + size, i)`, and nothing else reads the compare."""
        users = self.users.get(op.result, [])
        for user in users:
            if user.kind != "select" or user.operands[0] is not op.result:
                return False
            maker = self.program.makers.get(user.operands[1])
            if maker is None or maker.kind != "add" or user.operands[2] not in maker.operands:
                return False
            added = [self.fixed.get(x, 0) for x in maker.operands if x is not user.operands[2]]
            if not added or added[0] < self.size:
                return False
        return bool(users)

    def _guards(self, tensor: Tensor) -> bool:
        """Whether a condition does no more than put NaN (the least integer) where an index is out of bounds."""
        users = self.users.get(tensor, [])
        for user in users:
            if user.kind == "select" and user.operands[0] is tensor:
                if not self._is_filler(user.operands[2]):
                    return False
            elif user.kind not in (*_POSITIONAL, "and", "reduce") or not self._guards(user.results[0]):
                return False
        return bool(users)

    def _is_filler(self, tensor: Tensor) -> bool:
        while tensor in self.program.makers and self.program.makers[tensor].kind in _POSITIONAL:
            tensor = self.program.makers[tensor].operands[0]
        literal = tensor.literal
        if literal is None:
            return False
        least = {"s8": -(2**7), "s16": -(2**15), "s32": -(2**31), "s64": -(2**63)}.get(tensor.dtype)
        return literal.text == "nan" or (least is not None and literal.text == str(least))

    def _clamps(self, tensor: Tensor) -> bool:
        """Whether only gathers read it, as positions."""
        users = self.users.get(tensor, [])
        for user in users:
            if user.kind in ("gather", "dynamic-slice"):
                if user.operands[0] is tensor or "wrap" in user.symbols.get("mode", ()):
                    return False
            elif user.kind not in (*_POSITIONAL, "convert") or not self._clamps(user.results[0]):
                return False
        return bool(users)


def _scalar(op: Op) -> int | float | None:
    """The number that a constant holds everywhere."""
    literal = op.result.literal
    exact = None if literal is None else literal.rational
    if exact is None:
        return None
    return int(exact) if exact.denominator == 1 else float(exact)


def _wrapped(values: Values, dtype: str) -> Values:
    """Integers as their type holds them."""
    if dtype[0] not in "su" or values.sort != "i" or not dtype[1:].isdigit():
        return values
    bits = min(int(dtype[1:]), 64)
    least = 0 if dtype[0] == "u" and bits <= 32 else -(2 ** (bits - 1))
    return Values([(x - least) % 2**bits + least for x in values.of], "i")
