"""Expressions: Python syntax trees → numbers that are known, or expressions over loop variables and elements."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from scalify_dl.errors import InputError
from scalify_dl.oracle.dtypes import is_float, is_integer
from scalify_dl.sizes import Size, equal, greatest, least

from . import calls
from .linear import constant_difference
from .syntax import Apply, Buffer, Expr, Load, Number, Region, Var
from .types import WEAK, dtype_of, is_real, meet

EXPRESSIONS = (Number, Var, Load, Apply)
_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.FloorDiv: "floor-divide",
    ast.Mod: "floor-modulo", ast.Pow: "power", ast.LShift: "shift-left", ast.RShift: "shift-right",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip
_KNOWN: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b, "floor-divide": lambda a, b: a // b, "floor-modulo": lambda a, b: a % b,
    "shift-left": lambda a, b: a << b, "shift-right": lambda a, b: a >> b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "maximum": greatest, "minimum": least, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b, "EQ": equal,
    "NE": lambda a, b: not equal(a, b),
    "truncate-divide": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "truncate-modulo": lambda a, b: math.fmod(a, b) if isinstance(a, float) else abs(a) % abs(b) * (-1 if a < 0 else 1),
}  # fmt: skip
_COMPARED: dict[type[ast.AST], str] = {
    ast.Lt: "LT", ast.LtE: "LE", ast.Gt: "GT", ast.GtE: "GE", ast.Eq: "EQ", ast.NotEq: "NE",
}  # fmt: skip
COMPARISONS = frozenset(_COMPARED.values())


@dataclass(frozen=True, slots=True)
class View:
    """A box of a buffer under another name: dims that are `dropped` have one index, `starts`."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    extents: tuple[int, ...]
    dropped: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the dims that it has."""
        return tuple(n for n, gone in zip(self.extents, self.dropped, strict=True) if not gone)


@dataclass(slots=True)
class Names:
    """What names mean in a scope; inner scopes see outer ones."""

    known: dict[str, Any] = field(default_factory=dict)
    outer: Names | None = None

    def get(self, name: str) -> Any:
        """What a name means; KeyError where it means nothing."""
        scope: Names | None = self
        while scope is not None:
            if name in scope.known:
                return scope.known[name]
            scope = scope.outer
        raise KeyError(name)

    def has(self, name: str) -> bool:
        """Whether a name means something of the file's own."""
        return name in self.known or (self.outer is not None and self.outer.has(name))


