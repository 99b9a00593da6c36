"""Terms: each is worth what its node says, whatever is drawn for the unknowns."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np

from scalify_dl.kernels.numbers import Numbers
from scalify_dl.kernels.terms import ONE, UNDEFINED, ZERO, Terms

BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
UNARY = ("negate", "exponential", "tanh", "abs", "rsqrt", "logistic")
COMPARED = ("LT", "LE", "GT", "GE", "EQ", "NE")


def worth(terms: Terms, node: int, values: np.ndarray[Any, Any], known: dict[int, float]) -> float:
    """A node in floats, by its own record."""
    if node in known:
        return known[node]
    name = terms.names[terms.codes[node]]
    args = [worth(terms, a, values, known) for a in terms.args(node)]
    numbers = Numbers({})
    if name == "number":
        found = float(terms.values[node])
    elif name == "input":
        found = float(values[terms.leaf(node)[1]])
    elif name == "inverse":
        found = 1 / args[0]
    elif name in ("add", "multiply", "maximum", "minimum"):
        found = args[0]
        for x in args[1:]:
            found = float(numbers.apply(name, "f32", [np.array(found), np.array(x)], "f32"))
    else:
        found = float(numbers.apply(name, "f32", [np.array(x) for x in args], "f32"))
    known[node] = found
    return found


def test_random_expressions_are_worth_what_their_terms_are() -> None:
    draw = random.Random(0)
    for _ in range(300):
        terms, values = Terms(), np.array([draw.uniform(0.5, 2) for _ in range(4)])
        numbers = Numbers({})
        leaves = terms.argument("x", (4,), "f32")
        pool: list[tuple[Any, Any]] = [(leaves[i], values[i]) for i in range(4)]
        pool += [(terms.lift(np.array(c), "f32")[()], float(c)) for c in (0.0, 1.0, 2.0, -1.0, 0.5)]
        for _ in range(12):
            kind = draw.choice(BINARY + UNARY + ("select", "fold"))
            picked = [draw.choice(pool) for _ in range(4)]
            if kind in ("divide", "rsqrt") and picked[-1 if kind == "divide" else 0][1] <= 0.01:
                continue
            if (kind == "divide" and picked[1][1] <= 0.01) or abs(max(p[1] for p in picked)) > 20:
                continue
            if kind == "fold":
                how = draw.choice(("add", "maximum", "minimum", "multiply"))
                row = np.array([p[0] for p in picked])
                node = terms.fold(how, "f32", row)
                value = numbers.fold(how, "f32", np.array([p[1] for p in picked]))
            elif kind == "select":
                which = draw.choice(COMPARED)
                truth = terms.apply(which, "pred", [np.array(p[0]) for p in picked[:2]], "f32")
                node = terms.apply("select", "f32", [truth, *(np.array(p[0]) for p in picked[2:])], "f32")
                said = numbers.apply(which, "pred", [np.array(p[1]) for p in picked[:2]], "f32")
                value = numbers.apply("select", "f32", [said, *(np.array(p[1]) for p in picked[2:])], "f32")
            else:
                count = 2 if kind in BINARY else 1
                node = terms.apply(kind, "f32", [np.array(p[0]) for p in picked[:count]], "f32")
                value = numbers.apply(kind, "f32", [np.array(p[1]) for p in picked[:count]], "f32")
            node = terms.canonical(np.asarray(node))[()]
            if not np.isfinite(value):
                continue
            assert np.isclose(worth(terms, int(node), values, {}), value, rtol=1e-6, atol=1e-9), kind
            pool.append((node, float(value)))


def test_what_nothing_has_written_spoils_what_it_meets_and_nothing_else() -> None:
    terms = Terms()
    x, lost, one = terms.argument("x", (1,), "f32")[0], np.array(UNDEFINED), np.array(ONE)
    for kind in ("add", "multiply", "maximum"):
        assert int(terms.canonical(terms.apply(kind, "f32", [x, lost], "f32"))) == UNDEFINED
        assert int(terms.canonical(terms.apply(kind, "f32", [x, one], "f32"))) not in (UNDEFINED, ZERO, ONE)
    assert int(terms.apply("multiply", "f32", [lost, np.array(ZERO)], "f32")) == UNDEFINED
    assert int(terms.apply("select", "f32", [one, x, lost], "f32")) == int(x)


def test_integers_wrap_as_their_type_does() -> None:
    terms = Terms()
    big = terms.lift(np.array(100), "s8")
    assert terms.values[int(terms.canonical(terms.apply("add", "s8", [big, big], "s8")))] == Fraction(-56)
    assert terms.values[int(terms.apply("multiply", "s8", [big, big], "s8"))] == Fraction(16)


def test_a_cast_is_no_identity_where_it_rounds() -> None:
    terms = Terms()
    x = terms.argument("x", (1,), "f32")
    half = terms.apply("convert", "f16", [x], "f32")
    assert half != x
    assert terms.apply("convert", "f32", [half], "f16") == half
    assert terms.apply("convert", "f16", [half], "f32") == half
    narrow = terms.argument("y", (1,), "f16")
    assert terms.apply("convert", "f16", [terms.apply("convert", "f32", [narrow], "f16")], "f32") == narrow


def test_a_maximum_that_was_looked_at_is_one_node_within_a_sum_too() -> None:
    terms = Terms()
    x, y, z, w = terms.argument("x", (4,), "f32")

    def greatest(a: Any, b: Any) -> Any:
        return terms.apply("maximum", "f32", [a, b], "f32")

    sums = []
    for top in (greatest(greatest(x, y), z), greatest(x, greatest(y, z))):
        terms.canonical(top)
        sums.append(int(terms.canonical(terms.apply("add", "f32", [top, w], "f32"))))
    assert sums[0] == sums[1]
