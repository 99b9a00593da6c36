"""Memory: which tensors of a program look at the same values, and what a write through one of them changes.

    x ── storage ── root ──(slice)── a ──(transpose)── b          b.add_(1): a, x and every other view see it

A storage holds one value, that of its root; a view is a step from its parent (read it from the parent's value, or put
its new value back into it). Reading a tensor takes its value anew where the storage was written since; writing one puts
the value back step by step. Where a step has no way back, the whole storage is lost: what it holds is an `unknown:` op
from then on. Storages that are perhaps one (`contiguous` of what may lie contiguously) lose what they hold when the
other is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from scalify_dl.ir.graph import Op, Tensor

from .lowering import Context, Unsupported

__all__ = ["Memory", "Once", "Step", "Trial", "Variable"]


class Trial(Exception):
    """Something that is tried writes memory."""


class Step(Protocol):
    """How a view comes from its parent, and what a write to it makes of the parent."""

    def read(self, base: Tensor) -> Tensor:
        """The view's value, given its parent's."""
        ...

    def write(self, base: Tensor, value: Tensor) -> Tensor:
        """The parent's value after the view was written; Unsupported where that is not known."""
        ...

    def chain(self, dtype: str, shape: tuple[int, ...]) -> list[Op]:
        """The ops that make the view of a parent of that type; Unsupported where they are no chain."""
        ...


class Storage:
    """Memory that tensors share. `version` counts its writes, `perhaps` are storages that may be the same memory.

    `dense` says that it lies row-major without gaps, `repeats` that several of its elements may be one place in memory;
    `lost` why its contents are not known; `turned` that its tensors may be other views of it now.
    """

    __slots__ = ("dense", "lost", "perhaps", "repeats", "turned", "type", "version")

    def __init__(self, value: Tensor, dense: bool) -> None:
        self.type = (value.dtype, value.shape)
        self.version = 0
        self.dense = dense
        self.repeats = False
        self.turned = False
        self.lost: tuple[str, str] | None = None
        self.perhaps: set[Storage] = set()


class Node:
    """A view of a storage: `step` from `parent`, or its root. `value` is what it held at `version`."""

    __slots__ = ("parent", "step", "storage", "value", "version")

    def __init__(
        self, storage: Storage, parent: Node | None, step: Step | None, value: Tensor | Callable[[], Tensor] | None
    ) -> None:
        self.storage = storage
        self.parent = parent
        self.step = step
        self.value = value
        self.version = storage.version

    def restore(self, before: tuple[Any, int]) -> None:
        """Takes back what was noted in a journal."""
        self.value, self.version = before


class Once:
    """A value that is made at the first call, and kept."""

    __slots__ = ("make", "memory", "value")

    def __init__(self, memory: Memory, make: Callable[[], Any]) -> None:
        self.memory, self.make, self.value = memory, make, _UNMADE

    def __call__(self) -> Any:
        self.memory.look(self)
        if self.value is _UNMADE:
            self.value = self.make()
            self.memory.note(self, _UNMADE)
        return self.value

    def restore(self, before: Any) -> None:
        """Takes back what was noted in a journal."""
        self.value = before


_UNMADE: Any = object()


class Variable:
    """A tensor of the program: what it is a view of now (in-place changes of metadata make it another view)."""

    __slots__ = ("first", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.first = node

    @property
    def storage(self) -> Storage:
        """The storage it is a view of."""
        return self.node.storage

    @property
    def changed(self) -> bool:
        """Whether it may hold something else, or be another view, than at first."""
        return self.node is not self.first or self.storage.version > 0


class Memory:
    """Makes, reads and writes variables; emits into a context.

    While there is a `journal`, what is read for the first time is noted there with what was before; within a `trial`
    nothing is written. What is `watched` is read otherwise on these ranks, which are `lost` once it is read again.
    """

    def __init__(self, context: Context) -> None:
        self.c = context
        self.journal: list[tuple[Node | Once, Any]] | None = None
        self.trial = False
        self.watched: dict[Node | Once, set[int]] = {}
        self.lost: set[int] = set()

    def note(self, each: Node | Once, before: Any) -> None:
        """Into the journal."""
        if self.journal is not None:
            self.journal.append((each, before))

    def look(self, each: Node | Once) -> None:
        """Something is read."""
        if self.watched and each in self.watched:
            self.lost |= self.watched[each]

    def changes(self) -> None:
        """Memory is about to be written."""
        if self.trial:
            raise Trial

    def new(self, value: Tensor, dense: bool = False) -> Variable:
        """A tensor in memory of its own."""
        return Variable(Node(Storage(value, dense), None, None, value))

    def view(self, of: Node, step: Step, value: Tensor | Callable[[], Tensor]) -> Variable:
        """A view of a node, whose value now is given (or made on demand)."""
        return Variable(Node(of.storage, of, step, value))

    def link(self, storages: Iterable[Storage]) -> None:
        """These are perhaps one memory."""
        together = list(dict.fromkeys(storages))
        if len(together) > 1:
            self.changes()
        for storage in together:
            storage.perhaps.update(other for other in together if other is not storage)

    def read(self, variable: Variable) -> Tensor:
        """What a tensor holds now."""
        return self._value(variable.node)

    def write(self, variable: Variable, value: Tensor) -> None:
        """A tensor now holds a value of its shape; so does its storage, seen through it."""
        self.changes()
        storage = variable.storage
        node, changed = variable.node, [(variable.node, value)]
        try:
            if storage.repeats:
                raise Unsupported("a write to what perhaps stands in memory once and is seen several times")
            while node.parent is not None and node.step is not None:
                value = node.step.write(self._value(node.parent), value)
                node = node.parent
                changed.append((node, value))
        except Unsupported as reason:
            self.lose(storage, self.c.target or "a write", str(reason))
            return
        storage.version += 1
        for node, held in changed:
            node.value, node.version = held, storage.version
        self.touch(storage)

    def lose(self, storage: Storage, name: str, why: str) -> None:
        """From now on it is not known what a storage holds, because of the op `name`."""
        self._lose(storage, name, why)
        self.touch(storage)

    def _lose(self, storage: Storage, name: str, why: str) -> None:
        self.changes()
        storage.version += 1
        storage.lost = name, why

    def touch(self, storage: Storage, turned: bool = False) -> None:
        """What is perhaps the same memory as a written storage, or the same tensor as a changed one (`turned`), is
        lost."""
        seen, todo = {storage}, [storage]
        while todo:
            for other in todo.pop().perhaps - seen:
                seen.add(other)
                todo.append(other)
                name = self.c.target or "a write"
                other.turned |= turned
                self._lose(other, name, "whether it shares the memory changed there is not clear from the text")

    def _value(self, node: Node) -> Tensor:
        storage, chain = node.storage, [node]
        self.look(node)
        while chain[-1].version != storage.version and chain[-1].parent is not None:
            chain.append(chain[-1].parent)
            self.look(chain[-1])
        root = chain[-1]
        if root.version != storage.version:  # a root that nothing wrote: lost
            name, why = storage.lost or ("a write", "")
            op = self.c.op(f"unknown:{name}", (), (storage.type,), None, {"reason": [why]})
            self.note(root, (root.value, root.version))
            root.value, root.version = op.result, storage.version
            if storage.turned:
                self.c.untyped.add(op.result)
        if callable(root.value):
            self.note(root, (root.value, root.version))
            root.value = root.value()
        value = root.value
        for view in reversed(chain[:-1]):
            assert view.step is not None
            assert value is not None
            self.note(view, (view.value, view.version))
            value = view.value = view.step.read(value)
            view.version = storage.version
        assert value is not None
        return value
