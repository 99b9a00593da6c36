"""What instructions yield: a tensor, a list of values (a tuple), or None (a token); and what they must take."""

from __future__ import annotations

from scalify_dl.ir.graph import Op, Tensor

from .attributes import integers
from .module import Instruction
from .types import ArrayType, Type, flatten


def opened(value: object) -> list[Tensor | None]:
    """The tensors of a value, tuples opened depth first."""
    if isinstance(value, list):
        return [tensor for element in value for tensor in opened(element)]
    assert value is None or isinstance(value, Tensor)
    return [value]


def agree(i: Instruction, declared: Type, value: object) -> None:
    """InputError where a declared type is not that of what there is."""
    said = [t.dtype + str(list(t.shape)) for t in flatten(declared) if t.dtype not in ("token", "opaque")]
    made = [t.dtype + str(list(t.shape)) for t in opened(value) if t is not None]
    if said != made:
        raise i.error(f"is declared as {', '.join(said) or '()'}", expected=", ".join(made) or "()")


def tensors(i: Instruction, operands: list[object], count: int | None = None) -> list[Tensor]:
    """The operands, checked to be tensors (and `count` of them)."""
    found = []
    for operand in operands:
        if not isinstance(operand, Tensor):
            raise i.error("takes arrays, not tuples or tokens")
        found.append(operand)
    if count is not None and len(found) != count:
        raise i.error(f"has {len(found)} operands", expected=f"{count} operands")
    return found


def array(i: Instruction) -> ArrayType:
    """The instruction's type, checked to be an array."""
    type_ = i.type
    if not isinstance(type_, ArrayType):
        raise i.error(f"has type {i.type_text}", expected="an array type")
    return type_


def numbers_of(i: Instruction, key: str) -> list[int]:
    """An integer-list attribute; InputError where it is missing."""
    text = i.attributes.get(key)
    if text is None:
        raise i.error(f"attribute `{key}` is missing", hint="the dump is truncated or edited")
    return integers(text)


def results(op: Op) -> object:
    """The value of an op: its tensor, or a tuple of them."""
    return op.results[0] if len(op.results) == 1 else list(op.results)


def shaped(value: list[Tensor], type_: object) -> object:
    """Tensors (without tokens) put back into the tuple structure of a type."""
    rest = iter(value)

    def build(part: object) -> object:
        if not isinstance(part, ArrayType):
            assert isinstance(part, tuple)
            return [build(element) for element in part]
        return None if part.dtype in ("token", "opaque") else next(rest)

    return build(type_)
