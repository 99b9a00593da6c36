"""Loops of kernels: serial and parallel ones, threads and blocks, grids."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import tiles
from .expressions import Names
from .memories import Memories, language_call, only
from .syntax import Apply, Expr, Launch, Loop, Number, Statement, Var

_LOOPS = {
    "serial": "serial", "unroll": "serial", "unrolled": "serial", "Pipelined": "serial", "Serial": "serial",
    "Unroll": "serial", "Parallel": "parallel", "parallel": "parallel", "vectorized": "parallel", "grid": "serial",
    "Vectorized": "parallel",
}  # fmt: skip

_BOUNDS = ("start", "stop", "step")
_HOW = ("annotations", "num_stages", "order", "stage", "sync", "group", "coalesced_width", "loop_layout", "explicit",
        "unroll_factor", "prefer_async", "parent")  # fmt: skip
"""Named arguments of loops that say how they are run, not what is computed."""


class Loops(Memories):
    """Reads loops and grids."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.taken: dict[str, int] = {}
        self.depth = 0
        self.bound: list[str] = []
        """Threads and blocks that loops around this one are bound to."""

    def statements(self, nodes: list[ast.stmt]) -> list[Statement]:
        """Statements in order."""
        raise NotImplementedError

    def variable(self, name: str, dtype: str = "int") -> Var:
        """A new variable; names are unique in a kernel."""
        count = self.taken.get(name, 0)
        self.taken[name] = count + 1
        found = Var(f"{name}.{count}" if count else name, dtype)
        self.names.known[name] = found
        return found

    def _target(self, node: ast.AST) -> str:
        return node.id if isinstance(node, ast.Name) else self.fail(node, "a name was expected")

    def _launch(self, node: ast.With, call: ast.Call, name: ast.expr | None) -> Launch:
        only(self, call, 3, "threads", "is_cpu", "cluster_dims")
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
        is_range = isinstance(call.func, ast.Name) and call.func.id == "range" and not self.names.has("range")
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
                self.extents[var.name] = (start.value, start.value + extent.value)  # type: ignore[assignment]
        if steps is not None:
            gone = Apply("multiply", (variables[0], steps[1]), "int", node.lineno)
            self.names.known[names[0]] = self.apply_index("add", steps[0], gone)
        inner = self.statements(body)
        self.depth -= 1
        assert self.names.outer is not None
        self.names = self.names.outer
        thread = self.bound[-1] if kind in ("block", "thread") else ""
        for var, start, extent in reversed(list(zip(variables, starts, extents, strict=True))):
            inner = [Loop(var.name, start, extent, kind, inner, node.lineno, thread)]  # type: ignore[arg-type]
        return inner
