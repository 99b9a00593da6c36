"""Rank groups, shardings and collectives of HLO text in all their spellings."""
# ruff: noqa: E501 (tables of HLO text)

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import tables
from scalify_dl.readers import hlo
from scalify_dl.readers.hlo.groups import check_groups, iota, parse_groups, to_ranks

ADD = "%add {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] add(%a, %b)\n}\n"


def read(body: str, mesh: str | None = "dp=2,tp=4", header: str = "", before: str = ADD, sharding: str = "") -> Graph:
    text = f"HloModule m{header}\n{before}ENTRY %main {{\n  %x = f32[8,16] parameter(0){sharding}\n{body}\n}}\n"
    return hlo.read_text(text, Mesh.parse(mesh) if mesh else None, file="m.hlo")


def collective(attributes: str, opcode: str = "all-reduce", result: str = "f32[8,16]", **options: str) -> Op:
    (op,) = read(f"  ROOT %y = {result} {opcode}(%x), {attributes}", **options).ops
    return op


TP = [[0, 1, 2, 3], [4, 5, 6, 7]]
DP = [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.mark.parametrize(
    ("text", "devices", "expected"),
    [
        ("{{0,1,2,3},{4,5,6,7}}", None, TP),
        ("{ {0, 4}, {1, 5}, {2, 6}, {3, 7} }", None, DP),
        ("{}", None, []),
        ("[2,4]<=[8]", None, TP),
        ("[4,2]<=[2,4]T(1,0)", None, DP),
        ("[4,2]<=[2,2,2]T(0,2,1)", None, [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ("mesh['a'=2,'b'=4] {'b'}", None, TP),
        ("mesh['a'=2,'b'=4] {'a'}", None, DP),
        ("mesh['a'=2,'b'=4] {'b','a'}", None, [[0, 4, 1, 5, 2, 6, 3, 7]]),
        ("mesh['a'=1,'b'=4,'c'=2]", "([2,4]T(1,0)) {'b'}", TP),
        ("mesh['a'=2,'b'=4] {'b':(2)2}", None, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("mesh['a'=2,'b'=4] {'b':(1)2}", None, [[0, 2], [1, 3], [4, 6], [5, 7]]),
    ],
)
def test_spellings_of_groups(text: str, devices: str | None, expected: list[list[int]]) -> None:
    assert parse_groups(text, devices) == expected


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("{0,1}", None), ("[2,4]", None), ("[2,4]<=[7]", None), ("[2,4]<=[2,4]T(1,1)", None), ("mesh['a'=2]", None),
        ("mesh['a'=2] {'b'}", None), ("mesh['a'=4] {'a':(3)1}", None), ("mesh['a'=2]", "nonsense"), ("[99999,99999]<=[99999,99999]", None),
    ],
)  # fmt: skip
def test_groups_that_are_none(text: str, devices: str | None) -> None:
    with pytest.raises(ValueError):
        parse_groups(text, devices)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4).flatmap(
        lambda d: st.tuples(st.just(d), st.permutations(range(len(d))))
    )
)
def test_iota_is_a_reshape_and_transpose(case: tuple[list[int], list[int]]) -> None:
    np = pytest.importorskip("numpy")
    dims, order = case
    size = int(np.prod(dims))
    assert iota([size], dims, order) == np.arange(size).reshape(dims).transpose(order).ravel().tolist()


def test_ids_of_replicas_partitions_and_devices() -> None:
    """Two replicas of two partitions: ranks are replica * 2 + partition."""
    both = {"replicas": 2, "partitions": 2}
    assert to_ranks([[0, 1]], **both, channel=False, global_ids=False, cross=False) == [[0, 2], [1, 3]]
    assert to_ranks([[0, 3], [1, 2]], **both, channel=True, global_ids=True, cross=False) == [[0, 3], [1, 2]]
    assert to_ranks([[0], [1]], **both, channel=True, global_ids=False, cross=False) == [[0, 1], [2, 3]]
    assert to_ranks([[0, 1]], **both, channel=True, global_ids=False, cross=True) == [[0, 1], [2, 3]]
    assert to_ranks([], **both, channel=True, global_ids=True, cross=False) == [[0, 1, 2, 3]]
    assert to_ranks([], **both, channel=False, global_ids=False, cross=False) == [[0, 2], [1, 3]]


