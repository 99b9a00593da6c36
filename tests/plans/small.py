"""A small training step of our own as plan tables: two linear layers over two stages, tp 2, written row by row."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

Spans = list[tuple[int, int]]
COLUMNS = [
    "world",
    "mesh",
    "op",
    "in",
    "out",
    "tensor",
    "sub_slice",
    "sub_val",
    "full",
    "attr",
    "const",
    "coll",
    "coll_member",
    "p2p",
    "adapter",
    "grad_of",
    "wred",
]


class Writer:
    """Rows of one side."""

    def __init__(self, side: str, world: dict[str, int]) -> None:
        self.side = side
        self.rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in COLUMNS}
        self.rows["world"] = [(side, key, value) for key, value in world.items()]
        self.seq: dict[int, int] = defaultdict(int)
        self.known: set[object] = set()

    def full(self, name: str, shape: Spans, *, gradient: bool = False, weight: bool = False, loss: bool = False) -> str:
        """A tensor of the model."""
        if ("full", name) not in self.known:
            self.known.add(("full", name))
            sizes = "x".join(str(hi - lo) for lo, hi in shape)
            self.rows["full"].append((self.side, name, name, "float32", sizes, int(gradient), int(weight), int(loss)))
        return name

    def part(self, tid: str, full: str, spans: Spans, addend: tuple[int, int] = (0, 1)) -> str:
        """A part of one."""
        if tid not in self.known:
            self.known.add(tid)
            self.rows["sub_slice"] += [(self.side, tid, full, dim, lo, hi) for dim, (lo, hi) in enumerate(spans)]
            self.rows["sub_val"].append((self.side, tid, *addend))
        return tid

    def tensor(self, rank: int, mb: int, tid: str, version: int = 1, *, given: bool = False) -> str:
        """A tensor of a rank."""
        name = f"{self.side}.r{rank}.m{mb}.{tid}.v{version}"
        if name not in self.known:
            self.known.add(name)
            self.rows["tensor"].append((name, self.side, rank, mb, tid, version, int(given)))
        return name

    def op(
        self, rank: int, mb: int, cid: int, kind: str, reads: list[str], makes: list[str], direction: str = "fw",
        *, name: str = "", attributes: dict[str, object] | None = None, members: list[int] | None = None, dim: int = -1,
        move: tuple[int, int] | None = None, weight: str = "",
    ) -> None:  # fmt: skip
        """An op."""
        number = self.seq[rank]
        self.seq[rank] += 1
        op = f"{self.side}.{rank}.{number}"
        shown = name or ("BW." if direction == "bw" else "") + kind
        self.rows["op"].append((op, self.side, rank, mb, number, cid, shown, kind, direction))
        self.rows["in"] += [(op, pos, tensor) for pos, tensor in enumerate(reads)]
        self.rows["out"] += [(op, pos, tensor) for pos, tensor in enumerate(makes)]
        self.rows["attr"] += [(op, key, type(value).__name__, value) for key, value in (attributes or {}).items()]
        if members is not None:
            self.rows["coll"].append((op, f"g{cid}", kind if kind != "reducer" else "WRed", dim))
            self.rows["coll_member"] += [(op, pos, member) for pos, member in enumerate(members)]
        if move is not None:
            self.rows["p2p"].append((op, *move))
        if weight:
            self.rows["wred"].append((op, cid, weight))

    def write(self, directory: Path) -> None:
        """Writes the tables."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, rows in self.rows.items():
            text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
            (directory / f"{self.side}_{name}.tsv").write_text(text, "utf-8")


BATCH, IN, HIDDEN, OUT = 8, 6, 16, 4
WEIGHTS = {"w1": (HIDDEN, IN), "w2": (IN, HIDDEN), "w3": (OUT, IN)}


def world(dp: int, tp: int, pp: int, mbs: int, written: int) -> dict[str, int]:
    """The rows of `world`."""
    return {
        "plan_ndevs": written, "runtime_ndevs": dp * tp * pp, "num_dp": dp, "num_tp": tp, "num_pp": pp, "num_mb": mbs,
        "gbs": BATCH, "num_layers": 1,
    }  # fmt: skip


