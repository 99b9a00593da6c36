"""What one rank gives to others while they are built, for ranks that are played one after the other.

A fake process group moves no data: without this, weights that `distribute_tensor` scatters from the first rank would be
memory that nobody wrote on all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from .recorder import PLAIN

__all__ = ["GivenAway"]


class GivenAway(TorchDispatchMode):  # type: ignore[misc]
    """While active, broadcasts and scatters of c10d take effect, if their root was played before: values lie in a
    folder, under the members of the group and the number of the call among its calls."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if FakeTensor not in types and any(t not in PLAIN for t in types):
            return NotImplemented  # a subclass says which plain ops it runs
        out = func(*args, **(kwargs or {}))
        name = func._schema.name if func.namespace == "c10d" else ""
        if name not in ("c10d::broadcast_", "c10d::scatter_"):
            return out
        scatters = name == "c10d::scatter_"
        group, root = args[2 if scatters else 1], args[3 if scatters else 2]
        members = dist.get_process_group_ranks(dist.ProcessGroup.unbox(group))
        me = members.index(dist.get_rank())
        key = "_".join(map(str, members))
        file = self.folder / f"{key}.{self.calls[key]}"
        self.calls[key] += 1
        if me == root:
            values = [t.detach().clone() for t in (args[1][0] if scatters else args[0])]
            torch.save(values, file)
        elif file.exists():
            values = torch.load(file)
        else:
            return out
        for target, value in zip(args[0], [values[me]] if scatters else values, strict=True):
            if target.shape == value.shape:
                target.detach().copy_(value)
        return out
