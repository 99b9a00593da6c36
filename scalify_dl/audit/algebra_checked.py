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
from itertools import product
from typing import Any

from scalify_dl.algebra.worth import FUNCTIONS, Undefined, place
from scalify_dl.certificate.formulas.elementwise import Element, Elementwise
from scalify_dl.certificate.formulas.equal import equal
from scalify_dl.certificate.formulas.forms import Atoms, Form, Unknown
from scalify_dl.certificate.formulas.integers import Table, mixed, unknown_integer
from scalify_dl.certificate.formulas.order import in_order, place_of_greatest
from scalify_dl.certificate.formulas.permuted import placed, turned_back

from .algebra import POINTS, VARIABLES, Tree, draw, rewritten, value

VALUES = 3
"""How many values the unknown integer has."""
NOWHERE = (Undefined, OverflowError, ZeroDivisionError, ValueError)


def formula(of: Elementwise, tree: Tree) -> Element:
    """What the checker makes of an expression; of an order only that it is one, if `of.atoms.has_places` says so."""
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
    if kind == "read":  # of a row, at a place that an unknown integer says
        return _chosen(of, of_integer(of), parts[0])
    if kind == "picked" and parts[1] == 0 and not of.atoms.has_places:  # where the greatest of another row is
        return _chosen(of, place_of_greatest(of, [formula(of, part) for part in parts[0]], least=False), parts[2])
    if kind in ("ranked", "picked"):
        row, j, elements = parts[0], parts[1], parts[-1] if kind == "picked" else parts[0]
        return mixed(of, _orders(of, row)[j], [of.form(formula(of, part)) for part in elements])
    if kind == "back":  # what is put in the order of a row, made something of, and put back
        function, row, elements, i = parts
        orders, read = _orders(of, row), [of.form(formula(of, part)) for part in elements]
        made = [of.form(of.real(function, [mixed(of, cases, read)])) for cases in orders]
        back = turned_back(of.atoms, orders) or [{j: c[i] for j, c in enumerate(orders)} for i in range(len(row))]
        return mixed(of, back[i], made)
    if kind in ("softmax", "guarded"):
        raise Unknown(kind)
    return of.real(kind, [formula(of, part) for part in parts])


def _orders(of: Elementwise, row: Tree) -> list[dict[int, Form]]:
    forms = [of.form(formula(of, part)) for part in row]
    if of.atoms.has_places:
        return placed(of.atoms, tuple(form.key for form in forms), len(row))
    nothing = of.atoms.number(0)
    orders = in_order(of, forms, len(row), least=False)
    return [{i: cases.get(i, nothing) for i in range(len(row))} for cases in orders]


def of_integer(of: Elementwise) -> Table:
    """The unknown integer."""
    found = unknown_integer(of.atoms, "integer", 0, VALUES - 1)
    assert isinstance(found, Table)
    return found


def _chosen(of: Elementwise, at: Table, row: Tree) -> Form:
    total = of.atoms.number(0)
    for n, where in at.cases.items():
        total = total + where * of.form(formula(of, row[n]))
    return total


class Worth:
    """What forms are worth at a point, and for a value of the integer; `scale` bounds what was added up."""

    def __init__(self, atoms: Atoms, at: tuple[float, ...], integer: int = 0) -> None:
        self.atoms, self.at, self.integer, self.scale = atoms, at, integer, 1.0

    def form(self, form: Form) -> float:
        total = 0.0
        for factors, factor in form.terms.items():
            part = float(factor)
            for atom, exponent in factors:
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
        if kind == "pi":
            return math.pi
        if kind == "root":
            return float(data)
        if kind == "chosen":
            return float(self.integer == data[1])
        if kind == "placed":  # the greatest comes first, of equals the one that stands first
            keys, _, j, i = data
            row = [self.form(self.atoms.of(key)) for key in keys]
            return float(place(row, j, self.scale) == i)
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


def put(tree: Any, part: Tree) -> Any:
    """An expression with another in the place of the last variable."""
    if tree == ("x", VARIABLES - 1):
        return part
    return type(tree)(put(inner, part) for inner in tree) if isinstance(tree, tuple | list) else tree


def resolved(tree: Any, integer: int) -> Any:
    """An expression where the unknown integer has a value, and what was put in an order and back is where it was."""
    if isinstance(tree, tuple) and tree and tree[0] == "read":
        return resolved(tree[1][integer], integer)
    if isinstance(tree, tuple) and tree and tree[0] == "back":
        return resolved((tree[1], tree[3][tree[4]]), integer)
    return type(tree)(resolved(inner, integer) for inner in tree) if isinstance(tree, tuple | list) else tree


def wrong(rng: random.Random) -> tuple[bool, str | None]:
    """Whether an expression and another way to write it are called equal; where a form or that is false."""
    tree = draw(rng, rng.randint(2, 4))
    other = rewritten(rng, tree)
    if rng.random() < 0.3:
        row = tuple(draw(rng, rng.randint(0, 1)) for _ in range(VALUES))
        tree = put(tree, ("read", row))
        row = row[1:] + row[:1] if rng.random() < 0.3 else row
        other = ("read", tuple(put(other, part) for part in row)) if rng.random() < 0.8 else put(other, ("read", row))
    if rng.random() < 0.2:
        row, read = (tuple(draw(rng, rng.randint(0, 1)) for _ in range(rng.randint(2, 3))) for _ in range(2))
        which, function = rng.randrange(len(row)), rng.choice(("exponential", "negate", "tanh", "relu", "abs"))
        read = (*read, *row)[: len(row)]
        tree = put(tree, ("back", function, row, read, which))
        other = put(other, (function, read[which if rng.random() < 0.7 else rng.randrange(len(row))]))
    of = Elementwise(Atoms())
    of.atoms.has_places = rng.random() < 0.5
    left, right = (of.form(formula(of, t)) for t in (tree, other))
    called = equal(of.atoms, left, right)
    for at, integer in product(POINTS, range(VALUES)):
        worth = Worth(of.atoms, at, integer)
        try:
            if not worth.allows():
                continue
            claimed = worth.form(left)
            try:
                actual = value(resolved(tree, integer), at)
            except (ValueError, ZeroDivisionError):
                return called, f"{tree} has no value at {at}, its form {claimed}"
            written = value(resolved(other, integer), at)
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
