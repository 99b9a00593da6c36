"""What is done once for ops that are alike is what was done for each."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.audit.folds.edited import Edited
from scalify_dl.audit.folds.mutants import mutate
from scalify_dl.audit.plan_tables import deepseek, llama, write_plan
from scalify_dl.errors import InputError
from scalify_dl.plans import lowering
from scalify_dl.plans.model import read_side
from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.slots import slots
from scalify_dl.plans.tables import Tables
from scalify_dl.plans.traits import Traits
from scalify_dl.plans.world import World

from .test_generated import EXPERTS, LLAMA, TWO


class Forgetful(dict[Any, Any]):
    """Knows nothing that was lowered before."""

    def get(self, key: Any, default: Any = None) -> Any:
        return default


def unnumbered(rows: list[Any]) -> list[Any]:
    """Rows without the numbers of ops that no op of the plan names."""
    return [[re.sub(r"(broadcast|constant)\.\d+$", r"/\1", str(cell)) for cell in row] for row in rows]


@pytest.mark.parametrize("model", [llama(LLAMA), deepseek(EXPERTS)], ids=["dense", "experts"])
def test_a_layer_that_repeats_has_the_facts_that_it_had_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Any
) -> None:
    directory = write_plan(tmp_path, model, TWO)
    once = prepare(directory).facts
    before = lowering.Lowering.__init__

    def forgetful(self: lowering.Lowering, *args: Any) -> None:
        before(self, *args)
        self.known = Forgetful()

    monkeypatch.setattr(lowering.Lowering, "__init__", forgetful)
    each = prepare(directory).facts
    assert once is not None
    assert each is not None
    for name, rows in once.tables.items():
        assert unnumbered(rows) == unnumbered(each.tables[name]), name


@pytest.mark.parametrize("seed", range(40))
def test_ops_that_are_alike_have_equal_traits(tmp_path: Path, seed: int) -> None:
    """Of right plans and of edited ones."""
    tables, rng = Edited(write_plan(tmp_path, llama(LLAMA), TWO)), random.Random(seed)
    if seed:
        mutate(tables, rng)
    try:
        plan = read_side(Tables(tables.write(tmp_path / "changed"), "p"))
    except InputError:
        return
    world = World(plan)
    named = slots(plan, world)
    traits = Traits(plan, world, named)
    for slot in named.slots.values():
        texts = [traits.of(op) for op in slot.ops.values()]
        assert traits.alike(slot) or seed
        assert all(text == texts[0] for text in texts) or not traits.alike(slot)
