"""Lowering of HLO collectives: variadic ones split, asynchronous pairs joined, groups as ranks."""

from __future__ import annotations

import re
from functools import lru_cache

from scalify_dl.ir.graph import Tensor

from .. import regions
from .groups import Groups, channel_of, check_groups, parse_groups, to_pairs, to_ranks
from .lower import Lowering, opcode, unknown
from .module import Instruction
from .types import ArrayType, flatten
from .values import agree, numbers_of, opened, shaped, tensors

_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")


def has_channel(i: Instruction) -> bool:
    """Whether a collective is one of partitions (0 is no channel)."""
    return channel_of(i.attributes) > 0


def rank_groups(lo: Lowering, i: Instruction, cross: bool = False, partial: bool = False) -> Groups:
    """The rank groups of a collective; InputError where they do not fit the mesh (`partial`: ranks may be left out)."""
    attributes = i.attributes
    try:
        return _groups_of_ranks(
            attributes.get("replica_groups", "{}"),
            attributes.get("device_ids"),
            lo.replicas,
            lo.partitions,
            channel=has_channel(i),
            global_ids=attributes.get("use_global_device_ids") == "true",
            cross=cross,
            partial=partial,
        )
    except ValueError as error:
        raise i.error(
            str(error),
            hint="is --mesh right? are BASE and DIST swapped?"
            if not lo.is_base
            else "BASE runs on one rank: are BASE and DIST swapped?",
        ) from None


@lru_cache(maxsize=64)
def _groups_of_ranks(
    text: str,
    device_ids: str | None,
    replicas: int,
    partitions: int,
    *,
    channel: bool,
    global_ids: bool,
    cross: bool,
    partial: bool,
) -> Groups:
    """Collectives share few texts, which grow with the mesh."""
    groups = parse_groups(text, device_ids)
    if global_ids and not channel:
        raise ValueError("use_global_device_ids without a channel_id")
    ranks = to_ranks(
        groups, replicas=replicas, partitions=partitions, channel=channel, global_ids=global_ids, cross=cross
    )
    check_groups(ranks, replicas * partitions, partial=partial)
    return ranks


def per_operand(
    lo: Lowering,
    i: Instruction,
    operands: list[object],
    numbers: dict[str, list[int]],
    reducer: str | None,
    groups: Groups,
    start_types: list[ArrayType] | None = None,
) -> object:
    """One op per operand; a single result, or a tuple of them."""
    kind = i.opcode.removesuffix("-start")
    x = tensors(i, operands)
    types = start_types if start_types is not None else flatten(i.type)
    if len(types) != len(x):
        raise i.error(f"{len(x)} operands, {len(types)} results")
    found: list[Tensor] = []
    for n, (tensor, type_) in enumerate(zip(x, types, strict=True)):
        op = lo.emit(
            i,
            kind,
            [tensor],
            [(type_.dtype, type_.shape)],
            numbers={key: list(values) for key, values in numbers.items()},
            symbols={"reducer": [reducer]} if reducer else {},
            groups=groups,
            suffix=f".{n}" if len(x) > 1 else "",
        )
        found.append(op.result)
    return found[0] if len(found) == 1 and (start_types is not None or isinstance(i.type, ArrayType)) else list(found)


def reducer_of(lo: Lowering, i: Instruction) -> str | None:
    """The collective's reducer, None where it is none of the vocabulary's."""
    kind = lo.recognised(regions.reducer, i, "to_apply")
    return None if kind == "replace" else kind


