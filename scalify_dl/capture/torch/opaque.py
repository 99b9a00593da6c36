"""Ops of libraries that stay one call, though their kernel is Python: rules say what they are, `--rules`.

That is right only of a function of its arguments: what a kernel does besides (it communicates, draws, writes, or reads
a tensor that it is not given) is no part of the text, and stops the recording, as far as torch's dispatcher shows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from scalify_dl.errors import InputError
from scalify_dl.readers.fx.compute import packet_of

__all__ = ["Kernel", "Opaque", "all_ran", "kernel_of"]

Stop = Callable[..., InputError]
COMMUNICATING = frozenset({"c10d", "_c10d_functional", "c10d_functional", "_dtensor"})
TORCH = COMMUNICATING | {"aten", "prims", "prim"}
"""Namespaces of ops that are no library's."""
GIVEN = frozenset({"aten.lift_fresh", "aten.lift"})
"""What makes a tensor of numbers that stand in the kernel."""


class Opaque:
    """Patterns of names that are kept, and the ops of libraries that ran: whether each was."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns = tuple(map(_name, patterns))
        self.ran: dict[str, bool] = {}

    def keeps(self, packet: str) -> bool:
        """Whether an op of a library stays one call."""
        self.ran[packet] = any(fnmatchcase(packet, pattern) for pattern in self.patterns)
        return self.ran[packet]

    def noted(self) -> dict[str, dict[str, bool]]:
        """What the JSON beside the text says of it."""
        return {"library_ops": dict(sorted(self.ran.items()))} if self.patterns else {}


def kernel_of(func: Any) -> Callable[..., Any] | None:
    """What an op runs on this machine, below all modes; None where torch shows none."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    key = next((k for k in ("CPU", "CompositeExplicitAutograd") if has(func.name(), k)), None)
    return None if key is None else partial(func._op_dk, getattr(torch._C.DispatchKey, key))


def _name(pattern: str) -> str:
    return pattern.removeprefix("custom:").removeprefix("torch.ops.").replace("::", ".")


def all_ran(patterns: Sequence[str], dumps: Iterable[Path]) -> None:
    """InputError for a pattern by which no program has an op."""
    if not patterns:
        return
    ran = {op for dump in dumps for op in json.loads(dump.read_text("utf-8")).get("library_ops", ())}
    for pattern in patterns:
        if not any(fnmatchcase(op, _name(pattern)) for op in ran):
            near = get_close_matches(_name(pattern), sorted(ran), 1)
            raise InputError(
                f"`opaque`: no op `{pattern}` ran",
                expected="NAMESPACE.NAME of an op of a library, as torch.ops has it, or a pattern such as mylib.*",
                hint=f"did you mean {near[0]}?" if near else f"these ran: {', '.join(sorted(ran)) or 'none'}",
            )


class Kernel(TorchDispatchMode):  # type: ignore[misc]
    """While a kernel runs that stays one call: what it may not do is an error."""

    def __init__(self, op: str, args: Sequence[Any], kwargs: Mapping[str, Any], stop: Stop) -> None:
        super().__init__()
        self.op, self.stop = op, stop
        self.given = {_memory(t) for t in tree_leaves((args, dict(kwargs))) if isinstance(t, torch.Tensor)}
        self.made: dict[int, Any] = {}

    def reads(self, tensor: torch.Tensor) -> None:
        """InputError for a tensor that is neither given nor made in the kernel."""
        if not tensor.is_meta and _memory(tensor) not in self.given | self.made.keys():
            raise self.stop(
                f"the kernel of `{self.op}`, which is to stay opaque, reads a tensor that it is not given",
                f"make it an argument of the op, or leave `{self.op}` out of `opaque`",
            )

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if FakeTensor in types:
            return func(*args, **kwargs)
        does = None
        if func.namespace in COMMUNICATING:
            does = "communicates"
        elif torch.Tag.nondeterministic_seeded in func.tags:
            does = "draws random numbers"
        if does is not None:
            raise self.stop(
                f"the kernel of `{self.op}`, which is to stay opaque, {does}", f"leave `{self.op}` out of `opaque`"
            )
        if packet_of(str(func)) not in GIVEN:
            for n, argument in enumerate(func._schema.arguments):
                value = args[n] if n < len(args) else kwargs.get(argument.name)
                writes = argument.alias_info is not None and argument.alias_info.is_write
                for t in (t for t in tree_leaves(value) if isinstance(t, torch.Tensor)):
                    self.reads(t)
                    if writes and _memory(t) in self.given:
                        raise self.stop(f"the kernel of `{self.op}`, which is to stay opaque, writes its argument")
        inner = kernel_of(func) if func.namespace not in TORCH else None
        if inner is None:
            out = func(*args, **kwargs)
        else:
            with self:  # an op of a library: what it runs
                out = inner(*args, **kwargs)
        self.made.update({_memory(t): t for t in tree_leaves(out) if isinstance(t, torch.Tensor)})
        return out

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the op gives; InputError for results that are no new memory."""
        with self:
            out = func(*args, **kwargs)
        tensors = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        places = [_memory(t) for t in tensors]
        if self.given & set(places) or len(set(places)) < len(places):
            raise self.stop(
                f"the kernel of `{self.op}`, which is to stay opaque, gives what shares memory with its arguments, or"
                " with another result",
                "clone it in the kernel",
            )
        return out


def _memory(t: torch.Tensor) -> int:
    return int(t.untyped_storage()._cdata)
