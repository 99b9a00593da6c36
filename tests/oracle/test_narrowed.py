"""Outputs of one shape that are compared at once come out as each does by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scalify_dl.oracle.addressing import local_part
from scalify_dl.oracle.compare import default_layouts
from scalify_dl.oracle.narrowed import narrowed
from scalify_dl.oracle.outputs import Output, compared, differs
from scalify_dl.oracle.program import Program
from scalify_dl.oracle.trial import Trial

MESH = {"dp": 2, "tp": 4}
COORDS = {rank: {"dp": rank // 4, "tp": rank % 4} for rank in range(8)}


def trial(seed: int, shared: bool = False) -> tuple[Trial, list[Output]]:
    """Values that some placement has, or none; one rank or element wrong, zeros, NaN, infinities, integers."""
    rng = np.random.default_rng(seed)
    made = Trial(Program(MESH, COORDS, {}, {}, [], [], {}, {}, {}, set()), 0, "reals", False, measured=True)
    outputs = []
    for n in range(40):
        whole, local = [((8, 4), (2, 4)), ((8, 8), (4, 2)), ((4, 4), (4, 4)), ((8,), (1,)), ((), ())][rng.integers(5)]
        layouts = [*default_layouts(whole, local, MESH)]
        base = np.asarray(rng.normal(size=whole) * rng.choice([1.0, 1e-6, 0.0, 1e9]))
        if rng.random() < 0.2 and base.size:
            base.reshape(-1)[rng.integers(base.size)] = rng.choice([np.nan, np.inf, -np.inf])
        if rng.random() < 0.1:
            base = rng.integers(0, 5, whole)
        layout = layouts[rng.integers(len(layouts))]
        parts: dict[int, Any] = {rank: np.array(local_part(base, layout, COORDS[rank])) for rank in COORDS}
        if shared:
            parts = {rank: parts[rank // 4 * 4] for rank in COORDS}
        for _ in range(rng.integers(3)):
            part = parts[int(rng.integers(8))]
            part.reshape(-1)[rng.integers(part.size)] += part.dtype.type(rng.choice([1, 0, 2]))
        made.baseline[f"b{n}"], made.distributed[f"d{n}"] = base, parts
        made.noise[f"b{n}"] = float(rng.choice([2.0**-40, 1e-3]))
        outputs.append(Output(f"d{n}", f"b{n}", layouts))
    return made, outputs


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shared", [False, True])
def test_what_differs_and_in_which_placement_least_is_what_single_comparisons_say(seed: int, shared: bool) -> None:
    made, outputs = trial(seed, shared)
    for output, closest in zip(outputs, narrowed(made, outputs), strict=True):
        alone = compared(made, replace(output), ())
        assert (alone is not None) == differs(made, output)
        if closest is None:
            assert alone is None
        else:
            assert repr(compared(made, replace(closest), ())) == repr(alone)  # NaN is no NaN
            assert closest is output or alone is not None


def test_large_outputs_integers_and_parts_of_sums_are_left_as_they_are() -> None:
    made, outputs = trial(0, shared=True)
    assert all(closest is output for output, closest in zip(outputs, narrowed(made, outputs), strict=True))
    made, outputs = trial(0)
    told = [closest is not output for output, closest in zip(outputs, narrowed(made, outputs), strict=True)]
    assert told == [made.baseline[output.base].dtype.kind == "f" for output in outputs]
    for output in outputs:
        made.noise[output.base] = 0.0
    assert all(closest is output for output, closest in zip(outputs, narrowed(made, outputs), strict=True))
