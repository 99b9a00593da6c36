"""SPMD types that are said, carried through a program: what does not go together, and what does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit.local_types import agrees, joined, mixed, types_that_a_run_allows
from scalify_dl.ir.graph import Tensor
from scalify_dl.lint.judge import lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.lint.typed import check_types
from scalify_dl.prove.verdict import Verdict


@pytest.mark.parametrize("row", sorted(joined()), ids="-".join)
def test_what_goes_together_has_its_type_in_values_and_gradients(row: tuple[str, str, str, str]) -> None:
    word = row[3] if row[3] != "A" else "R"
    assert agrees(*row[:3], word) == ({"PROVED"}, "agrees")


@pytest.mark.parametrize("case", mixed(), ids="-".join)
def test_the_result_of_what_does_not_go_together_has_no_type(case: tuple[str, str, str]) -> None:
    assert types_that_a_run_allows(*case) == []


def kinds(p: Alone) -> list[str]:
    found = check_types(p.graph, p.mesh)
    assert not found.open
    return [f.kind for f in found.findings]


def megatron(p: Alone, *, copied: bool) -> Tensor:
    """An MLP in columns and rows behind a norm weight that is invariant, as all activations between blocks are."""
    x = p.place("x", (8, 16), types={"tp": "I"})
    w = p.place("w", (16,), types={"tp": "I"})
    up, down = p.place("up", (16, 32), {1: "tp"}), p.place("down", (32, 16), {0: "tp"})
    h = p.multiply(x, p.broadcast(w, (8, 16), [1]))
    h = p.convert_type(h, "tp", "I", "R") if copied else h
    y = p.tanh(p.matmul(h, up))
    return p.typed("all_reduce", p.reinterpret(p.matmul(y, down), "tp", "V", "P"), "tp", "P", "I")


def test_the_copy_into_a_parallel_region_is_what_makes_gradients_right() -> None:
    p = Alone("tp=2")
    out = megatron(p, copied=True)
    p.result(p.add(out, p.place("bias", (8, 16), types={"tp": "I"})))
    assert kinds(p) == []
    result = lint_graph(p.graph, p.mesh)
    assert result.verdict is Verdict.PROVED, (result.findings, result.missing)


def test_without_it_the_product_with_columns_is_refuted_though_the_values_are_right() -> None:
    p = Alone("tp=2")
    p.result(megatron(p, copied=False))
    result = lint_graph(p.graph, p.mesh)
    assert result.verdict is Verdict.REFUTED
    (found,) = result.findings
    assert (found.kind, found.name) == ("mixed-types", "dot")
    assert "test_typing.py" in found.source[0]


def test_a_norm_weight_on_rows_of_each_rank_is_not_invariant() -> None:
    """Megatron-LM #7452, #1446: under sequence parallelism its gradient is a part of a sum on every rank."""
    p = Alone("tp=2")
    x, w = p.place("x", (8, 16), {0: "tp"}), p.place("w", (16,), types={"tp": "I"})
    p.result(p.multiply(x, p.broadcast(w, (4, 16), [1])), {0: "tp"})
    assert kinds(p) == ["mixed-types"]
    right = Alone("tp=2")
    x, w = right.place("x", (8, 16), {0: "tp"}), right.place("w", (16,), types={"tp": "I"})
    right.result(right.multiply(x, right.broadcast(right.convert_type(w, "tp", "I", "R"), (4, 16), [1])), {0: "tp"})
    assert kinds(right) == []


def test_types_need_no_meaning_on_one_device() -> None:
    p = Alone("dp=2")
    x, w = p.own("x", (4, 8), {"dp": "V"}), p.own("w", (8, 3), {"dp": "R"})
    loss = p.reduce(p.tanh(p.matmul(x, w)), (0, 1))
    total = p.typed("all_reduce", loss, "dp", "V", "I")
    p.graph.output(total)
    found = check_types(p.graph, p.mesh)
    assert found.findings + found.open == []
    assert found.types[total] == {"dp": "I"}
    assert found.types[loss] == {"dp": "V"}


@pytest.mark.parametrize(
    ("op", "words"),
    [("add", "PR"), ("add", "PV"), ("multiply", "PP"), ("divide", "RP"), ("multiply", "IV"), ("add", "IR"),
     ("maximum", "PR"), ("add", "IP"), ("divide", "PV")],
)  # fmt: skip
def test_operands_that_do_not_go_together_are_told(op: str, words: str) -> None:
    p = Alone("tp=4")
    x, y = (p.own(name, (4, 4), {"tp": word}) for name, word in zip("xy", words, strict=True))
    p.graph.output(getattr(p, op)(x, y))
    assert kinds(p) == ["mixed-types"]


