"""Schedules that do twice what is done once, or reduce some gradients alone: nothing is proved of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.plans.described import read_described, report_on_described
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

from .described import FILES

FIRST = [f"0F{m}" for m in range(4)] + [f"0B{m}" for m in range(4)]
SECOND = [text.replace("0", "1", 1) for text in FIRST]
REDUCED = [*FIRST, "0REDUCE_GRAD"], [*SECOND, "1REDUCE_GRAD"]
PARTS = [f"1F{m}" for m in range(4)] + [f"1{kind}{m}" for m in range(4) for kind in "IW"]


def report(directory: Path, *rows: list[str]) -> Report:
    for name, text in FILES.items():
        (directory / name).write_text(text, "utf-8")
    (directory / "gpipe.csv").write_text("".join(",".join(row) + "\n" for row in rows), "utf-8")
    return report_on_described(read_described(directory / "plan.yaml"), Options(refute=False))


@pytest.mark.parametrize("rows", [
    (FIRST, SECOND), REDUCED, (FIRST, PARTS), (["0UNSHARD", *FIRST, "0RESHARD", "0REDUCE_GRAD"], REDUCED[1]),
])  # fmt: skip
def test_what_is_done_once_is_proved(tmp_path: Path, rows: tuple[list[str], list[str]]) -> None:
    assert report(tmp_path, *rows).verdict is Verdict.PROVED


@pytest.mark.parametrize(("rows", "text"), [
    (([*FIRST[:2], "0F1", *FIRST[2:]], SECOND), "stage 0 runs micro-batch 1 a second time"),
    ((FIRST, [*PARTS[:5], "1I0", *PARTS[5:]]), "stage 1 runs micro-batch 0 a second time"),
    ((FIRST, [*SECOND[:5], "1I1", *SECOND[5:]]), "stage 1 runs micro-batch 1 a second time"),
    (([*REDUCED[0], "0REDUCE_GRAD"], REDUCED[1]), "stage 0 reduces the gradients a second time"),
    ((REDUCED[0], SECOND), "the gradients of stage 1 are not reduced, and those of others are"),
    (([FIRST[0], "0UNSHARD", *FIRST[1:]], SECOND), "the weights of stage 0 are not gathered"),
    ((["0UNSHARD", FIRST[0], "0RESHARD", *FIRST[1:]], SECOND), "the weights of stage 0 are not gathered"),
])  # fmt: skip
def test_what_a_plan_file_has_no_words_for_is_unknown(
    tmp_path: Path, rows: tuple[list[str], list[str]], text: str
) -> None:
    found = report(tmp_path, *rows)
    assert found.verdict is Verdict.UNKNOWN
    assert found.findings[0].text == text
    assert {output.verdict for output in found.outputs} == {Verdict.UNKNOWN}
