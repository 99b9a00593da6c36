"""Real programs are well placed by their annotations and relations alone; broken ones are not."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from scalify_dl.ir.graph import Graph, Port
from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.judge import Result, lint_graph, load
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.read import read
from scalify_dl.readers.relations import Relations, load_relations, parse_relations

DATA = Path(__file__).parents[3] / "shared" / "data"
RELATIONS = Path(__file__).parent / "relations"
GRAPHS = {
    "neuronx_tp2_layer1": ("neuronx_llama/tp2_layer1.hlo", "tp=2", "neuronx_tp2_layer1.yaml"),
    "neuronx_tp2_layer2": ("neuronx_llama/tp2_layer2.hlo", "tp=2", "neuronx_tp2_layer2.yaml"),
    "neuronx_tp4_layer1": ("neuronx_llama/tp4_layer1.hlo", "tp=4", "neuronx_tp4_layer1.yaml"),
    "megatron_tp2": ("megatron_gpt/paral2_layer1/*", "tp=2", "megatron_layer1.yaml"),
    "megatron_tp4": ("megatron_gpt/paral4_layer2/*", "tp=4", "megatron_layer2.yaml"),
    "vllm_tp2": ("vllm_qwen2/paral2_layer1/*", "tp=2", "vllm_qwen2.yaml"),
    "joint_tp2": ("torch_joint/llama_hf*w2.fx.txt", "tp=2", "torch_joint.yaml"),
    "joint_tp4": ("torch_joint/llama_hf*w4.fx.txt", "tp=4", "torch_joint.yaml"),
    "keras_forward": ("keras_hub/llama_dp2tp4_fwd.after_spmd.hlo", "batch=2,model=4", None),
    "keras_gradient": ("keras_hub/llama_dp2tp4_grad.after_spmd.hlo", "batch=2,model=4", None),
}
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no dumps of real programs in {DATA}")


@cache
def said(name: str) -> Relations:
    relations = GRAPHS[name][2]
    return load_relations(RELATIONS / relations) if relations else Relations()


def program(name: str) -> tuple[Graph, Mesh]:
    pattern, axes, _ = GRAPHS[name]
    mesh = Mesh.parse(axes)
    return load(sorted(DATA.glob(pattern)), mesh, said(name)), mesh


def judged(name: str, graph: Graph, mesh: Mesh) -> Result:
    return lint_graph(graph, mesh, said(name))


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", GRAPHS)
def test_a_right_program_is_well_placed(name: str) -> None:
    result = judged(name, *program(name))
    assert result.verdict is Verdict.PROVED, result.missing
    assert [f for f in result.findings if f.level == "error"] == []


@needs_data
@pytest.mark.parametrize(
    ("name", "nth"), [("neuronx_tp2_layer1", 0), ("joint_tp2", 1), ("megatron_tp2", 1), ("megatron_tp2", 3)]
)
def test_without_one_of_its_reductions_it_is_not(name: str, nth: int) -> None:
    graph, mesh = program(name)
    op = [o for o in graph.ops if o.kind in ("all-reduce", "reduce-scatter") and "sum" in o.symbols["reducer"]][nth]
    if op.kind == "reduce-scatter":
        op.kind, op.groups, op.symbols = "slice", None, {}
        (x,) = op.operands
        op.numbers = {"start": [0] * len(x.shape), "limit": list(op.result.shape), "stride": [1] * len(x.shape)}
    else:
        op.kind, op.groups, op.symbols = "reshape", None, {}
    result = judged(name, graph, mesh)
    assert result.verdict is Verdict.REFUTED, result.missing
    assert result.findings[0].source


def taken_for_granted(result: Result) -> str:
    """The ranges of ids that a verdict lists as assumed, as lines of a relations file."""
    texts = [(t, re.fullmatch(r"values are at least (\d+) and below (\d+)", text)) for t, text, _ in result.assumptions]
    return "ranges: {" + ", ".join(f"{t}: [{m[1]}, {m[2]}]" for t, m in texts if m) + "}\n"


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("name", "base"),
    [("megatron_tp2", "megatron_gpt/paral1_layer1/*"), ("megatron_tp4", "megatron_gpt/paral1_layer2/*")],
)
def test_a_program_recovered_of_masked_look_ups_is_the_real_one_under_what_it_assumes(name: str, base: str) -> None:
    """One device masks its ids, too; what was recovered does not, and its verdict says for which ids it is."""
    result = judged(name, *program(name))
    recovered = result.baseline
    recovered.outputs = [Port(end.held.base, end.port.path) for end in result.boundaries if end.held is not None]
    (file,) = DATA.glob(base)
    real, ranges = read(file), taken_for_granted(result)
    real.outputs = real.outputs[:1]  # the loss, of which the relations speak
    given = parse_relations(ranges + 'constants: {"_tensor_constant*": 0}\n')
    facts = tables(real, [recovered], Mesh.parse("dp=1"), given)
    assert [row[2] for row in analyse(facts, Options()).rows("output_verdict")] == ["PROVED"]
    for port in (*real.inputs, *recovered.inputs):
        port.range = None
    without = tables(real, [recovered], Mesh.parse("dp=1"), Relations())  # the constants are written by now
    assert [row[2] for row in analyse(without, Options()).rows("output_verdict")] != ["PROVED"]


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("neuronx_tp2_layer1", "neuronx_llama/tp1_layer1.hlo"),
        ("neuronx_tp2_layer2", "neuronx_llama/tp1_layer2.hlo"),
        ("neuronx_tp4_layer1", "neuronx_llama/tp1_layer1.hlo"),
        ("vllm_tp2", "vllm_qwen2/paral1_layer1/*"),
        ("joint_tp2", "torch_joint/llama_none_L2_r0w1.fx.txt"),
        ("joint_tp4", "torch_joint/llama_none_L2_r0w1.fx.txt"),
        ("keras_forward", "keras_hub/llama_single_fwd.before_optimizations.hlo"),
        ("keras_gradient", "keras_hub/llama_single_grad.before_optimizations.hlo"),
    ],
)
def test_the_recovered_program_is_the_one_that_was_distributed(name: str, base: str) -> None:
    """Without a baseline a program was recovered; with the real one at hand, the rules prove them equal."""
    result = judged(name, *program(name))
    recovered = result.baseline
    recovered.outputs = [Port(end.held.base, end.port.path) for end in result.boundaries if end.held is not None]
    (file,) = DATA.glob(base)
    facts = tables(read(file), [recovered], Mesh.parse("dp=1"))
    rows = list(analyse(facts, Options()).rows("output_verdict"))
    assert len(rows) == len(result.boundaries)
    assert {row[2] for row in rows} == {"PROVED"}
