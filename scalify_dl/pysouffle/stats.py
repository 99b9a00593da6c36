"""What a run did: tuples, rounds, and a profile of the rules that a person can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class RuleProfile(NamedTuple):
    """One rule: `derived` counts the rows that it derived, `new` those not known yet; `seconds` is wall time."""

    relation: str
    text: str
    file: str
    line: int
    runs: int
    derived: int
    new: int
    seconds: float


@dataclass(frozen=True)
class Stats:
    """`tuples` by relation, fixpoint `rounds`, `bytes` held by relations, symbols and records, and the `rules`."""

    tuples: dict[str, int]
    rounds: int
    bytes: int
    rules: list[RuleProfile]

    @property
    def total_tuples(self) -> int:
        return sum(self.tuples.values())

    def profile(self, top: int = 20) -> str:
        """The rules that took longest, one a line."""
        slowest = sorted(self.rules, key=lambda rule: rule.seconds, reverse=True)[:top]
        lines = [
            f"{self.total_tuples:,} tuples, {self.rounds:,} rounds, {self.bytes / 1e6:,.1f} MB",
            f"{'seconds':>9} {'runs':>9} {'derived':>12} {'new':>12}  rule",
        ]
        for rule in slowest:
            if rule.runs:
                place = f"{rule.file}:{rule.line}: " if rule.file else ""
                lines.append(
                    f"{rule.seconds:9.4f} {rule.runs:9,} {rule.derived:12,} {rule.new:12,}  {place}{rule.text[:160]}"
                )
        return "\n".join(lines)
