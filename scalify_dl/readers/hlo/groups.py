"""Rank groups of collectives in all their spellings, and what their ids mean.

Spellings: `{{0,1},{2,3}}`, `[4,2]<=[2,2,2]T(0,2,1)` (iota, reshaped, transposed, split), `mesh['a'=2,'b'=4] {'a'}` and
the same with `device_ids=([2,4]T(1,0))`; empty: everyone.
Meaning, by XLA's group modes: without a channel the ids are replicas (the groups hold in every partition); with a
channel and `use_global_device_ids` they are flattened ids `replica * partitions + partition`; with a channel only, they
are replicas whose groups span all partitions (reductions, gathers) or partitions (all-to-all, permute).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from scalify_dl.errors import in_short

from .attributes import integers

_IOTA = re.compile(r"\[([\d,\s]+)\]<=\[([\d,\s]+)\](?:T\(([\d,\s]+)\))?\s*\Z")
_MESH = re.compile(r"@?mesh\s*\[([^\]]*)\]\s*(?:\{([^}]*)\})?\s*\Z")
_AXIS = re.compile(r"'([^']*)'\s*=\s*(\d+)")
_USED = re.compile(r"'([^']*)'(?:\s*:\s*\((\d+)\)\s*(\d+))?")
_DEVICES = re.compile(r"\(\s*\[([\d,\s]+)\](?:T\(([\d,\s]+)\))?\s*\)\s*(?:\{([^}]*)\})?\s*\Z")
_INNER = re.compile(r"\{([\d,\s]*)\}")
IDS_LIMIT = 2**20

Groups = list[list[int]]


def iota(dims: list[int], reshape: list[int], order: list[int] | None) -> list[int]:
    """`iota(prod(dims)).reshape(reshape).transpose(order)`, flattened."""
    if prod(dims) != prod(reshape):
        raise ValueError(f"{dims} and {reshape} hold different numbers of ids")
    if prod(reshape) > IDS_LIMIT:
        raise ValueError(f"{prod(reshape)} ids")
    if order is None:
        return list(range(prod(reshape)))
    if sorted(order) != list(range(len(reshape))):
        raise ValueError(f"T{tuple(order)} does not permute {reshape}")
    strides = [prod(reshape[i + 1 :]) for i in range(len(reshape))]
    ids = [0]
    for axis in order:
        ids = [i + step * strides[axis] for i in ids for step in range(reshape[axis])]
    return ids


def split(ids: list[int], size: int) -> Groups:
    """Consecutive groups of `size`."""
    return [ids[i : i + size] for i in range(0, len(ids), size)]


def parse_groups(text: str, device_ids: str | None = None) -> Groups:
    """The groups of a `replica_groups` value (with its `device_ids`), ids as they stand; ValueError where malformed."""
    text = text.strip()
    match = _IOTA.match(text)
    if match:
        shape = integers(match[1])
        ids = iota(shape, integers(match[2]), integers(match[3]) if match[3] else None)
        return split(ids, shape[-1])
    match = _MESH.match(text)
    if match:
        return _mesh_groups(match, device_ids)
    if text.startswith("{") and text.endswith("}"):
        inner = text[1:-1].strip()
        if not inner:
            return []
        groups = [integers(group) for group in _INNER.findall(inner)]
        if _INNER.sub("", inner).strip(", \n") or not groups:
            raise ValueError(f"`{text[:60]}` is no list of groups")
        return [group for group in groups if group]
    raise ValueError(
        f"`{text[:60]}` is no list of groups: expected {{{{0,1}},{{2,3}}}}, [2,2]<=[4] or mesh['a'=2] {{'a'}}"
    )


def _mesh_groups(match: re.Match[str], device_ids: str | None) -> Groups:
    axes = [(name, int(size)) for name, size in _AXIS.findall(match[1])]
    sizes = [size for _, size in axes]
    used_text = match[2]
    ids = list(range(prod(sizes)))
    if device_ids is not None:
        devices = _DEVICES.match(device_ids)
        if not devices:
            raise ValueError(f"`device_ids={device_ids[:60]}` is no device order such as ([2,4]T(1,0))")
        reshape = integers(devices[1])
        ids = iota(sizes, reshape, integers(devices[2]) if devices[2] else None)
        used_text = devices[3] if devices[3] is not None else used_text
    if not axes or used_text is None:
        raise ValueError("a mesh without axes, or without the axes that form groups")
    # Axes are cut at sub-axes `'a':(pre)size`, so that every position is either in the group or outside of it.
    positions: list[tuple[int, str | None]] = []
    used: dict[str, tuple[int, int] | None] = {}
    order: list[str] = []
    for name, pre, size in _USED.findall(used_text):
        used[name] = (int(pre), int(size)) if pre else None
        order.append(name)
    for name, size in axes:
        if name not in used:
            positions.append((size, None))
            continue
        sub = used[name]
        if sub is None:
            positions.append((size, name))
            continue
        pre, part = sub
        if pre * part <= 0 or size % (pre * part):
            raise ValueError(f"sub-axis '{name}':({pre}){part} does not divide {size}")
        positions += [(pre, None), (part, name), (size // (pre * part), None)]
    if not set(used) <= {name for name, _ in axes}:
        raise ValueError(f"group axes {sorted(used)} are no axes of the mesh")
    strides = [prod(size for size, _ in positions[i + 1 :]) for i in range(len(positions))]
    inside = [(strides[i], size) for name in order for i, (size, axis) in enumerate(positions) if axis == name]
    outside = [(strides[i], size) for i, (size, axis) in enumerate(positions) if axis is None]
    return [[ids[start + step] for step in _offsets(inside)] for start in _offsets(outside)]


def _offsets(positions: list[tuple[int, int]]) -> list[int]:
    offsets = [0]
    for stride, size in positions:
        offsets = [offset + stride * step for offset in offsets for step in range(size)]
    return offsets


def channel_of(attributes: Mapping[str, str]) -> int:
    """The channel of a collective; 0 where it has none."""
    return next(iter(integers(attributes.get("channel_id", "0"))), 0)


def to_ranks(groups: Groups, *, replicas: int, partitions: int, channel: bool, global_ids: bool, cross: bool) -> Groups:
    """Groups of ranks (`replica * partitions + partition`) from groups of ids. `cross`: a channel without global ids
    groups partitions, as in all-to-all, instead of replicas with all their partitions."""
    total = replicas * partitions
    if channel and global_ids:
        return groups or [list(range(total))]
    if channel and cross:
        groups = groups or [list(range(partitions))]
        return [[replica * partitions + p for p in group] for replica in range(replicas) for group in groups]
    if channel:
        groups = groups or [list(range(replicas))]
        return [[r * partitions + p for r in group for p in range(partitions)] for group in groups]
    groups = groups or [list(range(replicas))]
    return [[r * partitions + p for r in group] for p in range(partitions) for group in groups]


def to_pairs(pairs: list[tuple[int, int]], *, replicas: int, partitions: int, channel: bool) -> list[tuple[int, int]]:
    """Pairs of ranks from pairs of ids: of partitions where there is a channel, else of replicas. ValueError where
    they are no one-to-one map between ranks."""
    if channel:
        found = [(r * partitions + a, r * partitions + b) for r in range(replicas) for a, b in pairs]
    else:
        found = [(a * partitions + p, b * partitions + p) for p in range(partitions) for a, b in pairs]
    total = replicas * partitions
    for ranks in zip(*found, strict=True):
        if len(set(ranks)) != len(ranks) or any(not 0 <= rank < total for rank in ranks):
            raise ValueError(f"do not fit {total} ranks")
    return found


def check_groups(groups: Groups, total: int, *, partial: bool = False) -> None:
    """ValueError unless the groups partition the ranks 0 … total-1 (`partial`: some of them)."""
    members = [rank for group in groups for rank in group]
    if len(set(members)) != len(members):
        raise ValueError(f"groups {in_short(groups)} name a rank twice")
    if sorted(members) != list(range(total)) and not (partial and all(0 <= rank < total for rank in members)):
        outside = [rank for rank in members if not 0 <= rank < total]
        missing = sorted(set(range(total)) - set(members))
        what = f"rank {outside[0]} is outside of it" if outside else f"rank {missing[0]} is in no group"
        raise ValueError(f"groups {in_short(groups)} do not fit the mesh of {total} ranks: {what}")
    if not partial and len({len(group) for group in groups}) > 1:
        raise ValueError(f"groups {in_short(groups)} are of several sizes, which facts have no form for")
