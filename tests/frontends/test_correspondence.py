"""Pairs of hand-written programs: pairing, placement, what is bad input and what is left unrelated."""

from __future__ import annotations

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.ir.shapes import check
from scalify_dl.pairing.export import tables
from scalify_dl.pairing.relate import template
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.readers.fx.annotation import DTensorPlacement
from scalify_dl.readers.relations import parse_relations
from scalify_dl.report.conclude import conclude

TP2 = "tp=2"
Shape = tuple[int, ...]


def programs(base: list[Shape], dist: list[Shape], *, dtype: str = "f32", paths: bool = False) -> tuple[Graph, Graph]:
    """Two programs that return their inputs, negated."""
    pair = Graph("base"), Graph("dist")
    for graph, shapes in zip(pair, (base, dist), strict=True):
        for n, shape in enumerate(shapes):
            x = graph.input(f"{graph.name}{n}", dtype, shape, path=f"w{n}" if paths else None)
            graph.output(graph.emit("negate", [x], name=f"out{n}"))
    return pair


def facts_of(pair: tuple[Graph, Graph], mesh: str = TP2, relations: str = "") -> Facts:
    return tables(pair[0], [pair[1]], Mesh.parse(mesh), parse_relations(relations, file="r.yaml"))


def shards(facts: Facts) -> list[tuple[str, str, str, str, str]]:
    return [(row[0], row[1], row[3], row[4], row[5]) for row in facts["shard"]]


def test_equal_shapes_are_replicated_and_smaller_ones_sharded_with_a_note() -> None:
    facts = facts_of(programs([(8,), (8, 16)], [(8,), (8, 8)]))
    assert shards(facts) == [
        ("dist0", "", "", "[0:1x8]|tp=r2", "shape"),
        ("dist1", "", "", "[0:1x8][1:1x8]|tp=1:8x2", "shape"),
    ]
    assert facts["placement_note"] == [
        ("dist1", "inferred as contiguous shard of dim 1 over tp; if it is a fused weight use `parts:`")
    ]


def test_a_placement_that_the_dump_says_is_drafted_and_one_that_contradicts_it_is_listed() -> None:
    base, dist = programs([(8, 16)], [(8, 8)])
    dist.inputs[0].placement = Placement({1: [AxisPart("tp")]})
    drafted = template(base, dist, Mesh.parse(TP2))
    assert "# dims: {1: [tp]}  # from the dump" in drafted
    assert not facts_of((base, dist), relations="inputs: {dist0: {dims: {1: [tp]}}}")["assume"]
    parts = "inputs: {dist0: {dims: {1: [tp]}, parts: {dim: 1, sizes: [8, 8]}}}"
    ((_, text, why),) = facts_of((base, dist), relations=parts)["assume"]
    assert (text.rpartition(", ")[2], why) == ("as [0:1x8][1:1x8]|tp=1:8x2", "given")


def test_paths_pair_inputs_in_any_order() -> None:
    base, dist = programs([(8,), (4,)], [(4,), (8,)])
    for graph, names in ((base, ("a", "b")), (dist, ("b", "a"))):
        for port, name in zip(graph.inputs, names, strict=True):
            port.path = name
    facts = facts_of((base, dist), relations='outputs: {"#0": {base: "#1"}}')
    assert [(row[0], row[2], row[5]) for row in facts["shard"]] == [
        ("dist0", "base/base1", "name"),
        ("dist1", "base/base0", "name"),
    ]


def test_fused_parts_are_pieces() -> None:
    facts = facts_of(
        programs([(4, 24)], [(4, 12)]),
        relations="inputs: {dist0: {dims: {1: [tp]}, parts: {dim: 1, sizes: [16, 4, 4]}}}",
    )
    assert shards(facts) == [
        ("dist0", "1:0:8", "1:0:16", "[0:1x4][1:1x8]|tp=1:8x2", "given"),
        ("dist0", "1:8:10", "1:16:20", "[0:1x4][1:1x2]|tp=1:2x2", "given"),
        ("dist0", "1:10:12", "1:20:24", "[0:1x4][1:1x2]|tp=1:2x2", "given"),
    ]


