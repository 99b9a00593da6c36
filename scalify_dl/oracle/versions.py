"""Programs that differ in constants only, run as one on one draw: a version is so many further ranks.

Small programs cost per op, not per element, and ops run all ranks at once (`together`): several versions, and the
baseline with its inputs moved for what rounding does (`trial.measure_noise`), cost little more than one. A rank of
version v is numbered v times the ranks of the program above its own; what depends on the number of a rank is said of
each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scalify_dl.ir.vocabulary import GROUPED, RANDOM

from .execute import Machine, Values
from .inputs import baseline_inputs, distributed_inputs
from .literals import scalar
from .program import Graph, Op, Program
from .randomness import Draws
from .trial import Trial, moved_a_little, note_noise

Array = np.ndarray[Any, Any]
ALONE = RANDOM | {"empty", "while", "conditional"}
"""Kinds that draw for each rank, or whose steps versions may differ in: programs with these are run one by one."""


def run_versions(programs: Sequence[Program], seed: int, wanted: Collection[str]) -> list[Trial] | None:
    """A trial of each on real numbers, its noise measured of these baseline tensors; None where they are not run as
    one. Raises what `run_trial` does."""
    first = programs[0]
    ops = [op for graph in first.graphs.values() for op in graph.ops]
    if any(program.graphs is not first.graphs for program in programs) or any(op.kind in ALONE for op in ops):
        return None
    many, count = len(programs), max(first.ranks) + 1
    inputs = baseline_inputs(first, "reals", seed)
    placed, unplaced = distributed_inputs(first, inputs, "reals", seed)
    rng = np.random.default_rng(seed)
    moved = moved_a_little(first, inputs, rng)
    draws = Draws(first, seed)

    plain, jittered = range(many), range(many, 2 * many)
    whole = _spread(programs, "base", 1, 2)
    given = {t: {**dict.fromkeys(plain, x[0]), **dict.fromkeys(jittered, moved[t][0])} for t, x in inputs.items()}
    with np.errstate(all="ignore"):
        checked = frozenset(base for _, base, _ in first.expects)
        machine = Machine(whole, draws.baseline, seed, keep=checked | {*wanted}, jitter=rng, moved=frozenset(jittered))
        base = machine.run(whole.top("base"), given)
        whole = _spread(programs, "dist", count, 1)
        given = {t: {v * count + r: x for v in plain for r, x in by_rank.items()} for t, by_rank in placed.items()}
        dist = Machine(whole, draws.distributed, seed).run(whole.top("dist"), given)
        trials = []
        for v, program in enumerate(programs):
            here, there = ({t: x[lane] for t, x in base.items()} for lane in (v, many + v))
            trial = Trial(program, seed, "reals", False, here, _of_version(dist, v, count), unplaced, measured=True)
            note_noise(trial, wanted, there)
            trials.append(trial)
    return trials


def _of_version(values: Values, version: int, count: int) -> Values:
    """Values by the ranks of the program itself."""
    return {t: {r % count: x for r, x in by_rank.items() if r // count == version} for t, by_rank in values.items()}


def _spread(programs: Sequence[Program], role: str, count: int, times: int) -> Program:
    """The programs of a role as one, each `times`."""
    first = programs[0]
    versions = [program for _ in range(times) for program in programs]
    everyone = [0] if role == "base" else list(first.ranks)
    graphs = {g.id: _graph(g, versions, everyone, count) for g in first.graphs.values() if g.role == role}
    return replace(first, graphs=graphs)


def _graph(graph: Graph, versions: Sequence[Program], everyone: list[int], count: int) -> Graph:
    """A graph that all ranks of all versions run."""
    offsets = [v * count for v in range(len(versions))]

    def of_rank(kind: str, values: dict[int, Any], op: Op) -> Op:
        return replace(op, kind=kind, by_rank={"value": {0: values}})

    def spread(op: Op) -> Op:
        if op.kind in ("partition-id", "replica-id"):
            return of_rank("constant", {o + r: r for o in offsets for r in graph.ranks}, op)
        texts = [version.tensors[op.results[0]].literal or "" for version in versions] if op.kind == "constant" else ()
        if len({*texts}) > 1:
            values = zip(offsets, map(scalar, texts), strict=True)
            return of_rank("constant", {o + r: value for o, value in values for r in graph.ranks}, op)
        groups = op.groups or ([everyone] if op.kind in GROUPED else [])
        if not (op.by_rank or groups or op.pairs):
            return op
        return replace(
            op,
            by_rank={
                key: {pos: {o + r: x for o in offsets for r, x in values.items()} for pos, values in at.items()}
                for key, at in op.by_rank.items()
            },
            groups=[[o + r for r in group] for o in offsets for group in groups],
            pairs=[(o + a, o + b) for o in offsets for a, b in op.pairs],
        )

    return replace(
        graph, ops=[spread(op) for op in graph.ops], ranks=tuple(o + r for o in offsets for r in graph.ranks)
    )
