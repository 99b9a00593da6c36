"""Where a machine is: which variables have which values in each lane of a batch, and which lanes run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .domain import Array, Cells

Value = Array | Cells
EVERY = "*"
"""In place of a thread: what is done is done for all of them together."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A batch of iterations: `shape` in order of its axes, `kinds` what each axis is, `mask` which lanes run.

    Values have at most as many dims as the batch; missing ones come last.
    """

    names: dict[str, Value] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    mask: Array | None = None
    guard: Cells | None = None
    """A condition that is not known."""
    block: tuple[int, ...] = ()
    """Which block of a grid runs."""
    region: int = 0
    """Number of the parallel region, 0 outside of any."""
    threads: tuple[str, ...] = ()
    """Which thread or block of a launch each axis is, if any."""
    inner: tuple[int, ...] = ()
    """Of each axis that is a parallel loop within a thread or parallel iteration, its number; of others 0."""

    def with_axis(self, var: str, values: Array, kind: str, region: int, thread: str = "", inner: int = 0) -> Frame:
        """One more axis, along which a variable takes values."""
        names = dict(self.names)
        names[var] = values
        return replace(
            self, names=names, shape=(*self.shape, values.shape[-1]), kinds=(*self.kinds, kind), region=region,
            threads=(*self.threads, thread), inner=(*self.inner, inner),
        )  # fmt: skip

    def named(self, var: str, value: Value) -> Frame:
        """One more name."""
        return replace(self, names={**self.names, var: value})

    def where(self, truth: Array) -> Frame:
        """Only lanes where something is so."""
        if truth.ndim == 0 and bool(truth):
            return self
        both = truth if self.mask is None else self.spread(self.mask) & self.spread(truth)
        return replace(self, mask=both)

    def spread(self, values: Array) -> Array:
        """An array with all dims of the batch."""
        return values.reshape(values.shape + (1,) * (len(self.shape) - values.ndim))

    def lookup(self, var: str) -> Value:
        """A value with all dims of the batch."""
        value = self.names[var]
        return Cells(self.spread(value.array)) if isinstance(value, Cells) else self.spread(value)

    def full(self, values: Array) -> Array:
        """An array with all lanes."""
        return np.broadcast_to(self.spread(values), self.shape)

    def running(self) -> Array:
        """Which lanes run, for all of them."""
        return np.ones(self.shape, dtype=bool) if self.mask is None else np.array(self.full(self.mask))

    @property
    def lanes(self) -> Array:
        """Numbers of lanes along parallel axes; serial ones make no difference."""
        result: Array = np.zeros((1,) * len(self.shape), dtype=np.int64)
        for at, (size, kind) in enumerate(zip(self.shape, self.kinds, strict=True)):
            if kind != "serial":
                place = [1] * len(self.shape)
                place[at] = size
                result = result * size + np.arange(size).reshape(place)
        return result

    @property
    def idle(self) -> bool:
        """Whether no lane runs."""
        return self.mask is not None and not self.mask.any()
