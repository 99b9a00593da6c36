"""Every op that an eager program runs on this rank, below all tensor subclasses, as statements of FX text.

Ops are written as the framework runs them: in-place ones write the memory that their names look at, views are views.
What no text says exactly stops the recording with an InputError that names the line of the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from scalify_dl.errors import InputError
from scalify_dl.readers.fx.aliases import effect_of
from scalify_dl.readers.fx.compute import EFFECTS, lowering_of, packet_of

from .collectives import COLLECTIVES, Groups
from .lines import Lines, Place, comments
from .memory import Names, copied, typed
from .opaque import Kernel, Opaque, kernel_of

__all__ = ["Recorder"]

PLAIN = (torch.Tensor, nn.Parameter, nn.Buffer)

READS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
"""Ops that give the program a number, or a size, that depends on values."""

BY_INDEX = frozenset({"aten.index", "aten._unsafe_index"})
"""Ops whose sizes depend on values where an index is a mask."""

SAME = frozenset({"aten.detach", "aten.alias", "aten.lift_fresh"})
"""Ops whose result is what they are given."""

BY_STRIDES = frozenset({"aten.as_strided"})
"""Views whose strides say where they look, not what the tensor is that they are made of."""

FILLED = frozenset({"aten.copy_", "aten.fill_", "aten.zero_"})
"""Ops that write all of their first argument without reading it."""

TORCH = frozenset({"aten", "prims", "_c10d_functional", "c10d_functional", "_dtensor"})
"""Namespaces whose ops are written as they are."""


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Statements of what runs while it is active; `inputs` are the tensors that the text takes, by name."""

    def __init__(
        self, inputs: Mapping[str, torch.Tensor], mesh: Mapping[str, int] | None = None, opaque: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.opaque = Opaque(opaque)
        self.kernel: Kernel | None = None
        self.lines: list[str] = []
        self.names = Names(self.emit)
        self.groups = Groups(mesh or {})
        self.source = Lines()
        self.at: Place | None = None
        self.checking = False
        self.inputs: dict[str, str] = {}
        self.types: dict[str, dict[str, str]] = {}
        self.values: dict[str, torch.Tensor] = {}
        self.drawn: dict[str, torch.Tensor] = {}
        self.given: list[tuple[str, Sequence[torch.Tensor]]] = []
        for name, tensor in inputs.items():
            self.take(name, tensor)

    def take(self, name: str, tensor: torch.Tensor) -> None:
        """A tensor is an input of the text under a name; what it holds now is kept."""
        if self.names.overlaps(tensor):
            raise InputError(f"`{name}` shares memory with another input", hint="clone what shares memory")
        self.values[name] = copied(tensor)
        self.inputs[name] = typed(tensor)
        self.names.numbers[name] = 1
        self.names.bind(tensor, name)

    # --- text --------------------------------------------------------------------------------------------------------

    def emit(self, stem: str, call: str, result: torch.Tensor) -> str:
        """Writes a statement with one result; its name."""
        name = stem if call == f"self.{stem}" else self.names.fresh(stem)
        self.lines.append(f"{name}: {typed(result)} = {call}")
        return name

    def text(self, value: Any) -> str:
        """An argument as it stands in a call."""
        if isinstance(value, torch.Tensor):
            return self.names.name(value)
        if isinstance(value, list | tuple):
            inner = ", ".join([self.text(item) for item in value])
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
        if isinstance(value, torch.device):
            return f"device(type='{value.type}')"
        if value is None or isinstance(value, torch.Generator):
            return "None"
        if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
            return str(value)
        if isinstance(value, bool | int | float | str | complex):
            return repr(value)
        raise self.stop(f"an argument of type {type(value).__name__}, which no text says")

    def stop(self, why: str, hint: str | None = None) -> InputError:
        """An error at the line of the program that runs now."""
        file, line = self.at[0][:2] if self.at is not None else (None, 0)
        return InputError(f"the step cannot be captured: {why}", file=file, line=line, hint=hint)

    def unread(self, name: str) -> InputError:
        """An error: values may not leave the tensors."""
        return self.stop(
            f"`{name}` gives the program a value of a tensor that depends on its inputs",
            "values decide what is captured then: keep them in tensors, or read them outside of the step",
        )

    # --- ops ---------------------------------------------------------------------------------------------------------

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if FakeTensor in types:  # shapes alone are computed
            return func(*args, **kwargs)
        if any(t not in PLAIN for t in types):
            return NotImplemented  # a subclass says which plain ops it runs
        tensors = [t for t in tree_leaves((args, dict(kwargs))) if isinstance(t, torch.Tensor)]
        name = str(func)
        packet, space = packet_of(name), func.namespace
        if packet in EFFECTS or space in EFFECTS or space == "prim" or any(t.device.type == "meta" for t in tensors):
            return func(*args, **kwargs)
        self.move()
        if any(tag in func.tags for tag in READS) and (packet not in BY_INDEX or _masks(args[1])):
            if not (self.checking or all(self.names.free(t) for t in tensors)):
                raise self.unread(name)
            if func is torch.ops.aten._local_scalar_dense.default or torch.Tag.data_dependent_output in func.tags:
                return func(*args, **kwargs)
        if space == "c10d":
            return self.collective(func, args, kwargs)
        if space not in TORCH and lowering_of(name) is None:
            if self.opaque.keeps(packet):
                return self.kept(func, name, args, kwargs, tensors)
            return self.inside(func, name, args, kwargs)
        return self.op(func, name, args, kwargs, tensors)

    def move(self) -> None:
        """Writes the line of the program, if it is another than before."""
        place = self.source.place()
        if place is not None and place != self.at:
            self.at = place
            self.lines += ["", *comments(place)]

    def op(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: list[Any]) -> Any:
        """An op as it stands."""
        effect = effect_of(name, kwargs)
        if effect is not None and effect.metadata:  # the tensor looks elsewhere: its next use says where
            out = func(*args, **kwargs)
            return out
        if packet_of(name) in SAME and len(tensors) == 1:
            out = func(*args, **kwargs)
            if packet_of(name) == "aten.lift_fresh" and self.names.storage(tensors[0]) is None:
                self.names.constant(tensors[0], written=True)  # torch.tensor of numbers
            self.names.bind(out, self.names.name(tensors[0]))
            return out
        if packet_of(name) in BY_STRIDES and self.names.placed(out := func(*args, **kwargs)):
            return out
        if packet_of(name) in FILLED and len({t.untyped_storage()._cdata for t in tensors}) == len(tensors):
            self.names.overwritten(args[0])
        shown = [self.text(arg) for arg in self.named(func, args)]
        shown += [f"{key} = {self.text(value)}" for key, value in kwargs.items()]
        out = func(*args, **kwargs) if self.kernel is None else self.kernel.run(func, args, kwargs)
        if any(isinstance(t, FakeTensor) or (isinstance(t, torch.Tensor) and t.is_meta) for t in tree_leaves(out)):
            return out
        random = torch.Tag.nondeterministic_seeded in func.tags
        free = not random and all(self.names.free(t) for t in tensors) and not packet_of(name).startswith("aten.empty")
        if effect is not None and effect.written:
            for t in _written(func, args, kwargs):
                self.names.written(t)
                if not free:
                    self.taint(t)
        stem = packet_of(name).partition(".")[2]
        call = f"torch.ops.{name}({', '.join(shown)})"
        if isinstance(out, torch.Tensor):
            line = self.emit(stem, call, out)
            self.result(out, line, free)
            if random:
                self.drawn[line] = copied(out)
        else:
            whole = self.names.fresh(stem)
            self.lines.append(f"{whole} = {call}")
            self.unpack(whole, out, free, random)
        return out

    def named(self, func: Any, args: Sequence[Any]) -> list[Any]:
        """Arguments with process groups under the names of this text."""
        if not func.namespace.startswith("_c10d_functional") and func.namespace not in ("c10d_functional", "_dtensor"):
            return list(args)
        parameters = [a.name for a in func._schema.arguments]
        return [
            self.groups.name(value) if name == "group_name" else value
            for name, value in zip(parameters, args, strict=False)
        ]

    def result(self, out: torch.Tensor, name: str, free: bool) -> None:
        self.names.bind(out, name, free)
        if not free:
            self.taint(out)

    def unpack(self, whole: str, out: Any, free: bool, random: bool) -> None:
        """Names of the results of an op that gives several."""
        for i, item in enumerate(out if isinstance(out, list | tuple) else ()):
            if isinstance(item, torch.Tensor):
                line = self.emit("getitem", f"{whole}[{i}]", item)
                self.result(item, line, free)
                if random:
                    self.drawn[line] = copied(item)
            elif isinstance(item, list | tuple):
                name = self.names.fresh("getitem")
                self.lines.append(f"{name} = {whole}[{i}]")
                self.unpack(name, item, free, random)

    def taint(self, t: torch.Tensor) -> None:
        """What a tensor's memory holds depends on inputs from now on."""
        storage = self.names.storage(t)
        if storage is not None:
            storage.free = False

    def await_(self, t: torch.Tensor, line: str) -> None:
        """A tensor will hold what a statement receives."""
        self.taint(t)
        storage = self.names.storage(t)
        if storage is not None:
            storage.awaited.append((line, t))

    def collective(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """An op of c10d as functional collectives."""
        known = COLLECTIVES.get(packet_of(str(func)).partition(".")[2])
        if known is None:
            raise self.stop(f"`{func}` has no exact form in the text")
        if self.groups.crossed(packet_of(str(func)).partition(".")[2], args):
            raise self.stop(
                f"`{func}` is given buffers that share memory, and no member's own part is where it stays",
                "backends write while they read: give it a buffer of its own",
            )
        factor = self.groups.factor
        try:
            known(self, *args, **kwargs)
        except InputError as error:
            raise self.stop(error.message, error.hint) from None
        out = func(*args, **kwargs)
        for t in tree_leaves(args[0]) if factor is not None else ():  # which a fake group leaves out
            t.mul_(factor)
        for name, tensors in self.given:
            self.drawn[name] = torch.cat([copied(t).reshape(-1) for t in tensors])
        self.given.clear()
        group = next(arg for arg in args if isinstance(arg, torch.ScriptObject))
        return _done(out) if dist.get_backend(dist.ProcessGroup.unbox(group)) == "fake" else out

    def inside(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """An op of a library: what its kernel runs; the op as it is, where the kernel runs no ops."""
        mark = len(self.lines)
        backend = kernel_of(func)
        if backend is not None:
            shown = {id(t): self.text(t) for t in tree_leaves((args, dict(kwargs))) if isinstance(t, torch.Tensor)}
            mark = len(self.lines)
            with self:
                out = backend(*args, **kwargs)
            results = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
            known = all(id(t) in shown or self.names.storage(t) is not None for t in results)
            if known and (len(self.lines) > mark or not func._schema.is_mutable):
                return out
            raise self.stop(f"the kernel of `{name}` computes outside of torch's dispatcher")
        return self.op(func, name, args, kwargs, [])

    def kept(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: list[Any]) -> Any:
        """An op of a library as one call, whose kernel may do nothing that the call does not say."""
        packet = packet_of(name)
        if func._schema.is_mutable:
            raise self.stop(f"`{packet}`, which is to stay opaque, writes its arguments", "leave it out of `opaque`")
        self.kernel = Kernel(packet, args, kwargs, self.stop)
        try:
            return self.op(func, name, args, kwargs, tensors)
        finally:
            self.kernel = None

    def rank_values(self) -> dict[str, Any]:
        """What the JSON beside the text says of its names."""
        return {"groups": self.groups.members, "constants": self.names.constants}


def _masks(indices: Sequence[Any]) -> bool:
    """Whether some index is a mask."""
    return any(isinstance(t, torch.Tensor) and t.dtype in (torch.bool, torch.uint8) for t in indices)


def _done(out: Any) -> Any:
    """What an op of c10d gives, with a future that holds what it wrote: that of a fake group holds nothing."""
    if not isinstance(out, tuple):
        return out
    future: Any = torch.futures.Future()
    future.set_result(out[0])
    return out[0], torch._C._distributed_c10d._create_work_from_future(future).boxed()


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Tensors that an op writes, as its schema says."""
    found: list[Any] = []
    for n, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[n] if n < len(args) else kwargs.get(argument.name)
            found += [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
    return found
