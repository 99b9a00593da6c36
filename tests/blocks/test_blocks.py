"""Blocks of large pairs are proved once: the same verdicts, outputs and assumptions as those of an ordinary run."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.blocks.whole import ByBlocks, by_blocks
from scalify_dl.commands.run import conclude_pair
from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.graph import Graph, Op
from scalify_dl.ir.literals import Literal
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import Analysis, analyse
from scalify_dl.prove.verdict import Verdict

from .layered import compiled, layered, scaled, shared, trained

OPTIONS = Options(refute=False)
LAYERS = 20


def in_blocks(pair: Pair) -> Analysis | None:
    """The run by blocks of a pair of any size; None where it is left to an ordinary run."""
    blocks = ByBlocks(OPTIONS, least=0, part=10.0)
    facts = pair.facts(blocks)
    return blocks.conclude(facts) if blocks.told else None


def ordinary(pair: Pair) -> Analysis:
    """The ordinary run by rules alone."""
    return analyse(pair.facts(), Options(), numbers_first=True)


def said(analysis: Analysis) -> dict[str, list[tuple[object, ...]]]:
    """What a report lists."""
    return {name: sorted(analysis.rows(name)) for name in ("output_verdict", "assumption", "inconsistent")}


@pytest.fixture(autouse=True)
def _many_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalify_dl.blocks.whole.MOST_OPS", 0)


@pytest.mark.parametrize("odd", [
    {}, {"base": "epsilon", "dist": "epsilon"}, {"base": "exchanged", "dist": "exchanged"}, {"every": "casts"},
    {"dist": "whole", "layers": 24},
], ids=str)  # fmt: skip
def test_equal_layers_are_proved_once_with_the_same_outputs_and_assumptions(odd: dict[str, object]) -> None:
    def make() -> Pair:
        return layered(**{"layers": LAYERS, **odd})  # type: ignore[arg-type]

    analysis = in_blocks(make())
    assert analysis is not None
    assert "equal blocks of" in analysis.notes[-1]
    assert said(analysis) == said(ordinary(make()))


WRONG = [
    "epsilon", "exchanged", "no_sum_of_mlp", "no_sum_of_attention", "other_group_mlp", "other_group_attention",
    "max_mlp", "before", "swapped", "scale", "mask",
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_one_layer_that_is_otherwise_on_one_side_is_not_proved_by_the_others(wrong: str) -> None:
    assert in_blocks(layered(LAYERS, odd=LAYERS // 2, dist=wrong)) is None


@pytest.mark.parametrize("odd", [0, 1, LAYERS - 1])
def test_nor_is_one_at_an_end(odd: int) -> None:
    assert in_blocks(layered(LAYERS, odd=odd, dist="epsilon")) is None
    assert in_blocks(layered(LAYERS, odd=odd, base="scale")) is None
    assert in_blocks(layered(LAYERS, odd=odd, dist="no_sum_of_mlp")) is None


def test_what_is_found_with_less_known_may_list_more() -> None:
    analysis = in_blocks(layered(24, every="epsilon"))
    assert analysis is not None
    run = ordinary(layered(24, every="epsilon"))
    assert said(analysis)["output_verdict"] == said(run)["output_verdict"]
    assert {*said(run)["assumption"]} <= {*said(analysis)["assumption"]}


def test_a_forward_and_its_backward_are_blocks_together() -> None:
    analysis = in_blocks(trained())
    assert analysis is not None
    assert said(analysis) == said(ordinary(trained()))


@pytest.mark.parametrize("wrong", ["kept", "unsummed", "other_axis", "factor", "pending"])
def test_a_backward_that_is_otherwise_in_one_layer_is_not_proved_by_the_others(wrong: str) -> None:
    assert in_blocks(trained(dist=wrong)) is None


def test_what_a_proof_leans_on_of_what_enters_is_listed_for_inputs() -> None:
    analysis = in_blocks(scaled())
    assert analysis is not None
    assert {why for _, _, why in analysis.rows("assumption")} == {"given", "finite"}
    assert said(analysis) == said(ordinary(scaled()))


def test_a_layer_after_one_that_may_give_infinities_is_not_proved_by_the_others() -> None:
    assert in_blocks(scaled(30, how="tanh")) is not None
    assert in_blocks(scaled(30, how="log")) is None
    assert ordinary(scaled(30, how="log")).outputs_left


def test_what_enters_a_block_may_be_infinite_where_it_leaves_one_so() -> None:
    assert in_blocks(scaled(odd=None, how="tanh")) is not None
    assert in_blocks(scaled(odd=None, how="log")) is None
    assert ordinary(scaled(odd=None, how="log")).outputs_left


def test_what_is_made_of_the_weights_of_one_layer_is_not_made_of_those_of_all_layers_that_read_it() -> None:
    assert in_blocks(shared()) is None
    assert in_blocks(shared(wrong=False)) is not None


def test_inputs_in_parts_constants_that_are_not_printed_and_calls_are_in_blocks() -> None:
    analysis = in_blocks(compiled())
    assert analysis is not None
    assert "equal blocks of" in analysis.notes[-1]
    assert said(analysis) == said(ordinary(compiled()))


@pytest.mark.parametrize("wrong", ["tables", "parts", "unsummed", "call"])
def test_a_layer_that_takes_another_of_these_is_not_proved_by_the_others(wrong: str) -> None:
    assert in_blocks(compiled(dist=wrong)) is None
    assert ordinary(compiled(dist=wrong)).outputs_left


def test_what_all_layers_do_wrong_is_not_proved() -> None:
    assert in_blocks(layered(LAYERS, every="no_sum_of_mlp")) is None


def test_programs_that_draw_are_left_to_an_ordinary_run() -> None:
    assert in_blocks(layered(LAYERS, every="dropout")) is None


def test_small_programs_are_left_to_an_ordinary_run() -> None:
    blocks = ByBlocks(OPTIONS)
    layered(LAYERS).facts(blocks)
    assert not blocks.told


def test_a_proof_by_blocks_derives_of_a_part_of_the_programs_alone() -> None:
    blocks = ByBlocks(OPTIONS, least=0, part=0.05)
    layered(LAYERS).facts(blocks)
    assert not blocks.told


# ---- random edits of one op ----
def _other_operand(op: Op, graph: Graph, rng: random.Random) -> bool:
    before = graph.ops[: graph.ops.index(op)]
    place = rng.randrange(len(op.operands)) if op.operands else None
    if place is None:
        return False
    like = op.operands[place]
    values = [t for o in before for t in o.results if (t.dtype, t.shape) == (like.dtype, like.shape) and t is not like]
    values += [p.tensor for p in graph.inputs if (p.tensor.dtype, p.tensor.shape) == (like.dtype, like.shape)]
    if not values:
        return False
    op.operands[place] = rng.choice(values)
    return True


def _turned_operands(op: Op, graph: Graph, rng: random.Random) -> bool:
    if len(op.operands) < 2 or op.operands[0].shape != op.operands[1].shape or op.operands[0] is op.operands[1]:
        return False
    op.operands[:2] = op.operands[1::-1]
    return True


def _left_out(op: Op, graph: Graph, rng: random.Random) -> bool:
    same = [t for t in op.operands if (t.dtype, t.shape) == (op.results[0].dtype, op.results[0].shape)]
    if not same:
        return False
    for other in graph.ops:
        other.operands = [same[0] if t is op.results[0] else t for t in other.operands]
    return True


def _other_number(op: Op, graph: Graph, rng: random.Random) -> bool:
    if op.kind != "constant" or op.results[0].dtype != "f32":
        return False
    op.results[0].literal = Literal.scalar(rng.choice([0.0, 1.0, 2.0, -1.0, 0.5]), "f32")
    return True


def _other_groups(op: Op, graph: Graph, rng: random.Random) -> bool:
    if op.groups is None:
        return False
    op.groups = rng.choice([[[0, 1, 2, 3]], [[0, 2], [1, 3]], [[0], [1], [2], [3]], [[0, 1], [2, 3]]])
    return True


EDITS: list[Callable[[Op, Graph, random.Random], bool]] = [
    _other_operand, _turned_operands, _left_out, _other_number, _other_groups,
]  # fmt: skip


def edited(seed: int) -> Pair:
    """The layered pair with a random op of a side changed, now and then of both."""
    rng = random.Random(seed)
    pair = layered(LAYERS)
    graphs = [pair.base.graph, pair.dist.graph]
    for graph in rng.choice([graphs[:1], graphs[1:], graphs]):
        while not rng.choice(EDITS)(rng.choice(graph.ops), graph, rng):
            pass
    return pair


@pytest.mark.parametrize("start", [0, 8, 16])
def test_after_random_edits_nothing_is_proved_by_blocks_that_an_ordinary_run_does_not_prove(start: int) -> None:
    for seed in range(start, start + 8):
        try:
            analysis = in_blocks(edited(seed))
        except InputError:
            continue
        if analysis is not None:
            run = ordinary(edited(seed))
            assert not run.outputs_left, seed
            assert said(run)["output_verdict"] == said(analysis)["output_verdict"]
            assert {*said(run)["assumption"]} <= {*said(analysis)["assumption"]}, seed


# ---- the command ----
class _Capture:
    """Programs that no file holds, as the command reads them."""

    def __init__(self, make: Callable[[], Pair]) -> None:
        self.make = make

    def load(self, origins: list[object] | None = None, *, whole: ByBlocks | None = None) -> Facts:
        return self.make().facts(whole)


@pytest.mark.parametrize("dist", ["", "epsilon"])
def test_reports_are_those_of_an_ordinary_run_and_say_how_many_blocks(
    dist: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture: Any = _Capture(lambda: layered(LAYERS, dist=dist))
    plain = conclude_pair(capture, OPTIONS)
    monkeypatch.setattr("scalify_dl.blocks.whole.by_blocks", lambda options, _: ByBlocks(options, least=0, part=10.0))
    report = conclude_pair(capture, OPTIONS)
    assert report.verdict is plain.verdict is (Verdict.UNKNOWN if dist else Verdict.PROVED)
    assert (report.outputs, report.assumptions) == (plain.outputs, plain.assumptions)
    assert report.stats["ops"] == plain.stats["ops"]
    assert any("equal blocks of" in note for note in report.notes) is not bool(dist)


def test_what_sees_every_op_has_an_ordinary_run(tmp_path: Path) -> None:
    assert by_blocks(Options(), 0.0) is not None
    for options in (Options(certificate=tmp_path / "c"), Options(out=tmp_path), Options(rules=(tmp_path / "r.dl",))):
        assert by_blocks(options, 0.0) is None


def test_where_the_run_on_the_whole_proves_less_the_pair_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalify_dl.blocks.whole.by_blocks", lambda options, _: ByBlocks(options, least=0, part=10.0))
    monkeypatch.setattr(ByBlocks, "conclude", lambda self, facts: None)
    capture: Any = _Capture(lambda: layered(LAYERS))
    report = conclude_pair(capture, OPTIONS)
    assert report.verdict is Verdict.PROVED
    assert not report.notes
