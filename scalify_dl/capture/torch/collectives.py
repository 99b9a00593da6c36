"""c10d's in-place collectives as functional ones, which name group and reduction, and copies into what they write.

Members of a group read all before anything is written: of memory that is both read and written, only a member's own
part may be (`overlap`). A collective takes effect where it is issued, and the text waits for it there: that the program
waits for it before it reads the result is outside of the record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

from scalify_dl.errors import InputError

from .overlap import overlapping

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["COLLECTIVES", "Groups", "factors_noted", "waits_apart"]

SPACE = "torch.ops._c10d_functional"
REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")


@contextlib.contextmanager
def waits_apart() -> Iterator[None]:
    """What a backend runs where it is waited for (gloo cuts what it has reduced) is none of the program's ops."""
    before = dist.Work.wait

    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return before(work, *args, **kwargs)

    dist.Work.wait = wait
    try:
        yield
    finally:
        dist.Work.wait = before


@contextlib.contextmanager
def shapes_compared_apart() -> Iterator[None]:
    """DistributedDataParallel that is made in the step asks all ranks for their shapes: none of the program's ops."""
    before = dist._verify_params_across_processes

    def verify(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return before(*args, **kwargs)

    dist._verify_params_across_processes = verify
    try:
        yield
    finally:
        dist._verify_params_across_processes = before


@contextlib.contextmanager
def factors_noted(groups: Groups) -> Iterator[None]:
    """The factor of a PREMUL_SUM is noted as a reduce-scatter is given it: the op that is dispatched does not say."""
    options = dist.distributed_c10d.ReduceScatterOptions

    class Noting(options):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "reduceOp":
                state = value.__getstate__()  # of others than PREMUL_SUM a number
                groups.factor = state[1] if isinstance(state, tuple) else None

    dist.distributed_c10d.ReduceScatterOptions = Noting
    try:
        yield
    finally:
        dist.distributed_c10d.ReduceScatterOptions = options


class Groups:
    """Process groups by the name that the text gives them: that of a mesh axis, or of their ranks."""

    def __init__(self, mesh: Mapping[str, int]) -> None:
        self.mesh = mesh
        self.members: dict[str, list[int]] = {}
        self.handles: dict[str, str] = {}
        self.factor: float | None = None

    def name(self, group: Any) -> str:
        """The name of a process group, whose members are noted."""
        if isinstance(group, str):
            group = dist.distributed_c10d._resolve_process_group(group)
        elif not isinstance(group, dist.ProcessGroup):
            group = dist.ProcessGroup.unbox(group)
        ranks = dist.get_process_group_ranks(group)
        name = self.axis(ranks) or "ranks_" + "_".join(map(str, ranks))
        self.members[name], self.handles[name] = ranks, group.group_name
        return name

    def crossed(self, call: str, args: Sequence[Any]) -> bool:
        """Whether a collective writes memory that is still to be read."""
        group = next((arg for arg in args if isinstance(arg, torch.ScriptObject)), None)
        if group is None:
            return False
        members = dist.get_process_group_ranks(dist.ProcessGroup.unbox(group))
        read = args[1] if len(args) > 1 and not isinstance(args[1], torch.ScriptObject) else ()
        rank = dist.get_rank()
        return len(members) > 1 and rank in members and overlapping(call, args[0], read, members.index(rank))

    def axis(self, ranks: Sequence[int]) -> str | None:
        """The mesh axis along which ranks lie in order."""
        if len(ranks) == prod(self.mesh.values()) > 1 and list(ranks) == list(range(len(ranks))) and len(self.mesh) > 1:
            return None
        stride = prod(self.mesh.values())
        for axis, size in self.mesh.items():
            stride //= size
            line = [ranks[0] + n * stride for n in range(size)]
            if size == len(ranks) > 1 and (ranks[0] // stride) % size == 0 and list(ranks) == line:
                return axis
        return None


def reduction(op: Any) -> str:
    """The name of a reduction."""
    number = int(op.op()) if hasattr(op, "op") and callable(op.op) else int(op.op if hasattr(op, "op") else op)
    if not 0 <= number < len(REDUCTIONS):
        raise InputError("a collective whose reduction has a factor of its own (PREMUL_SUM)")
    return REDUCTIONS[number]


def functional(r: Recorder, call: str, x: torch.Tensor, more: str, shape: Sequence[int]) -> str:
    """A functional collective of a tensor."""
    return r.emit(call, f"{SPACE}.{call}.default({r.text(x)}, {more})", like(x, shape))


def waited(r: Recorder, name: str, x: torch.Tensor) -> str:
    """The result of a collective, a tensor like `x`, that is waited for."""
    return r.emit("wait_tensor", f"{SPACE}.wait_tensor.default({name})", x)


def into(r: Recorder, target: torch.Tensor, value: str, shape: Sequence[int]) -> None:
    """A target of the collective now holds a value of that shape."""
    r.names.overwritten(target)
    if list(shape) != list(target.shape):
        value = r.emit("view", f"torch.ops.aten.view.default({value}, {list(target.shape)})", target)
    r.emit("copy_", f"torch.ops.aten.copy_.default({r.text(target)}, {value})", target)
    r.taint(target)


def like(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A tensor of a shape, for its type alone."""
    return torch.empty(list(shape), dtype=x.dtype, device="meta")


def in_order(x: torch.Tensor) -> torch.Tensor:
    """A tensor whose memory is what is sent, or received into; InputError where its elements lie otherwise there."""
    if not x.is_contiguous():
        raise InputError(
            f"a collective of a tensor that is not contiguous (strides {list(x.stride())} of shape {list(x.shape)})",
            expected="contiguous tensors: backends move memory as it lies, or refuse",
            hint="call .contiguous() first; empty_like() of a transposed tensor is transposed, too",
        )
    return x


def vector(r: Recorder, x: torch.Tensor) -> str:
    """All elements of a tensor, row by row."""
    if x.dim() == 1:
        return r.text(x)
    op = "view.default" if x.is_contiguous() else "reshape.default"
    return r.emit("view", f"torch.ops.aten.{op}({r.text(x)}, [-1])", like(x, [x.numel()]))


def joined(r: Recorder, xs: Sequence[torch.Tensor]) -> str:
    """The elements of several tensors, one after the other."""
    names = ", ".join(vector(r, x) for x in xs)
    return r.emit("cat", f"torch.ops.aten.cat.default([{names}])", like(xs[0], [sum(x.numel() for x in xs)]))


def gathered(r: Recorder, x: torch.Tensor, group: Any) -> tuple[str, list[int]]:
    """What all members hold, along dim 0, and its shape."""
    name = r.groups.name(group)
    size = len(r.groups.members[name])
    in_order(x)
    source, shape = (r.text(x), list(x.shape)) if x.dim() else (vector(r, x), [1])
    shape[0] *= size
    call = f"{SPACE}.all_gather_into_tensor.default({source}, {size}, '{name}')"
    whole = like(x, shape)
    return waited(r, r.emit("all_gather_into_tensor", call, whole), whole), shape


def scattered(
    r: Recorder, source: str, x: torch.Tensor, shape: list[int], group: Any, op: Any
) -> tuple[str, list[int]]:
    """This member's rows of the reduction, and their shape."""
    name = r.groups.name(group)
    size = len(r.groups.members[name])
    if isinstance(r.groups.factor, float):
        source = r.emit("mul", f"torch.ops.aten.mul.Tensor({source}, {r.groups.factor!r})", like(x, shape))
        op, r.groups.factor = dist.ReduceOp.SUM, None
    shape = [shape[0] // size, *shape[1:]]
    call = f"{SPACE}.reduce_scatter_tensor.default({source}, '{reduction(op)}', {size}, '{name}')"
    mine = like(x, shape)
    return waited(r, r.emit("reduce_scatter_tensor", call, mine), mine), shape


def piece(r: Recorder, whole: str, start: int, rows: int, shape: list[int], target: torch.Tensor) -> None:
    """Rows from a position on are what a target now holds."""
    shape = [rows, *shape[1:]]
    call = f"torch.ops.aten.slice.Tensor({whole}, 0, {start}, {start + rows})"
    into(r, target, r.emit("slice", call, like(target, shape)), shape)


def all_reduce(r: Recorder, tensors: Sequence[torch.Tensor], group: Any, op: Any, sparse: Any = None, *_: Any) -> None:
    if sparse is not None:
        raise InputError("an all-reduce of sparse tensors")
    for x in tensors:
        more = f"'{reduction(op)}', '{r.groups.name(group)}'"
        waited(r, r.emit("all_reduce_", f"{SPACE}.all_reduce_.default({r.text(x)}, {more})", x), x)
        r.taint(x)


def broadcast(r: Recorder, tensors: Sequence[torch.Tensor], group: Any, root: int, at: int = 0, *_: Any) -> None:
    if at:
        raise InputError("a broadcast of another than the first tensor")
    for x in tensors:
        call = f"{SPACE}.broadcast_.default({r.text(x)}, {root}, '{r.groups.name(group)}')"
        waited(r, r.emit("broadcast_", call, x), x)
        r.taint(x)


def all_reduce_coalesced(r: Recorder, tensors: Sequence[torch.Tensor], group: Any, op: Any, *_: Any) -> None:
    all_reduce(r, tensors, group, op)


def all_gather_base(r: Recorder, out: torch.Tensor, x: torch.Tensor, group: Any, *_: Any) -> None:
    into(r, in_order(out), *gathered(r, x, group))


def all_gather_coalesced(
    r: Recorder, outs: Sequence[torch.Tensor], xs: Sequence[torch.Tensor], group: Any, *_: Any
) -> None:
    for out, x in zip(outs, xs, strict=True):
        all_gather_base(r, out, x, group)


def all_gather(
    r: Recorder, outs: Sequence[Sequence[torch.Tensor]], xs: Sequence[torch.Tensor], group: Any, *_: Any
) -> None:
    for parts, x in zip(outs, xs, strict=True):
        whole, shape = gathered(r, x, group)
        rows = shape[0] // len(parts)
        for i, part in enumerate(parts):
            piece(r, whole, i * rows, rows, shape, part)


def reduce_scatter_base(r: Recorder, out: torch.Tensor, x: torch.Tensor, group: Any, op: Any, *_: Any) -> None:
    size = in_order(x).numel() // max(in_order(out).numel(), 1)
    even = x.dim() and size and x.shape[0] % size == 0
    source, shape = (r.text(x), list(x.shape)) if even else (vector(r, x), [x.numel()])
    into(r, out, *scattered(r, source, x, shape, group, op))


def reduce_scatter_coalesced(
    r: Recorder, outs: Sequence[torch.Tensor], xs: Sequence[torch.Tensor], group: Any, op: Any, *_: Any
) -> None:
    for out, x in zip(outs, xs, strict=True):
        reduce_scatter_base(r, out, x, group, op)


def reduce_scatter(
    r: Recorder, outs: Sequence[torch.Tensor], xs: Sequence[Sequence[torch.Tensor]], group: Any, op: Any, *_: Any
) -> None:
    for out, parts in zip(outs, xs, strict=True):
        whole = joined(r, parts)
        into(r, out, *scattered(r, whole, out, [sum(x.numel() for x in parts)], group, op))


def all_to_all_base(
    r: Recorder, out: torch.Tensor, x: torch.Tensor, group: Any, out_splits: Sequence[int], in_splits: Sequence[int],
    *_: Any,
) -> None:  # fmt: skip
    name = r.groups.name(group)
    size = len(r.groups.members[name])
    given_splits = ((out_splits, in_order(out)), (in_splits, in_order(x)))
    splits = [list(given) or [t.shape[0] // size] * size for given, t in given_splits]
    more = f"{splits[0]}, {splits[1]}, '{name}'"
    shape = out.shape if out.shape[1:] == x.shape[1:] else [x.shape[0], *x.shape[1:]]
    whole = functional(r, "all_to_all_single", x, more, shape)
    r.given.append((whole, [out]))
    into(r, out, waited(r, whole, like(x, shape)), shape)


def all_to_all(r: Recorder, outs: Sequence[torch.Tensor], xs: Sequence[torch.Tensor], group: Any, *_: Any) -> None:
    splits = [[t.numel() for t in tensors] for tensors in (outs, xs)]
    more = f"{splits[0]}, {splits[1]}, '{r.groups.name(group)}'"
    call = f"{SPACE}.all_to_all_single.default({joined(r, xs)}, {more})"
    received = like(xs[0], [sum(splits[0])])
    whole = r.emit("all_to_all_single", call, received)
    r.given.append((whole, outs))
    whole = waited(r, whole, received)
    start = 0
    for out in outs:
        piece(r, whole, start, out.numel(), [0], out)
        start += out.numel()


def reduce(r: Recorder, tensors: Sequence[torch.Tensor], group: Any, op: Any, root: int, at: int = 0, *_: Any) -> None:
    """The root holds the reduction; what others hold then is not known."""
    name = r.groups.name(group)
    (x,) = tensors
    value = waited(r, functional(r, "all_reduce", x, f"'{reduction(op)}', '{name}'", x.shape), x)
    if r.groups.members[name][root] != dist.get_rank():
        value = r.emit("empty_like", f"torch.ops.aten.empty_like.default({r.text(x)})", x)
    into(r, x, value, x.shape)


def gather(
    r: Recorder, outs: Sequence[Sequence[torch.Tensor]], xs: Sequence[torch.Tensor], group: Any, root: int, *_: Any
) -> None:
    """All gather, the root keeps what it gets."""
    (x,) = xs
    whole, shape = gathered(r, x, group)
    for parts in outs:
        rows = shape[0] // len(parts)
        for i, part in enumerate(parts):
            piece(r, whole, i * rows, rows, shape, part)


def scatter(
    r: Recorder, outs: Sequence[torch.Tensor], xs: Sequence[Sequence[torch.Tensor]], group: Any, root: int, *_: Any
) -> None:
    """A broadcast of all parts, of which each member keeps its own; others than the root have nothing to give."""
    name = r.groups.name(group)
    members = r.groups.members[name]
    (out,) = outs
    size, place = out.numel() * len(members), members.index(dist.get_rank())
    if dist.get_backend(dist.ProcessGroup.unbox(group)) == "fake":  # which leaves memory that nobody wrote
        out.copy_(xs[0][place] if xs else torch.zeros_like(out))
    if xs:
        whole = r.emit("clone", f"torch.ops.aten.clone.default({joined(r, xs[0])})", like(out, [size]))
    else:
        whole = r.emit("zeros", f"torch.ops.aten.zeros.default([{size}], dtype = {out.dtype})", like(out, [size]))
    call = f"{SPACE}.broadcast_.default({whole}, {root}, '{name}')"
    whole = waited(r, r.emit("broadcast_", call, like(out, [size])), like(out, [size]))
    piece(r, whole, place * out.numel(), out.numel(), [size], out)


def send(r: Recorder, tensors: Sequence[torch.Tensor], group: Any, peer: int, tag: int, *_: Any) -> None:
    for x in tensors:
        r.emit("isend", f"{SPACE}.isend.default({r.text(in_order(x))}, {peer}, {tag}, '{r.groups.name(group)}')", x)


def receive(r: Recorder, tensors: Sequence[torch.Tensor], group: Any, peer: int, tag: int, *_: Any) -> None:
    for x in tensors:
        r.names.overwritten(x)
        call = f"{SPACE}.irecv.default({r.text(x)}, {peer}, {tag}, '{r.groups.name(group)}')"
        r.await_(in_order(x), r.emit("irecv", call, x))


def nothing(*_: Any) -> None:
    """A barrier moves no values."""


COLLECTIVES: dict[str, Callable[..., None]] = {
    "allreduce_": all_reduce, "allreduce_coalesced_": all_reduce_coalesced, "broadcast_": broadcast,
    "_allgather_base_": all_gather_base, "allgather_": all_gather,
    "allgather_into_tensor_coalesced_": all_gather_coalesced, "_reduce_scatter_base_": reduce_scatter_base,
    "reduce_scatter_": reduce_scatter, "reduce_scatter_tensor_coalesced_": reduce_scatter_coalesced,
    "alltoall_base_": all_to_all_base, "alltoall_": all_to_all, "reduce_": reduce, "gather_": gather,
    "scatter_": scatter,
    "send": send, "recv_": receive, "barrier": nothing, "monitored_barrier_": nothing,
}  # fmt: skip
"""Name of an op of c10d → what it does. The arguments are those of its schema."""