def test_parts_may_be_placed_each_in_its_own_way() -> None:
    """Two kv heads over four ranks: each is held by two of them."""
    facts = facts_of(
        programs([(4, 16)], [(4, 6)]),
        "tp=4",
        "inputs: {dist0: {dims: [{1: [tp]}, {1: ['tp:2']}], parts: {dim: 1, sizes: [8, 8]}}}",
    )
    assert [row[3] for row in shards(facts)] == ["[0:1x4][1:1x2]|tp=1:2x4", "[0:1x4][1:1x4]|tp=1:4x2,r2"]


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        ("inputs: {dist0: {dims: {0: [tp]}}}", "is [2, 24] on every rank, but the distributed program has f32[4,12]"),
        ("inputs: {dist0: {dims: {1: [pp]}}}", "no mesh axis `pp`"),
        ("inputs: {dist0: {dims: {1: [tp]}, parts: {dim: 1, sizes: [16, 4]}}}", "add up to 20, dim 1 of the baseline"),
        ("inputs: {dist0: {dims: {}, parts: {dim: 1, sizes: [16, 8]}}}", "is [4, 24] on every rank"),
        ("inputs: {dist0: {parts: {dim: 7, sizes: [24]}}}", "no dim 7"),
        ("inputs: {nothing: {dims: {1: [tp]}}}", "no distributed input matches `nothing`"),
        ("inputs: {dist0: {base: other}}", "no baseline input `other`"),
        ("outputs: {other: {}}", "no distributed output `other`"),
        ("outputs: {'#0': {base: other}}", "no value of base with the name `other`"),
        ("outputs: {'#0': {dims: {0: [tp]}}}", "is [2, 24], the distributed output is f32[4,12]"),
        ("constants: {c: 1}", "no unprinted constant matches `c`"),
        ("groups: {g: [0, 1]}", "no process group matches `g`"),
        ("ranges: {x: [0, 4]}", "no input `x`"),
    ],
)
def test_relations_that_do_not_fit_are_bad_input_at_their_place(relations: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        facts_of(programs([(4, 24)], [(4, 12)]), relations=relations)
    assert message in " ".join(caught.value.message.split())
    assert caught.value.file == "r.yaml"
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("base", "dist", "message"),
    [
        ((4, 24), (4, 48), "larger than in the baseline"),
        ((4, 24), (4,), "different numbers of dims"),
        ((4, 24), (4, 3), "more than 2"),
    ],
)
def test_shapes_that_nothing_explains_are_bad_input(base: Shape, dist: Shape, message: str) -> None:
    with pytest.raises(InputError) as caught:
        facts_of(programs([base], [dist]))
    assert message in caught.value.message
    assert "f32[4,24]" in caught.value.message
    assert "swapped" in (caught.value.hint or "")


def test_shapes_that_something_else_may_explain_stay_unrelated_with_a_note() -> None:
    facts = facts_of(programs([(4, 24)], [(4, 14)]), relations="")
    assert facts["shard"] == []
    assert "`parts:` for a fused weight" in facts["placement_note"][0][1]


def test_counts_that_differ_list_both_sides() -> None:
    with pytest.raises(InputError) as caught:
        facts_of(programs([(4,), (4,)], [(4,), (4,), (4,)]))
    assert "2 baseline inputs and 3 distributed inputs" in caught.value.message
    assert "dist2 f32[4]" in caught.value.message
    assert "relate" in (caught.value.hint or "")


def test_concatenated_inputs() -> None:
    pair = programs([(8, 4), (3,)], [(4, 4), (3,), (4, 4)])
    relations = "concat: {base0: {dim: 0, of: [dist0, dist2]}}\noutputs: {'#1': {base: '#1'}}"
    facts = facts_of(pair, relations=relations)
    assert [(row[0], row[2], row[3]) for row in facts["shard"]] == [
        ("dist0", "base/base0", "0:0:4"),
        ("dist2", "base/base0", "0:4:8"),
        ("dist1", "base/base1", ""),
    ]


