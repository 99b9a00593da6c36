"""A campaign: random programs until time or count is up, with what failed made small, and what was never drawn."""

from __future__ import annotations

import contextlib
import os
import random
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from .calls import Overload, named_arguments, overloads, try_call
from .captures import CAPTURES, Refused
from .compare import Outcome, outcome
from .world import Program, World, variables

WEIGHTS = {"written": 10, "make_fx": 5, "make_fx early": 2, "gradients": 1, "export": 0.2, "export decomposed": 0.15}
STEPS = (5, 25)
TRIES = 40
"""Programs that are aimed at what was never drawn of an overload."""


@dataclass
class Failure:
    """A program on which the reader and torch differ, made small."""

    seed: int
    capture: str
    message: str
    program: str
    text: str


@dataclass
class Report:
    """What a campaign did."""

    programs: int = 0
    seconds: float = 0.0
    captures: Counter[str] = field(default_factory=Counter)
    uncaptured: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    failures: list[Failure] = field(default_factory=list)
    drawn: Counter[str] = field(default_factory=Counter)
    """Overload → programs in whose text it stands and is lowered."""
    unknown: dict[str, Counter[str]] = field(default_factory=dict)
    """Op → why it was not lowered → how often."""
    refused: set[str] = field(default_factory=set)
    """`overload argument`s with which a call was `unknown:`."""
    off: Counter[str] = field(default_factory=Counter)
    """`overload argument` → how often off its default, in a call that was lowered."""
    overloads: list[Overload] = field(default_factory=list)
    missing: dict[str, set[str]] = field(default_factory=dict)
    """Overload → arguments that were never off their default ("": the overload itself)."""
    tries: Counter[str] = field(default_factory=Counter)
    """How often an overload was drawn for what is missing."""
    left_out: dict[str, str] = field(default_factory=dict)

    def seen(self, name: str, arguments: Sequence[str]) -> None:
        """An overload was drawn, and lowered, with these arguments off their default."""
        self.drawn[name] += 1
        self.off.update(f"{name} {argument}" for argument in arguments)
        if name in self.missing:
            self.missing[name] -= {"", *arguments}
            if not self.missing[name]:
                del self.missing[name]


def run(
    seconds: float, seed: int, count: int | None = None, *, writes: bool = True,
    progress: Callable[[Report], None] | None = None,
) -> Report:  # fmt: skip
    """Runs a campaign; the same seed gives the same programs in the same order."""
    found, left = overloads()
    report = Report(overloads=found, left_out=left)
    report.missing = {o.name: {"", *named_arguments(o)} for o in found if writes or not o.writes}
    started = time.process_time()
    with quiet():
        while time.process_time() - started < seconds and (count is None or report.programs < count):
            one(report, seed * 1_000_003 + report.programs, writes)
            report.seconds = time.process_time() - started
            if progress is not None:
                progress(report)
    return report


def one(report: Report, seed: int, writes: bool) -> None:
    """One program, in one way of capturing."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    capture = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    allowed = [o for o in report.overloads if writes or not o.writes]
    missing = [o for o in allowed if o.name in report.missing and report.tries[o.name] < TRIES]
    if missing and rng.random() < 0.5:
        target = rng.choice(missing)
        report.tries[target.name] += 1
        capture = "written"
        program, off = aimed(rng, target, report.missing[target.name])
    else:
        failed = {name: sum(whys.values()) for name, whys in report.unknown.items()}
        weights = [1 / (1 + report.drawn[o.name] + 0.2 * failed.get(o.name, 0)) for o in allowed]
        program, off = generate(rng, allowed, weights)
    report.programs += 1
    if not program.steps:
        return
    tried = attempt(program, capture)
    if isinstance(tried, str):
        report.uncaptured[capture] += 1
        return
    result, text = tried
    report.captures[capture] += 1
    report.checked += result.checked
    for name, why in result.unknown.items():
        report.unknown.setdefault(name, Counter())[why] += 1
    for step, names in zip(program.steps, off, strict=True):
        name = str(step.op)
        if name in result.called and name not in result.unknown and result.refused is None:
            report.seen(name, names)
        elif name in result.unknown:
            report.refused.update(f"{name} {argument}" for argument in names)
    message = result.failure or result.refused
    if message is not None:
        small, text, message = smaller(program, capture, text, message)
        report.failures.append(Failure(seed, capture, message, small.text(), text))


def generate(rng: random.Random, allowed: list[Overload], weights: list[float]) -> tuple[Program, list[list[str]]]:
    """A program of random calls, and the arguments that are off their default, call by call."""
    world = World(rng)
    off: list[list[str]] = []
    wanted = rng.randint(*STEPS)
    number = 0
    for _ in range(3 * wanted):
        overload = rng.choices(allowed, weights if rng.random() < 0.6 else None)[0]
        made = try_call(world, overload, number)
        if made is not None:
            number += len(made[0].results)
            off.append(made[1])
        if len(off) == wanted:
            break
    return world.program, off


def aimed(rng: random.Random, target: Overload, wanted: Collection[str]) -> tuple[Program, list[list[str]]]:
    """A program of one call, with some of the wanted arguments off their default."""
    for _ in range(8):
        world = World(rng)
        made = try_call(world, target, 0, {name for name in sorted(wanted) if rng.random() < 0.7})
        if made is not None:
            return world.program, [made[1]]
    return Program(), []


def attempt(program: Program, capture: str) -> tuple[Outcome, str] | str:
    """Captures and compares; the reason where torch does not capture it, or captures something else."""
    try:
        text, want, again = CAPTURES[capture](program)
    except Refused as error:
        return str(error)
    except Exception as error:  # whatever a version of torch raises
        return f"{type(error).__name__}: {error}"
    try:
        found = outcome(text, program.fresh(), want)
        if found.failure is not None and outcome(text, program.fresh(), again()).failure is None:
            return "the graph that torch captured computes something else"
    except Exception:  # a fault of the reader
        found = Outcome(failure=traceback.format_exc(limit=-4))
    return found, text


def smaller(program: Program, capture: str, text: str, message: str) -> tuple[Program, str, str]:
    """The same failure with fewer calls."""
    at = len(program.steps) - 1
    while at >= 0:
        kept = without(program, at)
        tried = attempt(kept, capture) if kept.steps else "nothing left"
        if not isinstance(tried, str) and (found := tried[0].failure or tried[0].refused) is not None:
            program, text, message = kept, tried[1], found
        at = min(at, len(program.steps)) - 1
    return program, text, message


def without(program: Program, at: int) -> Program:
    """A program without a step and all that hangs on it."""
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
