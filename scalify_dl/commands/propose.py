"""`dlverify propose`: a draft, judged, on standard output or in a new file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.propose import KINDS, Asked, Endpoint
from scalify_dl.propose import propose as run
from scalify_dl.propose.reply import LIMIT, read_reply
from scalify_dl.whole import write_whole

from .run import conclude_facts, conclude_pair, load


def propose(
    kind: str,
    inputs: Sequence[Path],
    *,
    mesh: str | None,
    op: str | None,
    source: Path | None,
    replies: Sequence[Path],
    dry_run: bool,
    rounds: int,
    seconds: float,
    out: Path | None,
    values: Path | None = None,
) -> int:
    """Status 0 if a draft passed; nothing is written else."""
    if kind not in KINDS:
        raise InputError(f"nothing proposes `{kind}`", expected=f"one of {', '.join(KINDS)}")
    if out is not None and out.exists():
        raise InputError("this file exists", file=out, hint="a draft takes no file's place")
    if out is not None and not out.parent.is_dir():
        raise InputError("cannot write here", file=out, expected="a file in an existing directory")
    given = [read_reply(_bytes(file), file) for file in replies]
    asked = _asked(kind, inputs, mesh, op, source, seconds) if kind != "program" else _source(inputs, mesh, values)
    messages = asked.messages()
    if dry_run:
        print(json.dumps(messages, indent=2, ensure_ascii=False))
        return 0
    endpoint = None if given else _endpoint()
    if endpoint is not None:
        size = sum(len(m["content"]) for m in messages)
        what = f"{size:,} characters (names, shapes, source lines of the programs; --dry-run prints them)"
        print(f"dlverify: sending {what} to {endpoint.url}, model {endpoint.model}", file=sys.stderr)
    judged = run(asked, endpoint or given, rounds, lambda text: print(f"dlverify: {text}", file=sys.stderr))
    print(f"dlverify: {judged.found}", file=sys.stderr)
    if out is None:
        print(judged.text, end="")
    else:
        write_whole(out, judged.text)
    return 0


def _endpoint() -> Endpoint:
    from scalify_dl.project import find

    project = find()
    return Endpoint.configured(project.propose if project else None)


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from None


def _source(inputs: Sequence[Path], mesh: str | None, values: Path | None) -> Asked:
    if len(inputs) != 1:
        raise InputError(f"{len(inputs)} files", expected="dlverify propose program SOURCE.py [--mesh tp=2]")
    text = _bytes(inputs[0]).decode("utf-8", "replace")[:LIMIT]
    if values is not None and not _bytes(values).startswith(b"PK"):
        raise InputError("no arrays of a run", file=values, expected="what numpy.savez wrote: F.npz")
    return Asked("program", mesh=mesh or "", source=text, values=values)


def _asked(
    kind: str, inputs: Sequence[Path], mesh: str | None, op: str | None, source: Path | None, seconds: float
) -> Asked:  # fmt: skip
    from scalify_dl.families.capture import Capture
    from scalify_dl.prove.options import Options

    if (kind == "meaning") != bool(op):
        raise InputError("--op and `meaning` go together", expected="dlverify propose meaning FACTS --op custom:my_op")
    if kind == "relations" and (len(inputs) < 2 or not mesh):
        raise InputError("two programs are needed", expected="dlverify propose relations BASE DIST… --mesh tp=2")
    if kind == "relations":
        assert mesh is not None
        for file in inputs:
            if not file.is_file():
                raise InputError("no such file", file=file, expected="a dump")
        return Asked(kind, inputs[0], tuple(inputs[1:]), mesh)
    if len(inputs) > 1 and not mesh:
        raise InputError("no --mesh is given", expected="FACTS, or BASE DIST… --mesh tp=2")
    options = Options(refute=kind == "explain")
    if len(inputs) == 1:
        report = conclude_facts(load(inputs[0]), options)
    else:
        assert mesh is not None
        report = conclude_pair(Capture(inputs[0], tuple(inputs[1:]), mesh), options)
    if kind == "meaning" and report.view is not None and not any(k == op for _, _, k in report.view.facts("op")):
        raise InputError(f"no op of the kind `{op}` is in these programs")
    if kind in ("lemma", "explain") and not report.frontier:
        raise InputError(f"the verdict is {report.verdict.value}: there is no cause to speak of")
    text = _bytes(source).decode("utf-8", "replace")[:LIMIT] if source else ""
    return Asked(kind, report=report, op=op or "", source=text, seconds=seconds)
