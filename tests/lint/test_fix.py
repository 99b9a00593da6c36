"""Edits that mend wrong programs are proved, compute what was meant, and stand in the order of what they move."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.edits import edited
from scalify_dl.lint.fix import Fixed, fix
from scalify_dl.lint.judge import lint, lint_graph, load
from scalify_dl.lint.patch import patch, place
from scalify_dl.lint.program import Alone
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.builder import Pair
from scalify_dl.pairing.export import tables
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations, load_relations

from . import programs_data, programs_joint, programs_tensor
from .test_lint import HLO
from .zoo import WRONG

MADE = programs_data, programs_joint, programs_tensor
MENDED = (
    "gradient_of_a_batch",
    "gradient_reduced_over_two_axes",
    "sharded_update",
    "bias_behind_the_reduction",
    "mlp",
    "row_parallel_of_replicated_input",
    "softmax_over_a_split_dim",
    "accumulated_twice",
    "group_of_no_axis",
    "shared_rotary_key_counted_twice",
    "expert_gradients_undercounted",
    "index_of_the_largest",
)


def said(pair: Pair) -> Relations:
    return Relations(inputs=tuple({r.key: r for r in pair.relations}.values()))


def mended(pair: Pair) -> Fixed:
    return fix(pair.dist.graph, pair.mesh, said(pair))


@pytest.mark.parametrize("name", MENDED)
def test_a_fix_is_proved_and_computes_what_was_meant(name: str) -> None:
    pair = WRONG[name](False)
    found = mended(pair)
    assert found.ways
    meant = []
    for way in found.ways[:2]:
        graph = pair.dist.graph
        for edit in way:
            graph = edited(graph, edit)
        assert lint_graph(graph, pair.mesh, said(pair)).verdict is Verdict.PROVED
        facts = tables(pair.base.graph, [graph], pair.mesh, said(pair))
        meant.append(find_counterexample(load_program(facts.tables), localise=False).status == "agrees")
    assert any(meant)


def test_what_moves_less_comes_first() -> None:
    found = mended(WRONG["sharded_update"](False))
    assert "reduce-scatter" in found.ways[0][0].text
    assert [sum(e.cost for e in way) for way in found.ways] == sorted(sum(e.cost for e in way) for way in found.ways)


def test_the_program_itself_stays_as_it_is() -> None:
    pair = WRONG["gradient_of_a_batch"](False)
    before = [op.kind for op in pair.dist.graph.ops]
    mended(pair)
    assert [op.kind for op in pair.dist.graph.ops] == before


def test_a_right_program_is_left_alone() -> None:
    pair = WRONG["gradient_of_a_batch"](True)
    found = mended(pair)
    assert (found.before.verdict, found.ways, found.tried) == (Verdict.PROVED, [], 0)


def test_the_command_prints_edits_and_the_status_of_the_program_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "dist.hlo"
    file.write_text(HLO.replace("%sum", "%max").replace("add(", "maximum("))
    argv = [sys.executable, "-m", "scalify_dl", "fix", str(file), "--mesh", "tp=2", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout)
    assert said["findings"][0]["kind"] == "reducer"
    assert "take the sum" in said["fixes"][0]["edits"][0]["text"]


def test_a_dump_with_bytes_that_are_no_text_is_mended_too(tmp_path: Path) -> None:
    file = tmp_path / "dist.fx.txt"
    file.write_bytes(
        b'class GraphModule(torch.nn.Module):\n    def forward(self, x: "f32[4, 4]", w: "f32[4, 4]"):\n'
        b'        # \xd2\n        mm: "f32[4, 4]" = torch.ops.aten.mm.default(x, w)\n'
        b'        sum_1: "f32[4, 4]" = torch.ops._c10d_functional.all_reduce.default(mm, "max", "tp")\n'
        b'        wait: "f32[4, 4]" = torch.ops._c10d_functional.wait_tensor.default(sum_1)\n        return (wait,)\n'
    )
    relations = tmp_path / "r.yaml"
    relations.write_text("inputs: {x: {dims: {1: [tp]}}, w: {dims: {0: [tp]}}}\n")
    argv = [sys.executable, "-m", "scalify_dl", "fix", str(file), "--mesh", "tp=2", "--relate", str(relations)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == Verdict.REFUTED.exit_code, done.stderr
    assert "fix 1" in done.stdout


def test_what_is_not_decided_is_told(tmp_path: Path) -> None:
    dump = tmp_path / "open.hlo"
    dump.write_text(
        "HloModule m\n\nENTRY main {\n  x = f32[4,8] parameter(0), sharding={devices=[2,1]<=[2]}\n"
        '  ROOT y = f32[4,8] custom-call(x), custom_call_target="mine"\n}\n'
    )
    argv = [sys.executable, "-m", "scalify_dl", "fix", str(dump), "--mesh", "tp=2"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == Verdict.UNKNOWN.exit_code
    assert "mine" in done.stdout.split("open:")[1]
    assert "next: `dlverify verify BASE DIST… --mesh …`" in done.stdout


def test_what_may_be_amiss_is_shown_where_nothing_is_certain(tmp_path: Path) -> None:
    """A value that all ranks have is reduced again, and what becomes of it is not known."""
    dump = tmp_path / "open.hlo"
    dump.write_text(
        "HloModule m\n\n%max (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
        "  ROOT %m = f32[] maximum(%a, %b)\n}\n\nENTRY main {\n  x = f32[4,8] parameter(0), sharding={replicated}\n"
        "  r = f32[4,8] all-reduce(x), replica_groups={{0,1}}, use_global_device_ids=true,"
        " channel_id=1, to_apply=%max\n"
        '  ROOT y = f32[4,8] custom-call(r), custom_call_target="mine"\n}\n'
    )
    argv = [sys.executable, "-m", "scalify_dl", "fix", str(dump), "--mesh", "tp=2"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == Verdict.UNKNOWN.exit_code, done.stdout
    assert "look at reduces-replicated at r (" in done.stdout


def test_what_was_repeated_is_gathered_and_a_slice_begins_where_a_part_does() -> None:
    p = Alone("tp=2")
    x, w = p.place("x", (8, 4), {0: "tp"}), p.place("w", (4, 8), {1: "tp"})
    p.result(p.tanh(p.matmul(p.concatenate([x, x], 0), w)), {1: "tp"})
    assert "gather what it repeats" in fix(p.graph, p.mesh).ways[0][0].text
    q = Alone("tp=2")
    y = q.concatenate([q.place(n, (4, 8), {1: "tp"}) for n in "abc"], 1)
    q.result(q.tanh(q.slice(y, 1, 3, 7)), {1: "tp"})
    assert [way[0].text for way in fix(q.graph, q.mesh).ways][:1] == ["let `slice` begin at 4"]


def test_a_sum_is_taken_where_the_parts_begin() -> None:
    """Behind a product with a number the sum may be taken as well; both places are tried."""
    p = Alone("tp=2")
    x, w, bias = p.place("x", (8, 4), {1: "tp"}), p.place("w", (4, 8), {0: "tp"}), p.place("bias", (8,))
    y = p.multiply(p.matmul(x, w), 2.0)
    p.result(p.tanh(p.add(y, p.broadcast(bias, (8, 8), [1]))))
    texts = [way[0].text for way in fix(p.graph, p.mesh).ways]
    assert any("`dot`" in text for text in texts), texts


def test_a_gather_that_an_output_lacks_is_put_in() -> None:
    p = Alone("tp=2")
    y = p.matmul(p.place("x", (8, 16)), p.place("w", (16, 12), {1: "tp"}))
    p.result(y, {})
    assert [[edit.text for edit in way] for way in fix(p.graph, p.mesh).ways] == [
        ["gather dim 1 of `dot` in front of the output"]
    ]


def test_a_permutation_that_goes_the_wrong_way_is_turned_round() -> None:
    """Blocks over (b, a) become blocks over (a, b): of eight ranks, all but the first and the last move."""
    p = Alone("a=2,b=4")
    x, w = p.place("x", (8, 16), {1: ["b", "a"]}), p.place("w", (16, 4), {0: ["a", "b"]})
    there = [(p.mesh.coordinates.index((n % 2, n // 2)), n) for n in range(8)]
    p.result(p.all_reduce(p.matmul(p.permute(x, there), w), ["a", "b"]))
    assert lint_graph(p.graph, p.mesh).verdict is Verdict.PROVED
    (op,) = [op for op in p.graph.ops if op.kind == "collective-permute"]
    op.pairs = [(to, rank) for rank, to in there]
    ways = fix(p.graph, p.mesh).ways
    assert [edit.text for edit in ways[0]] == ["turn the pairs of `collective-permute` round"]


FX = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[4, 2]", v: "f32[2, 4]", w: "f32[2, 4]"):
        up: "f32[4, 4]" = torch.ops.aten.mm.default(x, v)
        begun: "f32[4, 4]" = torch.ops._c10d_functional.all_reduce.default(up, 'sum', '0')
        whole: "f32[4, 4]" = torch.ops._c10d_functional.wait_tensor.default(begun)
        other: "f32[4, 4]" = torch.ops.aten.mm.default(x, w)
        relu: "f32[4, 4]" = torch.ops.aten.relu.default(other)
        return (whole, relu)
"""
BIAS = """HloModule mlp, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %main (x: f32[4,2], w: f32[2,4], b: f32[4,4]) -> f32[4,4] {
  %x = f32[4,2] parameter(0), sharding={devices=[1,2]<=[2]}
  %w = f32[2,4] parameter(1), sharding={devices=[2,1]<=[2]}
  %b = f32[4,4] parameter(2), sharding={replicated}
  %y = f32[4,4] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %z = f32[4,4] add(%y, %b)
  ROOT %r = f32[4,4] all-reduce(%z), replica_groups={{0,1}}, use_global_device_ids=true, channel_id=1, to_apply=%sum
}
"""
PLACED = "inputs: {'#0': {dims: {1: [tp]}}, '#1': {dims: {0: [tp]}}, '#2': {dims: {0: [tp]}}}"


@pytest.mark.parametrize(("name", "text", "relate"), [("m.fx.txt", FX, PLACED), ("m.hlo", BIAS, "")])
def test_a_patch_of_the_dump_mends_it(name: str, text: str, relate: str, tmp_path: Path) -> None:
    file, mesh, said = tmp_path / name, Mesh.parse("tp=2"), tmp_path / "relate.yaml"
    file.write_text(text)
    said.write_text(relate)
    (tmp_path / "m.json").write_text('{"groups": {"0": [0, 1]}}')
    graph = load([file], mesh, load_relations(said))
    way = fix(graph, mesh, load_relations(said)).ways[0]
    assert place(graph, way) == "" or name in place(graph, way)
    lines, new, at = dict(enumerate(text.splitlines(), 1)), dict[int, list[str]](), 0
    for line in patch(graph, way):
        at = int(line[3:]) if line[0] == "@" else at
        if line[0] == "-":
            assert lines.pop(at) == line[2:]
        elif line[0] == "+":
            new.setdefault(at, []).append(line[2:])
    file.write_text("\n".join(t for n in range(1, 99) for t in (*new.get(n, ()), *([lines[n]] if n in lines else ()))))
    assert lint([file], mesh, said).verdict is Verdict.PROVED