def test_groups_must_partition_the_mesh() -> None:
    check_groups([[1, 0], [2, 3]], 4)
    for groups, message in (
        ([[0, 1]], "rank 2 is in no group"),
        ([[0, 1], [1, 2]], "twice"),
        ([[0, 4]], "rank 4 is outside"),
        ([[0, 1, 2], [3]], "are of several sizes"),
    ):
        with pytest.raises(ValueError, match=message):
            check_groups(groups, 4)


@pytest.mark.parametrize(
    "attributes",
    [
        "channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=%add",
        "replica_groups=[2,4]<=[8], to_apply=%add",
        "channel_id=1, replica_groups=mesh['a'=2,'b'=4] {'b'}, use_global_device_ids=true, to_apply=%add",
    ],
)
def test_all_reduce(attributes: str) -> None:
    op = collective(attributes)
    assert (op.kind, op.groups, op.symbols) == ("all-reduce", TP, {"reducer": ["sum"]})


@pytest.mark.parametrize(
    ("computation", "reducer"),
    [
        ("ROOT %s = f32[] maximum(%a, %b)", "max"),
        ("ROOT %s = f32[] multiply(%b, %a)", "prod"),
    ],
)
def test_reducers_are_recognised_from_their_computation(computation: str, reducer: str) -> None:
    before = f"%f {{\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  {computation}\n}}\n"
    op = collective("replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%f", before=before)
    assert op.symbols == {"reducer": [reducer]}


@pytest.mark.parametrize("direction", ["GE", "LT"])
def test_a_reducer_that_compares_drops_nan_and_stays_unknown(direction: str) -> None:
    body = f"%g = pred[] compare(%a, %b), direction={direction}\n  ROOT %s = f32[] select(%g, %a, %b)"
    before = f"%f {{\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  {body}\n}}\n"
    op = collective("replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%f", before=before)
    assert op.kind == "unknown:all-reduce"


def test_other_reducers_stay_unknown() -> None:
    before = "%f {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] subtract(%a, %b)\n}\n"
    assert collective("replica_groups={}, to_apply=%f", before=before).kind == "unknown:all-reduce"


def test_reducers_with_casts_inside() -> None:
    before = """%f {
  %a = bf16[] parameter(0)
  %b = bf16[] parameter(1)
  %c = f32[] convert(%a)
  %d = f32[] convert(%b)
  %e = f32[] add(%c, %d)
  ROOT %s = bf16[] convert(%e)
}
"""
    graph = read(
        "  %z = bf16[8,16] convert(%x)\n  ROOT %y = bf16[8,16] all-reduce(%z), replica_groups={}, to_apply=%f",
        before=before,
    )
    assert graph.ops[-1].symbols == {"reducer": ["sum"]}


def test_gather_scatter_exchange_and_permute() -> None:
    assert collective("replica_groups=[2,4]<=[8], dimensions={1}", "all-gather", "f32[8,64]").numbers == {
        "dimension": [1]
    }
    op = collective("replica_groups=[2,4]<=[8], dimensions={1}, to_apply=%add", "reduce-scatter", "f32[8,4]")
    assert (op.kind, op.numbers, op.symbols) == ("reduce-scatter", {"dimension": [1]}, {"reducer": ["sum"]})
    op = collective(
        "channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={1}", "all-to-all", header=", num_partitions=8"
    )
    assert op.numbers == {"split_dimension": [1], "concat_dimension": [1]}
    assert op.groups == TP
    op = collective("source_target_pairs={{0,1},{1,0}}", "collective-permute")
    assert op.pairs == [(0, 1), (1, 0)]
    assert collective("replica_groups={{0,1},{2,3},{4,5},{6,7}}", "collective-broadcast").kind == "collective-broadcast"


