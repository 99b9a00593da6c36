"""Schedules of pipelines as torch writes them: what is fine is proved, what hangs or reads too early is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit.schedules import orders as known
from scalify_dl.errors import InputError
from scalify_dl.schedule.pipeline import lower
from scalify_dl.schedule.pipeline_csv import orders_of
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import Result, judge

from .orders import g_pipe, moved, one_f_one_b, with_messages, written

Rows = list[list[str]]


def result(path: Path, rows: Rows, sends: str = "both", streams: str = "pair") -> Result:
    return judge(read_schedule([written(path / "s.csv", rows)], streams=streams), settings(sends))


@pytest.fixture
def rows() -> Rows:
    return with_messages(one_f_one_b(4, 8))


@pytest.mark.parametrize("streams", ["pair", "direction", "rank", "host"])
@pytest.mark.parametrize("make", [one_f_one_b, g_pipe])
def test_known_schedules_are_proved_on_all_streams(tmp_path: Path, make: object, streams: str) -> None:
    assert callable(make)
    found = result(tmp_path, with_messages(make(4, 8)), streams=streams)
    assert (found.verdict, found.findings) == ("PROVED", [])


def test_time_and_memory_of_1f1b_are_the_closed_forms(tmp_path: Path, rows: Rows) -> None:
    found = result(tmp_path, rows)
    assert found.makespan == (4 - 1 + 8) * 30
    assert found.idle == dict.fromkeys(range(4), (4 - 1) * 30)
    assert found.peak == {r: {"activations": 4 - r} for r in range(4)}


@pytest.mark.parametrize(("ranks", "batches"), [(4, 8), (16, 64)])
def test_time_and_memory_of_known_schedules_are_the_closed_forms(ranks: int, batches: int) -> None:
    """F takes 10, B 20, each half 10: bubbles and activations held at once, as their authors state them."""
    forms = {
        known.one_f_one_b: (30 * (ranks - 1), ranks), known.g_pipe: (30 * (ranks - 1), batches),
        known.zb_h1: ((10 + 20 - 2 * 10) * (ranks - 1), ranks),
        known.dual_pipe: ((30 + 20 - 3 * 10) * (ranks // 2 - 1), ranks + 1),
    }  # fmt: skip
    for make, (bubble, peak) in forms.items():
        rows = known.with_messages(make(ranks, batches))
        result = judge(lower(orders_of(rows)), settings("both"))
        assert (result.verdict, set(result.idle.values())) == ("PROVED", {bubble}), make
        assert max(units["activations"] for units in result.peak.values()) == peak, make
        assert result.makespan == 30 * batches + bubble


def test_stages_that_share_no_micro_batch_are_of_two_pipelines() -> None:
    """Unless they send each other messages."""
    result = judge(lower(orders_of([["0F0", "1F1", "1B1", "0B0"]])), settings("both"))
    assert (result.verdict, len(result.assumptions)) == ("PROVED", 1)
    result = judge(lower(orders_of([["0F0", "1F0", "0B0", "1B0"]])), settings("both"))
    assert [f.kind for f in result.findings] == ["unread"]
    rows = [["0F0", "0SEND_F0", "0B0"], ["1RECV_F1", "1F1", "1B1"]]
    assert judge(lower(orders_of(rows)), settings("both")).findings[0].kind == "wrong-message"


def test_the_edit_is_on_the_rank_that_can_make_it() -> None:
    rows = [["0F0", "0SEND_F0", "0F1", "0RECV_B0", "0SEND_F1", "0B0", "0RECV_B1", "0B1"],
            ["1RECV_F0", "1F0", "1RECV_F1", "1B0", "1SEND_B0", "1F1", "1B1", "1SEND_B1"]]  # fmt: skip
    (finding,) = judge(lower(orders_of(rows)), settings("both")).findings
    assert finding.suggestion == "on rank 0, post 0SEND_F1 before 0RECV_B0, or both in one group"


def test_a_message_that_is_lost_is_named_by_what_it_carries(rows: Rows) -> None:
    rows[0].remove("0SEND_F1")
    found = judge(lower(orders_of(rows)), settings("both")).findings
    assert "output of stage 0, micro-batch 1, which rank 0 never sends" in found[0].text
    assert found[0].suggestion == "on rank 0, send output of stage 0, micro-batch 1 before 0SEND_F2"


def test_a_receive_posted_before_what_it_answers_hangs_and_both_sides_are_named(tmp_path: Path, rows: Rows) -> None:
    moved(rows[1], "1RECV_B0", "1SEND_F2")
    found = result(tmp_path, rows)
    assert found.verdict == "REFUTED"
    [finding] = found.findings
    assert finding.kind == "deadlock"
    assert [(e.rank, e.name) for e in finding.events] == [
        (1, "1RECV_B0"), (2, "2SEND_B0"), (2, "2RECV_F2"), (1, "1SEND_F2"),
    ]  # fmt: skip
    assert finding.source[0].endswith("s.csv:2:9")
    assert found.makespan is None


def test_the_same_is_fine_where_directions_have_queues_of_their_own(tmp_path: Path, rows: Rows) -> None:
    moved(rows[1], "1RECV_B0", "1SEND_F2")
    assert result(tmp_path, rows, streams="direction").verdict == "PROVED"


def test_what_hangs_only_without_buffers_depends_on_buffering(tmp_path: Path) -> None:
    crossed = [
        ["0F0", "0F1", "0SEND_F0", "0SEND_F1", "0RECV_B0", "0RECV_B1", "0B0", "0B1"],
        ["1RECV_F0", "1F0", "1B0", "1SEND_B0", "1RECV_F1", "1F1", "1B1", "1SEND_B1"],
    ]
    found = result(tmp_path, crossed)
    assert found.verdict == "UNKNOWN"
    assert [f.kind for f in found.findings] == ["buffering"]
    assert "0SEND_F1" in found.findings[0].text
    assert result(tmp_path, crossed, "blocking").verdict == "REFUTED"
    assert result(tmp_path, crossed, "1").verdict == "PROVED"
    assert result(tmp_path, crossed, "0").verdict == "REFUTED"


def test_crossed_messages_are_named_once(tmp_path: Path, rows: Rows) -> None:
    moved(rows[2], "2RECV_F1", "2RECV_F0")
    found = result(tmp_path, rows)
    assert found.verdict == "REFUTED"
    assert (found.findings[0].kind, found.findings[0].name) == ("wrong-message", "2RECV_F1")
    assert [f.kind for f in found.findings].count("wrong-message") == 1


def test_a_send_before_its_contents_races(tmp_path: Path, rows: Rows) -> None:
    moved(rows[1], "1SEND_F1", "1F1")
    assert [f.kind for f in result(tmp_path, rows).findings] == ["race"]


def test_a_computation_before_its_receive_reads_nothing(tmp_path: Path, rows: Rows) -> None:
    moved(rows[1], "1F3", "1RECV_F3")
    assert [(f.kind, f.name) for f in result(tmp_path, rows).findings] == [("unread", "1F3")]


def test_a_backward_before_its_forward_reads_nothing(tmp_path: Path) -> None:
    assert "unread" in [f.kind for f in result(tmp_path, [["0B0", "0F0"]]).findings]


def test_gradients_of_weights_before_those_of_the_input_read_nothing(tmp_path: Path) -> None:
    assert [f.kind for f in result(tmp_path, [["0F0", "0W0", "0I0"]]).findings] == ["unread"]
    assert result(tmp_path, [["0F0", "0I0", "0W0"]]).verdict == "PROVED"


def test_a_reducer_before_the_last_accumulation_is_too_early(tmp_path: Path, rows: Rows) -> None:
    moved(rows[1], "1REDUCE_GRAD", "1B5")
    [finding] = result(tmp_path, rows).findings
    assert (finding.kind, finding.name, finding.rank) == ("too-early", "1REDUCE_GRAD", 1)


def test_a_message_without_partner_is_named(tmp_path: Path, rows: Rows) -> None:
    rows[3].remove("3RECV_F7")
    found = result(tmp_path, rows)
    assert {"unmatched", "unread"} <= {f.kind for f in found.findings}
    assert found.findings[0].name == "2SEND_F7"


def test_what_is_received_and_never_used_is_an_orphan(tmp_path: Path) -> None:
    rows = [["0F0", "0SEND_F0"], ["1RECV_F0"]]
    assert [(f.kind, f.name) for f in result(tmp_path, rows).findings] == [("orphan", "1RECV_F0")]


def test_a_file_without_messages_is_judged_by_its_order_and_that_is_an_assumption(tmp_path: Path) -> None:
    found = result(tmp_path, one_f_one_b(4, 8))
    assert (found.verdict, found.makespan, len(found.assumptions)) == ("PROVED", 330, 1)
    turned = one_f_one_b(2, 2)
    turned[0] = ["0F1", "0B0", "0F0", "0B1"]
    assert result(tmp_path, turned).findings[0].kind == "deadlock"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (["0F0", "0F1", "0B0", "0I1"], "no gradients are wanted of 0F1, which has no whole backward"),
        (["0F0", "0UNSHARD", "0B0"], "a stage has its weights when it runs, wherever UNSHARD and RESHARD are"),
        (["0F0", "0F1"], None),
    ],
)
def test_what_no_order_shows_to_be_wrong_is_listed(tmp_path: Path, row: list[str], said: str | None) -> None:
    found = result(tmp_path, [row])
    assert (found.verdict, found.assumptions) == ("PROVED", [said] if said else [])


def test_the_older_dialect_spells_the_full_backward_bw(tmp_path: Path) -> None:
    found = result(tmp_path, [["0F0", "", "0F1", "0BW0", "0B1", "0W1"]])
    assert (found.verdict, found.makespan) == ("PROVED", 10 + 10 + 20 + 10 + 10)


def test_actions_that_overlap_are_both_done(tmp_path: Path) -> None:
    found = result(tmp_path, [["0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"]])
    assert (found.verdict, found.makespan, found.peak[0]) == ("PROVED", 60, {"activations": 2})


@pytest.mark.parametrize("line", ["0F0,0F0,0F1,0B0,0B1", "0F0,0F1,0B0,0B1,0B0", "0F0,0F1,0I0,0W0,0B1,0B0",
                                  "0F0,0F1,0B0,0B1,0REDUCE_GRAD,0REDUCE_GRAD"])  # fmt: skip
def test_what_is_computed_twice_of_a_micro_batch_is_bad_input(tmp_path: Path, line: str) -> None:
    """Its gradient would be added up twice."""
    path = tmp_path / "twice.csv"
    path.write_text(f"{line}\n1F0,1F1,1B0,1B1\n", "utf-8")
    with pytest.raises(InputError, match="computes again"):
        read_schedule([path])
