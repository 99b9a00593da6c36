"""Does a kernel compute what is stated? Run on numbers it may be refuted, on terms proved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from scalify_dl.ir.dtypes import integers_of
from scalify_dl.ir.graph import Graph
from scalify_dl.oracle.dtypes import is_float, is_integer
from scalify_dl.oracle.erased import CONDITIONS
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.tir.syntax import Buffer, Expr, Kernel

from .bounds import index_bounds
from .domain import Array, Domain, Undecided
from .machine import Machine
from .memory import MOST_ELEMENTS, Flaw
from .numbers import Numbers
from .one_block import Cut
from .terms import Terms

Meaning = Callable[[Domain, Sequence[Array]], list[Array]]
"""What is stated: outputs in order, from elements of inputs in order."""
TOLERANCE = 1e-6
ROUNDING = 1e-11
"""Of the largest element: what float64 may leave of numbers such as −1e9 that cancel."""
ERASED = "what is stated is a number where a step of the kernel needs what is not so"
MANY_PRODUCTS = 1_000_000
"""Above so many products of elements, products of matrices are kept as dots."""


@dataclass(slots=True)
class Spec:
    """What a kernel is compared with: its name, one or more ways to round, how many inputs it takes."""

    name: str
    meanings: list[Meaning]
    inputs: int
    graphs: list[Graph] = field(default_factory=list)
    """The meanings as programs; none of another kernel."""
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of which inputs what is stated uses elements as indices, and of how many elements."""


@dataclass(slots=True)
class Difference:
    """An element that is another than stated: in which output, written by which line and tile."""

    output: str
    index: tuple[int, ...]
    tile: int | None
    line: int
    expected: float
    actual: float


@dataclass(slots=True)
class Judgement:
    """The verdict on a kernel, and what it rests on."""

    verdict: Verdict
    reason: str = ""
    difference: Difference | None = None
    flaws: list[Flaw] = field(default_factory=list)
    assumptions: list[tuple[str, str]] = field(default_factory=list)
    precision: list[tuple[int, str]] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)
    proved: int = 0
    """Which of the meanings is proved."""
    undecided: bool = False
    """Whether it is followed to its end, and all that is missing is that two formulas are one."""
    alike: list[Cut] = field(default_factory=list)
    """Grid variables of which one block was judged for all."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Values of names that were tried, of names that may have any."""
    for_all: dict[str, str] = field(default_factory=dict)
    """Names for all of whose values it was asked, and what each has to be a multiple of."""


def drawn(
    kernel: Kernel, spec: Spec | None, seed: int, narrower: int = 0, turned: int = 0, among: Sequence[int] = ()
) -> dict[str, Array]:
    """Random arguments: what is used as an index stays within what it indexes.

    `narrower` halves the ranges of what may be an index so often; `turned` makes all reals of one sign, `among` makes
    them some of these.
    """
    rng = np.random.default_rng(seed)
    bounds = index_bounds(kernel)
    for at, (low, high) in (spec.ranges if spec else {}).items():
        buffer = arguments(kernel, spec)[at]  # type: ignore[arg-type]
        known = bounds.get(buffer.name, (low, high))
        bounds[buffer.name] = max(low, known[0]), min(high, known[1])
    found: dict[str, Array] = {}
    for buffer in kernel.arguments:
        if is_float(buffer.dtype):
            values = rng.normal(size=buffer.shape)
            found[buffer.name] = turned * (np.abs(values) + 0.5) if turned else values
            if among:
                found[buffer.name] = rng.choice(np.array(among, dtype=float), size=buffer.shape)
        elif buffer.dtype == "pred":
            found[buffer.name] = rng.integers(0, 2, buffer.shape).astype(float)
        else:
            low, high = bounds.get(buffer.name, (0 if buffer.dtype[0] == "u" else -8, 8))
            if buffer.name not in bounds and is_integer(buffer.dtype) and int(buffer.dtype[1:]) <= 8:
                low, high = (held := integers_of(buffer.dtype)).start, held.stop
            if narrower:
                low, high = 0, high >> narrower
            found[buffer.name] = rng.integers(low, max(high, low + 1), buffer.shape).astype(float)
    return found


