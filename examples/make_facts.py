"""Writes the shipped fact sets under `facts/`: small programs with their expected verdicts, each also with one bug.

    python examples/make_facts.py [DIRECTORY]

A set's name ends in the bug that it has; `expected.json` says what `dlverify run` must find.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scalify_dl.facts.files import write
from scalify_dl.ir.graph import Tensor
from scalify_dl.pairing.builder import Distributed, Pair, Program

ROWS, HIDDEN, INNER = 8, 16, 64


def row_parallel_linear(bug: str = "") -> Pair:
    """y = x w + b over tp=2: each rank contracts half of the features, an all-reduce adds the halves."""
    pair = Pair("tp=2", title="row-parallel linear layer")
    b = pair.base
    x, w, bias = b.input("x", (ROWS, HIDDEN)), b.input("w", (HIDDEN, 32)), b.input("bias", (32,))
    b.output(b.add(b.matmul(x, w), b.broadcast(bias, (ROWS, 32), [1])))

    d = pair.dist
    partial = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    bias = d.broadcast(d.shard("bias"), (ROWS, 32), [1])
    if bug == "bias_per_rank":
        d.output(d.all_reduce(d.add(partial, bias), "tp"))  # the bias is added once per rank
    else:
        d.output(d.add(d.all_reduce(partial, "tp"), bias))
    return pair


def megatron_mlp(bug: str = "") -> Pair:
    """y = gelu(x w1) w2 over dp=2, tp=2: column-parallel, then row-parallel; the batch is split over dp."""
    pair = Pair("dp=2,tp=2", title="Megatron MLP")
    b = pair.base
    x, w1, w2 = b.input("x", (ROWS, HIDDEN)), b.input("w1", (HIDDEN, INNER)), b.input("w2", (INNER, HIDDEN))
    b.output(b.matmul(b.gelu(b.matmul(x, w1)), w2))

    d = pair.dist
    x, w1, w2 = d.shard("x", {0: "dp"}), d.shard("w1", {1: "tp"}), d.shard("w2", {0: "tp"})
    partial = d.matmul(d.gelu(d.matmul(x, w1)), w2)
    d.output(d.all_reduce(partial, "dp" if bug == "wrong_group" else "tp"))
    return pair


HEADS, KV_HEADS, HEAD = 8, 4, 8


def attention(p: Program, x: Tensor, wqkv: Tensor, wo: Tensor, heads: int, kv_heads: int, bug: str = "") -> Tensor:
    """Grouped-query attention with `heads` query and `kv_heads` key/value heads and one fused projection."""
    sizes = [heads * HEAD, kv_heads * HEAD, kv_heads * HEAD]
    qkv = p.matmul(x, wqkv)
    q, k, v = p.split(qkv, 1, sizes)
    if bug == "key_slice":
        k = p.slice(qkv, 1, 0, sizes[1])  # the first columns are queries
    group = heads // kv_heads
    q = p.reshape(q, (ROWS, kv_heads, group, HEAD))
    k, v = (p.reshape(t, (ROWS, kv_heads, HEAD)) for t in (k, v))
    scores = p.dot(q, k, contract=([3], [2]), batch=([1], [1]))  # [kv head, query, group, key]
    weights = p.softmax(p.multiply(scores, HEAD**-0.5), 3)
    mixed = p.dot(weights, v, contract=([3], [0]), batch=([0], [1]))  # [kv head, query, group, head dim]
    return p.matmul(p.reshape(p.transpose(mixed, 1, 0, 2, 3), (ROWS, heads * HEAD)), wo)


def gqa_fused_qkv(bug: str = "") -> Pair:
    """Grouped-query attention over tp=2: the fused qkv weight is split part by part, one all-reduce at the end."""
    pair = Pair("tp=2", title="grouped-query attention with fused qkv")
    parts = [HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD]
    b = pair.base
    x, wqkv, wo = b.input("x", (ROWS, 32)), b.input("wqkv", (32, sum(parts))), b.input("wo", (HEADS * HEAD, 32))
    b.output(attention(b, x, wqkv, wo, HEADS, KV_HEADS))

    d: Distributed = pair.dist
    x, wqkv, wo = d.shard("x"), d.shard("wqkv", {1: "tp"}, parts=(1, parts)), d.shard("wo", {0: "tp"})
    d.output(d.all_reduce(attention(d, x, wqkv, wo, HEADS // 2, KV_HEADS // 2, bug), "tp"))
    return pair


PROGRAMS = {
    "row_parallel_linear": (
        row_parallel_linear,
        "bias_per_rank",
        "the bias is added on every rank, before the all-reduce",
    ),
    "megatron_mlp": (megatron_mlp, "wrong_group", "the all-reduce runs over dp instead of tp"),
    "gqa_fused_qkv": (gqa_fused_qkv, "key_slice", "the keys are the first columns of the fused projection: queries"),
}


def main(directory: Path) -> None:
    """Writes every set."""
    for name, (build, bug, what) in PROGRAMS.items():
        summary = (build.__doc__ or "").strip()
        for variant, expected, text in (
            ("", "PROVED", summary),
            (bug, "REFUTED", f"{summary}\n\nBug: {what}."),
        ):
            target = directory / (f"{name}_{variant}" if variant else name)
            write(build(variant).facts(), target)
            readme = f"{text}\n\nExpected verdict: {expected}. Made by `python examples/make_facts.py`.\n"
            (target / "README.md").write_text(readme, encoding="utf-8")
            (target / "expected.json").write_text(json.dumps({"verdict": expected}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("facts"))
