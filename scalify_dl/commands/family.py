"""`dlverify family`, and `dlverify verify --symbolic`: one verdict for all sizes of a family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.families.capture import Capture
from scalify_dl.families.captures import load_family, parse_sample
from scalify_dl.families.family import Family
from scalify_dl.families.symbols import parse_symbols
from scalify_dl.prove.options import Options

from .progress import progress


def family(file: Path, options: Options) -> int:
    """The captures of a family file; the exit status."""
    found = load_family(file)
    try:
        return _verify(found.captures, found.symbols, options)
    except InputError as error:
        raise error.located(file) from None


def symbolic(first: Capture, symbols: str, samples: Sequence[str], options: Options) -> int:
    """A pair on the command line, and further samples of it; the exit status."""
    others = (replace(parse_sample(text, first.relate), sizes=first.sizes) for text in samples)
    captures = [first, *others]
    return _verify(captures, parse_symbols(symbols), options)


def _verify(captures: Sequence[Capture], symbols: Mapping[str, str | None], options: Options) -> int:
    from scalify_dl.families.report import render, to_json
    from scalify_dl.families.texts import members
    from scalify_dl.families.verify import verify_family

    if options.certificate is not None:
        raise InputError("a certificate is for one size: --certificate and --symbolic do not go together")
    out = options.out
    if out is not None and out.exists() and any(out.iterdir()):
        raise InputError("this directory holds other files", file=out, expected="a new or empty directory")

    compared: list[str] = []

    def keep(lifted: Family) -> None:
        compared.extend(found.check(lifted))
        if out is not None:
            from scalify_dl.facts.files import write

            write(lifted.facts({}).facts, out)

    with progress("reading the captures") as say:
        found = members(captures, symbols)
        facts = [capture.load(member=True) for capture in found.captures]
        report = verify_family(facts, found.symbols, options, say, keep, found.dims(facts[0]), found.told)
    if compared:
        text = f"the formulas are those of the text at {'; at '.join(compared)} as well"
        report = replace(report, notes=[*report.notes, text])
    if options.json:
        print(to_json(report))
    else:
        render(report)
    return report.verdict.exit_code
