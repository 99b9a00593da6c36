"""`.input`, `.output` and `.printsize` with their IO parameters: which file, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scalify_dl.errors import InputError

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
    def io(self) -> str:
        return self.parameters.get("IO", "file")

    def error(self, message: str, hint: str | None = None) -> InputError:
        return InputError(message, file=self.file or None, line=self.line, column=self.column, hint=hint)

    def check(self) -> None:
        """Refuse what is not supported: an ignored parameter would change what is read or written."""
        known = _INPUT if self.kind == "input" else _OUTPUT
        for key in self.parameters:
            if key not in known and key != "n":
                raise self.error(
                    f'unsupported IO parameter "{key}" of .{self.kind} {self.name}',
                    f"known: {', '.join(sorted(known))}",
                )
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
        return folder / self.parameters.get("filename", f"{self.name}.{suffix}")

    def output_path(self, folder: Path) -> Path:
        suffix = "json" if self.io == "jsonfile" else "csv.gz" if "compress" in self.parameters else "csv"
        return folder / self.parameters.get("filename", f"{self.name}.{suffix}")

    def database_path(self, folder: Path) -> Path:
        return folder / self.parameters.get("dbname", self.parameters.get("filename", f"{self.name}.sqlite"))
