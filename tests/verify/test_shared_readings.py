"""What edits cost: what was read of values that an edit leaves alone is kept."""

from __future__ import annotations

from scalify_dl.audit.pair import Pair, spread
from scalify_dl.facts import Facts
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.oracle.readings import Readings

from .test_mending_steps import a_loss_divided_again, facts_of


def readings_of(facts: Facts) -> Readings:
    found = find_counterexample(load_program(facts.tables), rounding=False).readings
    assert found is not None
    return Readings(found.trial)


def times_and_wave(factor: float) -> Facts:
    """A sine, and the cosine of a multiple of it by another number than the baseline's."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((4, 6), {0: "dp"})
    made = []
    for g, t, number in ((pair.base, x, 2.0), (pair.dist, dx, factor)):
        wave = g.emit("sine", [t])
        made.append(g.emit("cosine", [g.emit("multiply", [wave, spread(g, g.constant(number, "f32"), t.shape, ())])]))
    for g, t in zip((pair.base, pair.dist), made, strict=True):
        g.output(t)
    pair._expects.append((pair.dist.outputs[0].tensor, pair.base.outputs[0].tensor, ""))
    return facts_of(pair)


def test_what_is_read_of_equal_values_is_shared_and_nothing_else() -> None:
    first, second = times_and_wave(3.0), times_and_wave(5.0)
    before, after, alone = readings_of(first), readings_of(second), readings_of(second)
    values = [t for t, *_ in first["tensor"] if t in before.trial.distributed]
    for tensor in values:
        before.of(tensor), before.lost(tensor)
    after.share(before)
    made = {op: t for op, _, t in first["result"]}
    kinds = {kind: made[op] for op, graph, kind in first["op"] if dict(first["graph"])[graph] == "dist"}
    assert kinds["sine"] in after._memo
    assert kinds["cosine"] not in after._memo
    assert [after.of(t) for t in values] == [alone.of(t) for t in values]
    assert [after.lost(t) for t in values] == [alone.lost(t) for t in values]


def test_nothing_is_shared_of_another_baseline() -> None:
    facts = a_loss_divided_again()
    before, after = readings_of(facts), readings_of(times_and_wave(3.0))
    before.of(next(iter(before.trial.distributed)))
    after.share(before)
    assert not after._memo
