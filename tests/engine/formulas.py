"""Formulas as the engine writes them, evaluated exactly: an independent reader for the tests."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from fractions import Fraction
from math import floor

from scalify_dl.pysouffle import Branch, Condition
from scalify_dl.pysouffle.values import Row, Value

Point = Mapping[str, int]


def evaluate(text: str | int, point: Point) -> Fraction:
    """The exact value of a formula at a point."""
    return _walk(ast.parse(str(text).replace("^", "**"), mode="eval").body, point)


def _walk(node: ast.expr, point: Point) -> Fraction:
    match node:
        case ast.Constant(value=int(value)):
            return Fraction(value)
        case ast.Name(id=name):
            return Fraction(point[name])
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_walk(inner, point)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _walk(left, point), _walk(right, point)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return a / b
                case ast.Pow():
                    return Fraction(a**b)
        case ast.Call(func=ast.Name(id="floor"), args=[inner]):
            return Fraction(floor(_walk(inner, point)))
        case ast.Call(func=ast.Name(id="mod"), args=[left, right]):
            return _walk(left, point) % _walk(right, point)
    raise ValueError(ast.dump(node))


def holds(condition: Condition, point: Point) -> bool:
    """Does a condition hold at a point? Not where it divides by zero."""
    try:
        left, right = evaluate(condition.left, point), evaluate(condition.right, point)
        match condition.kind:
            case "less":
                return left < right
            case "less_equal":
                return left <= right
            case "not_equal":
                return left != right
            case "equal":
                return left == right
            case "integer":
                return (left / right).denominator == 1
    except ZeroDivisionError:
        return False
    raise ValueError(condition.kind)


def instance(row: Row, point: Point, kinds: str) -> Row:
    """A row at a point; `kinds`: a letter per column, n number, s symbol, r record of numbers."""
    return tuple(_instance(value, point, kind) for value, kind in zip(row, kinds, strict=True))


def _instance(value: Value, point: Point, kind: str) -> Value:
    if kind == "s":
        # formulas in texts stand between bars
        return "|".join(_whole(part, point) if i % 2 else part for i, part in enumerate(value.split("|")))
    if kind == "r" and value is not None:
        return tuple(_instance(field, point, "n") for field in value)
    if isinstance(value, Branch | None):
        return value
    return int(_whole(value, point))


def _whole(text: str | int, point: Point) -> str:
    number = evaluate(text, point)
    assert number.denominator == 1, f"{text} is no integer at {point}"
    return str(number.numerator)
