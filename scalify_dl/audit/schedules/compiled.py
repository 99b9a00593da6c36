"""`python -m scalify_dl.audit.schedules.compiled OUT [--tpu v5e:2x4]`: scheduled HLO of twelve JAX programs.

For a TPU, jax compiles ahead of time: there has to be a `libtpu`, no TPU. Else the CPU's compiler is asked, and its
buffer assignments are kept beside the modules.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

RANKS = 8


def programs(mesh: Any, grid: Any) -> dict[str, tuple[Any, list[Any]]]:
    """Functions to compile, with the types of their arguments. `mesh`: 8 devices along x; `grid`: 2 × 4."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    right = [(i, (i + 1) % RANKS) for i in range(RANKS)]
    left = [(b, a) for a, b in right]

    def spec(shape: tuple[int, ...], *axes: Any, on: Any = mesh, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(on, P(*axes)))

    def mapped(body: Callable[..., Any], ins: Any, outs: Any, **options: Any) -> Any:
        return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False), **options)

    def ring_matmul(a: Any) -> Any:
        for _ in range(3):
            a = jnp.dot(a, a.T) @ a + lax.ppermute(a, "x", right)
        return a

    def ring_loop(a: Any, w: Any) -> Any:
        def body(_: Any, carry: Any) -> Any:
            block, total = carry
            return lax.ppermute(block, "x", right), total + jnp.tanh(block @ w)

        return lax.fori_loop(0, RANKS, body, (a, jnp.zeros_like(a)))[1]

    def both_ways(a: Any) -> Any:
        for _ in range(2):
            a = jnp.sin(a @ a.T) @ a + lax.ppermute(a, "x", right) - lax.ppermute(a, "x", left)
        return a

    def halo_stencil(a: Any) -> Any:
        def body(_: Any, a: Any) -> Any:
            up, down = lax.ppermute(a[-1:], "x", right), lax.ppermute(a[:1], "x", left)
            padded = jnp.concatenate([up, a, down])
            return padded[:-2] * 0.25 + padded[2:] * 0.25 + a * 0.5

        return lax.fori_loop(0, 10, body, a)

    def experts(x: Any, w: Any) -> Any:
        y = jax.nn.relu(lax.all_to_all(x, "x", 0, 0, tiled=True) @ w)
        return lax.all_to_all(y, "x", 0, 0, tiled=True)

    def scatter_gather(x: Any, w: Any) -> Any:
        y = lax.psum_scatter(x @ w, "x", tiled=True)
        return lax.all_gather(jnp.tanh(y), "x", tiled=True) @ w.T

    def branches(a: Any, i: Any) -> Any:
        b = lax.cond(i > 0, lambda a: lax.ppermute(a, "x", right), jnp.sin, a)
        return b @ b.T

    def pipeline(w: Any, x: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            y = jnp.tanh(jnp.where(lax.axis_index("x") == 0, x, carry) @ w[0])
            return lax.ppermute(y, "x", right), y

        return lax.scan(body, jnp.zeros_like(x[0]), x)[1]

    def cache(c: Any, x: Any, i: Any) -> Any:
        c = lax.dynamic_update_slice(c, x, (i, 0))
        return c, (c[:128] * x[:1]).sum()

    def sharded_loss(ws: Any, x: Any) -> Any:
        for w in ws:
            x = jax.nn.relu(x @ w)
        return (x**2).sum()

    def sharded_step(ws: Any, x: Any) -> Any:
        loss, grads = jax.value_and_grad(sharded_loss)(ws, x)
        return loss, [w - 0.1 * g for w, g in zip(ws, grads, strict=True)]

    def adam(p: Any, m: Any, v: Any, x: Any) -> Any:
        g = jax.grad(lambda p: ((jnp.tanh(x @ p["a"]) @ p["b"]) ** 2).mean())(p)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        return jax.tree.map(lambda p, m, v: p - m / (jnp.sqrt(v) + 1e-8), p, m, v), m, v

    def layers(x: Any, ws: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            q, k, v, o, u, d = w
            a = jax.nn.softmax(jnp.einsum("bsh,bth->bst", x @ q, x @ k))
            x = x + (a @ (x @ v)) @ o
            return x + jax.nn.gelu(x @ u) @ d, None

        return lax.scan(layer, x, ws)[0].sum()

    number = spec((), dtype=jnp.int32)
    rows, square = spec((2048, 256), "x"), spec((256, 256))
    weights = [spec((1024, 1024), "x", None)] * 4
    after = (NamedSharding(mesh, P()), [NamedSharding(mesh, P("x", None))] * 4)
    p = {"a": spec((512, 2048)), "b": spec((2048, 512))}
    n, h = 4, 512
    column = [spec((n, h, h), None, None, "m", on=grid)] * 3
    deep = (*column, spec((n, h, h), None, "m", None, on=grid), spec((n, h, 4 * h), None, None, "m", on=grid),
            spec((n, 4 * h, h), None, "m", None, on=grid))  # fmt: skip
    return {
        "ring_matmul": (mapped(ring_matmul, P("x"), P("x"), donate_argnums=0), [rows]),
        "ring_loop": (mapped(ring_loop, (P("x"), P()), P("x")), [rows, square]),
        "both_ways": (mapped(both_ways, P("x"), P("x")), [rows]),
        "halo_stencil": (mapped(halo_stencil, P("x"), P("x"), donate_argnums=0), [spec((8192, 1024), "x")]),
        "moe_all_to_all": (mapped(experts, (P("x"), P()), P("x")), [spec((8192, 512), "x"), spec((512, 512))]),
        "reduce_scatter_gather": (
            mapped(scatter_gather, (P(None, "x"), P("x", None)), P(None, "x")),
            [spec((1024, 2048), None, "x"), spec((2048, 1024), "x", None)],
        ),
        "conditional_ring": (mapped(branches, (P("x"), P()), P("x")), [rows, number]),
        "pipeline_scan": (
            mapped(pipeline, (P("x"), P()), P(None, "x")),
            [spec((8, 512, 512), "x"), spec((16, 128, 512))],
        ),
        "donated_cache": (
            jax.jit(cache, donate_argnums=0),
            [spec((4096, 512), None, "x"), spec((16, 512), None, "x"), number],
        ),
        "fsdp_mlp": (
            jax.jit(sharded_step, donate_argnums=0, out_shardings=after),
            [weights, spec((1024, 1024), "x", None)],
        ),
        "adam_data_parallel": (jax.jit(adam, donate_argnums=(0, 1, 2)), [p, p, p, spec((1024, 512), "x")]),
        "tp_transformer_scan": (jax.jit(jax.grad(layers, argnums=1)), [spec((8, 128, h), "d", on=grid), deep]),
    }


def compile_all(out: Path, topology: str | None) -> list[str]:
    """Writes `NAME.hlo`, on a CPU also `NAME.assignment.txt`; the names."""
    dumps = out / "dumps"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["TPU_SKIP_MDS_QUERY"] = "1"
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    if topology is None:
        flags = f"--xla_force_host_platform_device_count={RANKS} --xla_dump_to={dumps} --xla_dump_hlo_as_text"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    import jax
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh

    described = topologies.get_topology_desc(platform="tpu", topology_name=topology) if topology else None
    devices = np.array(described.devices if described else jax.devices())
    made = programs(Mesh(devices.reshape(RANKS), ("x",)), Mesh(devices.reshape(2, 4), ("d", "m")))
    out.mkdir(parents=True, exist_ok=True)
    for name, (function, arguments) in made.items():
        shutil.rmtree(dumps, ignore_errors=True)
        (out / f"{name}.hlo").write_text(function.lower(*arguments).compile().as_text())
        for file in dumps.glob("*cpu_after_optimizations-buffer-assignment.txt"):
            shutil.move(file, out / f"{name}.assignment.txt")
    shutil.rmtree(dumps, ignore_errors=True)
    return list(made)


def main() -> int:
    """Prints the names of what was written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tpu", metavar="v5e:2x4")
    given = parser.parse_args()
    print("\n".join(compile_all(given.out, given.tpu)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
