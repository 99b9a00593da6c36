"""`python -m scalify_dl.audit.schedules.orders KIND RANKS BATCHES`: orders of known schedules, as torch's CSV.

1F1B, GPipe, ZB-H1 and DualPipe, rebuilt from their descriptions: which computation a rank takes next. Messages are
posted one by one behind what makes them, in one order of all ranks; what the authors' code batches is not batched here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

from .sources import Rows, with_messages


def g_pipe(ranks: int, batches: int) -> Rows:
    """All forwards, then all backwards."""
    return [[f"{r}{kind}{m}" for kind in "FB" for m in range(batches)] for r in range(ranks)]


def one_f_one_b(ranks: int, batches: int) -> Rows:
    """Forwards until the first gradient can come back, then a backward and a forward in turn."""
    return [_in_turn(r, min(batches, ranks - r), [[f"{r}B{m}"] for m in range(batches)]) for r in range(ranks)]


def zb_h1(ranks: int, batches: int) -> Rows:
    """1F1B with halves of the backward: rank r does the weights' half r micro-batches later, so that all ranks hold as
    many activations as the first, and the halves that are left fill the end."""
    rows = []
    for r in range(ranks):
        halves = [[f"{r}I{m}"] + ([f"{r}W{m - r}"] if m >= r else []) for m in range(batches)]
        rest = [f"{r}W{m}" for m in range(max(0, batches - r), batches)]
        rows.append(_in_turn(r, min(batches, ranks - r), halves) + rest)
    return rows


def _in_turn(r: int, warm: int, backwards: list[list[str]]) -> list[str]:
    row = [f"{r}F{m}" for m in range(warm)]
    for m, backward in enumerate(backwards):
        row += backward + ([f"{r}F{m + warm}"] if m + warm < len(backwards) else [])
    return row


def dual_pipe(ranks: int, batches: int) -> Rows:
    """Two pipelines, from either end, half of the micro-batches each: rank r has stage r of the one that starts at rank
    0, and of the other, whose stages are numbered from `ranks`, the one that is as far from its start as r is from the
    last rank. Which chunk is next is told in eight steps (fill, fill both, drain with halves, steady state, …)."""
    half, last = ranks // 2, ranks - 1
    if ranks % 2 or batches % 2 or batches < 2 * ranks:
        raise ValueError("DualPipe needs an even number of ranks, and at least two micro-batches for each")
    rows: Rows = []
    for r in range(ranks):
        stage = (r, ranks + last - r) if r < half else (ranks + last - r, r)
        first = 0 if r < half else batches // 2
        rows.append(list(_dual(stage, (first, batches // 2 - first), min(r, last - r), half, batches // 2)))
    return rows


def _dual(stage: tuple[int, int], begins: tuple[int, int], inner: int, half: int, count: int) -> Iterator[str]:
    """A rank's computations. Direction 0 is the one whose start is nearer; `inner` is how far that is."""
    forwards, backwards, waiting = list(begins), list(begins), list[str]()

    def forward(way: int) -> str:
        forwards[way] += 1
        return f"{stage[way]}F{forwards[way] - 1}"

    def backward(way: int, halves: bool = False) -> str:
        backwards[way] += 1
        if halves:
            waiting.append(f"{stage[way]}W{backwards[way] - 1}")
        return f"{stage[way]}{'I' if halves else 'B'}{backwards[way] - 1}"

    def both(f: int, b: int) -> str:
        return f"({forward(f)};{backward(b)})OVERLAP_F_B"

    outer = half - inner - 1
    for _ in range(2 * outer):
        yield forward(0)
    for _ in range(inner + 1):
        yield from (forward(0), forward(1))
    for _ in range(outer):
        yield backward(1, True)
        yield waiting.pop(0)
        yield forward(1)
    for n in range(count - 2 * half + inner + 1):
        if n == 0 and outer == 0:
            yield from (forward(0), backward(1))
        else:
            yield both(0, 1)
        yield both(1, 0)
    for _ in range(outer):
        yield backward(1)
        yield both(1, 0)
    halves = False
    for n in range(inner + 1):
        halves = halves or (n == (inner + 1) // 2 and inner % 2 == 1)
        yield backward(1, halves)
        halves = halves or (n == (inner + 1) // 2 and inner % 2 == 0)
        yield backward(0, halves)
    for _ in range(outer):
        yield waiting.pop(0)
        yield backward(0, True)
    yield from waiting


ORDERS: dict[str, Callable[[int, int], Rows]] = {
    "gpipe": g_pipe, "1f1b": one_f_one_b, "zb-h1": zb_h1, "dualpipe": dual_pipe,
}  # fmt: skip


def main() -> int:
    """Prints the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=ORDERS)
    parser.add_argument("ranks", type=int)
    parser.add_argument("batches", type=int)
    given = parser.parse_args()
    for row in with_messages(ORDERS[given.kind](given.ranks, given.batches)):
        print(",".join(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
