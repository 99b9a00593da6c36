"""Calls of the ops that have a lowering: every overload that torch has of them, with arguments by the schema."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, NamedTuple

import torch

from scalify_dl.readers.fx.lowering import LOWERINGS

from ..children import Say
from . import recipes_fused as recipes_fused
from . import recipes_index as recipes_index
from . import recipes_windows as recipes_windows
from .recipes import RECIPES
from .world import Step, Var, World, items, kind_of, variables

__all__ = ["AVOIDED", "Overload", "overloads", "try_call"]

NAMED: dict[str, list[str]] = {
    "rounding_mode": ["floor", "trunc"], "approximate": ["tanh", "none"], "padding": ["same", "valid"],
    "reduce": ["sum", "prod", "amax", "amin", "mean"], "mode": ["constant", "constant", "reflect"],
}  # fmt: skip

COLLECTIVE = ("_c10d_functional", "c10d_functional", "_c10d_functional_autograd", "c10d", "_dtensor")
"""Where collectives are: they are drawn for programs of several ranks."""
PYTHON = ("aten.sort.Tensor", "aten.einsum.sublist")
"""Overloads of Python lists."""
KEPT = ("aten._embedding_bag.out", "aten._embedding_bag_forward_only.out")
RESIZED = ("aten.unbind_copy.int_out", "aten.split_with_sizes_copy.out")
ELSEWHERE = (
    "cudnn", "efficient_attention", "product_flash_attention.", "_flash_attention_backward.", "aten.cuda.", "mm.dtype",
    "_fused_rms_norm_backward",
)  # fmt: skip
FINITE = (
    "conv", "addm", "addbmm", "baddbmm", "sign", "sgn", "div", "remainder", "fmod", "attention", "grouped_mm", "norm",
    "backward", "loss", "var", "std", "elu", "silu", "softplus", "cross_entropy",
)  # fmt: skip
"""Parts of names of ops whose kernels differ at infinities."""
AVOIDED = {
    f"infinities in {', '.join(FINITE)}": "torch's own kernels differ there",
    "gradients of programs with values that are not finite": "torch's own kernels differ there",
    "numbers beyond f16 in these ops": "some kernels compute in f32, where these are finite",
    "products that leave f16": "a kernel multiplies one after the other, and infinity by 0 is no number",
    "elements in batch_norm that are a mean that is given": "kernels fold the mean, and leave a rounding of 0",
    "infinities of f16 in pow": "its CPU kernels alone compute a power where those of other types take a root",
    "rows of one value in layer_norm, group_norm": "deviations are rounding alone, and kernels round differently",
    "an `out` of softmax or gelu that is not row-major": "kernels write as if it were, or nothing",
    "bytes that are neither 0 nor 1 as booleans": "each op takes them for something else",
    "equal elements in sort, topk, argsort": "their order is not defined",
    "one place written twice in index_put, scatter, index_copy": "which is last is not defined",
}
"""What is never drawn of values, and why."""


class Overload(NamedTuple):
    """An overload of an op with a lowering, `name` in full."""

    name: str
    op: Any
    writes: bool


def overloads() -> tuple[list[Overload], dict[str, str]]:
    """Every overload in the table that this torch has and that can be run here, and why the others are left out."""
    found: dict[str, Overload] = {}
    left: dict[str, str] = {}
    for key in LOWERINGS:
        space, _, rest = key.partition(".")
        name, _, overload = rest.partition(".")
        if space in ("vllm", "_C", "apex", "transformers"):
            left[key] = "not part of torch"
        if key in left or space in COLLECTIVE:  # (those are in `recipes_ranks`)
            continue
        for written in (name, f"{name}_"):
            packet = getattr(getattr(torch.ops, space), written, None)
            if packet is None:
                if written == name:
                    left[key] = "this torch has no such op"
                continue
            for each in [overload] if overload else packet.overloads():
                reason = "this torch has no such overload" if not hasattr(packet, each) else None
                if reason is None:
                    op = getattr(packet, each)
                    writes = any(a.alias_info and a.alias_info.is_write for a in op._schema.arguments)
                    reason = _cannot_run(op, writes)
                    if reason is None:
                        found[str(op)] = Overload(str(op), op, writes)
                        continue
                if written == name:
                    left[f"{space}.{written}.{each}"] = reason
    return list(found.values()), left


def _cannot_run(op: Any, writes: bool) -> str | None:
    types = [str(a.real_type) for a in op._schema.arguments]
    if any(word in str(op) for word in ELSEWHERE):
        return "no kernel on a CPU"
    if str(op) in RESIZED:
        return "text does not show the sizes of a list that is resized"
    if str(op) in KEPT:
        return "writes what kernels keep for the backward, which is unknown"
    if str(op) in PYTHON:
        return "takes or gives Python values, no tensors"
    if any(t in ("Any", "List[t]", "List[str]", "complex") or "Dict" in t or "torch.classes" in t for t in types):
        return "takes or gives Python values, no tensors"
    if not any("Tensor" in str(r.real_type) for r in op._schema.returns) and not (writes and "Tensor" in types[0]):
        return "gives no tensor"
    return None


def try_call(
    w: World, overload: Overload, number: int, wanted: Container[str] = (), say: Say = lambda text: None
) -> tuple[Step, list[str]] | None:
    """Draws a call and runs it in the world; None where torch refuses it. Names the arguments off their defaults.

    `number` is that of its first result; `wanted` are arguments that should not be left at their defaults.
    """
    mark = len(w.program.inputs)
    try:
        args, kwargs, off = _arguments(w, overload.op, wanted)
        env = w.env
        values = [_value(arg, env) for arg in args]
        if _differs(overload.name, [*values, *kwargs.values()], env):
            raise ValueError("kernels differ at infinity")
        say(overload.name)
        out = overload.op(*values, **{key: _value(value, env) for key, value in kwargs.items()})
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, ZeroDivisionError, OverflowError,
            AssertionError, AttributeError, KeyError):  # fmt: skip
        del w.program.inputs[mark:]
        for n in [n for n in w.env if n < -mark]:
            del w.env[n]
        return None
    results: list[tuple[int, tuple[int, ...]]] = []
    for path, value in items(out):
        w.env[number] = value
        results.append((number, path))
        number += 1
    step = Step(overload.op, tuple(args), kwargs, tuple(results))
    w.program.steps.append(step)
    return step, off


def _differs(name: str, values: list[Any], env: dict[int, Any]) -> bool:
    """Whether torch's kernels for an op differ at what it is given."""
    plain = [_value(value, env) for value in values]
    single = [x for value in plain for x in (value if isinstance(value, list) else [value])]
    given = [torch.as_tensor(x) for x in single if isinstance(x, float | torch.Tensor)]
    half = torch.float16 in (*(x.dtype for x in given), *(x for x in single if isinstance(x, torch.dtype)))
    if half and "prod" in name:
        return any(float(x.double().abs().clamp(min=1).log2().sum()) > _F16 for x in given if not x.is_complex())
    if "batch_norm" in name and _at_a_mean(given):
        return True
    if not (half and "pow" in name) and not any(word in name for word in FINITE):
        return False
    beyond = any(isinstance(x, int) and abs(x) >= 2**_F16 for x in single)
    return (half and beyond) or not all(bool(x.isfinite().all()) for x in given)


