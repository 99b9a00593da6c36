"""Programs of several ranks: run by threads of this process, each with a process group, and written as a text a rank.

Collectives find their group by its name, by its members (those of older graphs), or are given it, and the reduction, as
objects (those of c10d). Which members and which reduction is not in a text, but said beside it (`Annotations`).
"""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import getitem
from typing import Any, NamedTuple

import torch
from torch import distributed, fx
from torch.utils._python_dispatch import TorchDispatchMode

from scalify_dl.readers.fx.annotation import Annotations

from .captures import Refused, readable
from .world import Program, Step, Tensor, Var, items

PATIENCE = 20.0
"""Seconds that ranks wait for each other."""
NAME = "gloo"
"""What ranks call their group."""


class Said(NamedTuple):
    """An argument that is not the same on every rank, or no value of Python: `group` (its name), `ranks` (its members),
    `object` (the process group) or `reduction` (of that name)."""

    what: str
    name: str = ""

    def __repr__(self) -> str:
        return f"<{self.what} {self.name}>" if self.name else f"<{self.what}>"


@dataclass
class RankProgram:
    """A program that all ranks run, the groups of its collectives, and what inputs other ranks have."""

    program: Program
    groups: list[list[int]]
    others: list[list[Tensor]]
    """Inputs of ranks 1, 2, …"""

    @property
    def steps(self) -> list[Step]:
        """Its calls."""
        return self.program.steps

    @property
    def count(self) -> int:
        """How many ranks there are."""
        return sum(map(len, self.groups))

    def inputs(self, rank: int) -> list[Tensor]:
        """A rank's inputs, anew."""
        return [x.clone() for x in (self.others[rank - 1] if rank else self.program.inputs)]

    def group(self, rank: int) -> list[int]:
        """The group of a rank."""
        return next(group for group in self.groups if rank in group)

    def lean(self) -> RankProgram:
        """The same without inputs that no step uses."""
        lean = self.program.lean()
        kept = [next(i for i, x in enumerate(self.program.inputs) if x is y) for y in lean.inputs]
        return RankProgram(lean, self.groups, [[inputs[i] for i in kept] for inputs in self.others])

    def text(self) -> str:
        """The program for people."""
        lines = [
            f"x{i} on rank {rank}: {x.dtype} {list(x.shape)} = {x.tolist()!r:.200}"
            for rank in range(self.count)
            for i, x in enumerate(self.inputs(rank))
        ]
        return "\n".join([f"groups {self.groups}", *lines, *map(str, self.program.steps)])


class Place:
    """What a rank knows: its own group, made when it is asked for, as each of its ranks does at the same step."""

    def __init__(self, ranks: RankProgram, rank: int, store: Any) -> None:
        self.members, self.rank, self.store = ranks.group(rank), rank, store
        self.made: Any = None

    def means(self, said: Said) -> Any:
        """The value of an argument."""
        if said.what == "reduction":
            return reductions()[said.name]
        if said.what == "ranks":
            return self.members
        return NAME if said.what == "group" else self.group.boxed()

    @property
    def group(self) -> Any:
        """The group as an object."""
        if self.made is None:  # (`cached_property` has one lock for all ranks)
            at = self.members.index(self.rank)
            self.made = _gloo(self.store, at, len(self.members), f"group{self.members}")
        return self.made


def resolved(value: Any, means: Callable[[Said], Any]) -> Any:
    """An argument with what it means on a rank."""
    if isinstance(value, Said):
        return means(value)
    if type(value) in (list, tuple):
        return type(value)(resolved(item, means) for item in value)
    return {key: resolved(item, means) for key, item in value.items()} if isinstance(value, dict) else value


def steps_of(program: Program, means: Callable[[Said], Any]) -> Program:
    """The program as a rank runs it."""
    steps = [
        Step(_waiting(step.op), resolved(step.args, means), resolved(step.kwargs, means), step.results)
        for step in program.steps
    ]
    return Program(program.inputs, steps)


def _waiting(op: Any) -> Any:
    """An op that waits for what it has begun."""

    def call(*args: Any, **kwargs: Any) -> Any:
        out = op(*args, **kwargs)
        for item in out if isinstance(out, tuple) else (out,):
            if isinstance(item, torch.ScriptObject):
                item.wait()
        if "c10d_functional" in str(op) or "c10d_functional" in getattr(op, "__name__", ""):
            for _, x in items(out):
                torch.ops._c10d_functional.wait_tensor(x)
        return out

    return call


def played(ranks: RankProgram) -> list[tuple[dict[int, Tensor], list[Tensor]]]:
    """Values and inputs of every rank at the end. Refused where torch does not run it."""
    store, count = distributed.HashStore(), ranks.count
    found: list[Any] = [None] * count
    errors: list[BaseException] = []
    places: list[Place] = []  # groups end when all ranks are done

    def work(rank: int) -> None:
        from torch.testing._internal.distributed.multi_threaded_pg import ProcessLocalGroup

        try:
            with _place(ranks, rank, store) as place:
                places.append(place)
                inputs = ranks.inputs(rank)
                found[rank] = steps_of(ranks.program, place.means).play(inputs), inputs
        except BaseException as error:  # the others must not wait for this one
            errors.append(error)
            ProcessLocalGroup.exception_handle(error)

    with _threaded():
        threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    if errors or any(each is None for each in found):
        raise Refused(str(errors[:1]))
    return found


