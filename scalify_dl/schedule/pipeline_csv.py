"""Files of torch's pipeline schedules (`_dump_csv`): one line a rank, one cell a step, an empty cell a bubble."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path

from scalify_dl.errors import InputError

from .actions import EARLIER, MESSAGES, Action, parse

Step = tuple[int, str, int, int]
"""Stage, kind, micro-batch (-1: none) and cell, from 1."""
_PLAIN = re.compile(r"([0-9]{1,6})(SEND_F|RECV_F|SEND_B|RECV_B|F|I|W|BW|B)([0-9]{1,6})", re.ASCII)


@dataclass
class Orders:
    """What every rank does, in its order."""

    file: str
    ranks: list[list[Step]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """The line of each rank."""
    rank_of: dict[int, int] = field(default_factory=dict)
    """Rank of each stage."""
    has_messages: bool = False
    """Whether sends and receives are written down, or left to the runtime."""
    batches: int = 1
    """Micro-batches are below this."""

    def add(self, cells: list[str], line: int) -> None:
        """The next rank; InputError with line and cell for what is no action."""
        steps: list[Step] = []
        plain = _PLAIN.fullmatch
        for cell, content in enumerate(cells, 1):
            if (match := plain(content)) is not None:
                stage, kind, batch = match.groups()
                steps.append((int(stage), kind, int(batch), cell))
            elif content:
                try:
                    steps += [(*action, cell) for action in parse(content)]
                except InputError as error:
                    raise error.located(self.file, line, cell) from None
        self.ranks.append(steps)
        self.lines.append(line)


def looks_like_orders(text: str) -> bool:
    """Is the first cell that is not empty an action?"""
    first = next((cell for cell in text[:4096].replace("\n", ",").split(",") if cell.strip()), "")
    try:
        return bool(parse(first))
    except InputError:
        return False


def read_orders(path: Path, text: str) -> Orders:
    """A file's orders; InputError with line and cell for what is no action."""
    orders = Orders(str(path))
    rows = csv.reader(text.splitlines(), strict=True)
    try:
        for row in rows:
            orders.add(row, rows.line_num)
    except csv.Error as error:
        raise InputError(f"not a table: {error}", file=path, line=rows.line_num) from None
    while orders.ranks and not orders.ranks[-1]:
        orders.ranks.pop()
    return completed(orders)


def completed(orders: Orders) -> Orders:
    """With the dialect told and stages placed; InputError for a stage on two ranks or on none."""
    met = [{(step[0], step[1]) for step in steps} for steps in orders.ranks]
    if any(kind == "BW" for some in met for _, kind in some):
        orders.ranks = [[(s, EARLIER.get(k, k), m, cell) for s, k, m, cell in steps] for steps in orders.ranks]
        met = [{(s, EARLIER.get(k, k)) for s, k in some} for some in met]
    if not any(orders.ranks):
        raise InputError("no actions", file=orders.file, expected="one line a rank, with cells such as 0F0")
    for rank, some in enumerate(met):
        for stage, kind in sorted(some):
            home = orders.rank_of.setdefault(stage, rank)
            if home != rank:
                raise _misplaced(orders, rank, stage, kind, f"is on rank {rank}, but stage {stage} on rank {home}")
    stages = max(orders.rank_of) + 1
    if missing := [s for s in range(min(stages, len(orders.rank_of) + 1)) if s not in orders.rank_of]:
        raise InputError(
            f"no line has actions of stage {missing[0]}, but there is a stage {stages - 1}",
            file=orders.file, expected="a line for every rank", hint="was the file cut off, or are ranks missing?",
        )  # fmt: skip
    for rank, some in enumerate(met):
        for stage, kind in sorted(some):
            peer = peer_stage(stage, kind)
            if peer is not None and peer not in orders.rank_of:
                raise _misplaced(orders, rank, stage, kind, f"talks to stage {peer}, of which no line has actions")
    orders.has_messages = any(kind in MESSAGES for some in met for _, kind in some)
    orders.batches = 1 + max(max((step[2] for step in steps), default=0) for steps in orders.ranks)
    if stages * max(orders.batches, 1) >= 2**27:
        raise InputError("stages times micro-batches are too many", file=orders.file, expected="below 2^27")
    return orders


def _misplaced(orders: Orders, rank: int, stage: int, kind: str, what: str) -> InputError:
    batch, cell = next((m, cell) for s, k, m, cell in orders.ranks[rank] if (s, k) == (stage, kind))
    return InputError(
        f"{Action(stage, kind, batch).name} {what}", file=orders.file, line=orders.lines[rank], column=cell,
        expected="all actions of a stage on one line, and a line for every rank",
        hint="was the file cut off, or are ranks missing?",
    )  # fmt: skip


def peer_stage(stage: int, kind: str) -> int | None:
    """The stage at the other end of a message: forwards come from the stage before, gradients from the one after."""
    if kind not in MESSAGES:
        return None
    return stage + (1 if kind in ("SEND_F", "RECV_B") else -1)