def judge(
    kernel: Kernel, spec: Spec | None, seconds: float = 60.0, *, reals: bool = False, prove: bool = True
) -> Judgement:
    """The verdict; where it is known otherwise that it is so, a run on numbers alone."""
    found = Judgement(Verdict.UNKNOWN)
    big = [b for b in kernel.arguments if prod(b.shape) > MOST_ELEMENTS]
    if big:
        found.reason = f"`{big[0].name}` has more than {MOST_ELEMENTS:,} elements: give smaller sizes"
        return found
    try:
        _refute(kernel, spec, found, seconds)
        if found.verdict is not Verdict.REFUTED and spec is not None and prove:
            _prove(kernel, spec, found, seconds, reals)
            if found.verdict is Verdict.UNKNOWN and not found.flaws:
                _differs(kernel, spec, found, seconds)
            if found.verdict is Verdict.PROVED and erased(kernel, spec, found.assumptions, seconds):
                found.verdict, found.reason = Verdict.UNKNOWN, ERASED
            if found.verdict is Verdict.UNKNOWN and not reals and any("rounds" in text for _, text in found.precision):
                found.reason += "; casts round (--reals takes them for exact, and says so)"
    except Undecided as error:
        found.verdict = Verdict.UNKNOWN
        found.reason = f"{kernel.file}:{error.line}: {error}" if error.line else str(error)
    return found


def arguments(kernel: Kernel, spec: Spec) -> list[Buffer]:
    """The arguments that the stated op takes, in order: those that are not written, or all that it may take."""
    if spec.inputs == len(kernel.inputs):
        return kernel.inputs
    if spec.inputs == len(kernel.arguments):
        return kernel.arguments
    raise Undecided(f"{spec.name} has {spec.inputs} inputs, the kernel {len(kernel.inputs)}")


def _given(kernel: Kernel, spec: Spec | None) -> bool:
    """Whether what is stated takes what the outputs hold at first as inputs."""
    return spec is not None and arguments(kernel, spec) != kernel.inputs


def _refute(kernel: Kernel, spec: Spec | None, found: Judgement, seconds: float) -> None:
    """Runs it on numbers: flaws, elements that nothing writes, elements that are others than stated."""
    try:
        machine, outputs, expected = _run(kernel, spec, seconds, found.flaws)
    except Undecided:
        certain = [flaw for flaw in found.flaws if flaw.certain]
        if not certain:
            raise
        found.verdict, found.reason = Verdict.REFUTED, certain[0].text
        return
    found.stats["products"] = machine.multiplied
    found.flaws = list(machine.flaws)
    found.precision = _precision(machine)
    found.assumptions += [
        (f"`{name}` is zero when the kernel starts: atomics add to it", "atomic") for name in sorted(machine.zeroed)
    ]
    certain = [flaw for flaw in found.flaws if flaw.certain]
    for buffer in kernel.outputs:
        memory = machine.memories[id(buffer)]
        if not memory.written.all():
            at = memory.index(int(np.argmin(memory.written)))
            text = f"nothing writes `{buffer.name}{list(at)}`"
            found.flaws.append(Flaw("unwritten", kernel.line, text, certain=id(buffer) not in machine.placed))
            certain += found.flaws[-1:] if found.flaws[-1].certain else []
    found.difference = _difference(kernel, machine, outputs, expected)
    if found.difference is not None or certain:
        found.verdict = Verdict.REFUTED
        reasons = [*certain, *(flaw for flaw in found.flaws if flaw.kind == "unwritten")]
        found.reason = reasons[0].text if reasons else "an element differs"


def _run(
    kernel: Kernel, spec: Spec | None, seconds: float, flaws: list[Flaw], turned: int = 0, among: Sequence[int] = ()
) -> tuple[Machine, dict[str, Array], list[Array] | None]:
    """A run on numbers whose indices lie within what they index, and what is stated of them; `flaws` are what it does
    wrong, also where it is not followed to its end."""
    narrower = 0
    while True:
        values = drawn(kernel, spec, 1, narrower, turned, among)
        numbers = Numbers(values)
        machine = Machine(kernel, numbers, seconds, given=_given(kernel, spec))
        try:
            outputs = machine.run()
        finally:
            if not machine.strayed:
                flaws[:] = machine.flaws
        if not machine.strayed:
            break
        if narrower and not any(values[b.name].any() for b in kernel.arguments if is_integer(b.dtype)):
            raise Undecided(machine.strayed[0])
        narrower += 1
    if spec is None:
        return machine, outputs, None
    return machine, outputs, spec.meanings[0](numbers, [values[b.name] for b in arguments(kernel, spec)])


