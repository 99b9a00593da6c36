"""In which order a rank posts messages between two ranks, and waits for them: what a step's dump says beside its text,
which has each message where it is posted, and no waits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed as dist

from .timeline import Piece, Run, watched

__all__ = ["Posted", "posted"]


class Posted(Run):
    """The messages of one rank."""

    def pieces(self, tensors: Any, *, fresh: bool = False) -> list[Piece]:
        """Memory is none of it."""
        return []

    def call(self, method: str, before: Callable[..., Any], group: Any, *args: Any, **kwargs: Any) -> Any:
        """Of what is called, messages."""
        if method not in ("send", "recv"):
            return before(group, *args, **kwargs)
        return super().call(method, before, group, *args, **kwargs)

    def noted(self) -> dict[str, Any]:
        """For the JSON beside a dump; nothing of a program without messages between two ranks."""
        number: dict[int, int] = {}
        events: list[dict[str, Any]] = []
        for n, event in enumerate(self.events):
            if event["do"] in ("send", "recv"):
                number[n] = len(events)
                events.append(event)
            elif event["do"] == "wait" and event["awaited"] in number:
                events.append({**event, "awaited": number[event["awaited"]]})
        if not number:
            return {}
        groups = {name: ranks for name, ranks in self.groups.items() if any(e.get("group") == name for e in events)}
        return {"posted": {"rank": self.rank, "world": self.world, "groups": groups, "events": events}}


@contextlib.contextmanager
def posted() -> Iterator[Posted]:
    """Notes what runs inside, on a rank of a process group; nothing without one."""
    if not dist.is_initialized():
        yield Posted(0, 1)
        return
    run = Posted(dist.get_rank(), dist.get_world_size())
    with watched(run):
        yield run
