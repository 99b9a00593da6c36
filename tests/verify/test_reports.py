"""Reports in all formats, rendered from one report."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from scalify_dl.prove.verdict import Assumption, Frame, OutputVerdict, Report, RootCause, Verdict, overall
from scalify_dl.prove.view import user_frames
from scalify_dl.report import html, sarif, terminal
from scalify_dl.report import json as json_report
from scalify_dl.report.numbers import counterexample_lines

REPORT = Report(
    verdict=Verdict.UNKNOWN,
    title="d.hlo against b.hlo on mesh tp=2",
    outputs=[
        OutputVerdict("d:dot", "b:dot", "dot.3", "dot.4", Verdict.UNKNOWN, reason="it corresponds to x, not to dot.4"),
        OutputVerdict("d:c", "b:c", "c.3", "c.4", Verdict.PROVED, "[0:1x4]|tp=0:4x2", "(tp a) -> a"),
    ],
    frontier=[
        RootCause(
            op="d:slice",
            name="slice.54",
            kind="slice",
            source=(Frame("/home/me/attention.py", 118, "split"), Frame("model.py", 3)),
            operands=("0: dot.52 holds dot.51: dim 1 cut over tp into 2 blocks",),
            expected=("columns 1024:1280 <k>",),
            found=("columns 0:256",),
            suggestion=("slice [1024:1280] instead of [0:256]",),
            lemma_missing=None,
            base_op="b:slice",
            base_name="slice.53",
            base_source=(Frame("/home/me/attention.py", 118),),
        )
    ],
    downstream=14,
    unrelated_inputs=[("p9", "no relation to a baseline input is given")],
    notes=["a note"],
    assumptions=[Assumption(f"p{i}", "replicated over tp", "shape") for i in range(20)],
    counterexample={
        "kind": "refutation",
        "reason": "",
        "output": "d:dot",
        "name": "dot.3",
        "base": "b:dot",
        "seed": 3,
        "draw": "integers",
        "sizes": "own",
        "local_shape": [4, 2],
        "base_shape": [4, 4],
        "layout": "[0:1x4][1:1x2]|tp=1:2x2",
        "rank": 1,
        "index": [0, 1],
        "expected": 3,
        "actual": 4,
        "share_wrong": 0.5,
        "first_op": {"op": "slice.54", "kind": "slice", "base_op": "slice.53"},
    },
    stats={"ops": 371, "tuples": 40211, "cpu_s": 0.412, "peak_mb": 120.2},
)

SNAPSHOT = """\
UNKNOWN  1 of 2 outputs proved
         d.hlo against b.hlo on mesh tp=2

1 root cause; 14 more ops unproved only because of them
  1. slice.54 (slice)
     source      /home/me/attention.py:118  in split
                 model.py:3
     operands    0: dot.52 holds dot.51: dim 1 cut over tp into 2 blocks
     baseline    slice.53, /home/me/attention.py:118
     expected    columns 1024:1280 <k>
     found       columns 0:256
     try         slice [1024:1280] instead of [0:256]
     tried       untested

Counterexample
  output      dot.3, element [0, 1] of [4, 2]
  on rank     1
  expected    3
  actual      4
  placed as   a (tp b) -> a b
  wrong       50 % of the elements
  inputs      seed 3, integers, own sizes
  first op    slice.54 (slice), where the baseline has slice.53

Outputs
  UNKNOWN  dot.3 = dot.4
           it corresponds to x, not to dot.4
  PROVED   c.3 = c.4
           (tp a) -> a

1 input related to nothing
  p9: no relation to a baseline input is given

2 assumptions
  shape
    p0: replicated over tp
    p1: replicated over tp

Notes
  a note

