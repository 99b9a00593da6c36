"""Small programs with asynchronous operations, right ones and wrong ones."""

from __future__ import annotations

import pytest

from scalify_dl.errors import InputError
from scalify_dl.schedule.builder import Builder, Rank
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import Result, judge


def outcome(program: Builder, sends: str = "both") -> Result:
    return judge(program.build(), settings(sends))


def kinds(program: Builder) -> list[str]:
    found = outcome(program)
    assert (found.verdict == "PROVED") == (not found.findings)
    return [f.kind for f in found.findings]


def two() -> tuple[Builder, Rank, Rank]:
    program = Builder()
    return program, program.rank(0), program.rank(1)


def test_an_input_overwritten_in_flight_is_a_race() -> None:
    program, zero, one = two()
    zero.compute("make", writes=["x"])
    sent = zero.send(1, "x")
    zero.compute("again", writes=["x"])
    zero.wait(sent)
    one.wait(one.recv(0, "y"))
    assert kinds(program) == ["race"]


def test_with_the_wait_before_the_overwrite_it_is_fine() -> None:
    program, zero, one = two()
    zero.compute("make", writes=["x"])
    zero.wait(zero.send(1, "x"))
    zero.compute("again", writes=["x"])
    one.wait(one.recv(0, "y"))
    assert kinds(program) == []


def test_an_answer_orders_what_no_wait_does() -> None:
    program, zero, one = two()
    zero.compute("make", writes=["x"])
    sent = zero.send(1, "x", stream="out")
    zero.wait(zero.recv(1, "answer", stream="in"))
    zero.compute("again", writes=["x"])
    zero.wait(sent)
    one.wait(one.recv(0, "y"))
    one.compute("reply", reads=["y"], writes=["z"])
    one.wait(one.send(0, "z"))
    assert outcome(program, "blocking").verdict == "PROVED"  # the send has ended when its receive has
    assert [f.kind for f in outcome(program, "buffered").findings] == []


def test_an_answer_to_something_else_orders_nothing() -> None:
    program, zero, one = two()
    zero.compute("make", writes=["x"])
    sent = zero.send(1, "x", stream="out")
    zero.wait(zero.recv(1, "answer", stream="in"))
    zero.compute("again", writes=["x"])
    zero.wait(sent)
    one.compute("reply", writes=["z"])
    one.wait(one.send(0, "z"), one.recv(0, "y", stream="in"))
    assert "race" in [f.kind for f in outcome(program, "blocking").findings]


def test_a_collective_before_its_input_is_a_race() -> None:
    program, zero, one = two()
    program.group("all", [0, 1])
    for rank in (zero, one):
        reduced = rank.collective("all_reduce", "all", takes=["g"])
        rank.compute("backward", adds=["g"])
        rank.wait(reduced)
    assert set(kinds(program)) == {"race"}


def test_a_reducer_that_has_ended_before_the_last_accumulation_is_too_early() -> None:
    program, zero, one = two()
    program.group("all", [0, 1])
    for rank in (zero, one):
        rank.compute("first", adds=["g"])
        rank.wait(rank.collective("all_reduce", "all", takes=["g"]))
        rank.compute("second", adds=["g"])
    assert set(kinds(program)) == {"too-early"}


def test_a_wait_before_the_issue_hangs() -> None:
    program, zero, one = two()
    zero.compute("make", writes=["x"])
    zero.wait("sent")
    zero.send(1, "x", handle="sent")
    one.wait(one.recv(0, "y"))
    assert kinds(program) == ["deadlock"]


def test_buffers_reused_without_waits_race() -> None:
    program, zero, one = two()
    handles = []
    for n in range(3):
        zero.compute(f"make {n}", writes=["x"])
        handles.append(zero.send(1, "x"))
        one.wait(one.recv(0, "y"))
        one.compute(f"use {n}", reads=["y"])
    zero.wait(*handles)
    assert set(kinds(program)) == {"race"}


def test_a_receive_may_be_posted_ahead() -> None:
    program, zero, one = two()
    got = one.recv(0, "y")
    one.compute("something else", writes=["z"])
    one.wait(got)
    one.compute("use", reads=["y", "z"])
    zero.compute("make", writes=["x"])
    zero.wait(zero.send(1, "x"))
    assert kinds(program) == []


def test_two_collectives_chained_on_a_stream_are_fine() -> None:
    program, zero, one = two()
    program.group("all", [0, 1])
    for rank in (zero, one):
        rank.compute("make", writes=["x"])
        rank.collective("reduce_scatter", "all", reads=["x"], writes=["y"], handle="first")
        rank.collective("all_gather", "all", reads=["y"], writes=["z"], handle="second")
        rank.wait("first", "second")
        rank.compute("use", reads=["z"])
    assert kinds(program) == []


def test_traffic_both_ways_is_fine_on_two_streams_and_hangs_on_one_without_buffers() -> None:
    for out, into, verdict in (("out", "in", "PROVED"), ("all", "all", "UNKNOWN")):
        program, zero, one = two()
        for rank, other in ((zero, 1), (one, 0)):
            rank.compute("make", writes=["x"])
            rank.wait(rank.send(other, "x", stream=out), rank.recv(other, "y", stream=into))
            rank.compute("use", reads=["y"])
        assert outcome(program).verdict == verdict


