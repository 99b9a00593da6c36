"""What a search for inputs on which two programs differ finds.

A difference is a *refutation* when every value it follows from has a real meaning; a *witness* when it rests on an
invented one (an opaque op, an input or a random draw that nothing relates); *precision* when it shows only because
casts round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .compare import Mismatch
from .localise import Place
from .program import Program
from .readings import Readings

FAINT = 1e-5
"""Relative difference up to which another draw may show more."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """One output on one draw. `kind` is `refutation`, `witness` or `precision`; `reason` says why it is not a
    refutation.

    `index` is into the local value of `rank`; `expected` what the baseline says it should be. `layout` is the placement
    that was expected (the closest of the accepted ones). `sizes` is `own` or `shrunk`; shapes are those of the run.
    """

    kind: str
    reason: str
    output: str
    base: str
    name: str
    seed: int
    draw: str
    sizes: str
    layout: str
    mismatch: Mismatch
    local_shape: tuple[int, ...]
    base_shape: tuple[int, ...]
    place: Place | None = None

    @property
    def telling(self) -> float:
        """How much there is to see: the difference relative to what is expected, at most 1, in tenths; then, the
        difference itself."""
        difference, size = self._apart
        if not np.isfinite(difference):
            return 2.0
        relative = min(difference / (size or 1.0), 1.0)
        return float(round(relative, 1) + difference / (1 + difference) / 10)

    @property
    def faint(self) -> bool:
        """Whether there is next to nothing to see, as where a norm is clipped and only its epsilon tells."""
        difference, size = self._apart
        return bool(np.isfinite(difference)) and difference <= FAINT * size

    @property
    def _apart(self) -> tuple[float, float]:
        """How far apart both are, and how large what is expected is; infinite beyond the largest number."""
        expected, actual = np.complex128(self.mismatch.expected), np.complex128(self.mismatch.actual)
        with np.errstate(all="ignore"):
            return float(np.abs(actual - expected)), float(np.abs(expected))

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for reports."""
        m, p = self.mismatch, self.place
        return {
            "kind": self.kind,
            "reason": self.reason,
            "output": self.output,
            "name": self.name,
            "base": self.base,
            "seed": self.seed,
            "draw": self.draw,
            "sizes": self.sizes,
            "local_shape": list(self.local_shape),
            "base_shape": list(self.base_shape),
            "layout": self.layout,
            "rank": m.rank,
            "index": list(m.index),
            "expected": _plain(m.expected),
            "actual": _plain(m.actual),
            "share_wrong": m.share,
            "first_op": None
            if p is None
            else {
                "op": p.op,
                "kind": p.kind,
                "base_op": p.base_op,
                "base_tensor": p.base_tensor,
                "layout": p.layout,
                "rank": p.mismatch.rank if p.mismatch else None,
                "index": list(p.mismatch.index) if p.mismatch else None,
                "expected": _plain(p.mismatch.expected) if p.mismatch else None,
                "actual": _plain(p.mismatch.actual) if p.mismatch else None,
            },
        }


def _plain(value: Any) -> Any:
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)


@dataclass(slots=True)
class Search:
    """What the search found.

    `status`: `refuted`, `witness` (only such differences), `agrees` (every checked output agreed in every trial),
    `inconclusive` (some output could not be compared; `problems` say why) or `interrupted` (Ctrl-C; the rest holds
    so far).
    """

    status: str = "inconclusive"
    counterexamples: list[Counterexample] = field(default_factory=list)
    agreed: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    trials: int = 0
    sizes: str = "own"
    program: Program | None = None
    """What ran, at these sizes."""
    readings: Readings | None = None
    """What all values of the run behind `best` are of the baseline's; None where it was not looked for."""
    cut: bool = False
    """Whether draws were left out since one had refuted something."""

    def conclude(self) -> None:
        """Fills in `status`."""
        kinds = {c.kind for c in self.counterexamples}
        if "refutation" in kinds:
            self.status = "refuted"
        elif kinds:
            self.status = "witness"
        elif not self.problems and self.agreed:
            self.status = "agrees"

    @property
    def best(self) -> Counterexample | None:
        """The one to show: a refutation before a witness before a matter of precision."""
        order = {"refutation": 0, "witness": 1, "precision": 2}
        return min(self.counterexamples, key=lambda c: order[c.kind], default=None)
