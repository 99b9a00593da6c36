"""Commands on facts, on one program and on rules: each imports what it needs when it runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from scalify_dl.arguments import Argument, Command, Option, entering
from scalify_dl.cli_options import (
    CertificateOut,
    Dist,
    FactsDir,
    Json,
    Kernel,
    Meanings,
    Mesh,
    Relate,
    Rules,
    Timeout,
)
from scalify_dl.cli_options import above_zero as _above_zero
from scalify_dl.cli_options import alone as _alone
from scalify_dl.prove.options import Options

COMMANDS: list[Command] = []
_command = entering(COMMANDS)


@_command()
def facts(directory: FactsDir) -> None:
    """Check a facts directory and say what is in it."""
    from scalify_dl.commands import inputs

    inputs.summary(directory)


@_command()
def explain(
    directory: FactsDir,
    tensor: Annotated[str, Argument("TENSOR", help="Id or name of a tensor.")],
    rules: Rules = None,
    depth: Annotated[int, Option("--depth", least=0, help="How many steps to show below the tensor.")] = 6,
    json: Json = False,
) -> int:
    """Print in words why TENSOR corresponds to a baseline tensor, or what is missing."""
    from scalify_dl.commands import explain as command

    return command.explain(directory, tensor, tuple(rules or ()), depth=depth, as_json=json)


@_command()
def query(
    directory: FactsDir,
    text: Annotated[str, Argument("QUERY", help="""A body such as 'corr(D,_,B,_,L), result(O,_,D), op(O,_,"dot")'.""")],
    rules: Rules = None,
    json: Json = False,
    tsv: Annotated[bool, Option("--tsv", help="Print tab-separated rows.")] = False,
    limit: Annotated[int, Option("--limit", least=0, help="Most rows to show as a table (0: all).")] = 100,
) -> None:
    """Ask ad hoc Datalog over facts and results (a facts directory, or what --out wrote)."""
    from scalify_dl.commands import query as command

    command.query(directory, text, tuple(rules or ()), as_json=json, as_tsv=tsv, limit=limit)


@_command()
def audit(
    directory: FactsDir,
    relations: Annotated[
        Path | None, Option("--relations", metavar="PATH", help="A table, or a folder with corr.csv, to check.")
    ] = None,
    rules: Rules = None,
    meaning: Meanings = None,
    json: Json = False,
) -> int:
    """Check every correspondence numerically: the derived ones, or a table that somebody else made."""
    from scalify_dl.commands import audit as command

    return command.audit(directory, relations, tuple(rules or ()), meaning or [], as_json=json)


@_command()
def check(
    certificate: Annotated[Path, Argument("CERT", help="What --certificate wrote.")],
    inputs: Annotated[list[Path], Argument("FACTS...", help="The facts directory, or the inputs of a schedule.")],
    steps: Annotated[bool, Option("--steps", help="Print the steps about values, in words.")] = False,
    all_steps: Annotated[bool, Option("--all-steps", help="Print every step, as rules have it.")] = False,
    rules: Rules = None,
    json: Json = False,
) -> int:
    """Replay a proof against the facts, or a verdict on a schedule against its files, with the independent checker."""
    from scalify_dl.commands import check as command

    shown = "all" if all_steps else "values" if steps else ""
    return command.check(certificate, inputs, tuple(rules or ()), as_json=json, steps=shown)


@_command()
def schedule(
    inputs: Annotated[list[Path], Argument("INPUT...", help="A schedule, such as torch's pipeline CSV.")],
    sends: Annotated[
        str, Option("--sends", metavar="blocking|buffered|N|both", help="How many messages a channel holds.")
    ] = "both",
    check: Annotated[
        str, Option("--check", metavar="all|deadlock", help="What to look for: deadlock is what hangs, and no more.")
    ] = "all",
    streams: Annotated[
        str, Option("--streams", metavar="pair|direction|rank|host", help="How a rank's messages are queued.")
    ] = "pair",
    durations: Annotated[str, Option("--durations", metavar="F=10,B=20", help="Times of actions.")] = "",
    plot: Annotated[
        Path | None, Option("--plot", metavar="F", help="Draw the timeline: a .svg, or a .html to zoom in.")
    ] = None,
    certificate: CertificateOut = None,
    timeout: Timeout = None,
    json: Json = False,
) -> int:
    """Say whether a schedule can hang, race or read too early, and what it costs."""
    from scalify_dl.commands import schedule as command

    status = command.schedule(
        inputs, sends=sends, check=check, streams=streams, durations=durations, timeout=timeout, as_json=json,
        picture=plot, certificate=certificate,
    )  # fmt: skip
    return status


@_command(options=_alone)
def lint(
    dist: Dist,
    mesh: Mesh,
    options: Options,
    relate: Relate = None,
    kernel: Kernel = None,
    show_baseline: Annotated[bool, Option("--show-baseline", help="Print the program of one device.")] = False,
    show_types: Annotated[bool, Option("--types", help="Print SPMD types: R, S(dim) or P along every axis.")] = False,
    show_costs: Annotated[bool, Option("--costs", help="Print what collectives move, by axis and op.")] = False,
    backward: Annotated[
        list[Path] | None, Option("--backward", metavar="F", help="Its backward, in a dump of its own (repeatable).")
    ] = None,
    derive_backward: Annotated[
        bool, Option("--derive-backward", help="Compare gradients among the outputs with those that are derived.")
    ] = False,
) -> int:
    """Say what is wrong with the placement of a distributed program that has no baseline."""
    from scalify_dl.commands import lint as command

    return command.run(
        dist, mesh, relate, options, show_baseline=show_baseline, show_types=show_types, show_costs=show_costs,
        backward=tuple(backward or ()), derive_backward=derive_backward, kernels=tuple(kernel or ()),
    )  # fmt: skip


@_command()
def kernel(
    file: Annotated[Path, Argument("K.py", help="A kernel as text: TVMScript or TileLang.")],
    named: Annotated[str | None, Option("--as", metavar="NAME", help="The op that it is to be: matmul.")] = None,
    spec: Annotated[
        Path | None, Option("--spec", metavar="F", help="The program that it is to be: a dump, or another kernel.")
    ] = None,
    function: Annotated[str | None, Option("--function", metavar="NAME", help="Which one of the file.")] = None,
    size: Annotated[
        list[str] | None, Option("--size", metavar="NAME=N", help="A name that the text leaves open.")
    ] = None,
    for_all: Annotated[
        str, Option("--for-all", metavar="NAMES", help="Names of sizes, of which all values are meant.")
    ] = "",
    reals: Annotated[bool, Option("--reals", help="Take casts of reals for exact, and list that.")] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> int:
    """Say whether a kernel computes what is stated (see docs/kernels.md). Nothing of it is executed."""
    from scalify_dl.commands import kernel as command

    return command.kernel(
        file, named=named, spec=spec, function=function, sizes=size or [], timeout=timeout, as_json=json, reals=reals,
        for_all=for_all,
    )  # fmt: skip


@_command()
def fix(dist: Dist, mesh: Mesh, relate: Relate = None, kernel: Kernel = None, json: Json = False) -> int:
    """Print edits after which a program that lint refutes is proved, cheapest first."""
    from scalify_dl.commands import fix as command

    return command.run(dist, mesh, relate, as_json=json, kernels=tuple(kernel or ()))


@_command()
def distribute(
    base: Annotated[Path, Argument("BASE", help="Dump of the single-device program.")], mesh: Mesh,
    relate: Relate = None,
    link: Annotated[
        list[str] | None,
        Option("--link", metavar="AXIS=TIME,RATE", help="What a message along an axis costs: tp=10us,25GB/s."),
    ] = None,
    json: Json = False,
) -> int:  # fmt: skip
    """Print the distributed program of least communication that BASE has between placements of inputs and outputs."""
    from scalify_dl.commands import distribute as command

    return command.run(base, mesh, relate, links=link or [], as_json=json)


@_command("list", "rules")
def rules_list(
    files: Annotated[list[Path] | None, Argument("[FILES]...", help="Else the shipped ones.")] = None,
    json: Json = False,
) -> None:
    """Print all lemmas: id, place, statement."""
    from scalify_dl.commands import rules_list as command

    command.rules_list(files or [], as_json=json)


@_command("show", "rules")
def rules_show(
    lemma: Annotated[str, Argument("ID", help="A lemma, as verdicts and `rules list` name it.")],
    files: Annotated[list[Path] | None, Argument("[FILES]...", help="Rule files that may have it, too.")] = None,
    json: Json = False,
) -> None:
    """Print a lemma: what it says, why it is sound, an example, a wrong twin, its rules."""
    from scalify_dl.commands import rules_list as command

    command.rules_show(lemma, files or [], as_json=json)


@_command("check", "rules")
def rules_check(
    files: Annotated[list[Path] | None, Argument("[FILES]...", help="Rule files to fuzz.")] = None,
    meaning: Meanings = None,
    seconds: Annotated[float, Option("--seconds", check=_above_zero, help="CPU seconds to spend.")] = 60.0,
    seed: Annotated[int, Option("--seed", help="What random programs are drawn from.")] = 0,
    out: Annotated[Path | None, Option("--out", help="Write results as JSON, each minute and at the end.")] = None,
    json: Json = False,
) -> int:
    """Fuzz the rules: random small graphs, everything derived is checked numerically."""
    from scalify_dl.commands.rules_check import rules_check as command

    return command(files or [], meanings=meaning or [], seconds=seconds, seed=seed, out=out, as_json=json)


@_command("check", "readers")
def readers_check(
    framework: Annotated[str, Argument("FRAMEWORK", help="Whose programs: torch or jax.")],
    seconds: Annotated[
        float | None, Option("--seconds", check=_above_zero, help="CPU seconds to spend; 60 without --count.")
    ] = None,
    count: Annotated[int | None, Option("--count", least=1, help="Programs after which to stop.")] = None,
    seed: Annotated[int, Option("--seed", help="What random programs are drawn from.")] = 0,
    out: Annotated[Path | None, Option("--out", metavar="F", help="Write the JSON here, too, anew as it runs.")] = None,
    json: Json = False,
) -> int:
    """Fuzz a reader: random programs, what is read of them is compared with what the framework computes."""
    from scalify_dl.commands.readers import readers_check as command

    spent = seconds or (60.0 if count is None else math.inf)
    return command(framework, seconds=spent, seed=seed, count=count, as_json=json, out=out)
