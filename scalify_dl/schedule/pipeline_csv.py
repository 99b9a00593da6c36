"""Files of torch's pipeline schedules (`_dump_csv`): one line a rank, one cell a step, an empty cell a bubble.

A file may have millions of cells: plain ones are read all at once, as columns; others (overlaps, mistakes) one by one.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scalify_dl.errors import InputError

from .actions import EARLIER, KINDS, MESSAGES, WHOLE, Action, parse

Column = npt.NDArray[np.int64]
DIGITS = 6
"""Of numbers in plain cells."""


@dataclass
class Orders:
    """What every rank does, in its order: a step is a place in all columns."""

    file: str
    lines: list[int] = field(default_factory=list)
    """The line of each rank."""
    rank: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    stage: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    kind: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    """A place in `KINDS`."""
    batch: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    """-1: none."""
    cell: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    """From 1."""
    rank_of: dict[int, int] = field(default_factory=dict)
    """Rank of each stage."""
    apart: set[int] = field(default_factory=set)
    """Stages of another pipeline than the stage before: the two share no micro-batch, and no messages."""
    has_messages: bool = False
    """Whether sends and receives are written down, or left to the runtime."""
    batches: int = 1
    """Micro-batches are below this."""

    def action(self, step: int) -> Action:
        """What a step does."""
        return Action(int(self.stage[step]), KINDS[self.kind[step]], int(self.batch[step]))


def looks_like_orders(text: str) -> bool:
    """Is the first cell that is not empty an action?"""
    first = next((cell for cell in text[:4096].replace("\n", ",").split(",") if cell.strip()), "")
    try:
        return bool(parse(first))
    except InputError:
        return False


ONCE = (("F",), ("B", "I"), ("B", "W"), ("REDUCE_GRAD",))
"""What is done once, of a micro-batch or all: of either kind, as a whole backward does what both of its halves do."""


def once(orders: Orders) -> Orders:
    """The orders; InputError where a stage computes the same twice: gradients would count twice."""
    for kinds in ONCE:
        some = np.flatnonzero(np.isin(orders.kind, [KINDS.index(kind) for kind in kinds]))
        what = orders.stage[some] * orders.batches + orders.batch[some]
        order = np.argsort(what, kind="stable")
        again = np.flatnonzero(what[order][1:] == what[order][:-1])
        if len(again):
            before, n = (int(some[order[again[0] + k]]) for k in (0, 1))
            raise InputError(
                f"{orders.action(n).name} computes again what {orders.action(before).name} does in cell"
                f" {int(orders.cell[before])}", file=orders.file, line=int(orders.rank[n]) + 1,
                column=int(orders.cell[n]),
                expected="one forward and one backward of a micro-batch on each stage, one reduction of its gradients",
                hint="delete one of the two: gradients would be added up twice",
            )  # fmt: skip
    return orders


def orders_of(rows: Iterable[Iterable[str]], name: str = "rows") -> Orders:
    """The orders of lists of actions, one a rank."""
    return read_orders(Path(name), "\n".join(",".join(row) for row in rows))


def read_orders(path: Path, text: str) -> Orders:
    """A file's orders; InputError with line and cell for what is no action."""
    if '"' in text:
        rows = csv.reader(text.splitlines(), strict=True)
        try:
            text = "\n".join(",".join(cell.replace(",", ";") for cell in row) for row in rows)
        except csv.Error as error:
            raise InputError(f"not a table: {error}", file=path, line=rows.line_num) from None
    orders = Orders(str(path))
    _read(orders, text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n,") + "\n")
    return _completed(orders)


def _read(orders: Orders, text: str) -> None:
    """All cells, as columns."""
    data = np.frombuffer(text.encode(), np.uint8)
    newline = data == ord("\n")
    ends = np.flatnonzero(newline | (data == ord(",")))
    begins = np.concatenate([[0], ends[:-1] + 1])
    last = np.flatnonzero(newline[ends])  # cells at the ends of lines
    orders.lines = list(range(1, len(last) + 1))
    line = np.searchsorted(last, np.arange(len(ends)))
    cell = np.arange(len(ends)) - np.concatenate([[0], last[:-1] + 1])[line] + 1
    others = np.flatnonzero((data < ord("0")) | (data > ord("9")))  # what is no digit
    first = others[np.searchsorted(others, begins)]
    final = others[np.searchsorted(others, ends) - 1]
    lead, trail = first - begins, ends - final - 1
    kind = np.full(len(ends), -1)
    for number, name in enumerate(KINDS):
        found = np.flatnonzero(final - first == len(name) - 1)
        for k, letter in enumerate(name.encode()):
            found = found[data[first[found] + k] == letter]
        kind[found] = number
    whole = np.isin(kind, [KINDS.index(name) for name in WHOLE])
    plain = (kind >= 0) & (lead >= 1) & (lead <= DIGITS) & (trail <= DIGITS) & ((trail == 0) == whole)
    stage, batch = np.zeros(len(ends), np.int64), np.where(whole, -1, 0)
    for k in range(DIGITS):
        here = np.flatnonzero(plain & (k < lead))
        stage[here] = stage[here] * 10 + data[begins[here] + k] - ord("0")
        here = np.flatnonzero(plain & (k < trail))
        batch[here] = batch[here] * 10 + data[final[here] + 1 + k] - ord("0")
    columns = [column[plain] for column in (line, stage, kind, batch, cell)]
    odd: list[tuple[int, int, int, int, int]] = []
    for n in np.flatnonzero(~plain & (ends > begins)).tolist():
        try:
            actions = parse(bytes(data[begins[n] : ends[n]]).decode())
        except InputError as error:
            raise error.located(orders.file, int(line[n]) + 1, int(cell[n])) from None
        odd += [(int(line[n]), a.stage, KINDS.index(a.kind), a.micro_batch, int(cell[n])) for a in actions]
    if odd:
        columns = [np.concatenate(pair) for pair in zip(columns, np.array(odd).T, strict=True)]
        order = np.lexsort((columns[4], columns[0]))
        columns = [column[order] for column in columns]
    orders.rank, orders.stage, orders.kind, orders.batch, orders.cell = columns


def _completed(orders: Orders) -> Orders:
    """With the dialect told and stages placed; InputError for a stage on two ranks or on none."""
    if not len(orders.kind):
        raise InputError("no actions", file=orders.file, expected="one line a rank, with cells such as 0F0")
    earlier = {KINDS.index(old): KINDS.index(new) for old, new in EARLIER.items()}
    if (orders.kind == KINDS.index("BW")).any():
        orders.kind = np.array([earlier.get(k, k) for k in range(len(KINDS))])[orders.kind]
    _, at = np.unique(
        (orders.rank * (1 << 21) + orders.stage) * len(KINDS) + orders.kind, return_index=True
    )  # each kind of a stage on a rank, and where it is first
    some = [(int(orders.rank[n]), int(orders.stage[n]), KINDS[orders.kind[n]], n) for n in at.tolist()]
    for rank, stage, _, n in some:
        home = orders.rank_of.setdefault(stage, rank)
        if home != rank:
            raise _misplaced(orders, n, f"is on rank {rank}, but stage {stage} on rank {home}")
    stages = max(orders.rank_of) + 1
    if missing := [s for s in range(min(stages, len(orders.rank_of) + 1)) if s not in orders.rank_of]:
        raise InputError(
            f"no line has actions of stage {missing[0]}, but there is a stage {stages - 1}",
            file=orders.file, expected="a line for every rank", hint="was the file cut off, or are ranks missing?",
        )  # fmt: skip
    for _, stage, kind, n in some:
        peer = peer_stage(stage, kind)
        if peer is not None and peer not in orders.rank_of:
            raise _misplaced(orders, n, f"talks to stage {peer}, of which no line has actions")
    orders.has_messages = any(kind in MESSAGES for _, _, kind, _ in some)
    orders.batches = 1 + max(int(orders.batch.max()), 0)
    if stages * orders.batches >= 2**27:
        raise InputError("stages times micro-batches are too many", file=orders.file, expected="below 2^27")
    orders.apart = _apart(orders, stages)
    return orders


def _apart(orders: Orders, stages: int) -> set[int]:
    """Stages that have no micro-batch in common with the stage before, and no messages."""
    mine = orders.batch >= 0
    least, most = np.full(stages, orders.batches), np.full(stages, -1)
    np.minimum.at(least, orders.stage[mine], orders.batch[mine])
    np.maximum.at(most, orders.stage[mine], orders.batch[mine])
    known = (most[1:] >= 0) & (most[:-1] >= 0)
    linked = np.zeros(stages + 1, bool)
    for kind, there in (("RECV_F", 0), ("SEND_B", 0), ("SEND_F", 1), ("RECV_B", 1)):
        linked[orders.stage[orders.kind == KINDS.index(kind)] + there] = True
    none_common = known & ((least[1:] > most[:-1]) | (most[1:] < least[:-1]))
    return set((np.flatnonzero(none_common & ~linked[1:-1]) + 1).tolist())


def _misplaced(orders: Orders, step: int, what: str) -> InputError:
    return InputError(
        f"{orders.action(step).name} {what}", file=orders.file, line=int(orders.rank[step]) + 1,
        column=int(orders.cell[step]), expected="all actions of a stage on one line, and a line for every rank",
        hint="was the file cut off, or are ranks missing?",
    )  # fmt: skip


def peer_stage(stage: int, kind: str) -> int | None:
    """The stage at the other end of a message: forwards come from the stage before, gradients from the one after."""
    if kind not in MESSAGES:
        return None
    return stage + (1 if kind in ("SEND_F", "RECV_B") else -1)
