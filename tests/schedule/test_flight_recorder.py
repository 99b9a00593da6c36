"""Flight Recorder dumps: who is behind, what does not match; and pickles of objects, of which nothing is executed."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.errors import InputError
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import Result, judge

Entries = list[dict[str, Any]]


def call(seq: int, kind: str = "all_reduce", state: str = "scheduled", size: int = 8) -> dict[str, Any]:
    return {
        "process_group": ["0", "default_pg"], "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq,
        "profiling_name": f"nccl:{kind}", "input_sizes": [[size]], "input_dtypes": ["Float"], "state": state,
        "frames": [{"name": "step", "filename": "train.py", "line": 100 + seq}],
    }  # fmt: skip


def message(text: str, state: str = "scheduled") -> dict[str, Any]:
    return call(0, state=state) | {"profiling_name": f"nccl:{text}"}


def dump(entries: Entries, ranks: int = 2) -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}}
    return {"version": "2.4", "pg_config": config, "entries": entries}


def result(folder: Path, ranks: list[Entries]) -> Result:
    paths = []
    for r, entries in enumerate(ranks):
        paths.append(folder / f"trace_{r}.json")
        paths[-1].write_text(json.dumps(dump(entries, len(ranks))))
    return judge(read_schedule(paths), settings("both"))


def test_ranks_that_agree_have_no_findings(tmp_path: Path) -> None:
    same = [call(n, "all_reduce" if n % 2 else "all_gather") for n in range(1, 5)]
    found = result(tmp_path, [same, same, same])
    assert (found.verdict, found.findings, len(found.assumptions)) == ("PROVED", [], 1)


def test_the_rank_that_is_behind_is_named_with_the_source(tmp_path: Path) -> None:
    found = result(tmp_path, [[call(1), call(2)], [call(1), call(2)], [call(1)]])
    assert [f.kind for f in found.findings] == ["unmatched", "deadlock"]
    assert "likewise on ranks 1" in (found.findings[1].explains or "")
    assert "member 2" in found.findings[0].text
    assert found.findings[0].source == ("train.py:102",)


def test_collectives_that_differ_are_named(tmp_path: Path) -> None:
    for other in (call(2, "all_gather"), call(2, size=9)):
        found = result(tmp_path, [[call(1), call(2)], [call(1), other]])
        assert [(f.kind, f.rank) for f in found.findings] == [("mismatch", 1)]


def test_what_had_ended_before_other_windows_begin_is_left_out(tmp_path: Path) -> None:
    early = [call(n, state="completed") for n in (1, 2)]
    assert result(tmp_path, [[*early, call(3)], [call(2, state="completed"), call(3)]]).verdict == "PROVED"
    assert result(tmp_path, [[*early, call(3, state="completed")], early]).verdict == "PROVED"


def test_messages_that_wait_for_each_other_hang(tmp_path: Path) -> None:
    crossed = [[message("recv 0<-1"), message("send 0->1")], [message("recv 1<-0"), message("send 1->0")]]
    assert [f.kind for f in result(tmp_path, crossed).findings] == ["deadlock"]
    crossed[1].reverse()
    assert result(tmp_path, crossed).verdict == "PROVED"


def test_a_pickle_of_plain_containers_is_read(tmp_path: Path) -> None:
    for r in range(2):
        (tmp_path / f"trace_{r}").write_bytes(pickle.dumps(dump([call(1)])))
    assert judge(read_schedule([tmp_path / "trace_0", tmp_path / "trace_1"]), settings("both")).verdict == "PROVED"


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_with_objects_is_refused_and_nothing_is_executed(tmp_path: Path) -> None:
    (tmp_path / "trace_0").write_bytes(pickle.dumps({"entries": [Evil(tmp_path / "made")], "version": "2.4"}))
    with pytest.raises(InputError, match="asks for"):
        read_schedule([tmp_path / "trace_0"])
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "9.1"}, "version 9.1"),
        ({"entries": 3}, "no entries"),
        ({"entries": [3]}, "entry 0 is no object"),
        ({"entries": [call(1) | {"process_group": ["7", "x"]}]}, "group '7'"),
        ({"entries": [call(1) | {"collective_seq_id": "1"}]}, "collective_seq_id"),
        ({"pg_config": {"0": {"ranks": "[0, 1, 2]"}}}, "of which there is no dump"),
        ({"pg_config": {"0": {"ranks": "all"}}}, "pg_config"),
        ({"entries": [message("send 1->0")]}, "on rank 0"),
    ],
)
def test_bad_dumps_are_told(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    (tmp_path / "trace_0.json").write_text(json.dumps(dump([call(1)]) | change))
    (tmp_path / "trace_1.json").write_text(
        json.dumps(dump([call(1)]) | {k: v for k, v in change.items() if k[0] == "p"})
    )
    with pytest.raises(InputError) as error:
        read_schedule([tmp_path / "trace_0.json", tmp_path / "trace_1.json"])
    assert said in str(error.value)


def test_a_dump_that_was_cut_off_is_told(tmp_path: Path) -> None:
    text = json.dumps(dump([call(1)]))
    (tmp_path / "trace_0.json").write_text(text[: len(text) // 2])
    with pytest.raises(InputError, match="not whole JSON"):
        read_schedule([tmp_path / "trace_0.json"])
    (tmp_path / "trace_0").write_bytes(pickle.dumps(dump([call(1)]))[:-20])
    with pytest.raises(InputError, match="not a whole pickle"):
        read_schedule([tmp_path / "trace_0"])


@pytest.mark.parametrize("more", [
    [call(2, "broadcast", "completed")], [call(2, state="completed", size=6)],
    [call(2, state="completed", size=4), call(2, state="completed", size=4)], [],
])  # fmt: skip
def test_calls_that_were_issued_in_one_have_the_same_parts(tmp_path: Path, more: Entries) -> None:
    start = [call(1, state="completed"), call(2, state="completed")]
    mine = [*start, call(2, state="completed", size=4)]
    assert result(tmp_path, [mine, mine]).verdict == "PROVED"
    found = result(tmp_path, [mine, [*start, *more]])
    assert (found.verdict, found.findings[0].kind) == ("REFUTED", "mismatch")


def test_a_dump_that_begins_within_such_a_call_is_no_mismatch(tmp_path: Path) -> None:
    mine = [call(2, state="completed"), call(2, state="completed", size=4), call(3)]
    assert result(tmp_path, [[call(1, state="completed"), *mine], mine[1:]]).verdict == "PROVED"


@pytest.mark.parametrize("kind", ["all_to_all", "all_to_allv", "alltoall_base"])
def test_ranks_have_their_own_sizes_in_an_exchange_of_all_with_all(tmp_path: Path, kind: str) -> None:
    assert result(tmp_path, [[call(1, kind, size=6)], [call(1, kind, size=8)]]).verdict == "PROVED"
    other = call(1, kind) | {"input_dtypes": ["Half"]}
    assert result(tmp_path, [[call(1, kind)], [other]]).findings[0].kind == "mismatch"


def test_results_of_other_sizes_do_not_match(tmp_path: Path) -> None:
    ranks = [[call(1, "all_gather") | {"output_sizes": [[n]]}] for n in (16, 32)]
    assert result(tmp_path, ranks).findings[0].kind == "mismatch"
