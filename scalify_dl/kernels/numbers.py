"""The domain of numbers: reals in float64, integers in their types; casts of reals do not round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalify_dl.oracle.dtypes import convert, is_float, is_integer, storage, wrapped
from scalify_dl.oracle.meaning import MEANINGS, Call, Unsupported
from scalify_dl.oracle.program import Op, Tensor

from .domain import Array, Undecided

_FOLDS: dict[str, np.ufunc] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "and": np.logical_and,
    "or": np.logical_or,
}  # fmt: skip
_OWN = {"exp2": np.exp2, "log2": np.log2}
COMPARED: dict[str, np.ufunc] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip


class Numbers:
    """Elements are Python objects only in name: float64, int64 or bool, held in float64 where all fit."""

    undefined: Any = np.nan
    dtype: Any = np.float64

    def __init__(self, inputs: dict[str, Array]) -> None:
        self.inputs = inputs

    def argument(self, name: str, shape: tuple[int, ...], dtype: str) -> Array:
        """The values that were drawn; what nobody has drawn is anything."""
        if name not in self.inputs:
            self.inputs[name] = np.random.default_rng(len(self.inputs)).normal(size=shape)
        return self.inputs[name].astype(np.float64)

    def lift(self, values: Array, dtype: str) -> Array:
        """As floats."""
        return np.asarray(values, dtype=np.float64)

    def known(self, cells: Array) -> Array | None:
        """Whole numbers are known."""
        if not np.all(np.isfinite(cells)) or not np.all(cells == np.round(cells)):
            return None
        return cells.astype(np.int64)

    def apply(self, kind: str, dtype: str, args: Sequence[Array], before: str) -> Array:
        """By the oracle's meaning of the kind."""
        with np.errstate(all="ignore"):
            return self._apply(kind, dtype, args, before)

    def _apply(self, kind: str, dtype: str, args: Sequence[Array], before: str) -> Array:
        if kind in _OWN:
            return np.asarray(_OWN[kind](args[0]))
        if kind in COMPARED:
            return np.asarray(COMPARED[kind](*args), dtype=np.float64)
        if kind == "select":
            return np.asarray(np.where(args[0] != 0, args[1], args[2]), dtype=np.float64)
        if is_float(before):
            if kind in _FOLDS and len(args) == 2 and kind not in ("and", "or"):
                return np.asarray(_FOLDS[kind](*args))
            if kind == "floor-divide":
                return np.asarray(np.floor(args[0] / args[1]))
            if kind == "floor-modulo":
                return np.mod(args[0], args[1])
        if kind == "convert":
            return self._converted(args[0], before, dtype)
        xs = list(np.broadcast_arrays(*args))
        if not is_float(before):
            if any(np.isnan(x).any() for x in xs):
                bad = np.any([np.isnan(x) for x in xs], axis=0)
                clean = self._integers(kind, dtype, [np.nan_to_num(x) for x in xs], before)
                return np.where(bad, np.nan, clean)
            return self._integers(kind, dtype, xs, before)
        return self._meant(kind, dtype, xs)

    def _converted(self, x: Array, before: str, after: str) -> Array:
        if is_float(before) and is_float(after):
            return x
        if after == "pred":
            return np.where(np.isnan(x), x, x != 0)
        if is_integer(after) and not is_float(before):
            clean = np.nan_to_num(x).astype(np.int64).astype(storage(after))
            return np.where(np.isnan(x), x, wrapped(clean, after).astype(np.float64))
        if is_float(after):
            return x
        return np.where(np.isnan(x), x, convert(np.nan_to_num(x), after, rounding=False).astype(np.float64))

    def _integers(self, kind: str, dtype: str, xs: list[Array], before: str) -> Array:
        """In int64, then as the type wraps; larger numbers than float64 holds exactly are given up."""
        if before == "pred":
            truths = [x != 0 for x in xs]
            table = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not}
            if kind not in table:
                raise Undecided(f"`{kind}` of truths")
            return np.asarray(table[kind](*truths), dtype=np.float64)
        a = [x.astype(np.int64) for x in xs]
        low = np.where(a[-1] == 0, 1, a[-1])
        match kind:
            case "add" | "subtract" | "multiply" | "maximum" | "minimum":
                r = getattr(np, kind)(*a)
            case "floor-divide":
                r = np.floor_divide(a[0], low)
            case "floor-modulo":
                r = np.mod(a[0], low)
            case "truncate-divide":
                r = (np.abs(a[0]) // np.abs(low)) * np.sign(a[0]) * np.sign(low)
            case "truncate-modulo":
                r = np.fmod(a[0], low)
            case "and" | "or" | "xor":
                r = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[kind](*a)
            case "not":
                r = ~a[0]
            case "negate":
                r = -a[0]
            case "abs":
                r = np.abs(a[0])
            case "shift-left":
                r = np.left_shift(a[0], a[1])
            case "shift-right":
                r = np.right_shift(a[0], a[1])
            case _:
                raise Undecided(f"`{kind}` of whole numbers")
        r = wrapped(r.astype(storage(dtype)), dtype) if is_integer(dtype) else r
        if r.size and np.abs(r.astype(np.float64)).max() >= 2**53:
            raise Undecided("whole numbers of more than 53 bits")
        return r.astype(np.float64)

    def _meant(self, kind: str, dtype: str, xs: list[Array]) -> Array:
        if kind not in MEANINGS:
            raise Undecided(f"`{kind}` has no meaning on numbers")
        op = Op("kernel", kind, ["x"] * len(xs), ["y"])
        try:
            (found,) = MEANINGS[kind](Call(op, 0, [Tensor("y", dtype, xs[0].shape)]), xs)
        except Unsupported as error:
            raise Undecided(str(error)) from None
        return np.asarray(found, dtype=np.float64)

    def fold(self, kind: str, dtype: str, cells: Array) -> Array:
        """By numpy."""
        with np.errstate(all="ignore"):
            found = np.asarray(_FOLDS[kind].reduce(cells, axis=-1), dtype=np.float64)
            return self._converted(found, dtype, dtype) if is_integer(dtype) else found

    def contract(self, left: Array, right: Array, dtype: str) -> Array:
        """By numpy."""
        with np.errstate(all="ignore"):
            found = left @ right.T
            return self._converted(found, dtype, dtype) if is_integer(dtype) else found

    def gather(self, memory: Array, indices: Sequence[Array], dtype: str) -> Array:
        """Nothing is unknown here but what is not defined, and what that says is not, too."""
        wide = np.broadcast_arrays(*indices)
        defined = np.all([np.isfinite(at) for at in wide], axis=0)
        places = [np.where(defined, at, 0) for at in wide]
        if any(np.any(at != np.round(at)) for at in places):
            raise Undecided("an index that is no whole number")
        inside = defined & np.all([(at >= 0) & (at < n) for at, n in zip(places, memory.shape, strict=True)], axis=0)
        found = memory[tuple(np.where(inside, at, 0).astype(np.int64) for at in places)]
        return np.where(inside, found, np.nan)
