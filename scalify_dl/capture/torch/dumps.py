"""What a dump is written with: the text, and the JSON beside it with placements, groups and rank."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from scalify_dl.errors import InputError

__all__ = [
    "SOURCE", "groups_of", "in_mesh_order", "placement_of", "placements_of", "rank_of", "short_place", "shortened",
    "write_dump",
]  # fmt: skip

SOURCE = re.compile(r"(# File: )(\S+)")


def short_place(path: str) -> str:
    """A source path without what differs between machines: relative to site-packages or to the working directory."""
    _, found, inner = path.rpartition("site-packages/")
    return found + inner if found else path.removeprefix(f"{Path.cwd()}/")


def shortened(match: re.Match[str]) -> str:
    """A `# File:` comment with a short path."""
    return match[1] + short_place(match[2])


def write_dump(path: str | Path, text: str, annotation: Mapping[str, Any]) -> Path:
    """The text, and the annotation beside it."""
    target = Path(f"{path}.fx.txt")
    target.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{path}.json").write_text(json.dumps(annotation, indent=1) + "\n", "utf-8")
    target.write_text(text, "utf-8")
    return target


def placements_of(model: nn.Module) -> dict[str, list[Any]]:
    """DTensor placements, global and local shape and mesh axes of every parameter and buffer."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: placement_of(name, value) for name, value in named}


def placement_of(name: str, value: torch.Tensor) -> list[Any]:
    """DTensor placements, global and local shape and mesh axes of a tensor; `local` and its shape for a plain one."""
    if not isinstance(value, DTensor):
        return ["local", list(value.shape)]
    entry = [str(value.placements), list(value.shape), list(value._local_tensor.shape)]
    names = value.device_mesh.mesh_dim_names
    in_mesh_order(name, getattr(value._spec, "shard_order", ()))
    return entry if names is None else [*entry, list(names)]


def in_mesh_order(name: str, order: Sequence[Any] | None) -> None:
    """Mesh dims that shard one tensor dim do so in the order of the mesh: placements alone say no other order."""
    for entry in order or ():  # none is kept for strided shards
        dims = list(entry.mesh_dims)
        if dims != sorted(dims):
            raise InputError(
                f"`{name}` is sharded over mesh dims in the order {dims}",
                hint="shard in the order of the mesh: DTensor placements cannot say another one",
            )


def rank_of(mesh: Mapping[str, int] | None) -> dict[str, Any]:
    """Which rank of which mesh this is; of how many ranks, where the mesh is not given."""
    if not dist.is_initialized():
        return {}
    place = {"mesh": dict(mesh)} if mesh else {"world": dist.get_world_size()}
    return {"rank": dist.get_rank(), **place}


def groups_of() -> dict[str, list[int]]:
    """Members of every process group by the name that collectives use."""
    if not dist.is_initialized():
        return {}
    names = dist.distributed_c10d._world.pg_names
    return {name: dist.get_process_group_ranks(group) for group, name in names.items()}
