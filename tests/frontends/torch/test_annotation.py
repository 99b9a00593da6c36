"""DTensor placements become layouts; descriptors become names that both sides share."""
# ruff: noqa: E501

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Inexpressible
from scalify_dl.oracle.addressing import local_part
from scalify_dl.readers.fx import read
from scalify_dl.readers.fx.annotation import DTensorPlacement, beside, descriptor_path, load_annotations


def placed(
    text: str, shape: tuple[int, ...], local: tuple[int, ...], mesh: str, axes: tuple[str, ...] | None = None
) -> str:
    return str(DTensorPlacement(text, shape, local, axes).layout(shape, Mesh.parse(mesh)))


def test_plain_placements() -> None:
    assert placed("(Shard(dim=0),)", (8, 4), (4, 4), "tp=2") == "[0:1x4][1:1x4]|tp=0:4x2"
    assert placed("(Replicate(),)", (8,), (8,), "tp=2") == "[0:1x8]|tp=r2"
    assert placed("(Partial(sum),)", (8,), (8,), "tp=2") == "[0:1x8]|tp=sum2"
    assert placed("(Replicate(), Shard(dim=1))", (8, 4), (8, 2), "dp=2,tp=2") == "[0:1x8][1:1x2]|dp=r2|tp=1:2x2"
    assert placed("(Shard(dim=0), Shard(dim=0))", (8,), (2,), "dp=2,tp=2") == "[0:1x2]|dp=0:4x2|tp=0:2x2"


def test_strided_shard_leaves_the_major_positions_to_the_next_axis() -> None:
    text = "(_StridedShard(dim=0, sf=4), Shard(dim=0))"
    assert placed(text, (16,), (2,), "fsdp=2,tp=4") == "[0:1x2]|fsdp=0:2x2|tp=0:4x4"


def test_strided_shard_alone_interleaves() -> None:
    assert placed("(_StridedShard(dim=0, sf=2),)", (8,), (4,), "tp=2") == "[0:4x2,0:1x2]|tp=0:2x2"


def test_named_mesh_dims_choose_the_axes() -> None:
    assert placed("(Shard(dim=0),)", (8,), (4,), "dp=2,tp=2", ("tp",)) == "[0:1x4]|dp=r2|tp=0:4x2"


def test_parts_of_an_axis_hold_what_whole_axes_do() -> None:
    """Heads of keys that fewer blocks than ranks share: ranks in a row have one, or they take turns."""
    halves = ("tp=2", "tp=2")
    assert placed("(Shard(dim=0), Replicate())", (8,), (4,), "tp=4", halves) == "[0:1x4]|tp=0:4x2,r2"
    assert placed("(Replicate(), Shard(dim=0))", (8,), (4,), "tp=4", halves) == "[0:1x4]|tp=r2,0:4x2"
    for names in (("tp=2",), ("tp=2", "tp=3"), ("tp=2", "dp=2"), ("tp=2", "tp=2x"), ("tp", "tp")):
        with pytest.raises(InputError):
            placed(f"({'Shard(dim=0), Replicate()'[: 13 if len(names) == 1 else None]})", (8,), (4,), "tp=4", names)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
def test_strided_shards_hold_what_dtensor_cuts(sf: int, ways: int, rest: int) -> None:
    """`_StridedShard(dim, sf)`: of each of sf chunks, the part of this coordinate."""
    size = sf * ways * rest
    layout = DTensorPlacement(f"(_StridedShard(dim=0, sf={sf}),)", (size,), (sf * rest,)).layout(
        (size,), Mesh((("tp", ways),))
    )
    base = np.arange(size)
    for coordinate in range(ways):
        expected = base.reshape(sf, ways, rest)[:, coordinate].reshape(-1)
        np.testing.assert_array_equal(local_part(base, layout, {"tp": coordinate}), expected)


