"""One line of FX text → plain values, by `ast` alone; nothing that the text says is ever evaluated.

Expressions become numbers, strings, lists, and the small classes below. The parse of a line is remembered, so that the
files of n ranks, which share nearly all lines, cost little more than one.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

MAX_NESTING = 50
MAX_SIZE = 2**31
RESERVED = frozenset({"torch", "self", "device", "operator", "_operator", "math", "fx_pytree", "pytree", "inf", "nan"})
NUMBERS = {"inf": math.inf, "nan": math.nan}
TYPE = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\]")

DTYPES = {
    "b8": "pred", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64", "u8": "u8", "u16": "u16", "u32": "u32",
    "u64": "u64", "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "c64": "c64", "c128": "c128",
    "f8e4m3fn": "f8e4m3fn", "f8e5m2": "f8e5m2", "f8e4m3fnuz": "f8e4m3fnuz", "f8e5m2fnuz": "f8e5m2fnuz",
}  # fmt: skip
"""FX's abbreviations → dtypes of docs/facts.md."""


class Ref(NamedTuple):
    """A value bound by an earlier statement or by the signature."""

    name: str


class Symbol(NamedTuple):
    """A dotted name that is no value of the graph: `torch.float32`, `self.weight`, `torch.ops.aten.mm.default`."""

    path: str