def test_variadic_collectives_are_split() -> None:
    graph = read(
        """  %n = f32[8,16] negate(%x)
  %r = (f32[8,16], f32[8,16]) all-reduce(%x, %n), replica_groups={}, to_apply=%add
  %a = f32[8,16] get-tuple-element(%r), index=0
  %b = f32[8,16] get-tuple-element(%r), index=1
  ROOT %y = f32[8,16] add(%a, %b)"""
    )
    assert [op.kind for op in graph.ops] == ["negate", "all-reduce", "all-reduce", "add"]
    assert graph.ops[3].operands == [graph.ops[1].result, graph.ops[2].result]


def test_asynchronous_pairs_are_joined() -> None:
    graph = read(
        """  %s = f32[8,16] all-reduce-start(%x), replica_groups={}, to_apply=%add
  %d = f32[8,16] all-reduce-done(%s)
  %t = (f32[8,16], f32[16,16]) all-gather-start(%d), replica_groups={{0,4},{1,5},{2,6},{3,7}}, dimensions={0}
  %g = f32[16,16] all-gather-done(%t)
  %p = (f32[16,16], f32[16,16], u32[], u32[]) collective-permute-start(%g), source_target_pairs={{0,1}}
  ROOT %q = f32[16,16] collective-permute-done(%p)"""
    )
    assert [op.kind for op in graph.ops] == ["all-reduce", "all-gather", "collective-permute"]
    assert graph.outputs[0].tensor is graph.ops[2].result


def test_generic_asynchronous_calls() -> None:
    before = (
        ADD
        + "%w {\n  %p = f32[8,16] parameter(0)\n  ROOT %r = f32[2,16] reduce-scatter(%p), replica_groups=[2,4]<=[8],"
        + " dimensions={0}, to_apply=%add\n}\n"
    )
    graph = read(
        """  %s = ((f32[8,16]), f32[2,16], u32[]) async-start(%x), calls=%w
  %u = ((f32[8,16]), f32[2,16], u32[]) async-update(%s)
  ROOT %d = f32[2,16] async-done(%u)""",
        before=before,
    )
    assert [op.kind for op in graph.ops] == ["reduce-scatter"]


def test_asynchronous_forms_of_any_opcode() -> None:
    graph = read(
        """  %s = ((f32[8,16]), f32[2,16], u32[]) reduce-scatter-start(%x), replica_groups=[2,4]<=[8], dimensions={0}, to_apply=%add
  %r = f32[2,16] reduce-scatter-done(%s)
  %c = ((f32[2,16]), f32[2,4]{0,1}, s32[]) slice-start(%r), slice={[0:2], [0:4]}
  %u = ((f32[2,16]), f32[2,4]{0,1}, s32[]) slice-update(%c)
  ROOT %y = f32[2,4]{0,1} slice-done(%u)"""
    )
    assert [op.kind for op in graph.ops] == ["reduce-scatter", "slice"]
    assert graph.outputs[0].tensor is graph.ops[1].result


def test_tuple_form_of_all_to_all_is_an_exchange_over_a_new_dim() -> None:
    graph = read(
        """  %n = f32[8,16] negate(%x)
  ROOT %t = (f32[8,16], f32[8,16]) all-to-all(%x, %n), replica_groups={{0,1}}""",
        mesh="tp=2",
    )
    (exchange,) = [op for op in graph.ops if op.kind == "all-to-all"]
    assert exchange.operands[0].shape == (2, 8, 16)
    assert [port.tensor.shape for port in graph.outputs] == [(8, 16), (8, 16)]


