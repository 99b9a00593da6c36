"""Which names a statement may give another meaning, where what it does is not followed."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def rebound(node: ast.AST) -> set[str]:
    """Names that are bound in a statement, in its parts, or in what functions in it call their own from outside."""
    found: set[str] = set()
    for inner in _own(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                found |= _base(inner)
            case ast.Call(func=ast.Attribute() as method):
                found |= _base(method)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
                for part in ast.walk(inner):
                    found |= set(part.names) if isinstance(part, (ast.Global, ast.Nonlocal)) else set()
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {alias.asname or alias.name.partition(".")[0] for alias in names}
    return found


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and its parts, without what is within functions."""
    yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return
    for part in ast.iter_child_nodes(node):
        yield from _own(part)


def _base(node: ast.AST) -> set[str]:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
