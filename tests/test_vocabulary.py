"""Every elementwise kind of the vocabulary has what docs/house.md says that it needs; a kind that lacks something is
named here."""

from __future__ import annotations

import re
from pathlib import Path

from scalify_dl.audit.derive import load_rules
from scalify_dl.ir.vocabulary import ELEMENTWISE
from scalify_dl.oracle.meaning import MEANINGS
from scalify_dl.readers.orders import OPCODES

DOCS = Path(__file__).parents[1] / "docs"


def test_rules_and_vocabulary_know_the_same_elementwise_kinds() -> None:
    program = load_rules()
    program.run()
    assert {str(k) for (k,) in program.relation("elementwise")} == set(ELEMENTWISE)


def test_every_elementwise_kind_is_executed() -> None:
    assert ELEMENTWISE - MEANINGS.keys() == set()


def test_every_opcode_is_a_kind() -> None:
    assert set(OPCODES.values()) <= ELEMENTWISE


def test_the_documentation_lists_the_elementwise_kinds() -> None:
    listed = re.search(r"^\*\*Elementwise\*\* \([^)]*\): `([^`]*)`", (DOCS / "facts.md").read_text("utf-8"), re.M)
    assert listed is not None
    assert set(listed[1].split()) == set(ELEMENTWISE)
