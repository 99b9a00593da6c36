"""One op of a plan about to be lowered: its operands as tensors of the new graph, and what it is declared to make."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Protocol

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.registry import registering

from .arguments import unknown

Shape = tuple[int, ...]
RankNumbers = Mapping[int, int]


class NoMeaning(Exception):
    """What a kind computes with these arguments is not known; the text says what is missing."""


class IllTyped(Exception):
    """The op cannot run: its operands, attributes and declared results do not go together."""


DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128",
    "int64": "s64", "int32": "s32", "int16": "s16", "int8": "s8", "uint8": "u8", "bool": "pred",
}  # fmt: skip


def dtype(name: str) -> str:
    """The vocabulary's name of an element type of torch."""
    found = DTYPES.get(name.removeprefix("torch."))
    if found is None:
        raise NoMeaning(f"the element type `{name}` is not known")
    return found


class Declared(Protocol):
    """A function that somebody declared."""

    def results(self, call: Call) -> Sequence[Tensor]:
        """The results of a call of it, or of its backward op."""


@dataclass
class Call:
    """An op to lower. `types` are the declared results; `by_rank` replaces attributes that depend on the rank."""

    program: Program
    kind: str
    backward: bool
    operands: Sequence[Tensor]
    types: Sequence[tuple[str, Shape]]
    attributes: Mapping[str, str]
    constants: Sequence[tuple[str, str]]
    by_rank: Mapping[str, RankNumbers] = field(default_factory=dict)
    targets: Sequence[int | None] = ()
    """Of every result, which operand's gradient it is, where that is said."""
    declared: Mapping[str, Declared] = field(default_factory=dict)
    """Functions of the model, by kind."""

    @property
    def shapes(self) -> list[Shape]:
        """Declared shapes of the results."""
        return [shape for _, shape in self.types]

    def numbers(self) -> list[Fraction]:
        """The constant arguments, exactly."""
        out = []
        for kind, text in self.constants:
            try:
                out.append(Fraction(text))
            except ValueError:
                raise NoMeaning(f"the constant `{text}` ({kind}) is no number") from None
        return out

    def number(self) -> Fraction:
        """The only constant argument."""
        found = self.numbers()
        if len(found) != 1:
            raise NoMeaning(f"{len(found)} constant arguments")
        return found[0]

    def integers(self, key: str) -> list[int]:
        """The numbers of an attribute such as `(2,)`; NoMeaning where it has none."""
        text = self.attributes.get(key, "")
        if not re.fullmatch(r"[\s\[\]()\d,-]*\d[\s\[\]()\d,-]*|\(\)|\[\]", text):
            raise NoMeaning(f"the attribute {key}={text or 'absent'} is no list of numbers")
        return [int(word) for word in re.findall(r"-?\d+", text)]

    def integer(self, key: str) -> int:
        """The number of an attribute."""
        found = self.integers(key)
        if len(found) != 1:
            raise NoMeaning(f"the attribute {key}={self.attributes.get(key)} is not one number")
        return found[0]

    def dims(self, key: str, rank: int) -> list[int]:
        """Dims, counted from 0."""
        found = self.integers(key)
        if any(not -rank <= d < rank for d in found):
            raise IllTyped(f"{key}={self.attributes[key]} of a value of {rank} dims")
        return [d % rank for d in found]

    def must(self, **values: str) -> None:
        """Attributes that have to be absent or have one value, for the meaning to be known."""
        for key, value in values.items():
            if self.attributes.get(key, value) != value:
                raise NoMeaning(f"{self.kind} with {key}={self.attributes[key]}")


Meaning = Callable[[Call], Sequence[Tensor]]
FORWARD: dict[str, Meaning] = {}
BACKWARD: dict[str, Meaning] = {}
forward = registering(FORWARD)
backward = registering(BACKWARD)


@cache
def enter_all() -> None:
    """Fills the tables."""
    from . import backward_ops, experts, forward_ops, shape_ops  # noqa: F401  (they enter themselves)


def meaning(call: Call) -> list[Tensor]:
    """Lowers an op; its results have the declared types.

    Raises IllTyped where they cannot, NoMeaning where the kind, or the kind with such arguments, is not known.
    """
    enter_all()
    declared = call.declared.get(call.kind)
    found = declared.results if declared else (BACKWARD if call.backward else FORWARD).get(call.kind)
    if found is None:
        raise NoMeaning(f"no meaning of `{'BW.' if call.backward else ''}{call.kind}`")
    if declared is None and (more := next(unknown(call.kind, call.attributes), "")):
        raise NoMeaning(f"{call.kind} with {more}")
    start = len(call.program.graph.ops)
    try:
        results = list(found(call))
    except (ArithmeticError, IndexError, InputError, TypeError, ValueError) as error:
        call.program.take_back(start)
        text = error.message if isinstance(error, InputError) else error
        raise NoMeaning(f"{call.kind} of {len(call.operands)} operands ({text})") from None
    if len(results) != len(call.types):
        raise NoMeaning(f"{call.kind} makes {len(results)} values, {len(call.types)} are declared")
    out = []
    for value, (kind, shape) in zip(results, call.types, strict=True):
        if tuple(value.shape) != tuple(shape):
            raise IllTyped(f"it makes {list(value.shape)}, declared is {list(shape)}")
        out.append(value if value.dtype == kind else call.program.convert(value, kind))
    return out
