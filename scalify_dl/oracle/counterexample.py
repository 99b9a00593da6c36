"""Looks for inputs on which the two programs differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from scalify_dl.deadline import OutOfTime
from scalify_dl.errors import InputError

from .addressing import pending_kind
from .doubted import leave_to_machines, leave_to_rounding
from .execute import Deadlock
from .finiteness import noticed
from .found import Counterexample, Search
from .inputs import crowded, ends, thresholds
from .localise import locate
from .meaning import Unsupported
from .narrowed import narrowed
from .outputs import Output, compared, counterexample, differs, not_numbers, outputs_of
from .program import Program, Shard
from .readings import Readings
from .shrink import Shrunk, shrink
from .shrink.extents import Conflict
from .shrink.means import has_numbers, recounted
from .trial import Progress, Trial, is_exact, run_trial
from .versions import run_versions

DIRECT_ELEMENTS = 2_000_000
"""Programs with at most so many elements (all tensors, all ranks) run at their own sizes."""
CONFIRMED_ELEMENTS = 6_000_000
"""What at most so many elements make differ at small sizes is looked at again at their own."""
OTHER_SIZES = (5, 7)
"""At these, too, what differs may be no matter of what constants count."""
AT_ONCE_ELEMENTS = 400_000_000
"""So many elements of all versions run as one: few of them live at a time."""
MANY_RANKS = 32
"""From so many ranks on, fewer are tried first."""
LARGEST_ELEMENTS = 40_000_000
"""So many elements run at their own sizes where they cannot be shrunk."""
TRIALS_AT_INFINITIES = 8
"""How often programs that ask whether numbers are finite run on some that are not."""


@dataclass(frozen=True, slots=True)
class _Effort:
    """How much is tried, as arguments of `find_counterexample` say it."""

    trials: int
    rounding: bool
    localise: bool
    once: bool = False
    enough: bool = False
    draw: str = ""
    at: tuple[int, ...] = ()
    """Ranks on which outputs are looked at; none: on all."""


def elements(program: Program) -> int:
    """Elements of all tensors, those of the distributed side once per rank."""
    ranks = len(program.ranks)
    base = {t for g in program.top("base") for op in g.ops for t in op.results}
    return sum(prod(t.shape) * (1 if t.id in base else ranks) for t in program.tensors.values())


def find_counterexample(
    program: Program,
    *,
    outputs: Collection[str] | None = None,
    relations: Iterable[Shard] = (),
    trials: int = 3,
    seed: int = 0,
    least: int = 2,
    rounding: bool = True,
    localise: bool = True,
    as_it_is: bool = False,
    once: bool = False,
    enough: bool = False,
    draw: str = "",
    progress: Progress | None = None,
) -> Search:
    """Runs both sides on random inputs and compares the outputs (`outputs`: distributed tensors; None: all expected
    ones).

    `relations` are correspondences that the rules derived, in the sizes of `program`: they help to find the first op
    that differs. `rounding` adds a trial in which casts round. `least` is the size that free factors shrink to;
    `as_it_is`: the program runs at its own sizes. `once`: one run, at one size, of which it is left open whether what
    differs is there where constants round. `enough`: no more draws than it takes to refute one output; what they do
    not show of others is left open (`Search.cut`). Both: what one draw refutes of a program whose versions run as one,
    and nothing of others. `draw`: the kind of the first inputs that are tried.
    """
    rows = list(relations)
    search = Search()
    effort = _Effort(trials, rounding, localise, once, enough, draw)
    if enough and once and elements(program) <= CONFIRMED_ELEMENTS:
        search.cut = True
        return search
    try:
        if not as_it_is and len(program.ranks) >= MANY_RANKS:
            fewer = _on_fewer_ranks(program, outputs, rows, seed, least, effort, progress)
            if fewer is not None:
                return fewer
        small = None if as_it_is else _shrunk(program, rows, least)
        search.program = small.program if small else program
        if small is None:
            _try_all(program, outputs, rows, search, seed, effort, progress)
        else:  # two sizes: what coincides at one (a mask of two positions, say) differs at the other
            search.sizes = "shrunk"
            for size in (least,) if once else (least, least + 1):
                small = small if size == least else shrink(program, rows, size)
                kept = [r for row in rows if (r := small.relation(row)) is not None]
                search.program = small.program
                search.problems, search.agreed = [], {}
                begin = seed + size
                if enough and (found := _at_once(program, small.program, outputs, search, begin)):
                    search.counterexamples = found
                    if localise:
                        _try_localise(small.program, kept, search)
                    break
                if enough and once:
                    search.cut = True
                    break
                _try_all(small.program, outputs, kept, search, begin, effort, progress)
                if search.counterexamples:
                    _hold_at_own_sizes(program, small.program, rows, search, begin, enough)
                if search.counterexamples or search.problems or search.sizes == "own":
                    break
    except KeyboardInterrupt:
        search.status = "interrupted"
        search.problems.append(f"interrupted after {search.trials} trials")
        return search
    search.conclude()
    return search


def _short(program: Program, rows: list[Shard], least: int) -> Shrunk | None:
    """The program on a mesh of which at most half the ranks are left; None where no axis may become short. Relations
    that cut axes (what is zero everywhere lies on them in any way) would keep these as they are."""
    plain = [row for row in rows if all(len(entries) < 2 for _, entries in row.layout.axes)]
    for some in (plain, []) if plain else ([],):
        with suppress(Conflict):
            small = shrink(program, some, least, fewer_ranks=True)
            if 2 * len(small.program.ranks) <= len(program.ranks):
                return small
    return None


def _on_fewer_ranks(
    program: Program,
    outputs: Collection[str] | None,
    rows: list[Shard],
    seed: int,
    least: int,
    effort: _Effort,
    progress: Progress | None,
) -> Search | None:
    """What a short mesh shows: outputs that differ there, and on all ranks too; None where it shows nothing (of what
    agrees, only where one run is asked for)."""
    small = _short(program, rows, least)
    if small is None:
        return None
    search = Search(program=small.program, sizes="shrunk")
    kept = [r for row in rows if (r := small.relation(row)) is not None]
    _try_all(small.program, outputs, kept, search, seed + least, effort, progress)
    if search.counterexamples:
        _hold_at_own_sizes(program, small.program, rows, search, seed + least, effort.enough)
    search.conclude()
    if search.status == "refuted" and (effort.enough or not effort.once):
        shown = {c.output for c in search.counterexamples if c.kind == "refutation"}
        whole = _shrunk(program, rows, least)
        everywhere = Search()
        once = _Effort(1, False, False, once=True, at=small.program.ranks)
        _try_all(whole.program if whole else program, shown, [], everywhere, seed + least, once, progress)
        sure = {c.output for c in everywhere.counterexamples if c.kind == "refutation"}
        search.cut = search.cut or sure < shown
        search.counterexamples = [c for c in search.counterexamples if c.output in sure]
        return search if sure else None
    return search if effort.once and search.status in ("refuted", "agrees") else None


def _hold_at_own_sizes(
    program: Program, small: Program, rows: list[Shard], search: Search, seed: int, enough: bool
) -> None:
    """Refutations at small sizes that need not be there at their own, since constants count elements (`shrink.means`):
    gone where the program can be run as it is and agrees; witnesses where it cannot, and no other size has them,
    whatever constants count there."""
    shown = {c.output for c in search.counterexamples if c.kind == "refutation"}
    if not shown or not has_numbers(small):
        return

    def refuted(at: Program, trials: int, outputs: set[str]) -> set[str]:
        again = Search()
        _try_all(at, outputs, [], again, seed, _Effort(trials, False, False, enough=enough), None)
        return {c.output for c in again.counterexamples if c.kind == "refutation"}

    def sure(at: Program, outputs: set[str]) -> set[str]:
        """Those that differ whatever constants count."""
        for other in recounted(program, at):
            outputs = outputs and refuted(other, 2, outputs)
        return outputs

    doubtful = shown if elements(program) <= CONFIRMED_ELEMENTS else shown - sure(small, shown)
    if enough and doubtful < shown:
        search.cut = search.cut or bool(doubtful)
        search.counterexamples = [c for c in search.counterexamples if c.output not in doubtful]
        return
    if doubtful and elements(program) <= LARGEST_ELEMENTS:
        doubtful -= refuted(program, 1, doubtful)
        search.counterexamples = [c for c in search.counterexamples if c.output not in doubtful]
        search.sizes = search.sizes if search.counterexamples else "own"
        search.agreed |= dict.fromkeys(doubtful, "")
        return
    for size in OTHER_SIZES if doubtful else ():
        try:
            at = shrink(program, rows, size).program
        except Conflict:
            break
        if elements(at) > LARGEST_ELEMENTS:
            break
        doubtful = doubtful - sure(at, refuted(at, 2, doubtful))
    reason = "at small sizes only, where constants may count elements that are not there"
    search.counterexamples = [
        replace(c, kind="witness", reason=reason) if c.output in doubtful and c.kind == "refutation" else c
        for c in search.counterexamples
    ]


def _at_once(
    program: Program, small: Program, outputs: Collection[str] | None, search: Search, seed: int
) -> list[Counterexample]:
    """Outputs that one draw refutes at small sizes, whatever constants count there (`shrink.means`); none where that
    is not seen by running everything as one."""
    versions = [small, *recounted(program, small)] if has_numbers(small) else [small]
    if elements(program) <= CONFIRMED_ELEMENTS or len(versions) * elements(small) > AT_ONCE_ELEMENTS or is_exact(small):
        return []
    pending = outputs_of(small, outputs, Search())
    many = len(pending)
    try:
        trials = run_versions(versions, seed, [output.base for output in pending]) or []
    except (Unsupported, Deadlock, InputError, MemoryError):
        return []
    found: list[Counterexample] = []
    for trial in reversed(trials):  # the program itself last: what is shown is of it
        trial.invented = trials[0].invented  # versions differ in numbers alone
        undefined = {*map(id, not_numbers(trial, pending))}
        pending = [output for output in pending if id(output) not in undefined]
        if trial is not trials[0]:
            invented = trial.invented.keys()
            pending = [o for o in pending if not {o.dist, o.base} & invented]
            told = zip(pending, narrowed(trial, pending), strict=True)
            pending = [o for o, closest in told if closest and (closest is not o or differs(trial, o))]
    for output in narrowed(trials[0], pending) if trials else ():
        wrong = output and compared(trials[0], replace(output), ())
        if output and wrong:
            found.append(counterexample(trials[0], output, *wrong, "shrunk"))
    search.trials += 1
    search.cut = bool(found) and len(found) < many
    return [c for c in found if c.kind == "refutation"]


def _shrunk(program: Program, rows: list[Shard], least: int) -> Shrunk | None:
    """The program at small sizes; None where it runs at its own. Raises Conflict where it can do neither."""
    size = elements(program)
    if size <= DIRECT_ELEMENTS:
        return None
    try:
        return shrink(program, rows, least)
    except Conflict:
        if size > LARGEST_ELEMENTS:
            raise
        return None


def _try_all(
    program: Program,
    outputs: Collection[str] | None,
    rows: list[Shard],
    search: Search,
    seed: int,
    effort: _Effort,
    progress: Progress | None,
) -> None:
    trials = effort.trials
    pending = outputs_of(program, outputs, search)
    how = effort.draw or ("integers" if is_exact(program) else "reals")
    plan = [(seed + i, how, False) for i in range(trials)]
    if how == "integers":
        plan[-1] = (plan[-1][0], "reals", False)
    plan += [(seed + trials + i, "ends", False) for i in range(ends(program))]
    plan += [(seed + trials + i, "crowded", False) for i in range(crowded(program))]
    whole, real = thresholds(program)
    plan += [(seed + trials, "thresholds", False)] if whole or real else []
    plan += [(seed + trials, "small", False)] if real else []
    if effort.rounding and _rounds(program):
        plan.append((seed, "reals", True))
    plan = plan[:1] if effort.once else plan
    position = 0
    faint: dict[str, int] = {}
    """Outputs that differ by next to nothing, and where their counterexamples are."""
    while position < len(plan) and (pending or faint):
        if effort.enough and any(c.kind == "refutation" for c in search.counterexamples):
            search.cut = True
            break
        number, how, rounds = plan[position]
        position += 1
        try:
            trial = run_trial(program, number, how, rounding=rounds, progress=progress, relations=rows)
        except (Unsupported, Deadlock, InputError, MemoryError) as error:
            search.problems.append(str(error))
            return
        search.trials += 1
        for output in pending if effort.at else ():
            if not any(map(pending_kind, output.candidates)):
                value = trial.distributed[output.dist]
                trial.distributed[output.dist] = {rank: value[rank] for rank in effort.at}
        undefined = not_numbers(trial, pending)
        if undefined and how != "positive":
            plan.insert(position, (number, "reals" if how == "integers" else "positive", rounds))
            continue
        for output in undefined:
            search.problems.append(f"the baseline output {program.name(output.base)} is not a number on any draw")
            pending.remove(output)
        for output in list(pending):
            found = compared(trial, output, pending)
            if found is not None:
                pending.remove(output)
                search.counterexamples.append(counterexample(trial, output, *found, search.sizes))
                if search.counterexamples[-1].faint and not effort.once:
                    faint[output.dist] = len(search.counterexamples) - 1
        _show_more(trial, program, search, faint)
    search.counterexamples.sort(key=lambda found: found.faint)
    if effort.enough or effort.at or not effort.once:
        leave_to_rounding(program, rows, search)
        leave_to_machines(program, rows, search)
    if pending and not effort.once and not search.cut:
        pending = _at_infinities(program, pending, search, seed)
    for output in () if search.cut else pending:
        search.agreed[output.dist] = str(output.candidates[0])
    if effort.localise and search.counterexamples:
        _try_localise(program, rows, search)


def _show_more(trial: Trial, program: Program, search: Search, faint: dict[str, int]) -> None:
    """Outputs that differed by next to nothing, where another draw shows more."""
    again = outputs_of(program, list(faint), Search()) if faint else []
    undefined = not_numbers(trial, again)
    for output in [output for output in again if output not in undefined]:
        place, found = faint[output.dist], compared(trial, output, ())
        more = found and counterexample(trial, output, *found, search.sizes)
        if more and not more.faint and more.kind == search.counterexamples[place].kind:
            search.counterexamples[place] = more
            del faint[output.dist]


def _at_infinities(program: Program, pending: list[Output], search: Search, seed: int) -> list[Output]:
    """The outputs that agree, too, on inputs that are not finite, where a program asks and the baseline is a number."""
    left = list(pending)
    try:
        ends = [output.dist for output in pending]
        for odd in noticed(program, range(seed, seed + TRIALS_AT_INFINITIES), ends, sure=True):
            search.trials += 1
            trial = odd.trial
            concerned = [o for o in left if odd.concerns(o.dist, o.base)]
            for output in [o for o in concerned if np.isfinite(trial.baseline[o.base]).all()]:
                found = compared(trial, output, ())
                if found is not None:
                    left.remove(output)
                    search.counterexamples.append(counterexample(trial, output, *found, search.sizes))
    except (Unsupported, Deadlock, InputError, MemoryError) as error:
        search.problems.append(str(error))
    return left


def _rounds(program: Program) -> bool:
    return any(op.kind in ("convert", "reduce-precision") for graph in program.graphs.values() for op in graph.ops)


def _try_localise(program: Program, rows: list[Shard], search: Search) -> None:
    try:
        _localise(program, rows, search)
    except OutOfTime:
        search.problems.append("no time was left (--timeout) to find where the difference begins")
        search.readings = None


def _localise(program: Program, rows: list[Shard], search: Search) -> None:
    """Fills in the first op that differs, for the counterexample to show and others of the same draw."""
    search.readings = readings(program, search, rows)
    if search.readings is None:
        return
    best, trial = search.best, search.readings.trial
    assert best is not None
    order = {op.id: i for i, op in enumerate(op for g in program.top("dist") for op in g.ops)}
    alike = [c.output for c in search.counterexamples if (c.seed, c.draw, c.kind) == (best.seed, best.draw, best.kind)]
    places = locate(trial, alike, search.readings)
    placed = [replace(c, place=places.get(c.output)) for c in search.counterexamples]
    search.counterexamples = sorted(placed, key=lambda c: (order[c.place.op] if c.place else len(order), -c.telling))


def readings(program: Program, search: Search, rows: Iterable[Shard] = ()) -> Readings | None:
    """What all values of the run behind the best counterexample are of the baseline's, at the sizes of `program`; None
    where there is no counterexample, or too much to keep."""
    best = search.best
    if best is None or elements(program) > 20 * DIRECT_ELEMENTS:
        return None
    rows = list(rows)
    every = {
        role: [t for g in program.top(role) for t in (*g.inputs, *(r for op in g.ops for r in op.results))]
        for role in ("base", "dist")
    }
    trial = run_trial(
        program, best.seed, best.draw, rounding=best.kind == "precision", keep_base=every["base"],
        keep_dist=every["dist"],
        relations=rows,
    )  # fmt: skip
    return Readings(trial, rows)
