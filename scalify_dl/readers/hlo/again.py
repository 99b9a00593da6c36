"""Instructions that are written alike, as those of a model's layers are: lowered once, then made again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from scalify_dl.ir.graph import Frame, Literal, Op, Tensor

from ..orders import OPCODES as ELEMENTWISE
from .module import Instruction, Module, Written

PLAIN = frozenset({*ELEMENTWISE, "broadcast", "concatenate", "dot", "pad", "reshape", "reverse", "slice", "transpose"})
"""Opcodes whose lowering reads what is written of the instruction and the types of its operands, and nothing else."""
CALLING = frozenset({"all-gather", "all-reduce", "reduce", "reduce-scatter"})
"""Those whose lowering reads which function is called, and constants that are no operands of the op that it makes, too;
the channel becomes that of the op."""
_OWN = re.compile(r'"(?>(?:[^"\\]++|\\.)*)"|(?<=, channel_id=)(0*[1-9]\d*+)|(?<=, to_apply=)%?([\w.\-]++)')
"""Strings, and what differs between instructions of layers: channels, names of functions."""


class Met(NamedTuple):
    """An op, the types of the operands of the instruction that it was made of, constants behind the op's own, and the
    call in which it was met."""

    op: Op
    types: list[tuple[str, tuple[int, ...]]]
    constants: list[Literal | None]
    call: Sequence[Frame]


class Again:
    """One op for each way in which instructions of one module are written."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.met: dict[Written, list[Met]] = {}
        self.first: dict[tuple[str, str, str], Written] = {}
        self.functions: dict[object, str] = {}

    def like(self, written: Written) -> Written | None:
        """The first that is written alike, but for its channel and the name of an equal function; None where more than
        that is read."""
        if written.like is None:
            if written.opcode in PLAIN:
                written.like = written
            elif written.opcode in CALLING:
                text = _OWN.sub(lambda match: self._said(match, written), written.text)
                written.like = self.first.setdefault((written.opcode, written.type_text, text), written)
        return written.like

    def _said(self, match: re.Match[str], written: Written) -> str:
        """What is the same for instructions of all layers; no line has a line break."""
        if match[1]:
            written.channel = int(match[1])
            return "\n"
        function = self.module.computations.get(match[2]) if match[2] else None
        return match[0] if function is None else self.functions.setdefault(function.form, f"\n{len(self.functions)}")

    def note(
        self, like: Written, operands: Sequence[object], made: Sequence[Op], value: object, call: Sequence[Frame]
    ) -> None:
        """What an instruction was lowered to: a value that is one op of its operands (but for constants behind these)
        is made again."""
        given = [x for x in operands if isinstance(x, Tensor)]
        if len(made) != 1 or made[0].results != [value] or made[0].regions or len(given) < len(operands):
            return
        count = len(made[0].operands)
        constants = [x.literal for x in given[count:]]
        if made[0].operands == given[:count] and None not in constants:
            met = Met(made[0], [(x.dtype, x.shape) for x in given], constants, call)
            self.met.setdefault(like, []).append(met)

    def made(self, i: Instruction, like: Written, operands: list[Any], call: Sequence[Frame]) -> Op | None:
        """The op of an instruction, where one that is written alike was met, of operands of the same types."""
        try:
            types = [(x.dtype, x.shape) for x in operands]
        except AttributeError:  # a tuple or a token
            return None
        for op, before, constants, within in self.met.get(like, ()):
            if types == before and within is call:
                count = len(op.operands)
                if not constants or constants == [x.literal for x in operands[count:]]:
                    break
        else:
            return None
        name, was = i.name, op.results[0]
        made = Op(op.kind, operands[:count], [Tensor(was.dtype, was.shape, name)], name, op.numbers, op.symbols)
        made.source, made.at, made.rounding = op.source, (i.line, i.column), op.rounding
        if op.groups is not None:
            made.groups, made.channel = op.groups, i.written.channel
        return made
