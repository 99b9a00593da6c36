"""Captures whose texts leave sizes open (`torch.export` dynamic shapes, JAX shape polymorphism), as captures at sizes.

One such text is a program at every size. Where it is part of a family it is read at a few small sizes, which grow by
different primes so that every formula has its own values; what the formulas then say of large sizes is compared with
the text there, so that a bound inside of it (`Min(16, s27)`) does not stay unseen. The bounds that the exporter states
become part of the family's domain.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.expression import Expression
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.local_sizes import local_sizes
from scalify_dl.readers.read import read_open_sizes
from scalify_dl.readers.relations import Relations, load_relations
from scalify_dl.readers.sizes import Formula, OpenSizes, Sizes

from .capture import Capture
from .family import Family
from .fit import NoFormula
from .lift import Lifting, lift
from .symbols import resolve
from .unify import Cell

FIRST, OTHERS = 3, 2
"""At how many sizes the first text is read, and every further one."""
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
LARGE = (9_973, 997, 499, 251, 127, *reversed(PRIMES))
"""Sizes at which formulas are compared with the text, the first that is within its bounds."""

Places = dict[str, str | None]
Values = Mapping[str, Expression]


@dataclass(frozen=True)
class Members:
    """Captures at sizes, the places of the family's symbols, and what is from 1 on and whole for all its sizes."""

    captures: list[Capture]
    symbols: Places
    bounds: list[Expression]
    checks: list[tuple[Capture, dict[str, int]]] = field(default_factory=list)
    """Further sizes of every text."""
    more: list[Capture] = field(default_factory=list)
    """Further sizes of a text that alone has to tell what depends on the mesh."""

    @property
    def told(self) -> list[str]:
        """Sizes that a text leaves open: it says itself what depends on them."""
        return [name for name, place in self.symbols.items() if place is not None] if self.checks else []

    def dims(self, first: Facts) -> list[tuple[str, Cell]]:
        """Dims of the first capture that are a symbol at all sizes that its mesh has, with the symbol's name."""
        sizes = {name: place for name, place in self.symbols.items() if place is not None}
        if not self.more or not sizes:
            return []
        captures = [first, *(capture.load(member=True) for capture in self.more)]
        symbols, points = resolve(captures, sizes)
        dims = lift(captures, points, symbols).tables["dim"]
        return [(str(size), ("dim", tensor, n)) for tensor, n, size in dims if str(size) in sizes]

    def check(self, family: Family) -> list[str]:
        """Compares a family with its text at the further sizes, which it returns; InputError where numbers differ.

        The bounds become part of the domain of the family.
        """
        family.sizes.update(self.bounds)
        for capture, point in self.checks:
            _compare(family, capture, point)
        return [_words(point) for _, point in self.checks]


@dataclass(frozen=True)
class _Open:
    """A capture with open sizes: its dumps, and their symbols as formulas of the family's."""

    capture: Capture
    dumps: tuple[tuple[OpenSizes, Values], ...]
    axes: Mapping[str, int]

    def formulas(self) -> Iterator[Expression]:
        """What must be whole and from 1 on."""
        for _, values in self.dumps:
            yield from values.values()

    def bounds(self) -> Iterator[Expression]:
        """The same for all sizes: symbols, and the constraints of the dumps."""
        yield from self.formulas()
        for dump, values in self.dumps:
            for constraint in dump.constraints:
                yield from _bounds(constraint, values)

    def admits(self, point: Mapping[str, int]) -> bool:
        """Whether the dumps have these sizes."""
        point = {**self.axes, **point}
        for dump, values in self.dumps:
            known = {n: v.at(point) for n, v in values.items() if v.symbols <= point.keys()}
            if any(value.denominator != 1 for value in known.values()):
                return False
            try:
                dump.check({name: int(value) for name, value in known.items()})
            except InputError:
                return False
        return True


