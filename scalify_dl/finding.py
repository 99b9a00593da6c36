"""A finding: something that is wrong at a place of the input, as one record in all commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Happening:
    """One event or op that takes part in a finding."""

    rank: int | None
    name: str
    source: str = ""
    """`file:line` or `file:line:cell`, empty where unknown."""


@dataclass(frozen=True)
class Finding:
    """What is wrong, where, and what to do about it.

    `kind` is a word that the command's page lists; `level` is `error` (wrong whatever else holds), `difference` (what
    it does to the result is decided elsewhere) or `depends` (wrong under some of the settings looked at, as `text`
    says). `events`: all that takes part, the most telling first.
    """

    kind: str
    level: str
    text: str
    events: tuple[Happening, ...] = ()
    rank: int | None = None
    micro_batch: int | None = None
    op: str | None = None
    name: str | None = None
    source: tuple[str, ...] = ()
    suggestion: str | None = None
    tried: str | None = None
    """What came of the suggestion when it was tried on a copy."""
    explains: str | None = None
    """What else in the report is wrong only because of this."""

    @property
    def outcome(self) -> str | None:
        """What came of the suggestion, also where it was not tried."""
        return self.tried or ("untested" if self.suggestion else None)

    def as_object(self) -> dict[str, Any]:
        """Plain JSON values; keys are a contract with scripts."""
        return {
            "kind": self.kind,
            "level": self.level,
            "rank": self.rank,
            "micro_batch": self.micro_batch,
            "op": self.op,
            "name": self.name,
            "source": list(self.source),
            "events": [{"rank": e.rank, "name": e.name, "source": e.source} for e in self.events],
            "text": self.text,
            "suggestion": self.suggestion,
            "tried": self.outcome,
            "explains": self.explains,
        }
