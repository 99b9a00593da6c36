"""Tables of a context in layers, and what notes that somebody looks at what is another thing on other ranks."""

from __future__ import annotations

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


class Watched(dict[Any, Any]):
    """A table some of whose entries are others on other ranks: to look at one is noted."""

    __slots__ = ("lost", "watched")

    def __init__(self, table: Any, lost: set[int]) -> None:
        super().__init__(table if isinstance(table, dict) else dict.fromkeys(table, True))
        self.watched: dict[Any, set[int]] = {}
        self.lost = lost

    def watch(self, key: Any, rank: int) -> None:
        self.watched.setdefault(key, set()).add(rank)

    def look(self, key: Any) -> None:
        if key in self.watched:
            self.lost |= self.watched[key]

    def add(self, key: Tensor) -> None:
        self[key] = True

    def get(self, key: Any, default: Any = None) -> Any:
        self.look(key)
        return dict.get(self, key, default)

    def __getitem__(self, key: Any) -> Any:
        self.look(key)
        return dict.__getitem__(self, key)

    def __contains__(self, key: object) -> bool:
        self.look(key)
        return dict.__contains__(self, key)


class Numbers(dict[str, list[int]]):
    """Numbers of an op that are others on other ranks: to look at them is noted."""

    __slots__ = ("lost", "ranks")

    def __init__(self, numbers: dict[str, list[int]], lost: set[int]) -> None:
        super().__init__(numbers)
        self.ranks: set[int] = set()
        self.lost = lost

    def __getitem__(self, key: str) -> list[int]:
        self.lost |= self.ranks
        return dict.__getitem__(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        self.lost |= self.ranks
        return dict.get(self, key, default)


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