@contextlib.contextmanager
def _threaded() -> Iterator[None]:
    from torch.testing._internal.distributed import multi_threaded_pg

    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    multi_threaded_pg._install_threaded_pg()
    multi_threaded_pg.ProcessLocalGroup.reset()
    try:
        yield
    finally:
        multi_threaded_pg._uninstall_threaded_pg()
        torch._C._distributed_c10d._set_thread_isolation_mode(False)


@contextlib.contextmanager
def _place(ranks: RankProgram, rank: int, store: Any) -> Iterator[Place]:
    """The groups of a rank, in its thread: torch's threaded one of all, and its own under a name."""
    distributed.init_process_group("threaded", rank=rank, world_size=ranks.count, store=store)
    try:
        if len(ranks.groups) > 1:
            distributed.new_subgroups_by_enumeration(ranks.groups)
        place = Place(ranks, rank, store)
        if any("group" in str(step) for step in ranks.program.steps):
            torch._C._distributed_c10d._register_process_group(NAME, place.group)
        yield place
    finally:
        distributed.destroy_process_group()


def _gloo(store: Any, rank: int, count: int, prefix: str) -> Any:
    """A process group of threads that exchange values by Gloo."""
    prefixed = distributed.PrefixStore(prefix, store)
    group = distributed.ProcessGroup(prefixed, rank, count)
    backend = distributed.ProcessGroupGloo(prefixed, rank, count, datetime.timedelta(seconds=PATIENCE))
    group._register_backend(torch.device("cpu"), distributed.ProcessGroup.BackendType.GLOO, backend)
    group._set_default_backend(distributed.ProcessGroup.BackendType.GLOO)
    return group


REDUCTIONS = ("sum", "product", "min", "max", "band", "bor", "bxor")
"""Reductions of Gloo groups."""


@cache
def reductions() -> dict[str, Any]:
    """The objects that stand for reductions in calls of c10d: seen in calls of a group of one rank."""

    class Seen(TorchDispatchMode):  # type: ignore[misc]
        found: Any = None

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "allreduce_" in str(func):
                self.found = args[2]
            return func(*args, **(kwargs or {}))

    alone = _gloo(distributed.HashStore(), 0, 1, "alone")
    found = {}
    for name in REDUCTIONS:
        options = distributed.AllreduceOptions()
        options.reduceOp = getattr(distributed.ReduceOp, name.upper())
        with Seen() as seen:
            alone.allreduce([torch.zeros(1, dtype=torch.int32)], options).wait()
        found[name] = seen.found
    return found


# --- text ------------------------------------------------------------------------------------------------------------


def written(ranks: RankProgram) -> tuple[list[str], list[Annotations], list[list[Tensor]]]:
    """A text of every rank with its calls as they are, what is said beside it, and the values of its outputs."""
    values = played(ranks)
    order = [*ranks.program.numbers(), *(-1 - i for i in range(len(ranks.program.inputs)))]
    texts, known, want = [], [], []
    for rank, (env, inputs) in enumerate(values):
        name, members = str(rank), ranks.group(rank)
        said = {"object": "_torchbind_obj0"} | {r: f"_torchbind_obj{n + 1}" for n, r in enumerate(REDUCTIONS)}
        texts.append(_text(ranks, inputs, order, env, {"group": name, "ranks": members}, said))
        groups = {name: members, said["object"]: members}
        known.append(Annotations(groups=groups, reductions={said[r]: r for r in REDUCTIONS}))
        want.append([env[n] for n in order])
    return texts, known, want


def _text(
    ranks: RankProgram, inputs: Sequence[Tensor], order: Sequence[int], env: dict[int, Tensor], plain: dict[str, Any],
    objects: dict[str, str],
) -> str:  # fmt: skip
    """FX text of a rank. The types that it prints are those at the end: collectives change none."""
    graph, root = fx.Graph(), torch.nn.Module()
    nodes: dict[int, Any] = {}
    for i, x in enumerate(inputs):
        nodes[-1 - i] = graph.placeholder(f"x{i}")
        nodes[-1 - i].meta["val"] = x

    def means(said: Said) -> Any:
        if said.what in plain:
            return plain[said.what]
        name = objects[said.name or said.what]
        if not hasattr(root, name):
            setattr(root, name, torch.zeros(()))
        return graph.get_attr(name)

    def node(value: Any) -> Any:
        if isinstance(value, Var):
            return nodes[value.number]
        return type(value)(map(node, value)) if type(value) in (list, tuple) else value

    for step in ranks.program.steps:
        args, kwargs = resolved(step.args, means), resolved(step.kwargs, means)
        call = graph.call_function(step.op, node(args), {key: node(value) for key, value in kwargs.items()})
        items: dict[tuple[int, ...], Any] = {(): call}
        for number, path in step.results:
            for end in range(1, len(path) + 1):
                if path[:end] not in items:
                    items[path[:end]] = graph.call_function(getitem, (items[path[: end - 1]], path[end - 1]))
            nodes[number] = items[path]
            nodes[number].meta["val"] = env[number]
    graph.output([nodes[n] for n in order])
    return readable(fx.GraphModule(root, graph))