@pytest.mark.parametrize(
    ("text", "shape", "local", "mesh", "message"),
    [
        ("(Shard(dim=0),)", (8,), (2,), "tp=2", "local shape"),
        ("(Shard(dim=3),)", (8,), (4,), "tp=2", "shards dim 3"),
        ("(Shard(dim=0), Replicate())", (8,), (4,), "tp=2", "2 placements"),
        ("(Sharded(0),)", (8,), (4,), "tp=2", "not understood"),
    ],
)
def test_contradictions_are_refused(
    text: str, shape: tuple[int, ...], local: tuple[int, ...], mesh: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        placed(text, shape, local, mesh)


def test_uneven_shards_are_no_layout() -> None:
    with pytest.raises(Inexpressible):
        placed("(Shard(dim=0),)", (7,), (4,), "tp=2")


def test_descriptors() -> None:
    local = "SubclassGetAttrAOT{0}(base={1}, attr='_local_tensor')"
    param = "ParamAOTInput(target='fc.weight')"
    assert descriptor_path(param) == descriptor_path(local.format("Input", param)) == "fc.weight"
    grad = f"GradAOTOutput(grad_of={param})"
    assert descriptor_path(local.format("Output", grad)) == "grad fc.weight"
    assert descriptor_path("TangentAOTInput(output=PlainAOTOutput(idx=0))") == "tangent output 0"
    assert descriptor_path(local.format("Input", param).replace("_local_tensor", "device_mesh")) is None
    assert descriptor_path("None") is None
    assert descriptor_path("Other(1)") == "Other(1)"


TEXT = """class G(torch.nn.Module):
    def forward(self, p: "f32[4, 6]", mesh, x: "f32[2, 6]"):
        t: "f32[6, 4]" = torch.ops.aten.t.default(p)
        y: "f32[2, 4]" = torch.ops.aten.mm.default(x, t)
        return (y, p, mesh)
"""
PARAM = "ParamAOTInput(target='wrapped.fc.weight')"


def write(folder: Path, **annotation: object) -> Path:
    dump = folder / "g.fx.txt"
    dump.write_text(TEXT)
    assert beside(dump) == folder / "g.json"
    beside(dump).write_text(json.dumps(annotation))
    return dump


def test_annotation_beside_a_dump(tmp_path: Path) -> None:
    dump = write(
        tmp_path,
        inputs=[["p", PARAM], ["mesh", "None"], ["x", "PlainAOTInput(idx=0)"]],
        outputs=[["y", "PlainAOTOutput(idx=0)"], ["p", f"GradAOTOutput(grad_of={PARAM})"], ["mesh", "None"]],
        placements={"fc.weight": ["(Shard(dim=0),)", [8, 6], [4, 6], ["tp"]], "fc.bias": ["local", [8]]},
        groups={"0": [0, 1]},
    )
    graph = read(dump, Mesh.parse("tp=2"))
    assert [port.path for port in graph.inputs] == ["wrapped.fc.weight", "input 0"]
    assert [port.path for port in graph.outputs] == ["output 0", "grad wrapped.fc.weight"]
    placement = graph.inputs[0].placement
    assert placement is not None
    assert str(placement.layout((8, 6), Mesh.parse("tp=2"))) == "[0:1x4][1:1x6]|tp=0:4x2"
    assert graph.outputs[1].placement is placement


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"inputs": 3}', '{"inputs": [["a"]]}', '{"groups": {"0": [-1]}}', '{"placements": {"w": ["(Shard(dim=0),)"]}}',
        '{"placements": {"w": 3}}', '{"placements": {"g": ["(Shard(dim=0),)", [5], [3], ["dp"], [0, 0, 3, 4]]}}', '{"outputs": [["y", "None"]]}', '{"groups": 1}', "[" * 100_000,
    ],
)  # fmt: skip
def test_malformed_annotations_are_refused(tmp_path: Path, text: str) -> None:
    dump = write(tmp_path)
    beside(dump).write_text(text)
    with pytest.raises(InputError, match="g"):
        read(dump)


