"""The gradient of a contrastive loss by its temperature: one number, of scores that one side has in rows and the other
in columns; and features over their norms."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse


def proved(pair: Pair) -> bool:
    """Whether the output is; nothing false may be derived."""
    tables = pair.tables()
    derived = derive(tables)
    assert audit(tables, derived.claims, trials=2).false == []
    return not derived.unproved


def product(g: Graph, x: Tensor, y: Tensor, contracted: int = 0) -> Tensor:
    """x @ y, of a y of which this dim is contracted."""
    return g.emit("dot", [x, y], lhs_contracting_dims=[1], rhs_contracting_dims=[contracted])


def total(g: Graph, x: Tensor) -> Tensor:
    return g.emit("reduce", [x], dimensions=[0, 1], reducer="sum")


def temperature(wrong: str = "", *, upright: bool = False, more: bool = True) -> Pair:
    """sum(u * ((transpose(g) + h + k) @ v)): ranks have rows of g, h, k, u and v."""
    pair = Pair({"dp": 2})
    (x, dx), (h, dh), (k, dk) = (pair.input((4, 4), {0: "dp"}) for _ in range(3))
    (u, du), (v, dv) = (pair.input((4, 3), {0: "dp"}) for _ in range(2))
    b, d, groups = pair.base, pair.dist, pair.groups("dp")
    if wrong == "may be infinite":
        u, du = b.emit("log", [u]), d.emit("log", [du])
    scores = b.emit("add", [b.emit("transpose", [x], dimensions=[1, 0]), h])
    scores, dh = (b.emit("add", [scores, k]), d.emit("add", [dh, dk])) if more else (scores, dh)
    if wrong == "not linear":
        scores = b.emit("tanh", [scores])
    factor = v if upright else b.emit("transpose", [v], dimensions=[1, 0])
    multiple = b.emit("multiply", [product(b, scores, factor, int(not upright)), u])
    if wrong == "one dim":
        multiple = b.emit("reduce", [b.emit("abs", [b.emit("reduce", [multiple], dimensions=[1], reducer="sum")])],
                          dimensions=[0], reducer="sum")  # fmt: skip
    else:
        multiple = total(b, multiple)
    whole_u, whole_v = (d.emit("all-gather", [y], dimension=0, groups=groups) for y in (du, dv))
    if wrong == "another order":
        parts = [d.emit("slice", [whole_u], start=[at, 0], limit=[at + 2, 3], stride=[1, 1]) for at in (2, 0)]
        whole_u = d.emit("concatenate", parts, dimension=0)
    rows = total(d, d.emit("multiply", [product(d, dh, whole_v), du]))
    columns = total(d, d.emit("multiply", [product(d, dx, whole_u), du if wrong == "another factor" else dv]))
    added = d.emit("add", [rows, columns])
    pair.outputs(multiple, d.emit("all-reduce", [added], reducer="sum", groups=groups))
    return pair


@pytest.mark.parametrize("upright", [False, True])
@pytest.mark.parametrize("more", [False, True])
def test_what_is_added_up_of_a_product_may_be_added_up_the_other_way_round(upright: bool, more: bool) -> None:
    pair = temperature(upright=upright, more=more)
    assert proved(pair)
    analysis = analyse(Facts(pair.tables()), Options(refute=False))
    finite = {row[0] for row in analysis.rows("assumption") if row[2] == "finite"}
    assert finite >= {"base/x3", "base/x4"}


@pytest.mark.parametrize("wrong", ["not linear", "one dim", "another order", "another factor", "may be infinite"])
def test_a_wrong_temperatures_gradient_is_not_proved(wrong: str) -> None:
    assert not proved(temperature(wrong))


def over_norms(wrong: str = "") -> Pair:
    """A sum that is pending, multiplied by rows over their norms."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((4, 3))
    y, dy = pair.input((2, 4, 3), {0: "dp"})
    made = []
    for g, value, parts in ((pair.base, x, y), (pair.dist, dx, dy)):
        squares = g.emit("multiply", [value, value])
        if wrong == "of another":
            squares = g.emit("multiply", [squares, squares])
        norms = g.emit("sqrt", [g.emit("reduce", [squares], dimensions=[1], reducer="sum")])
        if wrong == "another row":
            norms = g.emit("reverse", [norms], dimensions=[0])
        if wrong == "squared":
            norms = g.emit("reduce", [squares], dimensions=[1], reducer="sum")
        unit = g.emit("divide", [value, spread(g, norms, value.shape, [0])])
        summed = g.emit("reduce", [parts], dimensions=[0], reducer="sum")
        made.append(g.emit("multiply", [summed, unit]))
    pair.outputs(made[0], pair.dist.emit("all-reduce", [made[1]], reducer="sum", groups=pair.groups("dp")))
    return pair


def test_a_value_over_its_own_norm_is_never_infinite() -> None:
    assert proved(over_norms())


@pytest.mark.parametrize("wrong", ["another row", "squared", "of another"])
def test_a_value_over_something_else_may_be(wrong: str) -> None:
    assert not proved(over_norms(wrong))