class Reader:
    """Reads expressions of one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.names = Names()
        self.line = 0
        """Of the statement that is read."""

    def fail(self, node: ast.AST, message: str, expected: str | None = None, hint: str | None = None) -> NoReturn:
        """Bad input at a node."""
        raise InputError(
            message,
            file=self.file,
            line=getattr(node, "lineno", 0),
            column=getattr(node, "col_offset", -1) + 1,
            expected=expected,
            hint=hint,
        )

    # ---- values ----
    def value(self, node: ast.AST) -> Any:
        """A Python value that is known, an expression, a buffer, a view, or a tuple of these."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return tuple(self.value(item) for item in items)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.BinOp(left=left, op=op, right=right):
                kind = _BINARY.get(type(op)) or self.fail(node, f"`{type(op).__name__}` is not understood")
                return self.apply(node, kind, self.value(left), self.value(right))
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Compare(left=left, ops=ops, comparators=others):
                values = [self.value(left), *map(self.value, others)]
                parts = []
                for compare, a, b in zip(ops, values, values[1:], strict=False):
                    if isinstance(compare, (ast.Is, ast.IsNot)) and (a is None or b is None):
                        parts.append((a is b) == isinstance(compare, ast.Is))
                        continue
                    kind = _COMPARED.get(type(compare)) or self.fail(node, f"`{ast.unparse(node)}` is not understood")
                    parts.append(self.apply(node, kind, a, b))
                return self._joined(node, "and", parts)
            case ast.BoolOp(op=op, values=nodes):
                return self._joined(node, "and" if isinstance(op, ast.And) else "or", [self.value(n) for n in nodes])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                which = self.value(test)
                if not isinstance(which, EXPRESSIONS):
                    return self.value(body if which else orelse)
                return self.select(node, which, self.value(body), self.value(orelse))
            case ast.Call():
                return calls.called(self, node)
            case ast.JoinedStr():
                return ""
        self.fail(node, f"`{ast.unparse(node)[:60]}` is not understood")

    def _name(self, node: ast.AST, name: str) -> Any:
        try:
            found = self.names.get(name)
        except KeyError:
            if name in ("int", "float", "bool"):
                return dtype_of({"int": "int32", "float": "float32", "bool": "bool"}[name])
            self.fail(node, f"the name `{name}` means nothing here", hint=f"a size is given with --size {name}=…")
        if isinstance(found, Open):
            self.fail(node, f"the size `{found.name}` is open", hint=f"give it with --size {found.name}=64")
        if isinstance(found, Buffer) and found.scope == "variable":
            return Load(found, (), getattr(node, "lineno", 0))
        return found

    def _attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in calls.MODULES:
            found = dtype_of(node.attr)
            return found or self.fail(node, f"`{ast.unparse(node)}` is not understood")
        if isinstance(node.value, ast.Name) and node.value.id in ("torch", "jnp", "np", "numpy", "math"):
            found = dtype_of(node.attr)
            if found:
                return found
            if hasattr(math, node.attr) and isinstance(getattr(math, node.attr), float):
                return getattr(math, node.attr)
        base = self.value(node.value)
        if isinstance(base, (Buffer, View)):
            if node.attr == "shape":
                return base.shape
            if node.attr == "dtype":
                return base.dtype if isinstance(base, Buffer) else base.buffer.dtype
        self.fail(node, f"`{ast.unparse(node)[:60]}` is not understood")

    def _subscript(self, node: ast.Subscript) -> Any:
        base = self.value(node.value)
        if isinstance(base, (tuple, str)):
            at = self.value(node.slice)
            if isinstance(at, int) and -len(base) <= at < len(base):
                return base[at]
            self.fail(node, f"`{ast.unparse(node)[:60]}` is not understood")
        if not isinstance(base, (Buffer, View)):
            self.fail(node, f"`{ast.unparse(node.value)[:60]}` is no buffer")
        starts, extents, scalar = self._indices(node, base)
        view = self._within(base, starts, extents, scalar)
        if all(scalar):
            return Load(view.buffer, view.starts, node.lineno)
        return view

    def _indices(
        self, node: ast.Subscript, base: Buffer | View
    ) -> tuple[tuple[Expr, ...], tuple[int, ...], tuple[bool, ...]]:
        items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) != len(base.shape):
            self.fail(node, f"{len(items)} indices of a buffer of {len(base.shape)} dims")
        starts, extents, scalar = [], [], []
        for item, size in zip(items, base.shape, strict=True):
            if not isinstance(item, ast.Slice):
                starts.append(self.index(item, self.value(item)))
                extents.append(1)
                scalar.append(True)
                continue
            if item.step is not None and self.value(item.step) != 1:
                self.fail(item, "a slice with steps is not understood")
            low = Number(0, "int") if item.lower is None else self.index(item, self.value(item.lower))
            high = Number(size, "int") if item.upper is None else self.index(item, self.value(item.upper))
            length = constant_difference(high, low)
            if length is None or length < 1:
                self.fail(item, "the length of this slice is not known", expected="lo:lo + number")
            starts.append(low)
            extents.append(length)
            scalar.append(False)
        return tuple(starts), tuple(extents), tuple(scalar)

    def _within(
        self, base: Buffer | View, starts: tuple[Expr, ...], extents: tuple[int, ...], dropped: tuple[bool, ...]
    ) -> View:
        """A box of a buffer, or of a view, as one of the buffer."""
        if isinstance(base, Buffer):
            return View(base, starts, extents, dropped)
        mine = iter(zip(starts, extents, dropped, strict=True))
        result = []
        for start, extent, gone in zip(base.starts, base.extents, base.dropped, strict=True):
            if gone:
                result.append((start, extent, True))
            else:
                inner, length, drop = next(mine)
                result.append((self.apply_index("add", start, inner), length, drop))
        a, b, c = zip(*result, strict=True)
        return View(base.buffer, a, b, c)

    def apply_index(self, kind: str, left: Expr, right: Expr) -> Expr:
        """Index arithmetic."""
        if isinstance(left, Number) and isinstance(right, Number):
            return Number(_KNOWN[kind](left.value, right.value), "int")
        return Apply(kind, (left, right), "int", 0)

    def region(self, node: ast.AST) -> Region:
        """A buffer, a box of one or a view as a box; of one element (indices alone), a box of extent 1."""
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "region":
            return self._printed_region(node)
        found = self.value(node)
        if isinstance(found, Buffer):
            zero = tuple(Number(0, "int") for _ in found.shape)
            return Region(found, zero, found.shape, (False,) * len(found.shape), line)
        if isinstance(found, View):
            return Region(found.buffer, found.starts, found.extents, found.dropped, line)
        if isinstance(found, Load):
            return Region(found.buffer, found.indices, (1,) * len(found.indices), (True,) * len(found.indices), line)
        self.fail(node, f"`{ast.unparse(node)[:60]}` is no buffer or part of one")

    def _printed_region(self, node: ast.Call) -> Region:
        """`T.region(x[i, j], access, 32, 16)`: where it starts, and how long its last dims are."""
        first = self.value(node.args[0])
        extents = tuple(self.whole(a, "an extent") for a in node.args[2:])
        if not isinstance(first, Load) or len(extents) != len(first.indices):
            self.fail(node, f"`{ast.unparse(node)[:60]}` is not understood")
        return Region(first.buffer, first.indices, extents, (False,) * len(extents), node.lineno)

    def index(self, node: ast.AST, value: Any) -> Expr:
        """A value as an index."""
        found = self.expression(node, value)
        if is_real(found.dtype):
            self.fail(node, "an index is a whole number")
        return found

    def whole(self, node: ast.AST, what: str) -> int:
        """A whole number that is known."""
        found = self.value(node)
        if isinstance(found, bool) or not isinstance(found, int):
            if isinstance(found, Number) and isinstance(found.value, int):
                return found.value
            self.fail(node, f"{what} is not a known number: `{ast.unparse(node)[:60]}`")
        return found

    def expression(self, node: ast.AST, value: Any) -> Expr:
        """A value as an expression."""
        if isinstance(value, EXPRESSIONS):
            return value
        if isinstance(value, bool):
            return Number(value, "pred")
        if isinstance(value, int):
            return Number(value, "int")
        if isinstance(value, float):
            return Number(value, "real")
        self.fail(node, f"`{ast.unparse(node)[:60]}` is no number")

    # ---- ops ----
    def _unary(self, node: ast.UnaryOp) -> Any:
        x = self.value(node.operand)
        known = not isinstance(x, EXPRESSIONS)
        match node.op:
            case ast.USub():
                if known:
                    return -x
                if isinstance(x, Number):
                    return Number(-x.value, x.dtype)
                return Apply("negate", (x,), x.dtype, node.lineno)
            case ast.UAdd():
                return x
            case ast.Not():
                return (not x) if known else Apply("not", (self.truth(node, x),), "pred", node.lineno)
        if known and isinstance(x, int):
            return ~x
        return Apply("not", (self.expression(node, x),), self.expression(node, x).dtype, node.lineno)

    def _joined(self, node: ast.AST, kind: str, parts: list[Any]) -> Any:
        result = parts[0]
        for part in parts[1:]:
            known = [p for p in (result, part) if not isinstance(p, EXPRESSIONS)]
            if len(known) == 2:
                result = (result and part) if kind == "and" else (result or part)
            elif known:
                other = part if known[0] is result else result
                result = other if bool(known[0]) == (kind == "and") else known[0]
            else:
                sides = (self.truth(node, result), self.truth(node, part))
                result = Apply(kind, sides, "pred", getattr(node, "lineno", 0))
        return result

    def truth(self, node: ast.AST, value: Any) -> Expr:
        """A value as a truth: other than zero."""
        found = self.expression(node, value)
        if found.dtype == "pred":
            return found
        return Apply("NE", (found, Number(0, found.dtype)), "pred", getattr(node, "lineno", 0))

    def apply(self, node: ast.AST, kind: str, left: Any, right: Any) -> Any:
        """An op on two values: done where both are known."""
        known = not isinstance(left, EXPRESSIONS) and not isinstance(right, EXPRESSIONS)
        sizes = isinstance(left, Size) or isinstance(right, Size)
        if known and not (sizes and (kind == "divide" or isinstance(left, float) or isinstance(right, float))):
            try:
                if kind == "power":
                    return left**right if abs(right) < 1000 else self.fail(node, "a power that is too large")
                return _KNOWN[kind](left, right)
            except (TypeError, ZeroDivisionError, ValueError, KeyError, OverflowError) as error:
                self.fail(node, f"`{ast.unparse(node)[:60]}`: {error}")
        a, b = self.expression(node, left), self.expression(node, right)
        dtype = meet(a.dtype, b.dtype)
        if kind == "divide" and known:
            dtype = "real"
        if kind == "divide" and not is_real(dtype):
            self.fail(node, "`/` of whole numbers", expected="`//`, T.floordiv or T.truncdiv")
        a, b = self.typed(a, dtype), self.typed(b, dtype)
        line = getattr(node, "lineno", 0)
        if kind in COMPARISONS:
            return Apply(kind, (a, b), "pred", line)
        return Apply(kind, (a, b), dtype, line)

    def select(self, node: ast.AST, which: Any, yes: Any, no: Any) -> Any:
        """One of two values."""
        if not isinstance(which, EXPRESSIONS):
            return yes if which else no
        a, b = self.expression(node, yes), self.expression(node, no)
        dtype = meet(a.dtype, b.dtype)
        args = (self.truth(node, which), self.typed(a, dtype), self.typed(b, dtype))
        return Apply("select", args, dtype, getattr(node, "lineno", 0))

    def typed(self, x: Expr, dtype: str) -> Expr:
        """A value in a type: bare numbers take it, others are cast."""
        if x.dtype == dtype or dtype in WEAK:
            return x
        if isinstance(x, Number) and (x.dtype in WEAK or x.dtype == "pred"):
            if is_integer(dtype) and isinstance(x.value, float):
                return Apply("convert", (x,), dtype, 0)
            return Number(float(x.value) if is_float(dtype) and not isinstance(x.value, int) else x.value, dtype)
        return Apply("convert", (x,), dtype, getattr(x, "line", 0))


@dataclass(frozen=True, slots=True)
class Open:
    """A size that the text leaves open."""

    name: str