def test_element_types_must_agree_but_for_integer_widths() -> None:
    base, dist = programs([(4,)], [(4,)], dtype="s64")
    dist.inputs[0].tensor.dtype = dist.outputs[0].tensor.dtype = "s32"
    assert facts_of((base, dist))["assume"] == [
        ("dist0", "holds the same integers as s64 of the baseline and as s32", "element type")
    ]
    base, dist = programs([(4,)], [(4,)])
    dist.inputs[0].tensor.dtype = "bf16"
    with pytest.raises(InputError, match="same element type"):
        facts_of((base, dist))


def test_swapped_programs_are_told() -> None:
    base, dist = programs([(8, 8)], [(8, 16)])
    with pytest.raises(InputError, match="swapped"):
        facts_of((base, dist))
    base, dist = programs([(8, 8)], [(8, 8)])
    base.emit("all-reduce", [base.inputs[0].tensor], reducer="sum", groups=[[0, 1]])
    with pytest.raises(InputError, match="swapped"):
        facts_of((base, dist))


def with_group(name: str) -> tuple[Graph, Graph]:
    base, dist = programs([(8,)], [(8,)])
    for graph in (base, dist):
        op = graph.add("all-reduce", [graph.inputs[0].tensor], symbols={"reducer": ["sum"]}, group_name=name)
        graph.outputs[0].tensor = op.result
    return base, dist


def groups(facts: Facts) -> dict[str, list[list[int]]]:
    found: dict[str, list[list[int]]] = {}
    for op, group, _, rank in facts["group"]:
        lists = found.setdefault(op, [])
        if len(lists) <= group:
            lists.append([])
        lists[group].append(rank)
    return found


def test_named_groups_come_from_the_relations_file() -> None:
    facts = facts_of(with_group("g"), "dp=2,tp=2", "groups: {g: [[0, 1], [2, 3]]}")
    assert groups(facts) == {"base/all-reduce": [[0]], "all-reduce": [[0, 1], [2, 3]]}
    with pytest.raises(InputError, match="do not hold each of the 4 ranks"):
        facts_of(with_group("g"), "dp=2,tp=2", "groups: {g: [0, 1]}")


def test_named_groups_of_a_mesh_with_one_axis_are_assumed_to_be_it() -> None:
    facts = facts_of(with_group("g"), "dp=1,tp=2")
    assert groups(facts)["all-reduce"] == [[0, 1]]
    assert facts["assume"] == [("all-reduce", "process group `g` is all 2 ranks", "group")]


def test_named_groups_of_other_meshes_stay_unknown() -> None:
    facts = facts_of(with_group("g"), "dp=2,tp=2")
    assert "all-reduce" not in groups(facts)
    assert ("all-reduce", "group_name", 0, "g") in facts["attr_symbol"]
    assert ("all-reduce", "dist", "unknown:all-reduce") in facts["op"]


def with_constant(*literals: tuple[str, Literal]) -> tuple[Graph, Graph]:
    base, dist = programs([(8,)], [(8,)])
    for graph in (base, dist):
        for name, literal in literals:
            graph.constant(literal, "f32", (8,), name=name)
    return base, dist


def test_unprinted_constants_are_assumed_equal_in_order() -> None:
    facts = facts_of(with_constant(("c", Literal.elided()), ("d", Literal.elided())))
    assert [(row[0], row[2], row[5]) for row in facts["shard"][1:]] == [
        ("c", "base/c", "elided"),
        ("d", "base/d", "elided"),
    ]
    assert facts["assume"] == []  # the rows above are the assumptions


def test_unprinted_constants_with_a_given_value_or_hash_are_not_assumed_equal() -> None:
    facts = facts_of(
        with_constant(("c0", Literal.elided()), ("h", Literal.elided("ab"))), relations="constants: {'c*': 2}"
    )
    assert len(facts["shard"]) == 1
    assert [row[1:] for row in facts["assume"]] == [("is 2 everywhere: the dump does not print it", "given")] * 2
    assert ("h", "ab") in facts["literal_hash"]


