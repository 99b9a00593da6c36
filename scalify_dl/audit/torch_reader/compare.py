"""FX text → reader → facts → oracle, against the values that eager torch gave.

Torch rounds every op to its dtype, the oracle computes in reals. So the oracle also runs with every result rounded, and
with results moved by a rounding: what torch gives must be near one of those runs, or where they differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from scalify_dl.errors import InputError
from scalify_dl.facts.tables import TableWriter
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.shapes import check
from scalify_dl.oracle.dtypes import is_float, round_to
from scalify_dl.oracle.execute import Machine
from scalify_dl.oracle.meaning import RANDOM, Unsupported
from scalify_dl.oracle.program import Op, Program, load_program
from scalify_dl.readers.fx import read_text
from scalify_dl.readers.fx.annotation import Annotations
from scalify_dl.readers.fx.dtypes import TORCH
from scalify_dl.readers.merge import merge

Array = np.ndarray[Any, Any]
EPSILON = {"f64": 2.0**-44, "f32": 2.0**-23, "bf16": 2.0**-7, "f16": 2.0**-10, "c128": 2.0**-44, "c64": 2.0**-23}
"""A rounding of each dtype; of the widest more, as kernels differ in their last digits."""
LOST = {"f64": 2.0**-1012, "f32": 2.0**-116, "bf16": 2.0**-116, "f16": 2.0**-14}
"""Below this a kernel may give 0: numbers inside of it leave the type's range (1 + exp(90) in sigmoid of -90)."""
RUNS = (1, 5, 40)
"""Runs that are looked at: the later ones only where torch gives something else than the earlier."""
CALLED = re.compile(r"torch\.ops\.([\w.]+)\(")


@dataclass
class Outcome:
    """What became of one program: `failure` says what is wrong (None: nothing)."""

    failure: str | None = None
    refused: str | None = None
    """The reader's error, where it refuses the text."""
    checked: int = 0
    unknown: dict[str, str] = field(default_factory=dict)
    """Ops without a lowering, and why."""
    called: set[str] = field(default_factory=set)
    """Ops in the text."""


CANCELLING = ("gelu", "gelu-tanh", "gelu-backward", "gelu-tanh-backward")
"""Kinds whose kernels subtract numbers of about the operands' size from each other: gelu of -7 is
-9e-12, or 0 where 1 + erf is rounded to 0."""


SINGLE = "aten.hardsigmoid_backward"
"""What computes with a constant of f32 in every type."""


@dataclass
class Rounded(Machine):
    """A run in which every result is rounded to its dtype, and moved by one rounding where it is not exact."""

    coarse: float = 0.0
    """The least rounding by which results are moved."""
    inner: dict[tuple[str, int], Array] = field(default_factory=dict)
    """How large the numbers inside of an op are, of which its result is a difference, or a sum: where that is 0,
    kernels (of a mean, by Welford's way) may have what rounding leaves of it."""

    def _jittered(self, op: Op, value: dict[int, Array]) -> dict[int, Array]:
        dtype = self.program.tensors[op.results[0]].dtype
        found = {}
        for rank, x in value.items():
            if x.dtype.kind != "f" or not is_float(dtype) or len(op.results) > 1:
                found[rank] = x
                continue
            rounded = round_to(x, dtype)
            if self.jitter is not None:
                step = max(EPSILON.get(dtype, 0.1), self.coarse) * self.jitter.choice([-1.0, 0.0, 1.0], x.shape)
                exact = (rounded == x) & (np.abs(x) < 2**20) & (np.round(x * 1024) == x * 1024) | ~np.isfinite(x)
                inner = self.inner.pop((op.id, rank), 0.0)
                exact &= (x != 0) | (np.multiply(inner, 1.0) == 0)
                rounded = np.where(exact, rounded, rounded + np.maximum(np.abs(rounded), inner) * step)
                tiny = np.abs(x) < np.maximum(LOST.get(dtype, 0.0), np.multiply(inner, EPSILON.get(dtype, 0.1)))
                tiny &= x != 0
                rounded = np.where(tiny, self.jitter.choice([0.0, 1.0], x.shape) * x, rounded)
                sign = self.jitter.choice([-1.0, 1.0], x.shape)
                rounded = np.where(rounded == 0, 0.0 * sign, rounded)  # kernels differ in the sign of zeros
            found[rank] = rounded
        return found

    def _local(self, op: Op, ranks: tuple[int, ...], operands: list[dict[int, Array]]) -> list[dict[int, Array]]:
        results = super()._local(op, ranks, operands)
        if op.kind in CANCELLING and self.jitter is not None:
            for rank in ranks:
                *gradient, x = (np.abs(operand[rank]) for operand in operands)
                self.inner[op.id, rank] = gradient[0] * (1 + x) if gradient else x
        if op.kind == "reduce" and op.symbols.get("reducer") == ["sum"] and self.jitter is not None:
            sizes = super()._local(op, ranks, [{rank: np.abs(x) for rank, x in value.items()} for value in operands])
            if len(op.results) == 1 and self.program.tensors[op.results[0]].dtype in EPSILON:
                self.inner |= {(op.id, rank): size for rank, size in sizes[0].items()}
        if op.kind == "convert" and self.jitter is not None:  # out of the range of an integer type anything may come
            for rank, x in operands[0].items():
                found = results[0][rank]
                if x.dtype.kind in "fc" and found.dtype.kind in "iu":
                    info = np.iinfo(found.dtype)
                    outside = ~((x.real > info.min - 1) & (x.real < info.max + 1))
                    results[0][rank] = np.where(outside, _any_of(found.dtype, x.shape, self.jitter), found)
        return results


