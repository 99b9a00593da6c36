"""Facts and results, indexed for the few things that a report says about them.

Only presentation reads this; what corresponds to what is decided by the rules alone. Tables are scanned once each and
only rows about the wanted ops and tensors are kept, so that reporting on a large graph stays cheap.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from scalify_dl.facts.names import readable

from .verdict import Frame

Row = tuple[Any, ...]
Table = Callable[[str], Iterable[Row]]
"""Rows of a relation by name; no rows where there is no such relation."""

Correspondences = dict[str, list[tuple[str, str, str, str]]]
"""Distributed tensor → what it holds: (its piece, baseline tensor, piece of that, layout text)."""

_NUMBER = re.compile(r"%?\d+(#\d+)?")
"""Names that say nothing."""
AFTER = " after the step"
"""Behind the name of what a program writes."""

_LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ", "<string>")
_OURS = ("scalify_dl/capture/", "scalify_dl/api/")
"""Frames from here on outwards are those of who captured the step."""


@dataclass(frozen=True)
class OpView:
    """An op as reports quote it. Attributes: key → values in order."""

    op: str
    name: str
    kind: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: dict[str, tuple[Any, ...]]
    source: tuple[Frame, ...]


def user_frames(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """The frames of the user's own files, innermost first; all of them where there are no such frames."""
    given = tuple(frames)
    every = tuple(takewhile(lambda frame: not any(mark in frame.file for mark in _OURS), given)) or given
    return tuple(f for f in every if not any(mark in f"/{f.file}" for mark in _LIBRARY)) or every


