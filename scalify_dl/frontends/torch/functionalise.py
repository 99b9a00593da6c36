"""In-place writes and views as values, before lowering.

    add_: "f32[8]" = torch.ops.aten.add_.Tensor(x, y)      →   x as written is `add_`; later uses of x read that

A write through a view is a write to what it views: the view's base is rebuilt from the written view, and every other
view of the base is taken anew. Statements stay FX statements; ops that write become their functional forms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from scalify_dl.errors import InputError

from .reader import Module, Statement
from .syntax import Call, Infix, Item, Ref

__all__ = ["functionalise"]

VIEWS = frozenset(
    {
        "aten.view",
        "aten.t",
        "aten.transpose",
        "aten.permute",
        "aten.slice",
        "aten.select",
        "aten.unsqueeze",
        "aten.squeeze",
        "aten.detach",
        "aten.alias",
        "aten.expand",
        "aten.view_as",
        "aten._unsafe_view",
    }
)  # fmt: skip
UNDONE_BY_SHAPE = frozenset({"aten.view", "aten.unsqueeze", "aten.squeeze", "aten.view_as", "aten._unsafe_view"})
MAYBE_VIEWS = frozenset(
    {
        "aten.reshape",
        "aten.contiguous",
        "aten.flatten",
        "aten.split",
        "aten.split_with_sizes",
        "aten.chunk",
        "aten.unbind",
        "aten.as_strided",
    }
)
COLLECTIVES: dict[str, tuple[int, ...] | None] = {
    "c10d.allreduce_": (0,), "c10d.broadcast_": (0,), "c10d.reduce_scatter_": (0,), "c10d.allgather_": (0, 0),
    "c10d._allgather_base_": (0,), "c10d._reduce_scatter_base_": (0,), "c10d.alltoall_base_": (),
}  # fmt: skip
"""c10d's collectives write their first argument, a tensor, a list of them or a list of such lists; the value is where
the lowering gives what was written (of a list: the list of those)."""


class _View(NamedTuple):
    base: str
    call: Call


def _packet(call: Call) -> str:
    parts = call.function.removeprefix("torch.ops.").split(".")
    return ".".join(parts[:2])


def _writes(value: Any) -> bool:
    if not isinstance(value, Call):
        return False
    packet = _packet(value)
    name = packet.rpartition(".")[2]
    if packet in COLLECTIVES:
        return True
    return (
        packet.split(".")[0] in ("aten", "_c10d_functional")
        and name.endswith("_")
        and not name.startswith("_")
        and not name.endswith("__")
    )


def functionalise(module: Module) -> tuple[list[Statement], list[Any]]:
    """Statements and returned values of a module with every write made a value; its own where nothing writes."""
    if not any(_writes(statement.value) for statement in module.statements):
        return module.statements, module.returned
    functional = _Functionaliser(module.statements)
    statements = functional.run()
    return statements, [functional.renamed(value) for value in module.returned]


class _Functionaliser:
    def __init__(self, statements: list[Statement]) -> None:
        self.statements = statements
        self.out: list[Statement] = []
        self.now: dict[str, str] = {}  # name → the name that holds its value now
        self.views: dict[str, _View] = {}  # name → what it is a view of
        self.users: dict[str, list[str]] = {}  # base → its views
        self.maybe: dict[str, str] = {}  # possible views, whose aliasing the text does not tell
        self.count = 0

    def run(self) -> list[Statement]:
        for statement in self.statements:
            value = self.renamed(statement.value)
            if _writes(statement.value):
                self.write(statement, value)
            else:
                self.out.append(Statement(statement.names, statement.type, value, statement.line, statement.frames))
                self.remember(statement)
        return self.out

    def renamed(self, value: Any) -> Any:
        """An expression with every name replaced by the one that holds its value now."""
        kind = type(value)
        if kind is Ref:
            return Ref(self.now.get(value.name, value.name))
        if kind is list:
            return [self.renamed(item) for item in value]
        if kind is tuple:
            return tuple(self.renamed(item) for item in value)
        if kind is Item:
            return Item(self.renamed(value.value), value.index)
        if kind is Infix:
            return Infix(value.operator, self.renamed(value.left), self.renamed(value.right))
        if kind is Call:
            kwargs = {key: self.renamed(item) for key, item in value.kwargs.items()}
            return Call(value.function, tuple(self.renamed(item) for item in value.args), kwargs)
        return value

    def remember(self, statement: Statement) -> None:
        call = statement.value
        if isinstance(call, Item) and isinstance(call.value, Ref) and call.value.name in self.maybe:
            self.maybe[statement.names[0]] = self.maybe[call.value.name]
        if not isinstance(call, Call) or not call.args or not isinstance(call.args[0], Ref):
            return
        base, packet = call.args[0].name, _packet(call)
        if packet in VIEWS:
            self.views[statement.names[0]] = _View(base, call)
            self.users.setdefault(base, []).append(statement.names[0])
        elif packet in MAYBE_VIEWS:
            self.maybe[statement.names[0]] = base

    def write(self, statement: Statement, value: Call) -> None:
        packet = _packet(value)
        call = Call(value.function, value.args, value.kwargs)
        if packet not in COLLECTIVES:
            name = packet.rpartition(".")[2]
            call = Call(value.function.replace(f".{name}", f".{name[:-1]}", 1), value.args, value.kwargs)
        self.out.append(Statement(statement.names, statement.type, call, statement.line, statement.frames))
        written: Any = Ref(statement.names[0])
        for index in COLLECTIVES.get(packet) or ():
            written = Item(written, index)
        target = statement.value.args[0] if statement.value.args else None
        while isinstance(target, list) and target and isinstance(target[0], list):
            target = target[0]
        for i, each in enumerate(target if isinstance(target, list) else [target]):
            if not isinstance(each, Ref):
                continue
            if each.name in self.maybe or each.name in self.maybe.values():
                raise InputError(
                    f"`{each.name}` is written in place, and what else sees the write is not clear from the text",
                    line=statement.line,
                    hint="capture with functionalization (torch.func.functionalize, torch.export, AOTAutograd)",
                )
            value_now = Item(written, i) if isinstance(target, list) else written
            name = value_now.name if isinstance(value_now, Ref) else self.emit(value_now, statement)
            self.changed(each.name, name, statement)

    def emit(self, value: Any, statement: Statement) -> str:
        self.count += 1
        name = f"{statement.names[0]}'{self.count}"
        self.out.append(Statement((name,), None, value, statement.line, statement.frames))
        return name

    def changed(self, name: str, written: str, statement: Statement) -> None:
        """`name` now holds the value `written`; so do, seen through their views, its base and the base's views."""
        if written not in self.views and written != name:
            self.views[written] = _View(name, Call("torch.ops.aten.alias.default", (Ref(name),), {}))
            self.users.setdefault(name, []).append(written)
        root, value = name, written
        while root in self.views:
            view = self.views[root]
            self.now[root] = value
            value = self.emit(self.undone(view, value, statement), statement)
            root = view.base
        self.now[root] = value
        self.refresh(root, statement)

    def refresh(self, base: str, statement: Statement) -> None:
        pending = [base]
        while pending:
            current = pending.pop()
            for view in self.users.get(current, ()):
                call = self.views[view].call
                args = (Ref(self.now.get(current, current)), *(self.renamed(arg) for arg in call.args[1:]))
                self.now[view] = self.emit(Call(call.function, args, call.kwargs), statement)
                pending.append(view)

    def undone(self, view: _View, value: str, statement: Statement) -> Call:
        """The base, given the new value of a view of it."""
        packet, args = _packet(view.call), view.call.args[1:]
        base = Ref(self.now.get(view.base, view.base))
        if packet in UNDONE_BY_SHAPE:
            return Call("torch.ops.aten.view_as.default", (Ref(value), base), {})
        if packet in ("aten.t", "aten.transpose"):
            return Call(view.call.function, (Ref(value), *args), {})
        if packet == "aten.permute":
            order = args[0]
            rank = len(order)
            back = [[d % rank for d in order].index(d) for d in range(rank)]
            return Call("torch.ops.aten.permute.default", (Ref(value), back), {})
        if packet == "aten.slice":
            return Call("torch.ops.aten.slice_scatter.default", (base, Ref(value), *args), view.call.kwargs)
        if packet == "aten.select":
            return Call("torch.ops.aten.select_scatter.default", (base, Ref(value), *args), view.call.kwargs)
        if packet in ("aten.detach", "aten.alias"):
            return Call("torch.ops.aten.alias.default", (Ref(value),), {})
        raise InputError(f"a write through `{packet}`", line=statement.line, hint="capture with functionalization")