def _any_of(dtype: np.dtype[Any], shape: tuple[int, ...], jitter: np.random.Generator) -> Array:
    """Integers of any size, now and then the same everywhere."""
    info = np.iinfo(dtype)
    ends = jitter.choice(np.array([info.min, info.max, 0], dtype), shape if jitter.random() < 0.5 else ())
    small = jitter.integers(0, 100, shape).astype(dtype)
    return np.where(jitter.random(shape) < 0.5 * jitter.integers(0, 2), small, ends)


def outcome(text: str, inputs: Sequence[Any], want: Sequence[Any]) -> Outcome:
    """Reads a text and compares what it computes of the inputs with what is wanted."""
    result = Outcome(called=set(CALLED.findall(text)))
    try:
        graph = read_text(text, file="program.fx.txt")
        check(graph)
    except InputError as error:
        result.refused = str(error)
        return result
    judge(result, [graph], [inputs], [want])
    return result


def outcome_of_ranks(
    texts: Sequence[str], known: Sequence[Annotations], inputs: Sequence[Sequence[Any]], want: Sequence[Sequence[Any]]
) -> Outcome:
    """The same of one text a rank, with what is said beside it."""
    result = Outcome(called=set(CALLED.findall(texts[0])))
    mesh = Mesh((("x", len(texts)),))
    try:
        read = [read_text(text, mesh, file=f"rank{r}.fx.txt", annotations=known[r]) for r, text in enumerate(texts)]
        graphs = merge(read)
        for graph in graphs:
            check(graph)
    except InputError as error:
        result.refused = str(error)
        return result
    judge(result, graphs, inputs, want)
    return result


def judge(
    result: Outcome, graphs: Sequence[Graph], inputs: Sequence[Sequence[Any]], want: Sequence[Sequence[Any]]
) -> None:
    """Compares what graphs compute of the inputs of every rank with what is wanted there."""
    ops = [op for graph in graphs for op in graph.ops]
    result.unknown = {
        op.kind.partition(":")[2]: op.symbols.get("reason", ["opaque"])[0]
        for op in ops
        if op.kind.startswith(("unknown:", "custom:"))
    }
    scale = max((EPSILON.get(x.dtype, 0.0) for op in ops for x in (*op.operands, *op.results)), default=0.0)
    scale = max([scale, *(EPSILON["f32"] for name in result.called if name.startswith(SINGLE))])
    scale = max([scale, *(EPSILON.get(port.tensor.dtype, 0.0) for graph in graphs for port in graph.inputs)])
    runs = Runs(graphs, inputs, scale)
    for graph in graphs:
        known = _known(graph)
        for rank in graph.ranks or (0,):
            if not _alike(result, graph, known, inputs[rank], want[rank]):
                return
            try:
                for port, value in zip(graph.outputs, want[rank], strict=False):
                    if port.tensor in known:
                        result.checked += 1
                        wrong = _difference(runs, (port.tensor, rank), array(value), scale)
                        if wrong is not None:
                            where = f" on rank {rank}" if len(inputs) > 1 else ""
                            number = [p.tensor for p in graph.outputs].index(port.tensor)
                            result.failure = f"output {number} ({port.tensor.name}){where}: {wrong}"
                            return
            except Unsupported as error:
                result.unknown["oracle"] = str(error)
                return


def _alike(result: Outcome, graph: Graph, known: set[Tensor], inputs: Sequence[Any], want: Sequence[Any]) -> bool:
    """Whether outputs have the number and types of what is wanted."""
    more = len(graph.outputs) - len(want)  # inputs that were written, and are not returned as they are, stand behind
    if not 0 <= more <= len(inputs):
        result.failure = f"{len(graph.outputs)} outputs, {len(want)} are wanted"
        return False
    for number, (port, value) in enumerate(zip(graph.outputs, want, strict=False)):
        dtype = TORCH[str(value.dtype)]
        if port.tensor not in known:  # nor is its shape known, where another tensor may have become another view
            continue
        if (port.tensor.dtype, port.tensor.shape) != (dtype, tuple(value.shape)):
            result.failure = f"output {number} is {port.tensor.type}, torch gives {dtype}{list(value.shape)}"
            return False
    return True


