"""Obeying `.output` and `.printsize`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from scalify_dl.errors import InputError
from scalify_dl.pysouffle.directives import Directive
from scalify_dl.pysouffle.embedded import EmbeddedEngine

_RULE = b"---------------\n"
_END = b"===============\n"


def write(engine: EmbeddedEngine, directory: Path | None, out: BinaryIO) -> None:
    """Files go to `directory`; without one everything goes to `out`, framed as Soufflé frames it."""
    outputs = [d for d in engine.directives if d.kind in ("output", "printsize")]
    if directory is not None and any(d.kind == "output" and d.io in ("file", "sqlite") for d in outputs):
        if not directory.is_dir():
            raise InputError(f"the output folder {directory} does not exist", hint="create it first")
        if not os.access(directory, os.W_OK | os.X_OK):
            raise InputError(f"the output folder {directory} is not writable")
    for directive in outputs:
        relation = engine.relations[directive.name]
        if directive.kind == "printsize" or directive.io == "stdoutprintsize":
            out.write(f"{directive.name}\t{engine.size(relation)}\n".encode())
        elif directive.io == "stdout" or (directory is None and directive.io == "file"):
            out.write(_RULE + directive.name.encode() + b"\n")
            form = directive.format(len(relation.attributes))
            text = engine.text(relation, form)
            if form.headers:  # the names stand between the frame's lines
                header, _, text = text.partition(b"\n")
                out.write(header + b"\n")
            out.write(_END + text + _END)
        else:
            _write_file(engine, directive, directory or Path("."))
    out.flush()


def _write_file(engine: EmbeddedEngine, directive: Directive, directory: Path) -> None:
    relation = engine.relations[directive.name]
    if directive.io == "sqlite":
        from scalify_dl.pysouffle import sqlite

        sqlite.write(directive.database_path(directory), relation, engine.rows(relation))
        return
    path = directive.output_path(directory)
    form = directive.format(len(relation.attributes))
    if "compress" in directive.parameters:
        import gzip

        draft = path.with_name(path.name + f".part{os.getpid()}")
        try:
            with gzip.open(draft, "wb") as stream:
                stream.write(engine.text(relation, form))
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise InputError(f"cannot write {path}: {error.strerror or error}") from None
        return
    engine.write(relation, path, form)
