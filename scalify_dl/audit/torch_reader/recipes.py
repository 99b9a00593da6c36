"""Arguments that hang together: what an op needs so that torch accepts the call at all.

A recipe gives some of the arguments by name; the others are drawn by their type (`calls`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from scalify_dl.registry import registering

from .world import Var, World, prod

Recipe = Callable[[World, Any], dict[str, Any]]
RECIPES: dict[str, Recipe] = {}
"""Op without overload (`aten.mm`) → its recipe."""

recipe = registering(RECIPES)
"""Registers the recipe of ops."""


def _named(op: Any, values: list[Any]) -> dict[str, Any]:
    """Values for the first arguments."""
    return dict(zip([a.name for a in op._schema.arguments], values, strict=False))


def _kind(w: World) -> Any:
    return w.dtype("ffffi")


# --- contractions ----------------------------------------------------------------------------------------------------


@recipe("aten.mm", "aten.mv", "aten.dot", "aten.vdot", "aten.outer", "aten.ger", "aten.bmm", "aten.matmul")
def product(w: World, op: Any) -> dict[str, Any]:
    n, m, k, b, dtype = w.extent(), w.extent(), w.extent(), w.extent(), _kind(w)
    shapes = {
        "mm": [[n, k], [k, m]], "mv": [[n, k], [k]], "dot": [[k], [k]], "vdot": [[k], [k]], "outer": [[n], [m]],
        "ger": [[n], [m]], "bmm": [[b, n, k], [b, k, m]],
    }  # fmt: skip
    name = str(op).split(".")[1].rstrip("_")
    if name == "matmul":
        left = w.rng.choice([[k], [n, k], [b, n, k], [1, n, k], [w.extent(), b, n, k]])
        right = w.rng.choice([[k], [k, m], [b, k, m], [1, k, m]])
    else:
        left, right = shapes[name]
    if w.rng.random() < 0.08:
        dtype = w.dtype("c")
    return _named(op, [w.tensor(left, dtype=dtype), w.tensor(right, dtype=dtype)])


@recipe("aten.addmm", "aten.addmv", "aten.baddbmm", "aten.addbmm", "aten.addr")
def plus_product(w: World, op: Any) -> dict[str, Any]:
    n, m, k, b, dtype = w.extent(), w.extent(), w.extent(), w.extent(), _kind(w)
    shapes = {
        "addmm": ([n, m], [n, k], [k, m]), "addmv": ([n], [n, k], [k]), "baddbmm": ([b, n, m], [b, n, k], [b, k, m]),
        "addbmm": ([n, m], [b, n, k], [b, k, m]), "addr": ([n, m], [n], [m]),
    }  # fmt: skip
    into, left, right = shapes[str(op).split(".")[1].rstrip("_")]
    if w.rng.random() < 0.3:
        into = [n if w.rng.random() < 0.6 else 1 for n in into][w.rng.randint(0, len(into)) :]
    numbers = "ib" if not dtype.is_floating_point else "fi"
    found = _named(op, [w.tensor(shape, dtype=dtype) for shape in (into, left, right)])
    return found | {key: w.number(numbers) for key in ("alpha", "beta") if w.rng.random() < 0.6}


@recipe("aten.linear")
def linear(w: World, op: Any) -> dict[str, Any]:
    k, m, dtype = w.extent(), w.extent(), w.dtype("f")
    x = w.tensor([*w.shape(0, 2), k], dtype=dtype)
    found = _named(op, [x, w.tensor(w.rng.choice([[m, k], [m, k], [k]]), dtype=dtype)])
    if w.rng.random() < 0.7 and w.of(found["weight"]).dim() == 2:
        found["bias"] = w.tensor([m], dtype=dtype)
    return found


@recipe("aten.einsum")
def einsum(w: World, op: Any) -> dict[str, Any]:
    letters = dict(zip("abcd", [w.extent() for _ in range(4)], strict=True))
    equation = w.rng.choice(
        ["ab,bc->ac", "ab,bc", "ab,cb->ca", "abc,cd->abd", "ab->ba", "ab->a", "ab->", "a,b->ab", "abc,abd->acd",
         "ab,ab->", "ab,bc,cd->ad", "abc,c", "ab,ab->ab", "...a,ab->...b", "aa->a", "ab, bc -> ca", "ab,a->b", "ba",
         "ab,cd->acbd"]
    )  # fmt: skip
    terms = equation.replace(" ", "").replace("...", "c").split("->")[0].split(",")
    dtype = w.dtype("f")
    return {"equation": equation, "tensors": [w.tensor([letters[c] for c in term], dtype=dtype) for term in terms]}


@recipe("aten.convolution", *(f"aten.conv{transposed}{n}d" for transposed in ("", "_transpose") for n in (1, 2, 3)))
def convolution(w: World, op: Any) -> dict[str, Any]:
    rng = w.rng
    name = str(op).split(".")[1].rstrip("_")
    rank = rng.randint(1, 2) if name == "convolution" else int(name[-2])
    groups, dtype = rng.choice([1, 1, 2]), w.dtype("f")
    window = [rng.randint(1, 3) for _ in range(rank)]
    transposed = rng.random() < 0.2 if name == "convolution" else "transpose" in name
    inner, outer = groups * rng.randint(1, 2), groups * rng.randint(1, 2)
    shape = [outer, inner // groups] if not transposed else [inner, outer // groups]
    batch = [] if name != "convolution" and rng.random() < 0.15 else [rng.randint(1, 2)]
    found: dict[str, Any] = {
        "input": w.tensor([*batch, inner, *[rng.randint(3, 6) for _ in range(rank)]], dtype=dtype),
        "weight": w.tensor([*shape, *window], dtype=dtype),
        "bias": w.tensor([outer], dtype=dtype) if rng.random() < 0.6 else None,
        "stride": [rng.randint(1, 2) for _ in range(rng.choice([1, rank]))],
        "padding": [rng.randint(0, 2) for _ in range(rng.choice([1, rank]))],
        "dilation": [rng.randint(1, 2) for _ in range(rng.choice([1, rank]))],
        "groups": groups,
    }
    if name == "convolution":
        found |= {"transposed": transposed, "output_padding": [0] * rank}
        found |= {key: [rng.randint(1, 2)] * rank for key in ("stride", "dilation")} | {"padding": [1] * rank}
    if str(op).endswith("padding"):
        found["padding"] = rng.choice(["same", "valid"])
        if found["padding"] == "same":
            found["stride"] = [1]
    return found


# --- shapes ----------------------------------------------------------------------------------------------------------


def _split_up(w: World, count: int) -> list[int]:
    """A shape with so many elements."""
    shape = []
    while count > 1 and w.rng.random() < 0.8:
        factor = w.rng.choice([n for n in range(1, count + 1) if count % n == 0])
        shape.append(factor)
        count //= factor
    shape += [count] if count != 1 or not shape else []
    w.rng.shuffle(shape)
    if shape and prod(shape) and w.rng.random() < 0.3:
        shape[w.rng.randrange(len(shape))] = -1
    return shape


@recipe("aten.view", "aten.reshape", "aten._unsafe_view", "aten.view_copy", "aten._reshape_copy", "prims.reshape")
def resized(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(kinds="fibc")
    if str(op).endswith(".dtype"):
        return {"self": x, "dtype": w.dtype("ffffiiic")}
    size = _split_up(w, w.of(x).numel())
    if str(op).startswith("prims"):
        known = prod([n for n in size if n != -1])
        return {"a": x, "shape": [w.of(x).numel() // max(known, 1) if n == -1 else n for n in size]}
    return {"self": x, "size": size}


DENSE = ("aten.full.default", "aten.mm.default", "aten.zeros.default")
"""Ops whose results surely lie row-major."""
BEFORE = dict.fromkeys(("aten.as_strided.default", "aten.as_strided_.default"), "aten.mm.default")
"""What is called before an overload, for it to be lowered at all."""


@recipe("aten._reshape_alias", "aten.as_strided")
def strided(w: World, op: Any) -> dict[str, Any]:
    """Of what surely lies row-major, if there is such a value."""
    dense = [n for step in w.program.steps if str(step.op) in DENSE for n, _ in step.results]
    x = Var(w.rng.choice(dense)) if dense and w.rng.random() < 0.8 else w.tensor()
    if not w.of(x).is_contiguous():  # the reader assumes it of an input, and says so
        x = w.new(w.of(x).shape, w.of(x).dtype, plain=True)
    size = [n for n in _split_up(w, w.of(x).numel()) if n != -1]
    stride, step = [], 1
    for n in reversed(size):
        stride.append(step)
        step *= n
    return {"self": x, "size": size, "stride": stride[::-1]}


@recipe("aten.expand", "aten.expand_copy", "aten.broadcast_to")
def expanded(w: World, op: Any) -> dict[str, Any]:
    shape = w.shape()
    x = w.tensor([n if w.rng.random() < 0.5 else 1 for n in shape])
    size = [-1 if n == m and w.rng.random() < 0.3 else n for n, m in zip(shape, w.of(x).shape, strict=True)]
    return {"self": x, "size": [*w.shape(0, 1), *size]}


@recipe("aten.expand_as")
def expanded_as(w: World, op: Any) -> dict[str, Any]:
    other = w.tensor()
    return {"self": w.like(other), "other": other}


@recipe("aten.view_as", "aten.reshape_as")
def resized_as(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor()
    return {"self": x, "other": w.tensor([abs(n) for n in _split_up(w, w.of(x).numel())])}


@recipe("aten.unflatten")
def unflattened(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(rank=(1, 3))
    d = w.dim(w.of(x).dim())
    return {"self": x, "dim": d, "sizes": _split_up(w, w.of(x).shape[d])}


@recipe("aten.permute", "aten.permute_copy", "prims.transpose", "aten.empty_permuted")
def permuted(w: World, op: Any) -> dict[str, Any]:
    if "empty" in str(op):
        size = w.shape()
        return {"size": size, "physical_layout": w.rng.sample(range(len(size)), len(size))}
    x = w.tensor()
    rank = w.of(x).dim()
    order = [d - rank if w.rng.random() < 0.3 and "aten" in str(op) else d for d in w.rng.sample(range(rank), rank)]
    return _named(op, [x, order])


@recipe("aten.movedim", "aten.moveaxis")
def moved(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(rank=(1, 3))
    rank = w.of(x).dim()
    if str(op).endswith("int"):
        return {"self": x, "source": w.dim(rank), "destination": w.dim(rank)}
    count = w.rng.randint(0, rank)
    return _named(op, [x, w.rng.sample(range(rank), count), w.rng.sample(range(rank), count)])


@recipe("aten.split_with_sizes", "aten.split_with_sizes_copy", "aten.split", "aten.split_copy")
def split(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(rank=(1, 3))
    d = w.dim(w.of(x).dim())
    n = w.of(x).shape[d]
    if str(op).endswith(".Tensor"):
        return {"self": x, "split_size": w.rng.randint(1, max(n, 1) + 1), "dim": d}
    cut = w.rng.randint(0, n)
    names = [a.name for a in op._schema.arguments]
    return {"self": x, names[1]: w.rng.choice([[cut, n - cut], [n], [cut, 0, n - cut]]), "dim": d}


@recipe("aten.t", "aten.t_copy", "aten.numpy_T")
def flat(w: World, op: Any) -> dict[str, Any]:
    return {"self": w.tensor(kinds="fibc", rank=(0, 2))}


@recipe("aten.mT", "aten.adjoint", "aten.tril", "aten.triu")
def square(w: World, op: Any) -> dict[str, Any]:
    return {"self": w.tensor(kinds="fib" if "tri" in str(op) else "fibc", rank=(2, 3))}


@recipe("aten.cat", "aten.concat", "aten.concatenate", "aten.stack")
def joined(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(rank=(1, 3))
    d = w.dim(w.of(x).dim())
    parts = [x]
    for _ in range(w.rng.randint(0, 2)):
        shape = list(w.of(x).shape)
        if "stack" not in str(op):
            shape[d] = w.extent()
        parts.append(w.tensor(shape, dtype=w.of(x).dtype if w.rng.random() < 0.7 else None))
    if "stack" not in str(op) and w.rng.random() < 0.1:
        parts.insert(w.rng.randint(0, len(parts)), w.new([0], w.of(x).dtype))
    return {"tensors": parts, "dim": d}


@recipe("aten.slice_scatter", "aten.select_scatter")
def written(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(rank=(1, 3))
    d = w.dim(w.of(x).dim())
    shape, n = list(w.of(x).shape), w.of(x).shape[d]
    if "select" in str(op):
        del shape[d]
        return {"self": x, "src": w.tensor(shape), "dim": d, "index": w.rng.randint(-max(n, 1), max(n, 1) - 1)}
    start, end, step = w.rng.randint(-n, n), w.rng.randint(-n, n + 1), w.rng.randint(1, 3)
    shape[d] = len(range(n)[start:end:step])
    return {"self": x, "src": w.tensor(shape), "dim": d, "start": start, "end": end, "step": step}


@recipe("aten.slice_backward", "aten.select_backward")
def unsliced(w: World, op: Any) -> dict[str, Any]:
    sizes = w.shape(1, 3)
    d = w.dim(len(sizes))
    shape, n = list(sizes), sizes[d]
    if "select" in str(op):
        del shape[d]
        found = {"index": w.rng.randint(-max(n, 1), max(n, 1) - 1)}
    else:
        start, end, step = w.rng.randint(-n, n), w.rng.randint(-n, n + 1), w.rng.randint(1, 3)
        shape[d] = len(range(n)[start:end:step])
        found = {"start": start, "end": end, "step": step}
    return {"grad_output": w.tensor(shape, "f"), "input_sizes": sizes, "dim": d, **found}


@recipe("aten.constant_pad_nd", "aten.pad")
def padded(w: World, op: Any) -> dict[str, Any]:
    if "pad.default" in str(op) and w.rng.random() < 0.5:  # with elements of its own
        image = [w.rng.randint(2, 4) for _ in range(w.rng.randint(1, 3))]
        lead = [w.rng.randint(1, 2) for _ in range(w.rng.choice([1, 2]))]
        amounts = [w.rng.randint(0, n - 1) for n in reversed(image) for _ in range(2)]
        mode = w.rng.choice(["reflect", "replicate", "circular"])
        return {"self": w.new([*lead, *image], w.dtype("f")), "pad": amounts, "mode": mode, "value": None}
    x = w.tensor(rank=(1, 3))
    return {"self": x, "pad": [w.rng.randint(-1, 2) for _ in range(2 * w.rng.randint(0, w.of(x).dim()))]}


@recipe("aten.rot90")
def quarter_turned(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(rank=(2, 3))
    return {"self": x, "k": w.rng.randint(-3, 5), "dims": w.rng.sample(range(w.of(x).dim()), 2)}


@recipe("aten.tensor_split")
def split_unevenly(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(rank=(1, 3))
    dim = w.rng.randrange(w.of(x).dim())
    cuts = [w.rng.randint(-2, 5) for _ in range(w.rng.randint(0, 3))]
    return {"self": x, "dim": dim, "sections": w.rng.randint(1, 4), "indices": cuts}


@recipe("aten.roll", "aten.flip", "aten.repeat", "aten.tile")
def turned(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor()
    rank = w.of(x).dim()
    dims = w.dims(rank)
    if "roll" in str(op):
        return {"self": x, "dims": dims, "shifts": [w.rng.randint(-4, 4) for _ in dims] or [w.rng.randint(-4, 4)]}
    if "flip" in str(op):
        return {"self": x, "dims": dims}
    count = rank + w.rng.randint(0, 1) if "repeat" in str(op) else w.rng.randint(0, rank + 1)
    return _named(op, [x, [w.rng.choice([1, 1, 2, 3, 0]) for _ in range(count)]])


@recipe("aten.complex", "aten.polar")
def complexes(w: World, op: Any) -> dict[str, Any]:
    shape = w.shape()
    dtype = w.rng.choice([torch.float32, torch.float64])
    found = _named(op, [w.tensor(shape, dtype=dtype), w.tensor(shape, dtype=dtype)])
    whole = torch.complex64 if dtype == torch.float32 else torch.complex128
    return found | ({"out": w.new(shape, whole)} if str(op).endswith("out") else {})


@recipe("aten.narrow")
def part(w: World, op: Any) -> dict[str, Any]:
    x = w.tensor(rank=(1, 3))
    d = w.dim(w.of(x).dim())
    size = w.of(x).shape[d]
    start = w.rng.randint(0, size)
    found: dict[str, Any] = {"self": x, "dim": d, "length": w.rng.randint(0, size - start)}
    found["start"] = w.new([], torch.int64, start, start) if "Tensor" in str(op) else start - size * (start < size)
    return found


@recipe("aten.view_as_complex")
def pairs(w: World, op: Any) -> dict[str, Any]:
    return {"self": w.new([*w.shape(0, 2), 2], w.rng.choice([torch.float32, torch.float64]))}


@recipe("aten.view_as_real", "aten.real", "aten.imag", "aten.resolve_conj")
def parts(w: World, op: Any) -> dict[str, Any]:
    return {"self": w.tensor(kinds="c")}