def whole(*shape: int) -> Spans:
    """All of a tensor."""
    return [(0, n) for n in shape]


def step(
    w: Writer, rank: int, mb: int, batch: int, t: int, tp: int, stage: int | None, peer: int | None,
    losses: int = 1,
) -> None:  # fmt: skip
    """One micro-batch on one rank: both stages where `stage` is None (the single-device step), else one of them. A
    second loss is the sum of what the second stage gets."""
    b, h = batch, HIDDEN // tp
    cut = [(t * h, (t + 1) * h)]
    end = f"@{t}" if tp > 1 else ""

    def value(name: str, spans: Spans, shape: Spans, tid: str = "", addend: tuple[int, int] = (0, 1)) -> str:
        w.full(name, shape, gradient=name.startswith("d"), loss="loss" in name)
        return w.tensor(rank, mb, w.part(tid or name, name, spans, addend))

    def weight(name: str, spans: Spans) -> str:
        w.full(name, whole(*WEIGHTS[name]), weight=True)
        return w.tensor(
            rank, -1, w.part(name + (end if spans != whole(*WEIGHTS[name]) else ""), name, spans), 0, given=True
        )

    def gradient(name: str, spans: Spans) -> str:
        tid = f"d{name}" + (end if spans != whole(*WEIGHTS[name]) else "")
        w.full(f"d{name}", whole(*WEIGHTS[name]), gradient=True)
        return w.tensor(rank, -1, w.part(tid, f"d{name}", spans), 1 if mb <= 0 else 2 * mb)

    y = value("y", whole(b, IN), whole(b, IN))
    dy = value("dy", whole(b, IN), whole(b, IN))
    loss = value("loss", whole(1), whole(1))
    if stage in (None, 0):
        w.full("x", whole(b, IN))
        x = w.tensor(rank, mb, w.part("x", "x", whole(b, IN)), given=True)
        w1, w2 = weight("w1", [*cut, (0, IN)]), weight("w2", [(0, IN), *cut])
        hidden = value("h", [(0, b), *cut], whole(b, HIDDEN), "h" + end)
        active = value("a", [(0, b), *cut], whole(b, HIDDEN), "a" + end)
        w.op(rank, mb, 1, "dataloader", [], [x])
        w.op(rank, mb, 2, "linear", [x, w1], [hidden], attributes={"bias": None})
        w.op(rank, mb, 3, "silu", [hidden], [active], attributes={"inplace": False})
        if tp == 1:
            w.op(rank, mb, 4, "linear", [active, w2], [y], attributes={"bias": None})
        else:
            part = value("y", whole(b, IN), whole(b, IN), f"y{end}", (t, tp))
            w.op(rank, mb, 4, "linear", [active, w2], [part], attributes={"bias": None})
            members = [rank - t + n for n in range(tp)]
            w.op(rank, mb, 5, "AllReducePrim", [part], [y], "-", members=members, attributes={"ranks": members})
        if peer is not None:
            transit = w.tensor(-1 - rank, mb, "y", 0)
            w.op(rank, mb, 6, "MovePrim", [y], [transit], "-", move=(rank, peer))
    if stage in (None, 1):
        if peer is not None:
            w.op(rank, mb, 6, "MovePrim", [w.tensor(-1 - peer, mb, "y", 0)], [y], "-", move=(peer, rank))
        w3 = weight("w3", whole(OUT, IN))
        z, dz = (value(name, whole(b, OUT), whole(b, OUT)) for name in ("z", "dz"))
        w.full("dloss", whole(1), gradient=True, loss=True)
        one = w.tensor(rank, mb, w.part("dloss", "dloss", whole(1)), 0, given=True)
        w.op(rank, mb, 7, "linear", [y, w3], [z], attributes={"bias": None})
        w.op(rank, mb, 8, "sum", [z], [loss])
        if losses > 1:
            w.op(rank, mb, 16, "sum", [y], [value("loss2", whole(1), whole(1))])
        w.op(rank, mb, 9, "sum", [one, z], [dz], "bw")
        w.op(rank, mb, 10, "linear", [dz, y, w3], [dy, gradient("w3", whole(OUT, IN))], "bw", attributes={"bias": None})
        if peer is not None:
            w.op(rank, mb, 11, "MovePrim", [dy], [w.tensor(-1 - rank, mb, "dy", 0)], "-", move=(rank, peer))
            w.op(rank, mb, 15, "MovePrim", [loss], [w.tensor(-1 - rank, mb, "loss", 0)], "-", move=(rank, peer))
        if peer is not None and losses > 1:
            w.op(rank, mb, 17, "MovePrim", [f"p.r{rank}.m{mb}.loss2.v1"], [w.tensor(-1 - rank, mb, "loss2", 0)], "-",
                 move=(rank, peer))  # fmt: skip
    if stage in (None, 0):
        if peer is not None:
            w.op(rank, mb, 11, "MovePrim", [w.tensor(-1 - peer, mb, "dy", 0)], [dy], "-", move=(peer, rank))
            w.op(rank, mb, 15, "MovePrim", [w.tensor(-1 - peer, mb, "loss", 0)], [loss], "-", move=(peer, rank))
        if peer is not None and losses > 1:
            loss2 = value("loss2", whole(1), whole(1))
            w.op(rank, mb, 17, "MovePrim", [w.tensor(-1 - peer, mb, "loss2", 0)], [loss2], "-", move=(peer, rank))
        da = value("da", [(0, b), *cut], whole(b, HIDDEN), "da" + end)
        dh = value("dh", [(0, b), *cut], whole(b, HIDDEN), "dh" + end)
        dw1, dw2 = gradient("w1", [*cut, (0, IN)]), gradient("w2", [(0, IN), *cut])
        w.op(rank, mb, 12, "linear", [dy, active, w2], [da, dw2], "bw", attributes={"bias": None})
        w.op(rank, mb, 13, "silu", [da, hidden], [dh], "bw", attributes={"inplace": False})
        w.op(rank, mb, 14, "linear", [dh, x, w1], [dw1], "bw", attributes={"bias": None})


