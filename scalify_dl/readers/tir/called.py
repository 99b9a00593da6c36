"""What a call says of the sizes that a kernel's text leaves open: its arguments' shapes and types, by their names."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError

from .functions import chosen
from .memories import keywords, language_call
from .types import dtype_of

Shape = tuple[int, ...]
_NAMES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "pred": "bool",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip


def sizes_of_call(path: Path, arguments: Sequence[tuple[str, Shape]], function: str | None) -> dict[str, Any]:
    """What the names in the types of a kernel's arguments are where it is called with these (dtype, shape), in order.

    Only names that stand for a size or a type by themselves: `T.Tensor((M, K), dtype)` says M, K and dtype, and
    `(M // 2, K)` says K. InputError where a name would be two numbers.
    """
    module, node = chosen(path, function)
    lists = {
        target.id: one.value
        for one in ast.walk(module)
        if isinstance(one, ast.Assign) and isinstance(one.value, (ast.Tuple, ast.List))
        for target in one.targets
        if isinstance(target, ast.Name)
    }
    matched = {
        call.args[0].id: call.args[1:]
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and language_call(call) == "match_buffer" and isinstance(call.args[0], ast.Name)
    }
    found: dict[str, Any] = {}
    for argument, (dtype, shape) in zip(node.args.args, arguments, strict=False):
        said = _type_of(argument, matched)
        extents = said[0] if said else None
        if isinstance(extents, ast.Name):
            extents = lists.get(extents.id)
        if isinstance(extents, (ast.Tuple, ast.List)) and len(extents.elts) == len(shape):
            for extent, size in zip(extents.elts, shape, strict=True):
                if isinstance(extent, ast.Name) and found.setdefault(extent.id, size) != size:
                    raise InputError(
                        f"`{extent.id}` would be {found[extent.id]} and {size} where it is called",
                        file=path, line=extent.lineno, hint="the arguments of the call are the kernel's, in order",
                    )  # fmt: skip
        if len(said) > 1 and isinstance(said[1], ast.Name) and dtype_of(said[1].id) is None:
            found.setdefault(said[1].id, _NAMES.get(dtype) or f"{'u' if dtype[0] == 'u' else ''}int{dtype[1:]}")
    return found


def _type_of(argument: ast.arg, matched: dict[str, list[ast.expr]]) -> list[ast.expr]:
    """The expressions of shape and type of an argument."""
    what = argument.annotation
    if isinstance(what, ast.Call) and language_call(what) in ("Buffer", "Tensor"):
        named = keywords(what)
        said = [*what.args, *(named[key] for key in ("shape", "dtype")[len(what.args) :] if key in named)]
        return list(said)
    return matched.get(argument.arg, [])


def names_of(path: Path, function: str | None) -> set[str]:
    """Names that `--size` may give: parameters of functions around a kernel, symbolic sizes, numbers of the module."""
    module, node = chosen(path, function)
    found = {one.arg for one in node.args.args}
    for one in ast.walk(module):
        if isinstance(one, ast.FunctionDef) and any(inner is node for inner in ast.walk(one)):
            found |= {a.arg for a in (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs)}
        elif isinstance(one, ast.Assign):
            targets = [n for target in one.targets for n in getattr(target, "elts", [target])]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found
