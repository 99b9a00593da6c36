"""Commands on pairs of programs, on sets of them and on plans: each imports what it needs when it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from scalify_dl.arguments import Argument, Command, Option, entering
from scalify_dl.cli_options import FactsDir, Json, Relate, Sample, Symbolic
from scalify_dl.cli_options import above_zero as _above_zero
from scalify_dl.cli_options import named_pair as _named_pair
from scalify_dl.cli_options import options as _options
from scalify_dl.cli_options import pair as _pair
from scalify_dl.cli_options import written as _written
from scalify_dl.errors import InputError
from scalify_dl.prove.options import Options

COMMANDS: list[Command] = []
_command = entering(COMMANDS)


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