def test_embedding_ids_get_the_range_of_the_table() -> None:
    base, dist = Graph("base"), Graph("dist")
    for graph in (base, dist):
        table, ids = graph.input("table", "f32", (100, 4)), graph.input("ids", "s32", (6,))
        indices = graph.emit("reshape", [ids], shape=(6, 1))
        graph.output(
            graph.emit(
                "gather", [table, indices], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0],
                index_vector_dim=1, slice_sizes=[1, 4],
            )
        )  # fmt: skip
    facts = facts_of((base, dist))
    assert facts["range"] == [("base/ids", 0, 100, "embedding ids"), ("ids", 0, 100, "embedding ids")]
    given = facts_of((base, dist), relations="ranges: {ids: [0, 50]}")
    assert {row[1:] for row in given["range"]} == {(0, 50, "given")}


def test_expected_placements_of_outputs() -> None:
    facts = facts_of(
        programs([(8, 4)], [(8, 2)]),
        "dp=2,tp=2",
        "inputs: {dist0: {dims: {1: [tp]}}}\noutputs: {out0: {dims: {1: [tp]}, pending: {dp: sum}}}",
    )
    assert facts["expect"] == [("out0", "base/out0", "[0:1x8][1:1x2]|dp=sum2|tp=1:2x2")]


def test_templates_are_relations_files() -> None:
    base, dist = programs([(8,), (8, 16), (8, 24), (4,)], [(8,), (8, 8), (8, 14), (4,)])
    text = template(base, dist, Mesh.parse(TP2))
    assert "guessed from the shapes" in text
    assert "no even split" in text
    relations = parse_relations(text)
    assert len(relations.inputs) == len(relations.outputs) == 4
    base.inputs.pop()
    base.outputs.pop()
    text = template(base, dist, Mesh.parse(TP2))
    assert "no partner" in text
    parse_relations(text)


def named(graph: Graph, *paths: str) -> None:
    for port, path in zip(graph.inputs, paths, strict=True):
        port.path = path


def fused() -> tuple[Graph, Graph]:
    """q, k, v in one weight; gate and up in one; a bias that both sides call the same."""
    base, dist = programs([(16, 6), (8, 6), (8, 6), (5,), (12, 6), (12, 6)], [(16, 6), (5,), (12, 6)])
    named(base, "q", "k", "v", "b", "gate", "up")
    named(dist, "qkv", "b", "gate_up")
    return base, dist


def test_templates_keep_what_is_sure_and_suggest_by_sizes_what_is_not() -> None:
    text = template(*fused(), Mesh.parse(TP2))
    assert [relation.key for relation in parse_relations(text).inputs] == ["b"]
    assert "# qkv: {of: [q, k, v], dim: 0, dims: {0: [tp]}}  # f32[16,6]" in text
    assert "# gate_up: {of: [gate, up], dim: 0, dims: {0: [tp]}}" in text
    assert not parse_relations(text).outputs


def test_inputs_that_cannot_be_paired_are_told_with_the_relations_that_their_sizes_suggest() -> None:
    with pytest.raises(InputError) as caught:
        facts_of(fused())
    said = (caught.value.expected or "").split("\n", 1)[1]
    outputs = "\noutputs: {out1: {base: out3}}"
    facts = facts_of(fused(), relations="\n".join(line[4:] for line in said.splitlines()) + outputs)
    assert sorted(row[2] for row in facts["shard"]) == [f"base/base{n}" for n in range(6)]


def test_templates_name_what_values_of_a_run_tell() -> None:
    base, dist = programs([(8,), (8,)], [(8,), (8,)])
    named(base, "a", "b")
    named(dist, "c", "d")
    for port, of in zip(dist.inputs, ("b", "a"), strict=True):
        port.placement = DTensorPlacement("(Replicate(),)", (8,), (8,), ("tp",), of=of)
    relations = parse_relations(template(base, dist, Mesh.parse(TP2)))
    assert [(relation.key, relation.base) for relation in relations.inputs] == [("c", "b"), ("d", "a")]


