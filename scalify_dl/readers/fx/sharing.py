"""Which memory the results of an operator lie in, as the table of its schema says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scalify_dl.ir.graph import Op, Tensor

from .aliases import Effect, Share
from .compute import Computing, Wanted, packet_of
from .memory import Once, Variable
from .overlap import repeats
from .view import View, given, variables

__all__ = ["Sharing"]

STRUCTURAL = frozenset({"reshape", "transpose", "slice", "broadcast", "real", "imag"})
"""Kinds whose result may lie in their operand's memory."""

ITSELF = frozenset(
    """aten.to aten.dropout aten.resolve_conj aten.conj aten.positive aten.real aten.lift_fresh aten.lift aten.flatten
    _c10d_functional.wait_tensor _c10d_functional_autograd.wait_tensor""".split()  # noqa: SIM905
)
"""Ops that hand back their first operand where they change nothing (`to` of the dtype that it has, but for copies)."""


class Sharing(Computing):
    """Places results in memory: of their own, an argument's, or perhaps an argument's."""

    def fresh(self, value: Any, operands: Sequence[Tensor] = (), dense: bool = True) -> Any:
        """A result in memory of its own. `dense`: where it is an operand's value, it lies as that one does."""
        if isinstance(value, Tensor):
            return self.memory.new(value, value in self.c.dense and (dense or value not in operands))
        if type(value) in (list, tuple):
            return tuple([self.fresh(item, operands, dense) for item in value])
        return Once(self.memory, lambda: self.fresh(value(), operands, dense)) if callable(value) else value

    def share(
        self, name: str, result: Any, effect: Effect, args: list[Any], kwargs: dict[str, Any], wanted: Wanted
    ) -> Any:
        """Results of an op that writes nothing, in the memory that the table says."""
        if args and self.itself(name, result, args, kwargs):
            return args[0]
        if not effect.results:
            operands = list(variables([args, kwargs]))
            layout = getattr(kwargs.get("memory_format"), "path", "torch.preserve_format")
            if layout != "torch.preserve_format" and isinstance(result, Tensor):
                return self.memory.new(result, dense=layout == "torch.contiguous_format")
            dense = layout == "torch.preserve_format" and all(v.storage.dense for v in operands[:1])
            return self.fresh(result, [self.memory.read(v) for v in operands], dense)

        def placed(value: Any, path: tuple[int, ...], share: Share | None) -> Any:
            if type(value) in (list, tuple):
                shares = effect.results if not path and len(effect.results) == len(value) else [share] * len(value)
                return tuple([placed(v, (*path, n), s) for n, (v, s) in enumerate(zip(value, shares, strict=True))])
            if share is None:
                return self.fresh(value)
            if share.argument is not None and share.sure:
                of = given(share.argument, args, kwargs)
                if isinstance(of, Variable) and (isinstance(value, Tensor) or callable(value)):
                    step = View(self, name, args, kwargs, share.argument, path, wanted)
                    return self.memory.view(of.node, step, value)
                return self.fresh(value)
            if callable(value):
                return Once(self.memory, lambda: placed(value(), path, share))
            if not isinstance(value, Tensor):
                return value
            return self.perhaps(name, value, path, share, args, kwargs, wanted)

        return placed(result, (), effect.results[0])

    def itself(self, name: str, result: Any, args: list[Any], kwargs: dict[str, Any]) -> bool:
        """Whether an op hands back its first operand, as far as the text tells."""
        if packet_of(name) not in ITSELF or not isinstance(args[0], Variable):
            return False
        told = packet_of(name) != "aten.to" or (name == "aten.to.dtype" and not any(args[3:]) and not kwargs)
        held = self.memory.read(args[0])
        return told and result is held and held.dtype[0] != "c"

    def perhaps(
        self, name: str, value: Tensor, path: tuple[int, ...], share: Share, args: list[Any], kwargs: dict[str, Any],
        wanted: Wanted,
    ) -> Variable:  # fmt: skip
        """A result that may lie in an argument's memory: it does not, where it is not the argument rearranged."""
        among = [args, kwargs] if share.argument is None else given(share.argument, args, kwargs)
        possible = [v for v in variables(among) if self.rearranged(value, self.memory.read(v))]
        if len(possible) == 1 and share.argument is not None and possible[0] is among:
            before = self.memory.read(possible[0])
            if before.shape != value.shape and _splits_only(before.shape, value.shape):  # a view whatever the strides
                step = View(self, name, args, kwargs, share.argument, path, wanted)
                return self.memory.view(possible[0].node, step, value)
        found = self.memory.new(value, value in self.c.dense and all(v.storage.dense for v in possible))
        found.storage.repeats = any(self.repeats(value, v) for v in possible)
        self.memory.link([found.storage, *(v.storage for v in possible)])
        return found

    def repeats(self, value: Tensor, operand: Variable) -> bool:
        """Whether what is perhaps an operand's memory may show an element of it more than once."""
        if operand.storage.repeats or repeats(operand.node):
            return True
        held = set(self.made_by(self.memory.read(operand)))
        return any(op.kind == "broadcast" for op in self.made_by(value) if op not in held)

    def made_by(self, x: Tensor) -> Iterator[Op]:
        """The ops that rearrange something into a tensor."""
        while (op := self.c.producers.get(x)) is not None and op.kind in STRUCTURAL:
            yield op
            x = op.operands[0]

    def rearranged(self, value: Tensor, operand: Tensor) -> bool:
        """Whether a result may be an operand's elements in another order, as far as the ops between tell."""
        if value is operand:
            return True
        return self.source(value) is self.source(operand) or self.is_opaque(value)

    def source(self, x: Tensor) -> Tensor:
        """What a tensor is a rearrangement of."""
        for op in self.made_by(x):
            x = op.operands[0]
        return x

    def is_opaque(self, x: Tensor) -> bool:
        """Whether it is the result of an op without a meaning."""
        op = self.c.producers.get(x)
        return op is not None and op.kind.startswith(("unknown:", "custom:"))


def _splits_only(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether a reshape only splits dims, or adds and drops dims of size 1: then it is a view whatever the strides."""
    rest = [n for n in before if n != 1]
    sizes = iter([n for n in after if n != 1])
    for n in rest:
        product = 1
        while product < n:
            product *= next(sizes, 0) or n + 1
        if product != n:
            return False
    return next(sizes, None) is None and 0 not in before
