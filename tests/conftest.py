"""Settings of all tests: no deadline per example, since machines are shared and the first example pays for imports.

Every family that a test proves for all sizes is executed at some of them, boundaries first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
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
            assert executed(family, point) == "agrees", point


SLOW = ("adversarial", "audit", "certificate", "symbolic", "oracle/test_shrink", "obligations/test_random_knobs")
"""What runs many programs: marked `slow`, by the beginning of its path below `tests/`."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks slow tests."""
    for item in items:
        if item.path.is_relative_to(config.rootpath / "tests"):
            path = item.path.relative_to(config.rootpath / "tests").as_posix()
            if path.startswith(SLOW):
                item.add_marker("slow")