def test_templates_pair_nothing_of_another_number_of_dims() -> None:
    text = template(*programs([(8,), (8, 4)], [(8, 4), (8,)]), Mesh.parse(TP2))
    assert not parse_relations(text).inputs
    assert '# "#0": {base: …}  # f32[8,4]: fits "#1"' in text


def test_templates_say_of_which_input_a_placement_does_not_fit() -> None:
    base, dist = programs([(8,), (8, 8)], [(8,), (16, 8)])
    assert "# input #1: baseline `base1` f32[8,8]" in template(base, dist, Mesh.parse(TP2))


def test_contradicting_shapes_are_bad_input_with_their_place() -> None:
    graph = Graph("g", file="dump.txt")
    x = graph.input("x", "f32", (8,))
    graph.add("negate", [x], [("f32", (9,))], name="y", at=(7, 3))
    with pytest.raises(InputError, match=r"dump\.txt:7:3: `y` is declared as f32\[9\]"):
        check(graph)


def test_an_input_that_holds_several_of_the_baseline_in_a_row() -> None:
    """One weight for gate and up, as others write what a baseline has by itself; what it is in the end is cut, too."""
    base, dist = programs([(4, 8), (2, 8)], [(3, 8)], paths=True)
    for graph, names in ((base, ("gate", "up")), (dist, ("both",))):
        for port, out, name in zip(graph.inputs, graph.outputs, names, strict=True):
            port.path, out.path = name, f"grad {name}"
    facts = facts_of((base, dist), relations="inputs: {both: {of: [gate, up], dim: 0, dims: {0: [tp]}}}")
    assert [(row[0], row[2], row[4], row[5]) for row in facts["shard"]] == [
        ("dist0#0", "base/base0", "[0:1x2][1:1x8]|tp=0:2x2", "given"),
        ("dist0#1", "base/base1", "[][1:1x8]|tp=0:1x2", "given"),
    ]
    assert conclude(analyse(facts, Options())).verdict == "PROVED"
    for wrong, said in (
        ("dist0: {of: [base0, base1], dim: 0, dims: {1: [tp]}}", "another size"),
        ("dist0: {of: [base0, base1]}", "go together"),
        ("none: {of: [base0, base1], dim: 0}", "no distributed input `none`"),
    ):
        with pytest.raises(InputError, match=said):
            facts_of(programs([(4, 8), (2, 8)], [(3, 8)]), relations=f"inputs: {{{wrong}}}")


def test_outputs_about_inputs_of_another_name_pair_as_these_do() -> None:
    """Names of parameters have no order: they are a guess, or what the relations file says, and outputs follow."""
    base, dist = programs([(4, 8), (4, 8)], [(4, 8), (4, 8)])
    for graph, names in ((base, ("gate", "up")), (dist, ("wu", "wg"))):
        for port, out, name in zip(graph.inputs, graph.outputs, names, strict=True):
            port.path, port.parameter, out.path = name, True, f"written {name}"
    assert {row[2] for row in facts_of((base, dist))["assume"]} == {"position", "order"}
    facts = facts_of((base, dist), relations="inputs: {wu: {base: up, dims: {}}, wg: {base: gate, dims: {}}}")
    assert [row[:2] for row in facts["expect"]] == [("out0", "base/out1"), ("out1", "base/out0")]
    assert not facts["assume"]


def test_parameters_in_another_order_are_one_cause_with_the_pairs_that_prove() -> None:
    pair = Graph("base"), Graph("dist")
    for graph, names in zip(pair, (("['up']", "['gate']"), ("['w1']", "['w3']")), strict=True):
        x, y = (graph.input(f"{graph.name}{n}", "f32", (4,), path=name) for n, name in enumerate(names))
        x, y = (x, y) if graph is pair[0] else (y, x)
        graph.output(graph.emit("multiply", [graph.emit("tanh", [x], name="t"), y], name="z"))
    found = conclude(analyse(facts_of(pair), Options()))
    assert found.verdict == "UNKNOWN"
    (cause,) = found.frontier
    assert """["['w1']": {base: "['gate']"}, "['w3']": {base: "['up']"}]""".strip("[]") in cause.suggestion[0]
    assert cause.tried == ("with this, all outputs are PROVED",)
