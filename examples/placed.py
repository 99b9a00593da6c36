"""Nine distributed programs without a baseline, each right and wrong, and what `lint` says of them.

    python examples/placed.py
"""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.lint.judge import Result, lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.pairing import layers

DEMOS: dict[str, tuple[str, Callable[[Alone, bool], None]]] = {}


def demo(mesh: str) -> Callable[[Callable[[Alone, bool], None]], Callable[[Alone, bool], None]]:
    """Enters a program, which is told whether to be right."""

    def enter(build: Callable[[Alone, bool], None]) -> Callable[[Alone, bool], None]:
        DEMOS[build.__name__] = (mesh, build)
        return build

    return enter


@demo("tp=2")
def tensor_parallel_mlp(p: Alone, ok: bool) -> None:
    """Wrong: the activation of what is not reduced yet."""
    x, up = p.place("x", (8, 16), {1: "tp"}), p.place("up", (16, 32), {0: "tp"})
    y = p.matmul(x, up)
    p.result(layers.silu(p, p.all_reduce(y, "tp")) if ok else p.all_reduce(layers.silu(p, y), "tp"))


@demo("tp=2")
def row_parallel_bias(p: Alone, ok: bool) -> None:
    """Wrong: the bias is added once per rank."""
    x, w = p.place("x", (8, 16), {1: "tp"}), p.place("w", (16, 4), {0: "tp"})
    bias = p.broadcast(p.place("bias", (4,)), (8, 4), [1])
    y = p.matmul(x, w)
    p.result(p.add(p.all_reduce(y, "tp"), bias) if ok else p.all_reduce(p.add(y, bias), "tp"))


@demo("tp=2")
def attention_heads(p: Alone, ok: bool) -> None:
    """Wrong: the projection behind the heads is not reduced."""
    q, k, v = (p.place(name, (4, 8, 16), {0: "tp"}) for name in "qkv")
    w = p.place("w", (4, 16, 8), {0: "tp"})
    y = p.dot(layers.attention(p, q, k, v, causal=True), w, ([0, 2], [0, 1]))
    p.result(p.all_reduce(y, "tp") if ok else y)


@demo("tp=2")
def sequence_parallel_norm(p: Alone, ok: bool) -> None:
    """Wrong: columns are in blocks, and each rank takes the mean of its own."""
    x, w = p.place("x", (8, 16), {0 if ok else 1: "tp"}), p.place("w", (16,), {} if ok else {0: "tp"})
    y = p.all_gather(layers.rms_norm(p, x, w), "tp", 0 if ok else 1)
    p.result(p.matmul(y, p.place("up", (16, 8), {1: "tp"})), {1: "tp"})


@demo("dp=2")
def data_parallel_gradient(p: Alone, ok: bool) -> None:
    """Wrong: gradients are not summed."""
    x, g = p.place("x", (8, 16), {0: "dp"}), p.place("g", (8, 4), {0: "dp"})
    dw = p.dot(x, g, ([0], [0]))
    p.result(p.all_reduce(dw, "dp") if ok else dw)


@demo("dp=2")
def zero_step(p: Alone, ok: bool) -> None:
    """Wrong: the step is taken with the gradient of the rank's own rows."""
    w = p.place("w", (16, 4), {0: "dp"})
    x, g = p.place("x", (8, 16), {0: "dp"}), p.place("g", (8, 4), {0: "dp"})
    dw = p.dot(x, g, ([0], [0]))
    mine = p.reduce_scatter(dw, "dp", 0) if ok else p.shard_of(dw, 0, "dp")
    p.result(layers.zero_gather(p, p.subtract(w, p.multiply(mine, 0.1)), "dp"))


@demo("tp=2")
def fp8_projection(p: Alone, ok: bool) -> None:
    """Wrong: parts of a sum are rounded."""
    x, w = p.place("x", (8, 16), {1: "tp"}), p.place("w", (16, 4), {0: "tp"})
    y = p.matmul(x, w)
    if ok:
        y = p.all_reduce(y, "tp")
    q, scale = layers.quantise(p, y, p.place("amax", ()))
    y = layers.dequantise(p, q, scale)
    p.result(y if ok else p.all_reduce(y, "tp"))


@demo("ep=2")
def experts(p: Alone, ok: bool) -> None:
    """Wrong: what the experts of a rank make is taken for what all make."""
    x, scores = p.place("x", (8, 16), {0: "ep"}), p.place("scores", (8, 4), {0: "ep"})
    w = p.place("w", (4, 16, 16), {0: "ep"})
    gate = layers.top_k_gate(p, scores, 2)
    y = layers.expert(p, layers.moe_dispatch(p, x, gate, "ep"), w)
    if ok:
        p.result(layers.moe_combine(p, y, gate, "ep"), {0: "ep"})
    else:
        p.result(p.reduce(y, 0))


@demo("tp=2")
def copied_into_the_region(p: Alone, ok: bool) -> None:
    """Wrong: values are right, the gradient of what is invariant is each rank's own."""
    x = p.place("x", (8, 16), types={"tp": "I"})
    up, down = p.place("up", (16, 32), {1: "tp"}), p.place("down", (32, 16), {0: "tp"})
    h = p.convert_type(x, "tp", "I", "R") if ok else x
    p.result(p.typed("all_reduce", p.matmul(p.relu(p.matmul(h, up)), down), "tp", "V", "I"))


def judged(name: str, ok: bool) -> Result:
    """What lint says of a demo."""
    mesh, build = DEMOS[name]
    p = Alone(mesh)
    build(p, ok)
    return lint_graph(p.graph, p.mesh)


if __name__ == "__main__":
    for name in DEMOS:
        right, wrong = judged(name, True), judged(name, False)
        kinds = ", ".join(dict.fromkeys(f.kind for f in wrong.findings if f.level == "error"))
        print(f"{name:26} right: {right.verdict.value:8} wrong: {wrong.verdict.value:8} {kinds}")
