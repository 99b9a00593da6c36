"""A pair of many equal layers over dp and tp, one of which may be another one."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Pair
from scalify_dl.pairing.layers import rms_norm, silu

ROWS, HIDDEN, HEADS, SIZE, INNER = 4, 16, 4, 4, 32


def layered(layers: int = 10, *, odd: int = 5, base: str = "", dist: str = "", every: str = "") -> Pair:
    """`base` and `dist` say what is other in the odd layer of that side, `every` what is so in all layers of both."""
    pair = Pair("dp=2,tp=2")
    b, d = pair.base, pair.dist
    rows = 2 * ROWS
    inputs = {"x": ((rows, HIDDEN), {0: "dp"}), "last": ((HIDDEN,), {})}
    for n in range(layers):
        # the odd layer's weights may lie otherwise
        whole = n == odd and dist == "whole"
        cut = {} if whole else {1: "tp"}
        inputs |= {f"n{n}.{k}": ((HIDDEN,), {}) for k in "ab"}
        inputs |= {f"w{n}.{k}": ((HIDDEN, HIDDEN), cut) for k in "qkv"}
        inputs[f"w{n}.o"] = (HIDDEN, HIDDEN), {} if whole else {0: "tp"}
        inputs[f"w{n}.up"] = inputs[f"w{n}.gate"] = (HIDDEN, INNER), cut
        inputs[f"w{n}.down"] = (INNER, HIDDEN), {} if whole else {0: "tp"}
    of_base = {name: b.input(name, shape) for name, (shape, _) in inputs.items()}
    of_dist = {name: d.shard(name, dims) for name, (_, dims) in inputs.items()}
    for p, given, said in ((b, of_base, base), (d, of_dist, dist)):
        x = given["x"]
        before: Sequence[Tensor] = ()
        for n in range(layers):
            how = {*every.split(), *(said.split() if n == odd else ())}
            x, before = _layer(p, x, {k.split(".")[1]: t for k, t in given.items() if k[1:].startswith(f"{n}.")}, how,
                               before, p is d)  # fmt: skip
        p.output(rms_norm(p, x, given["last"]))
    return pair


def _layer(
    p: Program, x: Tensor, w: dict[str, Tensor], how: set[str], before: Sequence[Tensor], dist: bool
) -> tuple[Tensor, Sequence[Tensor]]:
    epsilon = 1e-3 if "epsilon" in how else 1e-5
    y = rms_norm(p, x, w["a"], epsilon)
    if "casts" in how:
        y = p.convert(p.convert(y, "bf16"), "f32")
    q, k, v = (p.matmul(y, w[name]) for name in "qkv")
    mine = k, v
    if "before" in how:
        k, v = before
    if "swapped" in how:
        k, v = v, k
    batch, heads = x.shape[0] // ROWS, q.shape[1] // SIZE
    q, k, v = (p.transpose(p.reshape(t, (batch, ROWS, heads, SIZE)), 0, 2, 1, 3) for t in (q, k, v))
    scores = p.multiply(p.dot(q, k, ([3], [3]), ([0, 1], [0, 1])), 0.25 if "scale" in how else 0.5)
    seen = p.compare(p.iota(scores.shape, 2), p.iota(scores.shape, 3), direction="GT" if "mask" in how else "GE")
    scores = p.select(seen, scores, p.full(-1e9, scores.shape))
    out = p.dot(p.softmax(scores, 3), v, ([3], [2]), ([0, 1], [0, 1]))
    out = p.reshape(p.transpose(out, 0, 2, 1, 3), (x.shape[0], heads * SIZE))
    x = p.add(x, _summed(p, p.matmul(out, w["o"]), dist, how, "attention"))
    y = rms_norm(p, x, w["b"])
    if "dropout" in how:
        y = p.multiply(y, p.convert(p.dropout_mask(y, 0.5), "f32"))
    gate, up = (w["up"], w["gate"]) if "exchanged" in how else (w["gate"], w["up"])
    inner = p.multiply(silu(p, p.matmul(y, gate)), p.matmul(y, up))
    return p.add(x, _summed(p, p.matmul(inner, w["down"]), dist, how, "mlp")), mine


def _summed(p: Program, x: Tensor, dist: bool, how: set[str], where: str) -> Tensor:
    if not dist or f"no sum of {where}" in " ".join(how).replace("_", " ") or "whole" in how:
        return x
    return p.all_reduce(x, "dp" if f"other_group_{where}" in how else "tp", "max" if f"max_{where}" in how else "sum")


def trained(layers: int = 20, *, odd: int = 9, dist: str = "", factor: float = 1.0) -> Pair:
    """A forward and its backward, over dp and tp: x + (x u)^2 d in each layer (times a `factor`, both ways); gradients
    of all u and d. `dist` says what is other in the odd layer's backward of the distributed side."""
    pair = Pair("dp=2,tp=2")
    b, d = pair.base, pair.dist
    b.input("x", (8, 6))
    for n in range(layers):
        b.input(f"u{n}", (6, 4))
        b.input(f"d{n}", (4, 6))
    d.shard("x", {0: "dp"})
    for n in range(layers):
        d.shard(f"u{n}", {1: "tp"})
        d.shard(f"d{n}", {0: "tp"})
    for p in (b, d):
        named = {port.tensor.name: port.tensor for port in p.graph.inputs}
        over = (lambda x, axis, p=p: p.all_reduce(x, axis)) if p is d else (lambda x, axis: x)
        x, kept = named["x"], []
        for n in range(layers):
            h = p.matmul(x, named[f"u{n}"])
            kept.append((x, h))
            square = p.multiply(h, h) if factor == 1.0 else p.multiply(p.multiply(h, h), factor)
            x = p.add(x, over(p.matmul(square, named[f"d{n}"]), "tp"))
        gradient, outputs = x, []
        for n in reversed(range(layers)):
            how = dist.split() if n == odd and p is d else []
            x, h = kept[n - 1 if "kept" in how else n]
            down = p.dot(p.multiply(h, h), gradient, ([0], [0]))
            outputs.append(down if "unsummed" in how else over(down, "tp" if "other_axis" in how else "dp"))
            twice = p.multiply(h, 3.0 if "factor" in how else 2.0)
            back = p.multiply(twice, p.dot(gradient, named[f"d{n}"], ([1], [1])))
            outputs.append(over(p.dot(x, back, ([0], [0])), "dp"))
            through = p.dot(back, named[f"u{n}"], ([1], [1]))
            through = through if factor == 1.0 else p.multiply(through, factor)
            gradient = p.add(gradient, through if "pending" in how else over(through, "tp"))
        p.output(*outputs, gradient)
    return pair


