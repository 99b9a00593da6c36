"""What a certificate costs: CPU seconds and peak memory of a run, of a run that writes one, and of checking it.

    python benchmarks/certificates.py [--layers 1,8,32] [--repeat 3] [--data DIR] [FACTS...]

Graphs are the NeuronX Llama at tensor-parallel degree 2 with its layer repeated (as in prove.py), and any facts
directories that are named. Every figure is the least of some runs, each a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path

from layers import replicate
from verify import DATA, ROOT, relations


def cost(repeat: int, *arguments: object) -> tuple[float, float]:
    """The least CPU seconds and peak memory in MB of a `dlverify` command; exits where it fails."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from scalify_dl.cli import main; main()"
    costs = []
    for _ in range(repeat):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        error = process.stderr.read().decode() if process.stderr else ""
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"dlverify {' '.join(map(str, arguments))} failed:\n{error}")
        costs.append((usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    return min(costs)


def exported(folder: Path, data: Path, layers: int) -> Path:
    """The facts of a model with so many layers."""
    programs = []
    for degree in (1, 2):
        deep = replicate((data / f"tp{degree}_layer1.hlo").read_text("utf-8"), layers)
        programs.append(folder / f"tp{degree}.hlo")
        programs[-1].write_text(deep.text, "utf-8")
    (folder / "relations.yaml").write_text(relations(deep.copies), "utf-8")
    facts = folder / f"{layers}_layers"
    cost(1, "export", *programs, "--mesh", "tp=2", "--relate", folder / "relations.yaml", "--out", facts)
    return facts


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("facts", nargs="*", type=Path)
    parser.add_argument("--layers", default="1,8,32")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"the dumps are not at {options.data}; --data says where they are")
    print(f"{'graph':24} {'ops':>6} {'run':>14} {'with certificate':>22} {'check':>22} {'file':>8}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = (exported(folder, options.data, int(n)) for n in options.layers.split(",") if n)
        for facts in chain(options.facts, made):  # large graphs last: a child's peak is never below its parent's memory
            proof = folder / "proof.jsonl.gz"
            run, memory = cost(options.repeat, "run", facts)
            ops = (facts / "op.facts").read_text("utf-8").count("\n")
            line = f"{facts.name:24} {ops:6,} {run:6.2f} s {memory:3.0f} MB"
            write = cost(options.repeat, "run", facts, "--certificate", proof)
            check = cost(options.repeat, "check", proof, facts)
            for seconds, peak in (write, check):
                line += f" {seconds:6.2f} s {seconds / run:3.1f}x {peak:4.0f} MB"
            print(f"{line} {proof.stat().st_size / 1e6:5.2f} MB", flush=True)


if __name__ == "__main__":
    main()
