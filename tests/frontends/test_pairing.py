"""Which inputs and outputs stand for which: by what names them for certain, by position, or told loudly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import export, tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.readers.relations import parse_relations
from scalify_dl.report.conclude import conclude

TP2 = Mesh.parse("tp=2")

HLO = """\
HloModule m, entry_computation_layout={{(f32[{n}],f32[4])->f32[4]}}

ENTRY main {{
  p0 = f32[{n}] parameter(0), metadata={{op_name="{first}"}}
  p1 = f32[4] parameter(1), metadata={{op_name="{second}"}}
  s = f32[4] {body}
  ROOT r = (f32[4]) tuple(s)
}}
"""


def dumps(tmp_path: Path, first: str, second: str, *, n: int = 4) -> tuple[Path, Path]:
    """a - b; and the first argument minus the second, under these names."""
    base, dist = tmp_path / "base.hlo", tmp_path / "dist.hlo"
    body = "subtract(p0, p1)" if n == 4 else "slice(p0), slice={[0:4]}"
    base.write_text(HLO.format(n=n, first="a", second="b", body=body))
    text = HLO.format(n=n, first=first, second=second, body=body)
    if n != 4:  # the arguments themselves in another order
        text = text.replace(f"p0 = f32[{n}] parameter(0)", "p0 = f32[4] parameter(0)").replace(
            "p1 = f32[4] parameter(1)", f"p1 = f32[{n}] parameter(1)"
        ).replace("slice(p0)", "slice(p1)").replace(f"(f32[{n}],f32[4])", f"(f32[4],f32[{n}])")  # fmt: skip
    dist.write_text(text)
    return base, dist


def test_names_in_another_order_that_types_do_not_tell_apart_are_bad_input(tmp_path: Path) -> None:
    base, dist = dumps(tmp_path, "b", "a")
    with pytest.raises(InputError) as caught:
        export(base, dist, "tp=2")
    assert "in another order" in caught.value.message
    by_name = 'inputs: {"#0": {base: "#1"}, "#1": {base: "#0"}}'
    assert by_name in (caught.value.expected or "")
    facts = export(base, dist, "tp=2", parse_relations(by_name))
    assert {(row[0], row[2]) for row in facts["shard"]} == {("p0", "base/p1"), ("p1", "base/p0")}


def test_other_names_and_the_same_order_are_no_matter(tmp_path: Path) -> None:
    facts = export(*dumps(tmp_path, "a", "c"), "tp=2")
    assert {(row[0], row[2]) for row in facts["shard"]} == {("p0", "base/p0"), ("p1", "base/p1")}
    assert [row for row in facts["assume"] if row[2] != "spmd"] == []


def test_names_that_types_confirm_pair_and_are_told_first(tmp_path: Path) -> None:
    facts = export(*dumps(tmp_path, "b", "a", n=6), "tp=2")
    assert {(row[0], row[2]) for row in facts["shard"]} == {("p0", "base/p1"), ("p1", "base/p0")}
    found = conclude(analyse(facts, Options()))
    assert found.verdict == "PROVED"
    assert found.scope == ["inputs are paired by name: `b`, `a` stand in another order in the baseline"]


def program(name: str, inputs: list[str], outputs: list[str]) -> Graph:
    """Returns its inputs, negated, under these names."""
    graph = Graph(name)
    for n, (path, out) in enumerate(zip(inputs, outputs, strict=True)):
        x = graph.input(f"x{n}", "f32", (4,), path=path)
        graph.output(graph.emit("negate", [x], name=f"y{n}"), path=out)
    return graph


@pytest.mark.parametrize(
    ("base", "dist", "guessed"),
    [
        (["x", "w"], ["x", "v"], 0),
        (["args[0]", "args[1]"], ["x", "w"], 0),
        (["fc.weight", "fc.bias"], ["up.weight", "fc.bias"], 1),
        (["p['w1']", "p['w2']"], ["p['down']", "p['up']"], 2),
    ],
)
def test_keys_have_no_order(base: list[str], dist: list[str], guessed: int) -> None:
    """What is paired by order though its names differ is an assumption, and nothing is refuted on it."""
    out = ["result[0]", "result[1]"]
    facts = tables(program("base", base, out), [program("dist", dist, out)], TP2)
    assert [row[2] for row in facts["assume"]] == ["position"] * guessed
    facts = tables(program("base", out, base), [program("dist", out, dist)], TP2)
    assert [row[2] for row in facts["assume"]] == ["order"] * guessed


@pytest.mark.parametrize("swapped", [False, True])
def test_names_with_one_module_around_all_of_them_are_the_same(swapped: bool) -> None:
    inner, outer = ["up.weight", "up.bias"], ["net.model.up.bias", "net.model.up.weight"]
    base, dist = (outer, inner) if swapped else (inner, outer)
    made = [[f"written {path}" for path in paths] for paths in (base, dist)]
    facts = tables(program("base", base, made[0]), [program("dist", dist, made[1])], TP2)
    assert not facts["assume"]
    assert conclude(analyse(facts, Options())).verdict == "PROVED"
    pairs = {(row[2], row[0]) for row in facts["expect"]}
    ours = {f"y{n}": path for n, path in enumerate(made[1])}
    theirs = {f"base/y{n}": path for n, path in enumerate(made[0])}
    assert len(pairs) == 2, facts["expect"]
    for one in facts["expect"]:
        names = [ours.get(cell) or theirs.get(cell) for cell in one if cell in ours or cell in theirs]
        assert len({name.removeprefix("written ").removeprefix("net.model.") for name in names}) == 1


def test_other_modules_around_names_are_none_around_all() -> None:
    out = ["result[0]", "result[1]"]
    for base, dist in ((["a.w", "a.b"], ["m.a.w", "n.a.b"]), (["x.w", "x.b"], ["y.w", "y.b"])):
        facts = tables(program("base", base, out), [program("dist", dist, out)], TP2)
        assert [row[2] for row in facts["assume"]] == ["position"] * 2


def test_outputs_of_other_keys_refute_nothing() -> None:
    base, dist = program("base", ["x"], ["result['a']"]), program("dist", ["x"], ["result['b']"])
    dist.outputs[0].tensor = dist.emit("abs", [dist.inputs[0].tensor])
    found = conclude(analyse(tables(base, [dist], TP2), Options()))
    assert found.verdict == "UNKNOWN"
    dist.outputs[0].path = "result['a']"
    assert conclude(analyse(tables(base, [dist], TP2), Options())).verdict == "REFUTED"


def test_an_output_that_reads_another_does_not_rest_on_what_that_is_compared_with() -> None:
    """A weight that is given back under another name is compared by order; what is computed of it is not."""
    base, dist = program("base", ["x"], ["y"]), program("dist", ["x"], ["y"])
    for graph, path in ((base, "fc.weight"), (dist, "up.weight")):
        graph.output(graph.inputs[0].tensor, path=path)
    dist.outputs[0].tensor = dist.emit("abs", [dist.inputs[0].tensor])
    found = conclude(analyse(tables(base, [dist], TP2), Options()))
    assert found.verdict == "REFUTED"
    assert [a.why for a in found.assumptions if "names differ" in a.text] == ["order"]


def test_what_is_left_out_is_said_first() -> None:
    base, dist = program("base", ["x", "w"], ["a", "b"]), program("dist", ["x", "w"], ["a", "b"])
    dist.ignored_outputs = 1
    facts = tables(base, [dist], TP2, parse_relations('outputs: {a: {base: "#0"}}'))
    found = conclude(analyse(facts, Options()))
    assert found.scope == [
        "not checked: 1 output of the distributed program: y1",
        "not checked: 1 output of the baseline: y1",
        "ignored: 1 inputs and outputs that are no tensors",
    ]


EXPORTED = """\
ExportedProgram:
    class GraphModule(torch.nn.Module):
        def forward(self, b_cache: "f32[4]", x: "f32[4]", k: "f32[4]"):
            add: "f32[4]" = torch.ops.aten.add.Tensor(b_cache, x)
            mul: "f32[4]" = torch.ops.aten.mul.Tensor(k, 2)
            return ({returned}, b_cache)

