"""Facts changed row by row: refused, no longer proved, or still true."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from scalify_dl.audit.rows import OUTCOMES, Reference, changes
from scalify_dl.errors import InputError
from scalify_dl.facts.files import load
from scalify_dl.pairing.builder import Pair

ROOT = Path(__file__).parents[2]


def mixed() -> dict[str, list[tuple[object, ...]]]:
    """A loop, a slice, a mean over a sharded dim."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    x, dx = b.input("x", (4, 8)), d.shard("x", {1: "tp"})
    for p, v in ((b, x), (d, dx)):
        _, y = p.loop(
            [p.constant(0, "s32"), v],
            lambda q, i, _: q.compare(i, 2, direction="LT"),
            lambda q, i, u: [q.add(i, 1), q.tanh(u)],
        )
        p.output(p.slice(p.transpose(y, 1, 0), 1, 0, 2))
        mean = p.multiply(p.reduce(p.maximum(v, 0.0), [1], "sum"), 0.125)
        p.output(mean if p is b else p.all_reduce(mean, "tp"))
    return dict(pair.facts().tables)


@pytest.mark.parametrize("name", ["megatron_mlp", "gqa_fused_qkv", "mixed"])
def test_no_change_of_a_row_is_proved_wrongly(name: str) -> None:
    tables = mixed() if name == "mixed" else load(ROOT / "facts" / name).tables
    reference = Reference(tables)
    counts: Counter[str] = Counter()
    for change in islice(changes(tables, random.Random(name)), 300):
        outcome, shown = reference.judge(change.tables)
        assert outcome != "falsely proved", (change.table, change.what, change.row, shown)
        counts[outcome] += 1
    assert set(counts) <= set(OUTCOMES)
    assert counts["refused"] > 150


def test_a_change_that_the_loader_lets_through_is_seen_by_rules_or_numbers() -> None:
    tables = dict(mixed())
    reference = Reference(tables)
    tables["attr_symbol"] = [
        (op, key, pos, "max" if (op, key) == ("reduce", "reducer") else value)
        for op, key, pos, value in tables["attr_symbol"]
    ]
    assert reference.judge(tables)[0] == "unproved"
    for table in ("attr_symbol", "literal", "literal_rational"):
        tables[table] = [
            tuple(
                "0.25" if cell == "0.125" else 4 if (table, cell) == ("literal_rational", 8) else cell for cell in row
            )
            for row in mixed()[table]
        ]
    assert reference.judge(tables) == ("numbers", "")


def test_only_proved_facts_have_an_adversary() -> None:
    with pytest.raises(InputError, match="not proved"):
        Reference(load(ROOT / "facts" / "megatron_mlp_wrong_group").tables)
