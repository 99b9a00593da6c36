"""What a rank's program posts, waits for and computes, in its order: recorded under the fake process group.

    for rank in range(4):
        with recording(rank, 4) as run:
            train_step()
        run.write(f"run_{rank}.json")

then `dlverify schedule run_*.json`. No other rank is needed: what is received is arbitrary, so a program whose data
decide what it posts is not recorded faithfully. Memory that the program frees stays taken until the recording ends.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.utils._python_dispatch import TorchDispatchMode

from scalify_dl.errors import InputError
from scalify_dl.whole import write_whole

__all__ = ["Run", "recording"]

FORMAT = "scalify-dl run"
IN_PLACE = ("allreduce", "allreduce_coalesced", "broadcast", "reduce")
"""Methods of process groups that write what they are given; others are given what they write, and what they read."""
OUT_IN = (
    "allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced", "reduce_scatter",
    "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "gather", "scatter", "alltoall", "alltoall_base",
)  # fmt: skip
EMPTY = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")
"""Operators whose results have no contents."""
FILLS = ("copy", "fill", "zero", "uniform", "normal", "random", "bernoulli", "exponential", "geometric", "cauchy",
         "log_normal")  # fmt: skip
"""Operators that, in place, write their first argument without reading it."""
RUNS = 1024
"""Pieces of a strided tensor that are told apart; beyond them it is all bytes that it spans."""
Piece = tuple[int, int, int]
"""A buffer, and half-open bytes of it."""


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


class Run:
    """The record of one rank."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.events: list[dict[str, Any]] = []
        self.groups: dict[str, list[int]] = {}
        self.buffers: dict[int, int] = {}
        self.given: set[int] = set()
        self.kept: list[Any] = []
        self.handles: dict[int, int] = {}
        self.batch: int | None = None
        self.spans = False
        """Whether some tensor has so many pieces that it is taken to be all bytes that it spans."""

    def write(self, path: str | Path) -> None:
        """As a file for `dlverify schedule`."""
        about = {"format": FORMAT, "version": 1, "rank": self.rank, "world": self.world, "groups": self.groups}
        lines = ",\n".join(json.dumps(event) for event in self.events)
        head = json.dumps({**about, "given": sorted(self.given), "spans": self.spans})
        write_whole(Path(path), f'{head[:-1]}, "events": [\n{lines}\n]}}\n')

    def pieces(self, tensors: Any, *, fresh: bool = False) -> list[Piece]:
        """The memory of tensors. What was not made while it was watched has contents from the beginning."""
        found: list[Piece] = []
        for x in _tensors(tensors):
            storage = x.untyped_storage()
            key = storage._cdata
            if key not in self.buffers:
                self.buffers[key] = len(self.buffers)
                self.kept.append(storage)
                if not fresh:
                    self.given.add(self.buffers[key])
            ranges = _ranges(x)
            if len(ranges) > RUNS:
                ranges, self.spans = [(ranges[0][0], ranges[-1][1])], True
            found += [(self.buffers[key], lo, hi) for lo, hi in ranges]
        return found

    def add(self, do: str, **what: Any) -> int:
        """One more event; its number."""
        frame = sys._getframe(1)
        own = (str(Path(__file__).parent), torch.__path__[0])
        while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
            frame = frame.f_back
        at = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        said = {key: value for key, value in what.items() if value not in (None, [])}
        self.events.append({"do": do, "at": at, **said})
        return len(self.events) - 1

    def named(self, group: Any) -> str:
        """The name of a process group, whose members are noted."""
        name = str(group.group_name)
        self.groups[name] = list(dist.get_process_group_ranks(group))
        return name

    def call(self, method: str, before: Callable[..., Any], group: Any, *args: Any, **kwargs: Any) -> Any:
        """A method of a process group is called."""
        name = self.named(group)
        given = [*args, *kwargs.values()]
        if method == "recv_anysource":
            raise InputError("a receive from any rank: which message it takes is not determined")
        if method in ("send", "recv"):
            tensors, peer, tag = given[0], int(given[1]), int(given[2]) if len(given) > 2 else 0
            memory = {"reads" if method == "send" else "writes": self.pieces(tensors)}
            size = sum(x.numel() for x in _tensors(tensors))
            dtype = next((str(x.dtype).removeprefix("torch.") for x in _tensors(tensors)), "")
            more = {"peer": self.groups[name][peer], "tag": tag, "batch": self.batch, "size": f"{size} of {dtype}"}
            e = self.add(method, group=name, **more, **memory)
        else:
            first = list(_tensors(given[0])) if given else []
            rest = list(_tensors(given[1])) if method in OUT_IN and len(given) > 1 else []
            shapes = ", ".join(f"{x.dtype}{list(x.shape)}".removeprefix("torch.") for x in rest or first)
            options = next((value for value in given if hasattr(value, "reduceOp")), None)
            reducer = options.reduceOp.op.name.lower() if options is not None else None
            e = self.add("collective", kind=method.strip("_"), group=name, shape=shapes, reducer=reducer,
                         reads=self.pieces(rest), writes=self.pieces(first))  # fmt: skip
        work = before(group, *args, **kwargs)
        if work is not None:
            self.kept.append(work)
            self.handles[id(work)] = e
        return work

    def waits(self, before: Callable[..., Any], work: Any, *args: Any, **kwargs: Any) -> Any:
        """Something is waited for."""
        if id(work) in self.handles:
            self.add("wait", awaited=self.handles[id(work)])
        return before(work, *args, **kwargs)

    def batched(self, before: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Messages are posted as one batch."""
        self.batch = len(self.events)
        try:
            return before(*args, **kwargs)
        finally:
            self.batch = None


def _ranges(x: torch.Tensor) -> list[tuple[int, int]]:
    """The bytes of a tensor in its storage, in order: one more than `RUNS` pieces, if there are more."""
    if x.layout != torch.strided or not x.numel():
        return []
    size, span, starts = x.element_size(), 1, [x.storage_offset()]
    dims = sorted((stride, extent) for stride, extent in zip(x.stride(), x.shape, strict=True) if extent > 1)
    while dims and dims[0][0] <= span:
        stride, extent = dims.pop(0)
        span += stride * (extent - 1)
    end = starts[0] + span + sum(stride * (extent - 1) for stride, extent in dims)
    for stride, extent in dims:
        starts = [start + stride * n for start in starts[: RUNS + 1] for n in range(min(extent, RUNS + 1))]
    found = [(start * size, (start + span) * size) for start in sorted(starts)]
    return found if len(found) <= RUNS else [*found[:RUNS], (found[RUNS][0], end * size)]


class _Computations(TorchDispatchMode):  # type: ignore[misc]
    """Operators between the calls, with what they read and write; views touch nothing."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func.namespace in ("c10d", "prim"):
            return func(*args, **named)
        schema = func._schema.arguments
        pairs = [*zip(schema, args, strict=False), *((a, named[a.name]) for a in schema if a.name in named)]
        view = any(a.alias_info is not None and not a.alias_info.is_write for a, _ in pairs)
        written = [value for a, value in pairs if a.alias_info is not None and a.alias_info.is_write]
        run, packet = self.run, func._overloadpacket.__name__
        blind = 1 if _blind(packet) else 0
        reads = run.pieces([value for a, value in pairs[blind:] if not a.is_out])
        changed = run.pieces(written)
        out = func(*args, **named)
        known = len(run.buffers)
        made = [piece for piece in run.pieces(out, fresh=True) if piece[0] >= known]
        if changed or not view:
            run.add("compute", name=packet, reads=reads, writes=changed + ([] if packet in EMPTY else made))
        return out


def _blind(operator: str) -> bool:
    """Whether an operator takes no contents of its first argument: it overwrites it, or asks for its shape only."""
    in_place = operator.removeprefix("_foreach_")
    return operator.endswith("_like") or operator.startswith("new_") or in_place in [f"{name}_" for name in FILLS]


@contextlib.contextmanager
def recording(rank: int, world: int) -> Iterator[Run]:
    """Records what runs inside: as this rank of so many, with the fake process group unless there is one already."""
    run = Run(rank, world)
    started = not dist.is_initialized()
    if started:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    elif (dist.get_rank(), dist.get_world_size()) != (rank, world):
        raise InputError(f"this process is rank {dist.get_rank()} of {dist.get_world_size()}, not {rank} of {world}")
    with contextlib.ExitStack() as undo:
        if started:
            undo.callback(dist.destroy_process_group)
        undo.enter_context(watched(run))
        with _Computations(run):
            yield run


@contextlib.contextmanager
def watched(run: Run) -> Iterator[None]:
    """Methods of process groups, and waits, are told to the record."""
    group = dist.ProcessGroup
    methods = [m for m in (*IN_PLACE, *OUT_IN, "send", "recv", "recv_anysource", "barrier") if hasattr(group, m)]
    works = {kind for kind in (dist.Work, getattr(distributed_c10d, "FakeWork", None),
                               getattr(torch._C._distributed_c10d, "FakeWork", None)) if kind is not None}  # fmt: skip
    with contextlib.ExitStack() as undo:

        def put(where: Any, name: str, what: Any) -> None:
            own = name in vars(where)
            before = getattr(where, name)
            setattr(where, name, what)
            undo.callback(partial(setattr, where, name, before) if own else partial(delattr, where, name))

        for method in methods:
            before = getattr(group, method)
            put(group, method, lambda pg, *a, _m=method, _b=before, **k: run.call(_m, _b, pg, *a, **k))
        for work in works:
            if "wait" in vars(work):
                before = work.wait
                put(work, "wait", lambda w, *a, _b=before, **k: run.waits(_b, w, *a, **k))
        batch = distributed_c10d.batch_isend_irecv
        for module in (dist, distributed_c10d):
            put(module, "batch_isend_irecv", partial(run.batched, batch))
        yield
