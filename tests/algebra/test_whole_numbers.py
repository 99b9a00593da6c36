"""Ids that are compared, clipped and chosen: formulas of them are worth what is computed of each id, and their bounds
are bounds; labels that are ignored, cut over ranks, at sizes at which nothing is followed one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from scalify_dl.algebra import laws, truths
from scalify_dl.algebra.form import Element, Field, Form, Undecided
from scalify_dl.algebra.indexing import compared_integers
from scalify_dl.algebra.rebuilt import Rebuilt
from scalify_dl.algebra.same import same
from scalify_dl.algebra.sums import summed
from scalify_dl.algebra.variables import Variable
from scalify_dl.algebra.whole import integer_bounds
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

from .programs import compared, decided, two, where

Tree = tuple[Any, ...]
V = Variable(("v",), 4)
LEAST, MOST = -3, 5
DIRECTIONS: dict[str, Callable[[int, int], bool]] = {
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b,
}  # fmt: skip


def drawn(rng: random.Random, depth: int) -> Tree:
    kind = rng.choice(["clip", "choose", "choose", "add", "max", "min", "leaf"]) if depth else "leaf"
    if kind == "leaf":
        return rng.choice([("id",), ("id",), ("place",), ("number", rng.randint(-4, 6))])
    if kind == "clip":
        low, high = sorted((rng.randint(-3, 2), rng.randint(-1, 5)))
        return ("min", ("max", drawn(rng, 0), ("number", low)), ("number", high))
    if kind == "choose":
        return (kind, truth(rng, depth - 1), drawn(rng, depth - 1), drawn(rng, depth - 1))
    return (kind, drawn(rng, depth - 1), drawn(rng, depth - 1))


def truth(rng: random.Random, depth: int) -> Tree:
    return ("compare", rng.choice([*DIRECTIONS, "EQ"]), drawn(rng, depth), drawn(rng, 0))


def form_of(basis: Field, tree: Tree) -> Form:
    kind, *parts = tree
    if kind == "id":
        return basis.of(basis.element("integer", (("id",), "s32", LEAST, MOST)))
    if kind == "place":
        return basis.of(basis.element("position", (V,), nonnegative=True))
    if kind == "number":
        return basis.constant(parts[0])
    if kind == "compare":
        return compared_integers(parts[0], form_of(basis, parts[1]), form_of(basis, parts[2]))
    forms = [form_of(basis, part) for part in parts]
    if kind == "choose":
        return truths.choose(*forms)
    return forms[0] + forms[1] if kind == "add" else (laws.maximum if kind == "max" else laws.minimum)(*forms)


def worth(tree: Tree, at: dict[str, int]) -> int:
    kind, *parts = tree
    if kind in at:
        return at[kind]
    if kind == "number":
        return int(parts[0])
    if kind == "compare":
        return DIRECTIONS[parts[0]](worth(parts[1], at), worth(parts[2], at))
    values = [worth(part, at) for part in parts]
    if kind == "choose":
        return values[1] if values[0] else values[2]
    return {"add": sum, "max": max, "min": min}[kind](values)  # type: ignore[operator, no-any-return]


def put_in(basis: Field, form: Form, at: dict[str, int]) -> Form:
    def changed(element: Element) -> Form | None:
        name = {"integer": "id", "position": "place"}.get(element.kind)
        return basis.constant(at[name]) if name in at else None

    return Rebuilt(basis, changed).form(form)


def attacked(seed: int) -> bool:
    """Whether a draw was followed, whose formulas, bounds and equalities hold."""
    rng, basis = random.Random(seed), Field()
    one, other = (drawn(rng, 3) for _ in range(2))
    if rng.random() < 0.5:  # the same with an end beside the range, or one further in
        other = ("choose", ("compare", "LE", ("id",), ("number", rng.choice([MOST, MOST, MOST - 1]))), one, other)
    points = [{"id": i, "place": v} for i, v in product(range(LEAST, MOST + 1), range(V.size))]
    try:
        forms = [form_of(basis, tree) for tree in (one, other)]
        bounds = [integer_bounds(form) for form in forms]
    except Undecided:
        return False
    for tree, form, (low, high) in zip((one, other), forms, bounds, strict=True):
        for at in points:
            assert put_in(basis, form, at).value == worth(tree, at), (seed, tree, at)
            assert low <= worth(tree, at) <= high, (seed, tree, at)
    if same(basis, *forms):
        assert all(worth(one, at) == worth(other, at) for at in points), (seed, one, other)
    return True


def test_formulas_of_ids_are_worth_what_is_computed_of_each() -> None:
    assert sum(map(attacked, range(300))) > 200


def test_ids_that_are_clipped_are_within_the_ends() -> None:
    basis = Field()
    clipped = form_of(basis, ("max", ("min", ("id",), ("number", 2)), ("number", 0)))
    assert integer_bounds(clipped) == (0, 2)
    chosen = form_of(basis, ("choose", ("compare", "GE", ("id",), ("number", 0)), ("id",), ("number", 0)))
    assert integer_bounds(chosen) == (0, MOST)


def test_what_an_id_is_not_below_it_is_at_least() -> None:
    basis = Field()
    below, least = (form_of(basis, ("compare", way, ("id",), ("number", 1))) for way in ("LT", "GE"))
    beyond = form_of(basis, ("compare", "GT", ("id",), ("number", 0)))
    assert below == basis.one - least
    assert least == beyond


def test_what_a_place_says_of_an_id_is_not_asked_again() -> None:
    """Σ_v [v = id − c]·[id compared with a number]·…: worth what is counted, for each id."""
    rng, told, asked_of = random.Random(0), 0, 0
    for _ in range(150):
        basis = Field()
        c, asked = rng.randint(-2, 3), [truth(rng, 0) for _ in range(rng.randint(1, 2))]
        selected = truths.equal(form_of(basis, ("place",)), form_of(basis, ("add", ("id",), ("number", -c))))
        for tree in asked:
            selected = selected * form_of(basis, tree)
        total = summed(basis, selected, [V])
        for i in range(LEAST, MOST + 1):
            held = [v for v in range(V.size) if v == i - c and all(worth(t, {"id": i, "place": v}) for t in asked)]
            found = put_in(basis, total, {"id": i}).value
            assert found in (None, len(held)), (c, asked, i)
            told, asked_of = told + (found is not None), asked_of + 1
    assert told > asked_of / 2


# ---- labels of which some are ignored, of a vocabulary that is cut over ranks ----
ROWS, WORDS, RANKS = 64, 4096, 4
IGNORED = (-100, WORDS)


def rows(g: Graph, x: Tensor, at: Tensor) -> Tensor:
    """Of each row, the element at its place."""
    return g.emit(
        "gather", [x, at], operand_batching_dims=[0], start_indices_batching_dims=[0], start_index_map=[1],
        collapsed_slice_dims=[1], offset_dims=[], index_vector_dim=1, slice_sizes=[1, 1], mode="clip",
    )  # fmt: skip


def one_hot(g: Graph, x: Tensor, at: Tensor) -> Tensor:
    places = g.emit("iota", [], shape=x.shape, dtype="s32", dimension=1)
    return g.emit("convert", [compared(g, spread(g, at, x.shape, [0]), places, "EQ")], dtype=x.dtype)


def labels(g: Graph, at: Tensor, number: int) -> Tensor:
    return g.splat(number, "s32", at.shape)


def ignoring(*, gradient: bool, last: int = 0, unmasked: bool = False) -> Pair:
    """The logit, or the gradient of the logit, at each label that is not ignored."""
    pair = Pair({"tp": RANKS})
    x, dx = pair.input((ROWS, WORDS), {1: "tp"})
    at, dat = pair.input((ROWS,), dtype="s32", range=IGNORED)
    pair.dist.inputs[-1].range = IGNORED
    g, block = pair.base, WORDS // RANKS
    kept = compared(g, at, labels(g, at, 0), "GE")
    safe = g.emit("select", [kept, at, labels(g, at, 0)])
    if gradient:
        hot = g.emit("select", [spread(g, kept, x.shape, [0]), one_hot(g, x, safe), g.splat(0.0, "f32", x.shape)])
        whole = two(g, "multiply", x, hot)
    else:
        whole = where(g, kept, rows(g, x, safe), 0.0)
    g = pair.dist
    rank = g.emit("convert", [g.add("partition-id", [], [("u32", ())]).result], dtype="s32")
    first = spread(g, g.emit("multiply", [rank, g.constant(block, "s32")]), dat.shape, [])
    beyond = g.emit("add", [first, labels(g, dat, block - last)])
    mine = g.emit("and", [compared(g, dat, first, "GE"), compared(g, dat, beyond, "LT")])
    own = g.emit("clamp", [labels(g, dat, 0), g.emit("subtract", [dat, first]), labels(g, dat, block - 1)])
    if gradient:
        hot = one_hot(g, dx, own)
        if not unmasked:
            hot = g.emit("select", [spread(g, mine, dx.shape, [0]), hot, g.splat(0.0, "f32", dx.shape)])
        found = two(g, "multiply", dx, hot)
    else:
        picked = rows(g, dx, own) if unmasked else where(g, mine, rows(g, dx, own), 0.0)
        found = g.emit("all-reduce", [picked], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(whole, found)
    return pair


@pytest.mark.parametrize("gradient", [False, True])
def test_labels_that_are_ignored_are_on_no_rank(gradient: bool) -> None:
    assert decided(ignoring(gradient=gradient))


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("wrong", [{"last": 1}, {"unmasked": True}])
def test_blocks_that_end_early_or_are_not_masked_are_not_equal(gradient: bool, wrong: dict[str, Any]) -> None:
    assert not decided(ignoring(gradient=gradient, **wrong))
