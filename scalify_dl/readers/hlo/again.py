"""Instructions that are written alike, as those of a model's layers are: lowered once, then made again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scalify_dl.ir.graph import Frame, Op, Tensor

from ..orders import OPCODES as ELEMENTWISE
from .module import Instruction, Written

PLAIN = frozenset({*ELEMENTWISE, "broadcast", "concatenate", "dot", "pad", "reshape", "reverse", "slice", "transpose"})
"""Opcodes whose lowering reads what is written of the instruction and the types of its operands, and nothing else."""


@dataclass
class Again:
    """One op for each way in which plain instructions are written, with the call in which it was met."""

    met: dict[tuple[str, str, Written], tuple[Op, Sequence[Frame]]] = field(default_factory=dict)

    def note(self, i: Instruction, operands: list[object], made: list[Op], call: Sequence[Frame]) -> None:
        """What a plain instruction was lowered to: one op of its operands is made again."""
        if len(made) == 1 and made[0].operands == operands and len(made[0].results) == 1:
            self.met[i.opcode, i.type_text, i.written] = made[0], call

    def made(self, i: Instruction, operands: list[object], call: Sequence[Frame]) -> Op | None:
        """The op of a plain instruction, where one that is written alike was met, of operands of the same types."""
        like, within = self.met.get((i.opcode, i.type_text, i.written), (None, call))
        if like is None or within is not call or len(operands) != len(like.operands):
            return None
        given: list[Tensor] = []
        for x, y in zip(operands, like.operands, strict=True):
            if not isinstance(x, Tensor) or x.shape != y.shape or x.dtype != y.dtype:
                return None
            given.append(x)
        return Op(
            like.kind,
            given,
            [Tensor(t.dtype, t.shape, i.name) for t in like.results],
            i.name,
            {key: [*values] for key, values in like.numbers.items()},
            {key: [*values] for key, values in like.symbols.items()},
            source=like.source,
            at=(i.line, i.column),
            rounding=like.rounding,
        )
