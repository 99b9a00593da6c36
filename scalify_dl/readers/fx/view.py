"""A view as the call that made it, and how calls give their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scalify_dl.ir.graph import Graph, Op, Tensor

from .aliases import Argument
from .compute import BY_STRIDES, Computing, Wanted, packet_of
from .lowering import Context, Unsupported
from .memory import Variable
from .scatter import put_back

__all__ = ["View", "given", "lies", "variables"]


def lies(variable: Variable) -> bool | None:
    """Whether a tensor shows its whole memory row-major; None where only its memory's own order is not known."""
    node, steps = variable.node, []
    while node.parent is not None:
        steps.append(node.step)
        node = node.parent
    dtype, shape = variable.storage.type
    try:
        for step in reversed(steps):
            assert step is not None
            for op in step.chain(dtype, shape):
                if op.kind != "reshape":
                    return False
                shape = op.result.shape
    except Unsupported:
        return False
    return variable.storage.dense or None


class View:
    """A view as the call that made it: read, it is called anew of its argument's value."""

    def __init__(
        self, calls: Computing, name: str, args: list[Any], kwargs: dict[str, Any], argument: Argument,
        path: tuple[int, ...], wanted: Wanted,
    ) -> None:  # fmt: skip
        self.calls, self.name, self.argument, self.path, self.wanted = calls, name, argument, path, wanted
        self.lies = packet_of(name) in BY_STRIDES and lies(*variables([given(argument, args, kwargs)]))
        read = calls.read
        self.args = [None if n == argument.position else read(arg) for n, arg in enumerate(args)]
        self.kwargs = {key: None if key == argument.name else read(arg) for key, arg in kwargs.items()}

    def arguments(self, base: Tensor) -> tuple[list[Any], dict[str, Any]]:
        """The call's arguments with a value in the place of the viewed one."""
        position, name = self.argument.position, self.argument.name
        if name in self.kwargs:
            return self.args, {**self.kwargs, name: base}
        return [base if n == position else arg for n, arg in enumerate(self.args)], self.kwargs

    def item(self, result: Any) -> Tensor:
        """The view among the results of the call."""
        for index in self.path:
            result = result[index]
        value = result() if callable(result) else result
        assert isinstance(value, Tensor)
        return value

    def read(self, base: Tensor) -> Tensor:
        args, kwargs = self.arguments(base)
        with self.calls.lying(self.name, {base} if self.lies else set(), {base} if self.lies is False else set()):
            return self.item(self.calls.compute(self.name, args, kwargs, self.wanted))

    def write(self, base: Tensor, value: Tensor) -> Tensor:
        chain = self.chain(base.dtype, base.shape)
        if chain and (chain[-1].result.shape, chain[-1].result.dtype) != (value.shape, value.dtype):
            raise Unsupported("a write through a view of another shape")
        return put_back(self.calls.c, chain, base, value)

    def chain(self, dtype: str, shape: tuple[int, ...]) -> list[Op]:
        scratch = Context(Graph("view"))
        start = Tensor(dtype, shape, "start")
        if self.lies:
            scratch.dense.add(start)
        args, kwargs = self.arguments(start)
        view = self.item(self.calls.lowered(scratch, self.name, args, kwargs))
        chain: list[Op] = []
        while view is not start:
            op = scratch.producers.get(view)
            if op is None or len(op.operands) != 1:
                raise Unsupported("a view that is no chain of reshapes, transposes and slices")
            chain.append(op)
            view = op.operands[0]
        return chain[::-1]


def given(argument: Argument, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a call gives for a parameter; None where it does not."""
    if argument.position is not None and argument.position < len(args):
        return args[argument.position]
    return kwargs.get(argument.name)


def variables(value: Any) -> Iterator[Variable]:
    if isinstance(value, Variable):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from variables(item)
    elif type(value) is dict:
        yield from variables(list(value.values()))
    elif callable(value):
        yield from variables(value())
