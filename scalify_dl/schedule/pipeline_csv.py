"""Files of torch's pipeline schedules (`_dump_csv`): one line a rank, one cell a step, an empty cell a bubble."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path

from scalify_dl.errors import InputError

from .actions import EARLIER, MESSAGES, Action, parse

Step = tuple[Action, int]
"""An action and its cell, from 1."""


@dataclass
class Orders:
    """What every rank does, in its order."""

    file: str
    ranks: list[list[Step]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """The line of each rank."""
    rank_of: dict[int, int] = field(default_factory=dict)
    """Rank of each stage."""

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.rank_of)

    @property
    def has_messages(self) -> bool:
        """Whether sends and receives are written down, or left to the runtime."""
        return any(action.kind in MESSAGES for steps in self.ranks for action, _ in steps)


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
    known: dict[str, list[Action]] = {}
    previous = csv.field_size_limit(1 << 20)
    try:
        rows = csv.reader(text.splitlines(), strict=True)
        for row in rows:
            steps: list[Step] = []
            for cell, content in enumerate(row, 1):
                actions = known.get(content)
                if actions is None:
                    try:
                        actions = known[content] = parse(content)
                    except InputError as error:
                        raise error.located(path, rows.line_num, cell) from None
                steps += [(action, cell) for action in actions]
            orders.ranks.append(steps)
            orders.lines.append(rows.line_num)
    except csv.Error as error:
        raise InputError(f"not a table: {error}", file=path, line=rows.line_num) from None
    finally:
        csv.field_size_limit(previous)
    while orders.ranks and not orders.ranks[-1]:
        orders.ranks.pop()
    return completed(orders)


def completed(orders: Orders) -> Orders:
    """With the dialect told and stages placed; InputError for a stage on two ranks or on none."""
    if any(action.kind == "BW" for steps in orders.ranks for action, _ in steps):
        orders.ranks = [
            [(a._replace(kind=EARLIER.get(a.kind, a.kind)), cell) for a, cell in steps] for steps in orders.ranks
        ]
    if not any(orders.ranks):
        raise InputError("no actions", file=orders.file, expected="one line a rank, with cells such as 0F0")
    for rank, steps in enumerate(orders.ranks):
        for action, cell in steps:
            home = orders.rank_of.setdefault(action.stage, rank)
            if home != rank:
                raise InputError(
                    f"stage {action.stage} is on rank {home}, and {action.name} on rank {rank}",
                    file=orders.file, line=orders.lines[rank], column=cell,
                    expected="all actions of a stage on one rank",
                )  # fmt: skip
    stages = max(orders.rank_of) + 1
    if missing := [s for s in range(min(stages, len(orders.rank_of) + 1)) if s not in orders.rank_of]:
        raise InputError(
            f"no line has actions of stage {missing[0]}, but there is a stage {stages - 1}",
            file=orders.file, expected="a line for every rank", hint="was the file cut off, or are ranks missing?",
        )  # fmt: skip
    for rank, steps in enumerate(orders.ranks):
        for action, cell in steps:
            peer = peer_stage(action)
            if peer is not None and peer not in orders.rank_of:
                raise InputError(
                    f"{action.name} talks to stage {peer}, of which no line has actions",
                    file=orders.file, line=orders.lines[rank], column=cell, expected="a line for every rank",
                    hint="was the file cut off, or are ranks missing?",
                )  # fmt: skip
    return orders


def peer_stage(action: Action) -> int | None:
    """The stage at the other end of a message: forwards come from the stage before, gradients from the one after."""
    if action.kind not in MESSAGES:
        return None
    return action.stage + (1 if action.kind in ("SEND_F", "RECV_B") else -1)
