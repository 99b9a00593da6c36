"""`python -m scalify_dl.audit.schedules.gloo --count 200`: broken programs on real processes that talk by Gloo.

Each rank is a process, which tells after every call how far it has come. Where none has moved for a while the program
hangs, and its processes are killed. How far every rank comes has to be what the rules say; a program that seems to hang
and should not is run again with more patience. Needs torch.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from scalify_dl.schedule.run import decide

from .scripts import Script, as_schedule, broken, right

PATIENCE, MORE, MOST = 1.5, 12.0, 60.0
"""Seconds without a call that ends after which a program hangs; the second time; and for a program altogether."""
READY = b"r"


def expected(script: Script) -> list[int]:
    """How many calls of each rank end, by the rules."""
    schedule, events = as_schedule(script)
    stuck = {e for (e,) in decide(schedule, 0).rows["stuck"]}
    return [next((n for n, e in enumerate(mine) if e in stuck), len(mine)) for mine in events]


def observed(script: Script, patience: float) -> list[int]:
    """How many calls of each rank end, by running them."""
    with tempfile.TemporaryDirectory() as place:
        pipes, children = [], []
        try:
            for rank in range(len(script.ranks)):
                end, start = os.pipe()
                child = os.fork()
                if child == 0:
                    _rank(script, rank, Path(place), start)
                os.close(start)
                pipes.append(end)
                children.append(child)
            return _watched(script, pipes, patience)
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
            for child in children:
                os.waitpid(child, 0)
            for end in pipes:
                os.close(end)


def _watched(script: Script, pipes: list[int], patience: float) -> list[int]:
    """Counts what ranks tell, until all have ended or none moves any more. Silence counts once all are ready."""
    done, begun, end = [-1] * len(pipes), time.monotonic(), 0.0
    while any(n < len(calls) for n, calls in zip(done, script.ranks, strict=True)):
        if min(done) < 0:
            end = time.monotonic() + max(patience, MORE)
        told, _, _ = select.select(pipes, [], [], max(0.0, end - time.monotonic()))
        if not told or time.monotonic() > begun + MOST:
            break
        for pipe in told:
            said = os.read(pipe, 4096)
            if not said:
                raise RuntimeError("a rank died")
            done[pipes.index(pipe)] += len(said)
        end = time.monotonic() + patience
    if min(done) < 0:
        raise RuntimeError("not all ranks came up")
    return done


def _rank(script: Script, rank: int, place: Path, pipe: int) -> None:
    """One process: it never returns."""
    try:
        signal.alarm(int(MOST) + 10)  # whatever happens to the parent
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        import torch
        from torch import distributed

        torch.set_num_threads(1)
        count = len(script.ranks)
        store = distributed.FileStore(str(place / "store"), count)
        wait = timedelta(seconds=MOST)
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=wait)
        groups = [distributed.new_group(list(members), timeout=wait) for members in script.groups]
        distributed.barrier()
        os.write(pipe, READY)
        handles: dict[int, Any] = {}
        for call in script.ranks[rank]:
            if call.name == "wait":
                handles[call.handle].wait()
            elif call.name == "all_reduce":
                distributed.all_reduce(torch.ones(4), group=groups[call.group])
            else:
                post = getattr(distributed, call.name)
                handles[call.handle] = post(torch.ones(4), call.peer, tag=call.tag)
            os.write(pipe, b".")
        signal.pause()  # others may still need the connections
    except BaseException as error:
        print(f"rank {rank}: {error!r}", file=sys.stderr)
    os._exit(1)


def campaign(count: int, seed: int = 0, seconds: float | None = None) -> tuple[Counter[str], list[str]]:
    """Numbers by what happened, and differences in words. Every tenth program is not broken."""
    import torch.distributed  # noqa: F401  # once: processes are forked

    rng, told, numbers = random.Random(seed), [], Counter[str]()
    end = time.monotonic() + seconds if seconds else None
    for n in range(count):
        if end and time.monotonic() > end:
            break
        script = right(rng)
        how = broken(script, rng) if n % 10 else "unbroken"
        wanted = expected(script)
        found = observed(script, PATIENCE)
        if found != wanted and all(f <= w for f, w in zip(found, wanted, strict=True)):
            numbers["run again"] += 1
            found = observed(script, MORE)
        whole = wanted == [len(calls) for calls in script.ranks]
        numbers["programs"] += 1
        numbers["mutants"] += how != "unbroken"
        numbers[f"{len(script.ranks)} ranks"] += 1
        numbers["end" if whole else "hang"] += 1
        if found != wanted:
            told.append(f"program {n}, {how}: calls that end are {found}, by the rules {wanted}")
    return numbers, told


def main() -> int:
    """Exit status 1 where rules and processes disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=230)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float)
    given = parser.parse_args()
    numbers, told = campaign(given.count, given.seed, given.seconds)
    print("\n".join(told[:50]))
    print(dict(numbers.most_common()), f"{len(told)} differences", sep="\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
