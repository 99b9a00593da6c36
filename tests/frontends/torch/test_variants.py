"""Files of ranks that differ in a few statements give the programs that they give read one by one."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import export
from scalify_dl.readers import fx
from scalify_dl.readers.fx.variants import Variants
from scalify_dl.readers.merge import merge
from scalify_dl.readers.relations import parse_relations

RANKS = 4
HEAD = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[8, 16]", ids: "i64[8]", w: "f32[32, 16]", c: "f32[64, 16]"):
        # Graph[rank={r}]
"""
TEXT = """lt: "b8[8]" = aten.lt.Scalar(ids, {o})
ge: "b8[8]" = aten.ge.Scalar(ids, {o4})
m: "f32[8, 16]" = aten.mul.Tensor(x, {r2})
m1: "f32[8, 16]" = aten.mul.Tensor(m, 3)
a: "i64[8]" = aten.arange.start(0, 8, dtype = torch.int64)
b: "i64[8]" = aten.add.Tensor(a, {r8})
s0: "f32[8, 4]" = aten.slice.Tensor(m1, 1, {o}, {o4})
s1: "f32[8, 4]" = aten.slice.Tensor(m1, 1, {back}, {back4})
cat: "f32[8, 8]" = aten.cat.default([s0, s1], 1)
sp = aten.split.Tensor(w, 8, 0)
g0: "f32[8, 16]" = sp[0]
g1: "f32[8, 16]" = sp[1]
g2: "f32[8, 16]" = sp[2]
g3: "f32[8, 16]" = sp[3]
k: "f32[8, 16]" = aten.clone.default(g{r})
kk: "f32[8, 16]" = aten.add.Tensor(k, m1)
sq = aten.split.Tensor(kk, 2, 0)
h{r}: "f32[2, 16]" = sq[{r}]
hh: "f32[2, 16]" = aten.clone.default(h{r})
v: "f32[8, 16]" = aten.slice.Tensor(c, 0, {r8}, {r88})
n: "f32[8, 16]" = aten.neg.default(v)
u: "f32[8, 16]" = aten.mul.Tensor(n, 2.0)
d: "f32[64, 16]" = aten.clone.default(c)
dv: "f32[8, 16]" = aten.slice.Tensor(d, 0, {r8}, {r88})
wr: "f32[8, 16]" = aten.copy_.default(dv, u)
e: "f32[64, 16]" = aten.add.Tensor(d, 1)
i: "f32[8, 16]" = aten.index.Tensor(d, [b])
is_: "f32[8, 16]" = aten.index_select.default(c, 0, b)
t: "f32[16, 8]" = aten.transpose.int(g{next}, 0, 1)
mm: "f32[8, 8]" = aten.mm.default(kk, t)
ff: "f32[8, 16]" = aten.add.Tensor(i, {r})
sel: "f32[16]" = aten.select.int(m1, 0, {r})
sel2: "f32[1, 16]" = aten.unsqueeze.default(sel, 0)
pd: "f32[32, 16]" = aten.constant_pad_nd.default(ff, [0, 0, {r8}, {behind}])
wh: "f32[8]" = aten.where.ScalarOther(lt, {r}, 1.0)
q: "f32[8, 16]" = aten.mul.Tensor(is_, ff)
y: "f32[8, 16]" = aten.relu.default(q)
z: "f32[8, 4]" = aten.slice.Tensor(y, 1, {o}, {o4})
z2: "f32[8, 4]" = aten.relu.default(z)
r1: "f32[8, 4]" = _c10d_functional.all_reduce.default(z2, 'sum', '0')
r2: "f32[8, 4]" = _c10d_functional.wait_tensor.default(r1)
z3: "f32[8, 4]" = aten.slice.Tensor(y, 1, {o}, {o4})
z4: "f32[8, 4]" = aten.add.Tensor(z3, s0)"""
LINES = TEXT.splitlines()
RETURNED = "cat, mm, e, sel2, pd, ge, r2, hh, wh, z4, v, g1"


