"""Every kind of the vocabulary has what docs/house.md says that it needs; a kind that lacks something is named here."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pytest

from scalify_dl.audit.derive import load_rules
from scalify_dl.ir.shapes import RULES as SHAPES
from scalify_dl.ir.vocabulary import COLLECTIVES, ELEMENTWISE, KINDS, RANDOM
from scalify_dl.lint.kinds import LIFTING
from scalify_dl.oracle.meaning import MEANINGS
from scalify_dl.oracle.shrink import constraints, indexed  # noqa: F401  (indexed ops register theirs)
from scalify_dl.oracle.trial import EXACT_KINDS
from scalify_dl.readers.json_program import ATTRIBUTES
from scalify_dl.readers.orders import OPCODES

DOCS = Path(__file__).parents[1] / "docs"
CONTROL = {"while", "conditional", "send", "recv"}
"""Loops, branches and messages: what they run has meanings, they have none of their own."""
DRAWN = RANDOM - {"dropout-mask"}
RANKS = {"partition-id", "replica-id"}
LIBRARY = {"attention", "attention-backward"}

ROOMS: dict[str, tuple[Collection[str], set[str]]] = {
    "a shape rule (ir/shapes.py)": (SHAPES, CONTROL | DRAWN),
    "a meaning (oracle/meaning/)": (MEANINGS, CONTROL | RANDOM | COLLECTIVES),
    "what of sizes it asks (oracle/shrink/)": (constraints.RULES, {"send", "recv"}),
    "a word on whether it is exact on integers (EXACT_KINDS)": (EXACT_KINDS, DRAWN | LIBRARY | {"send", "recv"}),
    "a lifting without a baseline (lint/)": (
        LIFTING,
        CONTROL | RANKS | LIBRARY
        | {"collective-broadcast", "convolution", "reduce-window", "scatter", "select-and-scatter"},
    ),
    "attributes in programs as JSON (readers/json_program.py)": (
        ATTRIBUTES,
        CONTROL | DRAWN | RANKS | {"attention-backward", "convolution", "empty", "select-and-scatter"},
    ),
}  # fmt: skip
"""What kinds with dims have, and the kinds that do without it."""


def test_rules_and_vocabulary_know_the_same_elementwise_kinds() -> None:
    program = load_rules()
    program.run()
    assert {str(k) for (k,) in program.relation("elementwise")} == set(ELEMENTWISE)


def test_every_elementwise_kind_is_executed() -> None:
    assert ELEMENTWISE - MEANINGS.keys() == set()


@pytest.mark.parametrize("what", ROOMS)
def test_every_kind_with_dims_has(what: str) -> None:
    known, without = ROOMS[what]
    assert (KINDS - ELEMENTWISE) - {*known} == without


def test_every_opcode_is_a_kind() -> None:
    assert set(OPCODES.values()) <= ELEMENTWISE


def test_the_documentation_lists_the_elementwise_kinds() -> None:
    listed = re.search(r"^\*\*Elementwise\*\* \([^)]*\): `([^`]*)`", (DOCS / "facts.md").read_text("utf-8"), re.M)
    assert listed is not None
    assert set(listed[1].split()) == set(ELEMENTWISE)
