"""Real graphs: Llama by Transformers-NeuronX and by Keras-Hub around XLA's SPMD partitioner, and reading time."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.files import load, write
from scalify_dl.facts.model import Facts
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import export
from scalify_dl.pairing.relate import relations_template
from scalify_dl.readers import hlo
from scalify_dl.readers.hlo.module import parse_module
from scalify_dl.readers.relations import Relations, parse_relations

DATA = Path(__file__).parents[3].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the real graphs are not at {DATA}")
NEURONX = DATA / "neuronx_llama"
KERAS = DATA / "keras_hub"
MESH = "batch=2,model=4"


def fused_qkv(layers: int) -> Relations:
    """The columns of every layer's fused weight are `[q | k | v]`."""
    entries = "".join(
        f'  "#{7 + 2 * layers + 7 * n}": {{dims: {{1: [tp]}}, parts: {{dim: 1, sizes: [2048, 512, 512]}}}}\n'
        for n in range(layers)
    )
    return parse_relations("inputs:\n" + entries)


def neuronx(degree: int, layers: int) -> Facts:
    dist = NEURONX / f"tp{degree}_layer{layers}.hlo"
    return export(NEURONX / f"tp1_layer{layers}.hlo", dist, f"tp={degree}", fused_qkv(layers))


@pytest.mark.parametrize(("degree", "layers"), [(2, 1), (4, 1), (2, 2)])
def test_neuronx_pairs_give_valid_facts(degree: int, layers: int, tmp_path: Path) -> None:
    facts = neuronx(degree, layers)
    write(facts, tmp_path / "facts")
    assert load(tmp_path / "facts").tables == facts.tables
    why = Counter(row[5] for row in facts["shard"])
    assert why["given"] == 3 * layers
    assert len(facts["expect"]) == 1 + 2 * layers
    assert {row[2] for row in facts["op"] if ":" in row[2]} == {
        "custom:AwsNeuronTransferWithStaticRing",
        "custom:AwsNeuronRmsNorm",
    }
    assert Counter(kind for _, graph, kind in facts["op"] if graph == "dist")["all-reduce"] == 2 * layers


def test_source_stacks_of_neuronx_are_innermost_first() -> None:
    stack = [row for row in neuronx(2, 1)["source"] if row[0] == "slice.54"]
    assert [row[1] for row in stack] == list(range(len(stack)))
    assert stack[2][2].endswith("layers/attention.py")
    assert stack[-1][2].endswith("test.py")


def test_without_relations_the_fused_weight_is_a_noted_guess() -> None:
    facts = export(NEURONX / "tp1_layer1.hlo", NEURONX / "tp2_layer1.hlo", "tp=2")
    notes = dict(facts["placement_note"])
    assert "if it is a fused weight use `parts:`" in notes["p9.10"]
    assert next(row[5] for row in facts["shard"] if row[0] == "p9.10") == "shape"


def test_swapped_programs_and_wrong_meshes_are_bad_input() -> None:
    base, dist = NEURONX / "tp1_layer1.hlo", NEURONX / "tp2_layer1.hlo"
    for arguments in ((dist, base, "tp=2"), (base, dist, "tp=4"), (base, dist, "tp=1")):
        with pytest.raises(InputError) as caught:
            export(*arguments)
        assert caught.value.hint


def test_the_template_of_a_real_pair_is_a_relations_file() -> None:
    text = relations_template(NEURONX / "tp1_layer1.hlo", NEURONX / "tp4_layer1.hlo", "tp=4")
    assert len(parse_relations(text).inputs) == 17


@pytest.mark.parametrize("what", ["fwd", "grad"])
def test_partitioned_modules_are_placed_by_their_annotations(what: str) -> None:
    facts = export(
        KERAS / f"llama_single_{what}.before_optimizations.hlo", KERAS / f"llama_dp2tp4_{what}.after_spmd.hlo", MESH
    )
    assert {row[5] for row in facts["shard"]} == {"annotation"}
    assert len(facts["shard"]) == 22
    assert not [kind for _, _, kind in facts["op"] if ":" in kind]
    embedding = next(row for row in facts["shard"] if row[2] == "base/tv_0_.1")
    assert embedding[4] == "[0:1x128][1:1x64]|batch=1:64x2|model=0:128x4"


@pytest.mark.parametrize("stage", ["before_spmd", "before_optimizations"])
def test_shardings_before_and_after_the_partitioner_agree(stage: str) -> None:
    mesh = Mesh.parse(MESH)
    whole = hlo.read(KERAS / f"llama_dp2tp4_fwd.{stage}.hlo", mesh)
    part = hlo.read(KERAS / "llama_dp2tp4_fwd.after_spmd.hlo", mesh)
    for a, b in zip(whole.inputs, part.inputs, strict=True):
        assert a.path == b.path
        assert a.placement is not None
        assert b.placement is not None
        shape = a.tensor.shape
        assert str(a.placement.layout(shape, mesh)) == str(b.placement.layout(shape, mesh))
        assert a.placement.layout(shape, mesh).local_shape == b.tensor.shape


def test_groups_of_all_three_spellings_are_axes_of_the_mesh() -> None:
    graph = hlo.read(KERAS / "llama_dp2tp4_grad.after_spmd.hlo", Mesh.parse(MESH))
    batch, model = [[0, 4], [1, 5], [2, 6], [3, 7]], [[0, 1, 2, 3], [4, 5, 6, 7]]
    found = {tuple(map(tuple, op.groups)) for op in graph.ops if op.groups}
    halves = [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert found == {tuple(map(tuple, groups)) for groups in (batch, model, halves)}


def test_tables_of_partition_ids_are_printed() -> None:
    facts = export(KERAS / "llama_single_fwd.before_optimizations.hlo", KERAS / "llama_dp2tp4_fwd.after_spmd.hlo", MESH)
    items: dict[str, list[int]] = {}
    for tensor, _, value in facts["literal_item"]:
        items.setdefault(tensor, []).append(value)
    assert [0, 128, 256, 384, 0, 128, 256, 384] in items.values()


def repeated(text: str, times: int) -> str:
    """A module whose entry body stands `times` times, names apart."""
    at = text.index("\nENTRY") + 1
    header, *rest = text[at:].split("\n")
    body = [line for line in rest if " = " in line]
    inputs = [line for line in body if " parameter(" in line]
    names = {re.findall(r"%([\w.\-]+)", line)[0] for line in inputs}
    lines = [header, *inputs]
    for n in range(times):
        for line in body:
            if " parameter(" in line or ("ROOT" in line and n + 1 < times):
                continue
            operands, separator, attributes = line.partition("), ")

            def rename(match: re.Match[str], n: int = n) -> str:
                return match[0] if match[1] in names else f"%{match[1]}_{n}"

            lines.append(re.sub(r"%([\w.\-]+)", rename, operands) + separator + attributes)
    return text[:at] + "\n".join(lines) + "\n}\n"


@pytest.mark.parametrize(
    ("file", "mesh", "times"),
    [(KERAS / "llama_dp2tp4_grad.after_spmd.hlo", MESH, 35), (NEURONX / "tp2_layer1.hlo", "tp=2", 210)],
    ids=["keras_hub", "neuronx"],
)
def test_26_thousand_instructions_are_read(file: Path, mesh: str, times: int) -> None:
    text = repeated(file.read_text(), times)
    count = sum(len(c.instructions) for c in parse_module(text).computations.values())
    assert count >= 26_000
    graph = hlo.read_text(text, Mesh.parse(mesh))
    assert len(graph.ops) > 20_000
