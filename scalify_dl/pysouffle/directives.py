"""`.input`, `.output` and `.printsize` with their IO parameters: which file, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scalify_dl.errors import InputError

from .errors import Diagnostic

_INPUT = {
    "IO",
    "filename",
    "delimiter",
    "headers",
    "rfc4180",
    "columns",
    "dbname",
    "name",
    "fact-dir",
    "operation",
    "compress",
    "format",
}
_OUTPUT = _INPUT - {"columns"} | {"output-dir"}
_READS = ("file", "stdin", "jsonfile", "json", "sqlite")
_WRITES = ("file", "stdout", "stdoutprintsize", "jsonfile", "json", "sqlite")


@dataclass(frozen=True)
class Format:
    """How rows are written as text."""

    delimiter: str = "\t"
    headers: bool = False
    rfc4180: bool = False
    columns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Directive:
    """One directive of the program. `relation` is the engine's index, `name` the qualified name."""

    kind: str  # input, output, printsize, limitsize
    relation: int
    name: str
    parameters: dict[str, str]
    file: str
    line: int
    column: int

    @property
    def table(self) -> str:
        """What the relation is called in a database, and its file where none is named."""
        return self.parameters.get("name", self.name)

    @property
    def io(self) -> str:
        return self.parameters.get("IO", "file")

    def error(self, message: str, hint: str | None = None) -> InputError:
        return InputError(message, file=self.file or None, line=self.line, column=self.column, hint=hint)

    def unknown(self) -> list[Diagnostic]:
        """A warning for each parameter that nothing reads: Soufflé passes over it, and a misspelt one does nothing."""
        known = _INPUT if self.kind == "input" else _OUTPUT
        found = []
        for key in self.parameters:
            if key not in known and key != "n":
                message = f'unknown IO parameter "{key}" of .{self.kind} {self.name} does nothing'
                from difflib import get_close_matches

                near = get_close_matches(key, sorted(known), 1)
                hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(sorted(known))}"
                text = f"{self.file}:{self.line}:{self.column}: warning: {message}\n  hint: {hint}"
                found.append(Diagnostic("warning", self.file, self.line, self.column, message, "", hint, text))
        return found

    def check(self) -> None:
        """Refuse a kind of input or output that there is not."""
        kinds = _READS if self.kind == "input" else _WRITES
        if self.kind in ("input", "output") and self.io not in kinds:
            raise self.error(f'unsupported IO="{self.io}" of .{self.kind} {self.name}', f"known: {', '.join(kinds)}")

    @property
    def objects(self) -> bool:
        """In JSON: are rows objects?"""
        form = self.parameters.get("format", "list")
        if form not in ("list", "object"):
            raise self.error(f'unsupported format="{form}" of .{self.kind} {self.name}', "known: list, object")
        return form == "object"

    def format(self, arity: int) -> Format:
        rfc4180 = self._flag("rfc4180")
        delimiter = self.parameters.get("delimiter", "," if rfc4180 else "\t")
        if delimiter == "" or (rfc4180 and '"' in delimiter):
            raise self.error(
                f'"{delimiter}" cannot be a delimiter here', 'a delimiter is not empty and, with rfc4180, has no "'
            )
        return Format(delimiter, self._flag("headers"), rfc4180, self._columns(arity))

    def _flag(self, key: str) -> bool:
        return self.parameters.get(key, "false") == "true"

    def _columns(self, arity: int) -> tuple[int, ...]:
        """`columns="2:0"` (attribute 0 is column 2 of the file, 1 is column 0) turned round: attribute by column."""
        text = self.parameters.get("columns", "")
        if not text:
            return ()
        try:
            sources = [int(part) for part in text.split(":")]
        except ValueError:
            raise self.error(f'columns="{text}": expected numbers separated by ":"') from None
        if len(sources) < arity or len(set(sources)) != len(sources) or min(sources) < 0:
            raise self.error(f'columns="{text}": expected {arity} different column numbers, counted from 0')
        attributes = [-1] * (max(sources[:arity]) + 1)
        for attribute, source in enumerate(sources[:arity]):
            attributes[source] = attribute
        return tuple(attributes)

    def input_path(self, folder: Path) -> Path:
        suffix = "json" if self.io == "jsonfile" else "facts"
        return folder / self.parameters.get("filename", f"{self.table}.{suffix}")

    def output_path(self, folder: Path) -> Path:
        suffix = "json" if self.io == "jsonfile" else "csv.gz" if "compress" in self.parameters else "csv"
        return folder / self.parameters.get("filename", f"{self.table}.{suffix}")

    def database_path(self, folder: Path) -> Path:
        said = self.parameters.get("dbname", self.parameters.get("filename", f"{self.table}.sqlite"))
        return folder / said.removeprefix("file:").split("?" if said.startswith("file:") else "\0")[0]
