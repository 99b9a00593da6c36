"""Reader of FX readable text (`GraphModule.print_readable()`): text → `Module` of statements. No torch, no exec.

    class GraphModule(torch.nn.Module):
        def forward(self, x: "f32[8, 16]", w: "f32[32, 16]"):
            # File: model.py:12 in forward, code: return self.fc(x)
            t: "f32[16, 32]" = torch.ops.aten.t.default(w);  w = None
            mm: "f32[8, 32]" = torch.ops.aten.mm.default(x, t);  x = t = None
            return (mm,)

Every statement stands on a line of its own and is parsed by `ast` alone; the parse of a line is remembered, so that the
files of n ranks, which share nearly all lines, cost little more than one. Expressions become plain values: numbers,
strings, lists, and the small classes below. Nothing that the text says is ever evaluated, imported or looked up.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.frontends.graph import Frame

__all__ = ["Call", "Infix", "Item", "Module", "Ref", "Statement", "Symbol", "TensorType", "looks_like_fx", "parse", "tensor_type"]


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


class Parameter(NamedTuple):
    """A parameter of `forward`; `type` is the printed text, None where nothing is printed."""

    name: str
    type: str | None


@dataclass(slots=True)
class Statement:
    """`name: "type" = value` (several names where a tuple is unpacked)."""

    names: tuple[str, ...]
    type: str | None
    value: Any
    line: int
    frames: tuple[Frame, ...]


@dataclass(slots=True)
class Module:
    """One `forward`: its parameters, statements and returned values; sub-modules by attribute name."""

    name: str
    line: int
    parameters: list[Parameter] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    returned: list[Any] = field(default_factory=list)
    returned_line: int = 0
    modules: dict[str, Module] = field(default_factory=dict)


DTYPES = {
    "b8": "pred", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64", "u8": "u8", "u16": "u16", "u32": "u32",
    "u64": "u64", "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "c64": "c64", "c128": "c128",
    "f8e4m3fn": "f8e4m3fn", "f8e5m2": "f8e5m2", "f8e4m3fnuz": "f8e4m3fnuz", "f8e5m2fnuz": "f8e5m2fnuz",
}  # fmt: skip
"""FX's abbreviations → dtypes of docs/facts.md."""

MAX_LINE = 4_000_000  # characters; a signature of 100,000 parameters fits
MAX_NESTING = 50
MAX_SIZE = 2**31
RESERVED = frozenset({"torch", "self", "device", "operator", "_operator", "math", "fx_pytree", "pytree", "inf", "nan"})
NUMBERS = {"inf": math.inf, "nan": math.nan}
OPEN_END = 2**63 - 1

CLASS = re.compile(r"(\s*)class\s+(<?\w+>?)\s*\(\s*(?:torch\.nn\.)?Module\s*\)\s*:")
DEF = re.compile(r"\s*def\s+forward\s*\(")
SOURCE = re.compile(r"#\s*(?:File:\s*)?(\S.*?):(\d+) in ([\w<>.]+)(?:.*?)(?:, code:.*)?$")
DELETIONS = re.compile(r";\s*(?:[A-Za-z_]\w*\s*=\s*)+None\s*$")
TYPE = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\]")
SIGNATURE = re.compile(r"\s+(\w+): (\w+)(?: target='([^']*)')?(?: persistent=\w+)?\s*$")


def looks_like_fx(text: str) -> bool:
    """Whether text is FX readable text (a `class …(torch.nn.Module)` with a `forward`)."""
    match = CLASS.search(text) if "Module" in text[:1_000_000] else None
    return match is not None and DEF.search(text, match.end()) is not None


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


class _Bad(Exception):
    """An expression that no FX graph prints; `node` is where."""

    def __init__(self, message: str, node: ast.AST) -> None:
        self.message = message
        self.column = getattr(node, "col_offset", -1) + 1
        super().__init__(message)


def _constant(node: ast.Constant, depth: int) -> Any:
    value = node.value
    if isinstance(value, int) and not -(2**64) < value < 2**64:
        raise _Bad("integer literal beyond 64 bits", node)
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
        raise _Bad("an attribute of a value is no FX expression", node)
    return NUMBERS[path.split(".")[1]] if path in ("math.inf", "math.nan") else Symbol(path)


def _call(node: ast.Call, depth: int) -> Any:
    path = _dotted(node.func)
    if path is None:
        if isinstance(node.func, ast.Name):  # a Python builtin: `max(a, b)` of sizes
            path = node.func.id
        else:
            raise _Bad("only named operators are called in FX text", node)
    kwargs = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise _Bad("`**` does not occur in FX text", node)
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
    raise _Bad("operator that no FX graph prints", node)


OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Div: "/", ast.Mod: "%", ast.Pow: "**",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def _binary(node: ast.BinOp, depth: int) -> Any:
    if type(node.op) not in OPERATORS:
        raise _Bad("operator that no FX graph prints", node)
    return Infix(OPERATORS[type(node.op)], _value(node.left, depth), _value(node.right, depth))


