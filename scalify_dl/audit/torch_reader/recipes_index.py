"""Recipes of ops that access by index, and of those that order."""

from __future__ import annotations

from typing import Any

import torch

from .recipes import recipe
from .world import Var, World, kind_of, prod


@recipe("aten.embedding", "aten.embedding_dense_backward")
def embedded(w: World, op: Any) -> dict[str, Any]:
    rows, width = max(w.extent(), 1), w.extent()
    index = w.index(w.shape(0, 2), rows, (torch.int64, torch.int32))
    padding = w.rng.choice([-1, 0, rows - 1])
    if "backward" in str(op):
        grad = w.tensor([*w.of(index).shape, width], "f")
        by = w.rng.random() < 0.1
        return {"grad_output": grad, "indices": index, "num_weights": rows, "padding_idx": padding,
                "scale_grad_by_freq": by}  # fmt: skip
    return {"weight": w.tensor([rows, width], "f"), "indices": index, "padding_idx": padding}


@recipe("aten._embedding_bag", "aten._embedding_bag_forward_only", "aten._embedding_bag_backward")
def bags(w: World, op: Any) -> dict[str, Any]:
    rows, count, bags = max(w.extent(), 1), w.rng.randint(1, 6), w.rng.randint(1, 3)
    offsets = torch.tensor(sorted([0, *[w.rng.randint(0, count) for _ in range(bags - 1)]]))
    mode, padding = w.rng.choice([0, 1]), w.rng.choice([-1, 0])
    table = w.tensor([rows, w.extent()], "f")
    weights = w.tensor([count], dtype=w.of(table).dtype) if mode == 0 and w.rng.random() < 0.3 else None
    index = w.index([count], rows)
    found = {"indices": index, "offsets": w.given(offsets), "mode": mode, "per_sample_weights": weights,
             "padding_idx": padding}  # fmt: skip
    if "backward" not in str(op):
        if last := w.rng.random() < 0.3:
            found["offsets"] = w.given(torch.cat([offsets, torch.tensor([count])]))
        return {"weight": table, **found, "include_last_offset": last}
    x, factors = w.of(table), None if weights is None else w.of(weights)
    kept = torch.ops.aten._embedding_bag(x, w.of(index), offsets, False, mode, False, factors, False, padding)[1:]
    names = ("offset2bag", "bag_size", "maximum_indices")
    return {"grad": w.tensor([bags, x.shape[1]], dtype=x.dtype), **found, "num_weights": rows, "sparse": False,
            "scale_grad_by_freq": False, **{n: w.given(k) for n, k in zip(names, kept, strict=True)}}  # fmt: skip


def _without(shape: Any, d: int) -> list[int]:
    return [n for e, n in enumerate(shape) if e != d % max(len(shape), 1)]


