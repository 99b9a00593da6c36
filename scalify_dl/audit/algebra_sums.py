"""Attacks sums and maxima over index variables: random expressions, worth what their normal forms are worth.

    python -m scalify_dl.audit.algebra_sums [--count N] [--seed S]

An expression has inputs that depend on variables, sums and maxima over these within one another, comparisons of
variables with one another and with integers of some range, and the usual laws between. Variables have few values here,
so that each is counted; the laws do not know how many there are.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from itertools import product
from typing import Any

from scalify_dl.algebra import laws, truths
from scalify_dl.algebra.form import Field, Form, Undecided
from scalify_dl.algebra.positive import above_zero
from scalify_dl.algebra.sums import greatest, summed
from scalify_dl.algebra.variables import Renamed, Variable
from scalify_dl.algebra.worth import Undefined, Worth, integer

Tree = tuple[Any, ...]
NAMES = ("i", "j", "k")
SIZES = {"i": 2, "j": 3, "k": 2}
INPUTS = (("x", 1), ("y", 2), ("z", 2))
IDS = ((0, 1), (0, 2), (-1, 1), (1, 3))
"""The least and the greatest value of integers that variables are compared with."""
BINARY = ("add", "multiply", "maximum", "quotient", "subtract")


def draw(rng: random.Random, depth: int, names: tuple[str, ...]) -> Tree:
    """A random expression of these variables."""
    kind = rng.random()
    if depth == 0 or kind < 0.1:
        name, count = rng.choice(INPUTS)
        return (
            ("input", name, *(rng.choice(names) for _ in range(count)))
            if kind < 0.9
            else ("number", rng.choice((2, -1)))
        )
    if kind < 0.2:  # what a comparison selects
        v = rng.choice(NAMES)
        truth: Tree = ("at", v, rng.choice((*NAMES, *range(len(IDS)))))
        if rng.random() < 0.4:  # beyond one place and another
            w = rng.choice(NAMES)
            sides = [("beyond", *rng.choice(((v, w), (v, w), (w, v))), rng.choice((-1, 0, 1, 2))) for _ in range(2)]
            truth = ("multiply", *sides)
        return ("sum", v, ("multiply", truth, draw(rng, depth - 1, NAMES)))
    if kind < 0.45:
        return (rng.choice(("sum", "sum", "most")), rng.choice(NAMES), draw(rng, depth - 1, NAMES))
    if kind < 0.85:
        return (rng.choice(BINARY), draw(rng, depth - 1, names), draw(rng, depth - 1, names))
    if kind < 0.9:
        return ("shown", draw(rng, depth - 1, names), draw(rng, depth - 1, names))
    return (rng.choice(("exp", "negate", "square", "log")), draw(rng, depth - 1, names))


def value(tree: Tree, at: dict[str, int], inputs: dict[Any, float]) -> float:
    """What an expression is worth."""
    kind, *parts = tree
    if kind == "number":
        return float(parts[0])
    if kind == "input":
        return inputs[parts[0], *((at[v], SIZES[v]) for v in parts[1:])]
    if kind == "at":
        v, other = parts
        return float(at[v] == (at[other] if other in at else identity(other, inputs)))
    if kind == "beyond":
        v, w, more = parts
        return float(at[v] - at[w] + more > 0)
    if kind in ("sum", "most"):
        found = [value(parts[1], {**at, parts[0]: n}, inputs) for n in range(SIZES[parts[0]])]
        return sum(found) if kind == "sum" else max(found)
    x, *rest = (value(part, at, inputs) for part in parts)
    if not rest:
        return {"exp": math.exp(min(x, 600.0)), "negate": -x, "square": x * x, "log": x}[kind]
    (y,) = rest
    if kind == "quotient":
        return x / (1 + math.exp(y))
    if kind == "shown":
        return y if x > 0 else 0.0
    return {"add": x + y, "subtract": x - y, "multiply": x * y, "maximum": max(x, y)}[kind]


def identity(n: int, inputs: dict[Any, float]) -> int:
    """What an integer is."""
    return integer(inputs["id", n], *IDS[n])


def form(field: Field, tree: Tree) -> Form:
    """Its normal form."""
    kind, *parts = tree
    if kind == "number":
        return field.constant(parts[0])
    if kind == "input":
        return field.of(field.element("input", (parts[0], *(Variable((v,), SIZES[v]) for v in parts[1:]))))
    if kind == "at":
        v, other = parts
        here = field.of(field.element("position", (Variable((v,), SIZES[v]),), nonnegative=True))
        if other in SIZES:
            there = field.of(field.element("position", (Variable((other,), SIZES[other]),), nonnegative=True))
        else:
            there = field.of(field.element("integer", (("id", other), "s32", *IDS[other])))
        return truths.equal(here, there)
    if kind == "beyond":
        v, w, more = parts
        left, right = (
            field.of(field.element("position", (Variable((n,), SIZES[n]),), nonnegative=True)) for n in (v, w)
        )
        return truths.greater(left - right + field.constant(more), field.zero)
    if kind in ("sum", "most"):
        over, inside = [Variable((parts[0],), SIZES[parts[0]])], form(field, parts[1])
        return summed(field, inside, over) if kind == "sum" else greatest(field, inside, over, field.one)
    x, *rest = (form(field, part) for part in parts)
    if not rest:
        if kind == "log":  # of the exponential
            return laws.logarithm(laws.exponential(x))
        return laws.exponential(x) if kind == "exp" else -x if kind == "negate" else x * x
    (y,) = rest
    if kind == "quotient":
        return laws.divide(x, field.one + laws.exponential(y))
    if kind == "shown":
        return truths.greater(x, field.zero) * y
    return {
        "add": lambda: x + y,
        "subtract": lambda: x - y,
        "multiply": lambda: x * y,
        "maximum": lambda: laws.maximum(x, y),
    }[kind]()


def attack(rng: random.Random) -> str | None:
    """One expression: what is wrong with its form, if anything; "" where it has none."""
    tree, field = draw(rng, rng.randrange(2, 6), NAMES), Field(most_terms=200)
    try:
        found = form(field, tree)
        at = {name: rng.randrange(size) for name, size in SIZES.items()}
        names = {Variable((n,), SIZES[n]): Variable(("value", at[n]), SIZES[n]) for n in NAMES}
        placed = Renamed(field, names).form(found)
    except Undecided:
        return ""
    inputs: dict[Any, float] = {
        (name, *places): rng.choice((rng.gauss(0, 1), 0.0, 1.0, -1.0))
        for name, count in INPUTS
        for places in product([(n, size) for size in set(SIZES.values()) for n in range(size)], repeat=count)
    }
    inputs |= {("id", n): rng.random() for n in range(len(IDS))}
    worth = Worth(
        field,
        lambda data: inputs[data] if data in inputs else inputs[data[0], *((v.name[1], v.size) for v in data[1:])],
    )
    try:
        mine, theirs = worth.form(placed), value(tree, at, inputs)
    except (Undefined, OverflowError, ZeroDivisionError):
        return ""
    except ValueError:
        return f"{tree} has a value, its form has none"
    if theirs <= 0 and above_zero(found) and worth.allows():
        return f"{tree} is worth {theirs}, its form is above zero"
    if not worth.allows() or abs(theirs) > 1e9 or abs(mine - theirs) <= 1e-7 * max(1.0, worth.scale, abs(theirs)):
        return None
    return f"{tree} is worth {theirs}, its form {mine}"


def campaign(count: int, seed: int) -> tuple[int, list[str]]:
    """How many expressions were compared, and what was wrong."""
    rng, compared, wrong = random.Random(seed), 0, list[str]()
    for _ in range(count):
        found = attack(rng)
        compared += found != ""
        if found:
            wrong.append(found)
    return compared, wrong


def main() -> None:
    """Runs a campaign; status 1 where a form is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    compared, wrong = campaign(options.count, options.seed)
    print(f"{options.count:,} expressions, {compared:,} compared, {len(wrong):,} wrong")
    print("\n".join(wrong[:10]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
