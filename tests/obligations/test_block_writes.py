"""Scatters of which every rank makes a block, by indices minus the block's first index."""

from __future__ import annotations

import pytest

from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.builder import Pair, Program, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

from .programs import coordinates


def put(p: Program, shape: tuple[int, int], indices: Tensor, updates: Tensor, reducer: str) -> Tensor:
    """Zeros of that shape with updates[i, j] at the pair indices[i, j]."""
    return p.op(
        "scatter",
        p.full(0.0, shape),
        indices,
        updates,
        update_window_dims=[],
        inserted_window_dims=[0, 1],
        scatter_dims_to_operand_dims=[0, 1],
        input_batching_dims=[],
        scatter_indices_batching_dims=[],
        index_vector_dim=2,
        reducer=reducer,
        dtype="f32",
        shape=shape,
    ).result


def gates(
    reducer: str = "replace", *, steps: tuple[int, int] = (16, 2), first: int = 0, swapped: bool = False,
    axes: tuple[str, str] = ("dp", "tp"), split: bool = False,
) -> Pair:  # fmt: skip
    """Gate values of the chosen experts in a table [tokens, experts]; both dims are sharded."""
    pair = Pair("dp=2,tp=4", title="gates of chosen experts")

    def pairs_of(p: Program, chosen: Tensor) -> Tensor:
        rows = p.reshape(p.broadcast(p.iota((32,), 0), (32, 2), (0,)), (32, 2, 1))
        return p.concatenate([rows, p.reshape(chosen, (32, 2, 1))], 2)

    b = pair.base
    chosen, values = b.input("chosen", (32, 2), "s32", range=(0, 8)), b.input("values", (32, 2))
    b.output(put(b, (32, 8), pairs_of(b, chosen), values, reducer))
    d = pair.dist
    mine, weights = d.shard("chosen"), d.shard("values")
    starts = [
        d.reshape(d.rank_constant({r: c * step + first for r, c in coordinates(pair, axis).items()}), (1,))
        for axis, step in zip(axes, steps, strict=True)
    ]
    start = d.concatenate(starts[::-1] if swapped else starts, 0)
    indices = d.subtract(pairs_of(d, mine), d.broadcast(start, (32, 2, 2), (2,)))
    if split:
        weights = d.multiply(weights, d.full(0.5, (32, 2)))
    d.output(put(d, (16, 2), indices, weights, reducer))
    return pair


def outcome(pair: Pair) -> tuple[str, bool]:
    facts = pair.facts()
    ((_, _, verdict, _),) = analyse(facts, Options()).rows("output_verdict")
    return verdict, find_counterexample(load_program(facts.tables)).best is None


@pytest.mark.parametrize("reducer", ["replace", "sum", "max"])
def test_a_block_of_a_scatter_is_proved(reducer: str) -> None:
    assert outcome(gates(reducer)) == ("PROVED", True)


@pytest.mark.parametrize(
    "knobs",
    [{"first": 1}, {"steps": (16, 1)}, {"steps": (8, 2)}, {"steps": (0, 2)}, {"swapped": True}, {"split": True}],
    ids=str,
)
def test_a_block_from_elsewhere_is_not_proved(knobs: dict[str, object]) -> None:
    assert outcome(gates(**knobs)) == ("UNKNOWN", False)  # type: ignore[arg-type]
