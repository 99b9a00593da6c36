"""Functions of a model, declared in a file beside the tables: what they compute, as expressions (docs/plans.md).

    gelu_gate:
      operands: [x, gate]
      forward: [x * logistic(gate * scale)]
      backward:
        x: g0 * logistic(gate * scale)
        gate: g0 * x * scale * logistic(gate * scale) * (1 - logistic(gate * scale))

`g0`, `g1` … are gradients of results, `c0`, `c1` … constants; other names are operands, or attributes (numbers).
Shapes are broadcast as torch does it, and a gradient is summed over dims along which its operand was repeated.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from scalify_dl import yaml_text
from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.vocabulary import ARITY, ELEMENTWISE

from .call import BACKWARD, FORWARD, Call, IllTyped, NoMeaning, enter_all
from .shapes import common, gathered, recut, spread

FILE = "functions.yaml"
Operand = Tensor | Fraction


@dataclass(frozen=True)
class Function:
    """A declared function. `backward` has the gradients of some operands, by name."""

    operands: tuple[str, ...]
    forward: tuple[ast.expr, ...]
    backward: Mapping[str, ast.expr]

    def results(self, call: Call) -> Sequence[Tensor]:
        """The results of a call of it, or of its backward op."""
        try:
            return self._gradients(call) if call.backward else self._forward(call, call.operands)
        except InputError as problem:
            raise IllTyped(f"`{call.kind}` as it is declared: {problem.message}") from None

    def _forward(self, call: Call, operands: Sequence[Tensor]) -> list[Tensor]:
        if len(operands) != len(self.operands) or len(call.types) != len(self.forward):
            raise IllTyped(f"{len(operands)} operands and {len(call.types)} results of `{call.kind}`")
        scope = _Scope(call, dict(zip(self.operands, operands, strict=True)))
        return [scope.tensor(one, shape) for one, shape in zip(self.forward, call.shapes, strict=True)]

    def _gradients(self, call: Call) -> list[Tensor]:
        count = len(call.operands) - len(self.operands)
        if count < 1 or not self.backward:
            raise NoMeaning(f"no gradients of `{call.kind}`: `backward` is not declared")
        names = dict(zip(self.operands, call.operands[count:], strict=True))
        given = {f"g{n}": x for n, x in enumerate(call.operands[:count])}
        scope = _Scope(call, names | given)
        wanted = [name for name in self.operands if name in self.backward]
        if len(call.types) < len(wanted):
            targets = [self.operands[at - count] for at in call.targets if at is not None and at >= count]
            if len(targets) != len(call.types):
                raise NoMeaning(f"{len(call.types)} of {len(wanted)} gradients of `{call.kind}`, and which is not said")
            wanted = targets
        return [gathered(call.program, scope.value(self.backward[n]), names[n].shape) for n in wanted]


class _Scope:
    """Expressions as ops, over named values."""

    def __init__(self, call: Call, names: Mapping[str, Tensor]) -> None:
        self.call, self.program = call, call.program
        self.names: dict[str, Operand] = dict(names)
        for n, number in enumerate(call.numbers()):
            self.names.setdefault(f"c{n}", number)

    def tensor(self, expression: ast.expr, shape: Sequence[int]) -> Tensor:
        """A value of a shape."""
        found = self.value(expression)
        return found if tuple(found.shape) == tuple(shape) else spread(self.program, found, shape)

    def value(self, expression: ast.expr) -> Tensor:
        """A value that is a tensor."""
        found = self._any(expression)
        if isinstance(found, Fraction):
            raise NoMeaning(f"`{ast.unparse(expression)}` is a number, and of what shape is not said")
        return found

    def _any(self, e: ast.expr) -> Operand:
        if isinstance(e, ast.Constant):
            return Fraction(str(e.value))
        if isinstance(e, ast.Name):
            if e.id in self.names:
                return self.names[e.id]
            text = self.call.attributes.get(e.id)
            if text is None:
                raise NoMeaning(f"`{self.call.kind}` has no attribute `{e.id}`")
            try:
                return Fraction(text)
            except ValueError:
                raise NoMeaning(f"the attribute {e.id}={text} is no number") from None
        if isinstance(e, ast.UnaryOp):
            x = self._any(e.operand)
            return -x if isinstance(x, Fraction) else self.program.negate(x)
        if isinstance(e, ast.BinOp):
            return self._two(_SIGNS[type(e.op)], self._any(e.left), self._any(e.right))
        assert isinstance(e, ast.Call)
        assert isinstance(e.func, ast.Name)
        if e.func.id in _SHAPED:
            numbers = [self._integer(arg) for arg in e.args[_SHAPED[e.func.id] :]]
            values = [self.value(arg) for arg in e.args[: _SHAPED[e.func.id]]]
            return _OPS[e.func.id](self, values, numbers)
        values = [self.value(arg) for arg in e.args]
        shape = common(*(x.shape for x in values))
        kind = e.func.id.replace("_", "-")
        return self.program.op(kind, *(spread(self.program, x, shape) for x in values)).result

    def _integer(self, e: ast.expr) -> int:
        found = self._any(e)
        if not isinstance(found, Fraction) or found.denominator != 1:
            raise NoMeaning(f"`{ast.unparse(e)}` is no whole number")
        return int(found)

    def _two(self, kind: str, x: Operand, y: Operand) -> Operand:
        if isinstance(x, Fraction) and isinstance(y, Fraction):
            if kind == "divide" and y == 0:
                raise NoMeaning("a division by 0")
            return {"add": x + y, "subtract": x - y, "multiply": x * y, "divide": x / y if y else x}[kind]
        like = x if isinstance(x, Tensor) else y
        assert isinstance(like, Tensor)
        x, y = (self.program.full(v, like.shape, like.dtype) if isinstance(v, Fraction) else v for v in (x, y))
        shape = common(x.shape, y.shape)
        return self.program.op(kind, *(spread(self.program, v, shape) for v in (x, y))).result

    def dim(self, x: Tensor, number: int) -> int:
        """A dim, counted from 0."""
        if not -len(x.shape) <= number < len(x.shape):
            raise IllTyped(f"dim {number} of a value of {len(x.shape)} dims")
        return number % len(x.shape)


def _sum(s: _Scope, values: list[Tensor], numbers: list[int]) -> Tensor:
    """Over dims, which stay with one element."""
    (x,) = values
    dims = [s.dim(x, n) for n in numbers] or list(range(len(x.shape)))
    kept = [1 if d in dims else n for d, n in enumerate(x.shape)]
    return recut(s.program, s.program.reduce(x, dims), kept)


def _matmul(s: _Scope, values: list[Tensor], numbers: list[int]) -> Tensor:
    x, y = values
    n = len(x.shape)
    if n < 2 or len(y.shape) != n or x.shape[:-2] != y.shape[:-2] or x.shape[-1] != y.shape[-2]:
        raise IllTyped(f"{list(x.shape)} times {list(y.shape)}")
    return s.program.dot(x, y, ([n - 1], [n - 2]), (list(range(n - 2)), list(range(n - 2))))


def _transpose(s: _Scope, values: list[Tensor], numbers: list[int]) -> Tensor:
    (x,), (a, b) = values, numbers
    order = list(range(len(x.shape)))
    a, b = s.dim(x, a), s.dim(x, b)
    order[a], order[b] = order[b], order[a]
    return s.program.transpose(x, *order)


def _softmax(s: _Scope, values: list[Tensor], numbers: list[int]) -> Tensor:
    return s.program.softmax(values[0], s.dim(values[0], numbers[0]))


_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide",
}  # fmt: skip
_SHAPED = {"sum": 1, "matmul": 2, "transpose": 1, "softmax": 1}
"""Functions that are not elementwise: how many of their arguments are values; the others are whole numbers."""
_NUMBERS = {"sum": (0, 8), "matmul": (0, 0), "transpose": (2, 2), "softmax": (1, 1)}
_OPS: dict[str, Callable[[_Scope, list[Tensor], list[int]], Tensor]] = {
    "sum": _sum, "matmul": _matmul, "transpose": _transpose, "softmax": _softmax,
}  # fmt: skip
_TYPED = frozenset(
    """bitcast-convert clz compare complex convert imag is-finite popcnt real reduce-precision shift-left
    shift-right-arithmetic shift-right-logical and or xor not""".split()  # noqa: SIM905
)
"""Kinds that need more than operands, or other types than those of real numbers."""


def read(directory: Path) -> dict[str, Function]:
    """The functions that are declared beside the tables; InputError where the file cannot be understood."""
    file = directory / FILE
    if not file.is_file():
        return {}
    data = yaml_text.load(file, "the functions")
    enter_all()
    if not isinstance(data, dict):
        raise InputError("no functions", file=file, expected="a mapping from names to operands, forward, backward")
    return {str(name): _function(str(name), said, file) for name, said in data.items()}


def _function(name: str, said: Any, file: Path) -> Function:
    text = file.read_text("utf-8")
    line = next((n for n, row in enumerate(text.splitlines(), 1) if row.startswith(f"{name}:")), 0)

    def wrong(message: str, expected: str) -> InputError:
        return InputError(f"`{name}`: {message}", file=file, line=line, expected=expected)

    if name in FORWARD or name in BACKWARD:
        raise wrong("this kind has a meaning already", "a name of your own")
    if not isinstance(said, dict) or not said.keys() <= {"operands", "forward", "backward"} or len(said) < 2:
        raise wrong("it says something else", "`operands`, `forward` and perhaps `backward`")
    operands, forward, backward = said.get("operands"), said.get("forward"), said.get("backward") or {}
    if not isinstance(operands, list) or not all(isinstance(x, str) and x.isidentifier() for x in operands):
        raise wrong("`operands` is no list of names", "operands: [x, y]")
    if not isinstance(forward, list) or not forward or not isinstance(backward, dict):
        raise wrong("`forward` is no list, or `backward` no mapping", "forward: [x * y], backward: {x: g0 * y}")
    if not backward.keys() <= set(operands):
        raise wrong(f"a gradient of {', '.join(map(str, backward.keys() - set(operands)))}", "gradients of operands")

    def parsed(one: Any) -> ast.expr:
        try:
            found = ast.parse(str(one).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            raise wrong(f"`{one}` is no expression", "such as x * logistic(gate)") from None
        for node in ast.walk(found):
            if not _known(node):
                raise wrong(f"`{ast.unparse(node)}` is not known here", _KNOWN)
        return found

    return Function(tuple(operands), tuple(map(parsed, forward)), {key: parsed(one) for key, one in backward.items()})


_KNOWN = f"names, numbers, + - * /, elementwise kinds of docs/facts.md, {', '.join(_SHAPED)}"


def _known(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, bool) and isinstance(node.value, (int, float)) and abs(node.value) < 2.0**127
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.keywords:
            return False
        name, count = node.func.id, len(node.args)
        if name in _SHAPED:
            least, most = _NUMBERS[name]
            return least <= count - _SHAPED[name] <= most
        kind = name.replace("_", "-")
        return kind in ELEMENTWISE - _TYPED and count == ARITY.get(kind, 1)
    if isinstance(node, ast.BinOp):
        return type(node.op) in _SIGNS
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub)
    return isinstance(node, (ast.Name, ast.Load, ast.operator, ast.USub))