def test_partition_and_replica_ids() -> None:
    body = "  %p = u32[] partition-id()\n  %r = u32[] replica-id()\n  ROOT %y = f32[8,16] negate(%x)"
    kinds = [op.kind for op in read(body, header=", num_partitions=8").ops]
    assert kinds == ["partition-id", "constant", "negate"]
    partition, replica, _ = read(body, header=", replica_count=2, num_partitions=4").ops
    assert partition.rank_numbers["value", 0] == {rank: rank % 4 for rank in range(8)}
    assert replica.rank_numbers["value", 0] == {rank: rank // 4 for rank in range(8)}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("all-reduce(%x), replica_groups={{0,1}}, to_apply=%add", "rank 2 is in no group"),
        ("all-reduce(%x), replica_groups={{0,1,2,3,4,5,6,8}}, to_apply=%add", "rank 8 is outside"),
        ("all-reduce(%x), replica_groups={{0,1,2,3,4,5,6},{7}}, to_apply=%add", "are of several sizes"),
        ("all-reduce(%x), replica_groups={0,1}, to_apply=%add", "is no list of groups"),
        ("collective-permute(%x), source_target_pairs={{0,1},{2,1}}", "distinct sources and targets"),
        ("collective-permute(%x), source_target_pairs={{0,9}}", "do not fit 8 ranks"),
        ("all-reduce-done(%x)", "no asynchronous start"),
    ],
)
def test_collectives_that_do_not_fit_the_mesh(body: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read("  ROOT %y = f32[8,16] " + body)
    assert message in str(caught.value)
    assert caught.value.line == 9


def test_meshes_that_do_not_fit_the_module() -> None:
    with pytest.raises(InputError, match=r"1 replica\(s\) × 4 partition\(s\), --mesh has 8 ranks"):
        read("  ROOT %y = f32[8,16] negate(%x)", header=", num_partitions=4")


@pytest.mark.parametrize(
    ("sharding", "shape", "expected"),
    [
        ("{replicated}", (8, 16), "[0:1x8][1:1x16]|dp=r2|tp=r4"),
        ("{devices=[2,4]<=[8]}", (16, 64), "[0:1x8][1:1x16]|dp=0:8x2|tp=1:16x4"),
        ("{devices=[4,2]<=[2,4]T(1,0)}", (32, 32), "[0:1x8][1:1x16]|dp=1:16x2|tp=0:8x4"),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", (16, 16), "[0:1x8][1:1x16]|dp=0:8x2|tp=r4"),
        ("{devices=[1,8]<=[8]}", (8, 128), "[0:1x8][1:1x16]|dp=1:64x2|tp=1:16x4"),
        ("{devices=[1,8]<=[2,4]T(1,0)}", (8, 128), "[0:1x8][1:1x16]|dp=1:16x2|tp=1:32x4"),
        ("{devices=[2,2,2]<=[8] last_tile_dims={replicated}}", (16, 32), "[0:1x8][1:1x16]|dp=0:8x2|tp=1:16x2,r2"),
        ("{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}", (16, 16), "[0:1x8][1:1x16]|dp=0:8x2|tp=r4"),
        ("{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}", (32, 16), "[0:1x8][1:1x16]|dp=r2|tp=0:8x4"),
    ],
)
def test_sharding_annotations_are_layouts(sharding: str, shape: tuple[int, ...], expected: str) -> None:
    graph = read("  ROOT %y = f32[8,16] negate(%x)", sharding=f", sharding={sharding}")
    placement = graph.inputs[0].placement
    assert placement is not None
    assert str(placement.layout(shape, Mesh.parse("dp=2,tp=4"))) == expected


@pytest.mark.parametrize("sharding", ["{manual}", "{unknown}", "{devices=[1,1,8]<=[8] last_tile_dims={manual}}"])
def test_annotations_that_do_not_place_the_whole_value(sharding: str) -> None:
    assert read("  ROOT %y = f32[8,16] negate(%x)", sharding=f", sharding={sharding}").inputs[0].placement is None


def test_shardy_annotations() -> None:
    header = ', frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=2, "b"=4]>}}'
    sharding = r', frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"b\"}, {\"a\"}]>"}'
    graph = read("  ROOT %y = f32[8,16] negate(%x)", sharding=sharding, header=header)
    placement = graph.inputs[0].placement
    assert placement is not None
    assert str(placement.layout((32, 32), Mesh.parse("dp=2,tp=4"))) == "[0:1x8][1:1x16]|dp=1:16x2|tp=0:8x4"


def test_annotations_become_correspondences_and_uneven_ones_are_noted() -> None:
    dist = read(
        "  ROOT %y = f32[8,16] negate(%x)", sharding=", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}"
    )
    base = hlo.read_text(
        "HloModule b\nENTRY %m {\n  %x = f32[16,16] parameter(0)\n  ROOT %y = f32[16,16] negate(%x)\n}\n"
    )
    facts = tables(base, [dist], Mesh.parse("dp=2,tp=4"))
    assert [row[4:] for row in facts["shard"]] == [("[0:1x8][1:1x16]|dp=0:8x2|tp=r4", "annotation")]
    uneven = hlo.read_text(
        "HloModule b\nENTRY %m {\n  %x = f32[15,16] parameter(0)\n  ROOT %y = f32[15,16] negate(%x)\n}\n"
    )
    facts = tables(uneven, [dist], Mesh.parse("dp=2,tp=4"))
    assert facts["shard"] == []
    assert "uneven tiles" in facts["placement_note"][0][1]


def test_annotations_that_contradict_the_shapes_are_bad_input() -> None:
    dist = read("  ROOT %y = f32[8,16] negate(%x)", sharding=", sharding={devices=[2,4]<=[8]}")
    base = hlo.read_text(
        "HloModule b\nENTRY %m {\n  %x = f32[16,16] parameter(0)\n  ROOT %y = f32[16,16] negate(%x)\n}\n"
    )
    with pytest.raises(InputError, match="the dump's annotation makes it"):
        tables(base, [dist], Mesh.parse("dp=2,tp=4"))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_layouts_of_shardings_say_which_device_holds_what(data: st.DataObject) -> None:
    """The layout of a random annotation, evaluated at every rank, is the tile that the annotation gives it."""
    mesh = Mesh.parse(data.draw(st.sampled_from(["a=2,b=4", "a=8", "a=2,b=2,c=2", "a=4,b=2"])))
    reshape = data.draw(st.sampled_from([[8], [2, 4], [2, 2, 2], [4, 2]]))
    order = data.draw(st.permutations(range(len(reshape))))
    tiles = data.draw(st.sampled_from([[8, 1], [2, 4], [4, 2], [1, 8], [2, 2]]))
    replicas = 8 // (tiles[0] * tiles[1])
    last = " last_tile_dim_replicate" if replicas > 1 else ""
    dims = [*tiles, replicas] if replicas > 1 else tiles
    text = f"{{devices={dims}<={reshape}T({','.join(map(str, order))}){last}}}".replace(" ", "", 2)
    graph = read("  ROOT %y = f32[8,16] negate(%x)", sharding=f", sharding={text}", mesh=str(mesh))
    placement = graph.inputs[0].placement
    assert placement is not None
    shape = (16, 16)
    try:
        layout = placement.layout(shape, mesh)
    except InputError:
        return  # the order of the devices is no arrangement of the axes
    devices = iota([8], reshape, list(order))
    for position, (row, column) in enumerate(product(range(tiles[0]), range(tiles[1]))):
        for device in devices[position * replicas : (position + 1) * replicas]:
            start = [0, 0]
            for (_, entries), coordinate in zip(layout.axes, mesh.coordinates[device], strict=True):
                for entry in reversed(entries):
                    coordinate, digit = divmod(coordinate, entry.size)
                    if hasattr(entry, "stride"):
                        start[entry.dim] += digit * entry.stride
            assert start == [row * shape[0] // tiles[0], column * shape[1] // tiles[1]]
