"""Speed of the embedded engine: CPU seconds and peak memory of whole runs, facts reading and writing included.

    python benchmarks/engine.py [--quick]

Each workload runs in a process of its own through `Program`. Where `../shared/bench` exists (a workload with published
row counts), it is run as well and its counts are compared.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = Path(__file__).parent / "datalog"
SHARED = ROOT.parent / "shared" / "bench"
RANKS = 4

RUN = """
import json, resource, sys
from scalify_dl.pysouffle import Program
program = Program.from_file(sys.argv[1])
program.load(sys.argv[2]).run()
with open(sys.argv[3] + "/printed", "wb") as out:
    program.write(sys.argv[3], out=out)
usage = resource.getrusage(resource.RUSAGE_SELF)
stats = program.stats()
cpu, mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
print(json.dumps({"cpu": cpu, "mb": mb, "rounds": stats.rounds, "tuples": stats.tuples}))
"""

# rows that every engine agrees on, for the shared workload
COUNTS = {
    "tc1m": {"path": 948_711},
    "tc5m": {"path": 4_936_921},
    "model 238": {
        "arok": 115_712, "bytes": 9_843, "coshard": 173_516, "depth": 12, "firstloc": 1, "kindcount": 14,
        "localisation": 1, "minlay": 9_843, "mismatch": 0, "nrel": 9_843, "opnd_bad": 391, "rel": 278_032,
        "related": 9_843, "same": 368_368,
    },
}  # fmt: skip


@dataclass
class Result:
    """One run: CPU seconds, peak resident MB, fixpoint rounds, rows by relation."""

    cpu: float
    mb: float
    rounds: int
    tuples: dict[str, int]


def run(program: Path, facts: Path) -> Result:
    """Run a program on a folder of facts in a fresh process."""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(program), str(facts), out],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def write(folder: Path, tables: dict[str, Iterable[tuple[object, ...]]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        with (folder / f"{name}.facts").open("w") as file:  # row by row: a child starts with its parent's peak memory
            file.writelines("\t".join(map(str, row)) + "\n" for row in rows)
    return folder


def ring(nodes: int, chords: int) -> list[tuple[int, int]]:
    """A directed ring with short forward chords: its closure has `nodes` squared rows."""
    draw = random.Random(0)
    edges = {(i, (i + 1) % nodes) for i in range(nodes)}
    while len(edges) < nodes + chords:
        at = draw.randrange(nodes)
        edges.add((at, (at + draw.randrange(2, 4)) % nodes))
    return sorted(edges)


class Layers:
    """A transformer-like stack on one device and split over RANKS devices, op by op."""

    # per layer: name, kind, operands ("x" is the layer's input, "w…" a weight)
    SHAPE = (
        ("q", "matmul", "x", "wq"), ("t", "transpose", "q"), ("s", "silu", "t"), ("u", "transpose", "s"),
        ("o", "matmul", "u", "wo"), ("r", "reduce", "o"), ("h", "add", "r", "x"), ("g", "matmul", "h", "wg"),
        ("a", "silu", "g"), ("c", "cast", "a"), ("d", "matmul", "c", "wd"), ("e", "reduce", "d"),
        ("y", "add", "e", "h"),
    )  # fmt: skip
    SPLIT = (("wq", 1), ("wo", 0), ("wg", 1), ("wd", 0))  # which dim of a weight is split over the ranks

    def __init__(self, layers: int) -> None:
        self.ops: list[tuple[int, str, str]] = []
        self.edges: list[tuple[int, int, int]] = []
        self.sizes: list[tuple[int, int, int]] = []
        self.seeds: list[tuple[int, int, int, str]] = []
        base = self.op("input", "base")
        ranks = [self.op("input", "dist") for _ in range(RANKS)]
        self.seeds += [(base, r, -1, "whole") for r in ranks]
        for _ in range(layers):
            base, ranks = self.layer(base, ranks)

    def op(self, kind: str, side: str, *operands: int) -> int:
        number = len(self.ops)
        self.ops.append((number, kind, side))
        self.edges += [(operand, number, position) for position, operand in enumerate(operands)]
        narrow = 1024 // RANKS if side == "dist" else 1024
        self.sizes += [(number, 0, 128), (number, 1, narrow)]
        return number

    def layer(self, base_in: int, ranks_in: list[int]) -> tuple[int, list[int]]:
        base = {"x": base_in}
        ranks: list[dict[str, int]] = [{"x": x} for x in ranks_in]
        for weight, dim in self.SPLIT:
            base[weight] = self.op("weight", "base")
            for rank in ranks:
                rank[weight] = self.op("weight", "dist")
                self.seeds.append((base[weight], rank[weight], dim, "split"))
        for name, kind, *operands in self.SHAPE:
            if kind == "reduce":  # only the split program has one
                base[name] = base[operands[0]]
                parts = [rank[operands[0]] for rank in ranks]
                for rank in ranks:
                    rank[name] = self.op("all_reduce", "dist", *parts)
            else:
                base[name] = self.op(kind, "base", *(base[o] for o in operands))
                for rank in ranks:
                    rank[name] = self.op(kind, "dist", *(rank[o] for o in operands))
        return base["y"], [rank["y"] for rank in ranks]

    def tables(self) -> dict[str, Iterable[tuple[object, ...]]]:
        return {"op": self.ops, "edge": self.edges, "size": self.sizes, "seed": self.seeds}


def permuted(program: Path, folder: Path, seed: int) -> Path:
    """The program with the atoms of every body in another order."""
    lines = []
    draw = random.Random(seed)
    for line in program.read_text().splitlines():
        head, arrow, body = line.partition(" :- ")
        if arrow and not line.startswith("//"):
            parts, depth, quoted = [""], 0, False
            for c in body.rstrip().removesuffix("."):
                quoted ^= c == '"'
                depth += 0 if quoted else (c in "({[") - (c in ")}]")
                if c == "," and depth == 0 and not quoted:
                    parts.append("")
                else:
                    parts[-1] += c
            draw.shuffle(parts)
            line = f"{head} :- {', '.join(p.strip() for p in parts)}."
        lines.append(line)
    out = folder / f"permuted{seed}.dl"
    out.write_text("\n".join(lines) + "\n")
    return out


def show(name: str, result: Result, bar: str = "") -> None:
    rows = sum(result.tuples.values())
    print(
        f"{name:28} {result.cpu:7.2f} s {result.mb:7.0f} MB {result.rounds:7,} rounds {rows:11,} rows   {bar}",
        flush=True,
    )


def own(folder: Path, quick: bool) -> None:
    nodes, layers = (1000, 60) if quick else (2220, 1250)
    facts = write(folder / "closure", {"edge": ring(nodes, nodes * 2 // 3)})
    result = run(PROGRAMS / "closure.dl", facts)
    assert result.tuples["path"] == nodes * nodes
    show(f"closure, {nodes} nodes", result, "bar: 5M rows 2.2 s, 200 MB")
    graph = Layers(layers)
    facts = write(folder / "layers", graph.tables())
    first = run(PROGRAMS / "layers.dl", facts)
    assert first.tuples["frontier"] == 0
    show(f"layers, {len(graph.ops):,} ops", first, "bar: 100k ops 1.5 s, 150 MB")
    for seed in range(3):
        result = run(permuted(PROGRAMS / "layers.dl", folder, seed), facts)
        assert result.tuples == first.tuples
        show(f"  atoms in other order {seed}", result, f"{result.cpu / first.cpu:.2f}x, bar: 1.5x")
    million = ((i, i * 7 % 1_000_003, i % 1000) for i in range(100_000 if quick else 1_000_000))
    facts = write(folder / "load", {"r": million})
    loader = folder / "load.dl"
    loader.write_text(".decl r(a: number, b: number, c: number)\n.input r\n")
    show("load 1M rows", run(loader, facts), "bar: 1 s")


def shared(folder: Path, quick: bool) -> None:
    cases = [("tc1m", "tc.dl", "tc 1000 1000 1650", 0.35, 0), ("tc5m", "tc.dl", "tc 2240 2240 3700", 2.2, 200)]
    cases.append(("model 238", "model.dl", "model 238", 1.5, 150))
    for name, program, arguments, seconds, mb in cases[:1] if quick else cases:
        facts = folder / name.replace(" ", "")
        subprocess.run(
            [sys.executable, str(SHARED / "gen.py"), *arguments.split(), str(facts)], check=True, capture_output=True
        )
        result = run(SHARED / program, facts)
        wrong = {r: result.tuples[r] for r, n in COUNTS[name].items() if result.tuples[r] != n}
        show(
            name,
            result,
            f"bar: {seconds} s{f', {mb} MB' if mb else ''}; counts {'agree' if not wrong else f'DIFFER {wrong}'}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, some seconds in all")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        own(Path(folder), quick)
        if SHARED.is_dir():
            shared(Path(folder), quick)


if __name__ == "__main__":
    main()
