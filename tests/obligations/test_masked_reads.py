"""Masked reads and writes of sharded tables, masks and offsets of the rank: right ones proved, broken ones never."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.facts import Facts
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import Analysis, analyse
from scalify_dl.refute.refute import refute

from .programs import (
    Knobs,
    bias_on_one_rank,
    causal,
    cross_entropy,
    embedding,
    embedding_gradient,
    learnt_positions,
    one_hot,
    rotary,
    rotary_product,
)

BROKEN: dict[str, Knobs] = {
    "lower bound one up": Knobs(lower=1),
    "lower bound one down": Knobs(lower=-1),
    "upper bound one up": Knobs(upper=1),
    "upper bound one down": Knobs(upper=-1),
    "above, not at": Knobs(above="GT"),
    "up to, not below": Knobs(below="LE"),
    "either bound": Knobs(joined="or"),
    "offset one up": Knobs(offset=1),
    "offset one down": Knobs(offset=-1),
    "offset wrong on rank 1": Knobs(offset_of={1: 1}),
    "offset wrong on the last rank": Knobs(offset_of={3: -2}),
    "bounds moved on rank 2": Knobs(bounds_of={2: 1}),
    "bounds moved on rank 0": Knobs(bounds_of={0: -1}),
    "blocks in reverse": Knobs(reversed_ranks=True),
    "mask inverted": Knobs(swapped=True),
    "no mask": Knobs(masked=False),
}
REDUCED = {"filled with ones": Knobs(fill=1.0), "maximum instead of sum": Knobs(reducer="max")}

DROPPED = ("lower bound one down", "upper bound one up", "up to, not below", "either bound")
"""Do no harm to a gradient: rows outside of the block are dropped."""

RIGHT: dict[str, Callable[[], Pair]] = {
    **{
        f"embedding, {style}, {masking}": (lambda s=style, m=masking: embedding(style=s, masking=m))
        for style in ("megatron", "vllm", "jax", "plain", "clamp")
        for masking in ("select", "fill", "multiply")
    },
    "embedding, batch over dp": lambda: embedding(mesh="dp=2,tp=4", dp="dp"),
    "embedding, tp is the major axis": lambda: embedding(mesh="tp=4,dp=2", dp="dp"),
    "embedding, rows are cast before the mask": lambda: embedding(cast=("bf16", "bf16")),
    **{
        f"embedding, {style}, constants of a wider type": (lambda s=style: embedding(Knobs(wide=True), style=s))
        for style in ("megatron", "jax")
    },
    "embedding, tp of 6": lambda: embedding(mesh="tp=6", vocabulary=66, ids_range=(0, 66)),
    "embedding, NaN out of range": lambda: embedding(style="jax", filled=0),
    "embedding, NaN out of range, more rows let through": lambda: embedding(filled=3),
    "gradient": embedding_gradient,
    "gradient, batch over dp": lambda: embedding_gradient(mesh="dp=2,tp=4", dp="dp"),
    "gradient, local ids not masked": lambda: embedding_gradient(style="clamp"),
    "gradient, ids outside are dropped": lambda: embedding_gradient(Knobs(masked=False), style="clamp"),
    "gradient, multiplied": lambda: embedding_gradient(style="vllm", masking="multiply"),
    **{f"gradient, {name}": (lambda k=BROKEN[name]: embedding_gradient(k)) for name in DROPPED},
    "cross entropy": cross_entropy,
    "cross entropy, vllm": lambda: cross_entropy(style="vllm", masking="fill"),
    "cross entropy, the baseline masks too": lambda: cross_entropy(base_masks=True),
    "causal": causal,
    "rotary": rotary,
    "learnt positions": learnt_positions,
    "rotary product": rotary_product,
    "one-hot": one_hot,
    "one-hot, one row a rank": lambda: one_hot(rows=4),
    "bias on the first rank": bias_on_one_rank,
    "bias on the last rank": lambda: bias_on_one_rank({r: int(r % 4 == 3) for r in range(8)}),
    "bias, flag inverted": lambda: bias_on_one_rank({r: int(r % 4 != 2) for r in range(8)}, swapped=True),
    "bias, multiplied": lambda: bias_on_one_rank(multiply=True),
}

WRONG: dict[str, Callable[[], Pair]] = {
    **{
        f"embedding, {style}: {name}": (lambda s=style, k=knobs: embedding(k, style=s))
        for style in ("megatron", "vllm", "jax")
        for name, knobs in {**BROKEN, **REDUCED}.items()
    },
    **{f"cross entropy: {name}": (lambda k=knobs: cross_entropy(k)) for name, knobs in {**BROKEN, **REDUCED}.items()},
    **{
        f"gradient: {name}": (lambda k=knobs: embedding_gradient(k))
        for name, knobs in {**BROKEN, "filled with ones": Knobs(fill=1.0)}.items()
        if name not in DROPPED
    },
    "embedding over dp, offset of rank 5": lambda: embedding(Knobs(offset_of={5: 1}), mesh="dp=2,tp=4", dp="dp"),
    "embedding over dp, bounds of rank 7": lambda: embedding(Knobs(bounds_of={7: 1}), mesh="dp=2,tp=4", dp="dp"),
    "embedding, cast and offset": lambda: embedding(Knobs(offset=1), cast=("bf16", "bf16")),
    "embedding, NaN for the last row": lambda: embedding(filled=-1),
    "embedding, NaN out of range, offset": lambda: embedding(Knobs(offset=1), filled=0),
    "cross entropy, local sum": lambda: cross_entropy(missing_sum=True),
    "causal, one up": lambda: causal(1),
    "causal, one down": lambda: causal(-1),
    "causal, one rank": lambda: causal(offset_of={2: 1}),
    "causal, strict": lambda: causal(direction="GT"),
    "causal, no offset": lambda: causal(scale=0),
    "rotary, one up": lambda: rotary(1),
    "rotary, no offset": lambda: rotary(scale=0),
    "rotary, every second": lambda: rotary(step=2),
    **{
        f"{build.__name__}, {offset}, {scale}": (lambda f=build, o=offset, s=scale: f(o, scale=s))
        for build in (learnt_positions, rotary_product)
        for offset, scale in ((1, 1), (0, 0), (0, 2), (-4, 1))
    },
    "one-hot, one up": lambda: one_hot(1),
    "one-hot, one row a rank, one up": lambda: one_hot(1, rows=4),
    "one-hot, one row a rank, no offset": lambda: one_hot(rows=4, scale=0),
    "one-hot, one row a rank, every second": lambda: one_hot(rows=4, scale=2),
    "one-hot, no offset": lambda: one_hot(scale=0),
    "one-hot, not equal": lambda: one_hot(direction="NE"),
    "bias on no rank": lambda: bias_on_one_rank(dict.fromkeys(range(8), 0)),
    "bias on two ranks": lambda: bias_on_one_rank({r: int(r % 4 < 2) for r in range(8)}),
    "bias on all but one rank": lambda: bias_on_one_rank(swapped=True),
    "bias on one rank of all": lambda: bias_on_one_rank({r: int(r == 0) for r in range(8)}),
}


def run(pair: Pair) -> tuple[Facts, Analysis]:
    facts = pair.facts()
    return facts, analyse(facts, Options())


def proved(analysis: Analysis) -> bool:
    verdicts = [row[2] for row in analysis.rows("output_verdict")]
    return bool(verdicts) and all(v == "PROVED" for v in verdicts)


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_right_program_is_proved_and_agrees_numerically(name: str) -> None:
    facts, analysis = run(RIGHT[name]())
    assert proved(analysis), list(analysis.rows("frontier"))
    assert find_counterexample(load_program(facts.tables)).status == "agrees"


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_broken_program_is_not_proved_unless_it_agrees(name: str) -> None:
    facts, analysis = run(WRONG[name]())
    assert not proved(analysis)
    outputs = [(dist, base) for dist, base, _ in facts["expect"]]
    assert refute(analysis, outputs, lambda text: None).refuted == set(outputs)


def test_there_are_enough_broken_programs() -> None:
    assert len(WRONG) >= 40


@pytest.mark.parametrize("style", ["megatron", "vllm", "jax"])
def test_the_rank_and_the_value_that_are_wrong_are_named(style: str) -> None:
    _, analysis = run(embedding(Knobs(offset_of={3: 1}), style=style))
    texts = [text for _, text in analysis.rows("case_text")]
    assert texts
    assert all(text.startswith(("on rank 3, id 48 reads row", "on rank 3, id 49 reads row 48")) for text in texts)


def test_a_range_that_never_reaches_a_rank_is_bad_input() -> None:
    _, analysis = run(embedding(ids_range=(0, 40)))
    (text,) = {row[0] for row in analysis.rows("inconsistent")}
    assert "never set on rank 3" in text


def test_without_a_range_overflow_is_an_assumption() -> None:
    _, analysis = run(cross_entropy(base_masks=True))
    assert any(why == "overflow" for _, _, why in analysis.rows("assumption"))


def renumbered(facts: Facts, ranks: list[int]) -> Facts:
    """The same program with rank r called ranks[r]: another device order on the same mesh."""
    columns = {"rank_coord": 0, "rank_number": 3, "group": 3}
    for table, column in columns.items():
        facts.tables[table] = [
            (*row[:column], ranks[row[column]], *row[column + 1 :]) for row in facts.tables.get(table, [])
        ]
    return facts


ORDERS = {
    "reversed": [7, 6, 5, 4, 3, 2, 1, 0],
    "axes swapped": [0, 2, 4, 6, 1, 3, 5, 7],
    "odd": [5, 0, 3, 6, 1, 7, 4, 2],
}


@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.parametrize("wrong", [False, True])
def test_the_device_order_makes_no_difference(order: str, wrong: bool) -> None:
    for pair in (
        embedding(Knobs(offset_of={6: 1} if wrong else {}), mesh="dp=2,tp=4", dp="dp"),
        embedding_gradient(Knobs(bounds_of={6: -1} if wrong else {}), mesh="dp=2,tp=4", dp="dp"),
        bias_on_one_rank({r: int(r == 3) for r in range(8)} if wrong else None),
        learnt_positions(int(wrong)),
    ):
        facts = renumbered(pair.facts(), ORDERS[order])
        assert proved(analyse(facts, Options())) is not wrong, pair.title
