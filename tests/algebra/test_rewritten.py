"""Real pairs that are written differently, where they are there: right ones are proved, wrong ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "rewritten"
PAIRS = sorted(folder.name for folder in DATA.iterdir() if folder.is_dir()) if DATA.is_dir() else []
SLOW = ("scan_unrolled_tp", "silu_exp_tp", "silu_exp_tp__bad", "moe_loop_experts", "moe_ep_loop")


@pytest.mark.skipif(not PAIRS, reason="the data of pairs written differently is not here")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PAIRS])
def test_a_pair_is_proved_exactly_if_it_is_equal(name: str) -> None:
    pytest.importorskip("jaxlib", reason="StableHLO is parsed by jaxlib")
    folder = DATA / name
    mesh = (folder / "mesh").read_text().strip()
    facts = export(folder / "base.mlir", [folder / "dist.mlir"], mesh, folder / "relate.yaml")
    verdicts = {row[2] for row in analyse(facts, Options()).rows("output_verdict")}
    assert (verdicts == {"PROVED"}) == ((folder / "truth").read_text().strip() == "equal")
