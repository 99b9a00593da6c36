"""Stars of a relations file: one line for the inputs of all layers, as people write it and as `relate` drafts it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import tables
from scalify_dl.pairing.relate import template
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.readers.relations import parse_relations
from scalify_dl.report.conclude import conclude

MESH = Mesh.parse("tp=2")
Named = Sequence[tuple[str, tuple[int, ...]]]


def graph(name: str, inputs: Named) -> Graph:
    """Gives its inputs back, negated, each under its name."""
    made = Graph(name)
    for n, (path, shape) in enumerate(inputs):
        x = made.input(f"{name}{n}", "f32", shape, path=path)
        made.inputs[-1].parameter = True
        made.output(made.emit("negate", [x], name=f"{name}_out{n}"), path=f"grad {path}")
    return made


def layers(count: int = 2) -> tuple[Graph, Graph]:
    """Gate and up in one weight, another name for down, and modules of other names around them."""
    base: list[tuple[str, tuple[int, ...]]] = []
    dist: list[tuple[str, tuple[int, ...]]] = []
    for n in range(count):
        base += [(f"layers.{n}.gate", (8, 6)), (f"layers.{n}.up", (8, 6)), (f"layers.{n}.down", (6, 8))]
        dist += [(f"blocks.{n}.w13", (8, 6)), (f"blocks.{n}.w2", (6, 4))]
    return graph("base", base), graph("dist", dist)


def facts_of(pair: tuple[Graph, Graph], relations: str) -> Facts:
    return tables(pair[0], [pair[1]], MESH, parse_relations(relations, file="r.yaml"))


LINES = """\
inputs:
  blocks.*.w13: {of: [layers.*.gate, layers.*.up], dim: 0, dims: {0: [tp]}}
  "blocks.*.w2": {base: layers.*.down, dims: {1: [tp]}}
"""


def test_stars_stand_for_what_those_of_the_key_do() -> None:
    facts = facts_of(layers(3), LINES)
    assert len(facts["expect"]) == 9
    assert not facts["assume"]
    assert conclude(analyse(facts, Options())).verdict == "PROVED"
    held = {(row[0], row[2]) for row in facts["shard"]}
    assert held >= {("dist0#0", "base/base0"), ("dist0#1", "base/base1")}
    assert held >= {("dist4#1", "base/base7"), ("dist5", "base/base8")}


def test_other_layers_are_not_taken_for_their_own() -> None:
    wrong = LINES.replace("layers.*.down", "layers.0.down", 1)
    pair = layers()
    with pytest.raises(InputError):
        facts_of(pair, wrong)


def test_a_name_that_stars_make_and_nobody_has_is_corrected() -> None:
    with pytest.raises(InputError) as caught:
        facts_of(layers(), LINES.replace("layers.*.down", "layers.*.dwn"))
    assert "no baseline input `layers.0.dwn`" in caught.value.message
    assert "did you mean `layers.0.down`?" in (caught.value.hint or "")
    assert caught.value.line == 3


def test_stars_of_what_is_taken_apart_and_of_outputs() -> None:
    whole = [*((f"layers.{n}.qkv", (12, 6)) for n in range(2)), ("norm", (4,))]
    parts = [*((f"blocks.{n}.{name}", (4, 6)) for n in range(2) for name in "qkv"), ("norm", (4,))]
    pair = graph("base", whole), graph("dist", parts)
    given = 'concat: {layers.*.qkv: {dim: 0, of: [blocks.*.q, "blocks.*.k", blocks.*.v]}}\n'
    outputs = 'outputs: {"grad blocks.*.w2": {base: grad layers.*.down, dims: {1: [tp]}}}\n'
    facts = facts_of(layers(), LINES + outputs)
    assert {row[:2] for row in facts["expect"]} == {("dist_out1", "base/base_out2"), ("dist_out3", "base/base_out5")}
    with pytest.raises(InputError, match="outputs cannot be paired"):
        facts_of(pair, given)
    for one in pair:
        del one.outputs[:-1]
    held = [row[:3:2] for row in facts_of(pair, given)["shard"]]
    assert held == [*((f"dist{n}", f"base/base{n // 3}") for n in range(6)), ("dist6", "base/base2")]


def test_drafts_have_stars_where_all_layers_are_alike() -> None:
    text = template(*layers(4), MESH)
    assert "blocks.*.w13: {of: [layers.*.gate, layers.*.up], dim: 0, dims: {0: [tp]}}" in text
    assert "blocks.*.w2: {base: layers.*.down, dims: {1: [tp]}}" in text
    assert "blocks.0" not in text
    with pytest.raises(InputError) as caught:
        facts_of(layers(4), "")
    assert "blocks.*.w13: {of: [layers.*.gate, layers.*.up]" in (caught.value.expected or "")


def test_drafts_have_none_where_a_layer_is_another() -> None:
    base, dist = layers()
    base.inputs[2].path, base.inputs[5].path = "layers.1.down", "layers.0.down"
    dist.inputs[1].path, dist.inputs[3].path = "blocks.9.w2", "blocks.8.w2"
    text = template(base, dist, MESH)
    assert "blocks.9.w2: {base: layers.1.down" in text
    assert "layers.*.down" not in text
    same = graph("base", [("l.0.w", (4,)), ("l.1.w", (4,))]), graph("dist", [("l.0.w", (4,)), ("l.1.w", (2,))])
    assert "l.*.w" not in template(*same, MESH)


def test_drafts_that_have_stars_say_what_lines_without_said() -> None:
    names = [f"l.{n}.w" for n in range(3)]
    pair = graph("base", [(name, (4, 6)) for name in names]), graph("dist", [(name, (2, 6)) for name in names])
    text = template(*pair, MESH)
    assert "l.*.w:  # f32[2,6]" in text
    assert '"grad l.*.w": {base: "grad l.*.w"}' in text
    facts = facts_of(pair, text)
    assert sorted(row[:3:2] for row in facts["shard"]) == [(f"dist{n}", f"base/base{n}") for n in range(3)]
    assert len(facts["expect"]) == 3
