"""Settings of all tests: no deadline per example, since machines are shared and the first example pays for imports.

Every family that a test proves for all sizes is executed at some of them, boundaries first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

SIZES = 20
RANKS = 8


@pytest.fixture(autouse=True)
def proved_families_are_executed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs what is proved at `SIZES` sizes of the stated domain: there are programs, and they agree."""
    from scalify_dl.families import verify
    from scalify_dl.families.members import executed, ranks, some_sizes

    proved: list[Any] = []
    cover = verify.cover

    def recorded(family: Any, *rest: Any) -> Any:
        out = cover(family, *rest)
        if out.complete:
            proved.append((family, out.domain))
        return out

    monkeypatch.setattr(verify, "cover", recorded)
    yield
    for family, domain in proved:
        points = some_sizes(domain, SIZES, random.Random(0), lambda p, family=family: ranks(family, p) <= RANKS)
        assert points
        for point in points:
            found = executed(family, point)
            if "cannot run on operands" in found and "op base/custom:" in found:
                continue  # at which sizes a call of a library exists, no rule says
            if found.startswith("inconclusive") and found.endswith("is not a number on any draw"):
                continue  # neither side has a value to compare
            assert found == "agrees", point


SLOW = (
    "adversarial", "audit", "certificate", "symbolic",
    "engine/test_evaluation", "engine/test_provenance", "engine/test_rewritings", "engine/test_second_opinions",
    "frontends/hlo/test_edited_programs", "frontends/hlo/test_hlo_against_jax", "frontends/hlo/test_hlo_real_graphs",
    "frontends/jax/test_capture", "frontends/jax/test_examples", "frontends/jax/test_families",
    "frontends/jax/test_open_sizes", "frontends/jax/test_shard_map_programs", "frontends/jax/test_uneven",
    "frontends/torch/test_against_random_programs", "frontends/torch/test_capture",
    "frontends/torch/test_example_llama", "frontends/torch/test_open_sizes", "frontends/torch/test_pairs",
    "frontends/torch/test_ranks",
    "obligations/test_claims", "obligations/test_masked_reads", "obligations/test_random_knobs",
    "oracle/test_meanings_jax", "oracle/test_shrink",
    "plans/test_fold_audit", "plans/test_generated", "plans/test_recorded", "schedule/test_campaign",
    "verify/test_mending", "verify/test_own_rules",
)  # fmt: skip
"""What runs many programs, or live ones: marked `slow`, by the beginning of its path below `tests/`. The rest is to
take less than two minutes on two cores."""


def _slow(path: Path, config: pytest.Config) -> bool:
    tests = config.rootpath / "tests"
    return path.is_relative_to(tests) and path.relative_to(tests).as_posix().startswith(SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m "not slow"` does not even import them."""
    return True if config.option.markexpr == "not slow" and _slow(collection_path, config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks slow tests."""
    for item in items:
        if _slow(item.path, config):
            item.add_marker("slow")
