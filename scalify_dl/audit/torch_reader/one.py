"""Random programs one after another: drawn, captured, read, compared, and made small where that fails."""

from __future__ import annotations

import contextlib
import os
import random
import time
import traceback
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

import torch

from scalify_dl.readers.fx.aliases import effect_of

from ..children import Say
from . import ranks
from .calls import Overload, overloads, try_call
from .captures import CAPTURES, Refused
from .compare import Outcome, outcome, outcome_of_ranks
from .ranks import RankProgram
from .recipes import BEFORE
from .recipes_ranks import drawn, overloads_of_ranks
from .report import Failure, Found, Report
from .world import Program, World, variables

WEIGHTS = {"written": 10, "make_fx": 5, "make_fx early": 2, "gradients": 1, "export": 0.2, "export decomposed": 0.15}
STEPS, FEW = (5, 25), (2, 6)
"""How many calls: few where each may have no derivative."""
TRIES = 40
"""Programs that are aimed at what was never drawn of an overload."""
P = TypeVar("P", Program, RankProgram)
PLAIN = ("gradients", "export", "export decomposed")
"""Ways in which torch captures no program that writes to `out` or turns a tensor in place."""
RANKS, OF_RANKS = "ranks", 0.02
"""Programs of several ranks, and how many there are of them."""
READING = "reading "
"""How notes begin of what torch has no part in."""


def programs(say: Say, report: Report, first: int, count: int, writes: bool) -> Iterator[Found]:
    """What becomes of so many programs, the first with some seed; the report says what was drawn before."""
    allowed = [o for o in overloads()[0] if writes or not o.writes]
    with quiet():
        for seed in range(first, first + count):
            found = one(say, report, allowed, seed)
            found.seconds = time.process_time()
            report.add(found)
            yield found