def members(captures: Sequence[Capture], symbols: Mapping[str, str | None]) -> Members:
    """Reads every capture whose text leaves sizes open at sizes of its own; InputError where a size is not named."""
    places: Places = dict(symbols)
    opened = [_opened(capture, places) for capture in captures]
    some = [one for one in opened if one is not None]
    if not some:
        return Members(list(captures), places, [])
    sizes = [name for name, place in places.items() if place is not None]
    varied = {name for name in places if len({one.axes.get(name, 0) for one in some}) > 1}
    # with an axis that no capture varies, one reading has to tell
    alone = len(captures) == 1 and any(place is None and name not in varied for name, place in places.items())
    out: list[Capture] = []
    for capture, one in zip(captures, opened, strict=True):
        if one is None:
            out.append(capture)
            continue
        first = not out
        # a further text has to tell its mesh from the first one's, no more; a single reading, sizes from constants
        primes = [*PRIMES[4:], *PRIMES[3::-1]] if alone else list(PRIMES)
        for _ in range(FIRST if first else OTHERS):
            out.append(_at(one, _point(one, sizes if first else sizes[::-1], primes), places))
    checks = []
    for one in some:
        for name in sizes:
            point = _point(one, [other for other in sizes if other != name], list(PRIMES))
            point = _point(one, [name], list(LARGE), point)
            checks.append((_at(one, point, places), {**one.axes, **point}))
    shared = [{*one.bounds()} for one in some]
    bounds = [b for b in dict.fromkeys(some[0].bounds()) if all(b in other for other in shared) and b.constant is None]
    count = 1 if alone else len(out)
    return Members(out[:count], places, bounds, checks, out[count:])


def _opened(capture: Capture, places: Places) -> _Open | None:
    """The open sizes of a capture; None where it has none. Names the places of symbols that its baseline names."""
    base = None if capture.base is None else read_open_sizes(capture.base, None)
    if base is None:
        return None
    mesh = Mesh.parse(capture.mesh)
    axes = dict(mesh.axes)
    for name, place in places.items():
        if place is None and name not in axes and name in base.symbols:
            places[name] = _place(base, name)
    dims: dict[tuple[str, int], Expression] = dict(capture.sizes.dims)
    for name, place in places.items():
        if place is not None:
            key, _, n = place.removeprefix("#").rpartition(":")
            dims[key, int(n)] = Expression.symbol(name)
    given = Sizes(capture.sizes.symbols, dims)
    values = given.solve(base)
    whole = {
        (port.position, n): _expression(dim, values, base)
        for port in base.inputs for n, dim in enumerate(port.dims) if isinstance(dim, Formula)
    }  # fmt: skip
    dist = read_open_sizes(capture.dist[0], mesh)
    dumps = [(base, values)]
    if dist is not None:
        symbolic = {axis: Expression.symbol(axis) for axis in axes if axis in places and places[axis] is None}
        relations = load_relations(capture.relate) if capture.relate else Relations()
        local = local_sizes(base.inputs, dist, mesh, relations, capture.sizes, whole, symbolic)
        dumps.append((dist, local.solve(dist)))
    return _Open(capture, tuple(dumps), axes)


def _place(base: OpenSizes, symbol: str) -> str:
    """The dim of an input that a symbol is; InputError where it only occurs in formulas."""
    for port in base.inputs:
        for n, dim in enumerate(port.dims):
            if isinstance(dim, Formula) and dim.text == symbol:
                return f"{port.position}:{n}"
    raise InputError(
        f"{symbol} is no dim of an input by itself",
        file=base.file,
        expected=f"the dim that it is part of, under a name: size={base.where(symbol)}",
    )


def _expression(dim: Formula, values: Values, base: OpenSizes) -> Expression:
    found = dim.expression
    if found is None:
        raise InputError(f"the input dim {dim.text} is no sum of products of sizes", file=base.file)
    return found.put(values)


