"""The property that formulas are for: where the conditions of a row hold, the ordinary engine, given the facts at that
point, derives the row at that point. On random rules and facts."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from scalify_dl.pysouffle import Program, Symbol
from tests.engine.formulas import Point, holds, instance

TP, BATCH, SEQ = Symbol("tp", 4), Symbol("batch", 3), Symbol("seq", 20)
RANK = Symbol("k", 2, minimum=0, below="tp")
SYMBOLS = [TP, BATCH, SEQ, RANK]
POINT = {s.name: s.value for s in SYMBOLS}


NUMBERS = [0, 1, 2, 3, 4, 6, "tp", "b", "k", "tp*b", "k + 1", "2*b", "tp - k", "12/tp", "12*k/tp", "b + 2", "tp^2"]
NUMBERS += ["c", "c/tp", "c/2", "k*c/tp", "c/2 + 1"]
LEVELS = 5
DECLARATIONS = ".type R = [x: number, y: number]\n.decl p0(x: number, y: number)\n" + "".join(
    f".decl p{i}(x: number, y: number)\n.decl t{i}(t: symbol, x: number)\n.decl q{i}(r: R)\n" for i in range(1, LEVELS)
)
# A and B are relations of lower levels, H the one that is defined, T and Q its companions or those of lower levels
TEMPLATES = [
    "H(x, y) :- A(x, y), x < y.",
    "H(x, y) :- A(x, y), x >= 2, y != 4.",
    "H(y, x) :- A(x, y), B(x, y).",
    "H(x, z) :- A(x, y), B(y, z).",
    "H(x, z) :- H(x, y), A(y, z).",
    "H(x + y, x) :- A(x, y).",
    "H(x * y, y) :- A(x, y), x < 20.",
    "H(x - y, y) :- A(x, y).",
    "H(x / y, x % y) :- A(x, y), y != 0.",
    "H(x, y / 2) :- A(x, y), y % 2 = 0.",
    "H(max(x, y), min(x, y)) :- A(x, y).",
    "H(x, y) :- A(x, y), !B(y, x).",
    "H(x, y) :- A(x, y), !B(x, _).",
    "H(x, y) :- A(x, y), !B(x + 1, _).",
    "H(x, y) :- A(x, y), !B(_, 4).",
    "H(x, x) :- A(x, _), B(y, _), x != y, !A(y, x).",
    "H(n, n) :- n = count : { A(_, _) }.",
    "H(x, n) :- A(x, _), n = count : { B(y, _), y < x }.",
    "H(x, n) :- A(x, _), n = sum y : { B(x, y) }.",
    "H(x, n) :- A(x, _), n = min y : { B(y, _) }.",
    "H(n, m) :- n = max x : { A(x, _) }, m = min y : { B(_, y) }.",
    "H(x, i) :- A(x, y), x < 5, i = range(0, x).",
    'T(cat("v|", to_string(x), "|:|", to_string(y), "|"), x) :- A(x, y).',
    'H(x, y) :- A(x, y), !T(cat("v|", to_string(y), "|:|", to_string(x), "|"), _).',
    "H(x, y) :- T(t, x), T(t, y), A(x, y).",
    "H(x, n) :- A(x, _), n = count : { T(_, _) }.",
    "H(x, y) :- T(t, x), T(u, y), t != u.",
    "Q([x, y]) :- A(x, y).",
    "H(x, y) :- A(x, y), !Q([y, x]).",
    "H(x, y) :- Q([x, y]), Q([y, _]).",
    "H(x, y) :- Q(r), Q(s), r != s, r = [x, _], s = [y, _].",
    "H(x, y) :- A(x, y), x > 0, y > 0, x band 1 = 0.",
]


def random_rules(rng: random.Random) -> str:
    """Some rules; every level reads lower ones."""
    rules = []
    for level in range(1, LEVELS):
        for _ in range(rng.randint(1, 3)):
            rule = rng.choice(TEMPLATES)
            head = rule[0]
            for letter, name in {"T": "t", "Q": "q"}.items():
                at = level if head == letter else rng.randrange(1, max(2, level))
                rule = rule.replace(f"{letter}(", f"{name}{at}(")
            if head == "H" and any(f"{name}{level}(" in rule for name in "tq"):
                continue
            for letter in "AB":
                rule = rule.replace(f"{letter}(", f"p{rng.randrange(level)}(")
            rule = rule.replace("H(", f"p{level}(")
            rules.append(rule)
    return DECLARATIONS + "\n".join(rules)


def check_instances(seed: int) -> int:
    """The property for one random program; returns how many rows were found at other points."""
    rng = random.Random(seed)
    rules = random_rules(rng)
    facts = [(rng.choice(NUMBERS), rng.choice(NUMBERS)) for _ in range(rng.randint(1, 5))]
    points: list[Point] = []
    while len(points) < 6:
        tp = rng.choice([1, 2, 3, 4, 6, 12])
        points.append({"tp": tp, "b": rng.randint(1, 9), "k": rng.randrange(tp), "c": 2 * tp * rng.randint(1, 4)})
    here = points[0]
    symbols = [Symbol(name, here[name]) for name in ("tp", "b", "c")] + [Symbol("k", here["k"], 0, "tp")]
    symbolic = Program.from_source(rules, symbols=symbols)
    symbolic.insert("p0", facts)
    symbolic.run(max_tuples=20000)
    ordinary = []
    for point in points:
        p = Program.from_source(rules)
        p.insert("p0", [instance(row, point, "nn") for row in facts])
        ordinary.append(p.run(max_tuples=20000))
    found = 0
    for relation in symbolic.relations:
        kinds = {"p": "nn", "t": "sn", "q": "r"}[relation[0]]
        rows = symbolic.relation(relation)
        for row in rng.sample(rows, min(len(rows), 6)):
            conditions = symbolic.conditions({relation: [row]})
            for point, p in zip(points, ordinary, strict=True):
                if all(holds(c, point) for c in conditions):
                    there = instance(row, point, kinds)
                    shown = "\n".join(map(str, conditions))
                    assert p.holds(relation, there), f"{rules}\n{facts}\n{relation}{row} at {point}: {there}\n{shown}"
                    found += point != here
    return found


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_where_the_conditions_hold_the_ordinary_engine_derives_the_instance(seed: int) -> None:
    check_instances(seed)


def test_conditions_are_not_so_strict_that_nothing_is_left() -> None:
    assert sum(check_instances(seed) for seed in range(30)) > 500
