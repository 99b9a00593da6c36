"""Where trials register."""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Tensor

TRIALS: dict[str, Callable[[], Pair]] = {}
"""Name → wrong program."""
ROUNDED: dict[str, Callable[[], Pair]] = {}
"""Programs of which nothing is right where casts round, and all over the reals: wrong if they are proved."""

WRONG: dict[str, Callable[[], Pair]] = {}
"""Programs as models have them, of which nothing is right."""


def wrong(build: Callable[[], Pair]) -> Callable[[], Pair]:
    """Registers one of those."""
    WRONG[build.__name__] = build
    return build


def trial(build: Callable[[], Pair]) -> Callable[[], Pair]:
    """Registers a wrong program under its name."""
    TRIALS[build.__name__.replace("_", " ")] = build
    return build


def rounded(build: Callable[[], Pair]) -> Callable[[], Pair]:
    """Registers one of those."""
    ROUNDED[build.__name__.replace("_", " ")] = build
    return build


def summed(pair: Pair, x: Tensor, dims: list[int], reducer: str = "sum") -> Tensor:
    """A reduction over dims, then over the ranks of `tp`."""
    one = pair.dist.emit("reduce", [x], dimensions=dims, reducer=reducer)
    return pair.dist.emit("all-reduce", [one], reducer=reducer, groups=pair.groups("tp"))