def _compare(node: ast.Compare, depth: int) -> Any:
    if len(node.ops) != 1 or type(node.ops[0]) not in OPERATORS:
        raise _Bad("comparison that no FX graph prints", node)
    return Infix(OPERATORS[type(node.ops[0])], _value(node.left, depth), _value(node.comparators[0], depth))


def _list(node: ast.List, depth: int) -> Any:
    return [_value(item, depth) for item in node.elts]


def _tuple(node: ast.Tuple, depth: int) -> Any:
    return tuple([_value(item, depth) for item in node.elts])


def _dict(node: ast.Dict, depth: int) -> Any:
    result = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant):
            raise _Bad("only constant keys occur in FX text", node)
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
        raise _Bad(f"Python {type(node).__name__} does not occur in FX text", node)
    if depth > MAX_NESTING:
        raise _Bad(f"nested more than {MAX_NESTING} deep", node)
    return visit(node, depth + 1)


class _Line(NamedTuple):
    """A parsed line: what it binds, or returns (`names` is None); `types` are bare annotations."""

    names: tuple[str, ...] | None
    type: str | None
    value: Any
    types: dict[str, str]


@lru_cache(maxsize=1 << 18)
def _line(text: str) -> _Line:
    """Parses one logical line of a body. SyntaxError where it is incomplete or no Python, _Bad where it is no FX."""
    body = ast.parse(text.strip()).body
    if not body:
        return _Line((), None, None, {})
    node = body[0]
    if isinstance(node, ast.Return):
        return _Line(None, None, None if node.value is None else _value(node.value), {})
    types: dict[str, str] = {}
    for other in body:
        if isinstance(other, ast.AnnAssign) and other.value is None:
            types[_target(other.target)] = _annotation(other.annotation) or ""
    if len(types) == len(body):
        return _Line((), None, None, types)
    for other in body[1:]:  # `;  x = y = None` ends lifetimes
        if not (isinstance(other, ast.Assign) and isinstance(other.value, ast.Constant) and other.value.value is None):
            raise _Bad("one statement a line is expected", other)
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return _Line((_target(node.target),), _annotation(node.annotation), _value(node.value), {})
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Tuple | ast.List):
            return _Line(tuple(_target(item) for item in target.elts), None, _value(node.value), {})
        return _Line((_target(target),), None, _value(node.value), {})
    if isinstance(node, ast.Expr):
        return _Line(("",), None, _value(node.value), {})
    if isinstance(node, ast.Pass):
        return _Line((), None, None, {})
    raise _Bad(f"Python {type(node).__name__} does not occur in FX text", node)


