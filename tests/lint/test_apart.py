"""A forward and a backward in two dumps: one program, whose gradients are compared with those that are derived."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.commands import lint as command
from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Port
from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.apart import joined
from scalify_dl.lint.backward import with_backward
from scalify_dl.lint.judge import Result, lint, lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import parse_relations

SAID = "handed: {h1: h, w1: up, w2: down, x1: x}\ngradients: {dx: x, dup: up, ddown: down}\n"


def forward() -> Graph:
    """A Megatron MLP that hands on what it has behind its function."""
    p = Alone("tp=2")
    x, up, down = p.place("x", (8, 16)), p.place("up", (16, 32), {1: "tp"}), p.place("down", (32, 16), {0: "tp"})
    h = p.tanh(p.matmul(x, up))
    p.graph.outputs = [Port(p.all_reduce(p.matmul(h, down), "tp"), "y"), Port(h, "h")]
    return p.graph


def of_mlp(*, reduced: bool = True, factor: float = 1.0) -> Graph:
    """Its backward, of values that it is given."""
    p = Alone("tp=2")
    h, up, x = p.place("h1", (8, 32), {1: "tp"}), p.place("w1", (16, 32), {1: "tp"}), p.place("x1", (8, 16))
    g, down = p.place("g", (8, 16)), p.place("w2", (32, 16), {0: "tp"})
    dh = p.multiply(p.dot(g, down, ([1], [1])), p.add(p.negate(p.multiply(h, h)), 1.0))
    dx = p.dot(dh, up, ([1], [1]))
    ends = {
        "dx": p.all_reduce(dx, "tp") if reduced else dx, "ddown": p.multiply(p.dot(h, g, ([0], [0])), factor),
        "dup": p.dot(x, dh, ([0], [0])),
    }  # fmt: skip
    p.graph.outputs = [Port(value, name) for name, value in ends.items()]
    return p.graph


def judged(fw: Graph, bw: Graph, text: str = SAID) -> Result:
    graph, said = joined(fw, bw, parse_relations(text))
    return with_backward(lint_graph(graph, Mesh.parse("tp=2"), said), graph, said, Options())


def test_right_gradients_are_proved() -> None:
    result = judged(forward(), of_mlp())
    assert result.verdict is Verdict.PROVED, (result.findings, result.missing)
    assert dict.fromkeys(("dx", "dup", "ddown"), Verdict.PROVED) == result.gradients_of


def test_a_gradient_that_is_not_reduced_is_refuted_at_its_line() -> None:
    result = judged(forward(), of_mlp(reduced=False))
    assert result.verdict is Verdict.REFUTED
    assert "test_apart.py" in result.findings[0].source[0]


def test_a_factor_too_many_is_told() -> None:
    result = judged(forward(), of_mlp(factor=2.0))
    (found,) = result.findings
    assert (found.kind, found.name, "2 times" in found.text) == ("other-gradient", "ddown", True)


def test_a_backward_that_is_no_adjoint_of_the_forwards_collective_is_refuted() -> None:
    """What all ranks gather is reduce-scattered backward; a slice takes a part of the gradient for it."""

    def both(right: bool) -> Result:
        p, q = Alone("tp=2"), Alone("tp=2")
        x, w = p.place("x", (8, 16), {0: "tp"}), p.place("w", (16, 32), {1: "tp"})
        rows = p.all_gather(x, "tp", 0)
        p.graph.outputs = [Port(p.sine(p.matmul(rows, w)), "y"), Port(rows, "rows")]
        rows, w = q.place("rows", (8, 16)), q.place("w", (16, 32), {1: "tp"})
        g = q.place("g", (8, 32), {1: "tp"})
        whole = q.dot(q.multiply(g, q.cosine(q.matmul(rows, w))), w, ([1], [1]))
        dx = q.reduce_scatter(whole, "tp", 0) if right else q.shard_of(whole, 0, "tp")
        q.graph.outputs = [Port(dx, "dx")]
        return judged(p.graph, q.graph, "handed: names\ngradients: {dx: x}\n")

    assert both(right=True).verdict is Verdict.PROVED
    assert both(right=False).verdict is Verdict.REFUTED


def test_names_are_shared_where_that_is_said() -> None:
    fw, bw = forward(), of_mlp()
    for port, name in zip(bw.inputs, ("h", "up", "x", "g", "down"), strict=True):
        port.tensor.name, port.path = name, name
    fw.outputs[1].tensor.name = "h"
    said = "gradients: {dx: x, dup: up, ddown: down}\n"
    assert judged(fw, bw, "handed: names\n" + said).verdict is Verdict.PROVED
    with pytest.raises(InputError, match="not said what these inputs of the backward are"):
        judged(forward(), of_mlp(), said)


@pytest.mark.parametrize(
    ("text", "message"),
    [("handed: {h1: v}\n", "`v` names 0 outputs and inputs"), ("handed: {v: h}\n", "no input of the backward"),
     ("handed: {h1: up}\n", "`h1` is f32"), ("handed: yes\n", "a mapping was expected"),
     (SAID + "cotangents: {y: h1}\n", "is said otherwise, too")],
)  # fmt: skip
def test_what_does_not_fit_is_bad_input(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        judged(forward(), of_mlp(), text)


HEAD = """HloModule m, num_partitions=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
"""
FORWARD = """  x = f32[4,8]{1,0} parameter(0)
  w = f32[8,6]{1,0} parameter(1)
  y = f32[4,6]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[4,6]{1,0}, f32[8,6]{1,0}) tuple(y, w)
}
"""
BACKWARD = """  w1 = f32[8,6]{1,0} parameter(0)
  g = f32[4,6]{1,0} parameter(1)
  d = f32[4,8]{1,0} dot(g, w1), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT r = f32[4,8]{1,0} all-reduce(d), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true, to_apply=add
}
"""


def test_two_dumps_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fw, bw, said = tmp_path / "fw.hlo", tmp_path / "bw.hlo", tmp_path / "r.yaml"
    fw.write_text(HEAD + FORWARD)
    said.write_text("inputs: {x: {dims: {}}, w: {dims: {1: [tp]}}, g: {dims: {1: [tp]}}}\nhanded: {w1: w}\n"
                    'gradients: {"0": x}\n')  # fmt: skip

    def status(text: str) -> int:
        bw.write_text(HEAD + text)
        return command.run([fw], "tp=2", said, Options(), show_baseline=False, show_types=False, show_costs=False,
                           backward=[bw])  # fmt: skip

    assert status(BACKWARD) == 0
    assert "proved the derived one" in capsys.readouterr().out
    unreduced = BACKWARD.partition("all-reduce(")[0] + "copy(d)\n}\n"
    assert status(unreduced) == 1
    with pytest.raises(InputError, match="said of no backward"):
        command.run([fw], "tp=2", said, Options(), show_baseline=False, show_types=False, show_costs=False)


AOT = (
    """class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[2, 4]", primals_2: "f32[4, 6]"):
        mm: "f32[2, 6]" = torch.ops.aten.mm.default(primals_1, primals_2)
        silu: "f32[2, 6]" = torch.ops.aten.silu.default(mm)
        sum_1: "f32[]" = torch.ops.aten.sum.default(silu);  silu = None
        t: "f32[4, 2]" = torch.ops.aten.t.default(primals_1);  primals_1 = None
        return (sum_1, mm, primals_2, t)
