"""`dlverify watch`: a pair is verified again whenever a file that it is read from changes.

One process does all of it, so that rules are loaded once. Nothing of an earlier run is used: the verdict is that of
`dlverify verify`.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.prove.options import Options

from .run import check_outputs, conclude_pair, print_report

if TYPE_CHECKING:
    from scalify_dl.families.capture import Capture

PAUSE = 0.3
"""Seconds between looks at the files."""


def watch(pair: Capture, options: Options, times: int | None) -> int:
    """Verify and print at every change that has come to rest; after so many `times`, the status of the last. What can
    no longer be read is told, and waited for."""
    check_outputs(options, [file for file in (pair.base, *pair.dist) if file])
    seen: list[object] = []
    before: list[object] = []
    done = 0
    while True:
        found = list(_state(pair, options))
        if found == seen or (done and found != before):
            before = found
            time.sleep(PAUSE)
            continue
        seen = found  # as it was before anything was read: what changes meanwhile shows
        try:
            status = print_report(conclude_pair(pair, options), options)
        except InputError as error:
            if not done:
                raise
            status = 2
            print(f"dlverify: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        done += 1
        if done == times:
            return status
        gc.collect()


def _state(pair: Capture, options: Options) -> Iterator[object]:
    """What tells whether a file is another one than before."""
    for file in _files(pair, options):
        try:
            about = file.stat()
            yield file, about.st_mtime_ns, about.st_size, about.st_ino
        except OSError:
            yield file, None


def _files(pair: Capture, options: Options) -> Iterator[Path]:
    from scalify_dl.prove.own_rules import read_own
    from scalify_dl.pysouffle import rules_dir
    from scalify_dl.readers.fx.annotation import beside

    for dump in (pair.base, *pair.dist):
        if dump is not None:
            yield dump
            yield beside(dump)
    yield from (file for file in (pair.relate, options.accept) if file is not None)
    yield from (Path(kernel.partition("=")[2].partition(",")[0]) for kernel in pair.kernels)
    try:
        yield from sorted(read_own(options.rules, rules_dir())) if options.rules else ()
    except InputError:  # told when they are read
        yield from options.rules
