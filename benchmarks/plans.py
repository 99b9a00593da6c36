"""Training plans of published models: how long reading, folding and proving take, and how that grows.

    python benchmarks/plans.py [--only L1,D2] [--trend] [--repeat N] [--json FILE]

Plans are written as nnScaler emits them (scalify_dl/audit/plan_tables), in unit form: the first dp copy, or the first
few where an expert-parallel group has as many, and the first micro-batch. Experts of a layer are one op over stacked
weights. Figures are CPU seconds of `dlverify plan` in a process of its own, and its peak memory. `--trend` varies
layers, tp, dp and micro-batches of a Llama one at a time. `--repeat` goes through all of them again, and takes of each
the run that took least: on a machine that others use, differences of a few percent are told no other way.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalify_dl.audit.plan_tables import DeepSeek, Llama, Shape, deepseek, llama, write_plan
from scalify_dl.audit.plan_tables.plan import Model

LIMIT = 900
"""Seconds after which a plan is given up."""
MEMORY = 8 << 30
"""Bytes of address space that a run may take."""

LLAMA = {
    "8B": Llama(32, 4096, 32, 8, 14336, 128256, 4096),
    "70B": Llama(80, 8192, 64, 8, 28672, 128256, 4096),
    "405B": Llama(126, 16384, 128, 8, 53248, 128256, 4096),
}
DEEPSEEK = {
    "16B": DeepSeek(27, 1, 2048, 16, 0, 512, 128, 64, 128, 10944, 64, 6, 2, 1408, 102400, 4096),
    "236B": DeepSeek(60, 1, 5120, 128, 1536, 512, 128, 64, 128, 12288, 160, 6, 2, 1536, 102400, 4096),
    "671B": DeepSeek(61, 3, 7168, 128, 1536, 512, 128, 64, 128, 18432, 256, 8, 1, 2048, 129280, 4096),
}
PLANS: dict[str, tuple[Llama | DeepSeek, Shape, int]] = {
    "L1": (LLAMA["8B"], Shape(512, 1, 1, 1), 685),
    "L2": (LLAMA["70B"], Shape(16, 8, 4, 32), 8532),
    "L3": (LLAMA["405B"], Shape(64, 8, 16, 16), 28786),
    "D1": (DEEPSEEK["16B"], Shape(16, 4, 2, 16), 1351),
    "D2": (DEEPSEEK["236B"], Shape(16, 8, 4, 16), 8484),
    "D3": (DEEPSEEK["671B"], Shape(32, 8, 8, 16), 32371),
}
"""Model, mesh, and the seconds that TrainVerify takes on 30 workers (its paper)."""


def model(size: Llama | DeepSeek) -> Model:
    """The builder of a model."""
    return llama(size) if isinstance(size, Llama) else deepseek(size)


def bounded(parent: int) -> None:
    """In a child before it runs: it has so much memory, and ends with its parent, however that ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def measured(size: Llama | DeepSeek, shape: Shape) -> dict[str, Any]:
    """Writes a plan and runs `dlverify plan` on it."""
    with tempfile.TemporaryDirectory() as folder:
        directory = write_plan(Path(folder), model(size), replace(shape, one_micro_batch=True))
        rows = sum(file.read_bytes().count(b"\n") for file in directory.glob("*.tsv"))
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        command = [sys.executable, "-m", "scalify_dl", "plan", str(directory), "--json"]
        parent = os.getpid()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=lambda: bounded(parent)
        )
        try:
            out, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"verdict": f"none in {LIMIT} s", "rows": rows}
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not out:  # no report, for want of memory or by an error that it has printed
            return {"verdict": f"none, exit status {process.returncode}", "rows": rows}
        report = json.loads(out)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "verdict": report["verdict"], "outputs": len(report["outputs"]), "findings": len(report["findings"]),
        "rows": rows, "cpu_s": round(cpu, 2), "wall_s": round(time.monotonic() - start, 2),
        "peak_mb": report["stats"]["peak_mb"], "tuples": report["stats"].get("tuples"),
    }  # fmt: skip


def trends() -> dict[str, list[tuple[str, Llama | DeepSeek, Shape]]]:
    """One thing varied at a time."""
    some = Llama(8, 4096, 32, 8, 14336, 128256, 4096)
    experts = DeepSeek(4, 1, 2048, 16, 0, 512, 128, 64, 128, 10944, 64, 6, 2, 1408, 102400, 4096)
    one = Shape(2, 2, 2, 2)
    return {
        "layers": [(f"layers={n}", replace(some, layers=n), one) for n in (8, 16, 32, 64)],
        "tp": [(f"tp={n}", some, replace(one, tp=n)) for n in (1, 2, 4, 8)],
        "dp": [(f"dp={n}", some, replace(one, dp=n)) for n in (2, 8, 32, 128, 512)],
        "nm": [(f"nm={n}", some, replace(one, nm=n)) for n in (2, 8, 32, 128, 512)],
        "layers with experts": [(f"layers={n}", replace(experts, layers=n), one) for n in (4, 8, 16, 32)],
    }


def show(name: str, found: dict[str, Any], theirs: int | None = None) -> None:
    """One line of the table."""
    words = [f"{name:22}", f"{found['verdict']:9}", f"{found.get('outputs', 0):5} outputs", f"{found['rows']:8} rows"]
    words.append(f"{found.get('cpu_s', 0):7.2f} CPU-s  {found.get('peak_mb', 0):7.1f} MB")
    print("  ".join(words + ([f"TrainVerify {theirs} s"] if theirs else [])), flush=True)


def main() -> int:
    """Exit status 1 where a plan is not PROVED."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PLANS), help="names of plans")
    parser.add_argument("--trend", action="store_true", help="one thing varied at a time instead")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, in turns; the least counts")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cases: dict[str, tuple[Llama | DeepSeek, Shape, int | None]] = {}
    if given.trend:
        cases = {
            f"{title}: {name}": (size, shape, None) for title, some in trends().items() for name, size, shape in some
        }
    else:
        cases = {name: PLANS[name] for name in filter(None, given.only.split(","))}
    found: dict[str, dict[str, Any]] = {}
    for turn in range(given.repeat):
        for name, (size, shape, theirs) in cases.items():
            new = measured(size, shape)
            old = found.get(name, new)
            if new["verdict"] != "PROVED" or (old["verdict"] == "PROVED" and new["cpu_s"] <= old["cpu_s"]):
                found[name] = new
            if turn == given.repeat - 1:
                show(name, found[name], theirs)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), "utf-8")
    return 0 if all(one["verdict"] == "PROVED" for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
