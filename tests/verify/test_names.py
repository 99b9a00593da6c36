"""Reports speak of parameters, arguments and outputs by the names that people know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import scalify_dl
from scalify_dl.facts.model import Facts
from scalify_dl.prove.view import View
from scalify_dl.report.localisation import named
from scalify_dl.report.place import Places
from tests.cli.test_cli import Run, dlverify

__all__ = ["dlverify"]
ROOT = Path(__file__).parents[2]
LLAMA = ROOT / "examples" / "hf_llama" / "dump"
STEP = ROOT / "examples" / "steps" / "tensor_parallel_mlp"


@pytest.fixture(scope="module")
def proved() -> scalify_dl.Report:
    return scalify_dl.verify(LLAMA / "llama.base.fx.txt", sorted(LLAMA.glob("llama.r*.fx.txt")), mesh="tp=2")


@pytest.fixture(scope="module")
def wrong() -> scalify_dl.Report:
    return scalify_dl.verify(STEP / "base.fx.txt", sorted(STEP.glob("wrong.r*.fx.txt")), mesh="tp=2")


def test_assumptions_name_parameters_and_draw_layouts(proved: scalify_dl.Report) -> None:
    text = proved.text()
    assert "embed_tokens.weight (primals_1): corresponds to the baseline's as (tp a) b -> a b" in text
    found = proved.to_dict()["assumptions"]
    (one,) = (a for a in found if a["tensor"] == "primals_1" and a["why"] == "annotation")
    assert one["text"].startswith("corresponds to base/primals_1 as [0:")  # canonical, for programs
    assert one["label"].endswith("embed_tokens.weight (primals_1)")


def test_a_counterexample_names_the_output(wrong: scalify_dl.Report) -> None:
    assert "output      prediction (view_17)" in wrong.text()


def test_causes_say_what_operands_are_to_people(wrong: scalify_dl.Report) -> None:
    assert any("blocks.0.down.bias (blocks_0_down_bias)" in text for text in wrong.frontier[0].operands)
    assert "test_names" not in wrong.text()


def test_what_repeats_a_parameter_is_called_by_it(wrong: scalify_dl.Report) -> None:
    (said,) = (text for text in wrong.frontier[0].found if text.startswith("every rank adds"))
    assert said.startswith("every rank adds blocks.0.down.bias (addmm_1.broadcast) to its part of a sum")


def test_explain_takes_the_path_of_a_parameter(dlverify: Run, tmp_path: Path) -> None:
    files = sorted(LLAMA.glob("llama.r*.fx.txt"))
    assert dlverify("export", LLAMA / "llama.base.fx.txt", *files, "--mesh", "tp=2", "-o", tmp_path / "f").status == 0
    status, out, _ = dlverify("explain", tmp_path / "f", "model.lm_head.weight", "--depth", "1")
    assert status == 0
    assert out.startswith("model.lm_head.weight (primals_")
    status, _, err = dlverify("explain", tmp_path / "f", "model.lm_head.wieght")
    assert status == 2
    assert "did you mean model.lm_head.weight" in err


def test_what_is_accepted_is_still_told_by_canonical_text(proved: scalify_dl.Report, tmp_path: Path) -> None:
    agreed = tmp_path / "agreed.json"
    agreed.write_text(json.dumps(proved.to_dict()))
    files = sorted(LLAMA.glob("llama.r*.fx.txt"))
    again = scalify_dl.verify(LLAMA / "llama.base.fx.txt", files, mesh="tp=2", strict=True, accept=agreed)
    assert again.verdict == "PROVED"


def test_kinds_and_types_stand_apart(tmp_path: Path) -> None:
    """What an op computes is a text of the rules, with its type behind it."""
    dist = (ROOT / "examples" / "hlo" / "dist.hlo").read_text().replace(" logistic(", " tanh(")
    (tmp_path / "dist.hlo").write_text(dist)
    report = scalify_dl.verify(
        ROOT / "examples" / "hlo" / "base.hlo", tmp_path / "dist.hlo", mesh="tp=2",
        relate=ROOT / "examples" / "hlo" / "relations.yaml",
    )  # fmt: skip
    assert report.to_dict()["frontier"][0]["expected"] == "logistic f32, as the baseline's sigmoid"


def test_a_cause_names_its_module_and_what_it_leads_to(wrong: scalify_dl.Report) -> None:
    assert "module      blocks.0.down" in wrong.text()
    assert "likewise addmm_3" in wrong.text()
    assert [c["module"] for c in wrong.to_dict()["frontier"]] == ["blocks.0.down"]


def places_of(text: str, last: str = "add") -> Places:
    """`x <- a b` makes x of a and b; w is an input, `a.w`; what is written is an output.

    `last` is the kind of the last op.
    """
    facts = Facts()
    facts.add("input", "g", 0, "w")
    facts.add("output_name", "w", "a.w after the step")
    lines = text.splitlines()
    for number, line in enumerate(lines):
        made, _, rest = line.partition(" <- ")
        facts.add("op", f"o{number}", "g", "add" if number < len(lines) - 1 else last)
        facts.add("result", f"o{number}", 0, made)
        for position, tensor in enumerate(rest.split()):
            facts.add("operand", f"o{number}", position, tensor)
    for position, (tensor, name) in enumerate(
        (("new", "a.w after the step"), ("m", "state exp_avg of a.w"), ("loss", "loss"))
    ):
        facts.add("output", "g", position, tensor)
        facts.add("output_name", tensor, name)
    return Places(View(facts.__getitem__, lambda _: ()))


def test_an_op_is_of_the_module_whose_parameters_it_reads() -> None:
    assert places_of("y <- x w").module(("x", "w")) == "a"
    assert places_of("y <- x x").module(("x", "x")) == ""


def test_what_only_moves_elements_is_of_the_module_that_made_them() -> None:
    for kind, module in (("reshape", "a"), ("add", "")):
        assert places_of("y <- x w\nz <- y", kind).module(("y",), ("z",)) == module


def test_a_value_whose_name_says_nothing_is_told_by_what_tells_it() -> None:
    facts = Facts()
    for tensor, op, operand in (("c.1", "o1", "neg"), ("c.2", "o2", "half"), ("%9", "o3", "c.1")):
        facts.add("tensor", tensor, "g", "f32", 0)
        facts.add("tensor_name", tensor, "c.reshape" if tensor != "%9" else "%9")
        facts.add("op", op, "g", "reshape" if tensor != "%9" else "all-reduce")
        facts.add("operand", op, 0, operand)
        facts.add("result", op, 0, tensor)
        facts.add("source", op, 0, "step.py", 19, "f")
    view = View(facts.__getitem__, lambda _: ())
    assert named(["after %9"], view) == ["after %9 (all-reduce, step.py:19)"]
    assert named(["c.1, is not c.2"], view) == ["neg (c.reshape), is not half (c.reshape)"]
    assert view.label("c.1") == "neg (c.reshape)"
    assert named(["the baseline's \N{BROKEN BAR}piece\N{BROKEN BAR}x\N{BROKEN BAR}1:0:64"], view) == [
        "the baseline's x (dim 1 from 0 to 64)"
    ]


def test_an_op_leads_to_outputs_that_are_about_one_parameter() -> None:
    places = places_of("g <- x\nm <- g\nnew <- m w\nloss <- x")
    assert places.feeds(("g",)) == "a.w after the step and 1 more of it"
    assert places.feeds(("x",)) == ""
    assert places.feeds(("unread",)) == ""


def test_tables_for_people_have_names_beside_ids(dlverify: Run, tmp_path: Path) -> None:
    files = sorted(LLAMA.glob("llama.r*.fx.txt"))
    assert dlverify("export", LLAMA / "llama.base.fx.txt", *files, "--mesh", "tp=2", "-o", tmp_path / "f").status == 0
    asked = 'shard(D, _, B, _, _, _), D = "primals_1"'
    assert "primals_1 (model.model.embed_tokens.weight)" in dlverify("query", tmp_path / "f", asked).out
    assert "embed_tokens" not in dlverify("query", tmp_path / "f", asked, "--tsv").out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("multiply div by 2828427/2000000", "multiply div by 1.41421"),
        ("a factor 1/8 enters here", "a factor 1/8 enters here"),
        ("source a/12345/67890", "source a/12345/67890"),
        ("it holds y as [1:8x2,0:2x4][0:1x2,1:1x8]|tp=r2", "it holds y as (a1 a2) (b1 b2) -> (b1 a1) (a2 b2)"),
        ("a [0:1x8]|tp=x and b", "a [0:1x8]|tp=x and b"),
    ],
)
def test_numbers_and_layouts_are_those_that_people_read(text: str, shown: str) -> None:
    assert [t[: len(shown)] for t in named([text], View(lambda _: (), lambda _: ()))] == [shown]


def test_a_cast_says_from_which_type_to_which(tmp_path: Path) -> None:
    base, dist = tmp_path / "base.hlo", tmp_path / "dist.hlo"
    text = "HloModule m\n\nENTRY %e {\n  %x = f32[4,4] parameter(0)\nOPS\n}\n"
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    base.write_text(text.replace("OPS", f"  ROOT %y = f32[4,4] dot(%x, %x), {dims}"))
    cast = f"  %h = bf16[4,4] convert(%x)\n  %d = bf16[4,4] dot(%h, %h), {dims}\n  ROOT %y = f32[4,4] convert(%d)"
    dist.write_text(text.replace("OPS", cast))
    report = scalify_dl.verify(base, dist, mesh="tp=1")
    assert "convert(x) from f32 to bf16" in report.text()
