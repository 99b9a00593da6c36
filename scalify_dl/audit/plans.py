"""Attacks the fold of training plans: an interpreter of the plan as it stands, against the verdict.

Every rank runs its own program on numpy arrays: a receive waits for the next message of its channel, a collective for
all its members. Nothing of the fold is used: no slots, no virtual ranks. A plan that is PROVED has to run to its end
and to give what the single-device step gives.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scalify_dl.plans.model import Op, Side, read_side
from scalify_dl.plans.tables import Tables

Array = np.ndarray[Any, np.dtype[np.float64]]


class Stuck(Exception):
    """The plan cannot run; the text says where."""


def differences(directory: Path, seed: int = 0) -> list[str]:
    """How the plan's outputs differ from the single-device step's, on random values; Stuck where it does not end."""
    base, plan = (read_side(Tables(directory, side)) for side in "sp")
    fulls = _draw(base, np.random.default_rng(seed))
    truth = Run(base, fulls)
    truth.finish()
    run = Run(plan, fulls)
    run.finish()
    wanted = dict(truth.gradients())
    found = []
    seen = set()
    for rank, name, spans, value in run.results():
        seen.add((rank, name))
        part = wanted[0, name][1][tuple(slice(lo, hi) for lo, hi in spans)]
        if value.shape != part.shape or not np.allclose(value, part, rtol=1e-6, atol=1e-8):
            found.append(f"rank {rank}: the gradient of {name}")
    if {name for _, name in seen} != {name for _, name in wanted}:
        found.append("gradients are missing")
    losses = run.losses()
    whole = sum(value for _, value in truth.losses()[0])
    for stage in (0, plan.world["num_pp"] - 1):
        for t in range(plan.world["num_tp"]):
            parts = [value for rank, values in losses.items() if run.at[rank][1:] == (stage, t) for _, value in values]
            if len(parts) != plan.world["num_dp"] * plan.world["num_mb"] or not np.allclose(sum(parts), whole):
                found.append(f"the loss of stage {stage}")
    return found


def _draw(base: Side, random: np.random.Generator) -> dict[str, Array]:
    names = {(base.full(t).name, base.full(t).shape) for t, value in base.values.items() if value.given}
    return {name: random.standard_normal(shape) for name, shape in sorted(names)}


class Run:
    """All ranks of one side, the copies that are only meant included."""

    def __init__(self, side: Side, fulls: dict[str, Array]) -> None:
        self.side, self.fulls = side, fulls
        self.at: dict[int, tuple[int, int, int]] = {}
        self.programs: dict[int, deque[tuple[Op, int]]] = {}
        self.values: dict[int, dict[str, Array]] = defaultdict(dict)
        self.channels: dict[tuple[int, int], deque[Array]] = defaultdict(deque)
        self.calls: dict[tuple[object, ...], dict[int, tuple[Op, Array]]] = defaultdict(dict)
        self.counts: dict[tuple[object, ...], int] = defaultdict(int)
        self.waits: dict[int, tuple[object, ...]] = {}
        self.done: list[tuple[int, Op]] = []
        written = 1 + max(d for d, _, _ in side.places.values())
        shift = side.world["plan_ndevs"]
        for program in side.programs():
            for copy in range(side.world["num_dp"] if written < side.world["num_dp"] else 1):
                for op in program[:1]:
                    d, s, t = side.places[op.rank]
                    rank = op.rank + copy * shift
                    self.at[rank] = (d + copy, s, t)
                    self.programs[rank] = deque((one, copy * shift) for one in program)

    def finish(self) -> None:
        """Runs all programs to their ends."""
        moved = True
        while moved:
            moved = False
            for rank, program in self.programs.items():
                while program and self._step(rank, *program[0]):
                    self.done.append((rank, program.popleft()[0]))
                    moved = True
        for rank, program in self.programs.items():
            if program:
                raise Stuck(f"rank {rank} waits at {program[0][0].id}")

    def results(self) -> Iterator[tuple[int, str, tuple[tuple[int, int], ...], Array]]:
        """(rank, weight, its spans, gradient) after the reducers."""
        for rank, op in self.done:
            for tid in op.weights:
                part = self.side.parts[tid]
                yield rank, self.side.fulls[part.full].name, part.spans, self.values[rank][op.makes[0]]

    def gradients(self) -> Iterator[tuple[tuple[int, str], tuple[object, Array]]]:
        """Of the single-device step, which has no reducers."""
        for rank, op in self.done:
            for tensor in op.makes:
                weight = self.side.weight_of.get(self.side.values[tensor].tid)
                if weight is not None:
                    yield (rank, self.side.named(weight)), (None, self.values[rank][tensor])

    def losses(self) -> dict[int, list[tuple[str, Array]]]:
        """The losses that every rank holds."""
        out: dict[int, list[tuple[str, Array]]] = defaultdict(list)
        for rank, op in self.done:
            for tensor in op.makes:
                full = self.side.full(tensor)
                if full.loss and not full.gradient and self.side.values[tensor].rank >= 0:
                    out[rank].append((tensor, self.values[rank][tensor]))
        return out

    def _read(self, rank: int, op: Op, tensor: str) -> Array:
        value = self.side.values[tensor]
        if tensor in self.values[rank]:
            return self.values[rank][tensor]
        if not value.given:
            raise Stuck(f"{op.id} reads {tensor}, which nobody made")
        full, part = self.side.full(tensor), self.side.part(tensor)
        if full.loss and full.gradient:
            return np.ones(part.shape)
        return self.fulls[full.name][tuple(slice(lo, hi) for lo, hi in part.spans)]

    def _step(self, rank: int, op: Op, shift: int) -> bool:
        """Runs an op; False where it has to wait."""
        if op.move is not None:
            source, target = (end + shift for end in op.move)
            if rank == source:
                self.channels[source, target].append(self._read(rank, op, op.reads[0]))
                return True
            if rank != target:
                raise Stuck(f"{op.id} is at neither end of its message")
            if not self.channels[source, target]:
                return False
            self._make(rank, op, [self.channels[source, target].popleft()])
            return True
        if op.kind == "dataloader":
            for tensor in op.makes:
                whole, n = self.fulls[self.side.full(tensor).name], self.side.part(tensor).shape[0]
                block = self.at[rank][0] * self.side.world["num_mb"] + op.mb
                self.values[rank][tensor] = whole[block * n : (block + 1) * n]
            return True
        if op.members and op.kind not in ("ChunkPrim", "IdentityPrim"):
            return self._collective(rank, op, 0 if op.kind == "reducer" else shift)
        self._make(rank, op, _computed(op, [self._read(rank, op, tensor) for tensor in op.reads]))
        return True

    def _collective(self, rank: int, op: Op, shift: int) -> bool:
        members = [member + shift for member in op.members]
        if op.kind == "reducer" and members == [op.rank]:
            members = [rank]
        what = " ".join(self.side.named(tid) for tid in op.weights) if op.kind == "reducer" else op.kind
        if rank not in members:
            raise Stuck(f"{op.id} is no member of its group")
        if rank not in self.waits:
            group = (what, *members)
            self.waits[rank] = (*group, self.counts[rank, group])
            self.counts[rank, group] += 1
            self.calls[self.waits[rank]][rank] = (op, self._read(rank, op, op.reads[0]))
        arrived = self.calls[self.waits[rank]]
        if len(arrived) < len(set(members)):
            return False
        parts = [arrived[member][1] for member in members]
        if len({part.shape for part in parts}) > 1:
            raise Stuck(f"{op.id}: members bring different shapes")
        del self.waits[rank]
        if op.kind in ("AllReducePrim", "reducer"):
            result: Array = np.sum(parts, axis=0)
        else:
            result = np.concatenate(parts, axis=op.group[2] if op.group else 0)
        self._make(rank, op, [result])
        return True

    def _make(self, rank: int, op: Op, results: list[Array]) -> None:
        for tensor, value in zip(op.makes, results, strict=True):
            if value.shape != self.side.part(tensor).shape:
                raise Stuck(f"{op.id} makes {list(value.shape)}")
            self.values[rank][tensor] = value


def _computed(op: Op, x: list[Array]) -> list[Array]:
    """What a local op makes, in numpy."""
    try:
        return _meaning(op, x)
    except (ValueError, IndexError) as error:
        raise Stuck(f"{op.id}: {error}") from None


def _meaning(op: Op, x: list[Array]) -> list[Array]:
    if op.kind == "linear" and not op.backward:
        return [x[0] @ x[1].T]
    if op.kind == "linear":
        both = [x[0] @ x[2], x[0].T @ x[1]]
        return both if len(op.makes) == 2 else both[1:]
    if op.kind == "silu":
        half = 1 / (1 + np.exp(-x[-1]))
        return [x[0] * half if not op.backward else x[0] * half * (1 + x[1] * (1 - half))]
    if op.kind == "sum":
        return [np.sum(x[0], keepdims=False).reshape(1) if not op.backward else x[0].reshape(()) * np.ones_like(x[1])]
    if op.kind in ("identity", "IdentityPrim"):
        return [x[0]]
    if op.kind == "local_grad_accumulation":
        if x[0].shape != x[1].shape:
            raise ValueError("summands of different shapes")
        return [x[0] + x[1]]
    raise Stuck(f"no meaning of {op.kind}")
