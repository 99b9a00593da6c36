"""Statements of kernels: loops, blocks, stores, names, memory; tile statements are in `tiles.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from . import tiles
from .expressions import EXPRESSIONS, Names, Open, View
from .memories import Memories, language_call, only
from .syntax import Apply, Axis, Block, Buffer, Expr, If, Launch, Let, Load, Loop, Number, Statement, Store, Var

_IGNORED = frozenset(
    """func_attr reads writes sblock_attr block_attr annotate_layout use_swizzle annotate_l2_hit_ratio evaluate
    sync_threads syncthreads annotate_safe_value no_set_max_nreg set_max_nreg disable_warp_group_reg_alloc print
    device_assert annotate_padding""".split()  # noqa: SIM905
) - {"annotate_safe_value"}
"""Calls that do not change what is computed."""
_ALLOCATIONS = frozenset(
    """alloc_buffer sblock_alloc_buffer alloc_shared alloc_fragment alloc_local alloc_var""".split()  # noqa: SIM905
)
_LOOPS = {
    "serial": "serial", "unroll": "serial", "unrolled": "serial", "Pipelined": "serial", "Serial": "serial",
    "Unroll": "serial", "Parallel": "parallel", "parallel": "parallel", "vectorized": "parallel", "grid": "serial",
    "Vectorized": "parallel",
}  # fmt: skip

_BOUNDS = ("start", "stop", "step")
_HOW = ("annotations", "num_stages", "order", "stage", "sync", "group", "coalesced_width", "loop_layout", "explicit",
        "unroll_factor", "prefer_async", "parent")  # fmt: skip
"""Named arguments of loops that say how they are run, not what is computed."""


class Statements(Memories):
    """Reads bodies of functions."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.taken: dict[str, int] = {}
        self.block: Block | None = None
        self.depth = 0
        self.bound: list[str] = []
        """Threads and blocks that loops around this one are bound to."""

    def variable(self, name: str, dtype: str = "int") -> Var:
        """A new variable; names are unique in a kernel."""
        count = self.taken.get(name, 0)
        self.taken[name] = count + 1
        found = Var(f"{name}.{count}" if count else name, dtype)
        self.names.known[name] = found
        return found

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
                return [*found, Loop(var.name, Number(0, "int"), extent, kind, rest, node.lineno)]  # type: ignore[arg-type]
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
    def _target(self, node: ast.AST) -> str:
        return node.id if isinstance(node, ast.Name) else self.fail(node, "a name was expected")

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

    def _launch(self, node: ast.With, call: ast.Call, name: ast.expr | None) -> Launch:
        extents = [self.index(a, self.value(a)) for a in call.args]
        names = [] if name is None else [self._target(n) for n in getattr(name, "elts", [name])]
        if len(names) not in (0, len(extents)):
            self.fail(node, f"{len(extents)} extents of a grid and {len(names)} names")
        names = names or [f"block{n}" for n in range(len(extents))]
        self.names = Names(outer=self.names)
        self.depth += 1
        variables = tuple(self.variable(n).name for n in names)
        with self._bound(node, *(f"blockIdx.{axis}" for axis in "xyz"[: len(extents)]), "threadIdx.x"):
            body = self.statements(node.body)
        self.depth -= 1
        assert self.names.outer is not None
        self.names = self.names.outer
        return Launch(variables, tuple(extents), body, node.lineno)

    # ---- loops ----
    extents: dict[str, tuple[int, int]]

    @contextmanager
    def _bound(self, node: ast.AST, *threads: str) -> Iterator[None]:
        """Threads and blocks are bound once: a loop within that is bound to the same one is the same loop."""
        for thread in threads:
            if thread in self.bound and not thread.startswith("vthread"):
                self.fail(node, f"`{thread}` is bound by a loop around this one already")
        self.bound += threads
        try:
            yield
        finally:
            del self.bound[len(self.bound) - len(threads) :]

    def _thread(self, call: ast.Call) -> tuple[str, Expr, str]:
        given = only(self, call, 2, "thread", "annotations")
        if language_call(call) == "launch_thread":
            thread, extent = self.value(call.args[0]), call.args[1]
        else:
            if len(call.args) != 1 or "thread" not in given:
                self.fail(call, "a thread binding other than T.thread_binding(n, thread=…)")
            thread, extent = self.value(given["thread"]), call.args[0]
        if not isinstance(thread, str) or not thread.startswith(("blockIdx", "threadIdx", "vthread")):
            self.fail(call, f"the thread `{thread}` is not known", expected="blockIdx.x …, threadIdx.x …, vthread")
        kind = "block" if thread.startswith("blockIdx") else "thread"
        return kind, self.index(extent, self.value(extent)), thread

    def _for(self, node: ast.For) -> list[Statement]:
        if node.orelse or not isinstance(node.iter, ast.Call):
            self.fail(node, f"a loop over `{ast.unparse(node.iter)[:60]}` is not understood")
        call = node.iter
        names = [self._target(n) for n in getattr(node.target, "elts", [node.target])]
        what = language_call(call)
        if what == "thread_binding":
            kind, extent, thread = self._thread(call)
            with self._bound(node, thread):
                made = self._loops(node, names, [Number(0, "int")], [extent], kind, node.body)
            return tiles.launched(made) if kind == "block" else made
        is_range = isinstance(call.func, ast.Name) and call.func.id == "range"
        kind = "serial" if is_range else _LOOPS.get(what, "")
        if not kind:
            self.fail(node, f"a loop over `{ast.unparse(call)[:60]}` is not understood")
        given = only(self, call, len(call.args), *_HOW, *_BOUNDS)
        args = [self.index(a, self.value(a)) for a in call.args]
        if what in ("grid", "Parallel"):
            starts = [Number(0, "int") for _ in args]
            return self._loops(node, names, starts, args, kind, node.body)
        bounds = dict(zip(_BOUNDS[:2] if what == "Pipelined" else _BOUNDS, args, strict=False))
        bounds |= {key: self.index(given[key], self.value(given[key])) for key in _BOUNDS if key in given}
        start = bounds.get("start", Number(0, "int"))
        if not 1 <= len(bounds) <= 3 or len(args) > 3 or len(bounds) < min(len(args), 2):
            self.fail(node, "a loop without bounds")
        if "stop" not in bounds:
            start, bounds["stop"] = Number(0, "int"), start
        extent = self.apply(node, "subtract", bounds["stop"], start)
        if isinstance(start, Number) and isinstance(bounds["stop"], Number):
            extent = Number(bounds["stop"].value - start.value, "int")
        step = bounds.get("step", Number(1, "int"))
        if step == Number(1, "int"):
            return self._loops(node, names, [start], [extent], kind, node.body)
        if not isinstance(step, Number) or step.value < 1 or not isinstance(start, (Number, Var)):
            self.fail(node, "a loop with steps from what is no number, or by what is no number above 0")
        count = self.apply(node, "floor-divide", self.apply(node, "add", extent, step.value - 1), step.value)
        if isinstance(extent, Number):
            count = Number(-(-extent.value // step.value), "int")
        return self._loops(node, names, [Number(0, "int")], [count], kind, node.body, (start, step))

    def _loops(
        self, node: ast.stmt, names: list[str], starts: list[Any], extents: list[Any], kind: str,
        body: list[ast.stmt], steps: tuple[Any, Number] | None = None,
    ) -> list[Statement]:  # fmt: skip
        """Loops around a body; `steps` are where the only one starts, and by how much it goes on."""
        if len(names) != len(extents):
            self.fail(node, f"{len(names)} names of {len(extents)} loops")
        self.names = Names(outer=self.names)
        self.depth += 1
        variables = [self.variable(n) for n in names]
        for var, start, extent in zip(variables, starts, extents, strict=True):
            if isinstance(start, Number) and isinstance(extent, Number):
                self.extents[var.name] = (int(start.value), int(start.value + extent.value))
        if steps is not None:
            gone = Apply("multiply", (variables[0], steps[1]), "int", node.lineno)
            self.names.known[names[0]] = self.apply_index("add", steps[0], gone)
        inner = self.statements(body)
        self.depth -= 1
        assert self.names.outer is not None
        self.names = self.names.outer
        for var, start, extent in reversed(list(zip(variables, starts, extents, strict=True))):
            inner = [Loop(var.name, start, extent, kind, inner, node.lineno)]  # type: ignore[arg-type]
        return inner

    # ---- calls ----
    def _call(self, node: ast.Call) -> list[Statement]:
        name = language_call(node)
        if name in _IGNORED:
            if name == "evaluate" and not isinstance(node.args[0], ast.Constant):
                self.fail(node, f"`{ast.unparse(node)[:60]}` is not understood")
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
