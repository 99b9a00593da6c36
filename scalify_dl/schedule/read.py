"""Files to a schedule; their kind is told by content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scalify_dl.errors import InputError

from .flight_recorder import read_dump, read_dumps
from .marks import looks_like_assignment, looks_like_fx, looks_like_hlo, looks_like_msccl, looks_like_run
from .pipeline import STREAMS, lower
from .pipeline_csv import looks_like_orders, once, read_orders
from .recorded import read_runs
from .tables import Schedule

LARGEST = 1 << 30
"""Bytes of a file."""
KINDS = (
    "torch's pipeline CSV, Flight Recorder dumps or recorded runs of all ranks, an XML file of MSCCL, scheduled HLO, "
    "FX graphs, or a directory of plan tables"
)


def read_schedule(
    paths: Sequence[Path], *, streams: str = "pair", durations: Mapping[str, int] | None = None, check: str = "all"
) -> Schedule:
    """The schedule that files describe, or what of it a check needs (`run.CHECKS`); InputError with a place for what is
    not understood."""
    if streams not in STREAMS:
        raise InputError(f'--streams "{streams}"', expected=", ".join(STREAMS))
    contents = [_content(path) for path in paths]
    dumps = [read_dump(path, data) for path, data in zip(paths, contents, strict=True)]
    if dumps[0] is not None:
        if None in dumps:
            raise InputError("no dump, but others are", file=paths[dumps.index(None)], expected="dumps of all ranks")
        return read_dumps(paths, [dump for dump in dumps if dump is not None])
    texts = [_text(path, data) for path, data in zip(paths, contents, strict=True)]
    if len(paths) == 1 and looks_like_orders(texts[0]):
        return lower(once(read_orders(paths[0], texts[0])), streams, durations, ends_wait=check == "all")
    if len(paths) == 1 and looks_like_msccl(texts[0]):
        from .msccl_xml import read_msccl

        return read_msccl(paths[0], texts[0])
    if any(looks_like_run(text) for text in texts):
        if odd := [p for p, t in zip(paths, texts, strict=True) if not looks_like_run(t)]:
            raise InputError("no recorded run, but others are", file=odd[0], expected="a run of every rank")
        return read_runs(paths, texts, streams)
    if any(looks_like_hlo(text) for text in texts):
        from .hlo.ranks import read_hlo

        if odd := [p for p, t in zip(paths, texts, strict=True) if not (looks_like_hlo(t) or looks_like_assignment(t))]:
            raise InputError("no HLO, but others are", file=odd[0], expected="modules and their buffer assignments")
        return read_hlo(paths, texts, streams)
    if all(looks_like_fx(text) for text in texts):
        from .fx_waits import read_fx

        return read_fx(paths, texts, streams)
    first = next(line for line in [*texts[0].splitlines(), ""] if line.strip() or not texts[0].strip())
    if len(paths) > 1 and all(looks_like_orders(text) for text in texts):
        raise InputError(
            f"{len(paths)} schedules together", file=paths[1], expected="one file, with a line for every rank"
        )
    raise InputError(f'no schedule that is known: it begins "{first[:40]}"', file=paths[0], line=1, expected=KINDS)


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise InputError("the file is too large", file=path, expected=f"at most {LARGEST:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror or error}", file=path) from None


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not text: byte {error.start} is no UTF-8", file=path, expected=KINDS) from None
