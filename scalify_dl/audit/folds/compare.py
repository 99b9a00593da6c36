"""One plan: what the fold makes of it against the interpreter.

    PROVED      the plan runs to its end and gives what the single-device step gives; so, too, where it is proved by its
                unit form, since all copies and micro-batches do the same
    folded      the folded program, run by the oracle, has on every virtual rank what the plan has on its rank
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scalify_dl.deadline import OutOfTime, cpu_limit
from scalify_dl.errors import InputError
from scalify_dl.oracle import load_program, run_trial
from scalify_dl.oracle.inputs import baseline_inputs
from scalify_dl.plans.after import AFTER
from scalify_dl.plans.model import LOADER, Side, read_side
from scalify_dl.plans.prepare import Prepared, prepare, prepare_repeated
from scalify_dl.plans.tables import Tables
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict

from .interpreter import Run, Stuck
from .kinds import Unknown

Array = np.ndarray[Any, Any]
LOSS = "loss"
Found = tuple[int, str, tuple[tuple[int, int], ...], Array]
"""(rank, weight, spans, value)."""


@dataclass
class Outcome:
    """What became of a plan, and where fold and interpreter disagree."""

    verdict: str
    """A verdict, `cannot run` and the kind of the first finding, `not folded` or `bad input`."""
    runs: str = ""
    """`right`, `wrong`, `stuck` or `unknown`, of the interpreter."""
    regular: str = ""
    """The verdict by its unit form, where it is written out and regular."""
    compared: int = 0
    """Values of folded outputs that were compared."""
    mismatches: list[str] = field(default_factory=list)


def outcome(directory: Path, seed: int = 0, seconds: float | None = None) -> Outcome:
    """Reads, folds, proves and runs a plan; `seconds` of CPU after which the proof is given up (UNKNOWN)."""
    out = _outcome(directory, seed, seconds)
    regular = prepare_repeated(directory)
    if regular is not None:
        out.regular = _proved(regular, seconds)
        if out.regular == Verdict.PROVED.value and out.runs in ("wrong", "stuck", ""):
            out.mismatches.append(f"PROVED by its unit form, and {out.runs}")
    return out


def _outcome(directory: Path, seed: int, seconds: float | None) -> Outcome:
    try:
        prepared = prepare(directory)
    except InputError as error:
        return Outcome("bad input" if error.file else f"bad input without a place: {error.message}")
    base = read_side(Tables(directory, "s"))
    if prepared.facts is None:
        kinds = [finding.kind for finding in prepared.findings if finding.level == "error"]
        return Outcome(f"cannot run: {kinds[0]}" if kinds else "not folded", _alone(prepared, base, seed))
    opaque = any("is taken as opaque" in note for note in prepared.notes)  # what it computes is not known
    out = Outcome(_proved(prepared, seconds))
    try:
        fulls, values = _folded(prepared, base, seed)
        truth = Run(base, fulls).finish()
        run = Run(prepared.plan, fulls).finish()
    except Unknown as kind:
        out.runs = f"unknown: {kind}"
        return out
    except Stuck as where:
        out.runs = "stuck"
        ends = prepared.in_time is None or prepared.in_time.verdict is Verdict.PROVED
        if out.verdict == Verdict.PROVED.value or (ends and not opaque):
            out.mismatches.append(f"{out.verdict}, and it does not run: {where}")
        return out
    wrong = differences(truth, run)
    out.runs = "wrong" if wrong else "right"
    if wrong and out.verdict == Verdict.PROVED.value:
        out.mismatches.append(f"PROVED, and wrong: {'; '.join(wrong[:5])}")
    if opaque:
        return out
    for compared, text in _against(prepared, run, values):
        out.compared += compared
        out.mismatches += [text] if text else []
    return out


def _proved(prepared: Prepared, seconds: float | None) -> str:
    """The verdict of the proof."""
    try:
        with cpu_limit(seconds):
            return report_on(prepared, Options(refute=False)).verdict.value
    except OutOfTime:
        return Verdict.UNKNOWN.value


def _alone(prepared: Prepared, base: Side, seed: int) -> str:
    """What the interpreter says of a plan that is not folded; told, not judged: tables that deny each other may run."""
    try:
        fulls = draw(base, seed)
        return "wrong" if differences(Run(base, fulls).finish(), Run(prepared.plan, fulls).finish()) else "right"
    except Stuck:
        return "stuck"
    except (Unknown, ValueError, IndexError, KeyError):
        return "unknown"


def same(x: Array, y: Array) -> bool:
    """Whether two values are equal but for rounding."""
    scale = max(1e-12, float(np.abs(y).max(initial=0)))
    return x.shape == y.shape and bool(np.allclose(x, y, rtol=1e-6, atol=1e-8 * scale, equal_nan=True))


def draw(base: Side, seed: int = 0) -> dict[str, Array]:
    """Random values of what is given to the single-device step: ids are rows of the shortest table."""
    rng = np.random.default_rng(seed)
    out: dict[str, Array] = {}
    tables = [base.full(op.reads[1]).shape[0] for op in base.ops.values() if op.kind == "embedding" and op.reads[1:]]
    loaded = {tensor for op in base.ops.values() if op.kind == LOADER for tensor in op.makes}
    for tensor, value in base.values.items():
        full = base.full(tensor)
        if (value.given or tensor in loaded) and full.name not in out:
            if full.dtype.startswith("int"):
                out[full.name] = rng.integers(0, min(tables, default=4), full.shape)
            elif full.dtype.startswith("complex"):
                out[full.name] = np.exp(1j * rng.uniform(-1, 1, full.shape))
            else:
                out[full.name] = rng.standard_normal(full.shape)
    return out


def differences(truth: Run, run: Run) -> list[str]:
    """How a plan's outputs differ from the single-device step's: gradients, of weights that it updates new values."""
    updated = {name for _, name, _, _ in truth.updates()}
    wanted, made = ([row for row in one.gradients() if row[1] not in updated] for one in (truth, run))
    return [
        *_weights("gradient", wanted, made, run),
        *_weights("new value", list(truth.updates()), list(run.updates()), run),
        *_losses(truth, run),
    ]


def _weights(what: str, truth: list[Found], made: list[Found], run: Run) -> list[str]:
    found = []
    wanted = {name: value for _, name, _, value in truth}
    seen: dict[str, set[int]] = defaultdict(set)
    for rank, name, spans, value in made:
        if rank in seen[name] and what != "gradient":
            found.append(f"rank {rank}: a second {what} of {name}")
        seen[name].add(rank)
        if name not in wanted:
            found.append(f"a {what} of {name}")
        elif not same(value, wanted[name][tuple(slice(lo, hi) for lo, hi in spans)]):
            found.append(f"rank {rank}: the {what} of {name}")
    for name in wanted:
        held = _holders(run, name)
        if not held or held - seen[name]:
            found.append(f"rank {min(held - seen[name], default=-1)}: no {what} of {name}")
    return found


def _holders(run: Run, name: str) -> set[int]:
    """Ranks that have a weight: there its gradient is needed."""
    shifts: dict[int, list[int]] = defaultdict(list)
    copies = {place: rank for rank, place in run.at.items()}
    written = 1 + max(d for d, _, _ in run.side.places.values())
    for rank, (d, s, t) in run.side.places.items():
        shifts[rank] = [other for (e, a, b), other in copies.items() if (a, b) == (s, t) and e % written == d]
    return {
        rank
        for tensor, value in run.side.values.items()
        if value.given and value.mb < 0 <= value.rank and run.side.full(tensor).name == name
        for rank in shifts[value.rank]
    }


def _losses(truth: Run, run: Run) -> list[str]:
    found = []
    whole = {name: _total([x for by in ranks.values() for _, x in by]) for name, ranks in truth.losses().items()}
    held = run.losses()
    if len(whole) == len(held) == 1:
        held = dict(zip(whole, held.values(), strict=True))
    world = run.side.world
    for name in whole.keys() | held.keys():
        stages = {0, world["num_pp"] - 1} | {run.at[rank][1] for rank in held.get(name, ())}
        for stage in stages:
            for t in range(world["num_tp"]):
                ranks = [rank for rank, (_, s, u) in run.at.items() if (s, u) == (stage, t)]
                parts = [x for rank in ranks for _, x in held.get(name, {}).get(rank, ())]
                right = name in whole and len(parts) == world["num_dp"] * world["num_mb"]
                if not right or not same(_total(parts), whole[name]):
                    found.append(f"loss {name} of stage {stage}, tp rank {t}")
    return found


def _total(parts: list[Array]) -> Array:
    return np.asarray(sum(parts[1:], parts[0]))


# ---- the folded program


def _folded(prepared: Prepared, base: Side, seed: int) -> tuple[dict[str, Array], Mapping[str, Mapping[int, Array]]]:
    """Values of the single-device step's inputs by name, and of the folded program's outputs on virtual ranks."""
    assert prepared.facts is not None
    program = load_program(prepared.facts.tables)
    names: dict[str, str] = dict(prepared.facts["tensor_name"])
    drawn = baseline_inputs(program, "reals", seed)
    fulls = draw(base, seed) | {names.get(t, t): value[0] for t, value in drawn.items()}
    trial = run_trial(program, seed, "reals")
    known = {dist for dist, _ in prepared.names} if not trial.unplaced else set()
    return fulls, {t: value for t, value in trial.distributed.items() if t in known}


def _against(prepared: Prepared, run: Run, values: Mapping[str, Mapping[int, Array]]) -> Iterator[tuple[int, str]]:
    """(values compared, what differs)."""
    outputs: dict[str, list[str]] = defaultdict(list)
    for (dist, _), name in prepared.names.items():
        if dist in values:
            outputs[name].append(dist)
    nm, tp = run.side.world["num_mb"], run.side.world["num_tp"]

    def fits(tensors: list[str], rank: int, mbs: range, x: Array) -> bool:
        d, _, t = run.at[rank]
        return any(all(same(values[name][(d * nm + m) * tp + t], x) for m in mbs) for name in tensors)

    rows = [(row[1], row) for row in run.gradients()]
    rows += [(AFTER.format(row[1]), row) for row in run.updates()]
    for name, (rank, _, _, x) in rows:
        if outputs.get(name):
            right = fits(outputs[name], rank, range(nm), x)
            yield 1, "" if right else f"rank {rank}: another gradient of {name} than the folded program's"
    losses = run.losses()
    only = len(losses) == 1 and LOSS in outputs
    for name, ranks in losses.items():
        for rank, parts in ranks.items():
            for mb, x in parts:
                called = LOSS if only else name
                if outputs.get(called):
                    right = fits(outputs[called], rank, range(mb, mb + 1), x)
                    yield 1, "" if right else f"rank {rank}: another {called} of micro-batch {mb}"
