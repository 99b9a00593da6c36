"""Statements of kernels: loops, blocks, stores, names, memory; tile statements are in `tiles.py`."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from . import tiles
from .expressions import EXPRESSIONS, Names, Open, View
from .loops import Loops
from .memories import language_call
from .syntax import Axis, Block, Buffer, If, Let, Load, Loop, Number, Statement, Store, Var

_IGNORED = frozenset(
    """func_attr reads writes sblock_attr block_attr annotate_layout use_swizzle annotate_l2_hit_ratio evaluate
    sync_threads syncthreads no_set_max_nreg set_max_nreg disable_warp_group_reg_alloc print device_assert
    annotate_padding""".split()  # noqa: SIM905
)
"""Calls that do not change what is computed."""
_ALLOCATIONS = frozenset(
    """alloc_buffer sblock_alloc_buffer alloc_shared alloc_fragment alloc_local alloc_var""".split()  # noqa: SIM905
)


class Statements(Loops):
    """Reads bodies of functions."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.block: Block | None = None

    def scoped(self, nodes: list[ast.stmt]) -> list[Statement]:
        """A body with names of its own."""
        self.names = Names(outer=self.names)
        self.depth += 1
        try:
            return self.statements(nodes)
        finally:
            self.depth -= 1
            assert self.names.outer is not None
            self.names = self.names.outer

    def statements(self, nodes: list[ast.stmt]) -> list[Statement]:
        """Statements in order."""
        found: list[Statement] = []
        for at, node in enumerate(nodes):
            if isinstance(node, ast.Assign) and language_call(node.value) == "launch_thread":
                assert isinstance(node.value, ast.Call)
                kind, extent, thread = self._thread(node.value)
                var = self.variable(self._target(node.targets[0]))
                with self._bound(node, thread):
                    rest = self.statements(nodes[at + 1 :])
                return [*found, Loop(var.name, Number(0, "int"), extent, kind, rest, node.lineno, thread)]  # type: ignore[arg-type]
            found += self.statement(node)
        return found

    def statement(self, node: ast.stmt) -> list[Statement]:
        """One statement; those that do nothing are none."""
        self.line = node.lineno
        match node:
            case ast.Pass() | ast.Import() | ast.ImportFrom():
                return []
            case ast.Expr(value=ast.Constant()):
                return []
            case ast.Expr(value=ast.Call() as call):
                return self._call(call)
            case ast.Assign(targets=[target], value=value):
                return self._assign(node, target, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                return self._assign(node, target, value, node.annotation)
            case ast.AugAssign(target=target, op=op, value=value):
                left = ast.copy_location(ast.parse(ast.unparse(target), mode="eval").body, node)
                for inner in ast.walk(left):
                    ast.copy_location(inner, node)
                both = ast.copy_location(ast.BinOp(left, op, value), node)
                return self._assign(node, target, both)
            case ast.For():
                return self._for(node)
            case ast.With(items=items):
                return self._with(node, items)
            case ast.If(test=test, body=body, orelse=orelse):
                condition = self.value(test)
                if not isinstance(condition, EXPRESSIONS):
                    return self.statements(body if condition else orelse)
                yes, no = self.scoped(body), self.scoped(orelse)
                return [If(self.truth(test, condition), yes, no, node.lineno)]
        self.fail(node, f"the statement `{ast.unparse(node).splitlines()[0][:60]}` is not understood")

    # ---- names and stores ----
    def _assign(
        self, node: ast.stmt, target: ast.expr, value: ast.expr, annotation: ast.expr | None = None
    ) -> list[Statement]:
        if isinstance(target, ast.Subscript):
            return self._store(node, target, value)
        call = language_call(value)
        if isinstance(target, ast.Tuple):
            names = [self._target(item) for item in target.elts]
            if call == "axis.remap":
                assert isinstance(value, ast.Call)
                self._remap(value, names)
                return []
            found = self.value(value)
            if not isinstance(found, tuple) or len(found) != len(names):
                self.fail(node, "as many values as names were expected")
            return [s for n, item in zip(names, found, strict=True) for s in self._bind(node, n, item)]
        name = self._target(target)
        if call:
            assert isinstance(value, ast.Call)
            if call.startswith("axis."):
                self._axis(value, name, call.removeprefix("axis."))
                return []
            if call in _ALLOCATIONS:
                return self.allocate(name, call, value)
            if call == "match_buffer":
                return self.match_buffer(name, value)
            if call == "Buffer":  # no memory: annotations alone speak of it
                self.names.known[name] = Buffer(name, *self.declared(value), "global", node.lineno)
                return []
            if call.removeprefix("u") in ("int32", "int64", "int16", "int8") and not value.args:
                if not isinstance(self.names.known.get(name), int):
                    self.names.known[name] = Open(name)
                return []
            if call in ("dynamic", "symbolic", "launch_thread_idx"):
                return []
        try:
            held = self.names.get(name)
        except KeyError:
            held = None
        if isinstance(held, Buffer) and held.scope == "variable":
            x = self.typed(self.expression(value, self.value(value)), held.dtype)
            return [Store(held, (), x, node.lineno)]
        found = self.value(value)
        if annotation is not None and isinstance(found, (*EXPRESSIONS, int, float)):
            if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith(".let"):
                annotation = annotation.slice
            declared = self.value(annotation)
            if isinstance(declared, str) and declared != "s32":
                found = self.typed(self.expression(value, found), declared)
        return self._bind(node, name, found)

    def _bind(self, node: ast.stmt, name: str, found: Any) -> list[Statement]:
        if not isinstance(found, EXPRESSIONS):
            if self.depth and name in self._outer() and self._outer()[name] != found:
                self._again(node, name)
            self.names.known[name] = found
            return []
        if name in self._outer():
            self._again(node, name)
        dtype = {"real": "f32"}.get(found.dtype, found.dtype)
        return [Let(self.variable(name, dtype).name, found, node.lineno)]

    def _again(self, node: ast.stmt, name: str) -> NoReturn:
        self.fail(node, f"`{name}` is given another value in a loop or branch", hint="T.alloc_var, or a new name")

    def _outer(self) -> dict[str, Any]:
        """What the scopes of the function around this one name."""
        result: dict[str, Any] = {}
        scope = self.names.outer
        while scope is not None and scope.outer is not None and self.depth:
            result |= scope.known
            scope = scope.outer
        return result

    def _store(self, node: ast.stmt, target: ast.Subscript, value: ast.expr) -> list[Statement]:
        place = self.value(target)
        if isinstance(place, View):
            self.fail(node, "a store into a part of a buffer", expected="one element; T.copy or T.fill for parts")
        if not isinstance(place, Load):
            self.fail(node, "a store into what is no buffer")
        x = self.typed(self.expression(value, self.value(value)), place.dtype)
        return [Store(place.buffer, place.indices, x, node.lineno)]

    # ---- blocks ----
    def _axis(self, node: ast.Call, name: str, kind: str) -> None:
        domain, value = self.value(node.args[0]), self.value(node.args[1])
        low, high = domain if isinstance(domain, tuple) else (0, domain)
        kind = {"spatial": "S", "reduce": "R"}.get(kind, kind)
        self._add_axis(node, name, kind, low, high, value)

    def _remap(self, node: ast.Call, names: list[str]) -> None:
        kinds, values = self.value(node.args[0]), self.value(node.args[1])
        for name, kind, value in zip(names, kinds, values, strict=True):
            extent = self.extents.get(value.name) if isinstance(value, Var) else None
            if extent is None:
                self.fail(node, "T.axis.remap of what is no loop variable")
            self._add_axis(node, name, kind, *extent, value)

    def _add_axis(self, node: ast.AST, name: str, kind: str, low: Any, high: Any, value: Any) -> None:
        if self.block is None:
            self.fail(node, "an axis outside of a block")
        low, high = (x.value if isinstance(x, Number) else x for x in (low, high))
        if kind not in ("S", "R") or not isinstance(low, int) or not isinstance(high, int):
            self.fail(node, f"this axis of kind `{kind}` is not understood", expected="T.axis.spatial or T.axis.reduce")
        line = getattr(node, "lineno", 0)
        x = self.index(node, value)
        self.block.axes.append(Axis(self.variable(name).name, kind, low, high, x, line))

    def _with(self, node: ast.With, items: list[ast.withitem]) -> list[Statement]:
        if len(items) != 1:
            if all(language_call(item.context_expr) == "launch_thread" for item in items):
                inner = ast.copy_location(ast.With(items[1:], node.body), node)
                return self._with(ast.copy_location(ast.With(items[:1], [inner]), node), items[:1])
            self.fail(node, "several contexts in one `with`")
        call, name = items[0].context_expr, items[0].optional_vars
        what = language_call(call)
        if not isinstance(call, ast.Call):
            self.fail(node, f"`with {ast.unparse(call)[:60]}` is not understood")
        if what in ("block", "sblock"):
            return self._block(node, call)
        if what == "init":
            if self.block is None:
                self.fail(node, "T.init outside of a block")
            self.block.init += self.scoped(node.body)
            return []
        if what == "launch_thread":
            kind, extent, thread = self._thread(call)
            if name is None:
                self.fail(node, "T.launch_thread without a name")
            with self._bound(node, thread):
                return self._loops(node, [self._target(name)], [Number(0, "int")], [extent], kind, node.body)
        if what == "Kernel":
            return [self._launch(node, call, name)]
        self.fail(node, f"`with {ast.unparse(call)[:60]}` is not understood")

    def _block(self, node: ast.With, call: ast.Call) -> list[Statement]:
        title = str(self.value(call.args[0])) if call.args else ""
        outer, self.block = self.block, Block(title, [], [], [], [], node.lineno)
        self.depth += 1
        try:
            self.block.body = self.scoped(node.body)
            made = self.block
        finally:
            self.block = outer
            self.depth -= 1
        return [made] if made.axes or made.conditions or made.init else made.body

    # ---- calls ----
    def _call(self, node: ast.Call) -> list[Statement]:
        name = language_call(node)
        if name in _IGNORED:
            if name == "evaluate" and not isinstance(node.args[0], ast.Constant):
                self.fail(node, f"`{ast.unparse(node)[:60]}` is not understood")
            if name == "annotate_layout":
                self._layouts(node)
            return []
        if name == "attr" and len(node.args) == 1 and isinstance(node.args[0], ast.Dict):
            keys = [self.value(key) for key in node.args[0].keys if key is not None]
            if all(isinstance(key, str) and key.startswith("pragma_") for key in keys):
                return []
        if name == "where":
            if self.block is None:
                self.fail(node, "T.where outside of a block")
            self.block.conditions.append(self.truth(node, self.value(node.args[0])))
            return []
        if name in tiles.TILES:
            return tiles.TILES[name](self, node)
        if name == "buffer_store":
            target = ast.copy_location(ast.Subscript(node.args[0], node.args[2], ast.Store()), node)
            return self._store(ast.copy_location(ast.Pass(), node), target, node.args[1])
        if isinstance(node.func, ast.Name):
            try:
                found = self.names.get(node.func.id)
            except KeyError:
                found = None
            if isinstance(found, tiles.Macro):
                return tiles.inlined(self, node, found)
        called = ast.unparse(node.func)[:60]
        self.fail(node, f"the call `{called}` is not understood", hint="docs/kernels.md lists what is")

    def _layouts(self, node: ast.Call) -> None:
        """Layouts that TileLang makes give each element a place of its own; one by hand may not."""
        layouts = node.args[0].values if len(node.args) == 1 and isinstance(node.args[0], ast.Dict) else [node]
        for layout in layouts:
            made = layout.func if isinstance(layout, ast.Call) else None
            name = made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")
            if not (name.startswith("make_") and name.endswith("layout")) or self.names.has(name):
                said = ast.unparse(layout)[:60]
                self.fail(layout, f"the layout `{said}` is not understood", expected="make_swizzled_layout(…)")