_F16 = 15
"""Binary digits of the largest numbers of f16."""


def _at_a_mean(given: list[torch.Tensor]) -> bool:
    """Whether an element is one of the numbers that its channel is given."""
    x, *others = given
    if x.dim() < 2:
        return False
    channels = x.movedim(1, -1)
    return any(bool((channels == y).any()) for y in others if y.shape == channels.shape[-1:])


def _value(value: Any, env: dict[int, Any]) -> Any:
    if isinstance(value, Var):
        return env[value.number]
    return [_value(item, env) for item in value] if isinstance(value, list) else value


def _arguments(w: World, op: Any, wanted: Container[str]) -> tuple[list[Any], dict[str, Any], list[str]]:
    schema = op._schema
    name = str(op).rsplit(".", 1)[0].rstrip("_")
    make = RECIPES.get(name) or RECIPES.get(f"{name}_")
    given = make(w, op) if make else {}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    off: list[str] = []
    chosen: dict[str, Any] = {}
    apart = any(a.alias_info and a.alias_info.is_write for a in schema.arguments) and w.rng.random() < 0.7
    for a in schema.arguments:
        if a.name in given:
            value = given[a.name]
        elif a.has_default_value() and a.name not in wanted and w.rng.random() < 0.5:
            continue
        else:
            value = _argument(w, a, chosen, str(op), apart)
        if a.has_default_value() and _same(value, a.default_value):
            continue
        if a.has_default_value() or not isinstance(value, Var):
            off.append(a.name)
        chosen[a.name] = value
        skipped = len(args) < sum(1 for b in schema.arguments if not b.kwarg_only and b.name in chosen) - 1
        behind = [b.name for b in schema.arguments if not b.kwarg_only]
        if a.kwarg_only or skipped or (a.name in behind and behind.index(a.name) != len(args)):
            kwargs[a.name] = value
        else:
            args.append(value)
    return args, kwargs, off


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, Var) and value == default


