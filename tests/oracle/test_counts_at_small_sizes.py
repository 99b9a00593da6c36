"""What differs at small sizes only because constants count elements that are not there refutes nothing."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program


def scaled(g: Graph, x: Tensor, factor: float) -> Tensor:
    return g.emit("multiply", [x, g.splat(factor, x.dtype, x.shape)])


def square(g: Graph, x: Tensor) -> Tensor:
    return g.emit("multiply", [x, x])


def mean(g: Graph, x: Tensor) -> Tensor:
    return scaled(g, g.emit("reduce", [x], dimensions=[1], reducer="sum"), 1 / x.shape[1])


def variances(size: int, *, less: float = 1.0) -> Pair:
    """The mean of squared deviations; the mean of squares less (some of) the square of the mean."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((64, size))
    g, h = pair.base, pair.dist
    middle = g.emit("broadcast", [mean(g, x)], shape=x.shape, dimensions=[0])
    out = mean(g, square(g, g.emit("subtract", [x, middle])))
    rest = scaled(h, square(h, mean(h, dx)), less)
    pair.outputs(out, h.emit("subtract", [mean(h, square(h, dx)), rest]))
    return pair


def smoothed(size: int, *, share: float = 0.125) -> Pair:
    """An eighth of a mean; a sum times what an eighth is of each element."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((64, size))
    moved = pair.dist.emit("add", [scaled(pair.dist, dx, share / size), scaled(pair.dist, dx, 0.0)])
    pair.outputs(
        scaled(pair.base, mean(pair.base, x), 0.125),
        pair.dist.emit("reduce", [moved], dimensions=[1], reducer="sum"),
    )
    return pair


@pytest.mark.parametrize("size", [2**14, 2**17, 2**24], ids=["confirmed at its own size", "run", "too large to run"])
def test_forms_of_a_variance_are_not_refuted_at_large_sizes(size: int) -> None:
    search = find_counterexample(load_program(variances(size).tables()))
    assert search.status != "refuted"


@pytest.mark.parametrize("size", [2**14, 2**17, 2**24])
def test_what_is_no_variance_is_refuted_at_any_size(size: int) -> None:
    search = find_counterexample(load_program(variances(size, less=0.5).tables()))
    assert search.status == "refuted"


@pytest.mark.parametrize("size", [2**14, 2**24])
def test_a_share_of_each_element_counts_elements_too(size: int) -> None:
    assert find_counterexample(load_program(smoothed(size).tables())).status != "refuted"
    assert find_counterexample(load_program(smoothed(size, share=0.25).tables())).status == "refuted"


@pytest.mark.parametrize("size", [2**14, 2**24])
def test_a_wrong_number_that_is_also_a_number_of_elements_is_refuted(size: int) -> None:
    """Divided by 4, as long as another dim is, in place of 2: where that dim has two elements left, it would be 2."""
    pair = Pair({"tp": 1})
    x, held = pair.input((64, 4, size))
    for_all = [g.emit("reduce", [one], dimensions=[1], reducer="sum") for g, one in ((pair.base, x), (pair.dist, held))]
    pair.outputs(scaled(pair.base, for_all[0], 0.5), scaled(pair.dist, for_all[1], 0.25))
    assert find_counterexample(load_program(pair.tables())).status == "refuted"