371 ops, 40,211 tuples, 0.41 s CPU, 120 MB
"""


def text(report: Report) -> str:
    out = StringIO()
    terminal.render(report, out)
    return out.getvalue()


def test_terminal_report_verdict_first() -> None:
    assert text(replace(REPORT, assumptions=REPORT.assumptions[:2])) == SNAPSHOT


@pytest.mark.parametrize("force", ["0", "1"])
def test_a_pipe_gets_what_a_screen_without_colours_and_folds_shows(monkeypatch: pytest.MonkeyPatch, force: str) -> None:
    odd = replace(REPORT.frontier[0], found=("two\nlines\tand a tab \x1b[1m", "", " spaces  "), called="a\rb")
    report = replace(REPORT, frontier=[odd, *REPORT.frontier], picture=["", " | "], notes=["ü 你好 " * 40])
    plain = text(report)
    monkeypatch.setenv("TTY_COMPATIBLE", force)
    out = StringIO()
    terminal.render(report, out)
    screen = StringIO()
    terminal.render(report, console=Console(file=screen, force_terminal=False, highlight=False, emoji=False))
    assert screen.getvalue() == plain
    if force == "0":
        assert out.getvalue() == plain


def test_at_a_terminal_ten_outputs_of_a_verdict_are_listed_and_in_a_pipe_all() -> None:
    proved = REPORT.outputs[-1]
    many = replace(REPORT, outputs=[REPORT.outputs[0], *(replace(proved, name=f"w{n}") for n in range(30))])
    out = StringIO()
    terminal.render(many, console=Console(file=out, force_terminal=True, no_color=True, color_system=None))
    assert "PROVED   and 20 more (in JSON: all)" in out.getvalue()
    assert out.getvalue().index("root cause") < out.getvalue().index("Outputs")
    assert "w29" in text(many)


def test_long_lists_of_assumptions_are_cut_and_counted() -> None:
    assert "and 8 more (in JSON: all)" in text(REPORT)


@pytest.mark.parametrize("width", [40, 60, 200])
def test_at_a_terminal_no_line_is_wider_than_the_screen(width: int) -> None:
    out = StringIO()
    terminal.render(
        REPORT, console=Console(file=out, width=width, force_terminal=True, no_color=True, color_system=None)
    )
    assert max(map(len, out.getvalue().splitlines())) <= width


def test_a_pipe_gets_neither_colour_nor_folding() -> None:
    long = "/very/long" * 50 + ".py"
    cause = replace(REPORT.frontier[0], source=(Frame(long, 3),))
    out = text(replace(REPORT, frontier=[cause]))
    assert "\x1b" not in out
    assert f"{long}:3" in out


def test_names_from_a_dump_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in text(replace(REPORT, title="evil\x1b[2J"))


def test_json_keeps_the_contract() -> None:
    got = json.loads(json_report.render(REPORT))
    assert {"verdict", "outputs", "frontier", "assumptions", "counterexample", "stats"} <= got.keys()
    assert {k: got["outputs"][1][k] for k in ("name", "base", "verdict", "layout")} == {
        "name": "c.3",
        "base": "c.4",
        "verdict": "PROVED",
        "layout": "[0:1x4]|tp=0:4x2",
    }
    cause = got["frontier"][0]
    assert cause["source"] == ["/home/me/attention.py:118", "model.py:3"]
    assert (cause["op"], cause["kind"], cause["lemma_missing"]) == ("slice.54", "slice", None)
    assert cause["suggestion"] == "slice [1024:1280] instead of [0:256]"
    assert got["assumptions"][0]["text"] == "replicated over tp"
    assert {"ops", "tuples", "cpu_s", "peak_mb"} <= got["stats"].keys()


def test_sarif_points_at_the_innermost_frame_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("a = 1\nb = 2\nc = 3\n")
    log = json.loads(sarif.render(REPORT, tmp_path))
    assert log["version"] == "2.1.0"
    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert result["message"]["text"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "model.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 3, "startColumn": 1, "endLine": 3, "endColumn": 6}


def test_sarif_of_a_proof_has_no_result() -> None:
    proved = replace(REPORT, verdict=Verdict.PROVED, outputs=REPORT.outputs[1:], frontier=[], unrelated_inputs=[])
    assert json.loads(sarif.render(proved))["runs"][0]["results"] == []


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [v or "" for k, v in attrs if k in ("src", "href")]
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_one_balanced_file_with_every_text_escaped() -> None:
    page = html.render(REPORT)
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.links == []
    assert "&lt;k&gt;" in page
    assert "<k>" not in page


def test_the_worst_output_decides() -> None:
    proved, refuted, unknown = Verdict.PROVED, Verdict.REFUTED, Verdict.UNKNOWN
    assert overall([proved, unknown, refuted]) is refuted
    assert overall([proved, unknown]) is unknown
    assert overall([proved]) is proved
    with pytest.raises(ValueError, match="no output"):
        overall([])
    assert [v.exit_code for v in (proved, refuted, unknown)] == [0, 1, 3]


def test_frames_of_who_captured_a_step_are_not_shown() -> None:
    step = [Frame("train.py", 62, "mlp"), Frame("/usr/lib/python3/x.py", 1, "call"), Frame("train.py", 38, "step")]
    outside = [Frame("scalify_dl/capture/jax/step.py", 79, "capture_step"), Frame("main.py", 5, "main")]
    assert user_frames([*step, *outside]) == (step[0], step[2])
    assert user_frames(outside) == tuple(outside)


def test_places_below_this_folder_are_told_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scalify_dl.prove.verdict import Frame
    from scalify_dl.report.terminal import _here

    monkeypatch.chdir(tmp_path)
    assert _here(Frame(f"{tmp_path}/model.py", 3, "forward")) == "model.py:3"
    assert _here(Frame("/elsewhere/model.py", 3, "forward")) == "/elsewhere/model.py:3"


@pytest.mark.parametrize(
    ("expected", "actual", "shown"),
    [
        (0.41091631279431695, 3.1759654958212353, ("0.410916", "3.17597")),
        (1.00000001, 1.00000002, ("1.00000001", "1.00000002")),
        (1.0, 1.0 + 2**-50, ("1.0", "1.0000000000000009")),
        (3, 4, ("3", "4")),
        ("nan", 2.5, ("nan", "2.5")),
        ([1.0, 2.0], [1.0, 3.0], ("[1.0, 2.0]", "[1.0, 3.0]")),
    ],
)
def test_numbers_have_as_many_digits_as_tell_them_apart(
    expected: object, actual: object, shown: tuple[str, str]
) -> None:
    found = {**REPORT.counterexample, "expected": expected, "actual": actual}  # type: ignore[dict-item]
    _, lines = counterexample_lines(found)
    assert (dict(lines)["expected"], dict(lines)["actual"]) == shown


def test_the_first_op_that_differs_has_the_names_that_people_know() -> None:
    import scalify_dl

    report = scalify_dl.verify(Path(__file__).parents[2] / "facts" / "megatron_mlp_wrong_group")
    assert "first op    all-reduce (all-reduce), where the baseline has dot.1\n" in report.text()
    assert report.to_dict()["counterexample"]["first_op"]["base_op"] == "base/dot.1"


def test_causes_of_which_the_same_is_said_are_told_once() -> None:
    cause = replace(REPORT.frontier[0], source=(Frame("model.py", 7, "split"),))
    frames = [Frame("model.py", n, "split") for n in range(1, 10)]
    several = [replace(cause, op=f"d:{f.line}", name=f"slice.{f.line}", source=(f,)) for f in frames]
    other = replace(cause, source=(Frame("model.py", 7, "joined"),))
    report = replace(REPORT, frontier=[*several, other])
    told = text(report)
    assert "2 root causes at 10 ops; 14 more ops" in told
    assert "likewise    slice.2, slice.3, slice.4, slice.5, slice.6 and 3 more" in told
    assert told.count("source      model.py:") == 2
    assert len(json.loads(json_report.render(report))["frontier"]) == 10
