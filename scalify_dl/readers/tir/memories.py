"""Memory of kernels: declarations of buffers, fresh memory, parts of buffers under other names."""

from __future__ import annotations

import ast
from math import prod

from .calls import MODULES
from .expressions import Reader, View
from .syntax import Alloc, Buffer, Load, Number, Statement, Store
from .types import dtype_of


def language_call(node: ast.AST | None) -> str:
    """The name of a call of the language, as in `T.name(…)`; empty for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        base = node.func.value
        if isinstance(base, ast.Name) and base.id in MODULES:
            return node.func.attr
        if isinstance(base, ast.Attribute) and base.attr == "axis":
            return f"axis.{node.func.attr}"
    return ""


def keywords(node: ast.Call) -> dict[str, ast.expr]:
    """Named arguments."""
    return {k.arg: k.value for k in node.keywords if k.arg}


class Memories(Reader):
    """Reads what declares memory."""

    def shape(self, node: ast.expr) -> tuple[int, ...]:
        """A shape whose sizes are known."""
        value = self.value(node)
        sizes = value if isinstance(value, tuple) else (value,)
        known = [s.value if isinstance(s, Number) else s for s in sizes]
        if not all(isinstance(s, int) and not isinstance(s, bool) and s > 0 for s in known):
            self.fail(node, f"the shape `{ast.unparse(node)[:60]}` is not known", expected="whole numbers above 0")
        return tuple(int(s) for s in known)

    def dtype(self, node: ast.expr | None, default: str = "f32") -> str:
        """An element type."""
        if node is None:
            return default
        value = self.value(node)
        found = value if isinstance(value, str) and value[:1] in "sufbp" and dtype_of(value) is None else None
        found = found or (dtype_of(value) if isinstance(value, str) else None)
        return found or self.fail(node, f"the type `{ast.unparse(node)[:40]}` is not known")

    def declared(self, node: ast.Call) -> tuple[tuple[int, ...], str]:
        """Shape and type of a declaration; strides and offsets other than the usual ones are not understood."""
        given = keywords(node)
        first = node.args[0] if node.args else given.get("shape")
        if first is None:
            self.fail(node, "a buffer without a shape")
        shape = self.shape(first)
        plain = tuple(prod(shape[d + 1 :]) for d in range(len(shape)))
        for key, usual in (("strides", plain), ("elem_offset", 0), ("byte_offset", 0)):
            if key in given and self.value(given[key]) not in (None, usual):
                self.fail(node, f"a buffer with `{key}` is not understood")
        return shape, self.dtype(node.args[1] if len(node.args) > 1 else given.get("dtype"))

    def allocate(self, name: str, call: str, node: ast.Call) -> list[Statement]:
        """Fresh memory under a name."""
        given, default = keywords(node), call.removeprefix("alloc_")
        if call == "alloc_var":
            dtype = self.dtype(node.args[0] if node.args else given.get("dtype"))
            buffer = Buffer(name, (), dtype, "variable", node.lineno)
            self.names.known[name] = buffer
            start = given.get("init") or (node.args[1] if len(node.args) > 1 else None)
            found: list[Statement] = [Alloc(buffer, node.lineno)]
            if start is not None:
                x = self.typed(self.expression(start, self.value(start)), dtype)
                found.append(Store(buffer, (), x, node.lineno))
            return found
        shape, dtype = self.declared(node)
        scope = "global" if call.endswith("alloc_buffer") else default
        if "scope" in given:
            said = self.value(given["scope"])
            scope = said if call.endswith("alloc_buffer") else default
        buffer = Buffer(name, shape, dtype, scope, node.lineno)
        self.names.known[name] = buffer
        return [Alloc(buffer, node.lineno)]

    def match_buffer(self, name: str, node: ast.Call) -> list[Statement]:
        """An argument, or a part of a buffer, under another name."""
        what = self.value(node.args[0])
        if isinstance(what, Load):
            one = (1,) * len(what.indices)
            what = View(what.buffer, what.indices, one, (False,) * len(one))
        if not isinstance(what, (Buffer, View)):
            self.fail(node, "what is matched is no buffer")
        given = keywords(node)
        first = node.args[1] if len(node.args) > 1 else given.get("shape")
        shape = what.shape if first is None else self.shape(first)
        if isinstance(what, Buffer):
            what = View(what, (Number(0, "int"),) * len(what.shape), what.shape, (False,) * len(what.shape))
        sizes = what.shape
        extra = len(sizes) - len(shape)
        if extra < 0 or sizes[extra:] != shape or any(n != 1 for n in sizes[:extra]):
            self.fail(node, f"a part of shape {sizes} is matched with shape {shape}")
        seen, dropped = 0, []
        for gone in what.dropped:
            dropped.append(gone or seen < extra)
            seen += not gone
        self.names.known[name] = View(what.buffer, what.starts, what.extents, tuple(dropped))
        return []