class Call(NamedTuple):
    """A call of a dotted name."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Item(NamedTuple):
    """`value[index]` with a constant index."""

    value: Any
    index: Any


class Infix(NamedTuple):
    """Arithmetic or comparison of sizes, as `operator.mul` prints: `2 * s0`."""

    operator: str
    left: Any
    right: Any


class TensorType(NamedTuple):
    """A printed tensor type; `shape` is None where a size is symbolic."""

    dtype: str
    shape: tuple[int, ...] | None


@lru_cache(maxsize=65536)
def tensor_type(text: str | None) -> TensorType | None:
    """`f32[8, 1536]` → its type; None for what is no tensor (`Sym(s0)`, no annotation).

    Strides and device, which some versions print behind the shape, are dropped. ValueError where a size is too large.
    """
    match = TYPE.match(text) if text else None
    if match is None or match[1] not in DTYPES:
        return None
    sizes: list[int] = []
    for size in match[2].split(","):
        size = size.strip()
        if not size:
            continue
        if not size.isdigit():
            return TensorType(DTYPES[match[1]], None)
        if len(size) > 10 or int(size) >= MAX_SIZE:
            raise ValueError(f"size {size[:20]} is larger than 2^31")
        sizes.append(int(size))
    return TensorType(DTYPES[match[1]], tuple(sizes))


class BadSyntax(Exception):
    """An expression that no FX graph prints; `node` is where."""

    def __init__(self, message: str, node: ast.AST) -> None:
        self.message = message
        self.column = getattr(node, "col_offset", -1) + 1
        super().__init__(message)


def _constant(node: ast.Constant, depth: int) -> Any:
    value = node.value
    if isinstance(value, int) and not -(2**64) < value < 2**64:
        raise BadSyntax("integer literal beyond 64 bits", node)
    return value


def _name(node: ast.Name, depth: int) -> Any:
    if node.id in NUMBERS:
        return NUMBERS[node.id]
    return Symbol(node.id) if node.id in RESERVED else Ref(node.id)


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` of a reserved root, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or (node.id not in RESERVED):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def _attribute(node: ast.Attribute, depth: int) -> Any:
    path = _dotted(node)
    if path is None:
        raise BadSyntax("an attribute of a value is no FX expression", node)
    return NUMBERS[path.split(".")[1]] if path in ("math.inf", "math.nan") else Symbol(path)


def _call(node: ast.Call, depth: int) -> Any:
    path = _dotted(node.func)
    if path is None:
        if isinstance(node.func, ast.Name):  # a Python builtin: `max(a, b)` of sizes
            path = node.func.id
        else:
            raise BadSyntax("only named operators are called in FX text", node)
    kwargs = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise BadSyntax("`**` does not occur in FX text", node)
        kwargs[keyword.arg] = _value(keyword.value, depth)
    return Call(path, tuple([_value(arg, depth) for arg in node.args]), kwargs)


def _subscript(node: ast.Subscript, depth: int) -> Any:
    return Item(_value(node.value, depth), _value(node.slice, depth))


def _slice(node: ast.Slice, depth: int) -> slice:
    return slice(*[None if part is None else _value(part, depth) for part in (node.lower, node.upper, node.step)])


def _unary(node: ast.UnaryOp, depth: int) -> Any:
    operand = _value(node.operand, depth)
    if isinstance(node.op, ast.USub) and isinstance(operand, int | float | complex):
        return -operand
    if isinstance(node.op, ast.USub):
        return Infix("-", 0, operand)
    raise BadSyntax("operator that no FX graph prints", node)


OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Div: "/", ast.Mod: "%", ast.Pow: "**",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def _binary(node: ast.BinOp, depth: int) -> Any:
    if type(node.op) not in OPERATORS:
        raise BadSyntax("operator that no FX graph prints", node)
    return Infix(OPERATORS[type(node.op)], _value(node.left, depth), _value(node.right, depth))


def _compare(node: ast.Compare, depth: int) -> Any:
    if len(node.ops) != 1 or type(node.ops[0]) not in OPERATORS:
        raise BadSyntax("comparison that no FX graph prints", node)
    return Infix(OPERATORS[type(node.ops[0])], _value(node.left, depth), _value(node.comparators[0], depth))


def _list(node: ast.List, depth: int) -> Any:
    return [_value(item, depth) for item in node.elts]


def _tuple(node: ast.Tuple, depth: int) -> Any:
    return tuple([_value(item, depth) for item in node.elts])


def _dict(node: ast.Dict, depth: int) -> Any:
    result = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant):
            raise BadSyntax("only constant keys occur in FX text", node)
        result[key.value] = _value(value, depth)
    return result


VISIT: dict[type[ast.AST], Callable[[Any, int], Any]] = {
    ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute, ast.Call: _call, ast.Subscript: _subscript,
    ast.Slice: _slice, ast.UnaryOp: _unary, ast.BinOp: _binary, ast.Compare: _compare, ast.List: _list,
    ast.Tuple: _tuple, ast.Dict: _dict,
}  # fmt: skip


def _value(node: ast.expr, depth: int = 0) -> Any:
    visit = VISIT.get(type(node))
    if visit is None:
        raise BadSyntax(f"Python {type(node).__name__} does not occur in FX text", node)
    if depth > MAX_NESTING:
        raise BadSyntax(f"nested more than {MAX_NESTING} deep", node)
    return visit(node, depth + 1)


class Line(NamedTuple):
    """A parsed line: what it binds, or returns (`names` is None); `types` are bare annotations."""

    names: tuple[str, ...] | None
    type: str | None
    value: Any
    types: dict[str, str]


@lru_cache(maxsize=1 << 18)
def parse_line(text: str) -> Line:
    """Parses one logical line of a body. SyntaxError where it is cut off or no Python, BadSyntax where it is no FX."""
    body = ast.parse(text.strip()).body
    if not body:
        return Line((), None, None, {})
    node = body[0]
    if isinstance(node, ast.Return):
        return Line(None, None, None if node.value is None else _value(node.value), {})
    types: dict[str, str] = {}
    for other in body:
        if isinstance(other, ast.AnnAssign) and other.value is None:
            types[_target(other.target)] = annotation_text(other.annotation) or ""
    if len(types) == len(body):
        return Line((), None, None, types)
    for other in body[1:]:  # `;  x = y = None` ends lifetimes
        if not (isinstance(other, ast.Assign) and isinstance(other.value, ast.Constant) and other.value.value is None):
            raise BadSyntax("one statement a line is expected", other)
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return Line((_target(node.target),), annotation_text(node.annotation), _value(node.value), {})
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Tuple | ast.List):
            return Line(tuple(_target(item) for item in target.elts), None, _value(node.value), {})
        return Line((_target(target),), None, _value(node.value), {})
    if isinstance(node, ast.Expr):
        return Line(("",), None, _value(node.value), {})
    if isinstance(node, ast.Pass):
        return Line((), None, None, {})
    raise BadSyntax(f"Python {type(node).__name__} does not occur in FX text", node)


def _target(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise BadSyntax("only names are assigned to in FX text", node)
    if node.id in RESERVED:
        raise BadSyntax(f"`{node.id}` shadows a name that FX text uses", node)
    return node.id


def annotation_text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
