"""Sizes that are symbols: polynomials over names that stand for every whole number above 0.

    M = block_M · m:    M // block_M  is m,    ceildiv(M, block_M)  is m,    M % block_M  is 0

What cannot be told of all values (is 64 below n?) is an error; what could be if one size were a multiple of another
says so (`Narrower`), and the text is read anew with that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import gcd, prod
from typing import Any, NoReturn

Monomial = tuple[str, ...]
_NOBODY = 1 << 61
"""The number that a symbol is to who does not ask what it is: too large for anything to be made of."""


class Untold(Exception):
    """Something that is not the same for all values of the symbols; the message says what."""


class Narrower(Exception):
    """It is the same where `symbol` is a multiple of `factor`."""

    def __init__(self, symbol: str, factor: Size | int) -> None:
        super().__init__(f"{symbol} is no multiple of {factor}")
        self.symbol, self.factor = symbol, factor


class Size(int):
    """A sum of products of symbols. Two are `==` if they are one polynomial; what is asked of values is exact."""

    terms: dict[Monomial, int]

    def __new__(cls, terms: Mapping[Monomial, int]) -> Size:
        found = int.__new__(cls, _NOBODY)
        found.terms = dict(terms)
        return found

    def __repr__(self) -> str:
        parts = ["·".join((*([str(c)] if c != 1 or not m else []), *m)) for m, c in sorted(self.terms.items())]
        return " + ".join(parts)

    __str__ = __repr__

    def __format__(self, how: str) -> str:
        return format(repr(self), how)

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __ne__(self, other: object) -> bool:
        return not self == other

    # ---- arithmetic ----
    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        found = dict(self.terms)
        for monomial, c in terms_of(other).items():
            found[monomial] = found.get(monomial, 0) + c
        return made(found)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return made({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, int) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        found: dict[Monomial, int] = {}
        for (m, c), (n, d) in product(self.terms.items(), terms_of(other).items()):
            key = tuple(sorted((*m, *n)))
            found[key] = found.get(key, 0) + c * d
        return made(found)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return divided(self, other)[0] if isinstance(other, int) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return divided(other, self)[0] if isinstance(other, int) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return divided(self, other)[1] if isinstance(other, int) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return divided(other, self)[1] if isinstance(other, int) else NotImplemented

    # ---- what is asked of values ----
    def __lt__(self, other: int) -> bool:
        return told(other - self > 0 if not isinstance(d := other - self, Size) else above(d), f"{self} < {other}")

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __gt__(self, other: int) -> bool:
        return told(other - self < 0 if not isinstance(d := self - other, Size) else above(d), f"{self} > {other}")

    def __le__(self, other: int) -> bool:
        return not self > other

    def __bool__(self) -> bool:
        return self > 0 or self < 0

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def _number(self, *_: Any) -> NoReturn:
        raise Untold(f"{self} as a number")

    __int__ = __index__ = __float__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _number
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _number
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __divmod__ = __rdivmod__ = _number
    __round__ = __trunc__ = __floor__ = __ceil__ = _number


def symbol(name: str) -> Size:
    """Any whole number above 0."""
    return Size({(name,): 1})


def terms_of(x: int) -> dict[Monomial, int]:
    """Products with what they are multiplied by."""
    return x.terms if isinstance(x, Size) else {(): int(x)} if x else {}


def made(terms: Mapping[Monomial, int]) -> int:
    """A number where it is one."""
    kept = {m: c for m, c in terms.items() if c}
    return kept.get((), 0) if set(kept) <= {()} else Size(kept)


def above(x: int) -> bool | None:
    """Whether it is above 0 for all values, or for none; None where for some."""
    if not isinstance(x, Size):
        return x > 0
    coefficients = list(_shifted(x).items())
    if all(c >= 0 for _, c in coefficients) and dict(coefficients).get((), 0) > 0:
        return True
    return False if all(c <= 0 for _, c in coefficients) else None


def _shifted(x: Size) -> dict[Monomial, int]:
    """With every symbol 1 + what may be 0."""
    found: dict[Monomial, int] = {}
    for monomial, c in x.terms.items():
        for chosen in product((False, True), repeat=len(monomial)):
            key = tuple(name for name, kept in zip(monomial, chosen, strict=True) if kept)
            found[key] = found.get(key, 0) + c
    return found


def told(answer: bool | None, what: str) -> bool:
    """An answer that is the same for all values."""
    if answer is None:
        raise Untold(f"whether {what}")
    return answer


def quotient(x: int, by: int) -> int | None:
    """x / by where that is a whole number for all values."""
    if not isinstance(x, Size) and not isinstance(by, Size):
        return x // by if by and x % by == 0 else None
    whole, rest = _parts(x, by)
    return made(whole) if not rest else None


def _parts(x: int, by: int) -> tuple[dict[Monomial, int], dict[Monomial, int]]:
    """The terms divided, and those that cannot be."""
    if len(terms_of(by)) != 1:
        return ({(): 1}, {}) if x == by else ({}, dict(terms_of(x)))
    ((below, d),) = terms_of(by).items()
    whole, rest = {}, {}
    for monomial, c in terms_of(x).items():
        left = list(monomial)
        fits = c % d == 0
        for name in below:
            if name in left:
                left.remove(name)
            else:
                fits = False
        if fits:
            whole[tuple(left)] = c // d
        else:
            rest[monomial] = c
    return whole, rest


def divided(x: int, by: int) -> tuple[int, int]:
    """Quotient and remainder, rounded down."""
    whole, rest = _parts(x, by)
    for less in (0, 1):
        left = made(rest) + less * by
        if above(left + 1) and above(by - left):
            return made(whole) - less, left
    raise _narrower(rest, by)


def _narrower(rest: Mapping[Monomial, int], by: int) -> Exception:
    """Of which symbol it should be a multiple of what, so that the division is exact."""
    unknown = Untold(f"{made(rest)} divided by {by}")
    if len(terms_of(by)) != 1:
        return unknown
    ((below, d),) = terms_of(by).items()
    for monomial, c in sorted(rest.items(), key=lambda item: -len(item[0])):
        left = list(monomial)
        missing = []
        for name in below:
            if name in left:
                left.remove(name)
            else:
                missing.append(name)
        free = [name for name in left if name not in below] or left
        if free and c > 0:
            mine = min(free, key=lambda name: ("/" not in name, name))  # what is a quotient is nobody's own size
            return Narrower(mine, made({tuple(missing): d // gcd(c, d)}))
    return unknown


def narrowed(known: Mapping[str, int], error: Narrower) -> dict[str, int]:
    """Sizes with a multiple in the place of a symbol."""
    new = error.factor * symbol(f"{error.symbol}/{error.factor}")
    return {name: replaced(size, error.symbol, new) for name, size in known.items()}


def replaced(size: int, name: str, by: int) -> int:
    """A polynomial with another one in the place of a symbol."""
    found: int = 0
    for monomial, c in terms_of(size).items():
        found = found + prod([by if n == name else symbol(n) for n in monomial], start=c)
    return found


def equal(left: Any, right: Any) -> bool:
    """Whether two values are one, whatever the symbols are."""
    if not isinstance(left, Size) and not isinstance(right, Size):
        return bool(left == right)
    if not isinstance(left, int) or not isinstance(right, int):
        return False
    return left == right or not told(above(left - right) or above(right - left) or None, f"{left} is {right}")


def least(left: Any, right: Any) -> Any:
    """The lesser of two numbers."""
    return left if _at_most(left, right) else right


def greatest(left: Any, right: Any) -> Any:
    """The greater of two numbers."""
    return right if _at_most(left, right) else left


def _at_most(left: Any, right: Any) -> bool:
    if not isinstance(left, Size) and not isinstance(right, Size):
        return bool(left <= right)
    if above(right - left + 1):
        return True
    return not told(above(left - right + 1), f"{left} or {right} is less")


def symbols(size: int) -> Iterator[str]:
    """The names in it."""
    for monomial in terms_of(size):
        yield from monomial
