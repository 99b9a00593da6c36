"""Random JAX programs, read back from StableHLO and HLO: the net notices a reader that loses something."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

jax = pytest.importorskip("jax", reason="JAX runs the programs; the `jax` extra is not installed")
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

from scalify_dl.audit.children import Say  # noqa: E402
from scalify_dl.audit.jax_reader import batches, run  # noqa: E402
from scalify_dl.audit.jax_reader.batches import Found  # noqa: E402
from scalify_dl.audit.jax_reader.check import DEFINED, OPTIMISER, Outcome, check, read_back  # noqa: E402
from scalify_dl.audit.jax_reader.coverage import Seen  # noqa: E402
from scalify_dl.audit.jax_reader.raw import binary, emit  # noqa: E402
from scalify_dl.audit.jax_reader.reference import interpreted  # noqa: E402
from scalify_dl.audit.jax_reader.world import World  # noqa: E402
from scalify_dl.oracle.literals import literal_array  # noqa: E402
from scalify_dl.oracle.meaning import MEANINGS  # noqa: E402
from scalify_dl.oracle.meaning.base import Call  # noqa: E402
from scalify_dl.oracle.program import Op as FactOp  # noqa: E402
from scalify_dl.oracle.program import Tensor as FactTensor  # noqa: E402
from scalify_dl.readers.hlo.lower import OPCODES  # noqa: E402


def test_random_programs_are_read_back_as_they_are() -> None:
    report = run(count=25, seed=4000)
    assert report.mismatches == []
    assert report.programs == 25
    assert sum(report.steps.values()) > 100


def test_a_program_that_ends_jax_is_said_to_and_the_next_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA aborts on a few programs; here the process does at every third."""
    monkeypatch.setattr(batches, "_check", _dies_at_every_third)
    report = run(count=7, seed=4000)
    assert (report.programs, report.mismatches) == (7, [])
    assert report.unknown["JAX ends the process (SIGABRT)"] == 2


def _dies_at_every_third(say: Say, first: int, looked: Counter[str]) -> Iterator[Found]:
    for seed in range(first, first + 400):
        if seed % 3 == 0:
            os.abort()
        yield Outcome(seed), None, 0.0


def test_a_program_that_the_optimiser_changes_is_told_from_one_that_is_read_wrongly() -> None:
    """The slice starts at 3 of 5, is clamped to 1, and the row at 2 of it is the row at 3: XLA's optimiser takes 4."""
    w = World(np.random.default_rng(0))
    w.input((5,), "int32")
    w.input((), "int32")
    w.add("rows", lambda x, i: lax.dynamic_slice(x, [i], [4]), 0, 1)
    w.add("row", lambda x, i: lax.dynamic_slice(x, [i - 1], [1]), 2, 1)
    outcome = read_back(w, [np.arange(5, dtype=np.int32), np.int32(3)], Outcome(0))
    assert outcome.mismatches == []
    assert set(outcome.unknown) <= {f"stablehlo {OPTIMISER}", f"hlo {OPTIMISER}"}


def faulty_in_xla() -> tuple[World, list[np.ndarray]]:
    """XLA's kernel applies one update of those whose index vectors are empty."""
    w = World(np.random.default_rng(0))
    for shape in ((2,), (3, 1)):
        w.input(shape, "float32")
    dims = "update_window_dims = [1], index_vector_dim = 1"
    attributes = {"scatter_dimension_numbers": f"#stablehlo.scatter<{dims}>"}

    def f(x, updates):
        operands = (x, jax.numpy.zeros((3, 0), np.int32), updates)
        return emit(
            "stablehlo.scatter", operands, [((2,), "float32")], attributes, [binary("stablehlo.add", "float32")]
        )

    w.add("scatter add", f, 0, 1)
    return w, [np.array([10, 20], np.float32), np.array([[3], [5], [7]], np.float32)]


def test_what_xla_does_otherwise_than_the_definition_is_counted_and_not_held_against_the_reader() -> None:
    outcome = read_back(*faulty_in_xla(), Outcome(0))
    assert outcome.mismatches == []
    assert {name.partition(" ")[2] for name in outcome.unknown} == {f"{DEFINED} scatter add"}


def test_a_reader_that_agrees_with_nobody_is_found_where_xla_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = MEANINGS["scatter"]
    monkeypatch.setitem(MEANINGS, "scatter", lambda call, operands: [x + 1 for x in right(call, operands)])
    assert len(read_back(*faulty_in_xla(), Outcome(0)).mismatches) == 3


