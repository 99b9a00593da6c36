"""One trial: both sides run on one draw of the inputs, and what the comparison needs of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scalify_dl.ir.literals import is_rounded, root_texts
from scalify_dl.ir.vocabulary import RANDOM

from .addressing import pending_kind
from .execute import Machine, Values
from .inputs import baseline_inputs, distributed_inputs
from .program import Graph, Program, Shard
from .randomness import Draws
from .taint import invented_values

Array = np.ndarray[Any, Any]
Progress = Callable[[int, int, str], None]
"""Called with ops done, ops in all, and what runs."""

EXACT_KINDS = frozenset(
    """abs add and clamp compare convert maximum minimum multiply negate not or relu select sign subtract xor constant
    iota partition-id replica-id broadcast reshape transpose slice pad concatenate reverse reduce reduce-window
    cumulative select-and-scatter dot convolution gather scatter dynamic-slice dynamic-update-slice sort top-k empty
    all-reduce all-gather reduce-scatter all-to-all collective-permute collective-broadcast while conditional
    is-finite real imag complex floor ceil trunc round-nearest-even round-nearest-afz dropout-mask""".split()  # noqa: SIM905
)
"""On integers these give integers (constants permitting), so float64 is exact and any order of summation agrees."""


@dataclass
class Trial:
    """Values of one run. `baseline` maps a tensor to its value, `distributed` to values by rank."""

    program: Program
    seed: int
    how: str
    rounding: bool
    baseline: dict[str, Array] = field(default_factory=dict)
    distributed: Values = field(default_factory=dict)
    unplaced: set[str] = field(default_factory=set)
    unpaired: set[str] = field(default_factory=set)
    noise: dict[str, float] = field(default_factory=dict)
    measured: bool = False
    """Whether `measure_noise` ran."""

    @cached_property
    def invented(self) -> dict[str, str]:
        """Tensors that rest on an invented meaning, input or constant, and why."""
        return invented_values(self.program, self.unplaced, self.unpaired)

    def tolerance(self, tensor: str) -> float:
        """How far apart equal values of a baseline tensor may be, relative to its largest magnitude.

        0 where inputs are integers and every op keeps them so. Otherwise `SAFETY` times how far the same baseline moves
        when every input moves by 2⁻⁴⁸ of itself, at least `floor`: rounding in another order moves values like that.
        Where the floor is that of rounded constants, values move by their rounding instead, 2⁻²⁴ of themselves.
        """
        return self.noise.get(tensor, self.floor)

    @cached_property
    def floor(self) -> float:
        """The least tolerance: more where one side alone has constants that are known but for their rounding, or one
        has roots among them more often (elsewhere the other one computes the root); and near thresholds, beyond which
        libraries leave out what rounding would (softplus(x) is x above 20)."""
        if self.how == "integers":
            return 0.0
        if self.how == "thresholds":
            return SAFETY * 2.0**-24
        found: dict[str, Counter[tuple[str, str]]] = {"base": Counter(), "dist": Counter()}
        for graph in self.program.graphs.values():
            if graph.role in found:
                found[graph.role] |= Counter(self._rounded(graph))
        base, dist = found.values()
        alike = base.keys() == dist.keys() and all(
            base[key] == dist[key] for key in base if key[0] in root_texts(key[1])
        )
        return FLOOR if alike else SAFETY * 2.0**-24

    def _rounded(self, graph: Graph) -> Iterator[tuple[str, str]]:
        """Texts and types of constants of a graph that are known but for their rounding, or have numbers that are."""
        for op in graph.ops:
            tensor = self.program.tensors[op.results[0]] if op.kind == "constant" else None
            if tensor is None or not tensor.literal or tensor.dtype != "f32":
                continue
            words = tensor.literal.replace("{", "").replace("}", "").split(",")
            if any(is_rounded(word, tensor.dtype) for word in words):
                yield tensor.literal, tensor.dtype


FLOOR = 2.0**-40
SAFETY = 64.0


def is_exact(program: Program) -> bool:
    """Whether integer inputs stay exact: only such ops of real numbers, and only integer (or infinite) constants."""
    if any(tensor.dtype.startswith("c") for tensor in program.tensors.values()):
        return False  # sizes are roots, and imaginary parts are drawn as reals
    for graph in program.graphs.values():
        for op in graph.ops:
            if op.kind not in EXACT_KINDS:
                return False
            text = program.tensors[op.results[0]].literal if op.kind == "constant" else None
            if text is not None and not all(_integral(t) for t in text.replace("{", "").replace("}", "").split(",")):
                return False
    return True


def _integral(text: str) -> bool:
    try:
        return abs(float(text)) in (0.0, float("inf")) or float(text).is_integer()
    except ValueError:
        return False


def run_trial(
    program: Program,
    seed: int,
    how: str,
    *,
    rounding: bool = False,
    keep_base: Iterable[str] = (),
    keep_dist: Iterable[str] = (),
    progress: Progress | None = None,
    only: str | None = None,
    relations: Iterable[Shard] = (),
) -> Trial:
    """Runs the baseline and then the distributed side (`only="base"`: just the baseline).

    `keep_base`, `keep_dist`: tensors whose values are wanted besides outputs. `relations` place random masks. Raises
    Unsupported, Deadlock, InputError.
    """
    trial = Trial(program, seed, how, rounding)
    draws = Draws(program, seed, tuple(relations))
    total = sum(len(g.ops) for g in program.graphs.values())
    done = 0

    def watch(what: str) -> Callable[[str, dict[int, Array]], None] | None:
        if progress is None:
            return None

        def step(tensor: str, value: dict[int, Array]) -> None:
            nonlocal done
            done += 1
            if done % 64 == 0:
                progress(min(done, total), total, what)

        return step

    inputs = baseline_inputs(program, how, seed)
    checked = frozenset(base for _, base, _ in program.expects)
    with np.errstate(all="ignore"):
        bounded = how == "large"
        kept_too = checked.union(keep_base)
        machine = Machine(program, draws.baseline, seed, rounding, kept_too, watch("baseline"), bounded=bounded)
        kept = machine.run(program.top("base"), inputs)
        trial.baseline = {tensor: value[0] for tensor, value in kept.items()}
        if only == "base":
            return trial
        placed, trial.unplaced = distributed_inputs(program, inputs, how, seed)
        keep = frozenset(keep_dist)
        machine = Machine(program, draws.distributed, seed, rounding, keep, watch("distributed"), bounded=bounded)
        trial.distributed = machine.run(program.top("dist"), placed)
        trial.unpaired = draws.unpaired
    return trial


def measure_noise(trial: Trial, tensors: Iterable[str]) -> None:
    """Fills `trial.noise`: how much each baseline tensor moves when every real input moves by 2⁻⁴⁸ of itself,
    and every computed value by one rounding (large terms that cancel leave noise that no input explains)."""
    trial.measured = True
    if trial.how == "integers":
        return
    program, wanted = trial.program, list(tensors)
    inputs = baseline_inputs(program, trial.how, trial.seed)
    rng = np.random.default_rng(trial.seed)
    moved = moved_a_little(program, inputs, rng)
    with np.errstate(all="ignore"):
        draws = Draws(program, trial.seed).baseline
        machine = Machine(program, draws, trial.seed, trial.rounding, frozenset(wanted), jitter=rng)
        kept = machine.run(program.top("base"), moved)
        note_noise(trial, wanted, {tensor: value[0] for tensor, value in kept.items()})


def ranks_moved(
    trial: Trial, tensors: Collection[str], relations: Iterable[Shard], seeds: Iterable[int]
) -> Iterator[Values]:
    """What ranks hold of these where every computed value moves by one rounding (which way, a seed says); nothing for
    seeds with which other random numbers are drawn."""
    program = trial.program
    inputs = baseline_inputs(program, trial.how, trial.seed)
    placed, _ = distributed_inputs(program, inputs, trial.how, trial.seed)
    draws_any = any(op.kind in RANDOM for graph in program.graphs.values() for op in graph.ops)
    for seed in seeds:
        draws = Draws(program, trial.seed, tuple(relations))
        with np.errstate(all="ignore"):
            if draws_any:
                Machine(program, draws.baseline, trial.seed, trial.rounding).run(program.top("base"), inputs)
            rng = np.random.default_rng(seed)
            machine = Machine(program, draws.distributed, trial.seed, trial.rounding, frozenset(tensors), jitter=rng)
            moved = machine.run(program.top("dist"), placed)
        if draws.unpaired == trial.unpaired:
            yield moved


def moved_a_little(program: Program, inputs: Values, rng: np.random.Generator) -> Values:
    """Every real number by 2⁻⁴⁸ of itself; what ranks hold in parts by the rounding of these, too, which cancel."""
    in_parts = {row.base for row in program.shards if pending_kind(row.layout) == "sum"}

    def moved(x: Array, tensor: str) -> Array:
        if x.dtype.kind not in "fc":
            return x
        sign = rng.choice([-1.0, 1.0], x.shape)
        largest = np.abs(x[np.isfinite(x)]).max(initial=0.0) if tensor in in_parts else 0.0
        return np.where(x == 0, x, x * (1 + 2.0**-48 * sign) + 2.0**-50 * largest * sign)

    return {tensor: {rank: moved(x, tensor) for rank, x in value.items()} for tensor, value in inputs.items()}


def note_noise(trial: Trial, tensors: Iterable[str], moved: Mapping[str, Array]) -> None:
    """How far baseline tensors are from what they are where inputs and computed values were moved."""
    for tensor in tensors:
        here, there = trial.baseline.get(tensor), moved.get(tensor)
        if here is None or there is None or here.dtype.kind not in "fc":
            continue
        size = np.abs(here[np.isfinite(here)])
        distance = np.abs(here - there)
        distance = distance[np.isfinite(distance)]
        relative = float(distance.max()) / max(float(size.max()), 1e-300) if distance.size and size.size else 0.0
        coarser = 2.0**24 if trial.floor > FLOOR else 1.0
        trial.noise[tensor] = max(trial.floor, SAFETY * relative * coarser)