def scaled(layers: int = 20, *, odd: int | None = 9, how: str = "") -> Pair:
    """Each layer multiplies a sum that is pending by what the layer before gives, which in the odd layer (None: in all)
    may be infinite (`log`) or not (`tanh`), on both sides."""
    pair = Pair("tp=2")
    for p in (pair.base, pair.dist):
        x = p.input("x", (8, 6)) if p is pair.base else pair.dist.shard("x", {})
        for n in range(layers):
            if p is pair.base:
                u, d = p.input(f"u{n}", (6, 4)), p.input(f"d{n}", (4, 6))
            else:
                u, d = pair.dist.shard(f"u{n}", {1: "tp"}), pair.dist.shard(f"d{n}", {0: "tp"})
            y = p.multiply(p.matmul(p.matmul(x, u), d), x)
            x = p.add(x, y if p is pair.base else p.all_reduce(y, "tp"))
            if how and odd in (n, None):
                x = p.log(p.multiply(x, x)) if how == "log" else p.tanh(p.multiply(x, x))
        p.output(x)
    return pair


def shared(layers: int = 20, *, wrong: bool = True) -> Pair:
    """Each layer multiplies by weights of its own twice; in the distributed program those of layer 1, turned round and
    back before all layers, take the place of the second ones in layer 1 and, where wrong, in most of the others."""
    pair = Pair("tp=2")
    sizes = {f"w{n}": (8, 8) for n in range(layers)} | {"x": (4, 8)}
    for p in (pair.base, pair.dist):
        dist = p is pair.dist
        given = {k: pair.dist.shard(k, {}) if dist else pair.base.input(k, size) for k, size in sizes.items()}
        x = p.tanh(given["x"])
        first = p.transpose(p.transpose(given["w1"], 1, 0), 1, 0)
        for n in range(layers):
            own = given[f"w{n}"]
            other = first if dist and (n == 1 or (wrong and 1 < n < layers - 1)) else own
            x = p.add(x, p.multiply(p.tanh(p.matmul(p.tanh(x), own)), p.tanh(p.matmul(x, other))))
        p.output(x)
    return pair


def compiled(layers: int = 20, *, odd: int = 9, dist: str = "") -> Pair:
    """As a compiler dumps them: weights of several matrices, each cut over tp, calls of its own, and two tables that
    are not printed. `dist` says what is other in the odd layer of the distributed side."""
    pair = Pair("tp=2")
    given: dict[str, tuple[tuple[int, ...], dict[int, str], tuple[int, list[int]] | None]] = {"x": ((16, 4), {}, None)}
    for n in range(layers):
        given[f"norm{n}"] = (16,), {}, None
        given[f"in{n}"] = (16, 24), {1: "tp"}, (1, [8, 8, 8])
        given[f"out{n}"] = (8, 16), {0: "tp"}, None
    of_base = {name: pair.base.input(name, shape) for name, (shape, _, _) in given.items()}
    of_dist = {name: pair.dist.shard(name, dims, parts=parts) for name, (_, dims, parts) in given.items()}
    for p, inputs in ((pair.base, of_base), (pair.dist, of_dist)):
        tables = [p.graph.constant(Literal.elided(), "f32", (4,)) for _ in range(2)]
        x, epsilon = inputs["x"], p.graph.constant(1e-5, "f32")
        for n in range(layers):
            how = dist if n == odd and p is pair.dist else ""
            y = p.graph.add(
                "custom:AwsNeuronRmsNorm", [x, inputs[f"norm{n}"], epsilon], [(x.dtype, x.shape)]
            ).result  # fmt: skip
            all_three = p.dot(inputs[f"in{n}"], y, ([0], [0]))
            size = all_three.shape[0] // 3
            q, k, v = (p.slice(all_three, 0, at * size, (at + 1) * size) for at in range(3))
            scale, shift = (p.broadcast(t, q.shape, [1]) for t in (tables[::-1] if how == "tables" else tables))
            q, v = (v, q) if how == "parts" else (q, v)
            inner = p.add(p.multiply(p.multiply(q, k), scale), p.multiply(v, shift))
            out = p.dot(inputs[f"out{n}"], inner, ([0], [0]))
            if p is pair.dist and how != "unsummed":
                out = p.all_reduce(out, "tp")
            name = "Other" if how == "call" else "AwsNeuronTransferWithStaticRing"
            x = p.add(x, p.graph.add(f"custom:{name}", [out], [(out.dtype, out.shape)]).result)
        p.output(x)
    return pair
