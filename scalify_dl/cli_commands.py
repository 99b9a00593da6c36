"""What `dlverify` can be asked: each command imports what it needs when it runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from scalify_dl.arguments import Argument, Command, Option
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
    Sample,
    Symbolic,
    Timeout,
)
from scalify_dl.cli_options import above_zero as _above_zero
from scalify_dl.cli_options import alone as _alone
from scalify_dl.cli_options import named_pair as _named_pair
from scalify_dl.cli_options import options as _options
from scalify_dl.cli_options import pair as _pair
from scalify_dl.cli_options import written as _written
from scalify_dl.errors import InputError
from scalify_dl.prove.options import Options

COMMANDS: list[Command] = []
_F = TypeVar("_F", bound=Callable[..., Any])


def _command(name: str = "", group: str = "", **makers: Callable[..., Any]) -> Callable[[_F], _F]:
    """Enters a command. In place of some of its parameters stand those of a function that makes the argument."""

    def enter(function: _F) -> _F:
        COMMANDS.append(Command(name or function.__name__, lambda: function, makers, group))
        return function

    return enter


@_command(pair=_named_pair, options=_options, written=_written)
def verify(
    pair: Any,
    options: Options,
    written: dict[str, Any],
    relate: Relate = None,
    symbolic: Symbolic = None,
    sample: Sample = None,
) -> int:
    """Say whether DIST computes what BASE computes; without --mesh, of pairs named in dlverify.toml (all, or those)."""
    pair, options = replace(pair, relate=relate), replace(options, **written)
    if not pair.mesh:
        if relate or symbolic or sample:
            raise InputError("no --mesh is given", expected="dlverify verify BASE DIST --mesh tp=2")
        from scalify_dl.commands import several

        return several.verify_named([str(word) for word in (pair.base, *pair.dist) if word], options)
    if not pair.dist:
        raise InputError("no distributed program is given", expected="dlverify verify BASE DIST --mesh tp=2")
    if sample and symbolic is None:
        raise InputError("--sample goes with --symbolic", hint="name the sizes that vary: --symbolic tp,batch=tokens:0")
    if symbolic is not None:
        if options.sarif or options.html:
            raise InputError("--sarif and --html report on one size: they do not go with --symbolic")
        from scalify_dl.commands import family as families

        return families.symbolic(pair, symbolic, sample or [], options)
    from scalify_dl.commands import run as command

    return command.verify(pair, options)


@_command(pair=_pair, options=_options, written=_written)
def watch(
    pair: Any,
    options: Options,
    written: dict[str, Any],
    relate: Relate = None,
    times: Annotated[int | None, Option("--times", metavar="N", least=1, help="End after so many verdicts.")] = None,
) -> int:
    """Verify, and again whenever a file that is read changes; nothing is taken over from one verdict to the next."""
    from scalify_dl.commands import watch as command

    return command.watch(replace(pair, relate=relate), replace(options, **written), times)


@_command()
def init(
    dumps: Annotated[list[Path] | None, Argument("[BASE DIST...]", help="A pair; else those that lie here.")] = None,
    mesh: Annotated[str | None, Option("--mesh", help="Mesh axes and sizes, if no dump says them.")] = None,
    name: Annotated[str | None, Option("--name", help="What the pair is called.")] = None,
) -> int:
    """Draft dlverify.toml, and a relations file where something has to be said, from the dumps of a pair."""
    from scalify_dl.commands import init as command

    return command.init(dumps or [], mesh, name)


@_command()
def propose(
    kind: Annotated[str, Argument("KIND", help="relations, meaning, lemma, program or explain.")],
    inputs: Annotated[list[Path], Argument("FACTS|BASE DIST...", help="Facts, a pair with --mesh, or source.")],
    mesh: Annotated[str | None, Option("--mesh", help="Mesh axes and sizes of a pair.")] = None,
    op: Annotated[str | None, Option("--op", metavar="KIND", help="Whose meaning: custom:my_op.")] = None,
    source: Annotated[Path | None, Option("--source", metavar="F", help="Source of the kernel, for a meaning.")] = None,
    values: Annotated[
        Path | None, Option("--values", metavar="F.npz", help="Arrays of a run of the source, for a program.")
    ] = None,
    reply: Annotated[list[Path] | None, Option("--reply", metavar="F", help="Answers without an endpoint.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be asked.")] = False,
    rounds: Annotated[int, Option("--rounds", least=1, help="How often to ask at most.")] = 3,
    seconds: Annotated[float, Option("--seconds", check=_above_zero, help="CPU seconds to try rules for.")] = 30.0,
    out: Annotated[Path | None, Option("-o", metavar="F", help="Write the draft that passed here.")] = None,
) -> int:
    """Draft relations, a meaning, a lemma or an explanation by a language model; what does not pass is not shown."""
    from scalify_dl.commands import propose as command

    return command.propose(
        kind, inputs, mesh=mesh, op=op, source=source, replies=reply or [], dry_run=dry_run, rounds=rounds,
        seconds=seconds, out=out, values=values,
    )  # fmt: skip


@_command()
def schema(
    name: Annotated[str, Argument("NAME", help="relations, proposal or program.")] = "relations",
) -> None:
    """Print the JSON Schema of a file that people or programs write, for editors."""
    from scalify_dl.commands import schema as command

    command.schema(name)


@_command(options=_options)
def family(
    file: Annotated[Path, Argument("F.yaml", help="Symbols and captures (see docs/symbolic.md).")],
    options: Options,
) -> int:
    """One verdict for all sizes of a program that was captured at several."""
    from scalify_dl.commands import family as command

    return command.family(file, options)


@_command(options=_options, written=_written)
def run(facts: FactsDir, options: Options, written: dict[str, Any]) -> int:
    """Facts to verdict. On a directory of fact sets: all of them, ending with a table."""
    from scalify_dl.commands import run as command

    return command.run(facts, replace(options, **written))


@_command()
def sweep(
    file: Annotated[Path, Argument("SWEEP.yaml", help="Runs by name (see docs/sweep.md).")],
    out: Annotated[
        Path | None, Option("--out", metavar="DIR", help="Keep results here; what is there is not done again.")
    ] = None,
    jobs: Annotated[
        int | None, Option("--jobs", metavar="N", least=1, help="Processes at once; else one for each core.")
    ] = None,
    junit: Annotated[Path | None, Option("--junit", metavar="F", help="Write JUnit XML: a case for each run.")] = None,
    json: Json = False,
) -> int:
    """Verify many pairs, several at once, and end with a table; started again, it does what is lacking."""
    from scalify_dl.commands import sweep as command

    return command.sweep(file, out, jobs, junit, as_json=json)


@_command(options=_options, written=_written)
def plan(
    path: Annotated[Path, Argument("PATH", help="Directory of plan tables, or a plan.yaml (see docs/plans.md).")],
    options: Options,
    written: dict[str, Any],
) -> int:
    """Say whether a training plan (stages, micro-batches, reducers) computes what the single-device step computes."""
    from scalify_dl.commands import plan as command

    return command.plan(path, replace(options, **written))


@_command(pair=_pair)
def export(
    pair: Any,
    out: Annotated[Path, Option("-o", "--out", metavar="FACTS", help="Directory to write the fact tables to.")],
    relate: Relate = None,
) -> None:
    """Read two programs and write their fact tables."""
    from scalify_dl.commands import inputs

    inputs.export(replace(pair, relate=relate), out)


@_command(pair=_pair)
def relate(
    pair: Any,
    out: Annotated[Path | None, Option("-o", metavar="F.yaml", help="Write here, not to stdout.")] = None,
) -> None:
    """Print a relations-file template: every pairing of inputs, what was guessed and what is ambiguous."""
    from scalify_dl.commands import inputs

    inputs.relate(pair, out)


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


def _datalog() -> Callable[..., Any]:
    from scalify_dl.pysouffle.command import datalog

    return datalog


COMMANDS.append(Command("datalog", _datalog, {}, ""))
