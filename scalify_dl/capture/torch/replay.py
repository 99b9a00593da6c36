"""A recorded text is run again with torch, on the values that the step had: what it gives must be what the step gave.

An effect that no recorded op had (memory written by a library without torch's dispatcher, a kernel of a compiler)
shows as a difference. Random ops give again what they gave, and so do exchanges whose parts a fake group
makes up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from scalify_dl.readers.fx.reader import Statement, parse
from scalify_dl.readers.fx.syntax import Call, Item, Ref, Symbol

from .memory import copied

__all__ = ["differing"]


def differing(
    text: str,
    inputs: Mapping[str, torch.Tensor],
    constants: Mapping[str, torch.Tensor],
    drawn: Mapping[str, torch.Tensor],
    groups: Mapping[str, str],
    returned: Sequence[torch.Tensor],
) -> list[int]:
    """Positions of returned values that the text does not give. `drawn` is what random ops gave, by the names of their
    results; `groups` are the names under which torch knows the groups of the text."""
    module, _ = parse(text)

    def given(values: Mapping[str, torch.Tensor], some: Mapping[str, torch.Tensor]) -> list[Any]:
        run = _Run(_copies(values), _copies(some), drawn, groups)
        with torch.no_grad():
            for statement in module.statements:
                run.statement(statement)
            return [run.value(value) for value in module.returned]

    found = given(inputs, constants)
    other = [n for n, (a, b) in enumerate(zip(found, returned, strict=True)) if not _same(a, b)]
    if not other:
        return []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        shaken = {name: _shaken(value) for name, value in inputs.items()}
    still, moved = given(inputs, constants), given(shaken, constants)
    return [n for n in other if not _within_rounding(found[n], returned[n], still[n], moved[n])]


def _copies(values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: copied(value) for name, value in values.items()}


def _shaken(value: torch.Tensor) -> torch.Tensor:
    """Each number off by about its last place."""
    if not value.dtype.is_floating_point:
        return value.clone()
    return value * (1 + torch.finfo(value.dtype).eps * torch.randn_like(value))


def _within_rounding(found: Any, wanted: torch.Tensor, still: Any, moved: Any) -> bool:
    """Whether two tensors are not further apart than one rounding of the inputs takes what is given: where terms
    cancel, little but rounding is left of them."""
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape or not wanted.dtype.is_floating_point:
        return False
    room = SHAKEN * (still.double() - moved.double()).abs().max()
    return bool(room.isfinite()) and bool(((found.double() - wanted.double()).abs() <= room).all())


class _Run:
    """Statements run one after the other."""

    def __init__(
        self, env: dict[str, Any], constants: Mapping[str, Any], drawn: Mapping[str, Any], groups: Mapping[str, str]
    ) -> None:
        self.env, self.constants, self.drawn, self.groups = env, constants, drawn, groups

    def statement(self, statement: Statement) -> None:
        value = self.value(statement.value)
        (name,) = statement.names
        if name in self.drawn and isinstance(value, torch.Tensor):
            value.copy_(self.drawn[name].reshape(value.shape))
        self.env[name] = value

    def value(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return self.env[value.name]
        if isinstance(value, Item):
            return self.value(value.value)[value.index]
        if isinstance(value, Call):
            return self.call(value)
        if isinstance(value, Symbol):
            root, _, name = value.path.partition(".")
            return self.constants[name] if root == "self" else getattr(torch, name)
        if type(value) in (list, tuple):
            return type(value)(self.value(item) for item in value)
        return value

    def call(self, call: Call) -> Any:
        if call.function == "device":
            return torch.device(call.kwargs["type"])
        _, _, space, packet, overload = call.function.split(".")
        args = [self.value(arg) for arg in call.args]
        kwargs = {key: self.value(arg) for key, arg in call.kwargs.items()}
        if space == "_c10d_functional":
            if packet in ("isend", "irecv"):
                return args[0]
            args = [self.groups.get(arg, arg) if isinstance(arg, str) else arg for arg in args]
        result = getattr(getattr(getattr(torch.ops, space), packet), overload)(*args, **kwargs)
        if space == "_c10d_functional" and isinstance(result, torch.Tensor):
            return torch.ops._c10d_functional.wait_tensor(result)
        return result


SHAKEN = 16
"""So many times the effect of rounding the inputs may a replayed tensor be off."""
ULPS = 8
"""So many last places of its largest number may a replayed tensor be off: kernels choose the order of their sums by
alignment and strides."""


def _same(a: Any, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same numbers, but for the rounding of sums in another order."""
    if not isinstance(a, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b):  # as almost always, and soon seen
        return True
    if not b.dtype.is_floating_point or not b.numel():
        return bool(((a == b) | ((a != a) & (b != b))).all())
    wide = b.double()
    largest = wide[wide.isfinite()].abs().max().item() if bool(wide.isfinite().any()) else 0.0
    room = ULPS * torch.finfo(b.dtype).eps * largest
    return bool(torch.allclose(a.double(), wide, rtol=0, atol=room, equal_nan=True))