Graph signature:
    # inputs
    b_cache: BUFFER target='cache' persistent=True
    x: USER_INPUT
    k: USER_INPUT

    # outputs
    {outputs}
    b_cache: USER_OUTPUT
"""


def test_what_an_exported_program_writes_is_paired_by_what_it_is_written_to(tmp_path: Path) -> None:
    lines = ["add: BUFFER_MUTATION target='cache'", "mul: USER_INPUT_MUTATION target='k'"]
    base, dist = tmp_path / "base.fx.txt", tmp_path / "dist.fx.txt"
    base.write_text(EXPORTED.format(returned="add, mul", outputs="\n    ".join(lines)))
    dist.write_text(EXPORTED.format(returned="mul, add", outputs="\n    ".join(reversed(lines))))
    facts = export(base, dist, "tp=2")
    assert {row[:2] for row in facts["expect"]} == {(t, f"base/{t}") for t in ("mul", "add", "b_cache")}
    assert {row[0]: row[5] for row in facts["shard"]} == {"b_cache": "name", "x": "shape", "k": "shape"}


def test_a_report_begins_with_what_the_capture_does_not_say(tmp_path: Path) -> None:
    text = """class M(torch.nn.Module):
    def forward(self, x: "f32[4]"):
        neg: "f32[4]" = torch.ops.aten.neg.default(x)
        return (neg,)
"""
    for name in ("base", "r0", "r1"):
        (tmp_path / f"{name}.fx.txt").write_text(text)
        (tmp_path / f"{name}.json").write_text('{"outside": ["the optimiser"]}')
    facts = export(tmp_path / "base.fx.txt", [tmp_path / f"r{n}.fx.txt" for n in (0, 1)], "dp=2")
    found = conclude(analyse(facts, Options()))
    assert found.scope[0] == "outside of the capture: the optimiser"


@pytest.mark.parametrize("named", ["state m of w", "output loss"])
def test_what_one_rank_gives_and_another_does_not_is_said_or_asked_for(tmp_path: Path, named: str) -> None:
    """A rank that has w must give what becomes of w; what belongs to no input is checked where it is given."""
    head = 'class M(torch.nn.Module):\n    def forward(self, w: "f32[4]"):\n'
    line = '        neg: "f32[4]" = torch.ops.aten.neg.default(w)\n'
    line += '        abs_1: "f32[4]" = torch.ops.aten.abs.default(w)\n'
    for name, more in (("base", ", abs_1"), ("r0", ", abs_1"), ("r1", "")):
        outputs = [["neg", "output y"], *([["abs_1", named]] if more else [])]
        (tmp_path / f"{name}.fx.txt").write_text(f"{head}{line}        return (neg{more},)\n")
        (tmp_path / f"{name}.json").write_text(json.dumps({"inputs": [["w", "w"]], "outputs": outputs}))
    dists = [tmp_path / f"r{n}.fx.txt" for n in (0, 1)]
    if named == "output loss":
        found = conclude(analyse(export(tmp_path / "base.fx.txt", dists, "dp=2"), Options()))
        assert found.verdict == "PROVED"
        assert "checked only on the ranks that give them: output loss" in found.scope
    else:
        with pytest.raises(InputError, match="outputs"):
            export(tmp_path / "base.fx.txt", dists, "dp=2")
