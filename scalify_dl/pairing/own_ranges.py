"""Whether a program provides for values of an integer input beyond `[0, size)`: then that is no range to assume.

    where(id == -1, 0, table[id])        # a compare that is false all over the range, and true elsewhere
    table[max(id, 0)]                    # a maximum that changes nothing within the range, and something elsewhere

What is computed of the input alone, and constants, is evaluated on values within the range and beyond it. An op that
decides nothing within, but something beyond, is a provision. None are what frameworks add to an index: counting
negative ones from the end (`where(i < 0, i + size, i)`), NaN for those out of bounds, and a clamp that only a gather
reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scalify_dl.ir.graph import Graph, Op, Tensor

Values = np.ndarray[Any, Any]

_POSITIONAL = frozenset(
    ("reshape", "broadcast", "transpose", "slice", "reverse", "concatenate", "pad", "reduce-precision")
)
_NEAR = 130
_COMPARE: Mapping[str, Callable[[Values, Values], Values]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
_BINARY: Mapping[str, Callable[[Values, Values], Values]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "remainder": np.fmod,
    "floor-divide": np.floor_divide,
}  # fmt: skip
_UNARY: Mapping[str, Callable[[Values], Values]] = {
    "abs": np.abs, "negate": np.negative, "sign": np.sign, "relu": lambda x: np.maximum(x, 0),
}  # fmt: skip


class Provisions:
    """What a program does with values of its integer inputs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.fixed: dict[Tensor, int | float] = {}
        self.makers: dict[Tensor, Op] = {}
        self.users: dict[Tensor, list[Op]] = {}
        for op in graph.ops:
            self.makers.update(dict.fromkeys(op.results, op))
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
            self._fix(op)

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
        return tensor in self.users and _Walk(self, size, strictly).through(self.graph.ops, {tensor})


class _Walk:
    def __init__(self, program: Provisions, size: int, strictly: bool) -> None:
        self.program, self.size, self.strictly = program, size, strictly
        self.fixed, self.users, self.makers = dict(program.fixed), program.users, program.makers
        near = range(-_NEAR, min(size, _NEAR) + _NEAR)
        stated = {number for number in self.fixed.values() if isinstance(number, int) and abs(number) < 2**31}
        around = {sign * number + d for number in sorted(stated)[:1000] for sign in (-1, 1) for d in (-1, 0, 1)}
        far = [-(2**31), 2**31 - 1, -size - 1, -size, 2 * size, size // 2]
        self.values = np.unique(np.array([*near, *range(size - _NEAR, size + _NEAR), *far, *around], dtype=np.int64))
        self.within = (self.values >= 0) & (self.values < size)
        self.known: dict[Tensor, Values] = {}
        self.beside: dict[Tensor, Values] = {}
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
            masks += [made == self.fixed[x] for x in op.operands if x in self.fixed]
        if masks:
            self.beside[op.results[0]] = np.logical_or.reduce(masks)

    def _inside(self, op: Op, region: Graph) -> bool:
        """Whether a loop's body, or condition, has a provision."""
        for port, operand in zip(region.inputs, op.operands, strict=False):
            if operand in self.known:
                self.known[port.tensor] = self.known[operand]
            elif operand in self.fixed:
                self.fixed[port.tensor] = self.fixed[operand]
        inner = Provisions(region)
        self.fixed |= inner.fixed
        self.users, outer = {**self.users, **inner.users}, self.users
        found = self.through(region.ops, ())
        self.users = outer
        return found

    def _value(self, op: Op) -> Values | None:
        """The result as a function of the input; None where it is none, or not an elementwise one."""
        known, fixed = self.known, self.fixed
        if op.kind in _POSITIONAL:
            return next(known[x] for x in op.operands if x in known)
        if len(op.results) != 1 or not all(x in known or x in fixed for x in op.operands):
            return None
        xs = [known[x] if x in known else np.full(self.values.shape, fixed[x]) for x in op.operands]
        try:
            made = self._apply(op, xs)
        except TypeError:  # bits of a real
            return None
        return None if made is None else _wrapped(made, op.results[0].dtype)

    def _apply(self, op: Op, xs: Sequence[Values]) -> Values | None:
        with np.errstate(all="ignore"):
            if op.kind == "compare":
                return _COMPARE[op.symbols["direction"][0]](xs[0], xs[1])
            if op.kind == "select":
                return np.where(xs[0].astype(bool), xs[1], xs[2])
            if op.kind == "clamp":
                return np.minimum(np.maximum(xs[1], xs[0]), xs[2])
            if op.kind == "convert":
                return xs[0] != 0 if op.results[0].dtype == "pred" else xs[0]
            if op.kind == "not":
                return ~xs[0]
            if op.kind in _UNARY:
                return np.asarray(_UNARY[op.kind](xs[0]))
            if op.kind in _BINARY and not (op.kind in ("remainder", "floor-divide") and (xs[1] == 0).any()):
                return np.asarray(_BINARY[op.kind](xs[0], xs[1]))
        return None

    def _decides(self, op: Op, made: Values, xs: Sequence[Values]) -> bool:
        """Whether an op does nothing within the range, and something beyond."""
        within, beyond = self.within, ~self.within
        if op.kind == "compare" or (op.kind == "convert" and made.dtype == bool):
            here = made[within | next((self.beside[x] for x in op.results if x in self.beside), False)]
            if here.size == 0 or (here != here[0]).any():
                return False
            if self.strictly:
                low, high = made[self.values < 0], made[self.values >= self.size]
                return bool((low != low[0]).any() or (high != high[0]).any())
            return bool((made[beyond] != here[0]).any())
        if self.strictly or made.dtype == bool or op.kind in (*_POSITIONAL, "select", "convert"):
            return False
        return any(bool((made == x)[within].all() and (made != x)[beyond].any()) for x in xs)

    def _usual(self, op: Op) -> bool:
        """Whether this is what a framework adds to an index."""
        if op.kind == "compare":
            return self._from_the_end(op) or self._guards(op.result)
        return self._clamps(op.result)

    def _from_the_end(self, op: Op) -> bool:
        """`where(i < 0, i + size, i)`, and nothing else reads the compare."""
        users = self.users.get(op.result, [])
        for user in users:
            if user.kind != "select" or user.operands[0] is not op.result:
                return False
            maker = self.makers.get(user.operands[1])
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
        while tensor in self.makers and self.makers[tensor].kind in _POSITIONAL:
            tensor = self.makers[tensor].operands[0]
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
    if dtype[0] not in "su" or values.dtype.kind not in "iu" or not dtype[1:].isdigit() or int(dtype[1:]) > 32:
        return values
    bits = int(dtype[1:])
    low = values & (2**bits - 1)
    return np.asarray(low if dtype[0] == "u" else np.where(low >= 2 ** (bits - 1), low - 2**bits, low))
