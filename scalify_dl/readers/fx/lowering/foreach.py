"""`_foreach_` ops: an elementwise op of every tensor of a list (how optimisers step)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalify_dl.ir.graph import Tensor

from .core import LOWERINGS, Context, Number, Unsupported, lower
from .reductions import vector_norm

ELEMENTWISE = """abs add addcdiv addcmul ceil clamp_max clamp_min copy cos div exp expm1 floor lerp log log10 log1p log2
maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sqrt sub tan tanh trunc zero""".split()  # noqa: SIM905


def _register(name: str) -> None:
    one = LOWERINGS[f"aten.{name}"]

    @lower(f"aten._foreach_{name}")
    def foreach(c: Context, *passed: Any, **named: Any) -> list[Tensor]:
        args, kwargs = passed, named
        lists = [arg for arg in args if type(arg) in (list, tuple)]
        count = len(lists[0]) if lists else 0
        if any(len(each) != count for each in lists):
            raise Unsupported("lists of different lengths")
        if name in ("addcdiv", "addcmul") and len(args) > 3:  # their factors stand by keyword in the op of one tensor
            args, kwargs = args[:3], {"value": args[3]}
        if isinstance(factors := kwargs.get("value"), Tensor):
            kwargs = {"value": [c.reshape(c.slice(factors, 0, n, n + 1), ()) for n in range(count)]}
        return [
            one(c, *(_at(arg, n) for arg in args), **{key: _at(arg, n) for key, arg in kwargs.items()})
            for n in range(count)
        ]


@lower("aten._foreach_norm")
def foreach_norm(c: Context, xs: Sequence[Tensor], ord: Number = 2, dtype: object = None) -> list[Tensor]:
    return [vector_norm(c, x, ord, dtype=dtype) for x in xs]


def _at(value: Any, n: int) -> Any:
    return value[n] if isinstance(value, Sequence) and not isinstance(value, str) else value


for _name in ELEMENTWISE:
    _register(_name)
