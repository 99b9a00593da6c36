"""Index expressions as sums of multiples of what they are made of, as far as is needed to tell lengths of slices."""

from __future__ import annotations

from scalify_dl.sizes import Size

from .syntax import Apply, Expr, Number

Terms = dict[Expr | None, int]


def terms(x: Expr) -> Terms:
    """Coefficients of the parts of a sum; of None the number."""
    if isinstance(x, Number) and isinstance(x.value, int):
        return {None: x.value if isinstance(x.value, Size) else int(x.value)}
    if isinstance(x, Apply) and len(x.args) == 2 and x.kind in ("add", "subtract", "multiply"):
        left, right = terms(x.args[0]), terms(x.args[1])
        if x.kind != "multiply":
            sign = 1 if x.kind == "add" else -1
            return {key: left.get(key, 0) + sign * right.get(key, 0) for key in {*left, *right}}
        for one, other in ((left, right), (right, left)):
            if set(one) <= {None}:
                return {key: value * one.get(None, 0) for key, value in other.items()}
    return {x: 1}


def constant_difference(high: Expr, low: Expr) -> int | None:
    """high − low where that is a number."""
    a, b = terms(high), terms(low)
    found = {key: a.get(key, 0) - b.get(key, 0) for key in {*a, *b}}
    if any(value for key, value in found.items() if key is not None):
        return None
    return found.get(None, 0)
