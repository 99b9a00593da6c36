"""Tile statements of TileLang: copies, products and reductions of tiles, atomics; macros are written out."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalify_dl.registry import registering

from .expressions import Names, View
from .syntax import (
    Apply,
    Block,
    Buffer,
    Copy,
    Fill,
    Gemm,
    If,
    Launch,
    Load,
    Loop,
    Number,
    Reduce,
    Region,
    Scan,
    Statement,
    Store,
)  # fmt: skip

if TYPE_CHECKING:
    from .statements import Statements

Reading = Callable[["Statements", ast.Call], list[Statement]]
TILES: dict[str, Reading] = {}
tile = registering(TILES)
"""Registers what reads some tile statements."""
HARMLESS = frozenset(
    """policy k_pack coalesced_width disable_tma eviction_policy prefer_async threads num_threads batch
    loop_layout""".split()  # noqa: SIM905
)
"""Named arguments that do not change what is computed."""


@dataclass(frozen=True, slots=True)
class Macro:
    """A function whose calls are written out, and the names that it sees."""

    node: ast.FunctionDef
    names: Names


def arguments(reader: Statements, node: ast.Call, *names: str) -> dict[str, ast.expr]:
    """Arguments by name; unknown ones are bad input."""
    if len(node.args) > len(names):
        reader.fail(node, f"`{ast.unparse(node)[:60]}` has more arguments than are known")
    found = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg in names:
            found[keyword.arg] = keyword.value
        elif keyword.arg not in HARMLESS:
            reader.fail(node, f"the argument `{keyword.arg}` is not understood")
    return found


def flag(reader: Statements, given: dict[str, ast.expr], name: str, default: bool) -> bool:
    """A yes or no."""
    if name not in given:
        return default
    value = reader.value(given[name])
    value = value.value if isinstance(value, Number) else value
    return bool(value) if isinstance(value, (bool, int)) else reader.fail(given[name], f"`{name}` is not known")


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes other than 1."""
    return tuple(n for n in shape if n != 1)


def fitted(reader: Statements, node: ast.Call, one: Region, other: Region) -> tuple[Region, Region]:
    """Two boxes of one shape: what is given by indices alone is as large as the other."""
    if all(one.dropped) and one.dropped and all(other.dropped) and other.dropped:
        return one, other
    if all(one.dropped) and one.dropped:
        one = _as_large(reader, node, one, other.shape)
    elif all(other.dropped) and other.dropped:
        other = _as_large(reader, node, other, one.shape)
    if squeezed(one.shape) != squeezed(other.shape):
        reader.fail(node, f"boxes of shapes {one.shape} and {other.shape}", expected="one shape")
    return one, other


def _as_large(reader: Statements, node: ast.Call, box: Region, shape: tuple[int, ...]) -> Region:
    extra = len(box.starts) - len(shape)
    if extra < 0:
        shape, extra = squeezed(shape), len(box.starts) - len(squeezed(shape))
    if extra < 0:
        reader.fail(node, f"a box of shape {shape} at {len(box.starts)} indices")
    return Region(box.buffer, box.starts, (1,) * extra + shape, (True,) * extra + (False,) * len(shape), box.line)


@tile("copy")
def _copy(reader: Statements, node: ast.Call) -> list[Statement]:
    given = arguments(reader, node, "src", "dst")
    source, target = fitted(reader, node, reader.region(given["src"]), reader.region(given["dst"]))
    return [Copy(source, target, node.lineno)]


@tile("clear")
def _clear(reader: Statements, node: ast.Call) -> list[Statement]:
    region = reader.region(arguments(reader, node, "buffer")["buffer"])
    return [Fill(region, Number(0, region.buffer.dtype), node.lineno)]


@tile("fill")
def _fill(reader: Statements, node: ast.Call) -> list[Statement]:
    given = arguments(reader, node, "buffer", "value")
    region = reader.region(given["buffer"])
    value = reader.typed(reader.expression(node, reader.value(given["value"])), region.buffer.dtype)
    return [Fill(region, value, node.lineno)]


