"""Random pairs read as families: what is proved for all sizes agrees numerically at other sizes."""

from __future__ import annotations

import random
from math import prod

import pytest

from scalify_dl.audit.fuzz.generate import random_pair
from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.facts.validate import validate
from scalify_dl.families.domain import Domain
from scalify_dl.families.family import Family
from scalify_dl.families.verify import verify_family
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict

SIZES = (1, 2, 3, 4, 6, 8)
RANKS = 24
CONDITIONS = ("nonzero", "positive", "nonnegative")
"""Reasons of assumptions that inputs drawn at random do not meet by themselves."""


def proved_pair(rng: random.Random) -> Facts:
    """A random pair with those of its outputs that are proved; none where a proof asks for more than ranges."""
    facts = Facts(random_pair(rng, length=rng.choice([3, 4, 6]), wrong=0.06).tables())
    analysis = analyse(facts, Options())
    proved = {row[:2] for row in analysis.rows("output_verdict") if row[2] == "PROVED"}
    if any(why in CONDITIONS for *_, why in analysis.rows("assumption")):
        proved = set()
    facts.tables["expect"] = [row for row in facts["expect"] if row[:2] in proved]
    return facts


def some_symbols(facts: Facts, rng: random.Random) -> dict[str, str | None]:
    """An axis, or all of them, and perhaps a dim of an input."""
    axes = [axis for axis, *_ in facts["mesh_axis"]]
    symbols: dict[str, str | None] = dict.fromkeys(axes if rng.random() < 0.3 else [rng.choice(axes)])
    inputs = {tensor for side, _, tensor in facts["input"] if side == "base"}
    dims = [(tensor, dim) for tensor, dim, size in facts["dim"] if tensor in inputs and size > 1]
    if dims and rng.random() < 0.5:
        tensor, dim = rng.choice(dims)
        position = next(p for side, p, t in facts["input"] if side == "base" and t == tensor)
        symbols["n"] = f"{position}:{dim}"
    return symbols


@pytest.mark.parametrize("seed", range(30))
def test_what_is_proved_for_all_sizes_agrees_at_others(seed: int) -> None:
    rng = random.Random(seed)
    facts = proved_pair(rng)
    if not facts["expect"]:
        return
    families: list[Family] = []
    try:
        validate(facts)  # random steps also make what no directory of facts may hold
        report = verify_family([facts], some_symbols(facts, rng), keep=families.append)
    except InputError:  # or one capture does not tell
        return
    if report.verdict is not Verdict.PROVED:
        return
    (family,) = families
    domain = Domain([symbol.name for symbol in family.symbols], family.sizes, family.integers)
    for _ in range(4):
        sizes = {symbol.name: rng.choice(SIZES) for symbol in family.symbols}
        if domain.holds(sizes) and prod(axis.at(sizes) for _, axis in family.axes) <= RANKS:
            assert find_counterexample(load_program(family.instantiate(sizes).tables)).status == "agrees", sizes


def test_many_random_pairs_are_proved_for_all_sizes() -> None:
    verdicts = []
    for seed in range(14, 28):
        rng = random.Random(seed)
        facts = proved_pair(rng)
        if facts["expect"]:
            try:
                validate(facts)  # steps for the rules make sums of other types, too, which no facts may have
                verdicts.append(verify_family([facts], some_symbols(facts, rng)).verdict)
            except InputError:
                continue
    assert verdicts.count(Verdict.PROVED) >= 3
