"""Mixtures of experts: tokens in slots that ranks count by themselves."""

from __future__ import annotations

import random

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz.check import two_sizes
from scalify_dl.audit.fuzz.expert_steps import Routing
from scalify_dl.audit.fuzz.generate import random_pair
from scalify_dl.audit.trials import TRIALS
from scalify_dl.audit.trials.expert_gates import gates
from scalify_dl.audit.trials.expert_layer import (
    Layer,
    pair_of,
    right,
    right_by_table,
    right_in_blocks,
    right_sum,
    with_routing,
)
from scalify_dl.oracle import find_counterexample, load_program

RIGHT = {
    "slots on their own rank": lambda: right(False),
    "slots that are sent to the experts and back": lambda: right(True),
    "blocks of experts that are exchanged; experts and slots in one dim": right_in_blocks,
    "ones that become reals before they are multiplied": lambda: right_in_blocks(reals=True),
    "ones that become reals before they are counted": lambda: right_in_blocks(early=True),
    "places that are real numbers": lambda: pair_of(Layer(with_routing(Routing(counted="f32")), exchanged=True)),
    "a sum over slots": right_sum,
    "what is read, times a gate": gates,
    "what is dealt and read, times a gate": lambda: gates(gated_in=True),
    "gradients of gates": lambda: gates(gradient=True),
    "gradients of gates, experts and slots in one dim": lambda: gates(merged=[(0, 1), (1, 0)]),
    "a table of places counted for every expert": lambda: right_by_table("all"),
    "a table of places where tokens go": lambda: right_by_table("own"),
    "a table of places, or -1": lambda: right_by_table("none"),
}
THEMES = ("trials.expert_places", "trials.expert_slots", "trials.expert_gates")
WRONG = {name: build for name, build in TRIALS.items() if build.__module__.endswith(THEMES)}
INFINITE = {name for name in WRONG if name.startswith("infinite")}


@pytest.mark.parametrize("name", RIGHT)
def test_tokens_that_are_dealt_and_read_back_are_proved(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert derived.proved
    assert not derived.unproved
    assert two_sizes(derived) is None
    assert audit(tables, derived.claims, finite=derived.finite).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_deal_is_wrong(name: str) -> None:
    """That it is not proved is tested with the other trials."""
    found = find_counterexample(load_program(WRONG[name]().tables()))
    assert found.status == ("agrees" if name in INFINITE else "refuted")


def test_what_is_dealt_is_assumed_to_be_finite() -> None:
    assert {"base/x2", "base/x3"} <= derive(right(False).tables()).finite


def test_slots_that_are_read_for_gates_behind_an_exchange_have_one_shape() -> None:
    """Where all ranks have sent their slots back, each has its own again, as well as what it had by rank."""
    pair = random_pair(random.Random(24431607))
    assert two_sizes(derive(pair.tables())) is None
