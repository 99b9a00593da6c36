"""`dlverify export`, `relate` and `facts`: what the front ends and the facts package do, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.whole import write_whole

from .progress import progress

if TYPE_CHECKING:
    from scalify_dl.families.capture import Capture


def export(pair: Capture, out: Path) -> None:
    """Write the fact tables of two programs; nothing is written where something is wrong."""
    from scalify_dl.facts.files import write

    if out.exists() and not out.is_dir():
        raise InputError("not a directory", file=out, expected="a directory, or a name for a new one")
    with progress("reading the programs"):
        facts = pair.load()
        write(facts, out)
    print(f"{out}: {len(facts['op']):,} ops, {facts.count:,} rows")


def relate(pair: Capture, out: Path | None) -> None:
    """A relations-file template on standard output, or in a new file."""
    from scalify_dl.pairing.relate import relations_template

    if out is not None and out.exists():
        raise InputError("this file exists", file=out, hint="a relations file is edited by hand: it is not overwritten")
    assert pair.base is not None
    with progress("reading the programs"):
        text = relations_template(pair.base, pair.dist, pair.mesh, pair.sizes)
    if out is None:
        print(text, end="")
    else:
        write_whole(out, text)


def summary(directory: Path) -> None:
    """What is in a facts directory."""
    from scalify_dl.facts.summary import summarise

    from .run import load

    print(summarise(load(directory)), end="")
