"""Truths that ranks count: whether any of them found something, or all of them did."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

RANKS = 4


def found(g: Graph, x: Tensor, every: str) -> Tensor:
    """Whether any element is above 1/2, or all are."""
    mask = g.emit("compare", [x, g.splat(0.5, x.dtype, x.shape)], direction="GT")
    return g.emit("reduce", [mask], dimensions=[0], reducer=every)


def step(
    every: str, direction: str, bound: int, *, dtype: str = "s32", mesh: dict[str, int] | None = None,
    axes: tuple[tuple[str, ...], ...] = (("dp",), ("tp",)), denied: bool = False, cast: bool = False,
) -> Pair:  # fmt: skip
    """An input, or its double where something was found; x in blocks over all ranks, which count in so many steps."""
    sizes = mesh or {"dp": 2, "tp": 2}
    p = Pair(sizes)
    x, part = p.input((1024,), {0: list(sizes)})
    base, own = found(p.base, x, every), found(p.dist, part, every)
    number = p.dist.emit("convert", [own], dtype=dtype)
    for some in axes:
        number = p.dist.emit("all-reduce", [number], reducer="sum", groups=p.groups(*some))
    bounds = p.dist.constant(bound, dtype)
    told = (p.dist.emit("convert", [number], dtype="pred") if cast
            else p.dist.emit("compare", [number, bounds], direction=direction))  # fmt: skip
    base = p.base.emit("not", [base]) if denied else base
    y, dy = p.input((4,))
    p.outputs(*(
        g.emit("select", [spread(g, truth, v.shape, []), g.emit("add", [v, v]), v])
        for g, truth, v in ((p.base, base, y), (p.dist, told, dy))
    ))  # fmt: skip
    return p


RIGHT = {
    "more than 0": step("or", "GT", 0),
    "at least 1": step("or", "GE", 1),
    "unequal to 0": step("or", "NE", 0),
    "as truths": step("or", "", 0, cast=True),
    "as reals": step("or", "GT", 0, dtype="f32"),
    "at once": step("or", "GT", 0, axes=(("dp", "tp"),)),
    "equal to 0, denied": step("or", "EQ", 0, denied=True),
    "less than 1, denied": step("or", "LT", 1, denied=True),
    "as many as ranks": step("and", "EQ", RANKS),
    "no fewer than ranks": step("and", "GE", RANKS),
    "fewer than ranks, denied": step("and", "LT", RANKS, denied=True),
    "not as many as ranks, denied": step("and", "NE", RANKS, denied=True),
}
WRONG = {
    "any, as many as ranks": step("or", "EQ", RANKS),
    "all, more than 0": step("and", "GT", 0),
    "more than 1": step("or", "GT", 1),
    "at least 0": step("or", "GE", 0),
    "one of the axes": step("or", "GT", 0, axes=(("dp",),)),
    "as many as one axis has": step("and", "EQ", 2),
    "denied": step("or", "GT", 0, denied=True),
    "equal to 0": step("or", "EQ", 0),
    "as many as ranks, denied": step("and", "EQ", RANKS, denied=True),
    "all, as truths": step("and", "", 0, cast=True),
}


@pytest.mark.parametrize("pair", RIGHT.values(), ids=RIGHT)
def test_what_ranks_count_says_whether_any_or_all_of_them_found_it(pair: Pair) -> None:
    tables = pair.tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize("pair", WRONG.values(), ids=WRONG)
def test_other_numbers_are_other_answers(pair: Pair) -> None:
    tables = pair.tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize(("dtype", "proved"), [("bf16", False), ("f32", True), ("s32", True)])
def test_a_type_that_cannot_count_so_far_says_nothing(dtype: str, proved: bool) -> None:
    derived = derive(step("and", "EQ", 512, dtype=dtype, mesh={"dp": 512}, axes=(("dp",),)).tables())
    assert bool(derived.unproved) is not proved
