"""StableHLO ops that a library computes."""

from __future__ import annotations

from scalify_dl.errors import InputError

from ..libraries import FLAGS, PREFIX, SYMBOLS, WORDS, result_type
from .scope import Site, Value, lowers


@lowers("stablehlo.fft", "stablehlo.cholesky", "stablehlo.triangular_solve")
def library(site: Site) -> list[Value]:
    """A function of its operands, of its flags, and of a word."""
    opcode = site.op.name.removeprefix("stablehlo.").replace("_", "-")
    numbers = {key: [site.number(key, 0)] for key in FLAGS.get(opcode, ())}
    if opcode == "fft":
        numbers["fft_length"] = site.numbers("fft_length")
    symbols = {}
    if key := SYMBOLS.get(opcode):
        text = site.text(key)
        symbols[key] = [next(word for word in WORDS[key] if f" {word}>" in text)]
    try:
        made = result_type(opcode, site.operands, numbers, next(iter(symbols.values()), [""])[0])
    except ValueError as error:
        of = ", ".join(x.type for x in site.operands)
        raise InputError(f"`{site.op.name}` of {of}", expected=str(error)) from None
    return list(site.add(f"custom:{PREFIX}{opcode}", site.operands, [made], numbers=numbers, symbols=symbols).results)
