"""Recorded runs of all ranks (scalify_dl.capture.torch.timeline): a JSON file a rank, to a schedule.

Computations run on the host; a message on a queue of its peer, a collective on its communicator's, from where it is
issued. Messages of one batch run on the communicator's queue, in order where they have one direction and peer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError

from .builder import Builder, Rank
from .tables import APART, Schedule


def read_runs(paths: Sequence[Path], texts: Sequence[str], streams: str = "pair") -> Schedule:
    """The schedule of a run of every rank."""
    runs: dict[int, tuple[Path, dict[str, Any]]] = {}
    for path, text in zip(paths, texts, strict=True):
        run = _parsed(path, text)
        if run["rank"] in runs:
            raise InputError(f"rank {run['rank']} is given twice", file=path)
        runs[run["rank"]] = (path, run)
    world = {run["world"] for _, run in runs.values()}
    if len(world) > 1 or sorted(runs) != list(range(max(world))):
        raise InputError(
            f"runs of ranks {sorted(runs)} of {sorted(world)}", file=paths[0], expected="one file for every rank"
        )
    program = Builder()
    members = {f"{n} {r}": tuple(r) for _, run in runs.values() for n, r in run["groups"].items()}
    for name, ranks in members.items():
        program.group(name, ranks)
    for rank in sorted(runs):
        path, run = runs[rank]
        made = _Run(program.rank(rank), run, streams)
        for n, event in enumerate(run["events"]):
            try:
                made.event(event)
            except (KeyError, TypeError, ValueError, IndexError, InputError) as error:
                said = error.message if isinstance(error, InputError) else f"{type(error).__name__} {error}"
                raise InputError(
                    f"event {n} is none of a recorded run: {said}", file=path, line=n + 2, hint="was it edited?"
                ) from None
    schedule = program.build()
    if streams != "rank":
        schedule.assumptions.append(APART)
    if any(run.get("spans") for _, run in runs.values()):
        schedule.assumptions.append("tensors of very many pieces touch all bytes that they span")
    return schedule


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        run = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        raise InputError(f"not JSON: {error}", file=path, line=line, hint="was the file cut off?") from None
    shapes = {"rank": int, "world": int, "groups": dict, "events": list, "given": list}
    if not isinstance(run, dict) or run.get("version") != 1:
        raise InputError("a recorded run of another version", file=path, line=1, expected='"version": 1')
    for key, kind in shapes.items():
        if not isinstance(run.get(key), kind):
            raise InputError(f'"{key}" of a recorded run is no {kind.__name__}', file=path, line=1)
    for name, ranks in run["groups"].items():
        if not isinstance(ranks, list) or not ranks or not all(isinstance(r, int) for r in ranks):
            raise InputError(f'group "{name}" has no list of ranks', file=path, line=1)
    if not 0 <= run["rank"] < run["world"] <= 1 << 20:
        raise InputError(f"rank {run['rank']} of {run['world']}", file=path, line=1)
    return run


class _Run:
    """The events of one rank."""

    def __init__(self, rank: Rank, run: dict[str, Any], streams: str) -> None:
        self.rank, self.groups, self.streams = rank, run["groups"], streams
        self.numbers: list[list[int]] = []
        """The events of the schedule that each event of the run became."""
        self.batch: int | None = None
        self.batches: dict[str, list[int]] = {}
        """Messages of the last batch on each communicator's queue."""
        rank.given(*(f"b{int(b)}" for b in run["given"]))

    def event(self, event: dict[str, Any]) -> None:
        """One more."""
        rank, do = self.rank, event["do"]
        file, _, line = str(event.get("at", "")).rpartition(":")
        rank.at = (file, int(line)) if line.isdigit() else None
        reads, writes = (
            [(f"b{int(b)}", int(lo), int(hi)) for b, lo, hi in event.get(table, ())] for table in ("reads", "writes")
        )
        if do == "compute":
            self.numbers.append([rank.compute(str(event["name"]), reads=reads, writes=writes)])
        elif do == "wait":
            rank.wait(*self.numbers[event["awaited"]])
            self.numbers.append([])
        elif do == "collective":
            group = f"{event['group']} {self.groups[event['group']]}"
            self.joined(group)
            said = {key: str(event[key]) for key in ("shape", "reducer") if key in event}
            e = rank.collective(
                str(event["kind"]), group, reads=reads, writes=writes, stream=self.queue(group), **said
            )  # fmt: skip
            self.numbers.append([e])
        elif do in ("send", "recv"):
            self.numbers.append([self.message(event, do, reads if do == "send" else writes)])
        else:
            raise InputError(f'"{do}" is no action')

    def queue(self, group: str) -> str:
        """Of a communicator."""
        return "all" if self.streams == "rank" else f"group {group}"

    def joined(self, group: str) -> None:
        """What comes next on a communicator's queue comes after its last batch."""
        if ended := self.batches.pop(group, None):
            self.rank.compute("end of a batch", stream=self.queue(group), after=ended)

    def message(self, event: dict[str, Any], do: str, places: list[tuple[str, int, int]]) -> int:
        """A send or a receive."""
        peer, group, batch = int(event["peer"]), f"{event['group']} {self.groups[event['group']]}", event.get("batch")
        way = f" {do}" if self.streams == "direction" else ""
        stream: str | None = "all" if self.streams == "rank" else f"messages with {peer}{way}"
        after: list[str | int] = []
        if batch is not None:
            if batch != self.batch:
                self.joined(group)
                self.batch = batch
                self.batches[group] = []
                self.begun = self.rank.compute("a batch", stream=self.queue(group))
            stream, after = f"batch of {group}, {do} {peer}", [self.begun]
        post = self.rank.send if do == "send" else self.rank.recv
        e = post(peer, places, stream=stream, tag=f"{group} {event['tag']}", after=after, size=str(event["size"]))
        if batch is not None:
            self.batches[group].append(e)
        return e
