"""What collectives move, by axis and op; what they move for nothing is a note."""

from __future__ import annotations

from scalify_dl.lint.program import Alone
from scalify_dl.prove.verdict import Verdict

from .test_lint import judged, mlp


def notes(p: Alone) -> list[tuple[str, str]]:
    result = judged(p)
    assert result.verdict is Verdict.PROVED
    return [(f.kind, f.name or "") for f in result.findings if f.level == "note"]


def test_an_all_reduce_sends_a_value_twice_but_for_the_own_part() -> None:
    costs = judged(mlp()).costs
    assert costs.by_axes == {"tp": 2 * 8 * 16 * 4 // 2}
    ((_name, kind, axes, moved),) = costs.by_op
    assert (kind, axes, moved) == ("all-reduce", "tp", 512)


def test_a_gather_that_nobody_reads_is_told() -> None:
    p = mlp()
    x = p.place("z", (8, 16), {0: "tp"})
    p.all_gather(x, "tp", 0)
    assert [kind for kind, _ in notes(p)] == ["unread"]


def test_a_value_that_is_gathered_twice_is_told_once() -> None:
    p = Alone("tp=2")
    x = p.place("x", (8, 16), {0: "tp"})
    p.result(p.add(p.all_gather(x, "tp", 0), p.tanh(p.all_gather(x, "tp", 0))))
    assert [kind for kind, _ in notes(p)] == ["gathered-again"]


def scattered(again: bool) -> Alone:
    p = Alone("tp=2")
    x, w = p.place("x", (8, 16), {1: "tp"}), p.place("w", (16, 4), {0: "tp"})
    block = p.reduce_scatter(p.matmul(x, w), "tp", 0)
    p.result(p.all_gather(block, "tp", 0))
    if again:
        p.result(p.tanh(block), {0: "tp"})
    return p


def test_what_is_scattered_and_gathered_is_one_all_reduce() -> None:
    assert [kind for kind, _ in notes(scattered(again=False))] == ["scattered-and-gathered"]


def test_unless_the_blocks_are_read_too() -> None:
    assert notes(scattered(again=True)) == []
