"""What a run concludes, as plain data: every report format renders these classes and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from scalify_dl.ir.graph import BACKWARD

if TYPE_CHECKING:
    from scalify_dl.finding import Finding

    from .view import View


class Verdict(StrEnum):
    """The answer about one output, or about the whole pair of programs."""

    PROVED = "PROVED"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"

    @property
    def exit_code(self) -> int:
        """The process status that states this verdict (2 is kept for bad input)."""
        return {"PROVED": 0, "REFUTED": 1, "UNKNOWN": 3}[self.value]


def overall(verdicts: list[Verdict]) -> Verdict:
    """REFUTED if any is, else UNKNOWN if any is, else PROVED. At least one verdict is needed."""
    if not verdicts:
        raise ValueError("no output was checked, so there is no verdict")
    for worst in (Verdict.REFUTED, Verdict.UNKNOWN):
        if worst in verdicts:
            return worst
    return Verdict.PROVED


@dataclass(frozen=True)
class Frame:
    """One line of the user's program, as far as the dump kept it (line 0: unknown)."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def backward(self) -> bool:
        """Whether it is that of an op in the backward of what stands there."""
        return self.function.startswith(BACKWARD)

    @property
    def said(self) -> str:
        """The place, for people."""
        return f"{self} (its backward)" if self.backward else str(self)


@dataclass(frozen=True)
class OutputVerdict:
    """One checked output: the tensors by id and by the name people know, and what was found."""

    tensor: str
    base_tensor: str
    name: str
    base: str
    verdict: Verdict
    layout: str = ""
    """Layout text of the correspondence that was found, empty where there is none."""
    pattern: str = ""
    """The same for people: `a b (tp c) -> a b c`."""
    reason: str = ""
    """Why it is not proved, where that is not a matter of the root causes."""


@dataclass(frozen=True)
class Assumption:
    """Something that the proof relies on and that nobody checked."""

    tensor: str
    text: str
    why: str
    accepted: bool = False
    label: str = field(default="", compare=False)
    """What people call the tensor, beside its name; empty where that is the name."""
    words: str = field(default="", compare=False)
    """The text with names that people know, and layouts as patterns."""

    @property
    def said(self) -> str:
        """All of it but the reason, for people."""
        about = self.label or self.tensor
        return f"{about}: {self.words or self.text}" if about else self.words or self.text


@dataclass(frozen=True)
class InTime:
    """What a check of the order of things says: races, deadlocks, what it assumes."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class RootCause:
    """A frontier op: all its operands correspond to baseline tensors and its result does not."""

    op: str
    name: str
    kind: str
    source: tuple[Frame, ...]
    operands: tuple[str, ...]
    """What each operand holds, in words."""
    expected: tuple[str, ...]
    found: tuple[str, ...]
    suggestion: tuple[str, ...]
    lemma_missing: str | None
    base_op: str = ""
    base_name: str = ""
    base_source: tuple[Frame, ...] = ()
    results: tuple[str, ...] = ()
    """What it makes, by id."""
    tried: tuple[str, ...] = ()
    """What became of the program with the suggested edit."""
    inputs: tuple[str, ...] = ()
    """How inputs that it hangs on were placed, where that was a guess, or why they are not."""
    called: str = ""
    """What people call its result, where that is an output: `gradient of up.weight`."""
    module: str = ""
    """The module whose parameters it reads: `blocks.0.up`."""
    feeds: str = ""
    """The one output that its result leads to: `up.weight after the step`."""

    @property
    def outcome(self) -> tuple[str, ...]:
        """What became of the suggestion, also where it was not tried."""
        return self.tried or (("untested",) if self.suggestion else ())


@dataclass(frozen=True)
class Report:
    """Everything a run has to say. Built once, rendered by `scalify_dl.report`."""

    verdict: Verdict
    title: str
    outputs: list[OutputVerdict]
    file: str = field(default="", kw_only=True)
    """The distributed program: where what has no source line is told."""
    frontier: list[RootCause] = field(default_factory=list)
    downstream: int = 0
    """Ops that are unproved only because an operand is."""
    unrelated_inputs: list[tuple[str, str]] = field(default_factory=list)
    """Distributed inputs that nothing places: (name, what is known about it)."""
    scope: list[str] = field(default_factory=list)
    """What the verdict leaves out, or rests on in an unusual way: said right below it."""
    findings: list[Finding] = field(default_factory=list)
    picture: list[str] = field(default_factory=list)
    """The parts of the program and where they run, in lines."""
    notes: list[str] = field(default_factory=list)
    assumptions: list[Assumption] = field(default_factory=list)
    not_accepted: list[Assumption] = field(default_factory=list)
    """Those of them that `--strict` stops at."""
    counterexample: dict[str, Any] | None = None
    stats: dict[str, float] = field(default_factory=dict)
    sections: list[tuple[str, list[str]]] = field(default_factory=list)
    """What a command shows besides: titles and lines."""
    more: dict[str, Any] = field(default_factory=dict)
    """What its JSON has besides."""
    view: View | None = field(default=None, compare=False, repr=False)
    """Facts and results behind it, for what is drawn."""