def _argument(w: World, a: Any, chosen: dict[str, Any], op: str, apart: bool) -> Any:
    """A value of an argument's type; what its name says is heeded. `apart`: lists hold tensors of their own memory."""
    rng, type_ = w.rng, str(a.real_type)
    if type_.startswith("Optional["):
        if rng.random() < 0.15:
            return None
        type_ = type_[9:-1]
    tensors = [Var(n) for n in variables(chosen)]
    first = w.of(tensors[0]) if tensors else None
    rank = first.dim() if first is not None else 2
    if type_ == "Tensor" and a.name == "scalars" and "_foreach_" in op:  # a number for each
        return w.new([len(next(iter(chosen.values())))], w.dtype("f"))
    if type_ == "Tensor":
        if a.name in ("mask", "condition"):
            return w.tensor(None if first is None else w.of(w.like(tensors[0])).shape, dtype=torch.bool)
        if a.name == "out" or (a.alias_info and a.alias_info.is_write and first is not None):
            return w.new(w.shape(), w.dtype() if first is None else first.dtype, plain="softmax" in op or "gelu" in op)
        return w.like(tensors[-1]) if tensors else w.tensor(kinds="fffibc" if rng.random() < 0.1 else "ffib")
    before = next((v for v in chosen.values() if isinstance(v, list) and v and isinstance(v[0], Var)), None)
    if type_ == "List[Tensor]" and before is not None:  # as many as in the other list
        return [w.another(var) if apart else w.like(var, broadcast=False) for var in before]
    if type_ == "List[Tensor]" and apart:
        return [w.new(w.shape(), w.dtype("ffffib")) for _ in range(rng.randint(1, 2))]
    if type_ == "List[Tensor]":
        return [w.like(tensors[0], broadcast=False) if tensors else w.tensor() for _ in range(rng.randint(1, 2))]
    if type_ == "List[number]":
        return [w.number("fi") for _ in before or ()]
    if type_ == "int":
        return _integer(w, a.name, rank, first)
    if type_ == "List[int]":
        return _integers(w, a.name, rank)
    if type_ == "number":
        complexes = first is not None and kind_of(first) == "c"
        return w.number("fi" + "b" * (rng.random() < 0.2) + "c" * complexes)
    if type_ == "float":
        return rng.choice([0.0, 0.25, 0.5] if a.name in ("p", "dropout_p") else [0.5, 2.0, 1.0, -0.25, 0.125, 3.0])
    if type_ == "bool":
        return rng.random() < 0.5
    if type_ == "List[bool]":
        return [rng.random() < 0.7 for _ in range(3)]
    if type_ == "str":
        return rng.choice(NAMED.get(a.name, ["none"]))
    if type_ == "ScalarType":
        return w.dtype("ffffibc" if first is not None and kind_of(first) == "c" else "ffffib")
    if type_ == "Layout":
        return torch.strided
    if type_ == "Device":
        return torch.device("cpu")
    if type_ == "MemoryFormat":
        return rng.choice([torch.contiguous_format, torch.preserve_format])
    if type_ == "List[float]":
        return [0.5, 2.0]
    return None


def _integer(w: World, name: str, rank: int, first: Any) -> int:
    rng = w.rng
    if "dim" in name or name in ("axis",):
        return w.dim(rank)
    if name in ("start", "end", "index", "length", "storage_offset"):
        return rng.randint(-4, 6)
    if name == "step":
        return rng.randint(1, 3)
    if name == "reduction":
        return rng.randint(0, 2)
    if name in ("chunks", "split_size", "groups"):
        return rng.randint(1, 4)
    if name in ("diagonal", "shifts", "correction", "decimals"):
        return rng.randint(-2, 2)
    if name == "output_size":
        return rng.randint(0, 12)
    return rng.randint(0, 4)


def _integers(w: World, name: str, rank: int) -> list[int]:
    if "dim" in name:
        return w.dims(rank)
    if name in ("size", "sizes", "shape"):
        return w.shape()
    return [w.rng.randint(0, 3) for _ in range(w.rng.randint(0, 3))]


def named_arguments(overload: Overload) -> Iterator[str]:
    """The arguments of an overload that can be off their default: those with one, and values that are no tensors."""
    for a in overload.op._schema.arguments:
        if a.has_default_value() or "Tensor" not in str(a.real_type):
            yield a.name