def finish(w: Writer, rank: int, mbs: int, copies: list[int]) -> None:
    """Sums over micro-batches and reducers of a rank."""
    gradients = sorted({str(row[4]) for row in w.rows["tensor"] if row[2] == rank and row[3] == -1 and row[5] == 1})
    for tid in gradients:
        total = w.tensor(rank, -1, tid, 1)
        for mb in range(1, mbs):
            more, total = w.tensor(rank, -1, tid, 2 * mb), (total, w.tensor(rank, -1, tid, 2 * mb + 1))
            w.op(rank, 0, 100 + mb, "local_grad_accumulation", [total[0], more], [total[1]], "-")
            total = total[1]
        weight = tid[1:]
        w.op(rank, 0, 200, "reducer", [total], [w.tensor(rank, -1, tid, 2 * mbs)], "-", members=copies, weight=weight)
        if (w.side, tid, weight) not in w.rows["grad_of"]:
            w.rows["grad_of"].append((w.side, tid, weight))


def write_small(directory: Path, *, dp: int = 2, mbs: int = 2, unit: bool = False, losses: int = 1) -> Path:
    """Writes both sides; the directory."""
    tp, pp = 2, 2
    base = Writer("s", world(1, 1, 1, 1, 1))
    base.rows["mesh"] = [("s", 0, 0, 0, 0)]
    step(base, 0, 0, BATCH, 0, 1, None, None, losses)
    for name in WEIGHTS:
        base.rows["grad_of"].append(("s", f"d{name}", name))
    base.write(directory)
    per = tp * pp
    written = per if unit else dp * per
    plan = Writer("p", world(dp, tp, pp, mbs, per))
    for d in range(1 if unit else dp):
        plan.rows["mesh"] += [("p", d * per + s * tp + t, d, s, t) for s in range(pp) for t in range(tp)]
    for rank in range(written):
        d, s, t = rank // per, rank // tp % pp, rank % tp
        peer = rank + tp if s == 0 else rank - tp
        for mb in range(mbs):
            step(plan, rank, mb, BATCH // dp // mbs, t, tp, s, peer, losses)
        finish(plan, rank, mbs, [(copy - (0 if unit else d)) * per + rank for copy in range(dp)])
    plan.write(directory)
    return directory
