"""From a program of one device: the distributed one that sends least, proved; none where nothing leads there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.commands import distribute as command
from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.programs import Program
from scalify_dl.lint.judge import lint_graph
from scalify_dl.pairing import layers
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import parse_relations
from scalify_dl.synthesis import Distributed, distribute
from scalify_dl.synthesis.layouts import PARTS, WHOLE, Link, Ways

HEADS = """inputs: {wq: {dims: {1: [tp]}}, wk: {dims: {1: [tp]}}, wv: {dims: {1: [tp]}}, wo: {dims: {0: [tp]}},
  up: {dims: {1: [tp]}}, down: {dims: {0: [tp]}}%s}
"""


def mlp(p: Program) -> None:
    x, up, down = p.input("x", (8, 16)), p.input("up", (16, 64)), p.input("down", (64, 16))
    p.output(p.matmul(p.tanh(p.matmul(x, up)), down))


def block(p: Program) -> None:
    x = p.input("x", (8, 32))
    n = layers.rms_norm(p, x, p.input("g1", (32,)))
    q, k, v = (p.transpose(p.reshape(p.matmul(n, p.input(f"w{c}", (32, 32))), (8, 4, 8)), 1, 0, 2) for c in "qkv")
    a = p.reshape(p.transpose(layers.attention(p, q, k, v, causal=True), 1, 0, 2), (8, 32))
    x = p.add(x, p.matmul(a, p.input("wo", (32, 32))))
    n = layers.rms_norm(p, x, p.input("g2", (32,)))
    p.output(p.add(x, p.matmul(layers.silu(p, p.matmul(n, p.input("up", (32, 64)))), p.input("down", (64, 32)))))


def found(mesh: str, build: Callable[[Program], None], said: str = "", **links: Link) -> Distributed:
    p = Program("base", Mesh.parse(mesh))
    build(p)
    return distribute(p.graph, p.mesh, parse_relations(said), links)


def sent(made: Distributed) -> list[str]:
    return [step.verb for _, step in made.steps if step.verb != "slice"]


def test_columns_then_rows_take_one_reduction() -> None:
    made = found("tp=4", mlp, "inputs: {up: {dims: {1: [tp]}}, down: {dims: {0: [tp]}}}\n")
    assert (made.verdict, sent(made), made.cost) == (Verdict.PROVED, ["all-reduce"], 2 * 3 * 8 * 16)
    assert made.least


def test_a_block_of_a_transformer_is_megatrons() -> None:
    made = found("tp=2", block, HEADS % "")
    assert (made.verdict, sent(made)) == (Verdict.PROVED, ["all-reduce"] * 2)


def test_rows_in_blocks_outside_cost_what_sequence_parallel_does() -> None:
    said = HEADS % ", x: {dims: {0: [tp]}}" + "outputs: {'0': {dims: {0: [tp]}}}\n"
    made = found("tp=2", block, said)
    assert (made.verdict, made.cost) == (Verdict.PROVED, 4 * 8 * 32 * 4 // 2)
    assert (sent(made)[0], sent(made)[-1]) == ("all-gather", "reduce-scatter")


def test_axes_are_used_for_what_lies_along_them() -> None:
    said = "inputs: {x: {dims: {0: [dp]}}, up: {dims: {1: [tp]}}, down: {dims: {0: [tp]}}}\n"
    made = found("dp=2,tp=2", mlp, said + "outputs: {'0': {dims: {0: [dp]}}}\n")
    assert (made.verdict, made.by_axis) == (Verdict.PROVED, {"tp": 2 * 4 * 16 * 4 // 2})


def test_weights_in_blocks_of_rows_are_gathered_or_the_activations_are_moved_whichever_is_less() -> None:
    rows = "inputs: {x: {dims: {0: [dp]}}, up: {dims: {0: [dp]}}, down: {dims: {0: [dp]}}}\n"
    made = found("dp=2", mlp, rows + "outputs: {'0': {dims: {0: [dp]}}}\n")
    gathers = (16 * 64 + 64 * 16) * 4 // 2
    assert made.verdict is Verdict.PROVED
    assert made.cost < gathers


def test_slow_starts_make_few_messages_worth_more_bytes() -> None:
    def twice(p: Program) -> None:
        x, w = p.input("x", (8, 16)), p.input("w", (16, 16))
        p.output(p.add(p.matmul(p.tanh(x), w), p.matmul(x, w)))

    said = "inputs: {x: {dims: {1: [tp]}}, w: {dims: {0: [tp]}}}\n"
    slow = found("tp=2", twice, said, tp=Link(10**9, 1))
    assert (slow.verdict, len(sent(slow))) == (Verdict.PROVED, 1)


def test_what_is_found_is_well_placed() -> None:
    made = found("tp=2", mlp, "inputs: {up: {dims: {1: [tp]}}, down: {dims: {0: [tp]}}}\n")
    for port in made.graph.inputs:
        port.placement = None
    said = parse_relations("inputs: {up: {dims: {1: [tp]}}, down: {dims: {0: [tp]}}, x: {dims: {}}}\n")
    assert lint_graph(made.graph, Mesh.parse("tp=2"), said).verdict is Verdict.PROVED


def test_an_output_may_be_left_in_parts() -> None:
    said = "inputs: {up: {dims: {1: [tp]}}, down: {dims: {0: [tp]}}}\noutputs: {'0': {pending: {tp: sum}}}\n"
    made = found("tp=2", mlp, said)
    assert (made.verdict, made.cost, made.steps) == (Verdict.PROVED, 0, [])


def test_what_cannot_be_parts_of_a_sum_leads_nowhere() -> None:
    def whole(p: Program) -> None:
        p.output(p.tanh(p.input("x", (8, 16))))

    with pytest.raises(InputError, match="leads"):
        found("tp=2", whole, "outputs: {'0': {pending: {tp: sum}}}\n")


def test_ways_between_placements_are_the_cheapest() -> None:
    ways = Ways(Mesh.parse("tp=4"), {})
    ways.know([((8, 16), 4)])
    assert ways.cost((8, 16), 4, (0,), (1,)) == (8 * 16 * 4 // 4 * 3 // 4, 1)  # an all-to-all, no gather
    assert ways.cost((8, 16), 4, (PARTS,), (WHOLE,)) == (2 * 8 * 16 * 4 * 3 // 4, 1)
    assert ways.cost((8, 16), 4, (WHOLE,), (PARTS,))[0] == float("inf")


@pytest.mark.parametrize("said", ["inputs: {nothing: {dims: {0: [tp]}}}\n", "outputs: {'7': {dims: {0: [tp]}}}\n"])
def test_a_name_that_there_is_not_is_bad_input(said: str) -> None:
    with pytest.raises(InputError, match="nothing is called"):
        found("tp=2", mlp, said)


def test_sizes_that_do_not_divide_are_bad_input() -> None:
    with pytest.raises(InputError):
        found("tp=3", mlp, "inputs: {up: {dims: {1: [tp]}}}\n")


def test_the_command_prints_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mlp.hlo").write_text("""HloModule mlp

ENTRY %main (x: f32[8,16], w: f32[16,4]) -> f32[8,4] {
  %x = f32[8,16] parameter(0)
  %w = f32[16,4] parameter(1)
  ROOT %y = f32[8,4] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""")
    (tmp_path / "mlp.yaml").write_text("inputs: {x: {dims: {1: [tp]}}, w: {dims: {0: [tp]}}}\n")
    files = tmp_path / "mlp.hlo", "tp=2", tmp_path / "mlp.yaml"
    assert command.run(*files, links=[], as_json=False) == 0
    text = capsys.readouterr().out
    assert "all-reduce of y over tp: 128 bytes" in text
    assert "assumed" not in text
    assert command.run(*files, links=["tp=10us,25GB/s"], as_json=False) == 0
    assert "20.005 us" in capsys.readouterr().out
    with pytest.raises(InputError, match="no link"):
        command.run(*files, links=["tp=fast"], as_json=False)
