"""Cases that a condition would leave out although the baseline provides for them.

A step of the distributed side may need a divisor other than zero, and that is listed. Where the baseline is a number at
zero all the same (`where(y == 0, 0, x / y)`), the condition leaves out what the baseline was written for: no proof.
So both sides are run where such conditions fail: on zeros, on numbers of either sign, on tensors without anything else.
The same of inputs that are no finite numbers, where a program asks whether they are (`oracle/finiteness.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Layout

from .addressing import addresses, layout_of, pending_kind
from .compare import default_layouts
from .execute import Deadlock, Values
from .finiteness import asks, noticed, noticed_silently
from .meaning import Unsupported
from .program import Program, Shard
from .shrink import shrink
from .shrink.extents import Conflict
from .trial import Array, Trial, measure_noise, ranks_moved, run_trial

CONDITIONS = frozenset({"nonzero", "positive", "nonnegative"})
"""What is listed of a value and may fail for some inputs of a type."""
TRIALS = 8
"""How often both sides are run."""
TRIALS_AT_INFINITIES = 20
"""How often on numbers that are not finite: they come in three kinds, and one rank alone may have one."""
LEAST_TRIALS, SECONDS = 3, 6.0
"""So often at least, and as long as that many CPU seconds are not over."""
MOST_ELEMENTS = 100_000
"""Elements of programs that are run as they are; larger ones are run at small sizes."""
CLOSE = 1e-3
"""How far apart numbers may be, relative to the largest: rounding is not what is asked for."""


@dataclass
class Limits:
    """Executions of a program on numbers at which divisors, roots and logarithms are at their limits."""

    whole: Program
    known: Sequence[Shard]
    moved: dict[tuple[str, int], Values] = field(default_factory=dict)
    """What ranks hold in an execution in which every value is rounded otherwise."""

    def __post_init__(self) -> None:
        self.whole = replace(self.whole, seen={})  # what a run had is no limit

    @property
    def small(self) -> bool:
        """Whether the program is run as it is."""
        return sum(prod(t.shape) for t in self.whole.tensors.values()) <= MOST_ELEMENTS

    @cached_property
    def program(self) -> Program | None:
        """The program, at small sizes where it is large."""
        if self.small:
            return self.whole
        try:
            return shrink(self.whole, _one_each(self.known)).program
        except Conflict:
            return None

    @cached_property
    def trials(self) -> list[Trial]:
        """An execution on numbers above zero, where conditions hold, and those that matter."""
        draws = [("positive", 0), ("reals", 0), *(("singular", seed) for seed in range(TRIALS))]
        expected = [dist for dist, _, _ in self.whole.expects]
        try:
            return [run_trial(self.program, seed, how, keep_dist=expected) for how, seed in draws if self.program]
        except (Unsupported, Deadlock, InputError):
            return []

    @property
    def _expects(self) -> list[tuple[str, str, str]]:
        """Outputs with their layouts at the sizes that are executed."""
        return self.program.expects if self.program else []

    @cached_property
    def erased(self) -> frozenset[tuple[str, str]]:
        """Outputs that agree on ordinary numbers, where both are numbers, and of which the baseline is a number at a
        limit that the other side is not."""
        return frozenset(pair[:2] for pair in self._expects if self._is_erased(*pair))

    @cached_property
    def overflowing(self) -> frozenset[tuple[str, str]]:
        """Outputs that are no numbers for some large inputs for which the baseline is one."""
        keep = [dist for dist, _, _ in self.whole.expects]
        try:
            trials = [run_trial(self.program, seed, "large", keep_dist=keep) for seed in (0, 1) if self.program]
        except (Unsupported, Deadlock, InputError):
            return frozenset()
        return frozenset(pair[:2] for pair in self._expects if trials and self._overflows(*pair, trials))

    @cached_property
    def unseen(self) -> frozenset[tuple[str, str]]:
        """Outputs that agree on no ordinary numbers where both are numbers: what is assumed of them holds of none."""
        if self.program is not self.whole or not self.trials:
            return frozenset()
        return frozenset(pair[:2] for pair in self.whole.expects if not self._is_seen(*pair))

    def _is_seen(self, dist: str, base: str, text: str) -> bool:
        return any(
            pending_kind(layout) is not None or self._held(trial, dist, base, layout, both=True)
            for layout in self._layouts(dist, base, text, self.trials)
            for trial in self.trials[:2]
        )

    @cached_property
    def erased_infinities(self) -> frozenset[tuple[str, str]]:
        """The same of inputs that are not finite, where a program notices that they are not."""
        outputs = frozenset(pair[:2] for pair in self.whole.expects)
        if self.program is None:
            return outputs if asks(self.whole) else frozenset()
        keep = [dist for dist, _, _ in self.whole.expects]
        found = list(noticed_silently(self.program, range(TRIALS_AT_INFINITIES), keep))
        try:
            found += noticed(self.program, _while_there_is_time(TRIALS_AT_INFINITIES), keep)
            first = [run_trial(self.program, 0, "positive", keep_dist=keep)] if found else []
        except (Unsupported, Deadlock, InputError):
            return outputs if asks(self.program) else frozenset()
        concerned = {pair: [odd.trial for odd in found if odd.concerns(*pair[:2])] for pair in self._expects}
        return frozenset(
            pair[:2] for pair, trials in concerned.items() if trials and self._differs(*pair, [*first, *trials])
        )

    def _is_erased(self, dist: str, base: str, text: str) -> bool:
        return self._differs(dist, base, text, self.trials, ordinary=2)

    def _differs(self, dist: str, base: str, text: str, trials: Sequence[Trial], ordinary: int = 1) -> bool:
        """Whether an output agrees in one of the first, ordinary trials, where both sides are numbers, and not in all
        where the baseline is a number.

        Ordinary numbers may be at a limit, too: rows of them are masked altogether by `x > 0`.
        """
        if not trials or self.program is None:
            return False
        for layout in self._layouts(dist, base, text, trials):
            if pending_kind(layout) is None and any(
                self._held(trial, dist, base, layout, both=True) for trial in trials[:ordinary]
            ):
                return not all(
                    self._held(trial, dist, base, layout) or self._is_rounding(trial, dist, base, layout)
                    for trial in trials
                )
        return False

    def _is_rounding(self, trial: Trial, dist: str, base: str, layout: Layout) -> bool:
        """Whether numbers differ where rounding alone moves those of a side: rows of zeros through norms, one after the
        other, are multiplied by a thousand each time. Then it is asked only whether they are numbers."""
        if not self._held(trial, dist, base, layout, close=np.inf):
            return False
        if not trial.measured:
            measure_noise(trial, [expected for _, expected, _ in self._expects])
        if trial.noise.get(base, 0.0) > CLOSE:
            return True
        draw = trial.how, trial.seed
        if draw not in self.moved:
            self.moved[draw] = next(ranks_moved(trial, [it for it, _, _ in self._expects], (), [0]), trial.distributed)
        return any(_apart(value, self.moved[draw][dist][rank]) for rank, value in trial.distributed[dist].items())

    def _overflows(self, dist: str, base: str, text: str, trials: Sequence[Trial]) -> bool:
        layouts = [it for it in self._layouts(dist, base, text, trials) if pending_kind(it) is None]
        return bool(layouts) and not any(
            all(self._held(trial, dist, base, layout, close=np.inf) for trial in trials) for layout in layouts
        )

    def _layouts(self, dist: str, base: str, text: str, trials: Sequence[Trial]) -> list[Layout]:
        """In which an output may be."""
        (local, *_), expected = trials[0].distributed[dist].values(), trials[0].baseline[base]
        return [layout_of(text)] if text else [*default_layouts(expected.shape, local.shape, self.whole.mesh)]

    def _held(
        self, trial: Trial, dist: str, base: str, layout: Layout, *, both: bool = False, close: float = CLOSE
    ) -> bool:
        """Whether each rank holds what the baseline has, wherever that is a number; or `both` are, as they are
        somewhere. Where `close` is infinite, any number will do."""
        assert self.program is not None
        with np.errstate(all="ignore"):
            return all(
                _alike(trial.baseline[base], value, layout, self.program.coords[rank], both, close)
                for rank, value in trial.distributed[dist].items()
            )


def _apart(value: Array, moved: Array) -> bool:
    """Whether rounding moves numbers by more than what counts."""
    numbers = np.isfinite(value)
    size = 1 + np.abs(value[numbers]).astype(float).max(initial=0)
    away = np.abs(np.subtract(value, moved, dtype=np.result_type(value, float)))[numbers]
    return not bool((away <= CLOSE * size).all())


def _one_each(rows: Sequence[Shard]) -> list[Shard]:
    """One row of every value: what layers have alike corresponds to it in each of them."""
    found = {("dist", row.dist): row for row in rows} | {("base", row.base): row for row in rows}
    return list(dict.fromkeys(found.values()))


def _while_there_is_time(count: int) -> Iterator[int]:
    """0 … count − 1, but no more than a few where executions are long."""
    end = time.process_time() + SECONDS
    for n in range(count):
        if n >= LEAST_TRIALS and time.process_time() > end:
            return
        yield n


def _alike(expected: Array, value: Array, layout: Layout, at: Mapping[str, int], both: bool, close: float) -> bool:
    try:
        part = expected[addresses(layout, expected.ndim, at)] if expected.ndim else expected
        part = np.broadcast_to(part, value.shape)
    except (IndexError, ValueError):
        return False
    numbers = np.isfinite(part) & np.isfinite(value) if both else np.isfinite(part)
    if both and part.size and not numbers.any():
        return False
    scaled = part * float(layout.scale) if part.dtype.kind in "fc" else part
    size = 1 + float(np.abs(part[numbers]).astype(float).max(initial=0))
    away = np.abs(np.subtract(value, scaled, dtype=np.result_type(scaled, float)))
    apart = ~(away <= close * size) | ~np.isfinite(away)
    return not bool((apart & numbers).any())
