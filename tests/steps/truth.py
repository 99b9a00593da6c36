"""What the programs of `programs/` really compute: each distributed variant is run, and compared with its baseline.

    python -m tests.steps.truth NAME…          # relative errors of every output, as JSON

torch: one process per rank (forked, so that torch is imported once), gloo, float64. Compared on every rank are the
outputs of the step, every parameter and buffer after it, and the state of every optimiser that stepped; DTensors by
what they stand for, plain tensors by the shard of the baseline that `SHARDED` of the program says, replicated where it
says nothing.
JAX: devices made of the CPU, float64, whole arrays. Every program runs in an interpreter of its own.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

PROGRAMS = sorted(path.stem for path in (Path(__file__).parent / "programs").glob("[0-9]*.py"))
VARIANTS = ("right", "wrong1", "wrong2")
EQUAL = 1e-9
"""Relative error up to which float64 results are equal."""
DIFFERENT = 1e-4
"""Relative error from which results differ, whatever the order of sums."""
SECONDS = 600

Errors = dict[str, float]
"""Relative error of what a step gives, the largest of all ranks; infinite where shapes differ."""


def load(name: str) -> ModuleType:
    """The program of that name."""
    return importlib.import_module(f"tests.steps.programs.{name}")


def source(name: str) -> str:
    """The text of the program of that name."""
    return (Path(__file__).parent / "programs" / f"{name}.py").read_text("utf-8")


def uses_torch(name: str) -> bool:
    """Whether the program is one of torch."""
    return "import torch\n" in source(name)


def measure(name: str) -> dict[str, Errors]:
    """Runs all variants of a program in a fresh interpreter."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.steps.truth", name]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=SECONDS)
    if run.returncode:
        raise RuntimeError(f"{name} does not run:\n{run.stderr[-4000:]}")
    measured: dict[str, dict[str, Errors]] = json.loads(run.stdout.splitlines()[-1])
    return measured[name]


def relative_error(found: Any, wanted: Any) -> float:
    """The largest difference, relative to the largest number that is wanted."""
    import numpy as np

    found, wanted = np.asarray(found, "float64"), np.asarray(wanted, "float64")
    if found.shape != wanted.shape:
        return math.inf
    if not wanted.size:
        return 0.0
    # of what is zero but for rounding (gradients of a bias before a normalisation) rounding says nothing
    error = float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-6))
    return error if math.isfinite(error) else math.inf


# torch


def run_torch(name: str) -> dict[str, Errors]:
    """Every variant on one process per rank."""
    import torch.multiprocessing as mp

    world = math.prod(load(name).MESH.values())
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(_rank, (world, name, folder), nprocs=world, start_method="fork")
        ranks = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(world)]
    out: dict[str, Errors] = {}
    for variant in VARIANTS:
        errors = [of_rank[variant] for of_rank in ranks]
        lost = set(ranks[0]["wanted"]) - set().union(*errors)
        assert not lost, f"{name} {variant}: no rank has {sorted(lost)}"
        out[variant] = {what: max(e.get(what, 0.0) for e in errors) for what in ranks[0]["wanted"]}
    return out


def _rank(rank: int, world: int, name: str, folder: str) -> None:
    """One process: the baseline, then every variant together with the other ranks."""
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    program = load(name)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    sharded = getattr(program, "SHARDED", {})
    wanted = stepped(*program.build_base())
    out: dict[str, Any] = {"wanted": list(wanted)}
    for variant in VARIANTS:
        found = stepped(*getattr(program, f"build_{variant}")())
        errors: Errors = {}
        for what, value in found.items():
            whole = wanted[what]
            if isinstance(value, DTensor):
                value = value.full_tensor()
            else:
                whole = shard(whole, sharded.get(what.partition("@")[0], {}), program.MESH, rank)
            errors[what] = relative_error(value, whole)
        out[variant] = errors
        dist.barrier()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(out))
    dist.destroy_process_group()


def stepped(model: Any, args: Any, step: Any) -> dict[str, Any]:
    """What a step gives, by name: optimiser state as `parameter@state`."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    optimisers: dict[int, Any] = {}
    handle = register_optimizer_step_post_hook(lambda opt, args, kwargs: optimisers.update({id(opt): opt}))
    try:
        returned = step(model, *args)
    finally:
        handle.remove()
    tensors = {_plain(n): t for n, t in [*model.named_parameters(), *model.named_buffers()]}
    names = {id(t): n for n, t in tensors.items()}
    state = {
        f"{names[id(p)]}@{key}": value
        for opt in optimisers.values()
        for p, entries in opt.state.items()
        for key, value in entries.items()
        if torch.is_tensor(value)
    }
    return {what: value.detach() for what, value in {**returned, **tensors, **state}.items()}


def _plain(name: str) -> str:
    """A parameter's name without what DistributedDataParallel puts before it."""
    return name.removeprefix("module.")


def shard(whole: Any, axes: dict[str, int], mesh: dict[str, int], rank: int) -> Any:
    """What a rank holds of a tensor whose dims are cut over mesh axes, the last axis of the mesh fastest."""
    coordinates = {}
    for axis, size in reversed(mesh.items()):
        rank, coordinates[axis] = divmod(rank, size)
    for axis, dim in axes.items():
        if dim < whole.dim():
            whole = whole.chunk(mesh[axis], dim)[coordinates[axis]]
    return whole


# JAX


def run_jax(name: str) -> dict[str, Errors]:
    """Every variant on devices made of the CPU."""
    program = load(name)
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={math.prod(program.MESH.values())}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    jax.config.update("jax_enable_x64", True)
    axes, sizes = zip(*program.MESH.items(), strict=True)
    mesh = jax.make_mesh(sizes, axes, (jax.sharding.AxisType.Auto,) * len(axes))
    args = jax.tree.map(lambda a: a.astype("float64") if a.dtype == "float32" else a, program.arguments())

    def results(step: Any) -> dict[str, Any]:
        leaves, _ = jax.tree_util.tree_flatten_with_path(step(*args))
        return {jax.tree_util.keystr(path): value for path, value in leaves}

    wanted = results(jax.jit(program.base))
    out: dict[str, Errors] = {}
    for variant in VARIANTS:
        found = results(getattr(program, variant)(mesh))
        assert found.keys() == wanted.keys(), f"{name} {variant}: {sorted(found.keys() ^ wanted.keys())}"
        out[variant] = {what: relative_error(found[what], whole) for what, whole in wanted.items()}
    return out


if __name__ == "__main__":
    chosen = sys.argv[1:] or PROGRAMS
    runs = {one: run_torch(one) if uses_torch(one) else run_jax(one) for one in chosen}
    print(json.dumps(runs))
