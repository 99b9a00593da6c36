"""Source positions of instructions: inline stacks, single positions, and the header tables of current XLA."""

from __future__ import annotations

import re

from scalify_dl.ir.graph import Frame

from .attributes import unquote
from .module import Module

_PAIR = re.compile(r'([a-z_]+)=("(?>(?:[^"\\]++|\\.)*)"|[^\s"{}]+)')
_FRAME = re.compile(r"'([^']*?):(\d+)'")
DEPTH_LIMIT = 1000
TRANSPOSED = "transpose("
"""In the scope of an instruction that JAX made when it differentiated what stands at its place."""


class Metadata:
    """Reads `metadata={…}` texts of one module; equal texts are read once."""

    def __init__(self, module: Module) -> None:
        self.frames = _stack_frames(module)
        self.seen: dict[str, tuple[str, list[Frame]]] = {}
        self.stacks: dict[int, list[Frame]] = {}

    def read(self, text: str | None) -> tuple[str, list[Frame]]:
        """Scope name (`op_name`) and source stack, innermost frame first, of an instruction's metadata."""
        if not text:
            return "", []
        found = self.seen.get(text)
        if found is None:
            scope, frames = self._read(text)
            if TRANSPOSED in scope:
                frames = [frame.backward for frame in frames]
            found = self.seen[text] = scope, frames
        return found

    def _read(self, text: str) -> tuple[str, list[Frame]]:
        pairs = {key: unquote(value) for key, value in _PAIR.findall(text)}
        scope = pairs.get("op_name", "")
        if "stack_frame_id" in pairs and pairs["stack_frame_id"].isdigit():
            return scope, self._stack(int(pairs["stack_frame_id"]))
        file = pairs.get("source_file", "")
        line = pairs.get("source_line", "0")
        number = int(line) if line.isdigit() else 0
        if not file:
            return scope, []
        head, _, inline = file.partition("\n----\n")
        if inline:  # a printed Python list of 'file:line', outermost first
            frames = [Frame(path, int(at)) for path, at in reversed(_FRAME.findall(inline))]
            if frames:
                return scope, frames
        return scope, [Frame(head, number, scope)]

    def _stack(self, frame: int) -> list[Frame]:
        found = self.stacks.get(frame)
        if found is None:
            found = []
            at, seen = frame, set()
            while at in self.frames and at not in seen and len(found) < DEPTH_LIMIT:
                seen.add(at)
                position, parent = self.frames[at]
                found.append(position)
                at = parent
            self.stacks[frame] = found
        return found


def _stack_frames(module: Module) -> dict[int, tuple[Frame, int]]:
    """Stack frame id → its position and its parent's id (0: none), from the header tables."""
    files = {key: unquote(value) for key, value in module.tables.get("FileNames", {}).items()}
    functions = {key: unquote(value) for key, value in module.tables.get("FunctionNames", {}).items()}
    locations = {}
    for key, value in module.tables.get("FileLocations", {}).items():
        pairs = _numbers(value)
        locations[key] = Frame(
            files.get(pairs.get("file_name_id", 0), "?"),
            pairs.get("line", 0),
            functions.get(pairs.get("function_name_id", 0), ""),
        )
    raw = {key: _numbers(value) for key, value in module.tables.get("StackFrames", {}).items()}
    # Some versions print the parent's id plus one, with 1 for “none”: then the outermost frame names itself.
    shift = 1 if any(pairs.get("parent_frame_id") == key for key, pairs in raw.items()) else 0
    unknown = Frame("?", 0)
    return {
        key: (locations.get(pairs.get("file_location_id", 0), unknown), pairs.get("parent_frame_id", 0) - shift)
        for key, pairs in raw.items()
    }


_NUMBER = re.compile(r"([a-z_]+)=(\d+)")


def _numbers(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in _NUMBER.findall(text)}