def test_no_annotation_is_none(tmp_path: Path) -> None:
    assert not load_annotations(tmp_path / "missing.json").inputs


def test_a_rank_has_a_window_of_a_dim_that_its_axis_does_not_divide() -> None:
    """… as torch.chunk cuts it; other placements say no window."""
    mesh = Mesh.parse("dp=2,tp=4")

    def window(text: str, shape: tuple[int, ...], local: tuple[int, ...], rank: int) -> tuple[int, int, int] | None:
        found = DTensorPlacement(text, shape, local).window(rank, mesh)
        return found and (found.dim, found.lo, found.hi)

    assert window("(Replicate(), Shard(dim=1))", (3, 10), (3, 3), 1) == (1, 3, 6)
    assert window("(Replicate(), Shard(dim=1))", (3, 10), (3, 1), 7) == (1, 9, 10)
    assert window("(Shard(dim=0), Replicate())", (5,), (2,), 4) == (0, 3, 5)
    assert window("(Shard(dim=0), Replicate())", (5,), (3,), 4) is None  # it is not what the rank has
    assert window("(Replicate(), Shard(dim=0))", (4,), (0,), 5) is None
    assert window("(Shard(dim=0), Shard(dim=0))", (5,), (1,), 0) is None
    assert window("(Partial(sum), Shard(dim=0))", (10,), (3,), 0) is None


def test_parts_of_unequal_sizes_are_where_they_are_said_to_begin() -> None:
    mesh = Mesh.parse("dp=4,tp=2")
    found = DTensorPlacement("(Shard(dim=0), Replicate())", (10, 2), (2, 2), cuts=(0, 3, 6, 8, 10))
    windows = [found.window(rank, mesh) for rank in range(8)]
    assert [w and (w.lo, w.hi) for w in windows] == [None] * 4 + [(6, 8)] * 2 + [(8, 10)] * 2
    with pytest.raises(InputError, match="unequal parts"):
        found.layout((10, 2), mesh)
    with pytest.raises(InputError, match="3 parts for 4 ranks"):
        DTensorPlacement("(Shard(dim=0), Replicate())", (9, 2), (3, 2), cuts=(0, 3, 6, 9)).window(0, mesh)


def test_what_a_rank_of_its_own_has_of_an_uneven_shard_is_placed(tmp_path: Path) -> None:
    """Five rows over two ranks, whose programs differ: three, and two."""
    text = 'class GraphModule(torch.nn.Module):\n    def forward(self, x: "f32[{n}]"):\n'
    text += '        y: "f32[{n}]" = torch.ops.aten.add.Tensor(x, {by})\n        return (y,)\n'
    (tmp_path / "base.fx.txt").write_text(text.format(n=5, by=1.0))
    from scalify_dl.pairing.export import export

    for rank, (n, by) in enumerate(((3, 1.0), (2, 2.0))):
        (tmp_path / f"d.r{rank}.fx.txt").write_text(text.format(n=n, by=by))
        note = {"inputs": [["x", "w"]], "placements": {"w": ["(Shard(dim=0),)", [5], [n], ["dp"]]}}
        (tmp_path / f"d.r{rank}.json").write_text(json.dumps({**note, "rank": rank, "mesh": {"dp": 2}}))
    (tmp_path / "base.json").write_text(json.dumps({"inputs": [["x", "w"]]}))
    facts = export(tmp_path / "base.fx.txt", [tmp_path / f"d.r{r}.fx.txt" for r in (0, 1)], "dp=2")
    assert [(row[0], row[3], row[4]) for row in facts["shard"]] == [("x", "", "[0:1x5]|dp=r2")]
    cut = {(row[2], row[3]) for row in facts["attr_number"] if row[1] in ("start", "limit")}
    assert cut == {(0, 0), (0, 3), (0, 5)}
