"""Edits of one turn of a loop that is written out, made in all its turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scalify_dl.facts import Facts

from .draft import Edit

if TYPE_CHECKING:
    from .propose import Proposal


class Turns:
    """Ops of a loop's turns, and what they make, by their places in lists of copies."""

    def __init__(self, facts: Facts, copies: Sequence[list[str]]) -> None:
        self._at: dict[str, tuple[list[str], int]] = {
            op: (ops, n) for ops in copies if len(ops) > 1 for n, op in enumerate(ops)
        }
        results = {(op, pos): tensor for op, pos, tensor in facts["result"]}
        for (op, pos), tensor in results.items():
            if op in self._at:
                ops, n = self._at[op]
                if all((other, pos) in results for other in ops):
                    self._at.setdefault(tensor, ([results[other, pos] for other in ops], n))

    def with_all(self, proposals: Sequence[Proposal]) -> Iterator[Proposal]:
        """Each proposal for one turn after the same for all turns, where every turn has its like."""
        for proposal in proposals:
            edits = self._in_all(proposal)
            if edits:
                yield replace(proposal, edits=edits)
            yield proposal

    def _in_all(self, proposal: Proposal) -> tuple[Edit, ...]:
        (cause, *others), known = proposal.causes, self._at
        if others or cause not in known:
            return ()
        ops, own = known[cause]
        shifts = sorted(range(-own, len(ops) - own), key=lambda shift: shift != 0)  # the turn that was seen leads
        return tuple(edit for shift in shifts for edit in self._moved(proposal.edits, shift, len(ops)))

    def _moved(self, edits: Sequence[Edit], shift: int, turns: int) -> list[Edit]:
        return [
            edit._replace(
                cause=self._like(edit.cause, shift, turns),
                target=self._like(edit.target, shift, turns),
                how=";".join(self._like(part, shift, turns) for part in edit.how.split(";")),
            )
            for edit in edits
        ]

    def _like(self, name: str, shift: int, turns: int) -> str:
        """An op, or a value, of another turn; what no turn has of its own is the same for all."""
        found, n = self._at.get(name, ([], 0))
        return found[n + shift] if len(found) == turns and 0 <= n + shift < turns else name
