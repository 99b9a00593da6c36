"""What the checker makes of ops is worth what an execution gives, element by element and, where dims are large, for all
places at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scalify_dl.audit import algebra_checked, block_worth
from scalify_dl.audit.algebra_blocks import unknown
from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.formulas.forms import Atoms, Form
from scalify_dl.certificate.formulas.integers import Table, unknown_integer
from scalify_dl.certificate.formulas.large.atoms import Spread
from scalify_dl.certificate.formulas.large.blocks import whole
from scalify_dl.certificate.formulas.large.machine import Large
from scalify_dl.certificate.formulas.machine import Machine
from scalify_dl.certificate.formulas.programs import Program
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import load_program
from scalify_dl.oracle.trial import run_trial

from ..algebra.programs import compared, iota, two

Make = Callable[[Graph, dict[str, Tensor]], list[Tensor]]
IDS = {"ids": (3,), "rows": (2,)}
LOW, LIMIT = -4, 4
SHAPES = {"x": (2, 4), "y": (4, 3), "z": (2, 4), "q": (2, 3, 2), "k": (2, 4, 2), "v": (2, 4, 3), "g": (2, 3, 3)}
READ: Any = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "slice_sizes": [1, 3],
             "index_vector_dim": 1}  # fmt: skip
WRITE: Any = {"update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
              "index_vector_dim": 1}  # fmt: skip
ALONG: Any = {"offset_dims": [], "collapsed_slice_dims": [1], "start_index_map": [1], "operand_batching_dims": [0],
              "start_indices_batching_dims": [0], "slice_sizes": [1, 1], "index_vector_dim": 1}  # fmt: skip
PUT: Any = {"update_window_dims": [], "inserted_window_dims": [1], "scatter_dims_to_operand_dims": [1],
            "input_batching_dims": [0], "scatter_indices_batching_dims": [0], "index_vector_dim": 1}  # fmt: skip


def fused(g: Graph, t: dict[str, Tensor], *mask: Tensor, **options: Any) -> list[Tensor]:
    numbers = {key: [value] for key, value in options.items() if isinstance(value, int)}
    symbols = {key: [value] for key, value in options.items() if isinstance(value, str)}
    types = [("f32", (2, 3, 3)), ("f32", (2, 3))]
    op = g.add("attention", [t["q"], t["k"], t["v"], *mask], types, numbers=numbers, symbols=symbols)
    return list(op.results)


def backward(g: Graph, t: dict[str, Tensor]) -> list[Tensor]:
    out, total = fused(g, t, causal=1)
    types = [("f32", t[name].shape) for name in "qkv"]
    xs = [t["g"], t["q"], t["k"], t["v"], out, total]
    return list(g.add("attention-backward", xs, types, numbers={"causal": [1]}).results)


def banded(g: Graph, t: dict[str, Tensor]) -> list[Tensor]:
    like = g.splat(0, "f32", (3, 4))
    shown = compared(g, iota(g, like, 1), two(g, "add", iota(g, like, 0), g.splat(1, "s32", (3, 4))), "LE")
    return fused(g, t, shown, scale="0.25")


def added(g: Graph, t: dict[str, Tensor]) -> list[Tensor]:
    return fused(g, t, g.emit("reshape", [t["x"]], shape=(2, 1, 4)))


def sort(direction: str) -> Make:
    def make(g: Graph, t: dict[str, Tensor]) -> list[Tensor]:
        types = [("f32", (2, 4)), ("f32", (2, 4)), ("s32", (2, 4))]
        operands = [t["x"], t["z"], iota(g, t["x"], 1)]
        options: Any = {"numbers": {"dimension": [1], "stable": [1]}, "symbols": {"direction": [direction]}}
        values = g.add("sort", operands, types, **options).results
        return [values[0], values[1], g.emit("convert", [values[2]], dtype="f32")]

    return make


def top(g: Graph, t: dict[str, Tensor]) -> list[Tensor]:
    op = g.add("top-k", [t["x"]], [("f32", (2, 2)), ("s32", (2, 2))], numbers={"k": [2], "stable": [1]})
    return [op.results[0], g.emit("convert", [op.results[1]], dtype="f32")]


def read(mode: str) -> Make:
    return lambda g, t: [g.emit("gather", [t["y"], t["ids"]], shape=(3, 3), mode=mode, **READ)]


def added_at(g: Graph, t: dict[str, Tensor]) -> list[Tensor]:
    three = g.emit("slice", [t["y"]], start=[0, 0], limit=[3, 3], stride=[1, 1])
    return [g.emit("scatter", [t["y"], t["ids"], three], reducer="sum", shape=(4, 3), **WRITE)]


def put_at(g: Graph, t: dict[str, Tensor]) -> list[Tensor]:
    got = g.emit("gather", [t["x"], t["rows"]], shape=(2,), mode="wrap", **ALONG)
    twice = two(g, "add", got, got)
    return [g.emit("scatter", [t["x"], t["rows"], twice], reducer="replace", shape=(2, 4), **PUT)]


def padded(low: list[int], high: list[int], interior: list[int]) -> Make:
    """With something around each element, or without those at the ends."""
    shape = tuple(a + b + n + (n - 1) * i for a, b, n, i in zip(low, high, (2, 4), interior, strict=True))
    return lambda g, t: [g.emit("pad", [t["x"], g.splat(3, "f32", ())], shape=shape, low=low, high=high,
                                interior=interior)]  # fmt: skip


OPS: dict[str, Make] = {
    "a pad between elements": padded([1, 0], [0, 2], [2, 1]),
    "a pad that crops": padded([1, -1], [-1, 2], [0, 0]),
    "a pad that crops, between elements": padded([0, -2], [1, -1], [1, 2]),
    "attention": fused,
    "causal attention": lambda g, t: fused(g, t, causal=1),
    "attention in a band": banded,
    "attention with a bias": added,
    "attention backwards": backward,
    "gelu by tanh": lambda g, t: [g.emit("gelu-tanh", [t["x"]])],
    "gelu backwards": lambda g, t: [g.emit("gelu-backward", [t["z"], t["x"]])],
    "gelu by tanh, backwards": lambda g, t: [g.emit("gelu-tanh-backward", [t["z"], t["x"]])],
    "rows in order": sort("ASC"),
    "rows in the other order": sort("DESC"),
    "the greatest two": top,
    "ids that are clipped": read("clamp"),
    "ids from the end": read("wrap"),
    "rows that are added": added_at,
    "elements that are put": put_at,
}


class Worth(algebra_checked.Worth):
    """What forms of elements of tensors are worth: `at` is a value for each unknown."""

    at: Any

    def atom(self, kind: str, data: Any) -> float:
        if kind == "chosen":
            unknown, number = data
            return float(self.at[unknown] - LOW == number)
        return super().atom(kind, data)


def program_of(make: Make) -> tuple[Any, list[str]]:
    """The tables of a program that makes values, and their names."""
    pair = Pair({"tp": 1})
    made = {name: pair.input(shape)[0] for name, shape in SHAPES.items()}
    made |= {name: pair.input(shape, dtype="s32", range=(LOW, LIMIT))[0] for name, shape in IDS.items()}
    found = make(pair.base, made)
    pair.outputs(found[0], pair.dist.splat(0, "f32", found[0].shape))
    tables = {name: list(rows) for name, rows in pair.tables().items()}
    named = [row[2] for row in tables["result"] if row[0] in {op for op, graph, _ in tables["op"] if graph == "base"}]
    every = dict(zip((t for op in pair.base.ops for t in op.results), named, strict=True))
    return tables, [every[t] for t in found]


@pytest.mark.parametrize("name", OPS)
def test_what_is_followed_is_worth_what_is_computed(name: str) -> None:
    tables, targets = program_of(OPS[name])
    program, atoms = Program(tables), Atoms()
    machine = Machine(program, atoms)
    inputs = [t for _, _, t in tables["input"] if t.startswith("base")]
    known = {t: {0: np.empty(program.shapes[t], dtype=object)} for t in inputs}
    for t, value in known.items():
        for at in np.ndindex(*value[0].shape):
            ids = program.types[t] == "s32"
            new = unknown_integer(atoms, (t, at), LOW, LIMIT - 1) if ids else atoms.atom("input", (t, at))
            value[0][at] = new
    found = {t: machine.value(t, known, [0])[0] for t in targets}
    for seed in range(6):
        trial = run_trial(load_program(tables), seed, "reals", keep_base=[*inputs, *targets], only="base")
        values: Any = {(t, place): trial.baseline[t][place] for t in inputs for place in np.ndindex(*program.shapes[t])}
        for t in targets:
            worth = Worth(atoms, values)
            for place, element in np.ndenumerate(found[t]):
                assert not isinstance(element, Table)
                form = element if isinstance(element, Form) else atoms.number(element)
                assert worth.form(form) == pytest.approx(float(trial.baseline[t][place]), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", [*OPS][3:7] + [name for name in OPS if "gelu" in name])
def test_so_it_is_with_variables(name: str) -> None:
    tables, targets = program_of(OPS[name])
    program, atoms = Program(tables), Spread()
    machine = Large(program, atoms)
    inputs = [t for _, _, t in tables["input"] if t.startswith("base") and program.types[t] == "f32"]
    known: Any = {t: {0: unknown(atoms, t, [whole(n) for n in program.shapes[t]])} for t in inputs}
    found = {t: machine.value(t, known, [0])[0] for t in targets}
    for seed in range(3):
        trial = run_trial(load_program(tables), seed, "reals", keep_base=[*inputs, *targets], only="base")
        worth = block_worth.Worth(atoms, trial.baseline)
        for t in targets:
            claimed = block_worth.array(worth, found[t])  # type: ignore[arg-type]
            assert claimed == pytest.approx(trial.baseline[t], rel=1e-6, abs=1e-6)
