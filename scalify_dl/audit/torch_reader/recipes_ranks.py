"""Calls of collectives: arguments that fit, by the op's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed._functional_collectives  # registers the functional ones
from torch import distributed

from scalify_dl.readers.fx.lowering import LOWERINGS

from .calls import COLLECTIVE, Overload
from .captures import Refused
from .ranks import RankProgram, Said, played
from .world import Step, Tensor, Var, World, items, kind_of

DIVISIONS = ([[0, 1]], [[0, 1, 2]], [[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0, 2], [1, 3]])
STEPS = (1, 4)
aten = torch.ops.aten
BETWEEN = (aten.neg.default, aten.neg_.default, aten.mul.Tensor, aten.add_.Tensor, aten.t.default)
"""What ranks compute between collectives."""
MESSAGES = ("isend", "irecv")
"""Between two ranks, which then run programs of their own; here all run one."""


class RankWorld:
    """A program of several ranks under construction; values are those of rank 0."""

    def __init__(self, w: World) -> None:
        self.w = w
        w.special = w.ends = False
        self.groups = [list(group) for group in w.rng.choice(DIVISIONS)]
        self.size = len(self.groups[0])
        self.inputs: list[list[Tensor]] = []
        self.number = 0

    def program(self) -> RankProgram:
        """The program so far; other ranks have other numbers."""
        w = self.w
        self.inputs = self.inputs or [[] for _ in range(sum(map(len, self.groups)) - 1)]
        for own in self.inputs:
            for x in w.program.inputs[len(own) :]:
                own.append(torch.tensor(w.items(x.numel(), x.dtype, -2, 2), dtype=x.dtype).reshape(x.shape))
        return RankProgram(w.program, self.groups, self.inputs)

    def add(self, op: Any, args: list[Any], kwargs: dict[str, Any]) -> Step | None:
        """Adds a call; None where torch refuses it."""
        w, gives = self.w, []

        def call(*values: Any, **named: Any) -> Any:
            out = op(*values, **named)
            if distributed.get_rank() == 0:
                gives.append(out)
            return out

        call.__name__ = str(op)
        w.program.steps.append(Step(call, tuple(args), kwargs, ()))
        try:
            env, inputs = played(self.program())[0]
        except Refused:
            return None
        finally:
            w.program.steps.pop()
        found = list(items(gives[0]))
        step = Step(op, tuple(args), kwargs, tuple((self.number + i, path) for i, (path, _) in enumerate(found)))
        w.program.steps.append(step)
        w.env = env | {-1 - i: x for i, x in enumerate(inputs)} | {self.number + i: x for i, (_, x) in enumerate(found)}
        self.number += len(found)
        return step

    # --- arguments ---------------------------------------------------------------------------------------------------

    def values(self, count: int, divided: bool = False) -> list[Var]:
        """Values of one dtype; `divided`: the first dim is a multiple of the group's size."""
        found: list[Var] = []
        for _ in range(count):
            w = self.w
            shape = [w.rng.randint(1, 2) * (self.size if divided else 1), *w.shape(0, 1)]
            dtype = w.of(found[0]).dtype if found else None
            x = w.tensor(shape if divided or w.rng.random() < 0.8 else [], "fffi", dtype=dtype)
            found.append(x if w.of(x).is_contiguous() else w.new(shape, w.of(x).dtype, -2, 2, plain=True))
        return found

    def value(self, divided: bool = False) -> Var:
        """One value."""
        return self.values(1, divided)[0]

    def reduction(self, x: Var, average: bool = True) -> str:
        """A reduction of values such as this."""
        whole = ["band", "bor", "bxor"] if kind_of(self.w.of(x)) == "i" else ["avg"] * average
        return self.w.rng.choice(["sum", "sum", "product", "min", "max", *whole])

    def like(self, x: Var, times: int = 1, over: int = 1) -> Var:
        """A new value of the dtype of another, its first dim so many times as long; all lie alike in memory, which
        Gloo does not look at."""
        w, given = self.w, self.w.of(x)
        shape = [(given.shape[0] if given.shape else 1) * times // over, *given.shape[1:]]
        return w.new(shape if given.shape or times > 1 else [], given.dtype, -2, 2, plain=True)


def overloads_of_ranks() -> tuple[list[Overload], dict[str, str]]:
    """Every overload of the collectives in the table, and why others are left out."""
    found: list[Overload] = []
    left: dict[str, str] = {}
    for key in LOWERINGS:
        space, _, name = key.partition(".")
        if space in COLLECTIVE:
            packet = getattr(getattr(torch.ops, space), name, None)
            if name in MESSAGES:
                left[key] = "of two ranks only; programs of ranks that do not run alike are drawn apart"
                continue
            if packet is None:
                left[key] = "this torch has no such op"
                continue
            for overload in packet.overloads():
                op = getattr(packet, overload)
                found.append(Overload(str(op), op, any(a.alias_info for a in op._schema.arguments) or space == "c10d"))
    return found, left


def drawn(w: World, target: Any, allowed: Sequence[Any]) -> tuple[RankProgram, list[list[str]]]:
    """A program with a call of the target and perhaps others, and their arguments that are off their default."""
    r = RankWorld(w)
    off: list[list[str]] = []
    others = [w.rng.choice(allowed) for _ in range(w.rng.randint(*STEPS) - 1)]
    for op in w.rng.sample([target, *others], 1 + len(others)):
        for _ in range(w.rng.randint(0, 1)):
            between = w.rng.choice(BETWEEN)
            x = w.tensor(kinds="fi", rank=(1, 2))
            if r.add(between, [x, x][: 1 + ("Tensor" in str(between))], {}) is not None:
                off.append([])
        args, kwargs = collective(r, op)
        step = r.add(op, args, kwargs)
        if step is None:
            continue
        off.append(_off(op, args))
        wait = str(op).split(".")[0].removesuffix("_autograd")
        for number, _ in step.results if "functional" in wait and "wait" not in str(op) else ():
            if r.add(getattr(torch.ops, wait).wait_tensor.default, [Var(number)], {}) is None:
                raise Refused("a wait")
            off.append([])
    return r.program(), off


def _off(op: Any, args: Sequence[Any]) -> list[str]:
    """The arguments of a call that are off their default."""
    given = zip(op._schema.arguments, args, strict=False)
    return [
        a.name
        for a, value in given
        if not isinstance(value, Var) and not (a.has_default_value() and value == a.default_value)
    ]


def collective(r: RankWorld, op: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a collective."""
    space, name = str(op).split(".")[:2]
    legacy = space == "c10d_functional"  # (their groups are torch's threaded one, which has no other reductions)
    given = _objects(r, name) if space == "c10d" else _functional(r, name, legacy)
    return _arranged(r, op, given, legacy)


def _functional(r: RankWorld, name: str, legacy: bool) -> list[Any]:
    """The first arguments: tensors, the reduction, what else comes before the group."""
    rng, size = r.w.rng, r.size
    plain = name.rstrip("_").removesuffix("_out")
    if plain in ("wait_tensor", "_wrap_tensor_autograd"):
        return [r.value()]
    if plain == "shard_dim_alltoall":
        x = r.w.new([size * rng.randint(1, 2), size * rng.randint(1, 2)], r.w.dtype("fffi"), -2, 2, plain=True)
        return [x, *rng.choice([(0, 1), (1, 0)])]  # (a dim from the end ends torch)
    several = "coalesced" in plain
    divided = plain.startswith(("reduce_scatter", "all_to_all"))
    xs = r.values(rng.randint(1, 2) if several else 1, divided)
    found: list[Any] = [xs if several else xs[0]]
    if "reduce" in plain:
        found.append(rng.choice(["sum", "avg"]) if legacy and divided else r.reduction(xs[0]))
    if plain.startswith("broadcast"):
        found.append(rng.randrange(size))
    if plain.startswith("all_to_all"):
        rows = r.w.of(xs[0]).shape[0]
        equal = [rows // size] * size
        found += [list(equal), list(equal)]
    return found


def _arranged(r: RankWorld, op: Any, first: list[Any], legacy: bool) -> tuple[list[Any], dict[str, Any]]:
    """All arguments in order: the group's follow by name, flags are drawn."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    rest = list(first)
    for a in op._schema.arguments:
        if a.name == "out":
            kwargs["out"] = r.like(first[0], r.size)
        elif a.name == "group_name":
            args.append(Said("group"))
        elif a.name == "process_group":
            args.append(Said("object"))
        elif a.name == "ranks":
            args.append(Said("ranks"))
        elif a.name == "group_size":
            args.append(r.size)
        elif a.name == "tag":
            args.append("")
        elif a.name == "async_op":
            args.append(r.w.rng.random() < 0.5)
        elif a.name == "timeout":
            args.append(r.w.rng.choice([-1, 60000]))
        else:
            args.append(rest.pop(0))
    if legacy and "all_to_all" in str(op) and r.w.rng.random() < 0.5:
        args[1] = args[2] = None
    while len(args) > 2 and op._schema.arguments[len(args) - 1].has_default_value() and r.w.rng.random() < 0.3:
        args.pop()
    return args, kwargs


def _objects(r: RankWorld, name: str) -> list[Any]:
    """The arguments of a collective of c10d but for the group, flags and the time it may take."""
    rng, size = r.w.rng, r.size
    several = "coalesced" in name
    count = rng.randint(1, 2) if several else 1

    def reduction(x: Var) -> Said:
        return Said("reduction", r.reduction(x, average=False))

    if name.startswith("allreduce"):
        xs = r.values(count)
        return [xs, reduction(xs[0]), *([None] if not several else [])]
    if name == "broadcast_":
        return [[r.value()], rng.randrange(size), 0]
    if name == "alltoall_base_":
        x = r.value(divided=True)
        rows = r.w.of(x).shape[0] // size
        splits = rng.choice([[], [rows] * size])
        return [r.like(x), x, list(splits), list(splits)]
    if name == "allgather_":
        x = r.value()
        return [[[r.like(x) for _ in range(size)]], [x]]
    if name == "reduce_scatter_":
        x = r.value()
        return [[r.like(x)], [[x, *(r.like(x) for _ in range(size - 1))]], reduction(x)]
    if "gather" in name:
        xs = r.values(count, divided=True)
        outs = [r.like(x, size) for x in xs]
        return [outs, xs] if several else [outs[0], xs[0]]
    xs = r.values(count, divided=True)
    outs = [r.like(x, over=size) for x in xs]
    return [*([outs, xs] if several else [outs[0], xs[0]]), reduction(xs[0])]
