"""Whether programs that differ also differ where what a proof lists of its values is so.

A proof that lists "relu is not zero where it is divided by" says nothing of inputs at which relu is zero: a difference
counts only on inputs at which all that is listed holds. What cannot be asked of numbers (that a rewrite holds, that a
range is kept, which draws do anyway) excuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from scalify_dl.oracle.addressing import layout_of
from scalify_dl.oracle.compare import check, default_layouts
from scalify_dl.oracle.counterexample import DIRECT_ELEMENTS, elements
from scalify_dl.oracle.found import Search
from scalify_dl.oracle.program import Program
from scalify_dl.oracle.trial import Array, Trial, measure_noise, run_trial
from scalify_dl.prove.verdict import Assumption

HOLDS: dict[str, Callable[[Array], Array]] = {
    "nonzero": lambda value: value != 0,
    "positive": lambda value: value > 0,
    "nonnegative": lambda value: value >= 0,
    "finite": np.isfinite,
    "zero sign": lambda value: (value != 0) | ~np.signbit(value.real),
}
"""Conditions by the reason that an assumption states; zeros of the two sides are alike where none is -0."""
SEEDS = 12
"""How many draws of each kind are looked at."""


def differs_where_assumed(program: Program, found: Search, assumptions: Iterable[Assumption]) -> bool | None:
    """Whether a refuted output is wrong on inputs at which all that is listed is so; None where no draw has such."""
    conditions = [(row.tensor, row.why) for row in assumptions if row.why in HOLDS]
    if not conditions or elements(program) > DIRECT_ELEMENTS:
        return True
    refuted = [c for c in found.counterexamples if c.kind == "refutation"]
    outputs = [pair for pair in program.expects if any(pair[:2] == (c.output, c.base) for c in refuted)]
    draws = dict.fromkeys([*((c.seed, c.draw) for c in refuted), *product(range(SEEDS), ("reals", "positive"))])
    met = False
    for trial in _runs(program, draws, conditions, outputs):
        if all(is_so(trial, tensor, why) for tensor, why in conditions):
            met = True
            if any(_differs(trial, *output) for output in outputs):
                return True
    return False if met else None


def _runs(
    program: Program,
    draws: Iterable[tuple[int, str]],
    conditions: Sequence[tuple[str, str]],
    outputs: Sequence[tuple[str, str, str]],
) -> Iterator[Trial]:
    named = [tensor for tensor, _ in conditions if tensor in program.tensors]
    for seed, how in draws:
        keep_base, keep_dist = [base for _, base, _ in outputs], [dist for dist, _, _ in outputs]
        yield run_trial(program, seed, how, keep_base=[*keep_base, *named], keep_dist=[*keep_dist, *named])


def is_so(trial: Trial, tensor: str, why: str) -> bool:
    """Whether the values of a tensor meet a condition; of one that no run shows, it is taken to be so."""
    values = [trial.baseline[tensor]] if tensor in trial.baseline else [*trial.distributed.get(tensor, {}).values()]
    return all(bool(HOLDS[why](value).all()) for value in values)


def _differs(trial: Trial, dist: str, base: str, text: str) -> bool:
    expected, held = trial.baseline[base], trial.distributed[dist]
    if expected.dtype.kind in "fc" and np.isnan(expected).any():
        return False
    measure_noise(trial, [base])
    (local, *_) = held.values()
    layouts = [layout_of(text)] if text else default_layouts(expected.shape, local.shape, trial.program.mesh)
    return all(
        check(expected, (), held, (), layout, trial.program.coords, trial.tolerance(base)) is not None
        for layout in layouts
    )
