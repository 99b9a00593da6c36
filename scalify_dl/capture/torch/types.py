"""SPMD types that a program says of its values while it is recorded: `assert_type`, here or of `spmd_types`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from scalify_dl.errors import InputError

from .recorder import Recorder

T = TypeVar("T")
_ACTIVE: list[Recorder] = []
LIBRARY = "spmd_types"


def assert_type(value: T, types: Mapping[Any, Any]) -> T:
    """Says of a tensor, or of each of some, what it holds along axes of the mesh: `{"tp": "S(1)", "dp": "R"}`. An axis
    is its name, a process group or an axis of `spmd_types`; a word is `R`, `I`, `P`, `V`, `S(dim)`, or what that
    library has for it. Nothing happens but while a step is recorded; `dlverify lint` checks what was said."""
    if isinstance(value, list | tuple):
        for item in value:
            assert_type(item, types)
    for recorder in _ACTIVE if isinstance(value, torch.Tensor) else ():
        _note(recorder, value, types)
    return value


def _note(recorder: Recorder, tensor: torch.Tensor, types: Mapping[Any, Any]) -> None:
    words: dict[str, str] = {}
    for key, said in types.items():
        axis = _axis(recorder, key)
        if recorder.groups.mesh.get(axis, 1) > 1:  # else all types are one
            words[axis] = _word(said, tensor)
    if words:  # a copy has a name for what is there now, whatever is written to it later
        name = recorder.emit("typed", f"torch.ops.aten.clone.default({recorder.names.name(tensor)})", tensor)
        recorder.types[name] = words


def _axis(recorder: Recorder, key: Any) -> str:
    if isinstance(key, str):
        return key
    group = isinstance(key, dist.ProcessGroup)
    ranks = dist.get_process_group_ranks(key) if group else list(key.layout.all_ranks_from_zero())
    return recorder.groups.axis(ranks) or ""


def _word(said: Any, tensor: torch.Tensor) -> str:
    word = str(said if isinstance(said, str) else repr(said))
    if word[:1] != "S":
        return word
    dim = int(word[1:].strip("()"))
    return f"S({dim % max(tensor.dim(), 1)})"


@contextmanager
def types_noted(recorder: Recorder) -> Iterator[None]:
    """While active, what `assert_type` says is noted; that of `spmd_types`, where it is called by its module."""
    library = sys.modules.get(LIBRARY)
    original = getattr(library, "assert_type", None)

    def both(value: Any, *types: Any, **more: Any) -> Any:
        for said in types:
            if not isinstance(said, Mapping):
                raise InputError(f"`assert_type` of {said!r} is not read", expected="types by axis: {axis: S(0)}")
            assert_type(value, said)
        return original(value, *types, **more)  # type: ignore[misc]

    _ACTIVE.append(recorder)
    if original is not None:
        library.assert_type = both  # type: ignore[union-attr]
    try:
        yield
    finally:
        _ACTIVE.remove(recorder)
        if original is not None:
            library.assert_type = original  # type: ignore[union-attr]
