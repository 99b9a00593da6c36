"""Flight Recorder dumps (NCCL in torch), one a rank: which rank is behind, what does not match, where in the source.

JSON, or a pickle of plain containers: a pickle that names any class or function is refused, and none of it is called.
What a dump records is an order of calls, in a window that ends when it was written; so calls that had ended are taken
away at both ends of the window where other members no longer, or not yet, show them.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from scalify_dl.errors import InputError

from .marks import looks_like_run
from .tables import Named, Schedule

VERSIONS = ("1.", "2.")
_MESSAGE = re.compile(r"\w+:(send|recv) (\d+)(->|<-)(\d+)", re.ASCII)
ASPECTS = {"shape": "input_sizes", "dtype": "input_dtypes", "result": "output_sizes"}
"""What members of a collective have alike, and where it stands in an entry."""
UNEVEN = ("all_to_all", "alltoall")
"""Kinds in which each rank may have sizes of its own."""
EXPECTED = "Flight Recorder dumps of all ranks: JSON, or a pickle of plain containers"


class _Plain(pickle.Unpickler):
    """Numbers, texts, lists, dictionaries; nothing that has a name."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise InputError(f"the pickle asks for {module}.{name}", expected="plain containers only", hint="dump as JSON")

    def persistent_load(self, pid: object) -> NoReturn:
        raise InputError("the pickle refers to something outside", expected="plain containers only")


def read_dump(path: Path, data: bytes) -> dict[str, Any] | None:
    """The content of a file if it is a dump, else None."""
    if data[:1] == b"\x80":
        try:
            found = _Plain(io.BytesIO(data)).load()
        except InputError as error:
            raise error.located(path) from None
        except Exception as error:
            raise InputError(f"not a whole pickle: {error}", file=path, expected=EXPECTED) from None
    elif data.lstrip()[:1] == b"{" and not looks_like_run(data[:200].decode(errors="replace")):
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", 0)
            raise InputError(f"not whole JSON: {error}", file=path, line=line, expected=EXPECTED) from None
    else:
        return None
    if not (isinstance(found, dict) and isinstance(found.get("entries"), list)):
        raise InputError("there are no entries", file=path, expected=EXPECTED)
    if not str(found.get("version", "")).startswith(VERSIONS):
        raise InputError(f"version {found.get('version')} of the dump", file=path, expected="version 1 or 2")
    return found


def read_dumps(paths: Sequence[Path], dumps: Sequence[dict[str, Any]]) -> Schedule:
    """The schedule of all ranks."""
    made = _Reader()
    ranks: dict[int, Path] = {}
    for path, dump in zip(paths, dumps, strict=True):
        rank = dump.get("rank", dump.get("global_rank"))
        digits = re.findall(r"\d+", path.stem if path.suffix == ".json" else path.name)
        number = rank if isinstance(rank, int) else int(digits[-1]) if digits else len(ranks)
        if number in ranks:
            raise InputError(f"rank {number} has two dumps", file=path, hint=f"the other one is {ranks[number]}")
        ranks[number] = path
        made.dump(number, path, dump)
    for name, (_, members) in made.groups.items():
        if missing := [r for r in members if r not in ranks]:
            raise InputError(
                f"group {name} has rank {missing[0]}, of which there is no dump", file=paths[0],
                expected="the dumps of all ranks",
            )  # fmt: skip
    made.trimmed()
    return made.schedule


@dataclass
class _Call:
    """An entry: place in the dump, queue, name, what it carries, whether it had ended, sequence number."""

    place: int
    chain: int
    named: Named
    carries: dict[str, str]
    ended: bool
    seq: int = 0
    more: list[dict[str, str]] = field(default_factory=list)
    """What the others carry that were issued in one with it."""

    @property
    def whole(self) -> dict[str, str]:
        """What all of them carry, in their order."""
        parts = [self.carries, *self.more]
        aspects = dict.fromkeys(aspect for part in parts for aspect in part) if self.more else self.carries
        return {aspect: " ".join(part.get(aspect, "-") for part in parts) for aspect in aspects}


