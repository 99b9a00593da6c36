"""The greatest of rows that are cut over ranks, and their places, through what each rank finds in its block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz.block_order_steps import Search, least_place, place, place_of_greatest, top, top_of_blocks
from scalify_dl.audit.pair import Pair
from scalify_dl.audit.trials import TRIALS
from scalify_dl.audit.trials.row_orders import LENGTH, placed, tops
from scalify_dl.certificate.check import Checker
from scalify_dl.facts import Facts, files
from scalify_dl.facts.files import load
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.prove.certificate import write
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse, rule_files
from scalify_dl.pysouffle import rules_dir
from scalify_dl.report.conclude import conclude

LEAST = Search(compared="min", combined="min", reducer="argmin", second="argmin")


def large(way: str, length: int, how: Search, kept: int = 1, dtype: str = "f32") -> Pair:
    """Rows over dp, each cut over both axes of tp."""
    pair = Pair({"dp": 2, "tp": 4})
    x, dx = pair.input((4, length), {0: "dp", 1: "tp"}, dtype=dtype)
    if way == "tops":
        for values in zip(top(pair.base, x, kept, how), top_of_blocks(pair, dx, "tp", how), strict=True):
            pair.outputs(*values)
        return pair
    search = {"least": least_place, "first": place_of_greatest}[way]
    pair.outputs(place(pair.base, x, 1, how.reducer, how.dtype), search(pair, dx, 1, "tp", how))
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {
    "the least place": lambda: placed(least_place, Search()),
    "the least place, the row's greatest compared with the rank's": lambda: placed(least_place, Search(swapped=True)),
    "the least place, unless they differ": lambda: placed(least_place, Search(direction="NE")),
    "the least place, unless it is less": lambda: placed(least_place, Search(direction="LT")),
    "the least place, if it is as great": lambda: placed(least_place, Search(direction="GE")),
    "the least place or the last one": lambda: placed(least_place, Search(far=LENGTH - 1)),
    "the least place or the greatest number": lambda: placed(least_place, Search(far=2**63 - 1, dtype="s64")),
    "the least place of the least": lambda: placed(least_place, LEAST, reducer="argmin"),
    "the first block": lambda: placed(place_of_greatest, Search()),
    "the first block with the least": lambda: placed(place_of_greatest, LEAST, reducer="argmin"),
    "the first block, of numbers that may be NaN": lambda: placed(place_of_greatest, Search(), dtype="f32"),
    "the greatest of blocks": lambda: tops(Search()),
    "more of blocks than of the row": lambda: tops(Search(of_block=3)),
    "all of blocks that are too short": lambda: tops(Search(of_block=4, kept=6), kept=6),
    "the greatest of reals": lambda: tops(Search(), dtype="f32"),
    "the greatest of blocks over one of two axes": lambda: tops(Search(), mesh={"dp": 2, "tp": 2}),
}
THEME = "trials.row_orders"
WRONG = {name: build for name, build in TRIALS.items() if build.__module__.endswith(THEME)}


@pytest.mark.parametrize("name", RIGHT)
def test_what_blocks_have_is_what_the_row_has(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert derived.proved
    assert not derived.unproved
    assert audit(tables, derived.claims, finite=derived.finite).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


@pytest.mark.parametrize("length", [16, 512, 32000])
@pytest.mark.parametrize("way", ["least", "first", "tops"])
def test_length_of_the_row_does_not_matter(way: str, length: int) -> None:
    derived = derive(large(way, length, Search(kept=4, of_block=4), kept=4).tables())
    assert derived.proved
    assert not derived.unproved


@pytest.mark.parametrize("name", ["the least place", "the first block", "the greatest of blocks"])
def test_such_proofs_replay(name: str, tmp_path: Path) -> None:
    facts = Facts(RIGHT[name]().tables())
    files.write(facts, tmp_path / "facts")
    analysis = analyse(facts, Options(refute=False))
    write(analysis, conclude(analysis), tmp_path / "proof.jsonl.gz")
    found = Checker(rule_files(), rules_dir()).replay(tmp_path / "proof.jsonl.gz", load(tmp_path / "facts"))
    assert len(found.outputs) == len(facts["expect"])


@pytest.mark.parametrize("name", sorted(WRONG))
def test_another_search_finds_another_place(name: str) -> None:
    """That it is not proved is tested with the other trials."""
    assert find_counterexample(load_program(WRONG[name]().tables())).status == "refuted"


def test_a_row_whose_greatest_is_compared_is_assumed_to_be_finite() -> None:
    assert derive(placed(least_place, Search(), dtype="f32").tables()).finite == {"base/x0"}


def test_a_search_in_no_order_lists_that_equal_elements_are_found_in_order() -> None:
    listed = derive(tops(replace(Search(), stable=False)).tables())
    assert listed.proved
    assert not listed.unproved
    assert "order" in {row[2] for row in listed.program.relation("assumption")}