def _known(graph: Graph) -> set[Tensor]:
    """Tensors that hang on nothing that the oracle invents."""
    invented: set[Tensor] = set()
    for op in graph.ops:
        opaque = op.kind.startswith(("unknown:", "custom:")) or op.kind in RANDOM or op.kind == "empty"
        elided = op.kind == "constant" and (op.results[0].literal is None or op.results[0].literal.is_elided)
        if opaque or elided or any(x in invented for x in op.operands):
            invented.update(op.results)
    return {port.tensor for port in graph.outputs} - invented


def array(x: Any) -> Array:
    """A torch tensor as the oracle holds values."""
    x = x.detach()
    if x.dtype.is_complex:
        return np.asarray(x.resolve_conj().to(torch.complex128).numpy())
    return np.asarray((x.double() if x.dtype.is_floating_point else x).resolve_neg().numpy())


class Runs:
    """The runs of graphs by the oracle, each made when it is first asked for: as it is, rounded, moved."""

    def __init__(self, graphs: Sequence[Graph], inputs: Sequence[Sequence[Any]], coarse: float) -> None:
        """`inputs` of every rank; `coarse`: the coarsest rounding of all types that there are."""
        self.coarse = coarse
        writer = TableWriter(Mesh((("x", len(inputs)),)))
        writer.facts.add("meta", "schema", "1")
        self.role = "base" if len(inputs) == 1 else "dist"
        self.inputs: dict[str, dict[int, Array]] = {}
        for graph in graphs:
            writer.graph(graph, self.role, self.role, f"{self.role}/")
            for rank in graph.ranks or (0,):
                for port, x in zip(graph.inputs, inputs[rank], strict=True):
                    self.inputs.setdefault(writer.ids[port.tensor], {})[rank] = array(x)
        self.program = load_program(writer.facts.tables)
        self.outputs = {port.tensor: writer.ids[port.tensor] for graph in graphs for port in graph.outputs}
        self.made: list[dict[str, dict[int, Array]]] = []

    def output(self, number: int, output: tuple[Tensor, int]) -> Array:
        """An output on a rank in a run."""
        while len(self.made) <= number:
            self.made.append(self.run(len(self.made)))
        tensor, rank = output
        return self.made[number][self.outputs[tensor]][rank]

    def run(self, number: int) -> dict[str, dict[int, Array]]:
        """The outputs in one run."""
        noise = np.random.default_rng(number) if number > 1 else None
        keep = frozenset(self.outputs.values())
        machine = Machine(self.program, _zeros(self.program), keep=keep, rounding=True)
        if number:  # of operands of two types some kernels give a result in the coarser one
            coarse = self.coarse if number >= RUNS[1] else 0.0
            machine = Rounded(self.program, machine.random, keep=keep, rounding=True, jitter=noise, coarse=coarse)
        with np.errstate(all="ignore"):
            return machine.run(self.program.top(self.role), self.inputs)


def _zeros(program: Program) -> Any:
    """Random numbers that nobody looks at."""

    def source(op: Op, values: dict[int, list[Array]]) -> dict[int, list[Array]]:
        return {rank: [np.zeros(program.tensors[t].shape) for t in op.results] for rank in values}

    return source


def _difference(runs: Runs, output: tuple[Tensor, int], want: Array, epsilon: float) -> str | None:
    """Where the wanted value is near no run although the runs agree."""
    first = runs.output(0, output)
    bad = np.ones(want.shape, np.bool_)
    for count in RUNS:
        bad &= _off([runs.output(i, output) for i in range(count)], want, epsilon)
        if not bad.any():
            return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    share = f"{int(bad.sum())} of {bad.size} elements differ"
    return f"{share}; at {list(where)} it is {first[where]}, torch gives {want[where]}"


def _off(runs: Sequence[Array], want: Array, epsilon: float) -> Array:
    if want.dtype.kind in "biu":
        return np.asarray((runs[0] != want) & np.all([run == runs[0] for run in runs], axis=0))
    with np.errstate(all="ignore"):
        stacked = np.stack([run.astype(np.complex128 if want.dtype.kind == "c" else np.float64) for run in runs])
        finite = np.isfinite(stacked)
        settled = finite.all(0) | (stacked == stacked[0]).all(0) | np.isnan(stacked).all(0)
        spread = np.nan_to_num(np.abs(stacked - stacked[0])).max(0)
        size = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        near = np.ones(stacked.shape, np.bool_)
        for x, y in ((stacked.real, want.real), (stacked.imag, want.imag)):  # one part may be infinite
            near &= (x == y) | (np.abs(x - y) <= 64 * epsilon * size + 8 * spread)
        unlike = np.isnan(stacked) | np.isnan(want)  # inf - inf or inf: kernels differ in that
        same = near | (stacked == want) | (~finite & ~np.isfinite(want) & unlike)
        return np.asarray(settled & ~same.any(0))