def _differs(kernel: Kernel, spec: Spec, found: Judgement, seconds: float) -> None:
    """Of what is not proved: whether an element differs where all reals are above, or below, zero."""
    for turned in (1, -1):
        machine, outputs, expected = _run(kernel, spec, seconds, [], turned)
        found.difference = _difference(kernel, machine, outputs, expected)
        if found.difference is not None:
            found.verdict, found.reason = Verdict.REFUTED, "an element differs"
            return


def erased(kernel: Kernel, spec: Spec, assumptions: Sequence[tuple[str, str]], seconds: float) -> bool:
    """Whether what is stated is a number where a condition that is assumed fails, and the kernel has another one.

    Both are run on zeros, and on zeros and ones of either sign, of which many are equal.
    """
    if CONDITIONS.isdisjoint(why for _, why in assumptions):
        return False
    for among in ((0,), (1,), (-1, 0, 1)):
        machine, outputs, expected = _run(kernel, spec, seconds, [], among=among)
        stated = [np.where(np.isfinite(wanted), wanted, np.nan) for wanted in expected or []]
        if _difference(kernel, machine, outputs, stated) is not None:
            return True
    return False


def _difference(
    kernel: Kernel, machine: Machine, outputs: dict[str, Array], expected: list[Array] | None
) -> Difference | None:
    for buffer, wanted in zip(kernel.outputs, expected or [], strict=expected is not None):
        actual = outputs[buffer.name]
        scale = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(wanted), wanted, 0.0)), initial=0.0)))
        with np.errstate(all="ignore"):
            near = np.abs(actual - wanted) <= TOLERANCE * np.maximum(1.0, np.abs(wanted)) + ROUNDING * scale
        near |= (actual == wanted) | (np.isnan(wanted))
        memory = machine.memories[id(buffer)]
        if id(buffer) in machine.placed:
            near |= ~memory.written.reshape(buffer.shape)
        if near.all():
            continue
        at = tuple(int(i) for i in np.argwhere(~near)[0])
        place = int(np.ravel_multi_index(at, buffer.shape)) if buffer.shape else 0
        line = 0 if memory.lines is None else int(memory.lines[place])
        tile = None if memory.by_block is None else int(memory.by_block[place])
        return Difference(buffer.name, at, tile, line, float(wanted[at]), float(actual[at]))
    return None


def _precision(machine: Machine) -> list[tuple[int, str]]:
    found = [(line, f"sums are accumulated in {dtype}") for line, dtype in machine.accumulators]
    found += [(line, f"a cast from {before} to {after} rounds") for line, before, after in machine.casts]
    sums = {*machine.accumulators}
    found += [(line, f"numbers are computed in {dtype}") for line, dtype in machine.narrow if (line, dtype) not in sums]
    return sorted(found)


def _prove(kernel: Kernel, spec: Spec, found: Judgement, seconds: float, reals: bool) -> None:
    """Runs both on terms and compares them."""
    from .equal import all_equal

    terms = Terms()
    terms.exact_casts = reals
    terms.large = found.stats.get("products", 0) > MANY_PRODUCTS
    machine = Machine(kernel, terms, seconds, given=_given(kernel, spec))
    outputs = machine.run()
    doubts = [flaw for flaw in (*machine.flaws, *found.flaws) if flaw.kind != "unwritten"]
    if doubts:
        found.flaws = list(dict.fromkeys([*found.flaws, *doubts]))
        found.reason = doubts[0].text
        return
    inputs = [terms.argument(b.name, b.shape, b.dtype) for b in arguments(kernel, spec)]
    for at, meaning in enumerate(spec.meanings):
        expected = meaning(terms, inputs)
        pairs = [(outputs[b.name], wanted) for b, wanted in zip(kernel.outputs, expected, strict=True)]
        answer = all_equal(terms, pairs, seconds)
        if answer.equal:
            found.verdict, found.reason, found.proved = Verdict.PROVED, "", at
            found.assumptions += [("all elements of arguments are finite", "finite")]
            found.assumptions += [(text, "range") for text in sorted(terms.assumed)]
            found.assumptions += answer.assumptions
            found.stats["terms"] = terms.size
            return
        found.reason, found.undecided = found.reason or answer.reason, True


__all__ = ["Expr", "Judgement", "Spec", "judge"]