def line(n: int, rank: int) -> str:
    text = LINES[n].replace("= aten", "= torch.ops.aten").replace("= _c10d", "= torch.ops._c10d")
    return text.format(
        r=rank, r2=rank + 2, r8=8 * rank, r88=8 * rank + 8, o=4 * rank, o4=4 * rank + 4, back=12 - 4 * rank,
        back4=16 - 4 * rank, next=(rank + 1) % RANKS, behind=24 - 8 * rank,
    )  # fmt: skip


def texts(rng: random.Random, most: int = 4) -> list[str]:
    """The text of each rank: some lines depend on it."""
    own = {n for n in range(len(LINES)) if "{" in LINES[n]}
    own = set(rng.sample(sorted(own), rng.randint(0, most)))
    odd = rng.randrange(RANKS) if rng.random() < 0.3 else None
    kept = [n for n in range(len(LINES)) if rng.random() < 0.9 or "copy_" not in LINES[n]]
    found = []
    for rank in range(RANKS):
        lines = [line(n, rank if n in own else 0) for n in kept]
        if any("h{r}" in LINES[n] for n in own):
            lines = [re.sub(r"\bh\d\b", f"h{rank}", text) for text in lines]
        if rank == odd:
            at = rng.randrange(len(lines))
            lines[at] = re.sub(r"\d+(?=[,)\]]*$)", lambda m: str(int(m[0]) + rng.choice((0, 1, 4))), lines[at])
        body = "".join(f"        {text}\n" for text in lines)
        returned = rng.random() < 0.03 and rank == odd
        found.append(HEAD.format(r=rank) + body + f"        return ({RETURNED}{', lt' if returned else ''})\n")
    return found


def write(tmp_path: Path, some: list[str]) -> list[Path]:
    paths = []
    for rank, text in enumerate(some):
        paths.append(tmp_path / f"r{rank}.fx.txt")
        paths[-1].write_text(text)
        note = {"groups": {"0": list(range(RANKS))}, "rank": rank, "world": RANKS}
        (tmp_path / f"r{rank}.json").write_text(json.dumps(note))
    return paths


def told(graph: Graph) -> list[Any]:
    """All that a graph says."""
    ids: dict[Tensor, int] = {}

    def at(x: Tensor) -> tuple[Any, ...]:
        return ids.setdefault(x, len(ids)), x.name, x.type, x.literal

    def op(o: Op) -> tuple[Any, ...]:
        numbers = sorted((key, sorted(by_rank.items())) for key, by_rank in o.rank_numbers.items())
        return (o.kind, [*map(at, o.operands)], [*map(at, o.results)], o.name, o.numbers, o.symbols, numbers, o.groups,
                o.group_name, o.source, o.at)  # fmt: skip

    said: list[Any] = [(at(port.tensor), port.path) for port in graph.inputs]
    said += map(op, graph.ops)
    said += [(at(port.tensor), port.path, port.alias) for port in graph.outputs]
    said += [graph.ranks, graph.files, graph.names, {name: at(x) for name, x in graph.aliases.items()}]
    return [*said, [(at(each.tensor), each.text, each.why) for each in graph.assumptions]]


def programs(paths: list[Path], beside: bool) -> Any:
    """The programs that files of ranks make, read beside the first one or one by one; or what is wrong with them."""
    mesh = Mesh.parse(f"tp={RANKS}")
    graphs: Iterator[Any] = fx.read_ranks(paths, mesh) if beside else (fx.read(path, mesh) for path in paths)
    try:
        return [told(graph) for graph in merge(graphs)]
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(40))
def test_ranks_read_beside_the_first_one_are_as_read_one_by_one(seed: int, tmp_path: Path) -> None:
    paths = write(tmp_path, texts(random.Random(seed)))
    assert programs(paths, beside=True) == programs(paths, beside=False)


def kept(tmp_path: Path, own: set[str]) -> set[int]:
    """Ranks that are not read by themselves, where the lines that give these names depend on the rank."""
    names = [text.partition(":")[0] for text in LINES]
    some = []
    for rank in range(RANKS):
        lines = [line(n, rank if names[n] in own else 0) for n in range(len(LINES))]
        if "h{r}" in own:
            lines = [re.sub(r"\bh\d\b", f"h{rank}", text) for text in lines]
        body = "".join(f"        {text}\n" for text in lines)
        some.append(HEAD.format(r=rank) + body + f"        return ({RETURNED})\n")
    paths = write(tmp_path, some)
    variants = fx._variants(paths)
    assert isinstance(variants, Variants)
    graph = fx.read(paths[0], Mesh.parse(f"tp={RANKS}"), variants=variants)
    assert programs(paths, beside=True) == programs(paths, beside=False)
    return set(variants.finish(graph))