class _Reader:
    def __init__(self) -> None:
        self.schedule = Schedule()
        self.groups: dict[str, tuple[int, list[int]]] = {}
        self.calls: defaultdict[tuple[str, int], list[_Call]] = defaultdict(list)
        """By group and rank."""
        self.messages: dict[tuple[str, int, int], dict[str, list[_Call]]] = {}
        """By group, source and target: both sides."""

    def dump(self, rank: int, path: Path, dump: dict[str, Any]) -> None:
        """All entries of one rank, each group's in a queue of its own, and each pair's."""
        self.configure(path, dump.get("pg_config", {}))
        queues: dict[object, int] = {}
        for n, entry in enumerate(dump["entries"]):
            where = f"entry {n}"
            if not isinstance(entry, dict):
                raise InputError(f"{where} is no object", file=path, expected=EXPECTED)
            group = entry.get("process_group", "")
            group = str(group[0] if isinstance(group, list | tuple) and group else group)
            name = entry.get("profiling_name")
            if group not in self.groups or not isinstance(name, str):
                raise InputError(f"{where}: group {group!r}, name {name!r}", file=path, expected="a group of pg_config")
            if rank not in self.groups[group][1]:
                raise InputError(f"{where}: rank {rank} is no member of group {group}", file=path)
            frames = entry.get("frames") or []
            frame = frames[0] if isinstance(frames, list) and frames and isinstance(frames[0], dict) else {}
            kind = name.split(":")[-1].split(" ")[0]
            line = frame.get("line")
            named = Named(name, kind, None, str(frame.get("filename", "")), line if isinstance(line, int) else 0)
            carries = {}
            for aspect, key in ASPECTS.items():
                if not isinstance(entry.get(key, []), list | tuple):
                    raise InputError(f"{where}: {key} is {entry[key]!r}", file=path, expected="one for each tensor")
                if entry.get(key) and not (kind.startswith(UNEVEN) and key.endswith("_sizes")):
                    carries[aspect] = json.dumps(entry[key], default=str)
            call = _Call(n, -1, named, carries, entry.get("state") == "completed")
            message = _MESSAGE.match(name)
            if message is not None:
                carries.pop("result", None)
                self.message(rank, path, where, group, message, call, queues)
                continue
            seq = entry.get("collective_seq_id", entry.get("seq_id"))
            if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq < 2**31:
                raise InputError(f"{where}: collective_seq_id is {seq!r}", file=path, expected="a number")
            calls = self.calls[group, rank]
            if calls and seq == calls[-1].seq:  # a further one of one coalesced call
                calls[-1].more.append({"kind": kind, **carries})
            if calls and seq <= calls[-1].seq:
                continue
            if group not in queues:
                queues[group] = self.schedule.chain(rank, f"group {group}")
            call.chain, call.seq, call.carries = queues[group], seq, {"kind": kind, **carries}
            calls.append(call)

    def configure(self, path: Path, config: object) -> None:
        """Members of the groups."""
        for name, about in config.items() if isinstance(config, dict) else ():
            ranks = about.get("ranks") if isinstance(about, dict) else None
            try:
                members = json.loads(ranks) if isinstance(ranks, str) else ranks
            except ValueError:
                members = None
            if not (isinstance(members, list) and members and all(type(r) is int and r >= 0 for r in members)):
                raise InputError(f"pg_config: ranks of group {name} are {ranks!r}", file=path, expected='"[0, 1]"')
            known = self.groups.setdefault(str(name), (len(self.groups), members))
            if known[1] != members:
                raise InputError(f"group {name} is {members} here and {known[1]} in another dump", file=path)

    def message(
        self, rank: int, path: Path, where: str, group: str, match: re.Match[str],
        call: _Call, queues: dict[object, int],
    ) -> None:  # fmt: skip
        """`send 0->1`, `recv 1<-0`, in ranks of the group."""
        side, mine, _, theirs = match.groups()
        members = self.groups[group][1]
        if max(int(mine), int(theirs)) >= len(members) or members[int(mine)] != rank:
            raise InputError(f'{where}: "{match[0]}" on rank {rank} of group {members}', file=path)
        peer = members[int(theirs)]
        key = (group, peer)
        if key not in queues:
            queues[key] = self.schedule.chain(rank, f"messages with {peer}")
        ends = (group, rank, peer) if side == "send" else (group, peer, rank)
        call.chain = queues[key]
        self.messages.setdefault(ends, {"send": [], "recv": []})[side].append(call)

    def trimmed(self) -> None:
        """Events of what is left of the window, in the order of each queue."""
        left: list[tuple[_Call, str, tuple[int, ...]]] = []
        for group, (comm, members) in self.groups.items():
            for m, rank in enumerate(members):
                self.schedule.add("member", comm, m, rank)
            shown = [self.calls[group, rank] for rank in members]
            first = max((calls[0].seq for calls in shown if calls), default=0)
            last = min((calls[-1].seq if calls else first - 1 for calls in shown), default=0)
            for m, calls in enumerate(shown):
                kept = [c for c in calls if c.seq >= first and not (c.seq > last and c.ended)]
                left += [(c, "collective", (comm, c.seq - first, m)) for c in kept]
            begun = [c for calls in shown for c in calls if c.seq == first]
            if any(c.more for c in begun) and not all(c.place for c in begun):
                for c in begun:  # a dump may begin in the middle of it
                    c.carries, c.more = {}, []
        for channel, (ends, sides) in enumerate(self.messages.items()):
            self.schedule.add("channel", channel, *ends[1:])
            surplus = len(sides["send"]) - len(sides["recv"])
            for side, extra in (("send", surplus), ("recv", -surplus)):
                some = sides[side]
                while extra > 0 and some and some[0].ended:  # before the other side's window begins
                    some, extra = some[1:], extra - 1
                left += [(c, side, (channel, n)) for n, c in enumerate(some)]
        left.sort(key=lambda item: (item[0].chain, item[0].place))
        for call, table, row in left:
            e = self.schedule.event(call.chain, call.named)
            self.schedule.add(table, e, *row)
            for aspect, what in call.whole.items():
                self.schedule.carries(e, aspect, what)
        self.schedule.assumptions.append(
            "collectives of a group, and messages of a pair, run in the order in which the dumps show them"
        )
