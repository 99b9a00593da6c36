"""Real graphs of another framework: correct pairs are proved, bugs made in their text are located."""

import random
from pathlib import Path

import pytest

from scalify_dl.facts import TABLES, Facts
from scalify_dl.ir.graph import Tensor
from scalify_dl.pairing.builder import Pair, Program
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report, Verdict
from scalify_dl.report.conclude import conclude

from .neuronx import BUGS, edited, facts, fused, needs_data, text

pytestmark = needs_data


def report(tables: Facts, *, refute: bool = False) -> Report:
    return conclude(analyse(tables, Options(refute=refute)))


@pytest.mark.parametrize(("ranks", "layers"), [(2, 1), (4, 1), (2, 2)])
def test_correct_pairs_are_proved(tmp_path: Path, ranks: int, layers: int) -> None:
    tables = facts(tmp_path, text(f"tp{ranks}_layer{layers}"), f"tp={ranks}", fused(layers), f"tp1_layer{layers}")
    found = report(tables)
    assert found.verdict is Verdict.PROVED
    assert found.frontier == []
    assert len(found.outputs) == 1 + 2 * layers
    assert found.outputs[0].pattern == "(tp a) 1 c -> a 1 c"
    assert {o.pattern for o in found.outputs[1:]} == {"a b (tp c) d -> a b c d"}


def test_without_relations_the_fused_weight_is_not_taken_for_a_shard(tmp_path: Path) -> None:
    found = report(facts(tmp_path, text("tp2_layer1"), "tp=2", None))
    assert found.verdict is not Verdict.PROVED
    words = " ".join(line for cause in found.frontier for line in (*cause.expected, *cause.found, *cause.suggestion))
    assert '"p9.10": {dims: {1: [tp]}, parts: {dim: 1, sizes: [2048, 512, 512]}}' in words
    assert "was placed by its shape, as a block of dim 1" in words


@pytest.mark.parametrize("bug", BUGS)
def test_bugs_are_located(tmp_path: Path, bug: str) -> None:
    edits, places = BUGS[bug]
    found = report(facts(tmp_path, edited("tp2_layer1", edits), "tp=2", fused(1)))
    assert found.verdict is Verdict.UNKNOWN
    assert found.frontier
    assert {cause.name for cause in found.frontier} <= places
    assert all(cause.source for cause in found.frontier)


def test_the_key_slice_bug_is_told_with_its_line_and_its_fix(tmp_path: Path) -> None:
    found = report(facts(tmp_path, edited("tp2_layer1", BUGS["key slice"][0]), "tp=2", fused(1)), refute=True)
    assert found.verdict is Verdict.REFUTED
    assert found.counterexample is not None
    (cause,) = found.frontier
    assert (cause.name, cause.kind, cause.base_name) == ("slice.54", "slice", "slice.54")
    assert "attention.py:126" in " ".join(map(str, cause.source))
    assert all("site-packages" not in frame.file for frame in cause.source)
    assert any("[1024:1280]" in line for line in cause.expected)
    assert any("[1024:1280] instead of [0:256]" in line for line in cause.suggestion)


def test_a_norm_over_a_sharded_dim_is_located() -> None:
    """The NeuronX norm is over dim 0, which every rank has to hold whole."""
    for dim, verdict in ((0, Verdict.UNKNOWN), (1, Verdict.PROVED)):
        pair = Pair("tp=2")
        x, weight = pair.base.input("x", (8, 4)), pair.base.input("weight", (8,))
        pair.base.output(norm(pair.base, x, weight))
        cut = {0: "tp"} if dim == 0 else {}
        pair.dist.output(norm(pair.dist, pair.dist.shard("x", {dim: "tp"}), pair.dist.shard("weight", cut)))
        found = report(pair.facts())
        assert found.verdict is verdict
        assert [cause.kind for cause in found.frontier] == ["custom:AwsNeuronRmsNorm"] * (verdict is Verdict.UNKNOWN)


def norm(program: Program, x: Tensor, weight: Tensor) -> Tensor:
    (result,) = program.custom("AwsNeuronRmsNorm", [x, weight, program.constant(1e-5)], [("f32", x.shape)])
    return result


def renamed(tables: Facts, seed: int) -> Facts:
    """The same facts: every id another, rows in another order, and dead ops on the distributed side."""
    shuffle = random.Random(seed)
    ids = {row[0] for table in ("op", "tensor", "graph") for row in tables[table]}
    fresh = list(range(len(ids)))
    shuffle.shuffle(fresh)
    new = {old: f"n{number}" for old, number in zip(sorted(ids), fresh, strict=True)}
    out = Facts()
    for name in tables:
        refers = [bool(c.refers in ("op", "tensor", "graph")) for c in TABLES[name].columns]
        refers[0] = refers[0] or name in ("op", "tensor", "graph")
        rows = [tuple(new[v] if r else v for v, r in zip(row, refers, strict=True)) for row in tables[name]]
        shuffle.shuffle(rows)
        out.extend(name, (row if name != "tensor_name" else (row[0], f"x{row[0]}") for row in rows))
    dist = next(g for g, role in out["graph"] if role == "dist")
    for tensor, graph, dtype, rank in [row for row in out["tensor"] if row[1] == dist][::7]:
        if dtype.startswith(("f", "bf")):
            out.add("op", f"dead {tensor}", graph, "negate")
            out.add("operand", f"dead {tensor}", 0, tensor)
            out.add("result", f"dead {tensor}", 0, f"dead {tensor}")
            out.add("tensor", f"dead {tensor}", graph, dtype, rank)
            out.extend("dim", [(f"dead {t}", p, n) for t, p, n in out["dim"] if t == tensor])
    return out


@pytest.mark.parametrize("seed", [1, 2])
def test_names_order_and_dead_code_change_no_verdict(tmp_path: Path, seed: int) -> None:
    tables = facts(tmp_path, text("tp2_layer1"), "tp=2", fused(1))
    assert [o.layout for o in sorted_outputs(report(renamed(tables, seed)))] == [
        o.layout for o in sorted_outputs(report(tables))
    ]
    bug = facts(tmp_path, edited("tp2_layer1", BUGS["key slice"][0]), "tp=2", fused(1))
    again = report(renamed(bug, seed))
    assert again.verdict is Verdict.UNKNOWN
    assert [cause.kind for cause in again.frontier] == ["slice"]


def sorted_outputs(found: Report) -> list:
    assert all(o.verdict is Verdict.PROVED for o in found.outputs)
    return sorted(found.outputs, key=lambda o: o.layout)
