"""Ranks of a mesh played one after the other on this machine, each in a process of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from math import prod
from typing import Any

import torch
import torch._dynamo  # what the first optimiser imports: once, not again in the process of each rank
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from scalify_dl.errors import InputError

from ..raised import of_the_program

__all__ = ["NeedsRanks", "apart", "fake_rank", "real_rank", "together"]

PATIENCE = timedelta(minutes=5)
"""How long a rank waits for the others."""


@contextlib.contextmanager
def fake_rank(rank: int, mesh: Mapping[str, int], device: str = "cpu") -> Iterator[DeviceMesh]:
    """Plays one rank of a mesh (axis → size, the first one major) under a process group that moves no data."""
    if dist.is_initialized():
        raise RuntimeError("a process group is initialised already; capture in a process of its own")
    dist.init_process_group("fake", rank=rank, world_size=prod(mesh.values()), store=FakeStore())
    try:
        yield init_device_mesh(device, tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def real_rank(rank: int, mesh: Mapping[str, int], meeting: str, device: str = "cpu") -> Iterator[DeviceMesh]:
    """One of several processes, all of which run at once and exchange data (gloo); they meet at a file."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=prod(mesh.values()), timeout=PATIENCE
    )
    try:
        yield init_device_mesh(device, tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    finally:
        dist.destroy_process_group()


class NeedsRanks(Exception):
    """A program waits for what another rank tells it, which no fake group has."""


def apart(play: Callable[[int], None], rank: int) -> None:
    """Runs `play(rank)`, of the baseline where that is negative, in a forked process; NeedsRanks, or an InputError for
    any error of the program."""
    together(play, [rank])


def together(play: Callable[[int], None], ranks: Sequence[int]) -> None:
    """Runs `play(rank)` of several ranks at once, each in a forked process; errors as of `apart`, of the first that
    fails, whereupon the others end."""
    fork = multiprocessing.get_context("fork")
    running: dict[int, Any] = {}
    receiver, sender = fork.Pipe(duplex=False)
    for rank in ranks:
        running[rank] = fork.Process(target=_played, args=(play, rank, sender))
        running[rank].start()
    failed = None
    while running and failed is None:
        multiprocessing.connection.wait([process.sentinel for process in running.values()])
        for rank, process in [*running.items()]:
            if process.exitcode is not None:
                process.join()
                failed = rank if process.exitcode else failed
                del running[rank]
    for process in running.values():
        process.terminate()
        process.join()
    if receiver.poll():
        raise receiver.recv()
    if failed is not None:
        raise InputError(f"{_who(failed)} ended without a word (killed, out of memory?)")


def _played(play: Callable[[int], None], rank: int, sender: Any) -> None:
    """What a process runs; errors that the user can do something about go to its parent.

    It has none of the threads that its parent's kernels ran on, and would wait for them for ever."""
    torch.set_num_threads(1)
    try:
        play(rank)
    except (InputError, NeedsRanks) as error:
        sender.send(error)
        sys.exit(1)
    except Exception as error:
        sender.send(of_the_program(error, _who(rank)))
        sys.exit(1)


def _who(rank: int) -> str:
    return "the baseline" if rank < 0 else f"the distributed program on rank {rank}"
