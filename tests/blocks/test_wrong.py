"""A wrong block of a large pair: found on a shorter pair, said of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scalify_dl.blocks.whole import ByBlocks
from scalify_dl.facts.model import Facts
from scalify_dl.oracle.program import load_program
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import Analysis, analyse
from scalify_dl.prove.verdict import Report, Verdict
from scalify_dl.report.conclude import conclude

from .layered import layered, trained

LAYERS = 30


@pytest.fixture(autouse=True)
def _many_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of any size are large ones."""
    monkeypatch.setattr("scalify_dl.blocks.whole.MOST_OPS", 0)
    monkeypatch.setattr("scalify_dl.report.conclude.LARGE", 0)
    monkeypatch.setattr("scalify_dl.refute.refute.LARGE", 0)


def short(pair: Pair, options: Options | None = None) -> tuple[Analysis | None, Facts]:
    blocks = ByBlocks(options or Options(), least=0, part=10.0)
    facts = pair.facts(blocks)
    return blocks.conclude(facts) if blocks.told else None, facts


def ordinary(pair: Pair) -> Report:
    return conclude(analyse(pair.facts(), Options(), numbers_first=True))


def said(report: Report) -> list[object]:
    outputs = sorted((o.tensor, o.base_tensor, o.verdict, o.layout) for o in report.outputs)
    causes = [(c.op, c.base_op, c.operands, c.found, c.suggestion, c.tried) for c in report.frontier]
    return [report.verdict, outputs, causes]


CASES: dict[str, Callable[[], Pair]] = {
    "no sum": lambda: layered(LAYERS, odd=LAYERS // 2, dist="no_sum_of_mlp"),
    "other group": lambda: layered(LAYERS, odd=LAYERS // 2, dist="other_group_attention"),
    "epsilon": lambda: layered(LAYERS, odd=LAYERS // 2, dist="epsilon"),
    "gradient": lambda: trained(LAYERS, odd=LAYERS // 2, dist="factor", factor=0.0078125),
    "gradient of what is above": lambda: trained(LAYERS, odd=LAYERS // 2, dist="pending", factor=0.0078125),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_block_is_found_on_fewer_blocks_with_the_cause_and_the_edit_of_an_ordinary_run(case: str) -> None:
    analysis, facts = short(CASES[case]())
    assert analysis is not None
    assert facts.whole is not None
    assert len(facts["op"]) < len(facts.whole.facts()["op"]) / 2
    steps: list[str] = []
    report = conclude(analysis, steps.append)
    assert report.verdict is Verdict.REFUTED
    assert "running the rules on all of both programs" not in steps
    right = ordinary(CASES[case]())
    assert said(report) == said(right)
    assert abs(report.downstream - right.downstream) <= 0.02 * right.downstream


def test_what_differs_is_a_run_of_the_whole() -> None:
    """Where the whole does not differ, though the shorter pair does, the ordinary run says what there is to say."""
    analysis, facts = short(CASES["no sum"]())
    assert analysis is not None
    assert facts.whole is not None
    right = layered(LAYERS).facts()
    right.tables["expect"] = facts.whole.facts()["expect"]
    facts.whole = replace(facts.whole, facts=lambda: right, program=lambda outputs: load_program(right.tables))
    steps: list[str] = []
    assert conclude(analysis, steps.append).verdict is Verdict.PROVED
    assert "running the rules on all of both programs" in steps


def test_edits_that_do_not_prove_the_whole_are_left_to_the_ordinary_run() -> None:
    analysis, facts = short(CASES["no sum"]())
    assert analysis is not None
    assert facts.whole is not None
    facts.whole = replace(facts.whole, proves=lambda edits: 0)
    steps: list[str] = []
    report = conclude(analysis, steps.append)
    assert "running the rules on all of both programs" in steps
    assert said(report) == said(ordinary(CASES["no sum"]()))


def test_an_edit_counts_for_the_block_that_it_is_of_and_not_for_what_blocks_share() -> None:
    _, facts = short(CASES["no sum"]())
    assert facts.whole is not None
    from scalify_dl.mend.draft import Edit

    tables = facts.whole.facts().tables
    kinds = {op: kind for op, _, kind in tables["op"]}
    read = {tensor for _, _, tensor in tables["operand"]}
    made = {op: tensor for op, _, tensor in tables["result"]}
    sums = [op for op, kind in kinds.items() if kind == "all-reduce"]
    shared = [op for op, kind in kinds.items() if kind == "iota" and not op.startswith("base/") and made[op] in read]
    for op in (sums[3], shared[0]):
        assert facts.whole.proves([Edit(op, "scale", made[op], "", 2, 1, "again")]) == 0


def test_without_edits_or_runs_there_is_no_shorter_pair() -> None:
    for options in (Options(refute=False), Options(mend=False)):
        analysis, facts = short(CASES["no sum"](), options)
        assert analysis is None
        assert facts.whole is None


@pytest.mark.parametrize("case", CASES)
def test_what_is_run_of_the_whole_is_what_its_tables_say(case: str) -> None:
    _, facts = short(CASES[case]())
    assert facts.whole is not None
    tables = facts.whole.facts().tables
    said = load_program(tables)
    made = facts.whole.program({dist for dist, _, _ in said.expects})
    for role in ("base", "dist"):
        (ours,), (theirs,) = made.top(role), said.top(role)
        needed = {op.id for op in ours.ops}
        assert ours.ops == [op for op in theirs.ops if op.id in needed]
        assert needed >= {op.id for op in theirs.ops if not {*op.results}.isdisjoint(theirs.outputs)}
        there = {*ours.inputs, *(t for op in ours.ops for t in op.results)}
        assert {t for op in ours.ops for t in op.operands} <= there
    assert made.tensors.items() <= said.tensors.items()
    assert made.names.items() <= said.names.items()
    fields = ("mesh", "coords", "shards", "expects", "ranges", "assumed", "region_graphs", "seen", "limits")
    assert [getattr(made, name) for name in fields] == [getattr(said, name) for name in fields]


def test_of_the_whole_no_more_is_run_than_an_output_is_made_of() -> None:
    _, facts = short(CASES["gradient"]())
    assert facts.whole is not None
    every = [dist for dist, *_ in facts.whole.facts()["expect"]]
    sizes = [len(facts.whole.program({dist}).top("dist")[0].ops) for dist in (every[0], every[-1])]
    assert 0 < min(sizes) < len(facts.whole.program({*every}).top("dist")[0].ops)
