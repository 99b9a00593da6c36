"""Where ranks meet: collectives with their groups, permutes and messages with their pairs, as ranks."""

from __future__ import annotations

import re
from typing import NamedTuple

from scalify_dl.readers.hlo.attributes import unquote
from scalify_dl.readers.hlo.groups import channel_of, check_groups, parse_groups, to_pairs, to_ranks
from scalify_dl.readers.hlo.module import Instruction, Module
from scalify_dl.readers.hlo.types import ArrayType, flatten

COLLECTIVES = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-broadcast",
)  # fmt: skip
EXCHANGES = (*COLLECTIVES, "collective-permute", "send", "recv")
_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_PEERS = "_xla_send_recv_source_target_pairs"


class Exchange(NamedTuple):
    """A collective of groups, or messages between pairs; what members have to agree on."""

    groups: list[list[int]] | None
    pairs: list[tuple[int, int]] | None
    sides: tuple[bool, bool]
    """Of pairs: whether this sends, and whether it receives."""
    carries: tuple[tuple[str, str], ...]


def exchange_of(module: Module, i: Instruction) -> Exchange | None:
    """What an instruction exchanges, None for transfers to and from the host."""
    replicas, partitions = module.replicas, module.partitions
    opcode = i.opcode.removesuffix("-start")
    channel = channel_of(i.attributes)
    type_ = i.type
    if opcode != i.opcode and opcode != "all-reduce" and not isinstance(type_, ArrayType) and len(type_) > 1:
        type_ = type_[1]
    carries = [("channel", str(channel)), ("shape", ", ".join(f"{a.dtype}{list(a.shape)}" for a in flatten(type_)))]
    try:
        if opcode in COLLECTIVES:
            groups = parse_groups(i.attributes.get("replica_groups", "{}"), i.attributes.get("device_ids"))
            everywhere = i.attributes.get("use_global_device_ids") == "true"
            cross = opcode in ("all-to-all", "ragged-all-to-all", "collective-broadcast")
            ranks = to_ranks(groups, replicas=replicas, partitions=partitions, channel=channel > 0,
                             global_ids=everywhere, cross=cross)  # fmt: skip
            check_groups(ranks, replicas * partitions, partial=True)
            carries += [("kind", opcode), ("dimensions", i.attributes.get("dimensions", ""))]
            if "to_apply" in i.attributes:
                reducer = module.computations.get(i.attributes["to_apply"].strip().lstrip("%"))
                carries.append(("reducer", reducer.root.opcode if reducer else ""))
            return Exchange(ranks, None, (True, True), tuple(carries))
        if opcode == "collective-permute":
            text = i.attributes.get("source_target_pairs", "")
        elif i.attributes.get("is_host_transfer") == "true":
            return None
        else:
            text = unquote(_entry(i.attributes.get("frontend_attributes", ""), _PEERS))
            if not text:
                raise ValueError("says no pairs of ranks")
        pairs = [(int(a), int(b)) for a, b in _PAIR.findall(text)]
        if _PAIR.sub("", text).strip("{}, "):
            raise ValueError(f"`{text[:60]}` is no list of pairs")
        to = to_pairs(pairs, replicas=replicas, partitions=partitions, channel=channel > 0) if pairs else []
    except ValueError as error:
        raise i.error(str(error)) from None
    return Exchange(None, to, (opcode != "recv", opcode != "send"), tuple(carries))


def _entry(text: str, key: str) -> str:
    """The value of a key in `{a="…",b={…}}`."""
    match = re.search(re.escape(key) + r'=("(?:[^"\\]|\\.)*"|\{(?:[^{}]|\{[^{}]*\})*\})', text)
    return match[1] if match else ""
