"""Every SPMD transition, value and gradient: proved by the rules, run on ranks; with a wrong backward neither."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scalify_dl.audit.transitions import WRONG, Row, agrees, table
from scalify_dl.errors import InputError
from scalify_dl.lint.program import Alone

ROWS = table()


def told(row: Row) -> str:
    return f"{row.verb}-{row.src}-{row.dst}"


@pytest.mark.parametrize("row", ROWS, ids=told)
@pytest.mark.parametrize("ways", [2, 4])
def test_a_transition_means_what_it_says_and_its_backward_is_its_adjoint(row: Row, ways: int) -> None:
    assert agrees(row, ways) == ({"PROVED"}, "agrees")


@pytest.mark.parametrize("row", [row for row in ROWS if f"{row.verb} {row.src} {row.dst}" in WRONG], ids=told)
def test_another_backward_is_refuted_by_the_run_and_proved_by_no_rule(row: Row) -> None:
    verdicts, run = agrees(row, wrong=True)
    assert verdicts != {"PROVED"}
    assert run in ("refuted", "witness")


def test_there_is_a_wrong_backward_for_every_transition() -> None:
    assert {f"{r.verb} {r.src} {r.dst}" for r in ROWS} - set(WRONG) == {"all_to_all S S"}  # shapes tell that one


@pytest.mark.parametrize("row", ROWS, ids=told)
def test_the_backward_of_a_transition_goes_between_the_types_of_the_gradients(row: Row) -> None:
    """Where it is no composition, it is a transition itself, whose backward is the transition."""
    dual = {"R": "P", "P": "R", "I": "I", "V": "V", "S": "S"}
    back = Row(row.back, row.back_src, row.back_dst, row.verb, row.src, row.dst)
    alias = Row(row.back, row.back_src, row.back_dst, "convert", row.src, row.dst)
    assert back in ROWS or alias in ROWS or "V" in (row.src, row.dst) or row.src == "I"
    if back in ROWS:
        assert (row.back_src, row.back_dst) == (dual[row.dst], dual[row.src])


def test_the_table_in_the_docs_is_that_of_the_rules() -> None:
    text = (Path(__file__).parents[2] / "docs" / "lint.md").read_text("utf-8")
    row = r"^\| `(\w+)` (\w) → (\w) \| `(\w+)` (\w) → (\w) \|$"
    assert sorted(Row(*found) for found in re.findall(row, text, re.M)) == list(ROWS)


PAIRS = [(verb, src, dst) for verb in sorted({row.verb for row in ROWS}) for src in "RIPV" for dst in "RIPV"]


@pytest.mark.parametrize(("verb", "src", "dst"), [
    pair for pair in PAIRS if pair not in {(row.verb, row.src, row.dst) for row in ROWS}
])  # fmt: skip
def test_what_is_in_no_table_is_an_error(verb: str, src: str, dst: str) -> None:
    p = Alone("tp=2")
    with pytest.raises(InputError):
        p.typed(verb, p.place("x", (4, 4), pending={"tp": "sum"} if src == "P" else None), "tp", src, dst)
