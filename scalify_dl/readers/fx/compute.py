"""What operators compute of tensors: by their lowering, or as ops without a meaning."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from .lowering import LOWERINGS, Context, Unsupported, Written, meant
from .memory import Memory, Variable
from .opaque import Items, nested, opaque
from .sizes import Hidden

__all__ = ["BY_STRIDES", "EFFECTS", "Computing", "Wanted", "lowering_of", "packet_of"]

Wanted = Callable[[], list[tuple[str, tuple[int, ...]]] | Items]
"""The result types of an op that only the text tells."""

EFFECTS = frozenset(
    """aten._assert_tensor_metadata aten._assert_async aten._assert_scalar aten.sym_constrain_range
    aten.sym_constrain_range_for_size aten.record_stream profiler torch._check torch._check_is_size
    torch._C._set_grad_enabled""".split()  # noqa: SIM905
)
"""Calls that compute nothing and write nothing."""

BY_STRIDES = frozenset({"aten.as_strided", "aten._reshape_alias"})
"""Ops that see how their first operand lies in memory."""

TORCH_SPACES = frozenset(
    {"aten", "prims", "higher_order", "_c10d_functional", "c10d_functional", "c10d", "_dtensor", "quantized"}
)
"""Namespaces of torch itself: an op there without a lowering is `unknown:`, elsewhere `custom:`."""


def packet_of(name: str) -> str:
    """`aten.add.Tensor` → `aten.add`."""
    space, _, rest = name.partition(".")
    return f"{space}.{rest.partition('.')[0]}"


def lowering_of(name: str) -> Callable[..., Any] | None:
    """The lowering of an op, by overload or packet."""
    return LOWERINGS.get(name) or LOWERINGS.get(packet_of(name))


class Computing:
    """Computes operators of tensors; `c` emits, `memory` keeps what variables hold."""

    def __init__(self, c: Context) -> None:
        self.c = c
        self.memory = Memory(c)

    def read(self, value: Any) -> Any:
        """A value with every variable in it replaced by what it holds."""
        if isinstance(value, Variable):
            return self.memory.read(value)
        if type(value) is list:
            return [self.read(item) for item in value]
        if type(value) is tuple:
            return tuple([self.read(item) for item in value])
        if type(value) is dict:
            return {key: self.read(item) for key, item in value.items()}
        return self.read(value()) if callable(value) else value

    def compute(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], wanted: Wanted) -> Any:
        """What an op gives of tensors; `unknown:` or `custom:` where no lowering says it."""
        lowering = lowering_of(name)
        if lowering is None:
            return self.opaque(name, args, kwargs, wanted(), "no lowering exists for it")
        mark = len(self.c.graph.ops)
        try:
            found = self.lowered(self.c, name, args, kwargs, wanted)
            if isinstance(found, Written):
                raise Unsupported("what it writes")
            return found
        except Unsupported as reason:  # what the lowering had begun is taken back
            del self.c.graph.ops[mark:]
            return self.opaque(name, args, kwargs, wanted(), str(reason), unknown=True)

    @contextmanager
    def lying(self, name: str, row_major: set[Tensor], moved: set[Tensor]) -> Iterator[None]:
        """Within, an op that goes by memory finds these row-major, those in another order.

        A value does not say so: it may have been written to memory that lies otherwise.
        """
        by_value = self.c.dense, self.c.moved
        if packet_of(name) in BY_STRIDES:
            self.c.dense, self.c.moved = row_major, moved
        try:
            yield
        finally:
            self.c.dense, self.c.moved = by_value

    def lowered(
        self, c: Context, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], wanted: Wanted = dict
    ) -> Any:
        """What the lowering of an op makes of tensors; Unsupported where there is none for this form."""
        lowering = lowering_of(name)
        if lowering is None:
            raise Unsupported("no lowering exists for it")
        c.target = name
        c.printed = lambda item: (_printed(wanted(), item) or (None,))[0]
        c.printed_shape = lambda item: (_printed(wanted(), item) or (None, None))[1]
        try:
            _checked([*args, *kwargs.values()], c.untyped)
            kwargs = meant(kwargs)
            return lowering(c, *args, **kwargs)
        except (TypeError, ValueError, AttributeError, IndexError, KeyError, ZeroDivisionError, OverflowError) as error:
            try:
                _signature(lowering).bind(c, *args, **kwargs)
            except TypeError as mismatch:
                raise Unsupported(f"arguments: {mismatch}") from None
            raise InputError(f"`{name}`: these arguments make no sense ({error})") from error

    def opaque(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], types: Any, why: str | None, *,
        unknown: bool = False,
    ) -> Any:  # fmt: skip
        """An op without a meaning here: tensors are operands, everything else attributes."""
        packet = packet_of(name)
        if unknown or packet.partition(".")[0] in TORCH_SPACES:
            kind = f"unknown:{name}"
        else:
            kind, why = f"custom:{packet}", None
        items = dict(enumerate(types)) if isinstance(types, list) else {k: v for k, v in types.items() if v}
        number = {(): ("s64", ())}  # that depends on data, or nothing
        op = opaque(self.c, kind, args, kwargs, items or number, why)
        if not items:
            return Hidden(name, tuple(op.results))
        if isinstance(types, list):
            return op.results[0]
        return nested(dict.fromkeys(types) | dict(zip(items, op.results, strict=True)))


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _printed(types: Any, item: int) -> Any:
    """The printed type of an item of a call."""
    return types.get((item,)) if isinstance(types, dict) else None


def _checked(values: Sequence[Any], untyped: set[Tensor]) -> None:
    """No lowering sees values that the text does not show."""
    for value in values:
        if type(value) in (list, tuple):
            _checked(value, untyped)
        elif isinstance(value, Tensor) and value in untyped:
            raise Unsupported("whether it is a tensor that became another view is not clear from the text")
        elif isinstance(value, Hidden):
            raise Unsupported(f"`{value.name}` is a value that the dump does not show")
