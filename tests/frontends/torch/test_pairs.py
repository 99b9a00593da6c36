"""Real dumps, end to end: what is correct is proved, what is not is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.facts.files import write
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.export import export
from scalify_dl.pysouffle import Program

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data"
RELATIONS = Path(__file__).parent / "relations"
LLAMA = ROOT / "examples" / "hf_llama"

PAIRS = {
    "megatron_tp2": ("megatron_gpt/paral1_layer1/*", "megatron_gpt/paral2_layer1/*", "tp=2", "megatron_layer1.yaml"),
    "megatron_tp4": ("megatron_gpt/paral1_layer2/*", "megatron_gpt/paral4_layer2/*", "tp=4", "megatron_layer2.yaml"),
    "vllm_tp2": ("vllm_qwen2/paral1_layer1/*", "vllm_qwen2/paral2_layer1/*", "tp=2", "vllm_qwen2.yaml"),
    "llama_tp2": ("torch_joint/llama_none*.txt", "torch_joint/llama_hf*w2.fx.txt", "tp=2", "torch_joint.yaml"),
    "llama_tp4": ("torch_joint/llama_none*.txt", "torch_joint/llama_hf*w4.fx.txt", "tp=4", "torch_joint.yaml"),
}
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no dumps of real programs in {DATA}")


def verdicts(facts_dir: Path) -> set[str]:
    """Verdicts of the rules on every output."""
    program = Program.from_file(ROOT / "datalog" / "verify.dl").load(facts_dir, missing="empty")
    program.run(timeout=120)
    return {row[2] for row in program.relation("output_verdict")}


@needs_data
@pytest.mark.parametrize("name", PAIRS)
def test_correct_pairs_are_proved(name: str, tmp_path: Path) -> None:
    base, dist, mesh, relations = PAIRS[name]
    facts = export(next(DATA.glob(base)), sorted(DATA.glob(dist)), mesh, RELATIONS / relations)
    write(facts, tmp_path / "facts")
    assert verdicts(tmp_path / "facts") == {"PROVED"}


@needs_data
@pytest.mark.parametrize("name", [name for name in PAIRS if name != "vllm_tp2"])  # vLLM's attention is opaque
def test_correct_pairs_agree_in_numbers(name: str) -> None:
    base, dist, mesh, relations = PAIRS[name]
    facts = export(next(DATA.glob(base)), sorted(DATA.glob(dist)), mesh, RELATIONS / relations)
    assert find_counterexample(load_program(facts.tables)).status == "agrees"


@needs_data
def test_accumulated_gradients_need_the_half(tmp_path: Path) -> None:
    base = next(DATA.glob("bugs/grad_accumulation/1step/*"))
    text = next(DATA.glob("bugs/grad_accumulation/2step.bug/*")).read_text()
    halved = text.replace("aten.detach.default(mean)", "aten.div.Tensor(mean, 2)")
    halved = halved.replace("aten.detach.default(mean_1)", "aten.div.Tensor(mean_1, 2)")
    for name, program in (("bug", text), ("right", halved)):
        (tmp_path / f"{name}.fx.txt").write_text(program)
        facts = export(base, tmp_path / f"{name}.fx.txt", "dp=1", RELATIONS / "grad_accumulation.yaml")
        write(facts, tmp_path / name)
    assert verdicts(tmp_path / "right") == {"PROVED"}
    assert "PROVED" not in verdicts(tmp_path / "bug")


@needs_data
def test_without_parts_a_fused_weight_is_not_proved(tmp_path: Path) -> None:
    base, dist, mesh, _ = PAIRS["vllm_tp2"]
    facts = export(next(DATA.glob(base)), sorted(DATA.glob(dist)), mesh)
    write(facts, tmp_path / "facts")
    assert "PROVED" not in {row[2] for row in _checked(tmp_path / "facts") if row[0].startswith("getitem")}


def _checked(facts_dir: Path) -> list[tuple[str, ...]]:
    program = Program.from_file(ROOT / "datalog" / "verify.dl").load(facts_dir, missing="empty")
    program.run(timeout=120)
    return list(program.relation("output_verdict"))


def rows_added(table: str, width: int, reduced: bool) -> str:
    """x · w added to the rows `i` of a table; over ranks with a part of the contraction each, summed at the end."""
    total = "torch.ops._c10d_functional.all_reduce.default(added, 'sum', '0')"
    last = f"out = {total}" if reduced else "out = torch.ops.aten.alias.default(added)"
    return f"""class G(torch.nn.Module):
    def forward(self, x: "f32[8, {width}]", w: "f32[{width}, 4]", i: "i64[8]", t: "f32[5, 4]"):
        zeros: "f32[5, 4]" = torch.ops.aten.new_zeros.default(t, [5, 4])
        y: "f32[8, 4]" = torch.ops.aten.mm.default(x, w)
        added: "f32[5, 4]" = torch.ops.aten.index_put.default({table}, [i], y, True)
        {last}
        return (out,)
"""


@pytest.mark.parametrize(("table", "proved"), [("zeros", True), ("t", False)])
def test_pending_rows_may_be_added_to_zeros_only(table: str, proved: bool, tmp_path: Path) -> None:
    """What else they are added to, every rank would add."""
    (tmp_path / "base.fx.txt").write_text(rows_added(table, 6, False))
    (tmp_path / "dist.fx.txt").write_text(rows_added(table, 3, True))
    facts = export(tmp_path / "base.fx.txt", tmp_path / "dist.fx.txt", "tp=2")
    write(facts, tmp_path / "facts")
    assert (verdicts(tmp_path / "facts") == {"PROVED"}) is proved
    assert (find_counterexample(load_program(facts.tables)).status == "agrees") is proved


def test_shipped_llama_pairs_by_parameter_name() -> None:
    ranks = [LLAMA / "dump" / f"llama.r{rank}.fx.txt" for rank in range(2)]
    facts = export(LLAMA / "dump" / "llama.base.fx.txt", ranks, "tp=2")
    why = {row[5] for row in facts.tables["shard"]}
    assert why == {"annotation", "name"}
    assert len(facts.tables["expect"]) == 17
    assert {row[:1] for row in facts.tables["graph"]} == {("base",), ("dist",)}


def test_annotation_of_another_mesh_is_refused() -> None:
    from scalify_dl.errors import InputError

    with pytest.raises(InputError):
        export(
            LLAMA / "dump" / "llama.base.fx.txt", LLAMA / "dump" / "llama.r0.fx.txt", "tp=4", LLAMA / "relations.yaml"
        )
