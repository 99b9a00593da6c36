"""Attacks the checker's own algebra as `audit.algebra` does the prover's: forms must be worth what expressions are
worth, and what is called equal must be.

    python -m scalify_dl.audit.algebra_checked [--count N] [--seed S]
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from fractions import Fraction
from typing import Any

from scalify_dl.algebra.worth import FUNCTIONS, Undefined
from scalify_dl.certificate.formulas.elementwise import Element, Elementwise
from scalify_dl.certificate.formulas.equal import equal
from scalify_dl.certificate.formulas.forms import Atoms, Form, Unknown

from .algebra import POINTS, Tree, draw, rewritten, value

NOWHERE = (Undefined, OverflowError, ZeroDivisionError, ValueError)


def formula(of: Elementwise, tree: Tree) -> Element:
    """What the checker makes of an expression."""
    kind, *parts = tree
    if kind == "x":
        return of.atoms.atom("input", parts[0])
    if kind == "c":
        return of.atoms.number(Fraction(parts[0]))
    if kind == "power":
        return of.atoms.power(of.form(formula(of, parts[0])), Fraction(parts[1]))
    if kind == "select":
        direction, left, right = parts[0]
        truth = of.compare(direction, formula(of, left), formula(of, right))
        return of.select(truth, formula(of, parts[1]), formula(of, parts[2]))
    if kind in ("softmax", "guarded", "ranked", "picked"):
        raise Unknown(kind)
    return of.real(kind, [formula(of, part) for part in parts])


class Worth:
    """What forms are worth at a point; `scale` bounds what was added up."""

    def __init__(self, atoms: Atoms, at: tuple[float, ...]) -> None:
        self.atoms, self.at, self.scale = atoms, at, 1.0

    def form(self, form: Form) -> float:
        total = 0.0
        for product, factor in form.terms.items():
            part = float(factor)
            for atom, exponent in product:
                base = self.atom(*self.atoms.kinds[atom])
                part *= base ** (int(exponent) if exponent.denominator == 1 else float(exponent))
            if isinstance(part, complex) or not math.isfinite(part) or abs(part) > 1e60:
                raise Undefined
            self.scale = max(self.scale, abs(part))
            total += part
        return total

    def atom(self, kind: str, data: Any) -> float:
        if kind == "input":
            return float(self.at[data])
        if kind == "root":
            return float(data)
        if kind == "exp":
            return math.exp(self.form(Form(self.atoms, {data: Fraction(1)})))
        if kind == "log":
            return math.log(self.form(self.atoms.of(data)))
        if kind == "most":
            return max(self.form(self.atoms.of(key)) for key in data)
        if kind == "function":
            argument = self.form(self.atoms.of(data[1]))
            if 0 < abs(argument) <= 1e-9 * self.scale:
                raise Undefined
            return float(FUNCTIONS[data[0]](argument))
        found = self.form(self.atoms.of(data))
        if kind == "truth":
            if 0 < abs(found) <= 1e-9 * self.scale:
                raise Undefined
            return float(found > 0)
        return found

    def allows(self) -> bool:
        """Whether all that steps need is so."""
        small = 1e-9 * self.scale
        worth = [(what, self.form(self.atoms.of(key))) for what, key in self.atoms.needs]
        return not any(abs(v) <= small or (what != "nonzero" and v < 0) for what, v in worth)


def wrong(rng: random.Random) -> tuple[bool, str | None]:
    """Whether an expression and another way to write it are called equal; where a form or that is false."""
    tree = draw(rng, rng.randint(2, 4))
    other = rewritten(rng, tree)
    of = Elementwise(Atoms())
    left, right = (of.form(formula(of, t)) for t in (tree, other))
    called = equal(of.atoms, left, right)
    for at in POINTS:
        worth = Worth(of.atoms, at)
        try:
            if not worth.allows():
                continue
            claimed = worth.form(left)
            try:
                actual = value(tree, at)
            except (ValueError, ZeroDivisionError):
                return called, f"{tree} has no value at {at}, its form {claimed}"
            written = value(other, at)
        except NOWHERE:
            continue
        near = 1e-6 * max(worth.scale, abs(actual))
        if abs(claimed - actual) > near:
            return called, f"{tree} is {actual} at {at}, its form {claimed}"
        if called and abs(written - actual) > near:
            return called, f"{tree} is {actual} at {at}, and {other} is {written}"
    return called, None


def campaign(count: int, seed: int) -> tuple[int, int, list[str]]:
    """Random pairs: how many have forms, how many are called equal, and what is wrong."""
    followed, equals, found = 0, 0, []
    for n in range(count):
        try:
            called, text = wrong(random.Random(f"checked/{seed}/{n}"))
        except (Unknown, RecursionError, OverflowError):
            continue
        followed, equals = followed + 1, equals + called
        if text:
            found.append(f"{seed}/{n}: {text}")
    return followed, equals, found


def main() -> None:
    """Run a campaign; status 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    followed, equals, found = campaign(options.count, options.seed)
    print(f"{options.count:,} pairs, {followed:,} with forms, {equals:,} called equal, {len(found)} wrong")
    print("\n".join(found[:20]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
