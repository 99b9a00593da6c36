"""What became of random programs: one by one, and of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Failure:
    """A program on which the reader and torch differ, made small."""

    seed: int
    capture: str
    message: str
    program: str
    text: str


@dataclass
class Found:
    """What became of one program."""

    seed: int
    aimed: str | None = None
    """The overload of which something had never been drawn."""
    captured: str | None = None
    uncaptured: str | None = None
    """The way in which torch would not capture it."""
    checked: int = 0
    unknown: dict[str, str] = field(default_factory=dict)
    """Op → why it was not lowered."""
    drawn: list[tuple[str, list[str]]] = field(default_factory=list)
    """Overloads that were lowered, each with its arguments off their default."""
    refused: set[str] = field(default_factory=set)
    """`overload argument`s with which a call was `unknown:`."""
    failure: Failure | None = None
    seconds: float = 0.0
    """CPU seconds of the process so far."""


@dataclass
class Report:
    """What a campaign did."""

    missing: dict[str, set[str]]
    """Overload → arguments that were never off their default ("": the overload itself)."""
    overloads: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Overload → why it is not drawn."""
    avoided: dict[str, str] = field(default_factory=dict)
    """Values that are not drawn → why."""
    programs: int = 0
    seconds: float = 0.0
    captures: Counter[str] = field(default_factory=Counter)
    uncaptured: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    failures: list[Failure] = field(default_factory=list)
    ended: dict[int, str] = field(default_factory=dict)
    """Seed of a program on which torch ended its process → how, and at what."""
    drawn: Counter[str] = field(default_factory=Counter)
    """Overload → programs in whose text it stands and is lowered."""
    unknown: dict[str, Counter[str]] = field(default_factory=dict)
    """Op → why it was not lowered → how often."""
    refused: set[str] = field(default_factory=set)
    """`overload argument`s with which a call was `unknown:`."""
    off: Counter[str] = field(default_factory=Counter)
    """`overload argument` → how often off its default, in a call that was lowered."""
    tries: Counter[str] = field(default_factory=Counter)
    """How often an overload was drawn for what is missing."""

    def add(self, found: Found) -> None:
        """Takes over what became of one program."""
        self.programs += 1
        self.checked += found.checked
        self.refused |= found.refused
        if found.aimed is not None:
            self.tries[found.aimed] += 1
        if found.captured is not None:
            self.captures[found.captured] += 1
        if found.uncaptured is not None:
            self.uncaptured[found.uncaptured] += 1
        for name, why in found.unknown.items():
            self.unknown.setdefault(name, Counter())[why] += 1
        for name, arguments in found.drawn:
            self._seen(name, arguments)
        if found.failure is not None:
            self.failures.append(found.failure)

    def _seen(self, name: str, arguments: Sequence[str]) -> None:
        """An overload was drawn, and lowered, with these arguments off their default."""
        self.drawn[name] += 1
        self.off.update(f"{name} {argument}" for argument in arguments)
        if name in self.missing:
            self.missing[name] -= {"", *arguments}
            if not self.missing[name]:
                del self.missing[name]
