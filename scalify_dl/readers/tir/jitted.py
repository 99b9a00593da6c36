"""Functions under `@tilelang.jit` that are kernels themselves, written as functions that make one.

@tilelang.jit                                   @tilelang.jit
def matmul(A, B, block, dtype=T.float16):       def matmul(A, B, block, dtype=T.float16):
    M, N, K = T.const("M, N, K")                    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)                      @T.prim_func
    B: T.Tensor((K, N), dtype)                      def matmul(A: T.Tensor((M, K), dtype),
    C = T.empty((M, N), dtype)         ──►                     B: T.Tensor((K, N), dtype),
    with T.Kernel(…) as (x, y):                                C: T.Tensor((M, N), dtype)):
        …                                               with T.Kernel(…) as (x, y):
    return C                                                …
"""

from __future__ import annotations

import ast

from .memories import language_call
from .rebound import rebound


def written_out(module: ast.Module) -> ast.Module:
    """A file in which every kernel is a function under `@T.prim_func` whose arguments have types as calls."""
    for node in list(ast.walk(module)):
        if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Subscript):
            node.annotation = _as_call(node.annotation)
    for node in list(ast.walk(module)):
        if isinstance(node, ast.FunctionDef) and _is_whole(node) and not _says_twice(node):
            _split(node)
    return module


def _as_call(node: ast.Subscript) -> ast.expr:
    """`T.Tensor[(M, K), dtype]` as `T.Tensor((M, K), dtype)`."""
    if not isinstance(node.value, ast.Attribute) or node.value.attr not in ("Tensor", "Buffer"):
        return node
    said = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return ast.copy_location(ast.Call(node.value, said, []), node)


def _is_whole(node: ast.FunctionDef) -> bool:
    """Whether a function under `jit` launches a grid itself."""
    called = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    jit = any((d.attr if isinstance(d, ast.Attribute) else getattr(d, "id", "")) == "jit" for d in called)
    return jit and any(_launches(statement) for statement in node.body)


def _launches(node: ast.stmt) -> bool:
    return isinstance(node, ast.With) and any(language_call(item.context_expr) == "Kernel" for item in node.items)


def _says_twice(node: ast.FunctionDef) -> bool:
    """Whether a name has another meaning after the type of an argument has spoken of it: types are read at the end."""
    spoken: set[str] = set()
    for statement in node.body:
        if rebound(statement) & spoken:
            return True
        what = statement.annotation if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign) and language_call(statement.value) == "empty":
            what = statement.value
        spoken |= {n.id for n in ast.walk(what) if isinstance(n, ast.Name) and n.id != "T"} if what else set()
    return False


def _split(node: ast.FunctionDef) -> None:
    """What comes before the grid stays around the kernel, types of arguments the kernel's, `T.empty` its results."""
    parameters = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    types = {a.arg: a.annotation for a in node.args.args if language_call(a.annotation) in ("Tensor", "Buffer")}
    made: dict[str, ast.Call] = {}
    returned: list[str] = []
    around: list[ast.stmt] = []
    within: list[ast.stmt] = []
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=said, value=None) if name in parameters:
                types[name] = _as_call(said) if isinstance(said, ast.Subscript) else said
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if language_call(call) == "empty":
                made[name] = call
            case ast.Return(value=value):
                items = value.elts if isinstance(value, ast.Tuple) else [value]
                returned += [item.id for item in items if isinstance(item, ast.Name) and item.id in made]
            case ast.Expr(value=ast.Constant()):
                pass
            case _ if within or _launches(statement):
                within.append(statement)
            case _:
                around.append(statement)
    for name, call in made.items():
        kind = "Tensor" if name in returned else "alloc_buffer"
        assert isinstance(call.func, ast.Attribute)
        call.func = ast.copy_location(ast.Attribute(call.func.value, kind, ast.Load()), call)
        if name not in returned:
            within.insert(0, ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], call), call))
    arguments = [(name, types[name]) for name in parameters if name in types] + [(n, made[n]) for n in returned]
    args = [ast.copy_location(ast.arg(name, said), said or node) for name, said in arguments]
    kernel = ast.FunctionDef(node.name, _arguments(args), within, [ast.Name("prim_func", ast.Load())])
    node.body = [*around, ast.fix_missing_locations(ast.copy_location(kernel, node))]


def _arguments(args: list[ast.arg]) -> ast.arguments:
    return ast.arguments([], args, None, [], [], None, [])