@tile("gemm", "gemm_v1", "gemm_v2", "wgmma_gemm")
def _gemm(reader: Statements, node: ast.Call) -> list[Statement]:
    names = ["A", "B", "C", "transpose_A", "transpose_B", "policy", "clear_accum", "k_pack", "wg_wait"]
    if len(node.args) > len(names):  # as it is printed: sizes, and how it is done
        names[5:] = ["M", "N", "K", "policy", "clear_accum", "s", "t", "u", "v", "k_pack", "wg_wait", "y", "z"]
    given = arguments(reader, node, *names)
    if "wg_wait" in given and reader.value(given["wg_wait"]) != 0:
        reader.fail(node, "a product that is not waited for", expected="wg_wait=0")
    a, b, c = (reader.region(given[name]) for name in ("A", "B", "C"))
    ta, tb = flag(reader, given, "transpose_A", False), flag(reader, given, "transpose_B", False)
    shapes = [_matrix(reader, node, region) for region in (a, b, c)]
    (m, k), (k2, n) = (s[::-1] if t else s for s, t in zip(shapes, (ta, tb), strict=False))
    if k != k2 or shapes[2] != (m, n):
        said = " and ".join(map(str, shapes[:2]))
        reader.fail(node, f"a product of {said} into {shapes[2]}", expected=f"{(m, k)} and {(k, n)} into {(m, n)}")
    return [Gemm(a, b, c, ta, tb, flag(reader, given, "clear_accum", False), node.lineno)]


def _matrix(reader: Statements, node: ast.Call, region: Region) -> tuple[int, int]:
    shape = region.shape
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != 2:
        reader.fail(node, f"a tile of shape {region.shape} in a product", expected="two dims")
    return shape


def _reduction(reducer: str) -> Reading:
    def read(reader: Statements, node: ast.Call) -> list[Statement]:
        given = arguments(reader, node, "buffer", "out", "dim", "clear")
        source, target = reader.region(given["buffer"]), reader.region(given["out"])
        dim = reader.whole(given["dim"], "the dim") if "dim" in given else -1
        dim += len(source.shape) if dim < 0 else 0
        if not 0 <= dim < len(source.shape):
            reader.fail(node, f"dim {dim} of a tile of {len(source.shape)} dims")
        kept = source.shape[:dim] + source.shape[dim + 1 :]
        if target.shape not in (kept or (1,), (*source.shape[:dim], 1, *source.shape[dim + 1 :])):
            reader.fail(node, f"a reduction of {source.shape} over dim {dim} into {target.shape}", expected=f"{kept}")
        return [Reduce(reducer, source, target, dim, flag(reader, given, "clear", True), node.lineno)]

    return read


for _name, _reducer in {
    "reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_abssum": "abs-sum",
    "reduce_absmax": "abs-max",
}.items():  # fmt: skip
    TILES[_name] = _reduction(_reducer)


@tile("reduce")
def _reduce(reader: Statements, node: ast.Call) -> list[Statement]:
    """As it is printed: the reducer is an argument."""
    name = reader.value(node.args[2]) if len(node.args) == 5 else ""
    reducer = {"sum": "sum", "max": "max", "min": "min", "abssum": "abs-sum", "absmax": "abs-max"}.get(name)
    if reducer is None:
        reader.fail(node, f"`{ast.unparse(node)[:60]}` is not understood")
    keywords = [ast.keyword("dim", node.args[3]), ast.keyword("clear", node.args[4])]
    return _reduction(reducer)(reader, ast.copy_location(ast.Call(node.func, node.args[:2], keywords), node))


def launched(made: list[Statement]) -> list[Statement]:
    """Blocks of a launch around tile statements, as a grid; those around plain statements as they are."""
    if len(made) != 1 or not isinstance(made[0], Loop):
        return made
    loop = made[0]
    if len(loop.body) == 1 and isinstance(loop.body[0], Launch):
        inner = loop.body[0]
        return [Launch((loop.var, *inner.vars), (loop.extent, *inner.extents), inner.body, loop.line)]
    return [Launch((loop.var,), (loop.extent,), loop.body, loop.line)] if _tiled(loop.body) else made


