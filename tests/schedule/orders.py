"""Orders of pipeline schedules for tests, as lists of actions by rank, and files of them."""

from __future__ import annotations

from pathlib import Path


def one_f_one_b(ranks: int, batches: int) -> list[list[str]]:
    """1F1B: rank r computes `ranks - r` forwards, then backwards and forwards in turn. Computations only."""
    orders = []
    for r in range(ranks):
        warm = min(batches, ranks - r)
        acts = [f"{r}F{i}" for i in range(warm)]
        for b in range(batches):
            acts.append(f"{r}B{b}")
            if warm + b < batches:
                acts.append(f"{r}F{warm + b}")
        orders.append([*acts, f"{r}REDUCE_GRAD"])
    return orders


def g_pipe(ranks: int, batches: int) -> list[list[str]]:
    """All forwards, then all backwards."""
    return [
        [f"{r}F{i}" for i in range(batches)] + [f"{r}B{i}" for i in range(batches)] + [f"{r}REDUCE_GRAD"]
        for r in range(ranks)
    ]


def with_messages(orders: list[list[str]]) -> list[list[str]]:
    """Sends behind what makes their contents; each receive where its send is posted, in one order of all ranks."""
    ranks, done = len(orders), set()
    out: list[list[str]] = [[] for _ in orders]
    at = [0] * ranks
    while any(at[r] < len(orders[r]) for r in range(ranks)):
        for r in range(ranks):
            if at[r] == len(orders[r]):
                continue
            act = orders[r][at[r]]
            kind, mb = act[len(str(r))], act[len(str(r)) + 1 :]
            source = {"F": r - 1, "B": r + 1}.get(kind, -1)
            if 0 <= source < ranks and (source, kind, mb) not in done:
                continue
            at[r] += 1
            out[r].append(act)
            done.add((r, kind, mb))
            target = {"F": r + 1, "B": r - 1}.get(kind, -1)
            if 0 <= target < ranks:
                out[r].append(f"{r}SEND_{kind}{mb}")
                out[target].append(f"{target}RECV_{kind}{mb}")
    return out


def written(path: Path, orders: list[list[str]]) -> Path:
    """A file as torch writes it."""
    path.write_text("".join(",".join(row) + "\r\n" for row in orders))
    return path


def moved(row: list[str], act: str, before: str) -> None:
    """Moves one action of a rank before another one."""
    row.remove(act)
    row.insert(row.index(before), act)
