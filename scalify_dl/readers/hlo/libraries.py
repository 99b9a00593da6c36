"""Lowering of HLO opcodes that a library computes."""

from __future__ import annotations

from ..libraries import FLAGS, PREFIX, SYMBOLS, WORDS, result_type
from .lower import Lowering, opcode
from .module import Instruction
from .values import array, numbers_of, results, tensors


@opcode("fft", "cholesky", "triangular-solve")
def library(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A function of its operands, of its flags, and of a word."""
    x = tensors(i, operands, 2 if i.opcode == "triangular-solve" else 1)
    numbers = {key: [int(_flag(i, key))] for key in FLAGS.get(i.opcode, ())}
    if i.opcode == "fft":
        numbers["fft_length"] = numbers_of(i, "fft_length")
    symbols = {}
    if key := SYMBOLS.get(i.opcode):
        word = i.attributes.get(key)
        if word not in WORDS[key]:
            raise i.error(f"{key}={word}", expected=", ".join(WORDS[key]))
        symbols[key] = [word]
    declared = array(i)
    try:
        made = result_type(i.opcode, x, numbers, next(iter(symbols.values()), [""])[0])
    except ValueError as error:
        raise i.error(f"{i.opcode} of {', '.join(t.type for t in x)}", expected=str(error)) from None
    if made != (declared.dtype, declared.shape):
        declaration = f"{i.opcode} is declared as {declared.dtype}{list(declared.shape)}"
        raise i.error(declaration, expected=f"{made[0]}{list(made[1])}")
    return results(lo.emit(i, f"custom:{PREFIX}{i.opcode}", x, numbers=numbers, symbols=symbols))


def _flag(i: Instruction, key: str) -> bool:
    word = i.attributes.get(key, "false")
    if word not in ("true", "false"):
        raise i.error(f"{key}={word}", expected="true or false")
    return bool(word == "true")
