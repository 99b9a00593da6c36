"""What pairs that are written differently cost at large sizes: CPU seconds of `dlverify verify`, at a size and at 16×.

    python benchmarks/large.py [--sizes 4096,65536] [--symbolic]

With `--symbolic` for all sizes: the size is a symbol, read from captures at this one and at 5/64 of it.

Needs the jax extra: attention against flash (scan over 8 blocks of keys, causal and not) and against a ring of 4 ranks,
LoRA merged and not, MLA absorbed and not, AdamW against one that is sharded over 4 ranks and written otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.sharding import Mesh, PartitionSpec
from verify import measure

from scalify_dl.capture.jax import capture

RANKS, BLOCKS, HEADS, SCALE = 4, 8, 128, 0.088388
SYMBOLS = {"LoRA": "x:0", "MLA": "x:0", "AdamW": "w:0"}
"""The dim that is a symbol, where it is not that of positions."""


def softmax(s):
    weights = jnp.exp(s - s.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def attention(q, k, v, causal=False):
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * SCALE
    if causal:
        i = jnp.arange(s.shape[-1])
        s = jnp.where(i[:, None] >= i[None], s, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", softmax(s), v)


def joined(carry, s, v):
    """One more block of keys: running maximum, sum and output."""
    m, total, out = carry
    higher = jnp.maximum(m, s.max(-1))
    p, old = jnp.exp(s - higher[..., None]), jnp.exp(m - higher)
    return higher, total * old + p.sum(-1), out * old[..., None] + jnp.einsum("bhqk,bhkd->bhqd", p, v)


def empty(q):
    zero = jnp.zeros(q.shape[:-1], q.dtype)
    return zero - jnp.inf, zero, jnp.zeros_like(q)


def flash(q, k, v, causal=False):
    size = k.shape[2] // BLOCKS

    def step(carry, i):
        kb, vb = (lax.dynamic_slice_in_dim(x, i * size, size, 2) for x in (k, v))
        s = jnp.einsum("bhqd,bhkd->bhqk", q, kb) * SCALE
        if causal:
            s = jnp.where(jnp.arange(q.shape[2])[:, None] >= (jnp.arange(size) + i * size)[None], s, -jnp.inf)
        return joined(carry, s, vb), None

    (_, total, out), _ = lax.scan(step, empty(q), jnp.arange(BLOCKS))
    return out / total[..., None]


def ring(q, k, v):
    carry, turn = empty(q), [(j, (j + 1) % RANKS) for j in range(RANKS)]
    for n in range(RANKS):
        carry = joined(carry, jnp.einsum("bhqd,bhkd->bhqk", q, k) * SCALE, v)
        if n < RANKS - 1:
            k, v = (lax.ppermute(x, "sp", turn) for x in (k, v))
    return carry[2] / carry[1][..., None]


def merged(x, w, a, b):
    return x @ (w + 0.5 * (a @ b))


def beside(x, w, a, b):
    return x @ w + 0.5 * ((x @ a) @ b)


def latent(x, c, wq, wk, wv):
    q, k, v = jnp.einsum("se,ehd->hsd", x, wq), jnp.einsum("tc,chd->htd", c, wk), jnp.einsum("tc,chd->htd", c, wv)
    return jnp.einsum("hst,htd->shd", softmax(jnp.einsum("hsd,htd->hst", q, k) * SCALE), v)


def absorbed(x, c, wq, wk, wv):
    q = jnp.einsum("se,ehd,chd->hsc", x, wq, wk)
    p = softmax(jnp.einsum("hsc,tc->hst", q, c) * SCALE)
    return jnp.einsum("hsc,chd->shd", jnp.einsum("hst,tc->hsc", p, c), wv)


def adamw(w, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    step = (m / (1 - 0.9**3)) / (jnp.sqrt(v / (1 - 0.999**3)) + 1e-8)
    return w - 0.01 * (step + 0.1 * w), m, v


def sharded_adamw(w, g, m, v):
    rows = w.shape[0] // RANKS
    w, g = (lax.dynamic_slice_in_dim(x, lax.axis_index("sp") * rows, rows, 0) for x in (w, g))
    m, v = m + (g - m) * 0.1, v * 0.999 + (g * g) * 0.001
    below = jnp.sqrt(v) / jnp.sqrt(1 - 0.999**3) + 1e-8
    w = w * (1 - 0.01 * 0.1) - (0.01 / (1 - 0.9**3)) * (m / below)
    return lax.all_gather(w, "sp", axis=0, tiled=True), m, v


def named(function, names):
    """The function with arguments of these names, by which inputs are paired."""
    return eval(f"lambda {names}: function({names})", {"function": function})


def dumps(folder: Path, size: int) -> dict[str, list[str]]:
    """Writes all pairs; the arguments of `dlverify verify` for each."""

    def array(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    def one_device(name, base, dist, arguments, names):
        for side, function in (("base", base), ("dist", dist)):
            text = jax.jit(named(function, names)).lower(*arguments).as_text(debug_info=True)
            (folder / f"{name}.{side}.mlir").write_text(text)
        found[name] = [str(folder / f"{name}.{side}.mlir") for side in ("base", "dist")] + ["--mesh", "tp=1"]
        (folder / "none.yaml").write_text("{}")
        found[name] += ["--relate", str(folder / "none.yaml")]

    def ranks(name, base, dist, arguments, names, inside, outside):
        spread = shard_map(named(dist, names), mesh=mesh, in_specs=inside, out_specs=outside, check_vma=False)
        capture(named(base, names), spread, arguments, mesh, directory=str(folder / name))
        found[name] = [str(folder / name / f"model.{side}.mlir") for side in ("base", "dist")]
        found[name] += ["--mesh", f"sp={RANKS}"]

    found: dict[str, list[str]] = {}
    mesh = Mesh(np.array(jax.devices()[:RANKS]), ("sp",))
    whole, rows, keys = PartitionSpec(), PartitionSpec("sp"), PartitionSpec(None, None, "sp")
    qkv, square = [array(2, HEADS, size, 128)] * 3, array(size, size)
    one_device("flash", attention, flash, qkv, "q, k, v")
    causal = [partial(f, causal=True) for f in (attention, flash)]
    one_device("flash, causal", *causal, qkv, "q, k, v")
    one_device("LoRA", merged, beside, [square, square, array(size, 64), array(64, size)], "x, w, a, b")
    heads = [array(n, HEADS, 128) for n in (size, 512, 512)]
    one_device("MLA", latent, absorbed, [square, array(size, 512), *heads], "x, c, wq, wk, wv")
    ranks("ring", attention, ring, qkv, "q, k, v", (keys,) * 3, keys)
    ranks("AdamW", adamw, sharded_adamw, [square] * 4, "w, g, m, v", (whole, whole, rows, rows), (whole, rows, rows))
    return found


def for_all(folder: Path, size: int) -> dict[str, list[str]]:
    """The arguments of `dlverify verify` for each pair, for all sizes."""
    found, there = dumps(folder, size), folder / "sample"
    there.mkdir()
    for name, arguments in dumps(there, size * 5 // 64).items():
        base, dist, _, mesh, *relations = arguments
        sample = " ".join(f"'{each}'" for each in (base, dist, mesh, *relations[1:]))
        found[name] += ["--symbolic", f"s={SYMBOLS.get(name, 'q:2')}", "--sample", sample]
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="4096,65536")
    parser.add_argument("--symbolic", action="store_true")
    options = parser.parse_args()
    print(f"{'pair':16} {'size':>7} {'CPU s':>6}  verdict")
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for size in map(int, options.sizes.split(",")):
            folder = Path(scratch) / str(size)
            folder.mkdir()
            for name, arguments in (for_all if options.symbolic else dumps)(folder, size).items():
                report, cpu, _ = measure(["verify", *arguments, "--json"])
                missed += report["verdict"] != "PROVED"
                print(f"{name:16} {size:>7} {cpu:6.2f}  {report['verdict']}", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
