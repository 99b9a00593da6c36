"""`dlverify datalog`: run a Datalog program as Soufflé's command line would."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from scalify_dl.arguments import Argument, Option
from scalify_dl.errors import InputError

if TYPE_CHECKING:
    from scalify_dl.pysouffle import Program


def datalog(
    program: Annotated[Path, Argument("PROGRAM.dl", help="The program.")],
    facts: Annotated[Path, Option("-F", "--fact-dir", metavar="DIR", help="Folder of the .facts files.")] = Path("."),
    output: Annotated[
        str, Option("-D", "--output-dir", metavar="DIR", help="Folder for results; - prints them.")
    ] = ".",
    include: Annotated[
        list[Path] | None, Option("-I", "--include-dir", metavar="DIR", help="Where #include looks too.")
    ] = None,
    macro: Annotated[list[str] | None, Option("-M", "--macro", metavar="NAME=VALUE", help="Define a macro.")] = None,
    no_warn: Annotated[bool, Option("-w", "--no-warn", help="No warnings; missing facts files are empty.")] = False,
    jobs: Annotated[str, Option("-j", "--jobs", metavar="N", help="Accepted and ignored: one thread is used.")] = "1",
    engine: Annotated[str, Option(metavar="ENGINE", help="embedded, souffle or souffle-compiled.")] = "embedded",
    word_size: Annotated[int | None, Option(metavar="32|64", help="Numbers wrap at this many bits.")] = None,
    timeout: Annotated[float | None, Option(metavar="SECONDS", help="Give up after this long.")] = None,
    max_tuples: Annotated[int | None, Option(metavar="N", help="Give up above this many tuples.")] = None,
    max_memory: Annotated[int | None, Option(metavar="MB", help="Give up above this much memory.")] = None,
    profile: Annotated[bool, Option("--profile", help="Print time and tuples per rule to standard error.")] = False,
    explain: Annotated[list[str] | None, Option(metavar="ATOM", help='Print a proof: \'path("a","b")\'.')] = None,
    why_not: Annotated[list[str] | None, Option(metavar="ATOM", help="Print why there is no such tuple.")] = None,
) -> None:
    """Run a Datalog program (Soufflé's dialect) on a folder of facts."""
    from scalify_dl.pysouffle import Program

    if word_size not in (None, 32, 64):
        raise InputError(f"--word-size {word_size}: expected 32 or 64")
    defines = dict(_definition(text) for text in macro or ())
    built = Program.from_file(program, engine=engine, include_dirs=include or (), defines=defines, word_size=word_size)
    warned = 0 if no_warn else _print_warnings(built, 0)
    built.load(facts, missing="empty" if no_warn else "error")
    built.run(timeout=timeout, max_tuples=max_tuples, max_memory=None if max_memory is None else max_memory * 1_000_000)
    if not no_warn:
        _print_warnings(built, warned)
    built.write(None if output == "-" else Path(output))
    if profile:
        print(built.stats().profile(), file=sys.stderr)
    for atom in explain or ():
        print(built.explain_atom(atom))
    for atom in why_not or ():
        print(built.why_not_atom(atom))


def _print_warnings(program: Program, known: int) -> int:
    """Print those after the first `known`; how many there are now."""
    warnings = program.warnings
    for warning in warnings[known:]:
        print(warning, file=sys.stderr)
    return len(warnings)


def _definition(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name.isidentifier():
        raise InputError(f'-M "{text}": expected NAME or NAME=VALUE')
    return name, value
