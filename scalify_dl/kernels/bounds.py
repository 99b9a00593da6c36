"""Which integer arguments are used as indices, and of how many elements."""

from __future__ import annotations

from scalify_dl.readers.tir.syntax import (
    Apply,
    Block,
    Copy,
    Expr,
    If,
    Kernel,
    Launch,
    Let,
    Load,
    Loop,
    Statement,
    Store,
)


def index_bounds(kernel: Kernel) -> dict[str, tuple[int, int]]:
    """Of integer arguments that indices are made of, numbers that are indices."""
    found: dict[str, tuple[int, int]] = {}
    lets: dict[str, Expr] = {}

    def inside(x: Expr, size: int) -> None:
        if isinstance(x, Load):
            _low, high = found.get(x.buffer.name, (0, size))
            found[x.buffer.name] = (0, min(high, size))
        elif isinstance(x, Apply):
            for a in x.args:
                inside(a, size)
        elif (name := getattr(x, "name", None)) in lets:
            inside(lets[str(name)], size)

    def expression(x: Expr) -> None:
        if isinstance(x, Load):
            for index, size in zip(x.indices, x.buffer.shape, strict=True):
                inside(index, size)
                expression(index)
        elif isinstance(x, Apply):
            for a in x.args:
                expression(a)

    def body(statements: list[Statement]) -> None:
        for s in statements:
            match s:
                case Store(indices=indices, value=value, buffer=buffer):
                    for index, size in zip(indices, buffer.shape, strict=True):
                        inside(index, size)
                    expression(value)
                case Copy(source=source, target=target):
                    for region in (source, target):
                        for start, size in zip(region.starts, region.buffer.shape, strict=True):
                            inside(start, size)
                case Let(var=var, value=value):
                    lets[var] = value
                    expression(value)
                case Loop(body=inner) | Launch(body=inner):
                    body(inner)
                case Block(axes=axes, init=first, body=inner):
                    for axis in axes:
                        lets[axis.var] = axis.value
                    body(first)
                    body(inner)
                case If(condition=condition, then=yes, otherwise=no):
                    expression(condition)
                    body(yes)
                    body(no)
                case _:
                    pass

    body(kernel.body)
    integers = {b.name for b in kernel.inputs if b.dtype[0] in "su"}
    return {name: bounds for name, bounds in found.items() if name in integers}
