"""The domain of terms: each element is the number of a node, and equal nodes have equal numbers.

Two elements whose numbers are one are equal for all inputs, over the reals; integers wrap as their types do. Sums,
products, maxima and minima are kept as sorted lists of what is combined, so their order does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from scalify_dl.ir.literals import Literal
from scalify_dl.oracle.dtypes import holds_all, integer_limits, is_float, largest, precision

from . import folding
from .domain import Array, Undecided
from .dots import Dots
from .folding import ONE, UNDEFINED, ZERO

MOST_NODES = 12_000_000
COMBINED = ("add", "maximum", "minimum")
"""Kinds that are kept as pairs while they grow, and as one list once something else uses them."""
_SAFE = frozenset(["add", "multiply", "maximum", "minimum", "exponential", "tanh", "logistic", "abs", "select", "erf"])
"""Kinds that are finite where their operands are."""


class Terms:
    """The nodes. `kind` 0 is a number, 1 what is not defined, 2 an argument's element; others are ops."""

    undefined: Any = UNDEFINED
    dtype: Any = np.int64

    def __init__(self) -> None:
        self.size = 0
        self.codes = np.zeros(1024, dtype=np.int32)
        self.left = np.zeros(1024, dtype=np.int64)
        self.right = np.zeros(1024, dtype=np.int64)
        self.canon = np.zeros(1024, dtype=np.int64)
        self.finite = np.zeros(1024, dtype=bool)
        self.names: list[str] = ["number", "undefined", "input"]
        self.code_of: dict[str, int] = {"number": 0, "undefined": 1, "input": 2}
        self.children: dict[int, Any] = {}
        self.values: dict[int, Fraction | float] = {}
        self.tables: dict[Any, dict[Any, int]] = {}
        self.leaves: list[tuple[int, int, str, tuple[int, ...], str]] = []
        self.assumed: set[str] = set()
        self.dots = Dots(self)
        self.exact_casts = False
        """Whether casts of reals are taken for exact, which is then assumed."""
        self.large = False
        """Whether products of matrices are kept as dots of rows and columns."""
        for value in (0, 1):
            self.number(Fraction(value))
        self._new(1, 1)

    # ---- nodes ----
    def code(self, name: str) -> int:
        """The number of a kind."""
        if name not in self.code_of:
            self.code_of[name] = len(self.names)
            self.names.append(name)
        return self.code_of[name]

    def _new(self, code: int, count: int) -> int:
        start, self.size = self.size, self.size + count
        if self.size > MOST_NODES:
            raise Undecided(f"more than {MOST_NODES:,} terms: too large to be followed")
        if self.size > len(self.codes):
            room = max(self.size, 2 * len(self.codes))
            for name in ("codes", "left", "right", "canon", "finite"):
                old = getattr(self, name)
                new = np.zeros(room, dtype=old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)
        self.codes[start : self.size] = code
        self.canon[start : self.size] = np.arange(start, self.size)
        return start

    def number(self, value: Fraction | float) -> int:
        """A constant."""
        if isinstance(value, float) and value == value and abs(value) != float("inf"):
            value = Fraction(value)
        table = self.tables.setdefault("number", {})
        key = str(value)
        if key not in table:
            if value != value:
                return UNDEFINED
            table[key] = self._new(0, 1)
            self.values[table[key]] = value
            self.finite[table[key]] = isinstance(value, Fraction)
        return table[key]

    def argument(self, name: str, shape: tuple[int, ...], dtype: str) -> Array:
        """Unknowns."""
        for start, stop, known, _, _ in self.leaves:
            if known == name:
                return np.arange(start, stop).reshape(shape)
        count = int(np.prod(shape, dtype=np.int64))
        start = self._new(2, count)
        self.finite[start : start + count] = True
        self.leaves.append((start, start + count, name, shape, dtype))
        return np.arange(start, start + count).reshape(shape)

    def leaf(self, node: int) -> tuple[str, int, str]:
        """The argument, the place in it and its type."""
        for start, stop, name, _, dtype in self.leaves:
            if start <= node < stop:
                return name, node - start, dtype
        raise KeyError(node)

    def lift(self, values: Array, dtype: str) -> Array:
        """Constants."""
        values = np.asarray(values)
        if self.exact_casts and is_float(dtype) and precision(dtype) < precision("f32"):
            self.assumed.add(f"constants of {dtype} do not round")
            dtype = "f32"
        unique, inverse = np.unique(values, return_inverse=True)
        numbers = np.array([self.number(constant(v.item(), dtype)) for v in unique], dtype=np.int64)
        return numbers[inverse].reshape(values.shape)

    def known(self, cells: Array) -> Array | None:
        """Where all are constants that are whole."""
        if np.any(self.codes[cells] != 0):
            return None
        unique, inverse = np.unique(cells, return_inverse=True)
        found = []
        for node in unique.tolist():
            value = self.values[node]
            if not isinstance(value, Fraction) or value.denominator != 1:
                return None
            found.append(int(value))
        return np.array(found, dtype=np.int64)[inverse].reshape(cells.shape)

    # ---- ops ----
    def apply(self, kind: str, dtype: str, args: Sequence[Array], before: str) -> Array:
        """The node of an op on each tuple of operands."""
        if kind == "convert":
            return self._converted(args[0], before, dtype)
        if kind == "select":
            return self._interned(self.code("select"), "select", dtype, [self.canonical(a) for a in args])
        real = is_float(before)
        if kind in ("GT", "GE"):
            kind, args = {"GT": "LT", "GE": "LE"}[kind], (args[1], args[0])
        if real:
            if kind in ("subtract", "negate"):
                minus = self.apply("multiply", dtype, [np.asarray(self.number(Fraction(-1))), args[-1]], before)
                return minus if kind == "negate" else self.apply("add", dtype, [args[0], minus], before)
            if kind == "divide":
                return self.apply("multiply", dtype, [args[0], self.apply("inverse", dtype, args[1:], before)], before)
            if kind == "rsqrt":
                return self.apply("inverse", dtype, [self.apply("sqrt", dtype, args, before)], before)
        family = kind if real or before == "pred" else f"{kind}:{before}"
        if kind in COMBINED:
            return self._paired(family, dtype, *args)
        xs = [self.canonical(a) for a in args]
        if kind in ("multiply", "EQ", "NE", "and", "or", "xor") and len(xs) == 2:
            xs = list(np.broadcast_arrays(*xs))
            xs = [np.minimum(*xs), np.maximum(*xs)]
        return self._interned(self.code(family), kind, dtype if kind not in folding.COMPARED else before, xs)

    def _converted(self, x: Array, before: str, after: str) -> Array:
        """A cast: exact ones are none; others are named by what they do."""
        x = self.canonical(x)
        if is_float(before) and is_float(after):
            name = "" if holds_all(after, before) else f"round:{after}"
            if name and self.exact_casts:
                self.assumed.add(f"casts from {before} to {after} do not round")
                name = ""
        elif is_float(after):
            bits = 1 if before == "pred" else int(before[1:])
            x = x if before == "pred" else self._interned(self.code("real"), "convert", after, [x])
            name = "" if bits <= precision(after) else f"round:{after}"
        elif after == "pred":
            name = "" if before == "pred" else "truth"
        elif is_float(before):
            name = f"whole:{after}"
        else:
            (low, high), (least, most) = _limits(before), _limits(after)
            name = "" if least <= low and high <= most else f"wrap:{after}"
        return self._interned(self.code(name), "convert", after, [x]) if name else x

    def _interned(self, code: int, kind: str, dtype: str, xs: list[Array]) -> Array:
        """Nodes of operands, equal ones once; what is not plain is looked at one by one."""
        xs = list(np.broadcast_arrays(*xs))
        shape = xs[0].shape
        if xs[0].size == 0:
            return np.zeros(shape, dtype=np.int64)
        if len(xs) <= 2:
            key = xs[0].reshape(-1) if len(xs) == 1 else (xs[0].reshape(-1) << 32) | xs[1].reshape(-1)
            unique, inverse = np.unique(key, return_inverse=True)
            a = unique if len(xs) == 1 else unique >> 32
            b = np.zeros_like(a) if len(xs) == 1 else unique & 0xFFFFFFFF
        else:
            rows, inverse = np.unique(np.stack([x.reshape(-1) for x in xs], axis=1), axis=0, return_inverse=True)
            table = self.tables.setdefault(code, {})
            found = np.empty(len(rows), dtype=np.int64)
            for i, row in enumerate(map(tuple, rows.tolist())):
                if row not in table:
                    table[row] = folding.simplified(self, kind, code, dtype, row)
                found[i] = table[row]
            return found[inverse.reshape(-1)].reshape(shape)
        table = self.tables.setdefault(code, {})
        got = list(map(table.get, unique.tolist()))
        found = np.array([-1 if g is None else g for g in got], dtype=np.int64)
        missing = found < 0
        if missing.any():
            ma, mb = a[missing], b[missing]
            plain = self._plain(kind, code, ma) & (self._plain(kind, code, mb) if len(xs) == 2 else True)
            made = np.empty(len(ma), dtype=np.int64)
            count = int(plain.sum())
            start = self._new(code, count)
            made[plain] = np.arange(start, start + count)
            self.left[start : start + count] = ma[plain]
            self.right[start : start + count] = mb[plain] if len(xs) == 2 else -1
            safe = self.finite[ma[plain]] & (self.finite[mb[plain]] if len(xs) == 2 else True)
            self.finite[start : start + count] = safe if kind in _SAFE else False
            for i in np.flatnonzero(~plain).tolist():
                row = (int(ma[i]), int(mb[i]))[: len(xs)]
                made[i] = folding.simplified(self, kind, code, dtype, row)
            table.update(zip(unique[missing].tolist(), made.tolist(), strict=True))
            found[missing] = made
        return found[inverse.reshape(-1)].reshape(shape)

    def _plain(self, kind: str, code: int, nodes: Array) -> Array:
        """Operands that no law looks into."""
        if kind in folding.ALWAYS:
            return np.zeros(len(nodes), dtype=bool)
        codes = self.codes[nodes]
        special = codes <= 1
        looked_into = [code, *(self.code(name) for name in folding.LOOKED_INTO.get(kind, ()))]
        if kind == "convert":  # what is rounded already
            looked_into += [2, *(at for at, name in enumerate(self.names) if name.startswith("round:"))]
        for other in looked_into:
            special |= codes == other
        return np.asarray(~special)

    def node(self, code: int, args: tuple[int, ...], kind: str) -> int:
        """A node as it is, equal ones once."""
        key = ("raw", code, args)
        table = self.tables.setdefault("raw", {})
        if key not in table:
            made = self._new(code, 1)
            self.left[made] = args[0]
            self.right[made] = args[1] if len(args) == 2 else -1
            if len(args) > 2:
                self.children[made] = args
            self.finite[made] = kind in _SAFE and all(self.finite[a] for a in args)
            table[key] = made
        return table[key]

    def args(self, node: int) -> tuple[int, ...]:
        """The operands of a node; of one that is kept as a list, these."""
        if node in self.children:
            return tuple(np.asarray(self.children[node]).tolist())
        if self.codes[node] <= 2:
            return ()
        left, right = int(self.left[node]), int(self.right[node])
        return (left,) if right < 0 else (left, right)

    # ---- sums, maxima, minima ----
    def _paired(self, family: str, dtype: str, a: Array, b: Array) -> Array:
        """A pair, that is put into a list with others later."""
        a, b = np.broadcast_arrays(a, b)
        if is_float(dtype) and family != "add":
            a, b = self._unbounded(family, dtype, a, b), self._unbounded(family, dtype, b, a)
        neutral = self._neutral(family, dtype)
        if neutral is not None:
            if np.all(a == neutral):
                return np.array(b)
            if np.all(b == neutral):
                return np.array(a)
        low, high = np.minimum(a, b), np.maximum(a, b)
        code = self.code(f"pair:{family}")
        key = ((low << 32) | high).reshape(-1)
        unique, inverse = np.unique(key, return_inverse=True)
        table = self.tables.setdefault(code, {})
        got = list(map(table.get, unique.tolist()))
        found = np.array([-1 if g is None else g for g in got], dtype=np.int64)
        missing = found < 0
        count = int(missing.sum())
        if count:
            start = self._new(code, count)
            made = np.arange(start, start + count)
            self.left[made], self.right[made] = unique[missing] >> 32, unique[missing] & 0xFFFFFFFF
            self.finite[made] = self.finite[self.left[made]] & self.finite[self.right[made]]
            self.canon[made] = -1
            table.update(zip(unique[missing].tolist(), made.tolist(), strict=True))
            found[missing] = made
        return found[inverse.reshape(-1)].reshape(a.shape)

    def end(self, dtype: str, sign: int) -> int:
        """The least or the greatest number of a type of reals."""
        return self.number(constant(sign * largest(dtype), dtype))

    def _unbounded(self, family: str, dtype: str, a: Array, b: Array) -> Array:
        """The end of a type's range is as good as an infinity beside a value that lies within the range."""
        sign = -1 if family == "maximum" else 1
        end = self.end(dtype, sign)
        found = (a == end) & (self.codes[b] != 0)
        if not found.any():
            return a
        self.assumed.add(f"values of {dtype} stay within its range")
        return np.where(found, self.number(sign * float("inf")), a)

    def _neutral(self, family: str, dtype: str) -> int | None:
        kind = family.partition(":")[0]
        if kind == "add":
            return ZERO
        if is_float(dtype):
            return self.number(float("-inf") if kind == "maximum" else float("inf"))
        return None

    def canonical(self, nodes: Array) -> Array:
        """Nodes without pairs: each sum one sorted list of what is added."""
        found = self.canon[nodes]
        if not np.any(found < 0):
            return np.asarray(found)
        for node in np.unique(nodes[found < 0]).tolist():
            self._listed(node)
        return np.asarray(self.canon[nodes])

    def _listed(self, node: int) -> None:
        family = self.names[self.codes[node]].removeprefix("pair:")
        pair, many = self.codes[node], self.code(family)
        parts: list[Array] = []
        singles: list[int] = []
        stack = [node]
        while stack:
            top = stack.pop()
            code = self.codes[top]
            if code == pair:
                stack += (int(self.left[top]), int(self.right[top]))
            elif code == many:
                parts.append(np.asarray(self.children[top]))
            elif self.canon[top] != top:
                if self.canon[top] < 0:
                    self._listed(top)
                stack.append(int(self.canon[top]))
            else:
                singles.append(top)
        row = np.concatenate([*parts, np.array(singles, dtype=np.int64)])
        self.canon[node] = folding.combined(self, family, row)

    def fold(self, kind: str, dtype: str, cells: Array) -> Array:
        """A list along the last axis."""
        if kind in ("and", "or", "multiply"):
            result = cells[..., 0]
            for n in range(1, cells.shape[-1]):
                result = self.apply(kind, dtype, [result, cells[..., n]], dtype)
            return result
        family = kind if is_float(dtype) else f"{kind}:{dtype}"
        cells = self.canonical(cells)
        rows = np.sort(cells.reshape(-1, cells.shape[-1]), axis=1)
        out = np.empty(len(rows), dtype=np.int64)
        special = self.codes[rows] <= 1
        special |= self.codes[rows] == self.code(family)
        if kind != "add":
            special[:, 1:] |= rows[:, 1:] == rows[:, :-1]
        plain = ~special.any(axis=1) & (rows.shape[1] > 1)
        for i, row in enumerate(rows):
            if plain[i]:
                out[i] = self.listed(family, row)
            else:
                flat = np.concatenate([self._members(family, c) for c in row.tolist()])
                out[i] = folding.combined(self, family, flat)
        return out.reshape(cells.shape[:-1])

    def _members(self, family: str, node: int) -> Array:
        return np.asarray(self.children[node] if self.codes[node] == self.code(family) else [node])

    def listed(self, family: str, row: Array) -> int:
        """The node of a sorted list of two or more."""
        code = self.code(family)
        table = self.tables.setdefault(("list", code), {})
        key = row.tobytes()
        if key not in table:
            made = self._new(code, 1)
            self.children[made] = row.copy()
            self.finite[made] = bool(self.finite[row].all())
            table[key] = made
        return table[key]

    def contract(self, left: Array, right: Array, dtype: str) -> Array:
        """Sums of products, or dots."""
        left, right = self.canonical(left), self.canonical(right)
        if self.large:
            return self.dots.contract(left, right, dtype)
        out = np.empty((left.shape[0], right.shape[0]), dtype=np.int64)
        step = max(1, 2_000_000 // max(1, right.size))
        for start in range(0, len(left), step):
            products = self.apply("multiply", dtype, [left[start : start + step, None, :], right[None]], dtype)
            out[start : start + step] = self.fold("add", dtype, products)
        return out

    def gather(self, memory: Array, indices: Sequence[Array], dtype: str) -> Array:
        """A function of the whole memory and of the indices."""
        self.assumed.add("indices that arguments hold are within what they index")
        whole = self.tables.setdefault("memory", {})
        flat = self.canonical(memory.reshape(-1))
        name = whole.setdefault((memory.shape, flat.tobytes()), len(whole))
        code = self.code(f"gather:{name}")
        self.children.setdefault(-code, (flat, memory.shape))
        rank = len(indices)
        if rank == 1:
            return self._interned(code, "gather", dtype, [self.canonical(indices[0])])
        xs = [self.canonical(x) for x in np.broadcast_arrays(*indices)]
        return self._interned(code, "gather", dtype, xs)


def _limits(dtype: str) -> tuple[int, int]:
    return (0, 1) if dtype == "pred" else integer_limits("s64" if dtype == "int" else dtype)


def constant(value: Any, dtype: str) -> Fraction | float:
    """The number that a literal of a type is: the same whatever way it was printed."""
    if isinstance(value, (bool, int)):
        return Fraction(int(value))
    if value != value or abs(value) == float("inf"):
        return float(value)
    found = Literal.scalar(value, dtype).rational if is_float(dtype) else None
    return Fraction(value) if found is None else found


__all__ = ["ONE", "UNDEFINED", "ZERO", "Terms", "constant"]
