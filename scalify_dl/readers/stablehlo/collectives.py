"""Collectives, and the ids of ranks. Groups become groups of ranks, whatever id scheme the op uses."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.errors import InputError, in_short
from scalify_dl.ir.graph import Op, Tensor

from .. import regions
from ..hlo.groups import Groups, check_groups, to_pairs, to_ranks
from ..sdy import AxisRef
from .scope import Site, Value, lowers, unknown
from .structural import function_of
from .types import Type


@lowers("stablehlo.all_reduce")
def all_reduce(site: Site) -> list[Value]:
    """One op per operand."""
    return each(site, "all-reduce", rank_groups(site))


@lowers("stablehlo.reduce_scatter")
def reduce_scatter(site: Site) -> list[Value]:
    """One op per operand."""
    return each(site, "reduce-scatter", rank_groups(site), {"dimension": [site.number("scatter_dimension")]})


@lowers("stablehlo.all_gather")
def all_gather(site: Site) -> list[Value]:
    """One op per operand."""
    return each(site, "all-gather", rank_groups(site), {"dimension": [site.number("all_gather_dim")]})


@lowers("stablehlo.all_to_all")
def all_to_all(site: Site) -> list[Value]:
    """One op per operand."""
    numbers = {
        "split_dimension": [site.number("split_dimension")],
        "concat_dimension": [site.number("concat_dimension")],
    }
    groups, count = rank_groups(site, cross=True), site.number("split_count")
    if any(len(group) != count for group in groups):
        raise InputError(f"`{site.op.name}` sends {count} parts, its groups are {in_short(groups)}")
    return each(site, "all-to-all", groups, numbers)


@lowers("stablehlo.collective_broadcast")
def collective_broadcast(site: Site) -> list[Value]:
    """From the first member of every group."""
    groups = rank_groups(site, cross=True, partial=True)
    if sum(map(len, groups)) < site.module.ranks:  # the others get zeros, which the vocabulary does not say
        return unknown(site)
    return each(site, "collective-broadcast", groups)


def each(site: Site, kind: str, groups: Groups, numbers: dict[str, list[int]] | None = None) -> list[Value]:
    """One collective per operand, with the reducer of the op's region where it has one."""
    symbols = {}
    if len(site.op.regions):
        reducer = regions.reducer(function_of(site, site.operands[:1] * 2))
        if reducer in (None, "replace"):
            return unknown(site)
        symbols = {"reducer": [str(reducer)]}
    results: list[Value] = []
    for x, type_ in zip(site.operands, site.types, strict=True):
        assert type_ is not None
        op: Op = site.add(kind, [x], [type_], numbers=numbers, symbols=symbols, groups=groups)
        op.channel = channel_of(site)
        results.append(op.result)
    return results


def rank_groups(site: Site, *, cross: bool = False, partial: bool = False) -> Groups:
    """The op's groups as groups of ranks; `partial` groups need not cover all ranks."""
    module = site.module
    listed, global_ids = listed_groups(site)
    groups = to_ranks(
        listed,
        replicas=module.replicas,
        partitions=module.partitions,
        channel=has_channel(site),
        global_ids=site.has("use_global_device_ids") or global_ids,
        cross=cross,
    )
    try:
        check_groups(groups, module.ranks, partial=partial)
    except ValueError as error:
        raise InputError(
            f"replica {error}",
            hint="the module says how many there are: mhlo.num_replicas, mhlo.num_partitions, or its sdy.mesh",
        ) from None
    return groups


def has_channel(site: Site) -> bool:
    """Whether a collective is one of partitions (0 is no channel)."""
    return channel_of(site) > 0


def channel_of(site: Site) -> int:
    """The channel of a collective; 0 where it has none."""
    from jaxlib.mlir.dialects import stablehlo

    return int(stablehlo.ChannelHandle(site.attribute("channel_handle")).handle) if site.has("channel_handle") else 0


def listed_groups(site: Site) -> tuple[Groups, bool]:
    """The groups as written (dense, or axes of a mesh), and whether their ids are those of devices."""
    if not site.has("replica_groups"):
        return [], False
    attribute = site.attribute("replica_groups")
    if "replica_group_mesh_axes" in str(attribute):
        return mesh_groups(site), True
    rows, width = attribute.type.shape
    ids = site.numbers("replica_groups")
    groups = [[i for i in ids[row * width : (row + 1) * width] if i >= 0] for row in range(rows)]
    return [group for group in groups if group], False


def mesh_groups(site: Site) -> Groups:
    """Groups given by axes of a mesh that the module names."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    attribute = stablehlo.ReplicaGroupMeshAxesAttr(site.attribute("replica_groups"))
    name = str(attribute.mesh).lstrip("@").strip('"')
    mesh = site.module.meshes.get(name)
    if mesh is None:
        raise InputError(f"replica groups name the mesh `@{name}`, which the module does not define")
    refs: list[AxisRef] = []
    for item in ir.ArrayAttr(attribute.axes):
        axis = stablehlo.AxisRefAttr(item)
        whole = mesh.axis(axis.name)
        if axis.sub_axis_info is None:
            refs.append(whole)
        else:
            part = stablehlo.SubAxisInfoAttr(axis.sub_axis_info)
            refs.append(AxisRef(axis.name, part.pre_size, part.size))
    return mesh.groups(refs)


@lowers("stablehlo.collective_permute")
def collective_permute(site: Site) -> list[Value]:
    """Source and target ranks."""
    flat = site.numbers("source_target_pairs")
    listed = list(zip(flat[::2], flat[1::2], strict=True))
    module = site.module
    try:
        pairs = to_pairs(listed, replicas=module.replicas, partitions=module.partitions, channel=has_channel(site))
    except ValueError as error:
        raise InputError(f"source-target pairs {listed} {error}") from None
    op: Op = site.add("collective-permute", site.operands, [site.type], pairs=pairs)
    op.channel = channel_of(site)
    return [op.result]


@lowers("stablehlo.partition_id", "stablehlo.replica_id")
def own_id(site: Site) -> list[Value]:
    """The rank's own number: a rank-dependent constant where ranks have both a replica and a partition number."""
    module = site.module
    kind = "partition-id" if site.op.name == "stablehlo.partition_id" else "replica-id"
    if (module.replicas if kind == "partition-id" else module.partitions) == 1:
        return [site.emit(kind, [])]
    number = [
        rank % module.partitions if kind == "partition-id" else rank // module.partitions
        for rank in range(module.ranks)
    ]
    return [rank_constant(site, site.type, number)]


def rank_constant(site: Site, type_: Type, values: Sequence[int]) -> Tensor:
    """A scalar constant with a value for every rank."""
    op: Op = site.add("constant", [], [type_])
    op.rank_numbers["value", 0] = dict(enumerate(values))
    return op.result