""",
    """class GraphModule(torch.nn.Module):
    def forward(self, mm: "f32[2, 6]", primals_2: "f32[4, 6]", t: "f32[4, 2]", tangents_1: "f32[]"):
        expand: "f32[2, 6]" = torch.ops.aten.expand.default(tangents_1, [2, 6]);  tangents_1 = None
        silu_backward: "f32[2, 6]" = torch.ops.aten.silu_backward.default(expand, mm);  expand = mm = None
        mm_1: "f32[4, 6]" = torch.ops.aten.mm.default(t, silu_backward);  t = None
        t_1: "f32[6, 4]" = torch.ops.aten.t.default(primals_2);  primals_2 = None
        mm_2: "f32[2, 4]" = torch.ops.aten.mm.default(silu_backward, t_1);  silu_backward = t_1 = None
        return (mm_2, mm_1)
""",
)


def test_the_two_graphs_of_torch_are_one_program(tmp_path: Path) -> None:
    fw, bw, said = tmp_path / "fw.fx.txt", tmp_path / "bw.fx.txt", tmp_path / "r.yaml"
    fw.write_text(AOT[0])
    names = ("primals_1", "primals_2", "tangents_1")
    said.write_text('handed: names\ngradients: {"0": primals_1, "1": primals_2}\n'
                    "inputs: {" + ", ".join(f"{name}: {{dims: {{}}}}" for name in names) + "}\n")  # fmt: skip
    for text, verdict in ((AOT[1], Verdict.PROVED), (AOT[1].replace("silu_backward, t_1)", "expand, t_1)"), None)):
        bw.write_text(text.replace(";  expand = mm = None", ""))
        result = lint([fw], Mesh.parse("tp=2"), said, backward=[bw])
        assert result.verdict is (verdict or Verdict.REFUTED), result.missing
    note, wrong = result.findings
    assert (note.kind, note.level, "`mm`, `primals_2`, `t`" in note.text) == ("handed-on", "note", True)
    assert (wrong.kind, wrong.name) == ("other-gradient", "mm_2")
