"""Captures models of the zoo: every family alone and tensor-parallel, a step of forward and backward.

    python benchmarks/zoo/capture.py OUT [--families llama,qwen2] [--degrees 2,4] [--seconds 240]

Writes `OUT/FAMILY.tpN.base.fx.txt`, `OUT/FAMILY.tpN.rR.fx.txt` and the sweep file `OUT/sweep.yaml` (`dlverify sweep`).
What cannot be captured is listed in `OUT/failed.tsv`, with the reason. What is there already is kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))


def play(family: str, degree: int, path: Path, log: Path) -> None:
    """Captures a family on one device and on every rank; the error, if any, goes to the log."""
    import hugging_face

    from scalify_dl.capture.torch import capture_step

    def build(mesh: DeviceMesh | None = None) -> Any:
        return hugging_face.build(family, mesh)

    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        try:
            capture_step(build, {"tp": degree}, path)
        except Exception:
            traceback.print_exc()
            out.flush()
            os._exit(1)
    os._exit(0)


def captured(run: partial[None], path: Path, seconds: float) -> str:
    """Runs a capture in a forked process; why it failed, empty where it did not."""
    log = Path(f"{path}.log")
    if Path(f"{path}.done").is_file():
        return ""
    process = multiprocessing.get_context("fork").Process(target=run, args=(path, log))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return f"no capture in {seconds:.0f} s"
    if process.exitcode == 0:
        log.replace(f"{path}.done")
        return ""
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line and not line.startswith(" ")]
    raised = [line for line in lines if ("Error" in line or "Unsupported" in line) and "Traceback" not in line]
    return (raised or lines or ["it ended without a word"])[-1][:200]


def main() -> None:
    """Capture and write the sweep file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--families", default="")
    parser.add_argument("--degrees", default="2,4")
    parser.add_argument("--seconds", type=float, default=240.0, help="for one pair")
    options = parser.parse_args()
    import hugging_face
    import torch._dynamo  # before the processes part

    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in options.families.split(",") if name] or hugging_face.families()
    entries: list[str] = []
    failed: list[str] = []
    for family in wanted:
        for degree in map(int, options.degrees.split(",")):
            path = options.out / f"{family}.tp{degree}"
            lacking = captured(partial(play, family, degree), path, options.seconds)
            name = f"{family} tp={degree}"
            if lacking:
                failed.append(f"{name}\t{lacking}\n")
            else:
                pair = f"base: {path.name}.base.fx.txt, dist: {path.name}.r*.fx.txt, mesh: tp={degree}"
                entries.append(f"  {name}: {{{pair}}}\n")
            print(f"{name}: {lacking or 'captured'}", flush=True)
    (options.out / "failed.tsv").write_text("".join(failed), "utf-8")
    (options.out / "sweep.yaml").write_text("timeout: 120\nruns:\n" + "".join(entries), "utf-8")


if __name__ == "__main__":
    main()