def _point(
    one: _Open, sizes: Sequence[str], primes: list[int], others: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Sizes for one reading: a prime each, which is used up, times what has to divide them."""
    point: dict[str, int] = dict(others or {})
    for name in sizes:
        unit = 1
        for formula in one.bounds():
            for powers, c in formula.terms:
                if name in dict(powers):
                    below = [one.axes.get(s, 1) ** -e for s, e in powers if e < 0]
                    unit = lcm(unit, c.denominator, *below)
        fits = next((prime for prime in primes if one.admits({**point, name: unit * prime})), None)
        if fits is not None:
            primes.remove(fits)
            point[name] = unit * fits
        else:
            raise InputError(
                f"no sizes of {name} within the bounds of the program tell its formulas apart",
                file=one.dumps[0][0].file,
                expected="a program that is exported with wider bounds",
            )
    return point


def _at(one: _Open, point: Mapping[str, int], places: Places) -> Capture:
    """A capture at sizes of the family's symbols."""
    dims = dict(one.capture.sizes.dims)
    for name, size in point.items():
        key, _, n = str(places[name]).removeprefix("#").rpartition(":")
        dims[key, int(n)] = Expression.number(size)
    return replace(one.capture, sizes=Sizes(one.capture.sizes.symbols, dims))


def _compare(family: Family, capture: Capture, point: Mapping[str, int]) -> None:
    """InputError where the text has other numbers at some sizes than the formulas."""
    number = Expression.number
    read = Lifting([capture.load(member=True)], [point], family.symbols, lambda _, values: number(values[0]))

    def same(cell: Cell, values: Sequence[int | Fraction]) -> Expression:
        if len(set(values)) > 1:
            raise NoFormula(f"{values[0]} by the formulas and {values[1]} in the text")
        return number(values[0])

    pair = [family.instantiate(point), read.family().instantiate(point)]
    try:
        Lifting(pair, [point, point], family.symbols, same).family()
    except InputError as error:
        raise InputError(
            f"at {_words(point)} the text is not what the formulas that fit at small sizes say: {error.message}",
            file=error.file or capture.dist[0],
            line=error.line,
            expected="numbers that are sums of products of sizes, without minima, maxima and remainders",
            hint="one text does not tell how numbers depend on the mesh: give a second one (--sample)"
            if family.captures == 1
            else "within bounds that the exporter states they may be: export with a smaller range of sizes",
        ) from None


def _words(point: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in point.items())


def _bounds(constraint: Formula, values: Values) -> Iterator[Expression]:
    """What is from 1 on and whole where a constraint holds; nothing for forms that are none of these."""
    one = Expression.number(1)
    match constraint.tree:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            kind = type(op).__name__
        case ast.Call(func=ast.Name(id=("Eq" | "Le" | "Lt" | "Ge" | "Gt") as called), args=[left, right]):
            kind = {"Le": "LtE", "Ge": "GtE"}.get(called, called)
        case _:
            return
    match left, right:
        case ast.Call(func=ast.Name(id="Mod" | "mod" | "PythonMod"), args=args), ast.Constant(value=0) if kind == "Eq":
            parts = args
        case ast.BinOp(left=above, op=ast.Mod(), right=below), ast.Constant(value=0) if kind == "Eq":
            parts = [above, below]
        case _:
            parts = []
    try:
        if parts:
            above_, below_ = (_put(part, values) for part in parts)
            yield above_ / below_
            return
        a, b = _put(left, values), _put(right, values)
    except ValueError:
        return
    yield from {
        "GtE": (a - b + one,), "Gt": (a - b,), "LtE": (b - a + one,), "Lt": (b - a,), "Eq": (a - b + one, b - a + one),
    }.get(kind, ())  # fmt: skip


def _put(node: ast.expr, values: Values) -> Expression:
    found = Formula.parse(ast.unparse(node)).expression
    if found is None or not found.symbols <= values.keys():
        raise ValueError("no sum of products")
    return found.put(values)
