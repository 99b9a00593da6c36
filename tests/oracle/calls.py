"""Calls a meaning as the executor does, without a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalify_dl.oracle.meaning import MEANINGS, Call
from scalify_dl.oracle.program import Op, Tensor

DTYPES = {
    "float64": "f64",
    "float32": "f32",
    "int32": "s32",
    "int64": "s64",
    "uint32": "u32",
    "uint8": "u8",
    "int8": "s8",
    "bool": "pred",
}


def run(
    kind: str,
    xs: Sequence[Any],
    results: Sequence[tuple[str, tuple[int, ...]]],
    rounding: bool = False,
    **attributes: Any,
) -> list[Any]:
    """Result values of an op; attributes are ints, strings or lists of ints."""
    op = Op("op", kind)
    for key, value in attributes.items():
        if isinstance(value, str):
            op.symbols[key] = [value]
        else:
            op.numbers[key] = [int(v) for v in (value if isinstance(value, list | tuple) else [value])]
    types = [Tensor(f"r{i}", dtype, shape) for i, (dtype, shape) in enumerate(results)]
    return MEANINGS[kind](Call(op, 0, types, rounding), [np.asarray(x) for x in xs])


def agrees(kind: str, xs: Sequence[Any], expected: Sequence[Any], *, rtol: float = 1e-9, **attributes: Any) -> None:
    """Asserts that the meaning gives the expected values (shape and numbers)."""
    wanted = [np.asarray(e) for e in expected]
    found = run(kind, xs, [(DTYPES[str(e.dtype)], e.shape) for e in wanted], **attributes)
    assert len(found) >= len(wanted)
    for f, w in zip(found, wanted, strict=False):
        assert f.shape == w.shape, (kind, attributes)
        np.testing.assert_allclose(f.astype(np.float64), w.astype(np.float64), rtol=rtol, atol=1e-9)