def one(say: Say, report: Report, allowed: list[Overload], seed: int) -> Found:
    """One program, in one way of capturing."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    found = Found(seed)
    capture = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    missing = [o for o in allowed if o.name in report.missing and report.tries[o.name] < TRIES]
    if rng.random() < OF_RANKS:
        return of_ranks(say, report, rng, found)
    if missing and rng.random() < 0.5:
        target = rng.choice(missing)
        found.aimed = target.name
        capture = "written"
        before = [o for o in allowed if o.name == BEFORE.get(target.name)]
        program, off = aimed(say, rng, target, report.missing[target.name], before)
    else:
        allowed = [o for o in allowed if plain(o)] if capture in PLAIN else allowed
        failed = {name: sum(whys.values()) for name, whys in report.unknown.items()}
        weights = [1 / (1 + report.drawn[o.name] + 0.2 * failed.get(o.name, 0)) for o in allowed]
        program, off = generate(say, rng, allowed, weights, FEW if capture == "gradients" else STEPS)
    if not program.steps:
        return found
    program = program.lean()
    return judged(found, capture, program, off, attempt(program, capture, say))


def plain(overload: Overload) -> bool:
    """Whether a call writes nothing but operands, and leaves sizes and strides as they are."""
    effect = effect_of(overload.name)
    written = [a for a in overload.op._schema.arguments if a.alias_info and a.alias_info.is_write]
    return not any(a.kwarg_only for a in written) and not (effect is not None and effect.metadata)


def judged(found: Found, capture: str, program: P, off: list[list[str]], tried: tuple[Outcome, str] | str) -> Found:
    """What became of a program whose calls have these arguments off their default."""
    if isinstance(tried, str):
        found.uncaptured = capture
        return found
    result, text = tried
    found.captured, found.checked, found.unknown = capture, result.checked, result.unknown
    for step, names in zip(program.steps, off, strict=True):
        name = str(step.op)
        effect = effect_of(name)
        unknown = name in result.unknown or (effect is not None and effect.twin in result.unknown)
        if name in result.called and not unknown and result.refused is None:
            found.drawn.append((name, names))
        elif unknown:
            found.refused.update(f"{name} {argument}" for argument in names)
    message = result.failure or result.refused
    if message is not None:
        small, text, message = smaller(program, capture, text, message)
        found.failure = Failure(found.seed, capture, message, small.text(), text)
    return found


def of_ranks(say: Say, report: Report, rng: random.Random, found: Found) -> Found:
    """A program of several ranks."""
    allowed = overloads_of_ranks()[0]
    missing = [o for o in allowed if o.name in report.missing and report.tries[o.name] < TRIES]
    target = rng.choice(missing or allowed)
    found.aimed = target.name
    say(f"ranks: {target.name}")
    try:
        program, off = drawn(World(rng), target.op, [o.op for o in allowed])
    except Refused:
        found.uncaptured = RANKS
        return found
    if not program.steps:
        return found
    program = program.lean()
    return judged(found, RANKS, program, off, attempt(program, RANKS, say))


def generate(
    say: Say, rng: random.Random, allowed: list[Overload], weights: list[float], steps: tuple[int, int] = STEPS
) -> tuple[Program, list[list[str]]]:
    """A program of random calls, and the arguments that are off their default, call by call."""
    world = World(rng)
    off: list[list[str]] = []
    wanted = rng.randint(*steps)
    number = 0
    for _ in range(3 * wanted):
        overload = rng.choices(allowed, weights if rng.random() < 0.6 else None)[0]
        made = try_call(world, overload, number, say=say)
        if made is not None:
            number += len(made[0].results)
            off.append(made[1])
        if len(off) == wanted:
            break
    return world.program, off


def aimed(
    say: Say, rng: random.Random, target: Overload, wanted: Collection[str], before: Sequence[Overload] = ()
) -> tuple[Program, list[list[str]]]:
    """A program of one call (and what must stand before it), with some of the wanted arguments off their default."""
    for _ in range(8):
        world = World(rng)
        first = [made for o in before if (made := try_call(world, o, 0, say=say)) is not None]
        number = sum(len(step.results) for step, _ in first)
        made = try_call(world, target, number, {name for name in sorted(wanted) if rng.random() < 0.7}, say=say)
        if made is not None:
            return world.program, [off for _, off in (*first, made)]
    return Program(), []


def attempt(program: Program | RankProgram, capture: str, say: Say = lambda text: None) -> tuple[Outcome, str] | str:
    """Captures and compares; the reason where torch does not capture it, or captures something else."""
    say(f"{capture} of {program.text()}")
    if isinstance(program, RankProgram):
        return _attempt_of_ranks(program, say)
    try:
        text, want, again = CAPTURES[capture](program)
    except Refused as error:
        return str(error)
    except Exception as error:  # whatever a version of torch raises
        return f"{type(error).__name__}: {error}"
    say(f"{READING}{text}")
    try:
        found = outcome(text, program.fresh(), want)
        if found.failure is not None:
            say(f"running what {capture} gave of {program.text()}")
            want = again()
            say(f"{READING}{text}")
            if outcome(text, program.fresh(), want).failure is None:
                return "the graph that torch captured computes something else"
    except Exception:  # a fault of the reader
        found = Outcome(failure=traceback.format_exc(limit=-4))
    return found, text


def _attempt_of_ranks(program: RankProgram, say: Say) -> tuple[Outcome, str] | str:
    try:
        texts, known, want = ranks.written(program)
    except Refused as error:
        return str(error)
    text = "\n".join(texts)
    say(f"{READING}{text}")
    inputs = [program.inputs(rank) for rank in range(program.count)]
    try:
        found = outcome_of_ranks(texts, known, inputs, want)
        if found.failure is not None:  # is it so another time?
            texts, known, want = ranks.written(program)
            if outcome_of_ranks(texts, known, inputs, want).failure is None:
                return "ranks computed something else the first time"
    except Refused as error:
        return str(error)
    except Exception:  # a fault of the reader
        found = Outcome(failure=traceback.format_exc(limit=-4))
    return found, text


def smaller(program: P, capture: str, text: str, message: str) -> tuple[P, str, str]:
    """The same failure with fewer calls."""
    at = len(program.steps) - 1
    while at >= 0:
        kept = without(program, at).lean()
        tried = attempt(kept, capture) if kept.steps else "nothing left"
        if not isinstance(tried, str) and (found := tried[0].failure or tried[0].refused) is not None:
            program, text, message = kept, tried[1], found
        at = min(at, len(program.steps)) - 1
    return program, text, message


def without(program: P, at: int) -> P:
    """A program without a step and all that hangs on it."""
    if isinstance(program, RankProgram):
        return RankProgram(_without(program.program, at), program.groups, program.others)
    return _without(program, at)


def _without(program: Program, at: int) -> Program:
    gone: set[int] = set()
    kept = Program(program.inputs)
    for i, step in enumerate(program.steps):
        if i == at or gone & {*variables(list(step.args)), *variables(step.kwargs)}:
            gone.update(number for number, _ in step.results)
        else:
            kept.steps.append(step)
    return kept


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Torch's warnings, which it writes past Python, are not shown."""
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
