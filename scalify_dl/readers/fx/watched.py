"""Tables of a context in layers, and what notes that somebody looks at what is another thing on other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scalify_dl.ir.graph import Op, Tensor

from .memory import Step

__all__ = ["Layer", "Numbers", "SetTable", "Watched", "WatchedStep", "laid"]


class Layer(dict[Any, Any]):
    """A table of a context (or a set: entries that are True) over another one: what is written stays in it."""

    __slots__ = ("below",)

    def __init__(self, below: Any) -> None:
        super().__init__()
        self.below = below

    def add(self, key: Tensor) -> None:
        self[key] = True

    def get(self, key: Any, default: Any = None) -> Any:
        return dict.get(self, key, default) if dict.__contains__(self, key) else self.below.get(key, default)

    def __missing__(self, key: Any) -> Any:
        return self.below[key]

    def __contains__(self, key: Any) -> bool:
        return dict.__contains__(self, key) or key in self.below


class _Looked(dict[Any, Any]):
    """A dict of which each way to read it is told to `look` (None: at all of it). A copy of it reads all."""

    __slots__ = ("lost",)

    def __init__(self, content: Any, lost: set[int]) -> None:
        super().__init__(content)
        self.lost = lost

    def look(self, key: Any) -> None:
        raise NotImplementedError

    def get(self, key: Any, default: Any = None) -> Any:
        self.look(key)
        return dict.get(self, key, default)

    def __getitem__(self, key: Any) -> Any:
        self.look(key)
        return dict.__getitem__(self, key)

    def __iter__(self) -> Iterator[Any]:  # with it, dict(x), {**x} and x | y read item by item
        self.look(None)
        return dict.__iter__(self)

    def keys(self) -> Any:
        self.look(None)
        return dict.keys(self)

    def values(self) -> Any:
        self.look(None)
        return dict.values(self)

    def items(self) -> Any:
        self.look(None)
        return dict.items(self)

    def copy(self) -> Any:
        return dict(self.items())

    def pop(self, key: Any, *default: Any) -> Any:
        self.look(key)
        return dict.pop(self, key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        self.look(key)
        return dict.setdefault(self, key, default)

    def __eq__(self, other: object) -> bool:
        self.look(None)
        return dict.__eq__(self, other)

    __hash__ = None


class Watched(_Looked):
    """A table some of whose entries are others on other ranks: to look at one is noted."""

    __slots__ = ("watched",)

    def __init__(self, table: Any, lost: set[int]) -> None:
        super().__init__(table if isinstance(table, dict) else dict.fromkeys(table, True), lost)
        self.watched: dict[Any, set[int]] = {}

    def watch(self, key: Any, rank: int) -> None:
        self.watched.setdefault(key, set()).add(rank)

    def look(self, key: Any) -> None:
        if key is None:
            self.lost.update(*self.watched.values())
        elif key in self.watched:
            self.lost |= self.watched[key]

    def add(self, key: Tensor) -> None:
        self[key] = True

    def __contains__(self, key: object) -> bool:
        self.look(key)
        return dict.__contains__(self, key)


class Numbers(_Looked):
    """Numbers of an op that are others on other ranks: to look at them is noted."""

    __slots__ = ("ranks",)

    def __init__(self, numbers: dict[str, list[int]], lost: set[int]) -> None:
        super().__init__(numbers, lost)
        self.ranks: set[int] = set()

    def look(self, key: Any) -> None:
        self.lost |= self.ranks


class WatchedStep:
    """A step of a view that is another one on other ranks: to go it is noted."""

    def __init__(self, step: Step, lost: set[int]) -> None:
        self.step, self.lost, self.ranks = step, lost, set[int]()

    def read(self, base: Tensor) -> Tensor:
        self.lost |= self.ranks
        return self.step.read(base)

    def write(self, base: Tensor, value: Tensor) -> Tensor:
        self.lost |= self.ranks
        return self.step.write(base, value)

    def chain(self, dtype: str, shape: tuple[int, ...]) -> list[Op]:
        self.lost |= self.ranks
        return self.step.chain(dtype, shape)


class SetTable:
    """A set as a table."""

    def __init__(self, members: set[Tensor]) -> None:
        self.members = members

    def get(self, key: Any, default: Any = None) -> Any:
        return True if key in self.members else default

    def __getitem__(self, key: Any) -> bool:
        return key in self.members

    def __contains__(self, key: Any) -> bool:
        return key in self.members


def laid(below: Any, layer: Layer) -> None:
    """Puts what a layer has into the table below."""
    if isinstance(below, dict):
        below.update(layer)
    else:
        below |= layer.keys()
