"""`dlverify export`, `relate` and `facts`: what the front ends and the facts package do, from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.frontends.sizes import Sizes
from scalify_dl.whole import write_whole

from .progress import progress


def export(base: Path, dist: Sequence[Path], mesh: str, relate: Path | None, out: Path, sizes: Sizes) -> None:
    """Write the fact tables of two programs; nothing is written where something is wrong."""
    from scalify_dl.facts.files import write
    from scalify_dl.frontends.export import export as read

    if out.exists() and not out.is_dir():
        raise InputError("not a directory", file=out, expected="a directory, or a name for a new one")
    with progress("reading the programs"):
        facts = read(base, dist, mesh, relate, sizes)
        write(facts, out)
    print(f"{out}: {len(facts['op']):,} ops, {facts.count:,} rows")


def relate(base: Path, dist: Sequence[Path], mesh: str, out: Path | None, sizes: Sizes) -> None:
    """A relations-file template on standard output, or in a new file."""
    from scalify_dl.frontends.relate import relations_template

    if out is not None and out.exists():
        raise InputError("this file exists", file=out, hint="a relations file is edited by hand: it is not overwritten")
    with progress("reading the programs"):
        text = relations_template(base, dist, mesh, sizes)
    if out is None:
        print(text, end="")
    else:
        write_whole(out, text)


def summary(directory: Path) -> None:
    """What is in a facts directory."""
    from scalify_dl.facts.summary import summarise

    from .run import load

    print(summarise(load(directory)), end="")
