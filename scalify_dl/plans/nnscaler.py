"""nnScaler's own plan objects → tables (docs/plans.md). nnScaler is not imported: cells and tensors are known by their
attributes, as its documentation names them.

    sequences = {device: plan.seq(device) for device in plan.devices()}
    export_plan("tables", graph.nodes(), sequences, {0: (0, 0, 0), 1: (0, 0, 1)}, micro_batches=4)

`sequences` are what every rank runs, `baseline` the cells of the step before it is cut, forward and backward.
Micro-batches are numbered in the order of their forwards on a rank; backwards are those of their mirrors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError

from .tables import TABLES

Cell = Any
Place = tuple[int, int, int]
TOGETHER = {
    "AllReduceIdentityPrim": ("AllReducePrim", "IdentityPrim"),
    "IdentityAllreducePrim": ("IdentityPrim", "AllReducePrim"),
    "AllReduceAllReducePrim": ("AllReducePrim", "AllReducePrim"),
    "ReduceScatterAllGatherPrim": ("ReduceScatterPrim", "AllGatherPrim"),
    "AllGatherReduceScatterPrim": ("AllGatherPrim", "ReduceScatterPrim"),
    "SplitAllGatherPrim": ("ChunkPrim", "AllGatherPrim"),
    "AllGatherSplitPrim": ("AllGatherPrim", "ChunkPrim"),
}
"""Adapters with a backward of their own: the kind forwards, and backwards."""
LOCALLY = {"MergeDimPrim": "cat", "SumPrim": "add"}
"""Adapters that are ops of a single rank."""


def export_plan(
    directory: str | Path, baseline: Iterable[Cell], sequences: Mapping[int, Sequence[Cell]],
    places: Mapping[int, Place], *, micro_batches: int, ranks: int | None = None,
) -> Path:  # fmt: skip
    """Writes the tables of a step and its plan. `places`: (dp, pp, tp) of every rank that has a sequence; `ranks` that
    run in all, where some copies alone are planned."""
    if set(places) != set(sequences):
        raise InputError("a rank has a sequence and no place, or a place and no sequence")
    folder = Path(directory)
    dp, pp, tp = (1 + max(place[n] for place in places.values()) for n in range(3))
    planned, running = len(places), ranks or len(places)
    if running % planned:
        raise InputError(f"{running} ranks are no copies of {planned}")
    one = {"plan_ndevs": 1, "runtime_ndevs": 1, "num_dp": 1, "num_tp": 1, "num_pp": 1, "num_mb": 1}
    world = {
        "plan_ndevs": planned, "runtime_ndevs": running, "num_dp": dp * (running // planned), "num_tp": tp,
        "num_pp": pp, "num_mb": micro_batches,
    }  # fmt: skip
    _Side("s", one).write(folder, {0: list(baseline)}, {0: (0, 0, 0)})
    _Side("p", world).write(folder, sequences, places)
    return folder


class _Side:
    """Rows of one side."""

    def __init__(self, side: str, world: Mapping[str, int]) -> None:
        self.side, self.world = side, world
        self.rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in TABLES}
        self.rows["world"] = [(side, key, value) for key, value in world.items()]
        self.seen: set[object] = set()
        self.versions: dict[tuple[int, int, int], int] = {}
        self.sums: dict[tuple[int, int], tuple[str, Any]] = {}
        """(rank, weight) → the sum of its gradients so far, and what it is."""
        self.rank = self.mb = self.seq = 0

    def write(self, folder: Path, sequences: Mapping[int, Sequence[Cell]], places: Mapping[int, Place]) -> None:
        for rank, cells in sorted(sequences.items()):
            self.rank, self.seq = rank, 0
            self.rows["mesh"].append((self.side, rank, *places[rank]))
            for self.mb, cell in in_micro_batches(cells):
                self.cell(cell)
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in self.rows.items():
            text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
            (folder / f"{self.side}_{name}.tsv").write_text(text, "utf-8")

    # ---- cells

    def cell(self, cell: Cell) -> None:
        """One cell on the rank at hand."""
        if type(cell).__name__ == "IRWeightReducer":
            self.reducer(cell)
        elif hasattr(cell, "prims"):
            for prim in cell.prims:
                self.adapter(cell, prim)
        elif type(cell).__name__ == "IRDataOperation":
            self.op(cell.cid, "IRDataOperation", "dataloader", "fw", [], tensors(cell.outputs()))
        elif cell.isfw():
            self.operator(cell, cell, "fw", tensors(cell.inputs()), tensors(cell.outputs()))
        else:
            forward = cell.mirror
            if forward is None:
                raise InputError(f"cell {cell.cid} runs backwards and has no forward cell (`mirror`)")
            reads = [x for x in tensors(cell.inputs()) if _is_gradient(x)] + tensors(forward.inputs())
            self.operator(cell, forward, "bw", reads, tensors(cell.outputs()))

    def operator(self, cell: Cell, forward: Cell, direction: str, reads: Sequence[Any], makes: Sequence[Any]) -> None:
        kind = str(forward.signature).rsplit(".", 1)[-1]
        name = f"BW.{kind}" if direction == "bw" else kind
        op = self.op(cell.cid, name, kind, direction, [self.read(x) for x in reads], makes)
        for key, value in forward.kwargs.items():
            self.rows["attr"].append((op, key, type(value).__name__, value))
        constants = [x for x in forward.inputs() if not is_tensor(x) and x is not None]
        self.rows["const"] += [(op, n, type(x).__name__, x) for n, x in enumerate(constants)]
        if direction == "bw":
            weights = {x.grad.tid: x for x in tensors(forward.inputs()) if x.is_param() and x.grad is not None}
            for made in makes:
                if made.tid in weights:
                    self.accumulate(made, weights[made.tid])

    def accumulate(self, made: Any, weight: Any) -> None:
        """A gradient of a weight is added to those before."""
        row = (self.side, self.tid(made), self.tid(weight))
        if row not in self.seen:
            self.seen.add(row)
            self.rows["grad_of"].append(row)
        before, now = self.sums.get((self.rank, weight.tid)), self.read(made)
        if before is not None:
            kind = "local_grad_accumulation"
            self.op(0, kind, kind, "-", [before[0], now], [made])
            now = self.read(made)
        self.sums[self.rank, weight.tid] = now, made

    def reducer(self, cell: Cell) -> None:
        copies = self.world["runtime_ndevs"] // self.world["plan_ndevs"]
        members = [rank + n * self.world["plan_ndevs"] for n in range(copies) for rank in sorted(cell.device)]
        for weight in tensors(cell.inputs()):
            if (self.rank, weight.tid) not in self.sums:
                continue  # of a weight of another rank
            summed, made = self.sums[self.rank, weight.tid]
            op = self.op(cell.cid, f"IRWeightReducer-w{weight.tid}", "reducer", "-", [summed], [made])
            self.rows["wred"].append((op, cell.cid, self.tid(weight)))
            self.group(op, "WRed", -1, members)

    def adapter(self, cell: Cell, prim: Any) -> None:
        name, forward = type(prim).__name__, bool(cell.isfw())
        kind = TOGETHER[name][not forward] if name in TOGETHER else LOCALLY.get(name, name)
        ranks = list(prim.kwargs.get("ranks", ()))
        ends = (prim.kwargs.get("src"), prim.kwargs.get("dst")) if kind == "MovePrim" else None
        if not (ranks or ends or self.rank in prim.device):
            return
        if (ranks and self.rank not in ranks) or (ends and self.rank not in ends):
            return
        mine = [[x for x in some if not x.device or self.rank in x.device] for some in (prim.inputs(), prim.outputs())]
        if ends and ends[0] == self.rank:
            reads, makes = [self.read(x) for x in mine[0]], [self.transit(x, ends[0]) for x in mine[0]]
            op = self.row(cell.cid, name, kind, "-", reads, makes)
        elif ends:
            op = self.op(cell.cid, name, kind, "-", [self.transit(x, ends[0]) for x in mine[1]], mine[1])
        else:
            op = self.op(cell.cid, name, kind, "-", [self.read(x) for x in mine[0]], mine[1])
        for key, value in prim.kwargs.items():
            self.rows["attr"].append((op, key, type(value).__name__, value))
        if ends:
            self.rows["p2p"].append((op, *ends))
        elif ranks and kind not in ("BroadcastPrim", "IdentityPrim"):
            self.group(op, kind, prim.kwargs.get("dim", -1), ranks)
        self.rows["adapter"].append((op, cell.cid, name, int(forward), int(bool(cell.differentiable))))

    def group(self, op: str, kind: str, dim: int, members: Sequence[int]) -> None:
        self.rows["coll"].append((op, f"g.{op}", kind, dim))
        self.rows["coll_member"] += [(op, n, rank) for n, rank in enumerate(members)]

    # ---- rows

    def op(self, cid: int, name: str, kind: str, direction: str, reads: list[str], makes: Sequence[Any]) -> str:
        return self.row(cid, name, kind, direction, reads, [self.make(x) for x in makes])

    def row(self, cid: int, name: str, kind: str, direction: str, reads: list[str], makes: list[str]) -> str:
        op = f"{self.side}.n{len(self.rows['op'])}"
        self.rows["op"].append((op, self.side, self.rank, max(self.mb, 0), self.seq, cid, name, kind, direction))
        self.rows["in"] += [(op, n, x) for n, x in enumerate(reads)]
        self.rows["out"] += [(op, n, x) for n, x in enumerate(makes)]
        self.seq += 1
        return op

    def _key(self, x: Any) -> tuple[int, int, int]:
        return self.rank, -1 if x.is_attr() or x.parent.is_attr() else self.mb, x.tid

    def read(self, x: Any) -> str:
        """The value that a tensor has by now."""
        given = (x.is_attr() and not _is_gradient(x)) or (_is_gradient(x) and x.parent.is_loss())
        return self.tensor(x, *self._key(x)[:2], self.versions.get(self._key(x), 0), given=given)

    def make(self, x: Any) -> str:
        """A new value of a tensor."""
        key = self._key(x)
        self.versions[key] = self.versions.get(key, 0) + 1
        return self.tensor(x, *key[:2], self.versions[key])

    def transit(self, x: Any, source: int) -> str:
        return self.tensor(x, -1 - source, self.mb, 0)

    def tensor(self, x: Any, rank: int, mb: int, version: int, *, given: bool = False) -> str:
        name = f"{self.side}.r{rank}.m{mb}.t{x.tid}.v{version}"
        if name not in self.seen:
            self.seen.add(name)
            self.rows["tensor"].append((name, self.side, rank, mb, self.tid(x), version, int(given and version == 0)))
        return name

    def tid(self, x: Any) -> int:
        """The number of a part of a tensor of the model, which is written down."""
        if ("tid", x.tid) not in self.seen:
            self.seen.add(("tid", x.tid))
            full, side = x.parent, self.side
            if ("full", full.tid) not in self.seen:
                self.seen.add(("full", full.tid))
                marks = [int(bool(mark)) for mark in (_is_gradient(full), full.is_param(), full.is_loss())]
                shape, dtype = "x".join(map(str, full.shape)), str(full.dtype).removeprefix("torch.")
                self.rows["full"].append((side, full.tid, full.name, dtype, shape, *marks))
            spans = enumerate(x.indmap)
            self.rows["sub_slice"] += [(side, x.tid, full.tid, dim, lo, hi) for dim, (lo, hi) in spans]
            self.rows["sub_val"].append((side, x.tid, *x.valmap))
        return int(x.tid)


def in_micro_batches(cells: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
    """(micro-batch, cell) of all that a rank runs; segments are opened. -1: of the whole step."""
    numbers: dict[int, int] = {}
    counts: dict[int, int] = defaultdict(int)
    for cell in cells:
        inner: Cell = getattr(cell, "cell", cell)
        if type(inner).__name__ == "IRWeightReducer":
            yield -1, inner
            continue
        if id(cell) not in numbers:
            mirror = getattr(cell, "mirror", None)
            own = numbers.get(id(mirror)) if mirror is not None else None
            if own is None:
                own = counts[inner.cid]
                counts[inner.cid] += 1
            numbers[id(cell)] = own
        for one in inner.nodes() if hasattr(inner, "nodes") else [inner]:
            yield numbers[id(cell)], one


def is_tensor(x: Any) -> bool:
    """Whether something is a part of a tensor of the model."""
    return hasattr(x, "indmap")


def tensors(values: Iterable[Any]) -> list[Any]:
    """The tensors among inputs or outputs."""
    return [x for x in values if is_tensor(x)]


def _is_gradient(x: Any) -> bool:
    return bool(x.is_grad())
