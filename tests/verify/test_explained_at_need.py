"""What explains where a proof stops is derived only where an output is not proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.facts.files import load
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

FACTS = Path(__file__).parents[2] / "facts"
ASKED = "related same_value held from_input base_stops lacking oddly made_here pends frontier".split()  # noqa: SIM905
RIGHT = "gqa_fused_qkv", "megatron_mlp", "row_parallel_linear"
WRONG = "gqa_fused_qkv_key_slice", "megatron_mlp_wrong_group", "row_parallel_linear_bias_per_rank"


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_explained_of_what_is_proved(name: str) -> None:
    analysis = analyse(load(FACTS / name), Options(refute=False))
    assert analysis.outputs_left == 0
    assert not [(key, row) for key in ASKED for row in analysis.rows(key)]


@pytest.mark.parametrize("name", WRONG)
def test_the_first_op_that_stops_is_explained(name: str) -> None:
    analysis = analyse(load(FACTS / name), Options(refute=False))
    assert analysis.outputs_left
    for relation in ("related", "same_value", "held", "comes_from", "frontier", "diag_found"):
        assert list(analysis.rows(relation))
