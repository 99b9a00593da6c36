"""What a verification costs: CPU seconds and peak memory of the whole process, by layers and by degree.

    python benchmarks/verify.py [--layers 1,8,32] [--degrees 2,4] [--data DIR]

The programs are the NeuronX Llama dumps (one layer, at tensor-parallel degree 1, 2 and 4), with the layer repeated in
their text. Every row is one `dlverify verify` in a process of its own: reading, rules and report. Modules are compiled
beforehand, as they are where the tool is installed.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from layers import replicate

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "neuronx_llama"
FUSED = 9
"""Parameter number of the fused qkv weight in the one-layer dumps."""


def relations(copies: dict[int, int]) -> str:
    """The relations file: the fused weight of every layer."""
    numbers = [FUSED, *(number for number, original in copies.items() if original == FUSED)]
    entry = "dims: {1: [tp]}, parts: {dim: 1, sizes: [2048, 512, 512]}"
    return "inputs:\n" + "".join(f'  "#{n}": {{{entry}}}\n' for n in numbers)


def measure(arguments: list[str]) -> tuple[dict, float, float]:
    """The JSON report of a run of `dlverify`, its CPU seconds and its peak memory in MB."""
    compileall.compile_dir(ROOT / "scalify_dl", quiet=1)
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([sys.executable, "-m", "scalify_dl", *arguments], stdout=out, env=os.environ | path)
        _, _, usage = os.wait4(process.pid, 0)
        out.seek(0)
        return json.loads(out.read()), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", default="1,2,4,8,16,32,64,128")
    parser.add_argument("--degrees", default="2,4")
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"the dumps are not at {options.data}; --data says where they are")
    print(f"{'layers':>6} {'tp':>3} {'ops':>7} {'tuples':>10} {'CPU s':>7} {'MB':>6} {'ms/layer':>9}  verdict")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for degree in map(int, options.degrees.split(",")):
            for layers in map(int, options.layers.split(",")):
                paths = []
                for side in (1, degree):
                    deep = replicate((options.data / f"tp{side}_layer1.hlo").read_text("utf-8"), layers)
                    paths.append(folder / f"tp{side}.hlo")
                    paths[-1].write_text(deep.text, "utf-8")
                (folder / "relations.yaml").write_text(relations(deep.copies), "utf-8")
                relate = ["--relate", str(folder / "relations.yaml")]
                found, cpu, peak = measure(["verify", *map(str, paths), "--mesh", f"tp={degree}", *relate, "--json"])
                stats = found["stats"]
                print(
                    f"{layers:6} {degree:3} {stats['ops']:7,} {stats['tuples']:10,} {cpu:7.2f} {peak:6.0f}"
                    f" {1000 * cpu / layers:9.1f}  {found['verdict']}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
