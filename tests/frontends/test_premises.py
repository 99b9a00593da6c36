"""What a relations file says twice, or in two ways, is bad input that names both places."""

from __future__ import annotations

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import tables
from scalify_dl.readers.relations import parse_relations


def program(name: str, inputs: dict[str, tuple[str, tuple[int, ...]]]) -> Graph:
    """Returns each of its inputs, negated, and has an unprinted constant."""
    graph = Graph(name)
    for key, (dtype, shape) in inputs.items():
        x = graph.input(key, dtype, shape, path=key)
        graph.output(graph.emit("negate", [x], name=f"out_{key}"), path=f"out_{key}")
    graph.constant(Literal.elided(), "f32", (2,), name="hidden")
    return graph


def facts_of(relations: str) -> Facts:
    f32 = {"a": (8, 4), "b": (8, 4)}
    base = program("base", {**{k: ("f32", s) for k, s in f32.items()}, "ids": ("s32", (4,))})
    dist = program("dist", {**{k: ("f32", s) for k, s in f32.items()}, "ids": ("s32", (4,)), "low": ("f32", (4, 4)),
                            "high": ("f32", (4, 4))})  # fmt: skip
    return tables(base, [dist], Mesh.parse("tp=2"), parse_relations(relations, file="r.yaml"))


OUTPUTS = "outputs: {out_ids: {base: out_ids}}\n"


@pytest.mark.parametrize(
    ("relations", "places"),
    [
        ("concat:\n  b: {dim: 0, of: [low, high]}\ninputs:\n  low: {base: a, dims: {0: [tp]}}\n", (4, 2)),
        ("concat:\n  b: {dim: 0, of: [low, low]}\ninputs: {high: {base: a}}\n", (2, None)),
        ("concat:\n  b: {dim: 0, of: [low, high]}\n  a: {dim: 0, of: [high, low]}\n", (3, 2)),
        ("inputs:\n  a: {dims: {}}\n  'a*': {dims: {}}\nconcat: {b: {dim: 0, of: [low, high]}}\n", (3, 2)),
        ("inputs:\n  '#0': {base: a}\n  a: {base: b}\nconcat: {b: {dim: 0, of: [low, high]}}\n", (3, 2)),
        ("constants:\n  hidden: 1\n  'hid*': 1\n", (3, 2)),
        ("constants:\n  hidden: 1\n  dist: {hidden: 2}\n", (3, 2)),
        ("ranges:\n  ids: [0, 4]\n  '#2': [0, 5]\n", (3, 2)),
        (OUTPUTS.replace("{", "\n  ", 1).replace("}}", "}\n  '#2': {base: ids}"), (3, 2)),
    ],
)  # fmt: skip
def test_what_is_said_twice_names_both_places(relations: str, places: tuple[int, int | None]) -> None:
    more = "" if "concat" in relations else "concat: {b: {dim: 0, of: [low, high]}}\ninputs: {b: {base: b}}\n"
    more += "" if "outputs" in relations else OUTPUTS
    with pytest.raises(InputError) as caught:
        facts_of(relations + more)
    line, other = places
    assert caught.value.line == line, caught.value
    assert (f"line {other}" if other else "the same entry") in caught.value.message
    assert "here and in" in caught.value.message


def test_a_part_of_a_concatenation_may_be_placed() -> None:
    facts = facts_of("concat: {a: {dim: 0, of: [low, high]}}\ninputs: {low: {dims: {}}, a: {base: a}}\n" + OUTPUTS)
    assert {(row[0], row[2], row[3], row[5]) for row in facts["shard"]} >= {
        ("low", "base/a", "0:0:4", "given"),
        ("high", "base/a", "0:4:8", "given"),
    }


def test_a_part_of_a_concatenation_whose_other_dim_is_split_is_a_guess() -> None:
    base = program("base", {"a": ("f32", (8, 4))})
    dist = program("dist", {"low": ("f32", (4, 2)), "high": ("f32", (4, 4))})
    text = "concat: {a: {dim: 0, of: [low, high]}}\noutputs: {out_low: {base: out_a}}"
    facts = tables(base, [dist], Mesh.parse("tp=2"), parse_relations(text))
    assert [row[5] for row in facts["shard"][:2]] == ["shape", "given"]


def test_element_types_of_a_concatenation_must_agree() -> None:
    base, dist = program("base", {"a": ("f32", (8,))}), program("dist", {"low": ("bf16", (4,)), "high": ("f32", (4,))})
    text = "concat: {a: {dim: 0, of: [low, high]}}\noutputs: {out_low: {base: out_a}}"
    with pytest.raises(InputError, match="same element type"):
        tables(base, [dist], Mesh.parse("tp=2"), parse_relations(text))


def test_ranges_of_both_sides_of_a_pair_agree() -> None:
    base, dist = program("base", {"a": ("s32", (8,))}), program("dist", {"x": ("s32", (8,))})
    dist.inputs[0].path = dist.outputs[0].path = base.outputs[0].path = None
    with pytest.raises(InputError, match=r"are one input, bounded here and in line 2"):
        tables(base, [dist], Mesh.parse("tp=2"), parse_relations("ranges:\n  a: [0, 4]\n  x: [0, 5]\n"))
    facts = tables(base, [dist], Mesh.parse("tp=2"), parse_relations("ranges: {x: [0, 5]}"))
    assert facts["range"] == [("base/a", 0, 5, "given"), ("x", 0, 5, "given")]


def test_only_integers_have_ranges() -> None:
    with pytest.raises(InputError, match="an integer input"):
        facts_of("ranges: {a: [0, 4]}\nconcat: {b: {dim: 0, of: [low, high]}}\ninputs: {b: {base: b}}\n" + OUTPUTS)
