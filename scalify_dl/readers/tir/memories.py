"""Memory of kernels: declarations of buffers, fresh memory, parts of buffers under other names."""

from __future__ import annotations

import ast
from math import prod

from scalify_dl.ir.vocabulary import DTYPES
from scalify_dl.sizes import Size

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


def only(reader: Reader, node: ast.Call, most: int, *names: str) -> dict[str, ast.expr]:
    """Named arguments; bad input where there are others, or more than `most` by their places."""
    other = [k.arg or "**" for k in node.keywords if k.arg not in names]
    if other:
        reader.fail(node, f"the argument `{other[0]}` is not understood", expected=f"one of {', '.join(names)}")
    if len(node.args) > most:
        reader.fail(node, f"`{ast.unparse(node)[:60]}` has more than {most} arguments by their places")
    return keywords(node)


_DECLARED = ("shape", "dtype", "scope", "strides", "elem_offset", "byte_offset", "align", "offset_factor")
"""What declarations of memory may say; `data` is none of these."""


class Memories(Reader):
    """Reads what declares memory."""

    def shape(self, node: ast.expr) -> tuple[int, ...]:
        """A shape whose sizes are known."""
        value = self.value(node)
        sizes = value if isinstance(value, tuple) else (value,)
        known = [s.value if isinstance(s, Number) else s for s in sizes]
        if odd := [s for s in known if not isinstance(s, int) or isinstance(s, bool) or s <= 0]:
            is_ = f"has the size {odd[0]!r}" if isinstance(odd[0], str | int | float) else "is not known"
            self.fail(node, f"the shape `{ast.unparse(node)[:60]}` {is_}", expected="whole numbers above 0")
        return tuple(s if isinstance(s, Size) else int(s) for s in known)

    def dtype(self, node: ast.expr | None, default: str = "f32") -> str:
        """An element type."""
        if node is None:
            return default
        value = self.value(node)
        found = dtype_of(value) or (value if value in (*DTYPES, "tf32") else None) if isinstance(value, str) else None
        text = value if isinstance(value, str) else ast.unparse(node)
        return found or self.fail(node, f"the element type `{text[:40]}` is not known", expected="float32, int8, …")

    def declared(self, node: ast.Call) -> tuple[tuple[int, ...], str]:
        """Shape and type of a declaration; strides and offsets other than the usual ones are not understood."""
        given = only(self, node, 2 if "scope" in keywords(node) else 3, *_DECLARED)
        if len(node.args) == 3 and not isinstance(self.value(node.args[2]), str):
            self.fail(node, "a buffer that is part of other memory")
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
        default = call.removeprefix("alloc_")
        if call == "alloc_var":
            given = only(self, node, 2, "dtype", "init", "scope")
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
        said = keywords(node).get("scope") or (node.args[2] if len(node.args) == 3 else None)
        scope = "global" if call.endswith("alloc_buffer") else default
        if said is not None and call.endswith("alloc_buffer"):
            scope = str(self.value(said))
        buffer = Buffer(name, shape, dtype, scope, node.lineno)
        self.names.known[name] = buffer
        return [Alloc(buffer, node.lineno)]

    def _as_it_lies(self, node: ast.Call, given: dict[str, ast.expr], what: Buffer | View) -> None:
        """Bad input where strides or an offset in numbers are others than those of what is matched."""
        whole = what if isinstance(what, Buffer) else what.buffer
        plain = [prod(whole.shape[d + 1 :]) for d in range(len(whole.shape))]
        said = given.get("strides")
        strides = said.elts if isinstance(said, (ast.Tuple, ast.List)) else [] if said is None else [said]
        for node_of, usual in zip(reversed(strides), reversed(plain), strict=False):
            if isinstance(node_of, ast.Constant) and node_of.value not in (None, usual):
                self.fail(node, f"memory with strides {ast.unparse(node_of)} where it has {usual} is not understood")
        for key in ("elem_offset", "byte_offset"):
            if isinstance(given.get(key), ast.Constant) and self.value(given[key]) is not None:
                self.fail(node, f"a part of memory with `{key}` is not understood")
        if "scope" in given and self.value(given["scope"]) not in ("", whole.scope):
            self.fail(node, f"memory of scope `{whole.scope}` is matched as of another")

    def match_buffer(self, name: str, node: ast.Call) -> list[Statement]:
        """An argument, or a part of a buffer, under another name."""
        what = self.value(node.args[0])
        if isinstance(what, Load):
            one = (1,) * len(what.indices)
            what = View(what.buffer, what.indices, one, (False,) * len(one))
        if not isinstance(what, (Buffer, View)):
            self.fail(node, "what is matched is no buffer")
        given = only(self, node, 3, *_DECLARED)
        element = node.args[2] if len(node.args) > 2 else given.get("dtype")
        held = what.dtype if isinstance(what, Buffer) else what.buffer.dtype
        if self.dtype(element, held) != held:
            self.fail(node, f"memory of {held} is matched as of another type")
        first = node.args[1] if len(node.args) > 1 else given.get("shape")
        shape = what.shape if first is None else self.shape(first)
        self._as_it_lies(node, given, what)
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
