"""Runs a plan as it stands: every rank its own program on numpy arrays, all copies, messages and collectives that wait.
Reducers run beside, and a rank goes on: it waits for them where it reads what they make, and at its end.

Nothing of the fold is used: no slots, no virtual ranks, no meanings. A message is the next one of its channel; a
collective is the next one of its group, and all its members have to call the same.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from scalify_dl.plans.model import BROADCAST, Op, Side

from .kinds import Shape, Unknown, computed

Array = np.ndarray[Any, Any]
Place = tuple[int, int, int]


class Stuck(Exception):
    """The plan cannot run; the text says where."""


class Run:
    """All ranks of one side, the copies that are only meant included. `fulls`: tensors of the model by name."""

    def __init__(self, side: Side, fulls: Mapping[str, Array]) -> None:
        self.side, self.fulls = side, fulls
        self.at: dict[int, Place] = {}
        self.programs: dict[int, deque[tuple[Op, int]]] = {}
        self.values: dict[int, dict[str, Array]] = defaultdict(dict)
        self.channels: dict[tuple[object, ...], deque[Array]] = defaultdict(deque)
        self.calls: dict[tuple[object, ...], dict[int, tuple[Op, Array]]] = defaultdict(dict)
        self.counts: dict[tuple[object, ...], int] = defaultdict(int)
        self.waits: dict[tuple[int, str], tuple[object, ...]] = {}
        """Collectives that were called and have not ended, by rank and op."""
        self.beside: dict[int, list[Op]] = defaultdict(list)
        self.done: list[tuple[int, Op]] = []
        if side.world.get("written_mb", 0) not in (0, side.world["num_mb"]):
            raise Unknown("micro-batches that are not written")
        written = 1 + max(d for d, _, _ in side.places.values())
        shift = side.world["plan_ndevs"]
        for program in side.programs():
            for block in range(side.world["num_dp"] // written):
                for op in program[:1]:
                    d, s, t = side.places[op.rank]
                    rank = op.rank + block * shift
                    self.at[rank] = (d + block * written, s, t)
                    self.programs[rank] = deque((one, block * shift) for one in program)

    def finish(self) -> Run:
        """Runs all programs to their ends."""
        moved = True
        while moved:
            moved = False
            for rank, program in self.programs.items():
                for op in [op for op in self.beside[rank] if self._collective(rank, op, 0)]:
                    self.beside[rank].remove(op)
                    self.done.append((rank, op))
                    moved = True
                while program and (done := self._goes_on(rank, *program[0])) is not None:
                    op, _ = program.popleft()
                    if done:
                        self.done.append((rank, op))
                    moved = True
        for rank, program in self.programs.items():
            for op in [*self.beside[rank], *(op for op, _ in program)][:1]:
                raise Stuck(f"rank {rank} waits at {op.id}")
        return self

    # ---- what it gives

    def gradients(self) -> Iterator[tuple[int, str, tuple[tuple[int, int], ...], Array]]:
        """(rank, weight, its spans, gradient): what reducers make, or else what no sum adds further, and of which
        nothing is made behind the last micro-batch."""
        again = {
            tensor for op in self.side.ops.values() for tensor in op.reads
            if self._of_the_step(op) and any(self.side.values[made].tid in self.side.weight_of for made in op.makes)
        }  # fmt: skip
        read = {
            tensor for _, op in self.done for tensor in op.reads if op.kind in ("local_grad_accumulation", "reducer")
        }
        reduced = {
            (rank, self.side.named(tid)) for rank, op in self.done if not read & {*op.makes} for tid in op.weights
        }
        for rank, op in self.done:
            for tid in op.weights if not (again | read).intersection(op.makes) else ():
                part = self.side.parts[tid]
                yield rank, self.side.named(tid), part.spans, self.values[rank][op.makes[0]]
            for tensor in op.makes if not op.weights else ():
                weight = self.side.weight_of.get(self.side.values[tensor].tid)
                if weight is None or tensor in read or tensor in again:
                    continue
                if (rank, self.side.named(weight)) in reduced and not self._of_the_step(op):
                    continue
                yield rank, self.side.named(weight), self.side.parts[weight].spans, self.values[rank][tensor]

    def _of_the_step(self, op: Op) -> bool:
        return op.mb < 0 and op.kind not in ("local_grad_accumulation", "reducer")

    def updates(self) -> Iterator[tuple[int, str, tuple[tuple[int, int], ...], Array]]:
        """(rank, weight, its spans, new value) where the spans are those of the weight."""
        for rank, op in self.done:
            for tensor in op.makes:
                weight = self.side.updates.get(self.side.values[tensor].tid)
                if weight is not None and self.side.part(tensor).spans == self.side.parts[weight].spans:
                    yield rank, self.side.named(weight), self.side.parts[weight].spans, self.values[rank][tensor]

    def losses(self) -> dict[str, dict[int, list[tuple[int, Array]]]]:
        """Loss → rank → (micro-batch, value) of all that it holds and makes no other loss of."""
        held: dict[str, dict[int, list[tuple[int, Array]]]] = defaultdict(lambda: defaultdict(list))
        for rank, op in self.done:
            for tensor in op.makes:
                full, value = self.side.full(tensor), self.side.values[tensor]
                if full.loss and not full.gradient and value.rank >= 0 and tensor not in self._read_further:
                    mb = value.mb if value.mb >= 0 else op.mb
                    held[full.name][rank].append((mb, self.values[rank][tensor]))
        return held

    @cached_property
    def _read_further(self) -> set[str]:
        """Tensors that are made into another one of the same tensor of the model."""
        part, values = self.side.part, self.side.values
        return {
            x for op in self.side.ops.values() for x in op.reads for made in op.makes
            if values[made].rank >= 0 and part(made).full == part(x).full
        }  # fmt: skip

    # ---- how it runs

    def _read(self, rank: int, op: Op, tensor: str) -> Array:
        value = self.side.values[tensor]
        if tensor in self.values[rank]:
            return self.values[rank][tensor]
        if not value.given:
            raise Stuck(f"{op.id} reads {tensor}, which nobody made")
        full, part = self.side.full(tensor), self.side.part(tensor)
        if full.loss and full.gradient:
            return np.ones(part.shape)
        if full.name not in self.fulls:
            raise Stuck(f"{op.id} reads {full.name}, which the single-device step has not")
        return self.fulls[full.name][tuple(slice(lo, hi) for lo, hi in part.spans)]

    def _goes_on(self, rank: int, op: Op, shift: int) -> bool | None:
        """Whether an op has run (True), or runs beside (False); None where the rank has to wait."""
        if any(tensor in waited.makes for waited in self.beside[rank] for tensor in op.reads):
            return None
        if self._step(rank, op, shift):
            return True
        if op.kind != "reducer":
            return None
        self.beside[rank].append(op)
        return False

    def _step(self, rank: int, op: Op, shift: int) -> bool:
        """Runs an op; False where it has to wait."""
        if op.move is not None:
            return self._message(rank, op, [end + shift for end in op.move])
        if op.kind == BROADCAST and op.members:
            members = [member + shift for member in op.members]
            source = op.broadcast_from + shift
            if rank == source:
                sent = self._read(rank, op, op.reads[0])
                for member in members:
                    if member != rank:
                        self.channels["broadcast", *members, member].append(sent)
                self._make(rank, op, [sent] * len(op.makes))
                return True
            waiting = self.channels["broadcast", *members, rank]
            if not waiting:
                return False
            self._make(rank, op, [waiting.popleft()][: len(op.makes)])  # perhaps for nobody
            return True
        if op.kind == "dataloader":
            for tensor in op.makes:
                self.values[rank][tensor] = self._loaded(rank, op, tensor)
            return True
        if op.kind == "ChunkPrim":
            members = op.members
            if op.rank not in members or op.group is None:
                raise Stuck(f"{op.id} is no member of its group")
            own = self._read(rank, op, op.reads[0])
            self._make(rank, op, [np.split(own, len(members), op.group[2])[members.index(op.rank)]])
            return True
        if op.members and op.kind != "IdentityPrim":
            return self._collective(rank, op, 0 if op.kind == "reducer" else shift)
        x = [self._read(rank, op, tensor) for tensor in op.reads]
        read = [self.side.values[tensor].tid for tensor in op.reads]
        weights = [self.side.weight_of.get(self.side.values[tensor].tid) for tensor in op.makes]
        targets = [read.index(weight) if weight in read else None for weight in weights]
        try:
            self._make(rank, op, computed(op, x, self._shapes(op), targets))
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise Stuck(f"{op.id}: {error}") from None
        return True

    def _message(self, rank: int, op: Op, ends: list[int]) -> bool:
        if rank == ends[0] == ends[1] or rank not in ends:
            raise Stuck(f"{op.id} is at neither end of its message")
        if rank == ends[0]:
            self.channels["move", *ends].append(self._read(rank, op, op.reads[0]))
            return True
        if not self.channels["move", *ends]:
            return False
        self._make(rank, op, [self.channels["move", *ends].popleft()])
        return True

    def _loaded(self, rank: int, op: Op, tensor: str) -> Array:
        """The block of the batch of its copy and micro-batch, along the dim that is cut."""
        whole, part = self.fulls[self.side.full(tensor).name], self.side.part(tensor)
        cut = [d for d, (n, m) in enumerate(zip(whole.shape, part.shape, strict=True)) if n != m]
        if not cut:
            return whole
        block = self.at[rank][0] * self.side.world["num_mb"] + op.mb
        n = part.shape[cut[0]]
        return np.asarray(whole.take(range(block * n, (block + 1) * n), cut[0]))

    def _collective(self, rank: int, op: Op, shift: int) -> bool:
        members = self._members(rank, op) if op.kind == "reducer" else [member + shift for member in op.members]
        if rank not in members or len(set(members)) < len(members):
            raise Stuck(f"{op.id} is no member of its group")
        call = rank, op.id
        if call not in self.waits:
            group = (op.kind == "reducer", *sorted(members))
            self.waits[call] = (*group, self.counts[rank, group])
            self.counts[rank, group] += 1
            self.calls[self.waits[call]][rank] = (op, self._read(rank, op, op.reads[0]))
        arrived = self.calls[self.waits[call]]
        if len(arrived) < len(set(members)):
            return False
        if len({arrived[member][0].kind for member in members}) > 1:
            raise Stuck(f"{op.id}: members call different kinds")
        if len({tuple(map(self.side.named, arrived[member][0].weights)) for member in members}) > 1:
            raise Stuck(f"{op.id}: members reduce different weights")
        parts = [arrived[member][1] for member in members]
        if len({part.shape for part in parts}) > 1:
            raise Stuck(f"{op.id}: members bring different shapes")
        del self.waits[call]
        try:
            result = _together(op, parts, members.index(rank))
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise Stuck(f"{op.id}: {error}") from None
        self._make(rank, op, [result])
        return True

    def _members(self, rank: int, op: Op) -> list[int]:
        """The group of a reducer. Of one that is written for another copy of the rank: that group if the rank is in it,
        the ranks at the same places if it stays within the copy, else what is written of the weight with the rank."""
        if rank in op.members or rank == op.rank:
            return op.members
        if len({self.at[member][0] for member in [op.rank, *op.members]}) == 1:
            return [member + rank - op.rank for member in op.members]
        alike = (other for other in self.side.ops.values() if (other.cid, other.name) == (op.cid, op.name))
        return next((other.members for other in alike if rank in other.members), op.members)

    def _shapes(self, op: Op) -> list[Shape]:
        return [self.side.part(tensor).shape for tensor in op.makes]

    def _make(self, rank: int, op: Op, results: list[Array]) -> None:
        for tensor, value in zip(op.makes, results, strict=True):
            shape = self.side.part(tensor).shape
            if op.kind == "sum" and not op.backward:
                if prod(shape) != 1:
                    raise Unknown("a sum over some dims")
                value = value.reshape(shape)
            if value.shape != shape:
                raise Stuck(f"{op.id} makes {list(value.shape)}, declared is {list(shape)}")
            self.values[rank][tensor] = value


def _together(op: Op, parts: list[Array], own: int) -> Array:
    """What a member of a collective gets."""
    dim = op.group[2] if op.group else 0
    if op.kind in ("AllReducePrim", "reducer"):
        return np.asarray(np.sum(parts, axis=0))
    if op.kind == "AllGatherPrim":
        return np.concatenate(parts, axis=dim)
    if op.kind == "ReduceScatterPrim":
        return np.split(np.sum(parts, axis=0), len(parts), dim)[own]
    if op.kind == "AllToAllPrim":
        split, joined = (int(op.attributes[key]) for key in ("odim", "idim"))
        return np.concatenate([np.split(part, len(parts), split)[own] for part in parts], joined)
    raise Stuck(f"no meaning of {op.kind}")
