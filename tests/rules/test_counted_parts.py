"""How many labels are not ignored, where the program puts the labels together: shifted, padded, a prompt in front."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

IGNORED, ROWS, PLACES = -100, 4, 6

Labels = Callable[[Graph, Tensor], Tensor]


def shifted(g: Graph, ids: Tensor) -> Tensor:
    """Every place's label is the next id; the last one's is ignored (as Hugging Face does it)."""
    rows = ids.shape[0]
    wide = g.emit("pad", [ids, g.constant(IGNORED, "s64")], low=[0, 0], high=[0, 1], interior=[0, 0])
    cut = g.emit("slice", [wide], start=[0, 1], limit=[rows, PLACES + 1], stride=[1, 1])
    return g.emit("reshape", [cut], shape=(rows * PLACES,))


def after_a_prompt(g: Graph, ids: Tensor) -> Tensor:
    """The first two are ignored."""
    rows = ids.shape[0]
    rest = g.emit("slice", [ids], start=[0, 2], limit=[rows, PLACES], stride=[1, 1])
    whole = g.emit("concatenate", [g.splat(IGNORED, "s64", (rows, 2)), rest], dimension=1)
    return g.emit("reshape", [whole], shape=(rows * PLACES,))


def mean(labels: Labels, *, ranks: float = 2.0, ids: tuple[int, int] = (0, 9)) -> Pair:
    """The mean over labels that are not ignored; every rank divides by its own count, and the ranks' means are added
    and divided by their number."""
    pair = Pair({"dp": 2})
    given = pair.input((ROWS, PLACES), {0: "dp"}, dtype="s64", range=ids)
    pair.dist.inputs[-1].range = ids
    wide = labels(pair.base, given[0]).shape[0]
    x, dx = pair.input((wide,), {0: "dp"})
    made = []
    for g, y, one in ((pair.base, x, given[0]), (pair.dist, dx, given[1])):
        mine = labels(g, one)
        kept = g.emit("compare", [mine, g.splat(IGNORED, "s64", mine.shape)], direction="NE")
        count = g.emit("reduce", [g.emit("convert", [kept], dtype="f32")], dimensions=[0], reducer="sum")
        lost = g.emit("select", [kept, y, g.splat(0.0, "f32", y.shape)])
        made.append(g.emit("divide", [g.emit("reduce", [lost], dimensions=[0], reducer="sum"), count]))
    total = pair.dist.emit("all-reduce", [made[1]], reducer="sum", groups=pair.groups("dp"))
    pair.outputs(made[0], pair.dist.emit("divide", [total, pair.dist.constant(ranks, "f32")]))
    return pair


@pytest.mark.parametrize("labels", [shifted, after_a_prompt])
def test_labels_that_the_program_ignores_itself_are_not_counted(labels: Labels) -> None:
    assert not derive(mean(labels).tables()).unproved


def test_a_mean_of_means_over_labels_of_unequal_number_is_none() -> None:
    assert derive(mean(shifted, ids=(IGNORED, 9)).tables()).unproved


def test_a_sum_of_means_is_no_mean() -> None:
    assert derive(mean(shifted, ranks=1.0).tables()).unproved