def test_a_non_linear_op_of_parts_is_told_once_and_nothing_behind_it() -> None:
    p = Alone("tp=2")
    x = p.own("x", (4, 4), {"tp": "P"})
    p.graph.output(p.tanh(p.exponential(x)))
    assert [f.name for f in check_types(p.graph, p.mesh).findings] == ["exponential"]


def test_a_share_that_is_added_to_parts_is_no_violation() -> None:
    """b / n on each rank: no type says that it is a part of b, but the values are right."""
    p = Alone("tp=2")
    x, b = p.place("x", (4, 8), pending={"tp": "sum"}), p.place("b", (4, 8), types={"tp": "R"})
    p.result(p.all_reduce(p.add(x, p.divide(b, 2.0)), "tp"))
    assert kinds(p) == ["mixed-types"]
    result = lint_graph(p.graph, p.mesh)
    assert result.verdict is Verdict.UNKNOWN
    assert any("do not go together" in text for text in result.missing)


def test_what_is_said_of_a_value_is_checked() -> None:
    p = Alone("tp=2")
    x = p.own("x", (4, 4), {"tp": "V"})
    y = p.tanh(x)
    p.expect(y, {"tp": "R"})
    p.graph.output(y)
    assert kinds(p) == ["other-type"]
    q = Alone("tp=2")
    z = q.tanh(q.own("x", (4, 4), {"tp": "R"}))
    q.graph.output(q.typed("all_reduce", z, "tp", "P", "R"))
    assert kinds(q) == ["other-type"]


def test_a_slice_by_the_rank_of_an_invariant_value_is_no_invariant() -> None:
    p = Alone("tp=2")
    x = p.own("x", (4, 4), {"tp": "I"})
    p.graph.output(p.shard_of(x, 0, "tp"))
    found = check_types(p.graph, p.mesh)
    assert [f.kind for f in found.findings + found.open] == ["mixed-types"]
    p = Alone("tp=2")
    p.graph.output(p.convert_type(p.own("x", (4, 4), {"tp": "I"}), "tp", "I", "S0"))
    assert kinds(p) == []


def test_integers_that_ranks_have_alike_go_with_all() -> None:
    p = Alone("tp=2")
    table, ids = p.own("table", (8, 4), {"tp": "I"}), p.own("ids", (3,), {"tp": "R"}, dtype="s32")
    y = p.embedding(table, ids)
    p.graph.output(y)
    found = check_types(p.graph, p.mesh)
    assert not found.findings
    assert found.types[y] == {"tp": "I"}


def squared(p: Alone, x: Tensor) -> Tensor:
    return p.multiply(x, x)


def in_integers(p: Alone, x: Tensor) -> Tensor:
    return p.convert(p.convert(x, dtype="s32"), dtype="f32")


def halved(p: Alone, x: Tensor) -> Tensor:
    return p.divide(x, p.full(2, (8,), "s32"))


def added_to_all(p: Alone, x: Tensor) -> Tensor:
    return p.add(p.own("one", (8,), {"tp": "R"}, "s32"), x)


def put_in_zeros(p: Alone, x: Tensor) -> Tensor:
    at = p.constant(0, "s32")
    return p.op("dynamic-update-slice", p.full(0, (16,), "s32"), x, at).results[0]


@pytest.mark.parametrize(
    ("dtype", "made"), [("s32", squared), ("f32", in_integers), ("s32", halved), ("s32", added_to_all),
     ("s32", put_in_zeros)],
)  # fmt: skip
@pytest.mark.parametrize("word", ["P", "R"])
def test_parts_of_integers_are_not_squared_cut_or_added_to_what_is_whole(
    dtype: str, made: Callable[[Alone, Tensor], Tensor], word: str
) -> None:
    p = Alone("tp=2")
    p.result(p.expect(made(p, p.own("x", (8,), {"tp": "P"}, dtype)), {"tp": word}))
    found = check_types(p.graph, p.mesh)
    assert found.findings or found.open
    assert "P" not in {found.types.get(t, {}).get("tp") for t in p.graph.ops[-1].results}


def test_what_is_still_to_be_reduced_by_a_maximum_is_each_rank_s_own() -> None:
    p = Alone("tp=2")
    x = p.place("x", (8,), pending={"tp": "max"})
    p.result(p.expect(p.tanh(x), {"tp": "R"}))
    assert kinds(p) == ["other-type"]


def test_integers_that_are_taken_at_places_of_each_rank_s_own_are_each_rank_s_own() -> None:
    p = Alone("tp=2")
    table, at = p.own("table", (16,), {"tp": "R"}, "s32"), p.own("at", (), {"tp": "V"}, "s32")
    p.result(p.expect(p.op("dynamic-slice", table, at, attributes={"sizes": [4]}).results[0], {"tp": "R"}))
    assert kinds(p) == ["other-type"]