@pytest.mark.parametrize("own", [{"lt", "ge"}, {"v"}, {"z"}, {"sel"}, {"h{r}"}])
def test_numbers_and_parts_that_depend_on_the_rank_are_lowered_beside_the_first(own: set[str], tmp_path: Path) -> None:
    assert kept(tmp_path, own) == {1, 2, 3}


@pytest.mark.parametrize("own", [{"m"}, {"dv"}, {"s1"}, {"k"}, {"ff"}, {"b"}])
def test_a_rank_of_which_something_shows_the_number_is_read_by_itself(own: set[str], tmp_path: Path) -> None:
    """A factor that becomes one with the next, a write through a view, slices that are put together again, a part that
    is used elsewhere, too, a number that is no integer, an index whose offset is known."""
    assert kept(tmp_path, own) == set()


def test_items_of_other_values_are_read_one_by_one(tmp_path: Path) -> None:
    """Of a value that the first rank's program does not mention: reading ended in a KeyError."""
    lines = "".join(f"        {line(n, 0)}\n" for n in range(len(LINES)))
    lines += "".join(f"        {name} = torch.ops.aten.split.Tensor(w, {n}, 0)\n" for name, n in (("sn", 8), ("so", 8)))
    ends = [f'g: "f32[8, 16]" = {"so" if r else "sn"}[1]\n        return (g, {RETURNED})\n' for r in range(RANKS)]
    some = [f"{HEAD.format(r=r)}{lines}        {end}" for r, end in enumerate(ends)]
    paths = write(tmp_path, some)
    assert programs(paths, beside=True) == programs(paths, beside=False)
    assert not isinstance(programs(paths, beside=True), str)


LOOKED_UP = """class GraphModule(torch.nn.Module):
    def forward(self, ids: "i64[8]", w: "f32[8, 16]"):
        lt: "b8[8]" = torch.ops.aten.lt.Scalar(ids, {low})
        ge: "b8[8]" = torch.ops.aten.ge.Scalar(ids, {high})
        beside: "b8[8]" = torch.ops.aten.bitwise_or.Tensor({way})
        sub: "i64[8]" = torch.ops.aten.sub.Tensor(ids, {low})
        own: "i64[8]" = torch.ops.aten.masked_fill.Scalar(sub, beside, 0)
        rows: "f32[8, 16]" = torch.ops.aten.embedding.default(w, own)
        mask: "b8[8, 1]" = torch.ops.aten.unsqueeze.default(beside, 1)
        part: "f32[8, 16]" = torch.ops.aten.masked_fill.Scalar(rows, mask, 0.0)
        sum_1: "f32[8, 16]" = torch.ops._c10d_functional.all_reduce.default(part, 'sum', '0')
        y: "f32[8, 16]" = torch.ops._c10d_functional.wait_tensor.default(sum_1)
        return (y,)
"""
WHOLE = """class GraphModule(torch.nn.Module):
    def forward(self, ids: "i64[8]", w: "f32[32, 16]"):
        y: "f32[8, 16]" = torch.ops.aten.embedding.default(w, ids)
        return (y,)
"""


def test_a_range_bounds_an_input_of_several_programs_once(tmp_path: Path) -> None:
    """Programs of several ranks may share their inputs: the range was said to be given twice."""
    ways = ["lt, ge", "ge, lt", "lt, ge", "lt, ge"]
    paths = write(tmp_path, [LOOKED_UP.format(low=8 * n, high=8 * n + 8, way=way) for n, way in enumerate(ways)])
    (base := tmp_path / "base.fx.txt").write_text(WHOLE)
    facts = export(base, paths, Mesh.parse(f"tp={RANKS}"), parse_relations("ranges: {'#0': [0, 32]}"))
    assert {row[1:] for row in facts["range"]} == {(0, 32, "given")}
    assert len({*facts["range"]}) == len(facts["range"])
