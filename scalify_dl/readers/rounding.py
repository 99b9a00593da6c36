"""How ops are asked to round: the precision of their operands, the accuracy of their results.

Over the real numbers all of them are one op, so no rule of equality reads it. It is kept with the op (table
`rounding`), and `datalog/conclude/rounding.dl` lists where the sides were asked for different things. Both XLA readers
give one text for one thing; what is asked for by default is no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from scalify_dl.ir.graph import Op
from scalify_dl.ir.vocabulary import ELEMENTWISE

ROUNDED = ELEMENTWISE | {"dot", "convolution"}
"""Kinds that may be asked; so may calls of a library. Others move numbers, or no dump asks them."""
_WORDS = re.compile(r"[a-z0-9_]+")


def precision(text: str) -> str:
    """`{highest,default}`, or `[#stablehlo<precision HIGHEST>, …]`: of each operand."""
    words = [word for word in _WORDS.findall(text.lower()) if word not in ("stablehlo", "precision")]
    return "" if set(words) <= {"default"} else f"operands {' '.join(words)}"


def accuracy(text: str) -> str:
    """`{mode=highest}`, `<mode = …<HIGHEST>>`, or a tolerance as it stands."""
    if not text:
        return ""
    mode = re.search(r"mode\s*=\s*(?:#[\w.]*)?<?(\w+)", text)
    if mode is not None and mode[1].lower() in ("default", "highest"):
        return "" if mode[1].lower() == "default" else "result highest"
    return f"result {' '.join(text.split())}"


def asked(attributes: Mapping[str, str]) -> list[str]:
    """How an instruction of HLO text is asked to round."""
    given = attributes.get
    return [precision(given("operand_precision", "")), accuracy(given("result_accuracy", ""))]


def ask(ops: Sequence[Op], asked: Iterable[str]) -> None:
    """Notes with the ops of one instruction what it was asked for."""
    text = ", ".join(filter(None, asked))
    for op in ops if text else ():
        if op.kind in ROUNDED or op.kind.startswith("custom:"):
            op.rounding = text
