"""Meshes with axes along which no rank is told apart: what is proved of them, what they cost, what is refused."""

from __future__ import annotations

import random
import time

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz import random_pair
from scalify_dl.audit.fuzz.check import with_still_axes
from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.facts.ranks import still_axes, written_out
from scalify_dl.facts.validate import validate
from scalify_dl.ir.mesh import Mesh
from scalify_dl.oracle import load_program
from scalify_dl.pairing.builder import Pair

STILL = frozenset({"dp", "mb"})


def data_parallel(dp: int, mb: int, still: frozenset[str] = STILL) -> Facts:
    """The gradient of a cut linear layer, added up over copies and micro-batches, and the activation of tp ranks."""
    pair = Pair(Mesh((("dp", dp), ("mb", mb), ("tp", 2)), still))
    b, d = pair.base, pair.dist
    x, w = b.input("x", (dp * mb * 4, 8)), b.input("w", (8, 6))
    b.output(b.matmul(x, w), b.dot(x, b.matmul(x, w), ([0], [0])))
    dx, dw = d.shard("x", {0: ("dp", "mb"), 1: "tp"}), d.shard("w", {0: "tp"})
    y = d.all_reduce(d.matmul(dx, dw), "tp")
    d.output(y, d.all_reduce(d.dot(dx, y, ([0], [0])), ("dp", "mb")))
    pair.expect(0, {0: ("dp", "mb")})
    pair.expect(1, {0: "tp"})
    return pair.facts()


def own_blocks() -> Facts:
    """Every rank cuts its block out of a replicated value, in the order of the mesh."""
    pair = Pair(Mesh((("dp", 4), ("tp", 2)), frozenset({"dp"})))
    b, d = pair.base, pair.dist
    b.output(b.input("x", (8, 3)))
    op = d.op("slice", d.shard("x"), start=[0, 0], limit=[1, 3], stride=[1, 1])
    op.strides["start", 0] = op.strides["limit", 0] = {"dp": 2, "tp": 1}
    d.output(op.result)
    pair.expect(0, {0: ("dp", "tp")})
    return pair.facts()


@pytest.mark.parametrize("facts", [data_parallel(4, 3), own_blocks()], ids=["sums", "blocks"])
def test_what_is_so_on_every_rank_is_proved_with_a_few_of_them(facts: Facts) -> None:
    validate(facts)
    assert not derive(facts.tables).unproved
    assert not derive(written_out(facts.tables)).unproved


def test_the_cost_does_not_depend_on_the_size_of_the_axes() -> None:
    seconds = {}
    for dp, mb in ((2, 2), (2048, 512)):
        facts = data_parallel(dp, mb)
        assert len(facts["rank_coord"]) == 2
        start = time.process_time()
        assert not derive(facts.tables).unproved
        seconds[dp] = time.process_time() - start
    assert seconds[2048] < 2 * seconds[2]


def test_what_is_the_same_on_all_ranks_of_random_programs_stays_lawful() -> None:
    changed = 0
    for seed in range(60):
        rng = random.Random(seed)
        tables = random_pair(rng).tables()
        few = with_still_axes(tables, rng)
        changed += few is not tables
        assert load_program(few).mesh == load_program(tables).mesh
        assert len(load_program(few).ranks) == len(load_program(tables).ranks)
    assert changed > 5


def refused(facts: Facts, table: str, *row: object) -> str:
    facts.add(table, *row)
    with pytest.raises(InputError) as error:
        validate(facts)
    return str(error.value)


def test_facts_that_say_two_things_are_refused() -> None:
    facts = data_parallel(2, 2, frozenset())
    (first, *_) = [op for op, _, kind in facts["op"] if kind == "all-reduce"]
    assert "as well" in refused(facts, "group_along", first, 0, "dp")
    (dot, *_) = [op for op, graph, kind in data_parallel(2, 2)["op"] if kind == "dot" and graph == "dist"]
    assert "no collective" in refused(data_parallel(2, 2), "group_along", dot, 0, "dp")
    assert "along an axis twice" in refused(data_parallel(2, 2), "group_along", first, 1, "tp")
    assert "depends on the rank" in refused(own_blocks(), "number_along", "slice", "stride", 0, "dp", 1)
    assert "has results" in refused(own_blocks(), "number_along", "slice", "start", 1, "dp", 1)
    ranks = data_parallel(2, 2)
    ranks.tables["whole_axis"] = []
    with pytest.raises(InputError, match="2 ranks, the axes make 8"):
        validate(ranks)
    numbered = own_blocks()
    numbered.add("tensor", "id", "dist", "u32", 0)
    numbered.add("result", "number", 0, "id")
    assert "stands for several" in refused(numbered, "op", "number", "dist", "partition-id")


def test_a_number_along_an_axis_stays_within_bounds() -> None:
    facts = own_blocks()
    facts.tables["number_along"] = [(op, key, p, axis, 3) for op, key, p, axis, _ in facts["number_along"]]
    with pytest.raises(InputError):
        validate(facts)


def test_too_many_ranks_are_not_run() -> None:
    facts = data_parallel(2048, 512)
    assert still_axes(facts.tables) == STILL
    with pytest.raises(InputError, match="2097152 ranks"):
        load_program(facts.tables)
