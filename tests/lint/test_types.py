"""SPMD types of values and of their gradients, as the readers of a value say."""

from __future__ import annotations

import json

import pytest

from scalify_dl.lint.judge import lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.lint.spmd import type_text
from scalify_dl.lint.text import placements
from scalify_dl.prove.verdict import Verdict

from .test_lint import HLO, command


def texts(p: Alone) -> dict[str, str]:
    """Name → types of inputs, of what collectives make, of outputs."""
    result = lint_graph(p.graph, p.mesh)
    assert result.verdict is Verdict.PROVED, (result.findings, result.missing)
    return {
        t.name: type_text(result.lifted.held[t], result.grid, result.gradients.get(t, {})) for t in result.shown
    }


def test_a_weight_on_rows_of_each_rank_has_parts_of_its_gradient() -> None:
    p = Alone("dp=2")
    x, w = p.place("x", (8, 16), {0: "dp"}), p.place("w", (16, 4))
    p.result(p.matmul(x, w), {0: "dp"})
    assert texts(p)["w"] == "R@dp, gradient P@dp"
    assert texts(p)["x"] == "S(0)@dp, gradient S(0)@dp"


def test_a_bias_behind_the_reduction_has_all_of_its_gradient() -> None:
    p = Alone("tp=2")
    x, w, bias = p.place("x", (8, 16), {1: "tp"}), p.place("w", (16, 4), {0: "tp"}), p.place("bias", (4,))
    y = p.all_reduce(p.matmul(x, w), "tp")
    p.result(p.tanh(p.add(y, p.broadcast(bias, (8, 4), [1]))))
    found = texts(p)
    assert found["bias"] == "I@tp, gradient I@tp"
    assert found["w"] == "S(0)@tp, gradient S(0)@tp"
    assert found["all-reduce"] == "I@tp, gradient I@tp"


def test_a_value_that_columns_of_every_rank_read_has_parts_of_its_gradient_along_that_axis_only() -> None:
    p = Alone("dp=2,tp=2")
    x, up = p.place("x", (8, 16), {0: "dp"}), p.place("up", (16, 32), {1: "tp"})
    down = p.place("down", (32, 16), {0: "tp"})
    p.result(p.all_reduce(p.matmul(p.relu(p.matmul(x, up)), down), "tp"), {0: "dp"})
    found = texts(p)
    assert found["x"] == "S(0)@dp · R@tp, gradient S(0)@dp · P@tp"
    assert found["up"] == "R@dp · S(1)@tp, gradient P@dp · S(1)@tp"


def test_readers_of_both_sorts_are_said() -> None:
    """A table that is read whole on every rank, and once more in front of columns: sums and no sum."""
    p = Alone("tp=2")
    x, w = p.place("x", (8, 16)), p.place("w", (16, 32), {1: "tp"})
    p.result(p.tanh(x))
    p.result(p.matmul(x, w), {1: "tp"})
    assert texts(p)["x"] == "R@tp, gradient (P + R)@tp"


def test_what_is_read_by_no_output_or_is_no_real_number_has_no_gradient() -> None:
    p = Alone("tp=2")
    x, ids, unread = p.place("x", (8, 16)), p.place("ids", (4,), dtype="s32", range=(0, 8)), p.place("unread", (4,))
    p.result(p.embedding(x, ids))
    p.tanh(unread)
    found = texts(p)
    assert (found["ids"], found["unread"], found["x"]) == ("R@tp", "R@tp", "I@tp, gradient I@tp")


@pytest.mark.parametrize(("pending", "text"), [("sum", "P@tp, gradient R@tp"), ("max", "P(max)@tp, gradient V@tp")])
def test_parts_of_a_sum_have_a_whole_gradient(pending: str, text: str) -> None:
    p = Alone("tp=2")
    p.result(p.all_reduce(p.place("x", (8, 4), pending={"tp": pending}), "tp", pending))
    assert texts(p)["x"] == text


def test_json_has_both_types(tmp_path) -> None:  # type: ignore[no-untyped-def]
    said = json.loads(command(tmp_path, HLO, "--json").stdout)
    assert said["spmd"]["x"] == {"value": {"tp": "R"}, "gradient": {"tp": "P"}}
    assert said["spmd"]["down"] == {"value": {"tp": "S(0)"}, "gradient": {"tp": "S(0)"}}
    assert said["spmd"]["r"] == {"value": {"tp": "I"}, "gradient": {"tp": "I"}}


def test_lines_name_every_value_once() -> None:
    p = Alone("tp=2")
    x = p.place("x", (8, 4), {0: "tp"})
    p.result(p.all_gather(x, "tp", 0))
    result = lint_graph(p.graph, p.mesh)
    assert list(placements(result)) == [
        "x          : S(0)@tp, gradient S(0)@tp", "all-gather : I@tp, gradient I@tp"
    ]  # fmt: skip