@recipe("aten.index_select", "aten.index_add", "aten.index_copy")
def by_row(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(rank=(1, 3))
    d = w.dim(w.of(x).dim())
    n = w.of(x).shape[d]
    count = w.rng.randint(0, max(n, 1))
    if "copy" in str(op):
        index = w.permutation([min(count, n)], 0, n)
        count = min(count, n)
    else:
        index = w.index([count], n, (torch.int64, torch.int32) if "copy" not in str(op) else (torch.int64,))
    found = {"self": x, "dim": d, "index": index}
    if "select" not in str(op):
        shape = list(w.of(x).shape)
        shape[d] = count
        found["source"] = w.tensor(shape, dtype=w.of(x).dtype)
    return found


@recipe("aten.gather", "aten.take_along_dim", "aten.scatter", "aten.scatter_add", "aten.scatter_reduce")
def along(w: World, op: Any) -> dict[str, Any]:
    name = str(op)
    x = w.tensor(rank=(1, 3))
    d = w.dim(w.of(x).dim())
    shape, n = list(w.of(x).shape), w.of(x).shape[d]
    part = [m if w.rng.random() < 0.7 else w.rng.randint(0, m) for m in shape]
    part[d] = w.rng.randint(0, n + 1) if "gather" in name or "take" in name else w.rng.randint(0, n)
    adds = "add" in name or "reduce" in name
    if "gather" in name or "take" in name or adds:
        if "take" in name:
            part = [m if w.rng.random() < 0.8 else 1 for m in shape]
        index = w.index(part, n)
    else:
        index = w.permutation(part, d % len(shape), n)
    found: dict[str, Any] = {"self": x, "dim": d}
    if "take" in name:
        return found | {"indices": index}
    found["index"] = index
    if "gather" in name:
        return found
    if "value" in name:
        found["value"] = w.number("fi" if kind_of(w.of(x)) == "f" else "i")
    else:
        found["src"] = w.tensor([m + w.rng.choice([0, 0, 1]) for m in part], dtype=w.of(x).dtype)
    if "scatter_reduce" in name:
        found["reduce"] = w.rng.choice(["sum", "prod", "mean", "amax", "amin"])
    elif "reduce" in name:
        found["reduce"] = w.rng.choice(["add", "multiply"])
    return found


@recipe("aten.index", "aten._unsafe_index", "aten.index_put", "aten._unsafe_index_put", "aten._index_put_impl")
def indexed(w: World, op: Any) -> dict[str, Any]:
    rng = w.rng
    x = w.tensor(rank=(1, 3))
    shape = list(w.of(x).shape)
    if "put" in str(op) and rng.random() < 0.3:
        part = shape[: rng.randint(1, len(shape))]
        mask = w.new(part, torch.uint8, 0, 1) if rng.random() < 0.2 else w.tensor(part, dtype=torch.bool)
        value = w.tensor([] if rng.random() < 0.6 else shape[len(w.of(mask).shape) :], dtype=w.of(x).dtype)
        return {"self": x, "indices": [mask], "values": value}
    common = w.shape(0, 2)
    indices: list[Var | None] = []
    for d in range(rng.randint(1, len(shape))):
        if rng.random() < 0.3:
            indices.append(None)
        else:
            part = [m if rng.random() < 0.8 else 1 for m in common][rng.choice([0, 0, len(common) // 2]) :]
            indices.append(w.index(part, shape[d], (torch.int64, torch.int64, torch.int32), wrap=True))
    if "put" not in str(op):
        return {"self": x, "indices": indices}
    accumulate = rng.random() < 0.5
    if not accumulate:  # positions that are written once
        d = rng.randrange(len(shape))
        indices = [None] * d + [w.permutation([rng.randint(0, shape[d])], 0, shape[d])]
    given = [i for i in indices if i is not None]
    if not given:
        return {"self": x, "indices": indices, "values": w.tensor([], dtype=w.of(x).dtype), "accumulate": accumulate}
    view = w.of(x)[tuple(slice(None) if i is None else w.of(i).long() for i in indices)]
    wanted = list(view.shape)
    if rng.random() < 0.4:
        wanted = [m if rng.random() < 0.6 else 1 for m in wanted][rng.randint(0, len(wanted)) :]
    return {"self": x, "indices": indices, "values": w.tensor(wanted, dtype=w.of(x).dtype), "accumulate": accumulate}


@recipe("aten.prod", "aten.cumprod")
def multiplied(w: World, op: Any) -> dict[str, Any]:
    """Few numbers, none of them large: products leave the range of their type soon."""
    return {"self": w.new(w.shape(), w.dtype(), -2, 2)}


@recipe("aten.topk", "aten.sort", "aten.argsort")
def ordered(w: World, op: Any) -> dict[str, Any]:
    """Distinct elements: the order of equal ones is not defined."""
    shape = w.shape(1, 3)
    dtype = w.rng.choice([*w.reals, torch.int64])
    x = w.permutation(shape, 0, prod(shape)) if len(shape) == 1 else w.new([0], dtype)
    values = w.permuted(prod(shape)).reshape(shape).to(dtype) - 3
    w.program.inputs[-1 - x.number] = values
    w.env[x.number] = values.clone()
    d = w.dim(len(shape))
    return {"self": x, "dim": d} | ({"k": w.rng.randint(0, shape[d]), "sorted": True} if "topk" in str(op) else {})


@recipe("aten.one_hot")
def hot(w: World, op: Any) -> dict[str, Any]:
    return {"self": w.index(w.shape(0, 2), 3), "num_classes": w.rng.choice([3, 4, 5])}
