"""Choices that an order decides: maxima, and places of first and last ones."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from scalify_dl.kernels.extremes import PLACES
from scalify_dl.kernels.numbers import COMPARED
from scalify_dl.kernels.terms import Terms

from .running import Run

SPEC = '''class f(torch.nn.Module):
    def forward(self, x: "f32[5, 8]"):
        {op}: "i64[5]" = torch.ops.aten.{op}.default(x, 1);  x = None
        return {op}
'''
CHAIN = """@T.prim_func
def main(A: T.Buffer((5, 8), "float32"), O: T.Buffer((5,), "int64")):
    at = T.sblock_alloc_buffer((5,), "int64")
    best = T.sblock_alloc_buffer((5,))
    for i, k in T.grid(5, 8):
        with T.sblock("b"):
            v, vk = T.axis.remap("SR", [i, k])
            with T.init():
                at[v] = T.int64(-1)
                best[v] = T.float32(LOW)
            p: T.let[T.int64] = T.Select(CONDITION, at[v], T.int64(vk))
            q: T.let[T.float32] = T.Select(best[v] > A[v, vk], best[v], A[v, vk])
            at[v] = p
            best[v] = q
    for i in range(5):
        with T.sblock("r"):
            v = T.axis.spatial(5, i)
            O[v] = at[v]
"""
CONDITION = "best[v] > A[v, vk] or best[v] == A[v, vk] and at[v] < vk"
LOW = "-340282346638528859811704183484516925440.0"
SPLIT = """@T.prim_func
def main(A: T.Buffer((5, 8), "float32"), O: T.Buffer((5,), "int64")):
    at = T.sblock_alloc_buffer((5, 4), "int64")
    best = T.sblock_alloc_buffer((5, 4))
    whole = T.sblock_alloc_buffer((5,), "int64")
    most = T.sblock_alloc_buffer((5,))
    for i, part, k in T.grid(5, 4, 2):
        with T.sblock("b"):
            v, vp, vk = T.axis.remap("SSR", [i, part, k])
            with T.init():
                at[v, vp] = T.int64(-1)
                best[v, vp] = T.float32("-inf")
            p: T.let[T.int64] = T.Select(best[v, vp] < A[v, vk * 4 + vp], T.int64(vk * 4 + vp), at[v, vp])
            q: T.let[T.float32] = T.max(best[v, vp], A[v, vk * 4 + vp])
            at[v, vp] = p
            best[v, vp] = q
    for i, part in T.grid(5, 4):
        with T.sblock("c"):
            v, vp = T.axis.remap("SR", [i, part])
            with T.init():
                whole[v] = T.int64(-1)
                most[v] = T.float32("-inf")
            p: T.let[T.int64] = T.Select(CONDITION, whole[v], at[v, vp])
            q: T.let[T.float32] = T.max(most[v], best[v, vp])
            whole[v] = p
            most[v] = q
    for i in range(5):
        with T.sblock("r"):
            v = T.axis.spatial(5, i)
            O[v] = whole[v]
