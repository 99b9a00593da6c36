"""Many outputs of one shape at once: which of a large program differ, and in which placement they do least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from scalify_dl.ir.layout import Layout

from .addressing import FEW, flat_addresses, local_shape, pending_kind
from .outputs import Output
from .trial import Trial

Array = np.ndarray[Any, Any]
TOGETHER = 256
"""Outputs that are compared at once, at most."""


def narrowed(trial: Trial, outputs: Sequence[Output]) -> list[Output | None]:
    """Each with the placement alone that a trial whose noise is measured contradicts least, where it contradicts all;
    None where one stands. Outputs that are not seen so (large ones, integers, parts of sums) are left as they are."""
    found: dict[int, Output | None] = {id(output): output for output in outputs}
    alike: dict[tuple[object, ...], list[Output]] = {}
    for output in outputs:
        dist = trial.distributed[output.dist]
        if _plain(trial, output):
            key = trial.baseline[output.base].shape, tuple(dist), tuple(map(id, output.candidates))
            alike.setdefault(key, []).append(output)
    for some in alike.values():
        for at in range(0, len(some), TOGETHER):
            part = some[at : at + TOGETHER]
            shares = _shares(trial, part, part[0].candidates)
            for output, share in zip(part, shares.T, strict=True):
                best = output.candidates[int(np.argmin(share))]
                found[id(output)] = replace(output, candidates=[best]) if share.all() else None
    return [found[id(output)] for output in outputs]


def _plain(trial: Trial, output: Output) -> bool:
    """Small real numbers, of which each rank has its own, in placements without scales and parts of sums."""
    base, parts = trial.baseline[output.base], [*trial.distributed[output.dist].values()]
    shapes = {local_shape(layout) for layout in output.candidates} | {part.shape for part in parts}
    return (
        len(shapes) == 1
        and 0 < prod(parts[0].shape) * len(parts) <= FEW
        and {base.dtype, *(part.dtype for part in parts)} == {np.dtype(float)}
        and len({*map(id, parts)}) == len(parts)
        and trial.tolerance(output.base) > 0
        and all(layout.scale == 1 and pending_kind(layout) is None for layout in output.candidates)
    )


def _shares(trial: Trial, outputs: Sequence[Output], layouts: Sequence[Layout]) -> Array:
    """By placement and output: the part of all elements that `compare.wrong` finds wrong."""
    ranks, shape = trial.distributed[outputs[0].dist].keys(), trial.baseline[outputs[0].base].shape
    base = np.stack([trial.baseline[output.base].reshape(-1) for output in outputs])
    held = np.array([[*trial.distributed[output.dist].values()] for output in outputs])
    largest = np.where(np.isfinite(base), np.abs(base), 0.0).max(axis=1)
    bounds = np.array([trial.tolerance(output.base) for output in outputs]) * np.where(largest == 0, 1.0, largest)
    shares = []
    for layout in layouts:
        ats = tuple(tuple(trial.program.coords[rank].get(axis, 0) for axis, _ in layout.axes) for rank in ranks)
        expected = base[:, flat_addresses(layout, shape, ats)]
        with np.errstate(invalid="ignore"):
            near = np.abs(held - expected) <= bounds.reshape(-1, *(1,) * (held.ndim - 1))
        bad = ~(near | (held == expected) | np.isnan(expected))
        shares.append(bad.reshape(len(outputs), -1).mean(axis=1))
    return np.array(shares)
