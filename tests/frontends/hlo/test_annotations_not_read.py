"""Annotations that say something else than the shape does: nothing is placed by its shape then, and nothing proved."""

from __future__ import annotations

import pytest

from scalify_dl.facts.model import Facts
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.readers import hlo
from scalify_dl.readers.relations import Relations, load_relations
from scalify_dl.report.conclude import conclude

MESH = Mesh.parse("dp=2,tp=4")


def module(body: str, shape: str, sharding: str = "", header: str = "") -> str:
    return f"HloModule m{header}\nENTRY %main {{\n  %x = f32[{shape}] parameter(0){sharding}\n{body}\n}}\n"


def facts_of(body: str, shape: str, sharding: str, relations: Relations | None = None) -> Facts:
    base = hlo.read_text(module("  ROOT %y = f32[8,16] negate(%x)", "8,16"))
    dist = hlo.read_text(module(body, shape, sharding, ", num_partitions=8"), MESH, file="m.hlo")
    return tables(base, [dist], MESH, relations)


@pytest.mark.parametrize(
    "text",
    [
        "unreduced",  # every rank holds a part of a sum
        "devices=[1,1,8]<=[8] last_tile_dims={unreduced}",
        "devices=[1,1,2,4]<=[8] last_tile_dims={replicated, unreduced}",
        "maximal device=0",  # the others hold nothing
        "mesh['a'=2,'b'=4], [{}, {}], unreduced={'a'}",  # a spelling that is not known
        "replicated, unreduced={'a'}",
        "{devices=[1,1,8]<=[8] last_tile_dim_replicate}, {replicated}",  # of another number of arrays
        "devices=[1,1,8]<=[8] last_tile_dim_replicate half",
    ],
)
def test_an_input_whose_annotation_is_not_read_is_related_to_nothing(text: str) -> None:
    facts = facts_of("  ROOT %y = f32[8,16] negate(%x)", "8,16", f", sharding={{{text}}}")
    assert facts["shard"] == []
    assert text in facts["placement_note"][0][1]
    assert conclude(analyse(facts, Options())).verdict == "UNKNOWN"


@pytest.mark.parametrize(
    "text",
    [
        'replicated metadata={op_name="jit(f)/unreduced"}',
        "devices=[1,1,8]<=[8] last_tile_dim_replicate shard_as 3",
        "devices=[1,1,8]<=[8] last_tile_dims={replicated} metadata={{op_name='a'},{op_name='b'}}",
    ],
)
def test_what_says_nothing_of_the_placement_is_passed_over(text: str) -> None:
    facts = facts_of("  ROOT %y = f32[8,16] negate(%x)", "8,16", f", sharding={{{text}}}")
    assert [row[5] for row in facts["shard"]] == ["annotation"]
    assert conclude(analyse(facts, Options())).verdict == "PROVED"


ROWS = ", sharding={devices=[8,1]<=[8]}"


@pytest.mark.parametrize("text", ["devices=[8,1]7,6,5,4,3,2,1,0", "unreduced", "devices=[8,1]1,0,2,3,4,5,6,7"])
def test_an_output_whose_annotation_no_layout_says_is_not_checked_at_the_default(text: str) -> None:
    """What the ranks hold in the order of the ranks is in another order, or added up, when it is put together so."""
    body = f"  ROOT %y = f32[1,16] negate(%x), sharding={{{text}}}"
    facts = facts_of(body, "1,16", ROWS)
    assert conclude(analyse(facts, Options())).verdict == "UNKNOWN"
    assert any("sharding=" in str(row) for name in facts.tables for row in facts[name])


def test_an_output_that_the_relations_file_places_needs_no_annotation(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("relations") / "r.yaml"
    file.write_text('outputs: {"0": {base: 0, dims: {0: [dp, tp]}}}')
    body = "  ROOT %y = f32[1,16] negate(%x), sharding={unreduced}"
    assert conclude(analyse(facts_of(body, "1,16", ROWS, load_relations(file)), Options())).verdict == "PROVED"
