"""Files of kernels: which function is meant, its sizes, its arguments. Nothing of a file is executed."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError

from .calls import MODULES
from .expressions import Names, Open, View
from .jitted import written_out
from .memories import keywords, language_call
from .rebound import rebound
from .statements import Statements
from .syntax import Buffer, Kernel
from .tiles import Macro
from .types import dtype_of

MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """A function that is a kernel, and the names around it."""

    node: ast.FunctionDef
    names: Names
    within: tuple[str, ...] = ()
    """Functions around it, outermost first."""

    @property
    def called(self) -> str:
        """Its name, with those of the functions around it."""
        return ".".join(dict.fromkeys((*self.within, self.node.name)))


def read_kernel(path: str | Path, sizes: Mapping[str, Any] | None = None, function: str | None = None) -> Kernel:
    """The kernel of a file: the only one, the one of that name, or `main`. `sizes` are values of open names."""
    reader = _File(str(path), dict(sizes or {}))
    try:
        found = reader.candidates(_parsed(path))
        return reader.kernel(_chosen(found, function, path))
    except RecursionError:
        raise InputError("the text is nested too deep", file=path) from None
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, AssertionError) as error:
        said = f"this is not written as kernels are: {error}"
        raise InputError(said, file=path, line=reader.line, expected="TVMScript or TileLang") from None


def chosen(path: str | Path, function: str | None) -> tuple[ast.Module, ast.FunctionDef]:
    """The text of a file as a tree, and in it the kernel that `read_kernel` would read."""
    module = _parsed(path)
    return module, _chosen(_File(str(path), {}).candidates(module), function, path).node


def _parsed(path: str | Path) -> ast.Module:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", file=path) from None
    if len(data) > MOST_BYTES:
        raise InputError(f"a kernel of more than {MOST_BYTES:,} bytes", file=path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return written_out(ast.parse(data.decode("utf-8")))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", 0) or 0
        said = getattr(error, "msg", str(error))
        raise InputError(f"not Python text: {said}", file=path, line=line, expected="TVMScript or TileLang") from None


def _chosen(found: list[Found], function: str | None, path: str | Path) -> Found:
    wanted = found
    if function:
        exact = [f for f in found if f.called == function]
        wanted = exact or [f for f in found if function in (f.node.name, *f.within)]
    elif len(found) > 1:
        wanted = [f for f in found if f.node.name == "main"]
    if len(wanted) == 1:
        return wanted[0]
    if not found:
        raise InputError("no kernel in this file", file=path, line=1, expected="a function under @T.prim_func")
    names = [f.called for f in wanted or found]
    if function and not wanted:
        raise InputError(
            f"no kernel `{function}` in this file", file=path, line=1, expected=f"one of {', '.join(names)}"
        )
    raise InputError(f"which kernel is meant? {', '.join(names)}", file=path, line=1, hint=f"--function {names[0]}")


def _decorators(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    found = set()
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        found.add(called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", ""))
    return found


_DECORATORS = frozenset("prim_func macro ir_module jit autotune lru_cache cache".split())  # noqa: SIM905
"""Those of functions and classes that leave what is written in them as it is."""
_BEHIND_NAMES = frozenset("exec eval globals locals vars setattr delattr __import__ __dict__".split())  # noqa: SIM905
"""What may give a name another meaning without being seen to."""


class _File(Statements):
    """Reads one file."""

    def __init__(self, file: str, sizes: dict[str, Any]) -> None:
        super().__init__(file)
        self.sizes = sizes
        self.extents = {}
        self.module: ast.Module | None = None
        self.around: list[str] = []
        """Functions around what is read."""

    # ---- which functions there are ----
    def candidates(self, module: ast.Module) -> list[Found]:
        """All kernels of a file."""
        self.module = module
        languages = set()
        for node in ast.walk(module):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                place = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                found = {a.asname or a.name.partition(".")[0]: place or a.name for a in node.names}
                languages |= {a for a, of in found.items() if of.partition(".")[0] in ("tvm", "tilelang")}
        for node in ast.walk(module):
            hidden = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            base = node
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            written = isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del))
            named = isinstance(node, ast.Name) or hidden == "__dict__"
            if (named and hidden in _BEHIND_NAMES) or (written and getattr(base, "id", "") in languages | MODULES):
                self.fail(node, f"`{ast.unparse(node)}` may give names another meaning, which is not followed")
        return list(self._within_body(module.body, self.names))

    def _within_body(self, body: list[ast.stmt], names: Names) -> Iterator[Found]:
        self.names, outer = names, self.names
        seen: set[str] = set()
        """Names that functions may have seen with the meaning that they have now."""
        for node in body:
            before = dict(names.known)
            match node:
                case ast.FunctionDef():
                    kinds = self._decorated(node)
                    if "prim_func" in kinds:
                        yield Found(node, names, tuple(self.around))
                    elif "macro" in kinds:
                        names.known[node.name] = Macro(node, names)
                    else:
                        self._lose(node, names)
                        yield from self._factory(node, names)
                    seen |= set(names.known) | {node.name}
                case ast.ClassDef():
                    self._decorated(node)
                    yield from self._within_body(node.body, Names(outer=names))
                case ast.If(test=test, body=yes, orelse=no):
                    known = self._known(test, names)
                    if known is None:
                        self._lose(node, names)
                    else:
                        yield from self._within_body(yes if known else no, names)
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._named(target, value, names)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._named(target, value, names)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    both = ast.copy_location(ast.BinOp(ast.Name(name, ast.Load()), op, value), node)
                    self._named(node.target, ast.fix_missing_locations(both), names)
                case ast.ImportFrom(names=[ast.alias(name="*")]):
                    names.known |= {name: Open(name) for name in names.known}
                case ast.Import() | ast.ImportFrom():
                    self._imported(node, names)
                case _:
                    self._lose(node, names)
            for name in seen & set(names.known):
                if name in before and before[name] != names.known[name] and name not in self.sizes:
                    names.known[name] = Open(name)  # which of them a function means depends on when it is called
        self.names = outer

    def _decorated(self, node: ast.FunctionDef | ast.ClassDef) -> set[str]:
        """Names of decorators; bad input where one may make something else of a kernel."""
        found = _decorators(node)
        kernels = any(isinstance(n, ast.FunctionDef) and "prim_func" in _decorators(n) for n in ast.walk(node))
        if (kernels or "macro" in found) and (other := found - _DECORATORS):
            self.fail(node, f"the decorator `{min(other)}` of `{node.name}` is not understood")
        return found

    def _named(self, target: ast.expr, value: ast.expr, names: Names) -> None:
        """Gives names what they mean outside of kernels; what is not known is open."""
        found = self._known(value, names)
        match target:
            case ast.Name(id=name):
                if language_call(value) in ("dynamic", "symbolic"):
                    found = None
                names.known[name] = self.sizes.get(name, self._open(name, value, names) if found is None else found)
            case ast.Tuple(elts=targets) if isinstance(found, tuple) and len(found) == len(targets):
                for one, item in zip(targets, found, strict=True):
                    if isinstance(one, ast.Name):
                        names.known[one.id] = self.sizes.get(one.id, item)
                    else:
                        self._lose(one, names)
            case _:
                self._lose(target, names)

    def _open(self, name: str, value: ast.expr, names: Names) -> Open:
        """A name that is open, or the one that its value waits for."""
        for inner in ast.walk(value):
            if isinstance(inner, ast.Name) and names.has(inner.id) and isinstance(names.get(inner.id), Open):
                found = names.get(inner.id)
                assert isinstance(found, Open)
                return found
        return Open(name)

    def _imported(self, node: ast.Import | ast.ImportFrom, names: Names) -> None:
        """The language has its name from where it is known."""
        for alias in node.names:
            place = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            if (alias.asname or alias.name) == "T" and place.partition(".")[0] not in ("tvm", "tilelang"):
                self.fail(node, f"`T` is imported from `{place}`", expected="the language of tvm or tilelang")
        for name in rebound(node) & set(names.known):
            names.known[name] = Open(name)

    def _lose(self, node: ast.AST, names: Names) -> None:
        """Names that a statement may give another meaning, which is not followed, are open."""
        for name in rebound(node):
            scope: Names | None = names
            while scope is not None and name not in scope.known:
                scope = scope.outer
            (scope or names).known[name] = self.sizes.get(name, Open(name))

    def _known(self, node: ast.expr, names: Names) -> Any:
        """What an expression outside of kernels is; None where that is not known."""
        outer, self.names = self.names, names
        try:
            found = self.value(node)
        except InputError:
            return None
        finally:
            self.names = outer
        return found if isinstance(found, (bool, int, float, str, tuple)) else None

    def _factory(self, node: ast.FunctionDef, names: Names) -> Iterator[Found]:
        """Kernels in a function that makes them: its parameters are what --size, a call in the file or defaults say."""
        if not any(isinstance(inner, ast.FunctionDef) for inner in ast.walk(node) if inner is not node):
            return
        arguments = [*node.args.posonlyargs, *node.args.args]
        every = [a.arg for a in (*arguments, *node.args.kwonlyargs)]
        values: dict[str, Any] = {}
        for a, default in zip(reversed(arguments), reversed(node.args.defaults), strict=False):
            values[a.arg] = self._known(default, names)
        for a, given in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if given is not None:
                values[a.arg] = self._known(given, names)
        values |= self._called_with(node, [a.arg for a in arguments], names)
        values |= {name: value for name, value in self.sizes.items() if name in every}
        known = {name: Open(name) if values.get(name) is None else values[name] for name in every}
        self.around.append(node.name)
        yield from self._within_body(node.body, Names(known, names))
        self.around.pop()

    def _called_with(self, node: ast.FunctionDef, parameters: list[str], names: Names) -> dict[str, Any]:
        """The arguments of the first call of a function in the file whose arguments, but for tensors, are all known."""
        assert self.module is not None
        inner = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == node.name]
        tensors = {a.arg for n in inner for a in n.args.args}
        for call in ast.walk(self.module):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == node.name:
                given = dict(zip(parameters, call.args, strict=False)) | keywords(call)
                values = {key: self._known(value, names) for key, value in given.items() if key not in tensors}
                if values and all(value is not None for value in values.values()):
                    return values
        return {}

    # ---- the one that is meant ----
    def kernel(self, found: Found) -> Kernel:
        """A function as data."""
        node = found.node
        self.names = Names(outer=Names({}, found.names))
        used = {n.value.id for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
        for name in sorted(used & MODULES):
            if found.names.has(name) or name in rebound(node):
                self.fail(node, f"`{name}` means something else than the language in this file")
        buffers: list[Buffer] = []
        handles: list[str] = []
        for argument in node.args.args:
            what = argument.annotation
            if what is None:
                self.fail(argument, f"the argument `{argument.arg}` has no type", expected="T.Buffer((64, 64), …)")
            kind = language_call(what)
            if kind in ("Buffer", "Tensor"):
                assert isinstance(what, ast.Call)
                buffers.append(self._argument(argument.arg, what))
            elif (isinstance(what, ast.Attribute) and what.attr == "handle") or kind == "handle":
                handles.append(argument.arg)
                self.names.known[argument.arg] = argument
            elif (isinstance(what, ast.Attribute) and dtype_of(what.attr)) or dtype_of(kind):
                self.names.known[argument.arg] = self.sizes.get(argument.arg, Open(argument.arg))
            else:
                self.fail(argument, f"the type `{ast.unparse(what)[:60]}` is not understood")
        self.names.known |= {name: value for name, value in self.sizes.items() if name not in self.names.known}
        body = self._matched(node.body, handles, buffers)
        statements = self.statements(body)
        if not buffers:
            self.fail(node, "a kernel without arguments")
        return Kernel(node.name, buffers, statements, self.file, node.lineno)

    def _argument(self, name: str, call: ast.Call) -> Buffer:
        if "scope" in keywords(call) and self.value(keywords(call)["scope"]) not in ("global", ""):
            self.fail(call, "an argument that is not in global memory")
        shape, dtype = self.declared(call)
        buffer = Buffer(name, shape, dtype, "global", call.lineno)
        self.names.known[name] = buffer
        return buffer

    def _matched(self, body: list[ast.stmt], handles: list[str], buffers: list[Buffer]) -> list[ast.stmt]:
        """The body without the statements that give handles shapes: these are arguments, in order of the handles."""
        given: dict[str, Buffer] = {}
        rest = []
        for node in body:
            if isinstance(node, ast.Assign) and language_call(node.value) == "match_buffer":
                assert isinstance(node.value, ast.Call)
                first = node.value.args[0]
                if isinstance(first, ast.Name) and first.id in handles:
                    call = ast.copy_location(ast.Call(node.value.func, node.value.args[1:], node.value.keywords), node)
                    given[first.id] = self._argument(self._target(node.targets[0]), call)
                    continue
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                value = node.value
                if dtype_of(language_call(value)) and isinstance(value, ast.Call) and not value.args:
                    self.statement(node)
                    continue
            rest.append(node)
        for name in handles:
            if name not in given:
                raise InputError(f"the argument `{name}` is matched with no buffer", file=self.file)
            buffers.append(given[name])
        return rest


__all__ = ["Found", "View", "read_kernel"]
