"""The oracle on the graphs of Transformers-NeuronX: pairs agree, bugs are refuted fast and at the right op."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.export import export

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "neuronx_llama"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the NeuronX graphs are not beside this repository")

BUGS: dict[str, tuple[Callable[[str], str], set[str]]] = {
    "key slice": (lambda t: t.replace("[1024:1280]", "[0:256]"), {"slice.54", "concatenate.84"}),
    "max for sum": (
        lambda t: t.replace("to_apply=%all-reduce.146.Reducer.151", "to_apply=%reduce.98.Reducer.103"),
        {"all-reduce.146"},
    ),
    "dropped all-reduce": (lambda t: t.replace("add(%all-reduce.127, %p0.1)", "add(%reshape.126, %p0.1)"), {"add.133"}),
    "epsilon": (
        lambda t: t.replace("%constant.134 = f32[] constant(1e-05)", "%constant.134 = f32[] constant(1e-06)"),
        {"constant.134", "custom-call.136"},
    ),
    "scale": (
        lambda t: t.replace("constant.85 = f16[] constant(8)", "constant.85 = f16[] constant(4)"),
        {"constant.85", "divide.87"},
    ),
}


def relations(tmp_path: Path, layers: int) -> Path:
    """The relations file for a fused qkv weight in every layer."""
    file = tmp_path / "relate.yaml"
    entries = "".join(
        f'  "#{7 + 2 * layers + 7 * i}":\n    dims: {{1: [tp]}}\n    parts: {{dim: 1, sizes: [2048, 512, 512]}}\n'
        for i in range(layers)
    )
    file.write_text("inputs:\n" + entries)
    return file


@pytest.mark.parametrize(("ranks", "layers"), [(2, 1), (4, 1), (2, 2)])
def test_the_shipped_pairs_agree(tmp_path: Path, ranks: int, layers: int) -> None:
    base, dist = (DATA / f"tp{n}_layer{layers}.hlo" for n in (1, ranks))
    facts = export(base, [dist], f"tp={ranks}", relate=relations(tmp_path, layers))
    search = find_counterexample(load_program(facts.tables))
    assert search.status == "agrees", (search.problems, search.best)
    assert len(search.agreed) == 1 + 2 * layers


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_bug_is_refuted_at_its_op(tmp_path: Path, name: str) -> None:
    edit, places = BUGS[name]
    text = (DATA / "tp2_layer1.hlo").read_text()
    broken = tmp_path / "broken.hlo"
    broken.write_text(edit(text))
    assert broken.read_text() != text
    facts = export(DATA / "tp1_layer1.hlo", [broken], "tp=2", relate=relations(tmp_path, 1))
    search = find_counterexample(load_program(facts.tables))
    assert search.status == "refuted"
    assert search.best is not None
    assert search.best.place is not None
    assert search.best.place.op in places
