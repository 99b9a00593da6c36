"""Collectives: functional ones, c10d's in-place ones as values, vLLM's.

Members of a process group come from the annotation beside the dump, from the relations file, or from the call itself;
otherwise the op keeps the group's name, and whoever knows the mesh decides (`Op.group_name`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from .core import Context, F, Unsupported, lower
from .dims import Shape, axis

REDUCERS = {
    "sum": "sum", "avg": "sum", "max": "max", "min": "min", "product": "prod", "prod": "prod", "band": "and",
    "bor": "or", "and": "and", "or": "or", "bxor": "xor",
    "0": "sum", "1": "sum", "2": "prod", "3": "min", "4": "max", "5": "and", "6": "or", "7": "xor",
}  # fmt: skip
"""Reduce ops by name, and by their number in c10d's `ReduceOp`."""


def members(c: Context, group: object) -> list[int] | None:
    """The ranks of a group given by name or as a list; None where only the name is known."""
    if isinstance(group, list | tuple):
        return [int(rank) for rank in group]
    if not isinstance(group, str):
        raise Unsupported("a process group that is neither named nor listed")
    if c.alone:
        if len(c.groups.get(group, ())) > 1:
            raise InputError(
                f"`{c.name}` of the baseline runs over the ranks {list(c.groups[group])}",
                expected="a program of one device",
                hint="are BASE and DIST swapped?",
            )
        return [0]
    return list(c.groups[group]) if group in c.groups else None


def division(c: Context, group: object) -> list[list[int]] | None:
    """All groups that a name stands for: from the dump, the relations file, or (assumed) the only axis of the mesh."""
    ranks = members(c, group)
    if ranks is not None:
        return [ranks]
    named = c.divisions.get(str(group)) or ([c.spanned] if c.spanned else None)
    return None if named is None else [list(ranks) for ranks in named]


def count_of(c: Context, group: object) -> int | None:
    """The number of members of a group, as far as it is known."""
    sizes = {len(ranks) for ranks in division(c, group) or ()}
    return sizes.pop() if len(sizes) == 1 else None


def collective(
    c: Context,
    kind: str,
    x: Tensor,
    shape: Shape,
    group: object,
    numbers: dict[str, list[int]] | None = None,
    reducer: str | None = None,
) -> Tensor:
    """Appends a collective over a group; over a single member it is the identity."""
    ranks = members(c, group)
    if ranks is not None and len(ranks) == 1 and shape == x.shape:
        return x
    op = c.op(kind, (x,), ((x.dtype, shape),), numbers, {"reducer": [reducer]} if reducer else None)
    op.groups = None if ranks is None else [list(ranks)]
    op.group_name = group if isinstance(group, str) else None
    return op.result


def group_of(c: Context, tail: Sequence[object], group: object = None) -> object:
    """The group among the last arguments: a name, or (tag, ranks, size) in older graphs."""
    if group is not None:
        return group
    for value in tail:
        if isinstance(value, list | tuple) and value and all(isinstance(v, int) for v in value):
            return value
    named = [value for value in tail if isinstance(value, str) and value]
    return named[-1] if named else None


def _reducer(c: Context, op: object) -> str:
    name = str(op).lower()
    if name not in REDUCERS:
        raise Unsupported(f"reduction `{name}`")
    return REDUCERS[name]


def _averaged(c: Context, op: object, x: Tensor, count: int | None) -> Tensor:
    """An average is a sum over the number of members."""
    if str(op).lower() not in ("avg", "1"):
        return x
    if count is None:
        raise Unsupported("an average over a group whose members are not known")
    return c.multiply(x, Fraction(1, count))


FUNCTIONAL = ("_c10d_functional", "c10d_functional", "_c10d_functional_autograd")


def functional(name: str) -> Callable[[F], F]:
    """Registers a functional collective, its in-place variant and those of other namespaces."""
    return lower(*[f"{space}.{name}" for space in FUNCTIONAL], f"_c10d_functional.{name}_")


@lower(*[f"{space}.wait_tensor" for space in FUNCTIONAL], "_c10d_functional._wrap_tensor_autograd")
def wait_tensor(c: Context, x: Tensor) -> Tensor:
    return x


@functional("all_reduce")
def all_reduce(c: Context, x: Tensor, reduce_op: str, *group: object, group_name: object = None) -> Tensor:
    over = group_of(c, group, group_name)
    result = collective(c, "all-reduce", x, x.shape, over, reducer=_reducer(c, reduce_op))
    return _averaged(c, reduce_op, result, count_of(c, over))