"""
JOINED = "most[v] > best[v, vp] or most[v] == best[v, vp] and whole[v] < at[v, vp]"
OTHERWISE = "not (best[v, vp] > most[v] or best[v, vp] == most[v] and at[v, vp] <= whole[v])"


def chain(condition: str = CONDITION, low: str = LOW) -> str:
    """One pass over each row."""
    return CHAIN.replace("CONDITION", condition).replace("LOW", low)


RIGHT = [
    chain(), chain("best[v] >= A[v, vk] and at[v] < vk and vk > 0"), SPLIT.replace("CONDITION", JOINED),
    SPLIT.replace("CONDITION", OTHERWISE),
]  # fmt: skip


@pytest.mark.parametrize("text", RIGHT)
def test_the_first_place_of_a_maximum_is_proved_in_whatever_order_it_is_looked_for(kernel: Run, text: str) -> None:
    code, found = kernel(text, other=SPEC.format(op="argmax"))
    assert (code, found["verdict"]) == (0, "PROVED"), found


def test_a_minimum_likewise(kernel: Run) -> None:
    text = chain(CONDITION.replace(">", "<"), '"inf"').replace("best[v] > A[v, vk]", "best[v] < A[v, vk]")
    code, found = kernel(text, other=SPEC.format(op="argmin"))
    assert (code, found["verdict"]) == (0, "PROVED"), found


@pytest.mark.parametrize(
    "text",
    [
        chain("best[v] > A[v, vk]"),  # the last one of equals
        chain("best[v] > A[v, vk] or best[v] == A[v, vk] and at[v] > vk"),
        chain(low="0.0"),
        chain().replace("T.int64(vk))", "T.int64(vk + 1))"),
        chain().replace("T.Select(best[v] > A[v, vk], best[v], A[v, vk])", "T.Select(at[v] > vk, best[v], A[v, vk])"),
        SPLIT.replace("CONDITION", "most[v] > best[v, vp]"),
        SPLIT.replace("CONDITION", "most[v] >= best[v, vp]"),  # the first part, not the first place
        SPLIT.replace("CONDITION", JOINED.replace("whole[v] < at[v, vp]", "whole[v] > at[v, vp]")),
        SPLIT.replace("CONDITION", JOINED).replace("vk * 4 + vp), at", "vk * 4 + 3 - vp), at"),
        SPLIT.replace("CONDITION", JOINED).replace("T.max(most", "T.min(most"),
    ],
)
def test_other_places_are_not(kernel: Run, text: str) -> None:
    for op in ("argmax", "argmin"):
        code, _ = kernel(text, other=SPEC.format(op=op))
        assert code in (1, 3)


def test_that_no_value_is_the_end_of_its_type_is_listed(kernel: Run) -> None:
    _, found = kernel(chain(), other=SPEC.format(op="argmax"))
    assert any("least one of its type" in str(x) for x in found["assumptions"])
    terms = Terms()
    (x,), (mask,) = terms.argument("x", (1,), "f32"), terms.argument("m", (1,), "pred")
    end = np.array(terms.end("f32", -1))
    masked = terms.apply("select", "f32", [mask, x, end], "f32")
    assert terms.known(terms.apply("EQ", "pred", [x, end], "f32")) == 0
    assert terms.known(terms.apply("EQ", "pred", [masked, end], "f32")) is None


class Drawn:
    """Random choices as nodes, and as what was built."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.terms = draw, Terms()
        leaves = self.terms.argument("x", (3,), "f32")
        places = self.terms.lift(np.arange(4), "s32")
        self.meaning: dict[int, Any] = {int(x): ("x", i) for i, x in enumerate(leaves)}
        self.meaning |= {int(x): ("n", i) for i, x in enumerate(places)}
        self.pairs = [(int(draw.choice(leaves)), int(draw.choice(places))) for _ in range(5)]
        """Values, and places of them; sometimes two of one place."""
        self.truths: list[int] = []
        self.built: list[tuple[int, Any]] = []

    def op(self, kind: str, dtype: str, *args: int) -> int:
        """A node, and what it is by itself."""
        result = dtype if kind == "select" else "pred"
        made = self.terms.apply(kind, result, [np.array(x) for x in args], dtype)
        node = int(self.terms.canonical(made))
        self.built.append((node, (kind, *(self.meaning[x] for x in args))))
        self.meaning.setdefault(node, self.built[-1][1])
        return node

    def condition(self, a: tuple[int, int], b: tuple[int, int], depth: int = 2) -> int:
        """Of two values and two places; often one that keeps the greater value, and of equal ones the first or last."""
        draw = self.draw
        if draw.random() < 0.7:
            better, tie = draw.choice(["LT", "GT"]), draw.choice(["LT", "LE", "GT", "GE"])
            equal = self.op("and", "pred", self.op("EQ", "f32", a[0], b[0]), self.op(tie, "s32", a[1], b[1]))
            found = self.op("or", "pred", self.op(better, "f32", a[0], b[0]), equal)
            return self.op("not", "pred", found) if draw.random() < 0.2 else found
        if not depth or draw.random() < 0.5:
            at = draw.randrange(2)
            return self.op(draw.choice(list(COMPARED)), ("f32", "s32")[at], a[at], b[at])
        join = draw.choice(["and", "or"])
        return self.op(join, "pred", self.condition(a, b, depth - 1), self.condition(a, b, depth - 1))

    def step(self) -> None:
        """A choice of two pairs."""
        a, b = self.draw.sample(self.pairs, 2)
        which = self.condition(a, b)
        other = which if self.draw.random() < 0.8 else self.condition(a, b)
        self.pairs.append((self.op("select", "f32", which, a[0], b[0]), self.op("select", "s32", other, a[1], b[1])))


def test_random_choices_are_worth_what_their_nodes_are() -> None:
    met = set()
    for seed in range(80):
        drawn = Drawn(random.Random(seed))
        for _ in range(5):
            drawn.step()
        met |= {drawn.terms.names[drawn.terms.codes[node]] for node, _ in drawn.built}
        for values in itertools.product((0.0, 1.0, 2.0), repeat=3):
            for node, said in drawn.built:
                assert worth(drawn.terms, node, values) == meant(said, values), (said, values)
    assert met >= {*PLACES, "maximum", "minimum"}


def meant(said: Any, values: tuple[float, ...]) -> float:
    """What was built, by itself."""
    kind, *args = said
    if kind in ("x", "n"):
        return values[args[0]] if kind == "x" else args[0]
    xs = [meant(a, values) for a in args]
    if kind == "select":
        return xs[1] if xs[0] else xs[2]
    if kind in COMPARED:
        return bool(COMPARED[kind](*xs))
    return {"and": all, "or": any, "not": lambda x: not x[0]}[kind](xs)


def worth(terms: Terms, node: int, values: tuple[float, ...]) -> float:
    """A node, by its own record."""
    name = terms.names[terms.codes[node]].partition(":")[0]
    if name == "number":
        return float(terms.values[node])
    if name == "input":
        return values[terms.leaf(node)[1]]
    xs = [worth(terms, x, values) for x in terms.args(node)]
    if name in PLACES:
        pairs = sorted(zip(xs[1::2], xs[::2], strict=True), reverse=name.startswith("last"))
        best = (max if name.endswith("maximum") else min)(xs[::2])
        return next(place for place, value in pairs if value == best)
    if name in ("maximum", "minimum"):
        return (max if name == "maximum" else min)(xs)
    if name == "select":
        return xs[1] if xs[0] else xs[2]
    if name in COMPARED:
        return bool(COMPARED[name](*xs))
    return {"and": all, "or": any, "not": lambda x: not x[0]}[name](xs)
