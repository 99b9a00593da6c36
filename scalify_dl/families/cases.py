"""Proofs for all sizes of a family, case by case.

One run of the rules with symbols gives a proof and the conditions under which it holds: a region of sizes. Z3 is asked
for sizes in no region; the rules run there, with symbols wherever they can stay. Where an equality keeps a point out of
a region (a size is 1, or two sizes coincide), the case is that equality, put into the facts. This goes on until nothing
is left, or a point is not proved: that one is an ordinary pair of programs, with the ordinary diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.facts.validate import validate
from scalify_dl.ir.expression import Expression, Monomial
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse, rules_program
from scalify_dl.prove.verdict import Report, Verdict
from scalify_dl.report.conclude import conclude

from .conditions import LARGE, Condition, simplified
from .derive import Derivation, derive
from .differently import Differently
from .domain import Domain, Region, Search
from .family import Family, SymbolicFacts

LIMIT = 240
"""Most cases."""
POINTS = 40
"""Most single points proved one by one where symbols did not do."""
REFINEMENTS = 6
AXES = (11, 13, 16, 12, 8)
"""Lengths of axes, and factors of other sizes, at which a case is tried first."""
PRIMES = (13, 17, 19, 23, 29, 31, 37, 41)

Point = dict[str, int]
Equations = dict[str, Expression]
Derive = Callable[[SymbolicFacts, Mapping[str, int]], Derivation]


@dataclass(frozen=True)
class Case:
    """A region that is proved, and the sizes at which the rules ran."""

    region: Region
    point: Mapping[str, int]


@dataclass
class Coverage:
    """What came out. `failed` is a point that is not proved, with its ordinary report."""

    domain: Domain
    cases: list[Case] = field(default_factory=list)
    magnitude: set[Condition] = field(default_factory=set)
    """Conditions that only keep numbers small."""
    assumptions: set[tuple[str, str, str]] = field(default_factory=set)
    spread: list[Equations] = field(default_factory=list)
    """Equations that were tried at large sizes."""
    complete: bool = False
    failed: tuple[Point, Report] | None = None
    notes: list[str] = field(default_factory=list)
    stops: tuple[str, ...] = ()
    """Where the run with the most symbols stopped that did not prove what single points do."""

    def assume(self, found: Iterable[tuple[str, str, str]]) -> None:
        """Adds assumptions of a case; those that an earlier case has of the same tensor are the same at other sizes."""
        known = {(tensor, why) for tensor, _, why in self.assumptions}
        self.assumptions |= {row for row in found if (row[0], row[2]) not in known}


def cover(
    family: Family, first: Point, options: Options, progress: Callable[[str], None] = lambda text: None
) -> Coverage:
    """Proves the members of a family, starting near the point `first`."""
    names = [symbol.name for symbol in family.symbols]
    axes = [symbol.name for symbol in family.symbols if symbol.axis]
    out = Coverage(Domain(names, family.sizes, family.integers, axes))
    out.magnitude = {Condition("less", str(size), str(LARGE)) for size in out.domain.sizes}
    if not out.domain.holds(first):
        raise InputError(f"the sizes {_text(first)} do not fit the formulas", hint="add a capture at other sizes")
    search = Search(out.domain)
    run = partial(derive, rules_program(options.rules), options, Differently())
    single, required = 0, set(out.magnitude)
    point: Point | None = _spread(family, {}, out.domain) or first
    while point is not None:
        if len(out.cases) >= LIMIT or single >= POINTS:
            out.notes.append(f"{len(out.cases)} cases are proved and not all sizes covered: {_text(point)} is not")
            return out
        progress(f"case {len(out.cases) + 1}: {_text(point)}")
        case = _prove(family, point, out, run)
        if case is None:
            report = _ordinary(family, point, options)
            if report.verdict is not Verdict.PROVED:
                out.failed = point, report
                return out
            single += 1
            case = Case(Region({name: Expression.number(size) for name, size in point.items()}, {}, ()), point)
            out.assume((a.tensor, a.text, a.why) for a in report.assumptions)
        out.cases.append(case)
        try:
            search.add(case.region)
            search.require(out.magnitude - required)
            required |= out.magnitude
            point = search.point()
        except TimeoutError as error:
            out.notes.append(f"{error}")
            return out
    out.complete = True
    return out


def _prove(family: Family, point: Point, out: Coverage, run: Derive) -> Case | None:
    """A region around a point, or of larger sizes with the same equations; None where symbols do not help."""
    axes = [symbol.name for symbol in family.symbols if symbol.axis]
    equations = _fixed({}, [a for a in axes if point[a] <= sum(family.ends)], point)
    one = Expression.number(1)
    for size in out.domain.sizes:  # a dim of one element is never like others
        if size.at(point) == 1:
            equations = _equated(equations, size - one, axes)
    for case in out.cases:
        equations = _joined(equations, [c for c in case.region.conditions if case.region.applies(point)], point, axes)
    if equations not in out.spread:
        out.spread.append(equations)
        large = _spread(family, equations, out.domain)
        region = _region(family, equations, large, out, run) if large else None
        if large and region is not None and region.holds(large):
            return Case(region, large)
    tried: list[Equations] = []
    for _ in range(REFINEMENTS):
        if equations in tried or len(equations) == len(point):
            break
        tried.append(equations)
        region = _region(family, equations, point, out, run)
        if region is None:
            break
        if region.holds(point):
            return Case(region, point)
        finer = _joined(equations, region.conditions, point, axes)
        if finer == equations:  # no equality: what stands in the way is fixed
            involved = {s for c in region.violated(point) for s in c.symbols}
            involved = {region.generic.get(s, s) for s in involved} - equations.keys()
            finer = _fixed(equations, sorted(involved)[:1], point)
        equations = finer
    # numbers in place of symbols, as few as do: axes, then what is cut along them, then the rest
    order = [*axes, *sorted(point.keys() - set(axes), key=lambda name: (-out.domain.coupled(name), name))]
    equations = _fixed(equations, axes, point)
    while len(equations) < len(point):
        rest = [name for name in order if name not in equations]
        for finer in (equations, *(_fixed(equations, [name], point) for name in rest)):
            if finer not in tried and len(finer) < len(point):
                tried.append(finer)
                region = _region(family, finer, point, out, run)
                if region is not None and region.holds(point):
                    return Case(region, point)
        equations = _fixed(equations, rest[:1], point)
    return None


def _spread(family: Family, equations: Equations, domain: Domain) -> Point | None:
    """Large sizes that satisfy the equations and have little in common: there symbols behave as symbols."""
    axes = [symbol.name for symbol in family.symbols if symbol.axis and symbol.name not in equations]
    others = [symbol.name for symbol in family.symbols if not symbol.axis and symbol.name not in equations]
    for lengths in product(AXES, repeat=len(axes)):
        point = dict(zip(axes, lengths, strict=True))
        for scale in (prod(lengths), 1):
            point |= {name: scale * prime for name, prime in zip(others, PRIMES, strict=False)}
            solved = {name: formula.at(point) for name, formula in equations.items()}
            whole = point | {name: int(value) for name, value in solved.items() if value.denominator == 1}
            if len(whole) == len(family.symbols) and domain.holds(whole):
                return {symbol.name: whole[symbol.name] for symbol in family.symbols}
    return None


def _region(family: Family, equations: Equations, point: Point, out: Coverage, run: Derive) -> Region | None:
    try:
        facts = family.facts(equations)
    except ValueError:
        return None
    found = run(facts, point)
    if not found.proved:
        out.stops = out.stops or found.stops
        return None
    out.assume(found.assumptions)
    out.magnitude |= {c for c in found.conditions if c.bounds_magnitude}
    kept = simplified(c for c in found.conditions if not c.bounds_magnitude)
    return Region(equations, {name: axis for axis, name in facts.coordinates.items()}, kept, family.ends)


def _joined(
    equations: Equations, conditions: list[Condition] | tuple[Condition, ...], point: Point, axes: list[str]
) -> Equations:
    """With the equalities at this point that stand against conditions."""
    for condition in conditions:
        if condition.symbols - point.keys() or condition.holds(point):
            continue
        difference = condition.meets(point)
        if difference is not None:
            equations = _equated(equations, difference, axes)
    return equations


def _equated(equations: Equations, difference: Expression, axes: list[str]) -> Equations:
    """With `difference = 0`, where that has a solution that facts can be written with."""
    try:
        solved = solve(difference.put(equations), axes)
        return equations if solved is None else _with(equations, *solved)
    except ValueError:
        return equations


def _with(equations: Equations, name: str, formula: Expression) -> Equations:
    return {s: e.put({name: formula}) for s, e in equations.items()} | {name: formula}


def _fixed(equations: Equations, names: list[str], point: Point) -> Equations:
    """With numbers for these symbols."""
    for name in names:
        if name not in equations:
            equations = _with(equations, name, Expression.number(point[name]))
    return equations


def solve(difference: Expression, axes: list[str]) -> tuple[str, Expression] | None:
    """A symbol for which `difference = 0` has one solution, and the solution; an axis only if that is a number."""
    candidates: list[tuple[bool, bool, str, Expression]] = []
    for name in sorted(difference.symbols):
        powers = {dict(m).get(name, 0) for m, _ in difference.terms}
        lowest = min(powers)
        # name^lowest * (a * name + b) = 0
        if powers != {lowest, lowest + 1}:
            continue
        by = Expression.of([(((name, lowest),), 1)]) if lowest else Expression.number(1)
        rest = difference / by
        a = Expression.of((_without(m, name), c) for m, c in rest.terms if dict(m).get(name, 0))
        b = Expression.of((m, c) for m, c in rest.terms if not dict(m).get(name, 0))
        if not a.is_term:
            continue
        formula = Expression.number(-1) * b / a
        if name in axes and formula.constant is None:
            continue
        candidates.append((name in axes, not formula.is_polynomial, name, formula))
    if not candidates:
        return None
    *_, name, formula = min(candidates, key=lambda c: c[:3])
    return name, formula


def _without(powers: Monomial, name: str) -> Monomial:
    return tuple(pair for pair in powers if pair[0] != name)


def _ordinary(family: Family, point: Point, options: Options) -> Report:
    facts = family.instantiate(point)
    try:
        validate(facts)
    except InputError as error:
        raise InputError(
            f"at {_text(point)} the formulas make no valid programs: {error.message}",
            hint="the captures do not tell some numbers from sizes: add a capture at sizes that differ more",
        ) from None
    return conclude(analyse(facts, options))


def _text(point: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in point.items())