@functional("all_reduce_coalesced")
def all_reduce_coalesced(c: Context, xs: Sequence[Tensor], reduce_op: str, *group: object) -> tuple[Tensor, ...]:
    return tuple(all_reduce(c, x, reduce_op, *group) for x in xs)


@lower(*[f"{space}.all_gather_into_tensor" for space in FUNCTIONAL], "_c10d_functional.all_gather_into_tensor_out")
def all_gather_into_tensor(
    c: Context,
    x: Tensor,
    *group: Any,
    group_size: int | None = None,
    group_name: object = None,
    out: Tensor | None = None,
) -> Tensor:
    """Concatenation along dim 0."""
    numbers = [value for value in group if isinstance(value, int)]
    size = group_size or (numbers[0] if numbers else 0)
    return gathered(c, x, 0, size, group_of(c, group, group_name))


def gathered(c: Context, x: Tensor, dim: int, size: int, group: object) -> Tensor:
    """All-gather along a dim over `size` members; a scalar gathers to a vector."""
    x = x if x.shape else c.reshape(x, (1,))
    shape = (*x.shape[:dim], x.shape[dim] * size, *x.shape[dim + 1 :])
    return collective(c, "all-gather", x, shape, group, {"dimension": [dim]})


@lower(*[f"{space}.all_gather_into_tensor_coalesced" for space in FUNCTIONAL])
def all_gather_coalesced(c: Context, xs: Sequence[Tensor], *group: object) -> tuple[Tensor, ...]:
    return tuple(all_gather_into_tensor(c, x, *group) for x in xs)


@lower(*[f"{space}.reduce_scatter_tensor" for space in FUNCTIONAL])
def reduce_scatter_tensor(
    c: Context, x: Tensor, reduce_op: str, *group: Any, group_size: int | None = None, group_name: object = None
) -> Tensor:
    """Reduced, dim 0 split over the members."""
    numbers = [value for value in group if isinstance(value, int)]
    size = group_size or (numbers[-1] if numbers else 0)
    return scattered(c, x, 0, size, group_of(c, group, group_name), reduce_op)