def _target(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise _Bad("only names are assigned to in FX text", node)
    if node.id in RESERVED:
        raise _Bad(f"`{node.id}` shadows a name that FX text uses", node)
    return node.id


def _annotation(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


class _Reader:
    """Walks over the lines of a file; knows file and line for messages."""

    def __init__(self, text: str, file: str | None) -> None:
        self.lines = text.split("\n")
        self.file = file
        self.at = 0  # index of the line being read

    def error(self, message: str, *, column: int = 0, expected: str | None = None, hint: str | None = None) -> InputError:
        return InputError(message, file=self.file, line=self.at + 1, column=column, expected=expected, hint=hint)

    def logical(self) -> str:
        """The line at `self.at`, joined with the next ones while its brackets are open; leaves `at` on the last."""
        text = self.lines[self.at]
        first = self.at
        while text.count("(") + text.count("[") + text.count("{") > text.count(")") + text.count("]") + text.count("}"):
            if self.at + 1 >= len(self.lines) or len(text) > MAX_LINE or self.at - first > 10_000:
                break  # a bracket in a string, or an error that the parser tells better
            if CLASS.match(self.lines[self.at + 1]) or DEF.match(self.lines[self.at + 1]):
                break
            self.at += 1
            text += "\n" + self.lines[self.at]
        if len(text) > MAX_LINE:
            raise self.error(f"line of more than {MAX_LINE:,} characters")
        return text

    def parsed(self) -> _Line:
        """Parses the statement that starts at `self.at`."""
        first = self.at
        for text in self.candidates():
            try:
                return _line(DELETIONS.sub("", text))
            except _Bad as bad:
                self.at = first
                indent = len(self.lines[first]) - len(self.lines[first].lstrip())
                raise self.error(bad.message, column=bad.column + indent if bad.column else 0) from None
            except (SyntaxError, ValueError) as exception:
                last = exception
            except (RecursionError, MemoryError):
                self.at = first
                raise self.error("expression nested too deeply", expected="FX readable text") from None
        self.at = first
        column = (getattr(last, "offset", 0) or 0) + len(self.lines[first]) - len(self.lines[first].lstrip())
        raise self.error(
            f"not a statement of FX text: {getattr(last, 'msg', None) or last}",
            column=column,
            expected='`name: "f32[2, 3]" = torch.ops.namespace.op.overload(…)`',
            hint="was the file cut off or edited by hand?",
        )

    def candidates(self) -> Iterator[str]:
        """The line alone, then joined with the lines that its open brackets ask for."""
        line = self.lines[self.at]
        if len(line) > MAX_LINE:
            raise self.error(f"line of more than {MAX_LINE:,} characters")
        yield line
        joined = self.logical()
        if joined is not line:
            yield joined

    def read(self) -> tuple[Module, dict[str, tuple[str, str]]]:
        root: Module | None = None
        signature: dict[str, tuple[str, str]] = {}
        open_modules: list[tuple[int, Module]] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            header = CLASS.match(line)
            if header:
                indent, module = len(header[1]), Module(header[2], self.at + 1)
                while open_modules and open_modules[-1][0] >= indent:
                    open_modules.pop()
                if open_modules:
                    open_modules[-1][1].modules[module.name] = module
                elif root is None:
                    root = module
                else:
                    raise self.error(
                        f"a second graph, `{module.name}`, in one file", hint="write each graph to a file of its own"
                    )
                open_modules.append((indent, module))
                if len(open_modules) > MAX_NESTING:
                    raise self.error(f"modules nested more than {MAX_NESTING} deep")
            elif open_modules and DEF.match(line):
                self.body(open_modules[-1][1])
                continue
            elif root is not None and not open_modules[-1][1].returned_line and line.strip() and not line.lstrip().startswith("#"):
                raise self.error("text between `class` and `def forward`", expected="`def forward(self, …):`")
            elif root is not None and (entry := SIGNATURE.match(line)):
                signature[entry[1]] = (entry[2], entry[3] or "")
            self.at += 1
        if root is None:
            raise InputError(
                "no graph in this file",
                file=self.file,
                expected="FX readable text: `class GraphModule(torch.nn.Module):` with `def forward(self, …):`",
                hint="write it with `graph_module.print_readable()`",
            )
        if not root.returned_line:
            raise self.error("the graph has no `return`", hint="was the file cut off?")
        return root, signature

    def header(self, module: Module) -> None:
        text = self.logical()
        try:
            node = ast.parse(text.strip() + " pass").body[0]
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exception:
            raise self.error(f"not a `forward` signature: {getattr(exception, 'msg', exception)}") from None
        assert isinstance(node, ast.FunctionDef)
        arguments = node.args
        if arguments.kwonlyargs or arguments.kwarg or arguments.defaults:
            raise self.error("only plain parameters occur in the signature of an FX graph")
        names = [*arguments.args[1:], *([arguments.vararg] if arguments.vararg else [])]
        for argument in names:
            if argument.arg in RESERVED:
                raise self.error(f"parameter `{argument.arg}` shadows a name that FX text uses")
            module.parameters.append(Parameter(argument.arg, _annotation(argument.annotation)))

    def body(self, module: Module) -> None:
        """Reads `def forward` up to its `return`."""
        if module.returned_line:
            raise self.error("a second `forward`")
        self.header(module)
        self.at += 1
        frames: tuple[Frame, ...] = ()
        types: dict[str, str] = {}
        bound = {parameter.name for parameter in module.parameters}
        while self.at < len(self.lines):
            line = self.lines[self.at]
            stripped = line.strip()
            if not stripped or stripped.startswith("#"):
                if stripped:
                    match = SOURCE.match(stripped)
                    frames = (Frame(match[1], int(match[2][:9]), match[3]),) if match else ()
                self.at += 1
                continue
            if CLASS.match(line) or DEF.match(line):
                break
            first = self.at
            parsed = self.parsed()
            if parsed.types:
                types |= parsed.types
            elif parsed.names is None:
                module.returned, module.returned_line = self.returned(parsed.value), first + 1
                self.at += 1
                return
            elif isinstance(parsed.value, Call) and parsed.value.function.startswith("fx_pytree.tree_flatten"):
                module.parameters = [Parameter(name, types.get(name)) for name in parsed.names if name]
                bound = set(parsed.names)
            elif parsed.names:
                for name in parsed.names:
                    if name in bound:
                        self.at = first
                        raise self.error(f"`{name}` is defined twice", hint="FX text names every value once")
                    if name:
                        bound.add(name)
                type = parsed.type or types.get(parsed.names[0])
                module.statements.append(Statement(parsed.names, type, parsed.value, first + 1, frames))
            self.at += 1
        raise self.error("the graph has no `return`", hint="was the file cut off?")

    def returned(self, value: Any) -> list[Any]:
        if isinstance(value, Call):
            if not value.function.endswith("tree_unflatten") or not value.args:
                raise self.error(f"`return {value.function}(…)`", expected="a tuple, a list or `pytree.tree_unflatten([…], …)`")
            value = value.args[0]
        if isinstance(value, dict):
            value = list(value.values())
        flat: list[Any] = []

        def flatten(item: Any) -> None:
            if isinstance(item, list | tuple) and not isinstance(item, Ref | Symbol | Item | Infix | Call):
                for part in item:
                    flatten(part)
            else:
                flat.append(item)

        flatten(value)
        return flat


def parse(text: str, file: str | None = None) -> tuple[Module, dict[str, tuple[str, str]]]:
    """FX readable text → its graph, and the signature entries that an exported program prints below it.

    The signature maps parameter name → (kind, target), as in `p_fc_weight: PARAMETER target='fc.weight'`.
    Raises InputError with file, line and column where the text is no FX graph.
    """
    return _Reader(text, file).read()
