"""What `verify` gives, here and of captures: the report as data, in every format, and tables of what was derived."""

from __future__ import annotations

import json
import os
import sys
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.prove.pipeline import Analysis
from scalify_dl.prove.verdict import Assumption, OutputVerdict, RootCause, Verdict
from scalify_dl.prove.verdict import Report as Found

if TYPE_CHECKING:
    import pandas

    from scalify_dl.finding import Finding


class Report:
    """A verdict and all that there is to say about it. Shown as a page in notebooks, as text by `print`."""

    def __init__(self, found: Found, analysis: Analysis) -> None:
        self.found, self.analysis = found, analysis

    @property
    def verdict(self) -> Verdict:
        """PROVED, REFUTED or UNKNOWN."""
        return self.found.verdict

    @property
    def outputs(self) -> list[OutputVerdict]:
        """One for each output that was checked."""
        return self.found.outputs

    @property
    def frontier(self) -> list[RootCause]:
        """Root causes: where the programs part, or the proof stops."""
        return self.found.frontier

    @property
    def assumptions(self) -> list[Assumption]:
        """What the verdict relies on and nobody checked."""
        return self.found.assumptions

    @property
    def counterexample(self) -> dict[str, Any] | None:
        """Where numbers differ: rank, element, expected, actual; None if no such inputs were found."""
        return self.found.counterexample

    @property
    def notes(self) -> list[str]:
        """What else is to be said."""
        return self.found.notes

    @property
    def scope(self) -> list[str]:
        """What the verdict leaves out, or rests on in an unusual way."""
        return self.found.scope

    @property
    def findings(self) -> list[Finding]:
        """Races, deadlocks and what else is said of the program itself."""
        return self.found.findings

    def text(self) -> str:
        """The report in words, as `dlverify verify` prints it."""
        from scalify_dl.report.terminal import render

        out = StringIO()
        render(self.found, out)
        return out.getvalue()

    def print(self, file: IO[str] | None = None) -> None:
        """Print the report, on standard output or elsewhere; a reader that stops early (`| head`) is no error."""
        from scalify_dl.report.terminal import render

        try:
            render(self.found, file or sys.stdout)
            if file is None:
                sys.stdout.flush()
        except BrokenPipeError:
            if file is not None:
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())  # what is still to be flushed when the process ends
            os.close(nowhere)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values; the keys are those of `--json` (docs/cli.md)."""
        from scalify_dl.report.json import as_object

        found: dict[str, Any] = json.loads(json.dumps(as_object(self.found)))
        return found

    def html(self) -> str:
        """The report as one page that needs nothing else."""
        from scalify_dl.report.html import render

        return render(self.found)

    def save(self, file: str | Path) -> Path:
        """Write the report: `.html`, `.json`, `.sarif`, `.xml` (JUnit), or `.txt`."""
        from scalify_dl.report import junit, sarif
        from scalify_dl.whole import write_whole

        file = Path(file)
        kinds = {
            ".html": self.html,
            ".json": lambda: json.dumps(self.to_dict(), indent=2, ensure_ascii=False),
            ".sarif": lambda: sarif.render(self.found),
            ".xml": lambda: junit.render([(self.found.title or "dlverify", self.found)]),
            ".txt": self.text,
        }
        if file.suffix not in kinds:
            raise InputError(f"no format for `{file.suffix}`", file=file, expected=f"one of {', '.join(kinds)}")
        write_whole(file, kinds[file.suffix]())
        return file

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a derived relation or a fact table."""
        return [tuple(row) for row in self._table(name)[1]]

    def frame(self, name: str) -> pandas.DataFrame:
        """A derived relation (`corr`, `frontier`, …) or a fact table as a pandas DataFrame."""
        from scalify_dl.pysouffle.frames import frame

        columns, rows = self._table(name)
        return frame(columns, rows)

    def _table(self, name: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        from scalify_dl.facts import TABLES

        program = self.analysis.program
        if name in program.relations:
            return [a.name for a in program.relations[name].attributes], sorted(program.relation(name), key=repr)
        if name in TABLES:
            return [c.name for c in TABLES[name].columns], [tuple(row) for row in self.analysis.facts[name]]
        from difflib import get_close_matches

        near = get_close_matches(name, [*program.relations, *TABLES], 3)
        raise InputError(f"no table `{name}`", hint=f"did you mean {' or '.join(near)}?" if near else None)

    def explain(self, tensor: str, depth: int = 6) -> str:
        """Why a tensor corresponds to what it does, in words, or what is missing."""
        from scalify_dl.report.explain import as_text, explain, tensors_named

        found = tensors_named(self.analysis.view, tensor)[0]
        return as_text(explain(self.analysis, found, depth))

    def _repr_html_(self) -> str:
        from html import escape

        page = escape(self.html(), quote=True)
        return f'<iframe style="width:100%;height:40rem;border:1px solid #ccc" srcdoc="{page}"></iframe>'

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        proved = sum(o.verdict is Verdict.PROVED for o in self.outputs)
        return f"<Report {self.verdict.value}: {proved} of {len(self.outputs)} outputs proved>"
