"""The NeuronX Llama dumps that stand beside the repository, and bugs made by editing their text."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from scalify_dl.facts import Facts
from scalify_dl.pairing.export import export

DATA = Path(__file__).parents[3] / "shared" / "data" / "neuronx_llama"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the NeuronX dumps are not at {DATA}")

# name → (edits of tp2_layer1.hlo as (line marker, old, new), ops at which it may be located)
BUGS: dict[str, tuple[list[tuple[str, str, str]], set[str]]] = {
    "key slice": ([("%slice.54 =", "[1024:1280]", "[0:256]")], {"slice.54"}),
    "dropped all-reduce": ([("%add.133 =", "%all-reduce.127", "%reshape.126")], {"add.133"}),
    "second all-reduce dropped": ([("%add.152 =", "%all-reduce.146", "%reshape.145")], {"add.152"}),
    "all-reduce with the wrong group": (
        [("%all-reduce.127 =", "replica_groups={{0,1}}", "replica_groups={{0},{1}}")],
        {"all-reduce.127", "add.133"},
    ),
    "max instead of sum": (
        [("%all-reduce.127 =", "to_apply=%all-reduce.127.Reducer.132", "to_apply=%reduce.98.Reducer.103")],
        {"all-reduce.127"},
    ),
    "keys and values swapped in use": (
        [("%reshape.57 =", "%slice.54", "%slice.55"), ("%reshape.58 =", "%slice.55", "%slice.54")],
        {"slice.54", "slice.55", "slice.76", "slice.77", "reshape.57", "reshape.58", "dot.121", "reshape.118"},
    ),
    "rotary sine and cosine swapped": (
        [("%cosine.26 =", " cosine(", " sine("), ("%sine.25 =", " sine(", " cosine(")],
        {
            "subtract.67",
            "add.70",
            "subtract.80",
            "add.83",
        },  # every product is one of the baseline's; their sums are not
    ),
    "transposed dim order": (
        [
            ("%transpose.122 =", "f16[64,4,16,64]{3,2,1,0} transpose", "f16[64,16,4,64]{3,2,1,0} transpose"),
            ("%transpose.122 =", "dimensions={2,0,1,3}", "dimensions={2,1,0,3}"),
        ],
        {"transpose.122", "reshape.123", "dot.124"},
    ),
    "wrong softmax dim": ([("%reduce.109 =", "dimensions={3}", "dimensions={2}")], {"reduce.109"}),
    "wrong dim of the maximum": ([("%reduce.98 =", "dimensions={3}", "dimensions={2}")], {"reduce.98"}),
    "changed epsilon": ([("%constant.48 =", "1e-05", "1e-06")], {"custom-call.50", "constant.48"}),
    "changed scale": ([("%constant.85 =", "constant(8)", "constant(16)")], {"divide.87", "constant.85"}),
}


def fused(layers: int) -> str:
    """The relations file: the fused qkv weight of every layer."""
    lines = ["inputs:"]
    for layer in range(layers):
        lines.append(f'  "#{7 + 2 * layers + 7 * layer}":')
        lines += ["    dims: {1: [tp]}", "    parts: {dim: 1, sizes: [2048, 512, 512]}"]
    return "\n".join(lines) + "\n"


@cache
def text(name: str) -> str:
    """The text of a dump."""
    return (DATA / f"{name}.hlo").read_text("utf-8")


def edited(name: str, edits: list[tuple[str, str, str]]) -> str:
    """A dump with edits; each must apply to exactly one line."""
    lines = text(name).split("\n")
    for marker, old, new in edits:
        (at,) = [i for i, line in enumerate(lines) if line.strip().removeprefix("ROOT ").startswith(marker)]
        assert old in lines[at], (marker, old)
        lines[at] = lines[at].replace(old, new)
    return "\n".join(lines)


def facts(folder: Path, dist: str, mesh: str, relations: str | None, base: str = "tp1_layer1") -> Facts:
    """The facts of a baseline dump and the text of a distributed one."""
    program = folder / "dist.hlo"
    program.write_text(dist, "utf-8")
    relate = folder / "relations.yaml"
    if relations is not None:
        relate.write_text(relations, "utf-8")
    return export(DATA / f"{base}.hlo", [program], mesh, relate if relations is not None else None)