def test_the_interpreter_of_stablehlo_gives_numbers_of_every_type() -> None:
    types = ("bfloat16", "float64", "int8", "uint64", "bool")
    values = [np.array([[0, 1, 1]]).astype(jax.numpy.dtype(t)) for t in types] + [np.zeros((0, 2), np.float32)]
    with jax.enable_x64(True):
        text = jax.jit(lambda *xs: [jax.numpy.flip(x, 1) for x in xs]).lower(*values).as_text()
    found = interpreted(text, values)
    assert [x.tolist() for x in found] == [[[1, 1, 0]]] * 5 + [[]]
    assert interpreted("no module", values) is None


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
    with jax.enable_x64(True):
        assert any("hlo" in what for seed in range(4000, 4025) for what in check(seed).mismatches)


def meaning(kind: str, dtype: str, *operands: object) -> np.ndarray:
    arrays = [np.asarray(x, dtype=np.uint32 if dtype == "u32" else np.int32) for x in operands]
    call = Call(FactOp("o", kind), 0, [FactTensor("t", dtype, arrays[0].shape)], False, 0)
    return MEANINGS[kind](call, arrays)[0]


def test_bits_of_a_type_are_those_that_it_has_not_those_that_hold_it() -> None:
    assert meaning("clz", "s4", [0, 1, -1]).tolist() == [4, 3, 0]
    assert meaning("popcnt", "s4", [0, 3, -1]).tolist() == [0, 2, 4]
    assert meaning("shift-right-logical", "s4", [-1, -1], [1, 4]).tolist() == [7, 0]
    shifted = meaning("shift-right-arithmetic", "u4", [12, 4], [1, 1])
    assert (shifted % 16).tolist() == [14, 2]  # (what leaves the type is brought back by the machine)


def test_positions_beyond_all_signed_numbers_are_clamped_to_the_last() -> None:
    x, at = np.arange(5.0), np.array([2**64 - 1, 0, 3], dtype=np.uint64)
    numbers = {"offset_dims": [], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": [1]}
    op = FactOp("t", "gather", numbers=numbers | {"slice_sizes": [1]})
    call = Call(op, 0, [FactTensor("t", "f32", (3,))], False, 0)
    assert MEANINGS["gather"](call, [x, at])[0].tolist() == [4.0, 0.0, 3.0]


def test_arithmetic_shifts_of_unsigned_numbers_keep_the_top_bit() -> None:
    shifted = meaning("shift-right-arithmetic", "u32", [2**31, 5, 2**32 - 1], [4, 1, 40])
    assert shifted.tolist() == [0xF8000000, 2, 0xFFFFFFFF]


def test_leading_zeros_of_a_scalar() -> None:
    assert meaning("clz", "u32", 1) == 31


def test_powers_of_large_unsigned_numbers_are_exact() -> None:
    top = np.array([2**63 - 1, 2**64 - 1], dtype=np.uint64)
    call = Call(FactOp("o", "power"), 0, [FactTensor("t", "u64", (2,))], False, 0)
    assert MEANINGS["power"](call, [top, np.ones_like(top)])[0].tolist() == top.tolist()


def test_a_gather_from_a_scalar_has_no_slice_sizes() -> None:
    call = Call(FactOp("o", "gather"), 0, [FactTensor("t", "s32", (2,))], False, 0)
    call.op.numbers["index_vector_dim"] = (1,)
    (found,) = MEANINGS["gather"](call, [np.int32(7) * np.ones((), np.int32), np.zeros((2, 0), np.int32)])
    assert found.tolist() == [7, 7]


def test_tables_of_large_unsigned_numbers_are_exact() -> None:
    for literal, items in (("{2,18446744073709551615}", None), (None, (2, 2**64 - 1))):
        found = literal_array(FactTensor("t", "u64", (2,), literal, items))
        assert found.tolist() == [2, 2**64 - 1]


def test_what_is_never_drawn_has_a_reason_or_is_told() -> None:
    seen = Seen()
    body = "  %x = f32[4]{0} parameter(0)\n  ROOT %y = f32[4]{0} reverse(%x), dimensions={0}"
    seen.hlo(f"HloModule m\n\nENTRY %main {{\n{body}\n}}\n")
    never = seen.never_drawn()
    assert never["reverse/dimensions"] == never["add"] == ""
    assert "reverse" not in never
    assert "several ranks" in never["all-reduce"]


def test_a_scatter_into_a_scalar_takes_all_updates() -> None:
    for reducer, expected in (("sum", 10), ("replace", 6)):
        call = Call(FactOp("o", "scatter"), 0, [FactTensor("t", "s32", ())], False, 0)
        call.op.numbers["index_vector_dim"] = [1]
        call.op.symbols["reducer"] = [reducer]
        operands = [np.array(1, np.int32), np.zeros((2, 0), np.int32), np.array([3, 6], np.int32)]
        (found,) = MEANINGS["scatter"](call, operands)
        assert int(found) == expected