def scattered(c: Context, x: Tensor, dim: int, size: int, group: object, reduce_op: object) -> Tensor:
    """Reduce-scatter along a dim over `size` members."""
    if not x.shape or size < 1 or x.shape[dim] % size:
        raise InputError(f"dim {dim} of {x.type} cannot be scattered over {size} members")
    shape = (*x.shape[:dim], x.shape[dim] // size, *x.shape[dim + 1 :])
    result = collective(c, "reduce-scatter", x, shape, group, {"dimension": [dim]}, _reducer(c, reduce_op))
    return _averaged(c, reduce_op, result, size)


@lower(*[f"{space}.reduce_scatter_tensor_coalesced" for space in FUNCTIONAL])
def reduce_scatter_coalesced(c: Context, xs: Sequence[Tensor], reduce_op: str, *group: object) -> tuple[Tensor, ...]:
    return tuple(reduce_scatter_tensor(c, x, reduce_op, *group) for x in xs)


@lower(*[f"{space}.all_to_all_single" for space in FUNCTIONAL])
def all_to_all_single(
    c: Context, x: Tensor, output_splits: Sequence[Any] | None = None, input_splits: Sequence[Any] | None = None,
    *group: object, group_name: object = None,
) -> Tensor:  # fmt: skip
    """Equal parts of dim 0 change places; unequal ones depend on data."""
    for splits in (output_splits or (), input_splits or ()):
        if (
            any(not isinstance(n, int) for n in splits)
            or len(set(splits)) > 1
            or (splits and sum(splits) != x.shape[0])
        ):
            raise Unsupported("all-to-all with unequal or data-dependent splits")
    numbers = {"split_dimension": [0], "concat_dimension": [0]}
    return collective(c, "all-to-all", x, x.shape, group_of(c, group, group_name), numbers)


@lower("_dtensor.shard_dim_alltoall")
def shard_dim_alltoall(c: Context, x: Tensor, gather_dim: int, shard_dim: int, group: object) -> Tensor:
    """Moves a sharding from one dim to another."""
    size = count_of(c, group)
    if size is None:
        raise Unsupported("shard_dim_alltoall over a group whose members are not known")
    gather, shard = axis(gather_dim, len(x.shape)), axis(shard_dim, len(x.shape))
    shape = list(x.shape)
    shape[shard] //= size
    shape[gather] *= size
    numbers = {"split_dimension": [shard], "concat_dimension": [gather]}
    return collective(c, "all-to-all", x, tuple(shape), group, numbers)


@functional("broadcast")
def broadcast(c: Context, x: Tensor, src: int, *group: object) -> Tensor:
    """The value of the member at position `src` of the group, which therefore comes first."""
    over = group_of(c, group)
    groups = division(c, over)
    if src == 0 and members(c, over) is None:
        return collective(c, "collective-broadcast", x, x.shape, over)
    if groups is None:
        raise Unsupported("a broadcast over a group whose members are not known")
    for ranks in groups:
        if not 0 <= src < len(ranks):
            raise InputError(f"broadcast from member {src} of the group {ranks}")
    first = [[ranks[src], *(rank for rank in ranks if rank != ranks[src])] for ranks in groups]
    result = collective(c, "collective-broadcast", x, x.shape, first[0])
    if members(c, over) is None:  # named: by the relations file, or nowhere
        op = c.producers[result] if len(first[0]) > 1 else None
        if op is not None:
            op.groups, op.group_name = first, str(over)
            if str(over) not in c.divisions:
                c.graph.assume(result, f"process group `{over}` is all {len(c.spanned)} ranks", "group")
    return result


@lower("_c10d_functional.isend")
def isend(c: Context, x: Tensor, peer: int, tag: int, group: object) -> Tensor:
    """A message to a member of the group, in the order of those with one tag."""
    op = c.op("send", (x,), ())
    op.numbers["peer"], op.symbols["channel"] = _channel(c, peer, tag, group)
    return x


@lower("_c10d_functional.irecv")
def irecv(c: Context, x: Tensor, peer: int, tag: int, group: object) -> Tensor:
    """A message from a member of the group."""
    op = c.op("recv", (), ((x.dtype, x.shape),))
    op.numbers["peer"], op.symbols["channel"] = _channel(c, peer, tag, group)
    return op.result


def _channel(c: Context, peer: int, tag: int, group: object) -> tuple[list[int], list[str]]:
    """The rank of a member, and what tells its messages from others'."""
    ranks = members(c, group)
    if c.alone or ranks is None:
        raise Unsupported("a message within a group whose members are not known")
    if not 0 <= peer < len(ranks):
        raise InputError(f"a message to member {peer} of the group {ranks}")
    return [ranks[peer]], [f"{group} {tag}"]


# --- vLLM ------------------------------------------------------------------------------------------------------------


@lower("vllm.all_reduce")
def vllm_all_reduce(c: Context, x: Tensor, group_name: str) -> Tensor:
    return all_reduce(c, x, "sum", group_name)


@lower("vllm.all_gather")
def vllm_all_gather(c: Context, x: Tensor, dim: int, world_size: int, group_name: str) -> Tensor:
    return gathered(c, x, axis(dim, len(x.shape)), world_size, group_name)


@lower("vllm.reduce_scatter")
def vllm_reduce_scatter(c: Context, x: Tensor, dim: int, world_size: int, group_name: str) -> Tensor:
    return scattered(c, x, axis(dim, len(x.shape)), world_size, group_name, "sum")


# --- c10d, in place: what is written, in the structure of the written argument ---------------------------------------


def _printed(c: Context, reduce_op: object) -> str:
    """The reduction of a c10d call: an object that the text may only name; then somebody else says it."""
    name = str(getattr(reduce_op, "path", reduce_op))
    if name.lower() in REDUCERS:
        return name
    if c.alone:
        return "sum"
    c.graph.reductions.add(name)
    said = {reducer for pattern, reducer in c.reductions.items() if fnmatchcase(name, pattern)}
    if len(said) != 1:
        what = "the relations file says several" if said else "say it in the relations file"
        raise Unsupported(f'the dump does not print its reduction, {what}: `reductions: {{"{name}": sum}}`')
    return said.pop()


def _group(group: object) -> object:
    """A process group is an object in c10d calls; the attribute that holds it is all the text shows."""
    path = getattr(group, "path", group)
    return path if isinstance(path, str) or type(path) in (list, tuple) else None


@lower("c10d.allreduce_")
def c10d_allreduce(
    c: Context, xs: Sequence[Tensor], group: object, reduce_op: object, sparse: Tensor | None = None,
    _wait: object = True, _timeout: object = -1,
) -> list[Tensor]:  # fmt: skip
    if sparse is not None:
        raise Unsupported("an all-reduce of sparse tensors")
    return [all_reduce(c, x, _printed(c, reduce_op), _group(group)) for x in xs]


@lower("c10d.allreduce_coalesced_")
def c10d_allreduce_coalesced(
    c: Context, xs: Sequence[Tensor], group: object, reduce_op: object,
    _wait: object = True, _timeout: object = -1,
) -> list[Tensor]:  # fmt: skip
    return c10d_allreduce(c, xs, group, reduce_op)


@lower("c10d.broadcast_")
def c10d_broadcast(
    c: Context, xs: Sequence[Tensor], group: object, root: int, root_tensor: int = 0, _wait: object = True,
    _timeout: object = -1,
) -> list[Tensor]:  # fmt: skip
    if root_tensor:
        raise Unsupported("a broadcast of another than the first tensor")
    return [broadcast(c, x, root, _group(group)) for x in xs]


@lower("c10d._allgather_base_")
def c10d_allgather(
    c: Context, out: Tensor, x: Tensor, group: object, _wait: object = True, _timeout: object = -1
) -> Tensor:
    return c.reshape(gathered(c, x, 0, _ratio(out, x), _group(group)), out.shape)


@lower("c10d.allgather_into_tensor_coalesced_")
def c10d_allgather_coalesced(
    c: Context, outs: Sequence[Tensor], xs: Sequence[Tensor], group: object,
    _wait: object = True, _timeout: object = -1,
) -> list[Tensor]:  # fmt: skip
    return [c10d_allgather(c, out, x, group) for out, x in zip(outs, xs, strict=True)]


@lower("c10d.allgather_")
def c10d_allgather_list(
    c: Context, outs: Sequence[Sequence[Tensor]], xs: Sequence[Tensor], group: object,
    _wait: object = True, _timeout: object = -1,
) -> list[list[Tensor]]:  # fmt: skip
    """The part of each member."""
    if len(outs) != 1 or len(xs) != 1:
        raise Unsupported("an all-gather of several tensors at once")
    x, count = xs[0], len(outs[0])
    rows = x.shape[0] if x.shape else 1
    whole = gathered(c, x, 0, count, _group(group))
    return [[c.reshape(c.slice(whole, 0, i * rows, (i + 1) * rows), x.shape) for i in range(count)]]


@lower("c10d._reduce_scatter_base_")
def c10d_reduce_scatter(
    c: Context, out: Tensor, x: Tensor, group: object, reduce_op: object, _wait: object = True, _timeout: object = -1
) -> Tensor:
    return c.reshape(scattered(c, x, 0, _ratio(x, out), _group(group), _printed(c, reduce_op)), out.shape)


@lower("c10d.reduce_scatter_tensor_coalesced_")
def c10d_reduce_scatter_coalesced(
    c: Context, outs: Sequence[Tensor], xs: Sequence[Tensor], group: object, reduce_op: object,
    _wait: object = True, _timeout: object = -1,
) -> list[Tensor]:  # fmt: skip
    return [c10d_reduce_scatter(c, out, x, group, reduce_op) for out, x in zip(outs, xs, strict=True)]


@lower("c10d.reduce_scatter_")
def c10d_reduce_scatter_list(
    c: Context, outs: Sequence[Tensor], xs: Sequence[Sequence[Tensor]], group: object, reduce_op: object,
    _wait: object = True, _timeout: object = -1,
) -> list[Tensor]:  # fmt: skip
    if len(outs) != 1 or len(xs) != 1:
        raise Unsupported("a reduce-scatter of several tensors at once")
    whole = c.concatenate([x if x.shape else c.reshape(x, (1,)) for x in xs[0]], 0)
    part = scattered(c, whole, 0, len(xs[0]), _group(group), _printed(c, reduce_op))
    return [c.reshape(part, outs[0].shape)]


@lower("c10d.alltoall_base_")
def c10d_alltoall(
    c: Context, out: Tensor, x: Tensor, group: object, output_splits: Sequence[int] = (),
    input_splits: Sequence[int] = (), _wait: object = True, _timeout: object = -1,
) -> Tensor:  # fmt: skip
    return all_to_all_single(c, x, output_splits, input_splits, _group(group))


def _ratio(whole: Tensor, part: Tensor) -> int:
    if not whole.shape or not part.shape or part.shape[0] == 0 or whole.shape[0] % part.shape[0]:
        raise InputError(f"{whole.type} is no multiple of {part.type} along dim 0")
    return whole.shape[0] // part.shape[0]
