"""Random JAX programs, read back from StableHLO and HLO: the net notices a reader that loses something."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax", reason="JAX runs the programs; the `jax` extra is not installed")
import numpy as np  # noqa: E402

from scalify_dl.audit.jax_reader import run  # noqa: E402
from scalify_dl.frontends.hlo.lower import OPCODES  # noqa: E402
from scalify_dl.oracle.meaning import MEANINGS  # noqa: E402
from scalify_dl.oracle.meaning.base import Call  # noqa: E402
from scalify_dl.oracle.program import Op as FactOp  # noqa: E402
from scalify_dl.oracle.program import Tensor as FactTensor  # noqa: E402


def test_random_programs_are_read_back_as_they_are() -> None:
    report = run(count=25, seed=4000)
    assert report.mismatches == []
    assert report.programs == 25
    assert sum(report.steps.values()) > 100


def test_a_reader_that_forgets_the_steps_of_slices_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = OPCODES["slice"]

    def wrong(lo, i, operands):
        value = right(lo, i, operands)
        op = lo.producer[value]
        ends = list(operands[0].shape)
        sizes = [b - a for a, b in zip(op.numbers["start"], op.numbers["limit"], strict=True)]
        op.numbers["start"] = [end - size for end, size in zip(ends, sizes, strict=True)]
        op.numbers["limit"] = ends
        return value

    monkeypatch.setitem(OPCODES, "slice", wrong)
    assert any("hlo" in what for _, what in run(count=25, seed=4000).mismatches)


def meaning(kind: str, dtype: str, *operands: object) -> np.ndarray:
    arrays = [np.asarray(x, dtype=np.uint32 if dtype == "u32" else np.int32) for x in operands]
    call = Call(FactOp("o", kind), 0, [FactTensor("t", dtype, arrays[0].shape)], False, 0)
    return MEANINGS[kind](call, arrays)[0]


def test_arithmetic_shifts_of_unsigned_numbers_keep_the_top_bit() -> None:
    shifted = meaning("shift-right-arithmetic", "u32", [2**31, 5, 2**32 - 1], [4, 1, 40])
    assert shifted.tolist() == [0xF8000000, 2, 0xFFFFFFFF]


def test_leading_zeros_of_a_scalar() -> None:
    assert meaning("clz", "u32", 1) == 31
