"""Right programs are well placed, wrong ones are not: each is confirmed on numbers of all ranks."""

from __future__ import annotations

from functools import cache

import pytest

from scalify_dl.lint.judge import Result, lint_graph
from scalify_dl.oracle import Search, find_counterexample, load_program
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations

from . import (
    programs_cancelled,
    programs_data,
    programs_fresh,
    programs_joint,
    programs_layers,
    programs_means,
    programs_merged,
    programs_odd,
    programs_one_each,
    programs_parts,
    programs_steps,
    programs_tensor,
)
from .zoo import MERGED, RIGHT, WRONG

MADE = (
    programs_cancelled, programs_data, programs_fresh, programs_joint, programs_layers, programs_means,
    programs_merged, programs_odd, programs_one_each, programs_parts, programs_steps, programs_tensor,
)  # fmt: skip
"""Importing them enters their programs."""
MAYBE_A_MEAN = "a division by the number of ranks may be for the sum over them, or for something else"
NOT_YET = dict.fromkeys(
    ("bias_in_parts", "gradient_of_alike_and_blocks", "loss_divided_before_gradients_of_alike",
     "state_averaged_behind", "weights_moved_on_each_rank"), MAYBE_A_MEAN,
)  # fmt: skip
"""Right programs of which lint does not know that they are well placed, and why."""
ACCEPTED: dict[str, str] = {}
"""Wrong programs that lint accepts: they compute something of one device, which is not what was meant."""
UNDECIDED = {
    "queries_of_all_heads_with_keys_of_some": "a contraction over values side by side is not looked at",
    "rotary_halves_of_heads": "pieces of blocks may be those of heads, if each rank has one",
    "reduction_of_blocks": "blocks that are reduced may be reduced within behind",
    "sort_of_blocks": "what ranks sort for themselves may be merged behind",
    "fused_query_key_value": "a cut inside of a weight's part may have a meaning, which is not looked for",
    "gathered_in_front_and_left_there": "an op along a dim of gathered blocks has a meaning, if another one",
    "neighbour_instead_of_own": "blocks that go round may be those of a ring, of which nothing is lifted yet",
    "dropout_of_blocks": "draws of ranks and of one device are not compared in numbers",
} | dict.fromkeys(
    """alike_summed_then_scored averaged_twice data_parallel_loss_and_step experts_averaged gelu_half_hides
    gradients_over_all_ranks half_the_residual_per_rank mean_over_part_of_an_axis mean_square_of_alike momentum_and_step
    queries_scaled_at_once_summed_over_both queries_scaled_first_and_reduced_twice scale_in_front_and_reduced_twice
    state_averaged_behind summed_over_both_for_one""".split(), MAYBE_A_MEAN,  # noqa: SIM905
)  # fmt: skip
"""Wrong programs of which lint says that it does not know."""


def linted(pair: Pair) -> Result:
    """Lint of the distributed side alone."""
    relations = Relations(inputs=tuple({r.key: r for r in pair.relations}.values()))
    return lint_graph(pair.dist.graph, pair.mesh, relations)


@cache
def compared(name: str, right: bool) -> Search:
    pair = (RIGHT if right else WRONG)[name](right)
    return find_counterexample(load_program(pair.facts().tables), localise=False)


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_right_program_is_right(name: str) -> None:
    assert compared(name, True).status == "agrees"


@pytest.mark.parametrize("name", sorted(MERGED))
def test_a_program_that_puts_right_what_ranks_do_for_themselves_is_not_refuted(name: str) -> None:
    assert find_counterexample(load_program(MERGED[name](True).facts().tables), localise=False).status == "agrees"
    assert linted(MERGED[name](True)).verdict is not Verdict.REFUTED


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_program_is_wrong(name: str) -> None:
    pair = WRONG[name](False)
    try:
        facts = pair.facts()
    except Exception:
        return
    search = find_counterexample(load_program(facts.tables), localise=False)
    assert search.status in ("refuted", "witness") or search.problems


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_right_program_is_well_placed(name: str) -> None:
    result = linted(RIGHT[name](True))
    assert result.verdict is (Verdict.UNKNOWN if name in NOT_YET else Verdict.PROVED), (result.findings, result.missing)


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_program_is_not(name: str) -> None:
    result = linted(WRONG[name](False))
    wanted = Verdict.PROVED if name in ACCEPTED else Verdict.UNKNOWN if name in UNDECIDED else Verdict.REFUTED
    assert result.verdict is wanted, (result.findings, result.missing)
    if wanted is Verdict.REFUTED:
        assert any(finding.level == "error" and finding.source for finding in result.findings)
