"""The checker on rows that are put in an order and back: what was computed of each is where it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scalify_dl.audit import algebra_checked
from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.files import CertificateError
from scalify_dl.certificate.formulas import order, permuted
from scalify_dl.certificate.formulas.claims import decide_claims, finite_inputs
from scalify_dl.certificate.formulas.forms import Atoms
from scalify_dl.ir.graph import Graph, Tensor

from ..algebra.programs import iota, two
from .test_equal_formulas import claimed, facts_of

N = 3
Rows = Callable[[Graph, Tensor, Tensor], Tensor]
READ: Any = {"collapsed_slice_dims": [0], "start_index_map": [0], "slice_sizes": [1], "index_vector_dim": 1}
WRITE: Any = {"inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1}


def read(g: Graph, x: Tensor, at: Tensor) -> Tensor:
    return g.emit("gather", [x, at], shape=at.shape, **READ)


def written(g: Graph, at: Tensor, x: Tensor, reducer: str = "replace") -> Tensor:
    nothing = two(g, "subtract", x, x) if x.dtype == "f32" else iota(g, x, 0)
    return g.emit("scatter", [nothing, at, x], reducer=reducer, shape=x.shape, **WRITE)


def sorted_by(g: Graph, keys: Tensor, direction: str = "ASC") -> Tensor:
    """Where the elements were."""
    types = [(keys.dtype, keys.shape), ("s32", keys.shape)]
    said: Any = {"numbers": {"dimension": [0], "stable": [1]}, "symbols": {"direction": [direction]}}
    return g.add("sort", [keys, iota(g, keys, 0)], types, **said).results[1]


def plain(g: Graph, x: Tensor, keys: Tensor) -> Tensor:
    return two(g, "multiply", x, g.emit("exponential", [x]))


def moved(back: Callable[[Graph, Tensor, Tensor], Tensor], direction: str = "ASC") -> Rows:
    def make(g: Graph, x: Tensor, keys: Tensor) -> Tensor:
        at = sorted_by(g, keys, direction)
        return back(g, plain(g, read(g, x, at), keys), at)

    return make


def inverse_written(g: Graph, x: Tensor, at: Tensor) -> Tensor:
    return read(g, x, written(g, at, iota(g, at, 0)))


def inverse_sorted(g: Graph, x: Tensor, at: Tensor) -> Tensor:
    return read(g, x, sorted_by(g, at))


def twice_turned(g: Graph, x: Tensor, at: Tensor) -> Tensor:
    return read(g, x, sorted_by(g, at, "DESC"))


def pair_of(base: Rows, dist: Rows) -> Pair:
    pair = Pair({"tp": 1})
    (x, own), (keys, own_keys) = pair.input((N,)), pair.input((N,), dtype="s32", range=(0, 2))
    pair.outputs(base(pair.base, x, keys), dist(pair.dist, own, own_keys))
    return pair


@pytest.fixture(params=["by comparisons", "by name"])
def _ordered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by name":
        monkeypatch.setattr(order, "MOST_IN_ORDER", 0)


@pytest.mark.usefixtures("_ordered")
@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("back", [inverse_written, inverse_sorted, lambda g, x, at: written(g, at, x),
                                  lambda g, x, at: written(g, at, x, "sum")])  # fmt: skip
def test_what_is_sorted_and_put_back_is_what_it_was(back: Any, direction: str) -> None:
    claimed(pair_of(plain, moved(back, direction)))


@pytest.mark.usefixtures("_ordered")
@pytest.mark.parametrize("back", [read, twice_turned, lambda g, x, at: x])
def test_what_is_not_put_back_is_refused(back: Any) -> None:
    with pytest.raises(CertificateError):
        claimed(pair_of(plain, moved(back)))


@pytest.mark.usefixtures("_ordered")
def test_orders_of_two_directions_are_two() -> None:
    with pytest.raises(CertificateError):
        claimed(pair_of(moved(lambda g, x, at: x), moved(lambda g, x, at: x, "DESC")))
    claimed(pair_of(moved(lambda g, x, at: x), moved(lambda g, x, at: x)))


@pytest.mark.parametrize("dim", [1, 2])
def test_numbers_that_do_not_fit_are_refused(dim: int) -> None:
    pair = pair_of(plain, moved(lambda g, x, at: written(g, at, x)))
    tables = dict(facts_of(pair).tables)
    tables["attr_number"] = [(*row[:3], dim) if row[1] == "scatter_dims_to_operand_dims" else row
                             for row in tables["attr_number"]]  # fmt: skip
    (dist, base, _), *_ = tables["expect"]
    claims = [(dist, base, f"[0:1x{N}]|tp=")]
    with pytest.raises(CertificateError, match="do not fit"):
        decide_claims(tables, claims, finite_inputs(tables, claims))


def test_an_attack_finds_an_element_that_is_at_two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    def anywhere(atoms: Atoms, x: Any, row: Any, j: int, i: int) -> Any:
        return inside(atoms, x, row, j, 0)

    inside = permuted._where
    assert algebra_checked.campaign(150, 3)[2] == []
    monkeypatch.setattr(permuted, "_where", anywhere)
    assert algebra_checked.campaign(150, 3)[2]