def test_two_sends_and_one_receive_do_not_match() -> None:
    program, zero, one = two()
    zero.compute("make", writes=["x"])
    zero.wait(zero.send(1, "x"), zero.send(1, "x"))
    one.wait(one.recv(0, "y"))
    assert kinds(program)[0] == "unmatched"


def test_crossed_tensors_are_wrong_messages() -> None:
    program, zero, one = two()
    zero.compute("make", writes=["a", "b"])
    zero.wait(zero.send(1, "a", payload="a"), zero.send(1, "b", payload="b"))
    one.wait(one.recv(0, "b", payload="b"), one.recv(0, "a", payload="a"))
    assert kinds(program) == ["wrong-message"]


def test_a_handle_that_is_reused_leaves_an_orphan() -> None:
    program, zero, one = two()
    zero.compute("make", writes=["a", "b"])
    zero.send(1, "a", handle="h", stream="first")
    zero.send(1, "b", handle="h", stream="second")
    zero.wait("h")
    one.wait(one.recv(0, "a"), one.recv(0, "b"))
    assert kinds(program) == ["orphan"]


def test_members_that_disagree_are_a_mismatch() -> None:
    for second in ({"reducer": "max"}, {"reducer": "sum", "shape": "4"}):
        program, zero, one = two()
        program.group("all", [0, 1])
        zero.given("x")
        one.given("x")
        zero.wait(zero.collective("all_reduce", "all", reads=["x"], reducer="sum", shape="8"))
        one.wait(one.collective("all_reduce", "all", reads=["x"], **second))
        assert kinds(program) == ["mismatch"]


def test_a_collective_that_a_member_never_calls_hangs() -> None:
    program, zero, _ = two()
    program.group("all", [0, 1])
    zero.given("x")
    zero.wait(zero.collective("all_reduce", "all", reads=["x"]))
    assert kinds(program) == ["unmatched", "deadlock"]


def test_groups_called_in_different_orders_hang() -> None:
    program, zero, one = two()
    program.group("a", [0, 1])
    program.group("b", [0, 1])
    for rank, order in ((zero, "ab"), (one, "ba")):
        rank.given("x")
        for group in order:
            rank.collective("barrier", group, reads=["x"], stream=None)
    assert kinds(program) == ["deadlock"]


def test_bytes_that_do_not_overlap_do_not_race() -> None:
    for hi, expected in ((4, []), (5, ["race"])):
        program, zero, one = two()
        zero.given("x")
        sent = zero.send(1, ("x", 0, hi))
        zero.compute("write", writes=[("x", 4, 8)])
        zero.wait(sent)
        one.wait(one.recv(0, "y"))
        assert kinds(program) == expected


def test_a_read_is_covered_by_writes_together_or_not_at_all() -> None:
    for lo, expected in ((4, []), (5, ["unread"])):
        program = Builder()
        zero = program.rank(0)
        zero.compute("low", writes=[("x", 0, 4)])
        zero.compute("high", writes=[("x", lo, 8)])
        zero.compute("use", reads=[("x", 0, 8)])
        assert kinds(program) == expected


def test_memory_is_counted_along_the_program() -> None:
    program = Builder()
    zero = program.rank(0)
    zero.compute("a", writes=["x"], memory=100, duration=3)
    zero.compute("b", writes=["y"], memory=50, duration=4)
    zero.compute("c", memory=-100)
    zero.compute("d", memory=20)
    found = outcome(program)
    assert (found.makespan, found.peak) == (7, {0: {"bytes": 150}})


def test_what_is_never_issued_cannot_be_waited_for() -> None:
    program = Builder()
    program.rank(0).wait("h")
    with pytest.raises(InputError, match="never issues"):
        program.build()


@pytest.mark.parametrize("wrote", [(0, 8), (0, 4), (4, 8)])
def test_what_a_reader_waits_for_has_to_write_all_that_is_read(wrote: tuple[int, int]) -> None:
    program = Builder()
    rank = program.rank(0)
    made = rank.compute("half", writes=[("x", *wrote)], stream="side")
    rank.compute("read", reads=[("x", 0, 8)], after=[made])
    found = judge(program.build(), settings("both"))
    assert [f.kind for f in found.findings] == ([] if wrote == (0, 8) else ["unread"])


def test_what_is_added_after_the_schedule_was_built_is_refused() -> None:
    b = Builder()
    b.rank(0).compute("work")
    b.build()
    with pytest.raises(InputError, match="comes after `build`"):
        b.rank(0).compute("more")


def test_a_group_says_what_is_wrong_with_it() -> None:
    b = Builder()
    b.group("tp", [0, 1])
    with pytest.raises(InputError, match="given twice"):
        b.group("tp", [2, 3])
    with pytest.raises(InputError, match=r"has the ranks \[0, 0\]"):
        b.group("dp", [0, 0])
