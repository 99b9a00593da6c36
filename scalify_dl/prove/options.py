"""What the user may ask of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Options of `dlverify verify`, `run` and `family`; see docs/cli.md."""

    rules: tuple[Path, ...] = ()
    """Further rule files, loaded after the shipped ones."""
    out: Path | None = None
    """Where to keep facts and derived relations."""
    certificate: Path | None = None
    strict: bool = False
    accept: Path | None = None
    timeout: float | None = None
    """Seconds of wall time for the rules."""
    max_memory: int | None = None
    """Megabytes."""
    refute: bool = True
    """Look for a counterexample where an output is not proved."""
    json: bool = False
    """Print one JSON object."""
    sarif: Path | None = None
    html: Path | None = None
    junit: Path | None = None
    baseline: Path | None = None
    """A SARIF file of findings that are known: they are annotated no more, and count as before."""
    format: str = "text"
    """How a report is printed: `text`, `json`, `github` (text and annotations) or `quiet` (one line)."""
    mend: bool = True
    """Try edits of the distributed program where an output is wrong."""
