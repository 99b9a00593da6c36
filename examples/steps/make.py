"""Captures the programs of this folder again, and writes down what the tool says of them.

    python examples/steps/make.py [KIND…]      # needs torch for some, jax for others

Every kind is a program of `tests/steps/programs`, as its user wrote it, right and with a bug that people make:
`KIND/base.*`, `KIND/right.*`, `KIND/wrong.*`, and `KIND/right.txt`, `KIND/wrong.txt`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

KINDS = {
    "tensor_parallel_mlp": ("01_tp_mlp", "wrong2"),
    "sequence_and_loss_parallel": ("03_sp_loss_parallel", "wrong1"),
    "data_parallel_hook": ("04_ddp_comm_hook", "wrong1"),
    "data_and_tensor_parallel": ("06_dp_tp", "wrong1"),
    "clip_and_adamw": ("09_tp_clip_adamw", "wrong1"),
    "vocabulary_parallel_loss": ("11_vocab_parallel_loss", "wrong2"),
    "context_parallel": ("12_context_parallel", "wrong2"),
    "shard_map_mlp": ("13_jax_shard_map_mlp", "wrong1"),
    "gathered_weights": ("16_jax_fsdp_gather", "wrong1"),
    "sharded_adamw": ("20_jax_sharded_adamw", "wrong1"),
}
"""Kind → the program, and which of its wrong variants is shown."""


def capture(kind: str, variant: str) -> None:
    """The dumps of one variant and of the baseline."""
    from tests.steps import truth

    name, wrong = KINDS[kind]
    program: Any = truth.load(name)
    chosen = wrong if variant == "wrong" else variant
    path = HERE / kind / variant
    if truth.uses_torch(name):
        from scalify_dl import capture_step

        capture_step(getattr(program, f"build_{chosen}"), program.MESH, path, baseline=program.build_base)
    else:
        from scalify_dl.capture.jax import capture_step as capture_jax

        capture_jax(
            lambda mesh: (getattr(program, chosen)(mesh), program.arguments()), program.MESH, path,
            baseline=lambda: (program.base, program.arguments()),
        )  # fmt: skip
    for base in path.parent.glob(f"{variant}.base.*"):  # both variants have the same
        shutil.move(base, base.with_name(base.name.removeprefix(f"{variant}.")))


def command(kind: str, variant: str) -> str:
    """The command that verifies a variant, in the project's folder."""
    from tests.steps import truth

    folder = Path("examples/steps") / kind
    dumps = {path.name: path for path in sorted((HERE / kind).glob("*")) if path.suffix not in (".json", ".txt")}
    dumps |= {path.name: path for path in sorted((HERE / kind).glob("*.fx.txt"))}
    given = [*(n for n in dumps if n.startswith("base.")), *(n for n in dumps if n.startswith(f"{variant}."))]
    mesh = ",".join(f"{axis}={size}" for axis, size in truth.load(KINDS[kind][0]).MESH.items())
    return f"dlverify verify {' '.join(str(folder / name) for name in given)} --mesh {mesh}"


def said(line: str) -> str:
    """The verdict and the causes that `dlverify` prints for a command."""
    program = [sys.executable, "-c", "from scalify_dl.cli import main; main()"]
    found = subprocess.run(
        [*program, *line.split()[1:]], capture_output=True, text=True, encoding="utf-8", cwd=HERE.parents[1]
    )
    return excerpt(found.stdout or found.stderr)


def excerpt(text: str) -> str:
    """The first line of a report, and its causes; numbers of a counterexample and times differ between machines."""
    verdict, *lines = text.splitlines()
    starts = [n for n, text in enumerate(lines) if " root cause" in text]
    causes = lines[starts[0] + 1 :] if starts else []
    end = causes.index("") if "" in causes else len(causes)
    return "\n".join([verdict, *causes[:end], ""])


def main() -> None:
    """Captures, each in a process of its own, and what is said of them."""
    if len(sys.argv) > 2 and sys.argv[1] == "--one":
        capture(*sys.argv[2:])
        return
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    for kind in sys.argv[1:] or KINDS:
        shutil.rmtree(HERE / kind, ignore_errors=True)
        (HERE / kind).mkdir()
        for variant in ("right", "wrong"):
            subprocess.run([sys.executable, __file__, "--one", kind, variant], check=True, env={**os.environ, **flags})
        for dump in (HERE / kind).iterdir():  # sources are named from the project's folder
            text = dump.read_text("utf-8").replace(f"{HERE.parents[1]}/", "")
            dump.write_text(re.sub(r'"[^"\n]*/site-packages/', '"python/site-packages/', text), "utf-8")
        for variant in ("right", "wrong"):
            line = command(kind, variant)
            (HERE / kind / f"{variant}.txt").write_text(f"$ {line}\n{said(line)}", "utf-8")
            print((HERE / kind / f"{variant}.txt").read_text("utf-8"))


if __name__ == "__main__":
    main()
