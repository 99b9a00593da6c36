"""A folder with files of the names that the pages use, small ones of our own."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from tests.plans.small import write_small

ROOT = Path(__file__).parents[2]
STEP = ROOT / "examples" / "steps" / "tensor_parallel_mlp"
KERNEL = """\
import tvm
from tvm.script import tir as T

@T.prim_func
def gemm(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 8):
        with T.block("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[v_i, v_j] = T.float32(0)
            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
"""
PRODUCT = """\
class GraphModule(torch.nn.Module):
    def forward(self, a: "f32[4, 8]", b: "f32[8, 4]"):
        mm: "f32[4, 4]" = torch.ops.{op}(a, b)
        return (mm,)
"""
REACH = """\
.decl edge(x:symbol, y:symbol)
.input edge
.decl path(x:symbol, y:symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
OPEN = """\
class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[s0, 8]"):
        tanh: "f32[s0, 8]" = torch.ops.aten.tanh.default(x)
        return (tanh,)
"""

HALF = """HloModule half

ENTRY %main ({name}: f32[4], {other}: f32[4]) -> f32[4] {{
  %{name} = f32[4] parameter(0)
  %{other} = f32[4] parameter(1)
  ROOT %made = f32[4] multiply(%{name}, %{other})
}}
"""
"""A product of two inputs, and with what is kept of it the gradient of one."""
HANDED = """handed: {kept: x}
gradients: {made: w}
inputs: {x: {dims: {}}, w: {dims: {}}, g: {dims: {}}}
"""


def trace(rank: int) -> dict[str, Any]:
    """A Flight Recorder dump of a rank that was in one collective."""
    entry = {
        "process_group": ["0", "default_pg"], "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1,
        "profiling_name": "nccl:all_reduce", "input_sizes": [[8]], "input_dtypes": ["Float"], "state": "completed",
        "frames": [{"name": "step", "filename": "train.py", "line": 7}],
    }  # fmt: skip
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return {"version": "2.4", "pg_config": config, "entries": [entry], "rank": rank}


def mlp(batch: int, seq: int, mesh: dict[str, int] | None = None) -> str:
    """Two layers over `tp`, the batch over `dp`, as HLO."""
    mesh = mesh or {}
    tp, dp = mesh.get("tp", 1), mesh.get("dp", 1)
    x, w, v = f"f32[{batch // dp},{seq},48]", f"f32[48,{64 // tp}]", f"f32[{64 // tp},48]"
    dots = "lhs_contracting_dims={2}, rhs_contracting_dims={0}"
    groups = ",".join("{" + ",".join(str(d * tp + t) for t in range(tp)) + "}" for d in range(dp))
    reduced = f"  ROOT %r = {x} all-reduce(%y), replica_groups={{{groups}}}, use_global_device_ids=true, "
    lines = [
        f"HloModule mlp, num_partitions={tp * dp}" if mesh else "HloModule mlp",
        "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)",
        "  ROOT %s = f32[] add(%a, %b)\n}",
        f"ENTRY %main (tokens: {x}, up: {w}, down: {v}) -> {x} {{",
        f"  %tokens = {x} parameter(0)\n  %up = {w} parameter(1)\n  %down = {v} parameter(2)",
        f"  %h = f32[{batch // dp},{seq},{64 // tp}] dot(%tokens, %up), {dots}",
        f"  %t = f32[{batch // dp},{seq},{64 // tp}] tanh(%h)",
        f"  {'' if mesh else 'ROOT '}%y = {x} dot(%t, %down), {dots}",
        *([f"{reduced}channel_id=1, to_apply=%sum"] if mesh else []),
        "}",
    ]
    return "\n".join(lines) + "\n"


def fenced(page: str, language: str) -> list[str]:
    """Fenced blocks of a page in a language."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def fill(here: Path, mesh: dict[str, int]) -> None:
    """Write all of them; programs for a mesh."""
    write = lambda name, text: (here / name).write_text(text, "utf-8")  # noqa: E731
    for suffix in ("hlo", "mlir"):
        write(f"base.{suffix}", mlp(6, 5))
        write(f"dist.{suffix}", mlp(6, 5, mesh))
    for tp, batch, seq in ((2, 6, 5), (4, 18, 25)):
        write(f"base-{tp}.mlir", mlp(batch, seq))
        write(f"dist-{tp}.mlir", mlp(batch, seq, {"tp": tp}))
    write("dist-4.tp.mlir", mlp(6, 5, {"tp": 4}))
    captures = [{"base": f"base-{tp}.mlir", "dist": f"dist-{tp}.mlir", "mesh": f"tp={tp}"} for tp in (2, 4)]
    write(
        "family.yaml",
        json.dumps({"symbols": {"tp": None, "batch": "tokens:0", "seq": "tokens:1"}, "captures": captures}),
    )
    for folder, stem in (("dumps", "step"), ("dump", "mlp")):
        (here / folder).mkdir()
        for rank in ("base", "r0", "r1"):
            for kind in ("fx.txt", "json"):
                source = STEP / f"{'' if rank == 'base' else 'right.'}{rank}.{kind}"
                shutil.copy(source, here / folder / f"{stem}.{rank}.{kind}")
    write("dlverify.toml", '[pairs.attention]\nbase = "base.hlo"\ndist = "dist.hlo"\nmesh = "tp=2"\n')
    write("SWEEP.yaml", "runs: {mlp: {base: base.hlo, dist: dist.hlo, mesh: tp=2}}\n")
    (here / "OUT").mkdir()
    write("OUT/sweep.yaml", "runs: {mlp: {base: ../base.hlo, dist: ../dist.hlo, mesh: tp=2}}\n")
    shutil.copytree(ROOT / "facts" / "row_parallel_linear", here / "FACTS")
    shutil.copytree(ROOT / "facts" / "row_parallel_linear_bias_per_rank", here / "UNPROVED")
    write_small(here / "tables")
    (schedule,) = [
        t
        for t in re.findall(r"^```\n(.*?)^```$", (ROOT / "docs" / "schedule.md").read_text(), re.M | re.S)
        if t[0] == "0"
    ]
    write("pipeline.csv", schedule)
    write("toy.csv", schedule)
    for name, of in (("blocks.py", "matmul"), ("flash.py", "flash_fwd")):
        write(name, (ROOT / "tests" / "data" / "kernels" / f"{of}.txt").read_text("utf-8"))
    for name in ("k.py", "K.py", "original.py", "gemm.py"):
        write(name, KERNEL)
    write("base.fx.txt", PRODUCT.format(op="aten.mm.default"))
    write("dist.fx.txt", PRODUCT.format(op="mylib.gemm.default"))
    write("open.fx.txt", OPEN)
    write("forward.hlo", HALF.format(name="x", other="w"))
    write("backward.hlo", HALF.format(name="kept", other="g"))
    write("handed.yaml", HANDED)
    write("agreed.json", "[{why: given}, {why: shape}, {why: name}]")
    for rank in (0, 1):
        write(f"trace_{rank}", json.dumps(trace(rank)))
    write("my.dl", fenced("adding_an_op.md", "prolog")[0])
    write("my.py", next(text for text in fenced("adding_an_op.md", "python") if text.startswith("# my.py")))
    write("mine.dl", next(t for t in fenced("rules.md", "prolog") if "custom:Pack" in t))
    write("mine.py", next(t for t in fenced("rules.md", "python") if "custom:Pack" in t))
    write("program.dl", REACH)
    (here / "edges").mkdir()
    write("edges/edge.facts", "a\tb\nb\tc\n")
    program = fenced("without_a_baseline.md", "text")[0]
    write("mlp.hlo", program)
    lines = program.splitlines()
    lines[-4:-1] = [
        lines[-2].replace("ROOT ", "").replace("(%z)", "(%y)"),
        lines[-4],
        "  ROOT " + lines[-3].strip().replace("%y", "%r"),
    ]
    write("right.hlo", "\n".join(lines) + "\n")
    write("model.py", "def forward(x):\n    return x + x\n")
    np.savez(here / "run.npz", x=np.ones(2), output0=np.full(2, 2.0))
