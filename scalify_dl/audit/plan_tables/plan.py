"""A step on its ranks: one program a rank, micro-batches in the order of 1F1B, messages, sums and reducers.

In unit form only the first copies are written (as many as an expert-parallel group has), and only the first micro-batch
where `one_micro_batch` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .optimiser import Optimiser
from .rows import Rows
from .step import Item, Step, Value

Model = Callable[[Step, int], None]
"""Builds a step on so many stages."""


@dataclass(frozen=True)
class Shape:
    """How many copies, tp ranks, stages and micro-batches; sequences of a micro-batch; copies of an expert-parallel
    group."""

    dp: int = 1
    tp: int = 1
    pp: int = 1
    nm: int = 1
    batch: int = 1
    ep: int = 1
    unit: bool = True
    one_micro_batch: bool = False
    optimiser: str = ""
    """Whether weights are stepped: `whole`, or `shards` of them (ZeRO-1)."""

    @property
    def copies(self) -> int:
        """Copies that are written."""
        return self.ep if self.unit else self.dp


def write_plan(directory: Path, model: Model, shape: Shape) -> Path:
    """Writes the single-device step and the plan."""
    base = Step(shape.dp * shape.nm * shape.batch)
    model(base, 1)
    _Ranks(Rows("s"), base, Shape(batch=base.batch, optimiser=shape.optimiser and "whole")).write(
        directory
    )
    plan = Step(shape.batch, shape.tp, shape.ep)
    model(plan, shape.pp)
    _Ranks(Rows("p"), plan, shape).write(directory)
    return directory


@dataclass
class _Ranks:
    rows: Rows
    step: Step
    shape: Shape
    tids: dict[tuple[Value, int], int] = field(default_factory=dict)
    pieces: dict[Value, Value] = field(default_factory=dict)
    home: int = 0
    d: int = 0
    s: int = 0
    t: int = 0
    mb: int = 0
    seq: int = 0
    updated: dict[object, int] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        rows, shape = self.rows, self.shape
        side, devices = rows.side, shape.copies * shape.pp * shape.tp
        for key, value in {
            "plan_ndevs": devices if shape.copies < shape.dp else shape.pp * shape.tp * shape.dp,
            "runtime_ndevs": shape.dp * shape.pp * shape.tp, "num_dp": shape.dp, "num_tp": shape.tp,
            "num_pp": shape.pp, "num_mb": shape.nm, "gbs": shape.dp * shape.nm * shape.batch,
        }.items():  # fmt: skip
            rows.add("world", side, key, value)
        if shape.one_micro_batch and shape.nm > 1:
            rows.add("world", side, "written_mb", 1)
        for d in range(shape.copies):
            for s in range(shape.pp):
                for t in range(shape.tp):
                    self._rank(d, s, t)
        seen = set()
        for gradient, weight in self.step.gradients:
            for n in range(self._ways(weight)):
                pair = self._tid(gradient, n), self._tid(weight, n)
                if pair not in seen:
                    seen.add(pair)
                    rows.add("grad_of", side, *pair)
        rows.write(directory)

    # ---- one rank

    def _rank(self, d: int, s: int, t: int) -> None:
        shape = self.shape
        self.d, self.s, self.t, self.seq = d, s, t, 0
        self.home = self._number(d, s, t)
        self.rows.add("mesh", self.rows.side, self.home, d, s, t)
        forward = [item for item in self.step.forward if self._here(item)]
        backward = [item for item in self.step.backward if self._here(item)]
        written = 1 if shape.one_micro_batch else shape.nm
        waiting = min(shape.pp - s - 1, written)
        order = [(forward, m) for m in range(waiting)]
        for m in range(waiting, written):
            order += [(forward, m), (backward, m - waiting)]
        order += [(backward, m) for m in range(written - waiting, written)]
        for items, m in order:
            self.mb = m
            for item in items:
                self._item(item, m)
        loss = self.step.loss
        if shape.pp > 1 and loss is not None:
            for m in range(written):
                self.mb = m
                self._broadcast(loss)
        if self.rows.side == "p" or shape.optimiser:
            self._reducers()

    def _here(self, item: Item) -> bool:
        if item.kind == "cross":
            return self.s in (item.reads[0].stage, item.makes[0].stage)
        return item.stage == self.s

    def _number(self, d: int, s: int, t: int) -> int:
        return (d * self.shape.pp + s) * self.shape.tp + t

    # ---- tensors

    def _ways(self, value: Value) -> int:
        if value.cut is None and not value.partial:
            return 1
        return self.shape.ep if value.expert else self.shape.tp

    def _tid(self, value: Value, n: int) -> int:
        value = value.tensor
        if (value, n) not in self.tids:
            rows, side = self.rows, self.rows.side
            tid = self.tids[value, n] = rows.number()
            ways = self._ways(value)
            full = rows.full(
                (value.name if value.weight else value.root), value.name, value.dtype, value.shape,
                gradient=value.gradient_of is not None, weight=value.weight, loss=value.loss,
            )  # fmt: skip
            for dim, size in enumerate(value.shape):
                lo, hi = (n * size // ways, (n + 1) * size // ways) if dim == value.cut else (0, size)
                rows.add("sub_slice", side, tid, full, dim, lo, hi)
            rows.add("sub_val", side, tid, *((n, ways) if value.partial else (0, 1)))
        return self.tids[value, n]

    def _place(self, value: Value) -> int:
        if self._ways(value) == 1:
            return 0
        return self.d % self.shape.ep if value.expert else self.t

    def _tensor(self, value: Value, rank: int | None = None, version: int | None = None) -> str:
        """A tensor on a rank, of the micro-batch at hand; gradients of weights have a version for each."""
        value = value.tensor
        tid = self._tid(value, self._place(value))
        if value.weight:
            return self.rows.tensor(self.home, -1, tid, 0, True)
        if value.gradient_of is not None and value.gradient_of.weight:
            return self.rows.tensor(self.home, -1, tid, max(1, 2 * self.mb) if version is None else version)
        given = value.loss and value.gradient_of is not None
        if version is None:
            version = 0 if given else 1
        return self.rows.tensor(self.home if rank is None else rank, self.mb, tid, version, given)

    # ---- ops

    def _op(self, item: Item, name: str, kind: str, reads: list[str], makes: list[str]) -> str:
        self.seq += 1
        return self.rows.op(self.home, self.mb, self.seq - 1, item.cid, name, kind, item.direction, reads, makes)

    def _item(self, item: Item, m: int) -> None:
        rows = self.rows
        if item.adapter:
            self._adapter(item)
            return
        back = item.direction == "bw"
        name = "IRDataOperation" if item.kind == "dataloader" else f"BW.{item.kind}" if back else item.kind
        makes = [self._tensor(x) for x in item.makes]
        op = self._op(item, name, item.kind, [self._tensor(x) for x in item.reads], makes)
        for key, value in item.attributes.items():
            value = value(self.t, self.shape.tp) if callable(value) else value
            rows.add("attr", op, key, type(value).__name__, value)
        for n, constant in enumerate(item.constants):
            rows.add("const", op, n, type(constant).__name__, constant)
        if m:  # a gradient of a weight is added to those of the micro-batches before
            for x in item.makes:
                if x.gradient_of is not None and x.gradient_of.weight:
                    self._add(x, m)

    def _add(self, x: Value, m: int) -> None:
        reads = [self._tensor(x, version=1 if m == 1 else 2 * m - 1), self._tensor(x)]
        self.seq += 1
        kind = "local_grad_accumulation"
        made = [self._tensor(x, version=2 * m + 1)]
        self.rows.op(self.home, 0, self.seq - 1, 2 + m, kind, kind, "-", reads, made)

    def _members(self, item: Item) -> list[int]:
        ep = self.shape.ep
        if item.experts:
            return [self._number(self.d // ep * ep + n, self.s, self.t) for n in range(ep)]
        return [self._number(self.d, self.s, n) for n in range(self.shape.tp)]

    def _adapter(self, item: Item) -> None:
        x, made = item.reads[0], item.makes[0]
        if item.kind == "enter":
            return
        if item.kind == "cross":
            self._cross(item)
            return
        forward = item.cid < 7000
        kind = {"reduce": "AllReducePrim", "chunk": "ChunkPrim", "gather": "AllGatherPrim",
                "scatter": "ReduceScatterPrim", "exchange": "AllToAllPrim"}[item.kind]  # fmt: skip
        name = kind
        if kind == "AllReducePrim":
            name = "AllReduceIdentityPrim" if forward else "IdentityAllreducePrim"
        self._collective(item, name, kind, x, made, item.dim, forward)

    def _collective(self, item: Item, name: str, kind: str, x: Value, made: Value, dim: int, forward: bool) -> None:
        rows, members = self.rows, self._members(item)
        op = self._op(item, name, kind, [self._tensor(x)], [self._tensor(made)])
        if kind == "AllToAllPrim":  # split along `odim`, joined along `idim`
            rows.add("attr", op, "idim", "int", item.to_dim)
            rows.add("attr", op, "odim", "int", dim)
        elif dim >= 0:
            rows.add("attr", op, "dim", "int", dim)
        rows.add("attr", op, "ranks", "list", members)
        if kind == "ChunkPrim":
            rows.add("attr", op, "__collective_idx", "int", members.index(self.home))
        rows.add("coll", op, f"{rows.side}.g{item.cid}.{kind}.d{self.d}.t{self.t}.m{self.mb}", kind, dim)
        for n, rank in enumerate(members):
            rows.add("coll_member", op, n, rank)
        rows.add("adapter", op, item.cid, name, int(forward), int(kind == "AllReducePrim"))

    def _cross(self, item: Item) -> None:
        """A value to a neighbouring stage: every tp rank sends its block, and gathers what arrives."""
        x, made = item.reads[0], item.makes[0]
        source, target = (self._number(self.d, value.stage, self.t) for value in (x, made))
        tp = self.shape.tp
        dims = [n for n, size in enumerate(x.shape) if size % tp == 0 and size >= tp]
        cut = dims[-1] if dims and tp > 1 else None
        forward = item.cid < 7000
        piece = x.tensor if self.s == x.stage else made.tensor
        if cut is not None:
            for value in (x, made):
                if value not in self.pieces:
                    part = Value(value.name, value.shape, value.dtype, cut, gradient_of=value.gradient_of, model=x)
                    self.pieces[value] = self.pieces.setdefault(x, part)
            piece = self.pieces[x]
        transit = self._tensor(piece if cut is not None else x, -1 - source, 0)
        if self.s == x.stage:
            if cut is not None:
                self._collective(item, "ChunkPrim", "ChunkPrim", x, piece, cut, forward)
            self._move(item, [self._tensor(piece)], [transit], source, target, forward, piece)
            return
        self._move(item, [transit], [self._tensor(piece)], source, target, forward, piece)
        if cut is not None:
            self._collective(item, "AllGatherPrim", "AllGatherPrim", piece, made, cut, forward)

    def _move(
        self, item: Item, reads: list[str], makes: list[str], source: int, target: int, forward: bool, piece: Value
    ) -> None:
        rows = self.rows
        op = self._op(item, "MovePrim", "MovePrim", reads, makes)
        shape = [size // self._ways(piece) if n == piece.cut else size for n, size in enumerate(piece.shape)]
        rows.add("attr", op, "shape", "tuple", f"({', '.join(map(str, shape))},)")
        rows.add("attr", op, "dtype", "str", f"torch.{piece.dtype}")
        rows.add("attr", op, "src", "int", source)
        rows.add("attr", op, "dst", "int", target)
        rows.add("p2p", op, source, target)
        rows.add("adapter", op, item.cid, "MovePrim", int(forward), 0)

    def _broadcast(self, loss: Value) -> None:
        """The loss, from the last stage to the others."""
        shape, last = self.shape, self.shape.pp - 1
        source = self._number(self.d, last, self.t)
        item = Item("broadcast", [loss], [loss], last, 4999, "-")
        if shape.pp == 2:
            own, transit = self._tensor(loss), self._tensor(loss, -1 - source, 0)
            ends = ([own], [transit]) if self.s == last else ([transit], [own])
            self._move(item, *ends, source, self._number(self.d, 0, self.t), True, loss)
            return
        members = [source, *(self._number(self.d, s, self.t) for s in range(last))]
        own = self._tensor(loss)
        op = self._op(
            item, "BroadcastPrim", "BroadcastPrim", [own] if self.s == last else [], [] if self.s == last else [own]
        )
        self.rows.add("attr", op, "src", "int", source)
        self.rows.add("attr", op, "ranks", "list", members)
        self.rows.add("adapter", op, item.cid, "BroadcastPrim", 1, 0)

    def _reducers(self) -> None:
        """Gradients added up over all ranks that have the weight, or the same block of it."""
        rows, shape, side = self.rows, self.shape, self.rows.side
        written = 1 if shape.one_micro_batch else shape.nm
        optimiser = Optimiser(rows, self.home, 1_000_000, self.updated)
        self.mb = 0
        place = {name: n for n, name in enumerate(self.step.weights)}  # one order on all stages: they wait for others
        for gradient, weight in sorted(self.step.gradients, key=lambda pair: place[pair[1].name]):
            if gradient.stage != self.s:
                continue
            same = [(g, w) for g, w in self.step.gradients if w.name == weight.name]
            stages = sorted({g.stage for g, _ in same})
            copies = [d for d in range(shape.dp) if not weight.expert or d % shape.ep == self.d % shape.ep]
            members = [self._number(d, s, self.t) for d in copies for s in stages]
            last = 1 if written == 1 else 2 * written - 1
            tid = self._tid(weight, self._place(weight))
            summed, reduced = (self._tensor(gradient, version=n) for n in (last, last + 1))
            lo, hi = self._spans(weight)[0]
            if shape.optimiser == "shards" and len(stages) == 1 < len(members) and (hi - lo) % len(members) == 0:
                optimiser.shard(summed, *self._whole(gradient, weight), members)
                continue
            if side == "s":
                optimiser.whole(self._tensor(weight), summed, *self._whole(gradient, weight))
                continue
            item = Item("reducer", [], [], self.s, 9000 + self.s)
            item.direction = "-"
            op = self._op(
                item, f"IRWeightReducer-w{tid}", "reducer", [summed], [reduced]
            )
            rows.add("wred", op, item.cid, tid)
            rows.add("coll", op, f"{side}.g{item.cid}.w{tid}", "WRed", -1)
            for n, rank in enumerate(members):
                rows.add("coll_member", op, n, rank)
            if shape.optimiser:
                optimiser.whole(self._tensor(weight), reduced, *self._whole(gradient, weight))

    def _spans(self, value: Value) -> list[tuple[int, int]]:
        """The part of a value that the rank has."""
        n, ways = self._place(value), self._ways(value)
        return [
            (n * size // ways, (n + 1) * size // ways) if dim == value.cut else (0, size)
            for dim, size in enumerate(value.shape)
        ]

    def _whole(self, gradient: Value, weight: Value) -> tuple[tuple[int, int], list[tuple[int, int]], int]:
        """Numbers of a weight and its gradient as tensors of the model, the rank's part, and the number of that."""
        fulls = [
            self.rows.full(
                value.name if value.weight else value.root, value.name, value.dtype, value.shape,
                gradient=not value.weight, weight=value.weight, loss=False,
            )
            for value in (weight, gradient.tensor)
        ]  # fmt: skip
        return (fulls[0], fulls[1]), self._spans(weight), self._tid(weight, self._place(weight))
