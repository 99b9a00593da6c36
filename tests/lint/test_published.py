"""Published silent bugs as whole steps of JAX: wrong ones are refuted where they are wrong, right ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.api import verify
from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.judge import Result, lint
from scalify_dl.prove.verdict import Verdict

pytest.importorskip("jax")

from .published.made import dump
from .published.ops import PROGRAMS

WRONG = {
    "auxiliary_loss_is_summed_over_too_many": ("multiple-output", "router"),
    "experts_counted_over_the_other_axis": ("added-per-rank", ""),
    "final_norm_weight_is_not_summed": ("unreduced-output", "norm"),
    "gradient_of_a_gather_is_the_own_block": ("placed-differently", ""),
    "gradients_of_experts_are_summed_again": ("reduces-blocks", ""),
    "gradients_of_keys_stay_where_they_are": ("placed-differently", ""),
    "key_and_value_of_one_head_are_not_summed": ("unreduced-output", "wk"),
    "local_use_of_a_whole_value_without_its_gradient": ("added-per-rank", ""),
    "logarithms_of_the_own_part_with_another_reader": ("partial-maximum", ""),
    "loss_times_ranks_of_the_sequence": ("other-gradient", "in"),
    "query_norm_weight_is_not_summed": ("unreduced-output", "norm"),
    "shared_key_is_not_summed": ("unreduced-output", "rotary"),
    "shared_key_is_summed_twice": ("multiple-output", "rotary"),
    "shared_key_of_one_head_on_each_rank": ("unreduced-output", "rotary"),
    "tied_embedding_is_not_summed_over_stages": ("disagreeing-output", "table"),
    "tokens_counted_on_each_rank": ("non-linear", ""),
    "whole_weight_counted_on_every_rank": ("added-per-rank", ""),
}
"""What is said of wrong programs, and of which gradient where it is said of an output."""
ONE_DEVICE = {
    "auxiliary_loss_is_not_averaged_over_micro_batches": Verdict.PROVED,
    "sink_in_blocks_counted_on_one_rank": Verdict.UNKNOWN,
}
"""Wrong programs that compute something of one device, which `verify` tells from what was meant."""
NOT_YET = {"tied_embedding_is_not_summed_over_stages": "ranks do different things"}
"""Right programs of which lint does not know that they are well placed."""


def linted(name: str, ok: bool, folder: Path) -> Result:
    mesh, make = PROGRAMS[name]
    _, file = dump(name, ok, folder)
    gradients = ", ".join(f'"{n + 1}": "{n}"' for n in range(len(make(ok).params)))
    relate = folder / "relate.yaml"
    relate.write_text(f"gradients: {{{gradients}}}\n")
    derive = not ok and WRONG.get(name, ("",))[0] == "other-gradient"
    return lint([file], Mesh.parse(mesh), relate, derive_backward=derive)


def test_every_program_is_judged() -> None:
    assert WRONG.keys() | ONE_DEVICE.keys() == PROGRAMS.keys()


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_right_step_is_well_placed(name: str, tmp_path: Path) -> None:
    result = linted(name, True, tmp_path)
    wanted = Verdict.UNKNOWN if name in NOT_YET else Verdict.PROVED
    assert result.verdict is wanted, (result.findings, result.missing)


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_step_is_refuted_where_it_is_wrong(name: str, tmp_path: Path) -> None:
    kind, gradient = WRONG[name]
    result = linted(name, False, tmp_path)
    assert result.verdict is Verdict.REFUTED, result.missing
    (found, *_) = [f for f in result.findings if f.level == "error" and f.kind == kind]
    assert any("published" in line for line in found.source)
    assert not gradient or any(f"'{gradient}'" in f.name for f in result.findings if f.kind == kind)


@pytest.mark.parametrize("name", sorted(ONE_DEVICE))
def test_a_wrong_step_of_one_device_is_none_that_lint_refutes(name: str, tmp_path: Path) -> None:
    assert linted(name, False, tmp_path).verdict is ONE_DEVICE[name]


@pytest.mark.parametrize(("name", "ok"), [
    ("sink_in_blocks_counted_on_one_rank", False), ("tied_embedding_is_not_summed_over_stages", True),
    pytest.param("auxiliary_loss_is_not_averaged_over_micro_batches", False, marks=pytest.mark.slow),
])  # fmt: skip
def test_what_the_program_alone_does_not_decide_one_device_does(name: str, ok: bool, tmp_path: Path) -> None:
    base, dist = dump(name, ok, tmp_path)
    found = verify(base, [dist], mesh=PROGRAMS[name][0])
    assert found.verdict == ("PROVED" if ok else "REFUTED")
    assert ok or "published" in str(found.frontier[0].source[0])