class View:
    """What a report needs of the facts and of the derived relations."""

    def __init__(self, facts: Table, results: Table) -> None:
        self.facts = facts
        self.results = results

    @cached_property
    def names(self) -> dict[str, str]:
        """Tensor id → the name that people know."""
        return {row[0]: row[1] for row in self.facts("tensor_name")}

    @cached_property
    def meta(self) -> dict[str, str]:
        """What the producer of the facts says about them."""
        return dict(self.facts("meta"))

    @cached_property
    def ranks(self) -> dict[str, int]:
        """Tensor id → number of dims."""
        return {t: rank for t, _, _, rank in self.facts("tensor")}

    @cached_property
    def _sizes(self) -> dict[str, dict[int, int]]:
        sizes: dict[str, dict[int, int]] = defaultdict(dict)
        for tensor, dim, size in self.facts("dim"):
            sizes[tensor][dim] = size
        return sizes

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Sizes of the dims of a tensor."""
        return tuple(size for _, size in sorted(self._sizes.get(tensor, {}).items()))

    @cached_property
    def types(self) -> dict[str, str]:
        """Element types of tensors."""
        return {tensor: dtype for tensor, _, dtype, _ in self.facts("tensor")}

    @cached_property
    def inputs(self) -> set[str]:
        """Tensors that are inputs."""
        return {tensor for _, _, tensor in self.facts("input")}

    @cached_property
    def output_names(self) -> dict[str, str]:
        """Tensor id → what people call that input or output."""
        return {row[0]: row[1] for row in self.facts("output_name")}

    def output_name(self, tensor: str) -> str:
        """What people call an output, else its name as a tensor."""
        return self.output_names.get(tensor) or self.name(tensor)

    def called(self, tensor: str) -> set[str]:
        """All that a tensor may be called."""
        named = self.output_names.get(tensor, self.name(tensor))
        short = {named.removesuffix(AFTER)} if tensor in self.inputs else set()  # the program gives back what it got
        return {tensor, self.name(tensor), named, self.label(tensor)} | short

    def name(self, tensor: str) -> str:
        """The name that people know, else the id (of what only the rules have: in words)."""
        return self.names.get(tensor) or readable(tensor)

    def label(self, tensor: str) -> str:
        """What people call an input or output, and its name as a tensor: `up.weight (primals_3)`."""
        called, name = self.output_names.get(tensor), self.name(tensor)
        if called and tensor in self.inputs:  # the program gives back what it got
            called = called.removesuffix(AFTER)
        if not called and self.source(tensor) != tensor and tensor in self._alike:
            called = self.name(self.source(tensor))
        return f"{called} ({name})" if called and called != name else name

    def told(self, tensor: str) -> str:
        """The name in a sentence: of an input, or what only repeats, turns or casts one, with what people call it; of
        what is only a number, or called as others are, with what tells it; of an op of the baseline, its result's."""
        tensor = self._made.get(tensor, tensor) if "/" in tensor and tensor not in self.types else tensor
        source, name = self.source(tensor), self.name(tensor)
        if source in self.inputs:
            called = self.input_name(source)
            return f"{called} ({name})" if called != name else called
        if _NUMBER.fullmatch(name):
            place = self._place(tensor)
            return f"{name} ({place})" if place else name
        if source != tensor and tensor in self._alike:
            return f"{self.name(source)} ({name})"
        return name  # an op may be called so, too

    @cached_property
    def _made(self) -> dict[str, str]:
        """Op → its first result."""
        return {op: tensor for op, pos, tensor in self.facts("result") if not pos}

    @cached_property
    def _alike(self) -> set[str]:
        """Tensors of which a graph has others of the same name."""
        anywhere = Counter(self.names.values())
        several = {tensor: name for tensor, name in self.names.items() if anywhere[name] > 1}
        graphs = {tensor: graph for tensor, graph, _, _ in self.facts("tensor") if tensor in several}
        named = [(graphs.get(tensor), name, tensor) for tensor, name in several.items()]
        many = Counter((graph, name) for graph, name, _ in named)
        return {tensor for graph, name, tensor in named if many[graph, name] > 1}

    @cached_property
    def _makers(self) -> dict[str, str]:
        """Tensor → the op that makes it."""
        return {tensor: op for op, _, tensor in self.facts("result")}

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return {op: kind for op, _, kind in self.facts("op")}

    @cached_property
    def _stacks(self) -> dict[str, list[Row]]:
        """Op → the rows of its frames."""
        stacks: dict[str, list[Row]] = defaultdict(list)
        for row in self.facts("source"):
            stacks[row[0]].append(row)
        return stacks

    def _place(self, tensor: str) -> str:
        """The kind and the line of what makes a tensor, where they are known."""
        op = self._makers.get(tensor)
        if op is None or op not in self._stacks:
            return ""
        frames = user_frames(Frame(*frame) for _, _, *frame in sorted(self._stacks[op], key=lambda row: row[1]))
        return f"{self._kinds.get(op, op)}, {str(frames[0]).removeprefix(f'{Path.cwd()}/')}"

    def source(self, tensor: str) -> str:
        """What a tensor only repeats, turns or casts; itself, where it is computed or given."""
        while tensor in self._renamings:
            tensor = self._renamings[tensor]
        return tensor

    def input_name(self, tensor: str) -> str:
        """What people call an input."""
        return self.output_names.get(tensor, self.name(tensor)).removesuffix(AFTER)

    @cached_property
    def _renamings(self) -> dict[str, str]:
        """Result → operand of ops that only move elements, or cast them."""
        kinds = {"broadcast", "reshape", "transpose", "convert"}
        moves = {op for op, _, kind in self.facts("op") if kind in kinds}
        read = {op: tensor for op, _, tensor in self.facts("operand") if op in moves}
        return {tensor: read[op] for op, _, tensor in self.facts("result") if op in read}

    def ops(self, wanted: set[str]) -> dict[str, OpView]:
        """These ops, with everything that reports say about them."""
        kinds = {op: kind for op, _, kind in self.facts("op") if op in wanted}
        operands = self._lists("operand", wanted)
        results = self._lists("result", wanted)
        attributes: dict[str, dict[str, list[tuple[int, Any]]]] = defaultdict(lambda: defaultdict(list))
        for table in ("attr_number", "attr_symbol"):
            for op, key, pos, value in self.facts(table):
                if op in wanted:
                    attributes[op][key].append((pos, value))
        for op, key, pos, rank, value in self.facts("rank_number"):
            if op in wanted:
                attributes[op][key].append((pos, f"{value} on rank {rank}"))
        frames: dict[str, list[tuple[int, Frame]]] = defaultdict(list)
        for op, pos, file, line, function in self.facts("source"):
            if op in wanted:
                frames[op].append((pos, Frame(file, line, function)))
        out = {}
        for op, kind in kinds.items():
            made = tuple(results[op])
            out[op] = OpView(
                op=op,
                name=self.name(made[0]) if made else op,
                kind=kind,
                operands=tuple(operands[op]),
                results=made,
                attributes={k: tuple(v for _, v in sorted(vs, key=lambda p: p[0])) for k, vs in attributes[op].items()},
                source=user_frames(f for _, f in sorted(frames[op], key=lambda p: p[0])),
            )
        return out

    def above(self, tensors: Iterable[str]) -> set[str]:
        """These tensors and all that they are computed from."""
        made = {tensor: op for op, _, tensor in self.facts("result")}
        read: dict[str, list[str]] = defaultdict(list)
        for op, _, tensor in self.facts("operand"):
            read[op].append(tensor)
        found: set[str] = set()
        left = list(tensors)
        while left:
            tensor = left.pop()
            if tensor not in found:
                found.add(tensor)
                left += read[made[tensor]] if tensor in made else ()
        return found

    def _lists(self, table: str, wanted: set[str]) -> dict[str, list[str]]:
        rows: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for op, pos, tensor in self.facts(table):
            if op in wanted:
                rows[op].append((pos, tensor))
        return defaultdict(list, {op: [t for _, t in sorted(pairs)] for op, pairs in rows.items()})

    def correspondences(self, wanted: set[str]) -> Correspondences:
        """What these distributed tensors hold."""
        rows: Correspondences = defaultdict(list)
        for dist, piece, base, base_piece, layout in self.results("corr"):
            if dist in wanted:
                rows[dist].append((piece, base, base_piece, layout))
        return rows