@opcode("all-reduce", "all-reduce-start")
def all_reduce(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A reduction over ranks."""
    reducer = reducer_of(lo, i)
    if reducer is None:
        return unknown(lo, i, operands)
    value = per_operand(lo, i, operands, {}, reducer, rank_groups(lo, i))
    if i.opcode.endswith("-start"):
        lo.asynchronous[i.name] = value
    return value


@opcode("all-gather", "all-gather-start")
def all_gather(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Concatenation over ranks; the asynchronous start's type is (operands, results)."""
    numbers = {"dimension": numbers_of(i, "dimensions")[:1]}
    types = None
    if i.opcode.endswith("-start"):
        type_ = i.type
        if isinstance(type_, ArrayType) or len(type_) < 2:
            raise i.error(f"has type {i.type_text}", expected="(operands, results)")
        agree(i, type_[0], operands)
        types = flatten(type_[1])
    value = per_operand(lo, i, operands, numbers, None, rank_groups(lo, i), types)
    if i.opcode.endswith("-start"):
        lo.asynchronous[i.name] = value
    return value


@opcode("reduce-scatter")
def reduce_scatter(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A reduction over ranks, each keeping its part."""
    reducer = reducer_of(lo, i)
    if reducer is None:
        return unknown(lo, i, operands)
    return per_operand(lo, i, operands, {"dimension": numbers_of(i, "dimensions")[:1]}, reducer, rank_groups(lo, i))


@opcode("all-to-all")
def all_to_all(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Along a dim; the tuple form sends operand k to member k and is lowered to the same over a new major dim."""
    groups = rank_groups(lo, i, cross=True)
    if "dimensions" in i.attributes and isinstance(i.type, ArrayType):
        dimension = numbers_of(i, "dimensions")[:1]
        numbers = {"split_dimension": dimension, "concat_dimension": list(dimension)}
        return per_operand(lo, i, operands, numbers, None, groups)
    x = tensors(i, operands)
    size = len(groups[0]) if groups else 1
    if len(x) != size or any(t.shape != x[0].shape for t in x):
        raise i.error(f"{len(x)} operands for groups of {size} ranks", expected="one operand of one shape per member")
    dtype, shape = x[0].dtype, x[0].shape
    major = [lo.emit(i, "reshape", [t], [(dtype, (1, *shape))], suffix=f".in{n}").result for n, t in enumerate(x)]
    stacked = lo.emit(i, "concatenate", major, [(dtype, (size, *shape))], numbers={"dimension": [0]}, suffix=".stack")
    numbers = {"split_dimension": [0], "concat_dimension": [0]}
    exchanged = lo.emit(i, "all-to-all", [stacked.result], [(dtype, (size, *shape))], numbers=numbers, groups=groups)
    found = []
    for n in range(size):
        bounds = {
            "start": [n] + [0] * len(shape),
            "limit": [n + 1, *shape],
            "stride": [1] * (len(shape) + 1),
        }
        part = lo.emit(i, "slice", [exchanged.result], [(dtype, (1, *shape))], numbers=bounds, suffix=f".part{n}")
        found.append(lo.emit(i, "reshape", [part.result], [(dtype, shape)], suffix=f".out{n}").result)
    return found if not isinstance(i.type, ArrayType) else found[0]


@opcode("collective-permute", "collective-permute-start")
def collective_permute(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Every rank's value to its target; ranks without a source get zeros."""
    text = i.attributes.get("source_target_pairs", "")
    pairs = [(int(a), int(b)) for a, b in _PAIR.findall(text)]
    if _PAIR.sub("", text).strip("{}, "):
        raise i.error(f"source_target_pairs={text}", expected="{{0,1},{1,2}}")
    try:
        pairs = to_pairs(pairs, replicas=lo.replicas, partitions=lo.partitions, channel=has_channel(i))
    except ValueError as error:
        raise i.error(
            f"source_target_pairs={text} {error}", expected="distinct sources and targets within the mesh"
        ) from None
    flat = [t for operand in operands for t in opened(operand) if t is not None]
    if len(flat) not in (1, len(flatten(i.type))) and not i.opcode.endswith("-start"):
        return unknown(lo, i, operands)
    if i.opcode.endswith("-start") and len(operands) != 1:
        return unknown(lo, i, operands)
    found = [
        lo.emit(
            i, "collective-permute", [t], [(t.dtype, t.shape)], pairs=pairs, suffix=f".{n}" if len(flat) > 1 else ""
        ).result
        for n, t in enumerate(flat)
    ]
    if i.opcode.endswith("-start") and not isinstance(i.type, ArrayType):
        for declared in i.type[:2]:
            agree(i, declared, operands)
    value: object = found[0] if len(found) == 1 else shaped(found, i.type)
    if i.opcode.endswith("-start"):
        lo.asynchronous[i.name] = value
    return value


@opcode("collective-broadcast")
def collective_broadcast(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """The first member's value, for its group. Ranks in no group get zeros, which the vocabulary does not say."""
    groups = rank_groups(lo, i, cross=True, partial=True)
    if sum(map(len, groups)) < lo.replicas * lo.partitions:
        return unknown(lo, i, operands)
    return per_operand(lo, i, operands, {}, None, groups)
