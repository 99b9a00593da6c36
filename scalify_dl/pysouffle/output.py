"""Obeying `.output` and `.printsize`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from scalify_dl.errors import InputError
from scalify_dl.pysouffle.directives import Directive
from scalify_dl.pysouffle.embedded import EmbeddedEngine
from scalify_dl.pysouffle.errors import EvaluationError
from scalify_dl.whole import beside

_RULE = b"---------------\n"
_END = b"===============\n"


def write(engine: EmbeddedEngine, directory: Path | None, out: BinaryIO) -> None:
    """Files go to `directory`; without one everything goes to `out`, framed as Soufflé frames it."""
    outputs = [d for d in engine.directives if d.kind in ("output", "printsize")]
    if directory is not None and any(d.kind == "output" and d.io in ("file", "jsonfile", "sqlite") for d in outputs):
        if not directory.is_dir():
            raise InputError(f"the output folder {directory} does not exist", hint="create it first")
        if not os.access(directory, os.W_OK | os.X_OK):
            raise InputError(f"the output folder {directory} is not writable")
    drafts: list[tuple[Path, Path]] = []
    try:
        for directive in outputs:
            relation = engine.relations[directive.name]
            if directive.kind == "printsize" or directive.io == "stdoutprintsize":
                out.write(f"{directive.name}\t{engine.size(relation)}\n".encode())
            elif directive.io == "stdout" or (directory is None and directive.io == "file"):
                out.write(_RULE + directive.name.encode() + b"\n")
                form = directive.format(len(relation.attributes))
                if directory is None:  # as Soufflé's -D-
                    form = replace(form, headers=True)
                text = engine.text(relation, form)
                if form.headers:  # the names stand between the frame's lines
                    header, _, text = text.partition(b"\n")
                    out.write(header + b"\n")
                out.write(_END + text + _END)
            elif directive.io == "json" or (directory is None and directive.io == "jsonfile"):
                out.write(_json(engine, directive))
            elif directive.io == "sqlite":
                from scalify_dl.pysouffle import sqlite

                sqlite.write(
                    directive.database_path(directory or Path(".")), directive.table, relation, engine.rows(relation)
                )
            else:
                path = directive.output_path(directory or Path("."))
                drafts.append((path, _draft(engine, directive, path)))
        out.flush()
        for path, draft in drafts:  # all results of one run, or none
            draft.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {error.filename2 or error.filename or 'results'}: {error.strerror}") from None
    finally:
        for _, draft in drafts:
            draft.unlink(missing_ok=True)


def _draft(engine: EmbeddedEngine, directive: Directive, path: Path) -> Path:
    """A file beside its place, complete."""
    relation = engine.relations[directive.name]
    form = directive.format(len(relation.attributes))
    draft = beside(path)
    try:
        if directive.io == "jsonfile":
            draft.write_bytes(_json(engine, directive))
        elif "compress" in directive.parameters:
            import gzip

            with gzip.open(draft, "wb") as stream:
                stream.write(engine.text(relation, form))
        else:
            engine.write(relation, draft, form)
    except (OSError, EvaluationError) as error:
        draft.unlink(missing_ok=True)
        why = error.strerror if isinstance(error, OSError) else str(error).rpartition(": ")[2]
        raise InputError(f"cannot write {path}: {why}") from None
    return draft


def _json(engine: EmbeddedEngine, directive: Directive) -> bytes:
    from scalify_dl.pysouffle import json_rows

    relation = engine.relations[directive.name]
    return json_rows.text(relation, engine.rows(relation), directive.objects, engine.session.records())
