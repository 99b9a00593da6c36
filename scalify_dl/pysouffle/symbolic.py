"""Numbers that are formulas over symbols: one run for many sizes.

With `Program(..., symbols=[Symbol("tp", value=2, minimum=1), …])` a number column takes an int or a formula as text:
`batch*seq`, `8/tp`, `2*k*seq/tp + 1`, `floor(2147483647/tp)`, `mod(k, 2)`. Rows come back with formulas as str.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """An integer unknown. `value`: at the point of the run; `minimum`: of all values it may have.

    `below`: the name of another symbol that is always larger (a coordinate `k` below the size `tp` of its axis).
    """

    name: str
    value: int
    minimum: int = 1
    below: str | None = None


@dataclass(frozen=True)
class Condition:
    """What a derivation rests on beyond the bounds of the symbols. Where it holds, the derivation does.

    `kind`: "less", "less_equal", "not_equal", "equal" compare `left` with `right` (equal: a formula was replaced by its
    value, for an operation that works on numbers only); "integer": `left` divided by `right` is an integer.
    `rule`, `file`, `line`: the rule whose evaluation asked first.
    """

    kind: str
    left: str
    right: str
    rule: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        if self.kind == "integer":
            return f"{self.left} is an integer" if self.right == "1" else f"({self.left})/({self.right}) is an integer"
        sign = {"less": "<", "less_equal": "<=", "not_equal": "!=", "equal": "="}[self.kind]
        return f"{self.left} {sign} {self.right}"