def _tiled(body: list[Statement]) -> bool:
    for statement in body:
        match statement:
            case Copy() | Fill() | Gemm() | Reduce() | Scan():
                return True
            case Loop(body=inner) | Block(body=inner):
                if _tiled(inner):
                    return True
            case If(then=yes, otherwise=no):
                if _tiled(yes) or _tiled(no):
                    return True
            case _:
                pass
    return False


@tile("cumsum")
def _cumsum(reader: Statements, node: ast.Call) -> list[Statement]:
    given = arguments(reader, node, "src", "dst", "dim", "reverse")
    source = reader.region(given["src"])
    target = reader.region(given["dst"]) if "dst" in given else source
    dim = reader.whole(given["dim"], "the dim") if "dim" in given else 0
    dim += len(source.shape) if dim < 0 else 0
    if source.shape != target.shape or not 0 <= dim < len(source.shape):
        reader.fail(node, f"a running sum of {source.shape} over dim {dim} into {target.shape}")
    return [Scan(source, target, dim, flag(reader, given, "reverse", False), node.lineno)]


def _atomic(reducer: str) -> Reading:
    def read(reader: Statements, node: ast.Call) -> list[Statement]:
        given = arguments(reader, node, "dst", "value", "memory_order")
        target = reader.value(given["dst"])
        value: Any = reader.value(given["value"])
        if isinstance(value, (Buffer, View)) or isinstance(target, (Buffer, View)):
            if not isinstance(value, (Buffer, View)):
                reader.fail(node, "one value added to a part of a buffer")
            source, box = fitted(reader, node, reader.region(given["value"]), reader.region(given["dst"]))
            return [Copy(source, box, node.lineno, reducer)]
        if not isinstance(target, Load):
            reader.fail(node, "an atomic on what is no buffer")
        x = reader.typed(reader.expression(node, value), target.dtype)
        kind = {"sum": "add", "max": "maximum", "min": "minimum"}[reducer]
        updated = Apply(kind, (target, x), target.dtype, node.lineno)
        return [Store(target.buffer, target.indices, updated, node.lineno, reducer)]

    return read


for _name, _reducer in {"atomic_add": "sum", "atomic_addx2": "sum", "atomic_max": "max", "atomic_min": "min"}.items():
    if _name != "atomic_addx2":
        TILES[_name] = _atomic(_reducer)


def inlined(reader: Statements, node: ast.Call, macro: Macro) -> list[Statement]:
    """The body of a macro with its arguments."""
    taken = macro.node.args
    names = [a.arg for a in taken.args]
    if len(node.args) > len(names) or reader.depth > 40 or taken.vararg or taken.kwarg or taken.posonlyargs:
        reader.fail(node, f"the call of `{macro.node.name}` has more arguments than it takes, or never ends")
    values = {name: reader.value(value) for name, value in zip(names, node.args, strict=False)}
    defaults = dict(zip(reversed(names), reversed(taken.defaults), strict=False))
    names += [a.arg for a in taken.kwonlyargs]
    defaults |= {a.arg: d for a, d in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if d is not None}
    for keyword in node.keywords:
        if keyword.arg not in names or keyword.arg in values:
            reader.fail(node, f"the argument `{keyword.arg}` of `{macro.node.name}` is not understood")
        values[keyword.arg] = reader.value(keyword.value)
    for name, default in defaults.items():
        if name not in values:
            values[name] = reader.value(default)
    if missing := [name for name in names if name not in values]:
        reader.fail(node, f"the call of `{macro.node.name}` gives no `{missing[0]}`")
    outer, reader.names = reader.names, Names(values, macro.names)
    reader.depth += 1
    try:
        return reader.statements(macro.node.body)
    finally:
        reader.names = outer
        reader.depth -= 1
