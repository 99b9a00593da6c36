"""PyTorch models → FX text and JSON: the joint forward and backward graph that every rank runs.

    def build(mesh):                                  # mesh is None for the baseline
        model = MLP()
        if mesh is not None:
            parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        return model, (torch.randn(8, 16),), {}       # the model returns its loss

    capture_pair(build, {"tp": 4}, "dump/mlp")        # dump/mlp.base.fx.txt, dump/mlp.r0.fx.txt …, each with its JSON

    capture_exported(model, (x,), "dump/net", dynamic_shapes={"x": {0: Dim("batch")}})   # sizes left open

Ranks are played one after the other on this machine, under a process group that moves no data: no device and no
launcher is needed. The graph of `capture` is what AOTAutograd traces: ATen ops, DTensors made local, collectives as
`_c10d_functional` ops. What runs outside of it (gradient hooks, the optimiser) is not captured.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from scalify_dl.capture.family import write_family
from scalify_dl.errors import InputError

from .dumps import SOURCE, groups_of, in_mesh_order, placements_of, rank_of, shortened, write_dump
from .lines import BACKWARD
from .ranks import apart, fake_rank

__all__ = ["Build", "capture", "capture_exported", "capture_family", "capture_pair", "capture_ranks"]

OUTSIDE = ["hooks on gradients, and the optimiser"]
"""What a training step does behind the joint graph of forward and backward."""
_FRAME = re.compile(r'(?m)^(\s*File ".*", line \d+, in .+)$')
MAX_CONSTANT = 4096
"""Elements of the largest constant whose value is written."""

Build = Callable[["DeviceMesh | None"], tuple[nn.Module, Sequence[Any], Mapping[str, Any]]]
"""Makes the model (distributed over a mesh, or not) and its arguments; the same names on every rank."""


def capture(
    model: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    path: str | Path,
    mesh: Mapping[str, int] | None = None,
) -> Path:
    """Captures the joint graph of a model that returns its loss, as the current rank runs it (of `mesh`, if given).

    Writes `<path>.fx.txt` and `<path>.json`; returns the former. Parameters that require no gradient are inputs only.
    """
    try:
        from torch._dynamo.functional_export import dynamo_graph_capture_for_export
        from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
    except ImportError as error:
        raise RuntimeError(f"capture needs torch 2.9 or newer, this is {torch.__version__}") from error

    _without_hooks(model)
    args, kwargs = _distinct(args, kwargs)
    traced = dynamo_graph_capture_for_export(model)(*args, **kwargs)
    with contextlib.ExitStack() as stack:
        joint = aot_export_joint_with_descriptors(stack, traced, args, kwargs)
        module = joint.graph_module
        _mark_backward(module)
        text = SOURCE.sub(shortened, module.print_readable(print_output=False))
        placements = placements_of(model)
        annotation = {
            **_ports(module),
            "placements": placements,
            "gradients": _gradients(joint, placements),
            "groups": groups_of(),
            "constants": _constants(module),
            "outside": OUTSIDE,
            **rank_of(mesh),
        }
    return write_dump(path, text, annotation)


def _mark_backward(module: torch.fx.GraphModule) -> None:
    """Has the text say of ops of the backward, which bear the lines of what they differentiate, that they are."""
    for node in module.graph.nodes:
        if node.meta.get("autograd_backward") and node.meta.get("stack_trace"):
            node.meta["stack_trace"] = _FRAME.sub(rf"\1{BACKWARD}", node.meta["stack_trace"])


def _without_hooks(model: nn.Module) -> None:
    """InputError for a parameter whose gradient a hook changes: this graph ends before hooks."""
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise InputError(
                f"a hook is to change the gradient of `{name}`, and a graph of forward and backward has no hooks",
                expected="a step, which `scalify_dl.capture_step` records with its hooks",
                hint="the builder then returns model, arguments and a step: docs/frontends.md",
            )


def _distinct(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as every program gets them: keywords and keys of dicts in alphabetical order, so that positions mean
    the same whatever order a call has; and no tensor twice, as a trace would take two arguments for one."""
    seen: set[int] = set()

    def one(value: Any) -> Any:
        if type(value) is dict:
            return {key: one(value[key]) for key in sorted(value, key=str)}
        if type(value) in (list, tuple):
            return type(value)(one(item) for item in value)
        if isinstance(value, torch.Tensor):
            if id(value) in seen:
                return value.detach().clone().requires_grad_(value.requires_grad)
            seen.add(id(value))
        return value

    return tuple(one(value) for value in args), one(dict(kwargs))


def capture_exported(
    model: nn.Module,
    args: Sequence[Any],
    path: str | Path,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    mesh: Mapping[str, int] | None = None,
) -> Path:
    """Captures the forward graph of a model by `torch.export`, as the current rank runs it; sizes may stay open.

    `dynamic_shapes` is what `torch.export.export` takes. Collectives are those of
    `torch.distributed._functional_collectives`, over groups; `mesh` (axis → size) is written beside the rank. Writes
    `<path>.fx.txt` and `<path>.json`; returns the former.
    """
    args, kwargs = _distinct(args, kwargs or {})
    program = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    text = SOURCE.sub(shortened, str(program.run_decompositions({})))
    return write_dump(path, text, {"groups": groups_of(), **rank_of(mesh)} if dist.is_initialized() else {})


def capture_family(
    build: Callable[[DeviceMesh | None, Mapping[str, int]], tuple[nn.Module, Sequence[Any], Mapping[str, Any]]],
    points: Sequence[Mapping[str, int]],
    symbols: Mapping[str, str | None],
    directory: str | Path,
    axes: Sequence[str] = ("tp",),
) -> Path:
    """Captures a pair at several sizes and writes the family file; returns its path, for `dlverify family`.

    `build` makes the model and its arguments at some sizes; `points` are sizes that grow by different primes, those of
    the mesh `axes` included; `symbols` says what a size is: a dim of a baseline input (`"x:0"`), None for a mesh axis.
    """
    members = []
    for number, point in enumerate(points):
        mesh = {axis: point[axis] for axis in axes}
        base, ranks = capture_pair(partial(_at, build, point), mesh, Path(directory) / f"at{number}")
        members.append((base, ranks, ",".join(f"{axis}={size}" for axis, size in mesh.items())))
    return write_family(directory, symbols, members)


def _at(build: Callable[..., Any], point: Mapping[str, int], mesh: DeviceMesh | None) -> Any:
    return build(mesh, point)


def capture_ranks(build: Build, mesh: Mapping[str, int], path: str | Path) -> list[Path]:
    """Captures every rank of a mesh to `<path>.r0`, `<path>.r1`, …; returns the text files in rank order.

    Every rank is captured by a process of its own: torch remembers process groups of equal meshes.
    """

    def play(rank: int) -> None:
        with fake_rank(rank, mesh) as device_mesh:
            model, args, kwargs = build(device_mesh)
            capture(model, args, kwargs, f"{path}.r{rank}", mesh)

    ranks = range(prod(mesh.values()))
    for rank in ranks:
        apart(play, rank)
    return [Path(f"{path}.r{rank}.fx.txt") for rank in ranks]


def capture_pair(build: Build, mesh: Mapping[str, int], path: str | Path) -> tuple[Path, list[Path]]:
    """Captures the baseline to `<path>.base` and every rank; returns both, for `dlverify verify BASE DIST …`."""

    def play(_: int) -> None:
        model, args, kwargs = build(None)
        capture(model, args, kwargs, f"{path}.base")

    apart(play, -1)
    return Path(f"{path}.base.fx.txt"), capture_ranks(build, mesh, path)


def _ports(module: torch.fx.GraphModule) -> dict[str, list[list[str]]]:
    """Graph name and descriptor of every input and output."""
    inputs = [[node.name, str(node.meta.get("desc"))] for node in module.graph.nodes if node.op == "placeholder"]
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    values, descriptors = output.args[0], output.meta["desc"]
    return {
        "inputs": inputs,
        "outputs": [[str(value), str(desc)] for value, desc in zip(values, descriptors, strict=True)],
    }


def _constants(module: torch.fx.GraphModule, path: str = "") -> dict[str, Any]:
    """Values of the tensor constants that the text only names, as (nested lists of) numbers; those of sub-modules under
    their path."""
    found: dict[str, Any] = {}
    for name, inner in module.named_children():
        if isinstance(inner, torch.fx.GraphModule):
            found |= _constants(inner, f"{path}{name}.")
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value: Any = getattr(module, str(node.target), None)
            if type(value) is torch.Tensor and value.numel() <= MAX_CONSTANT and not value.is_complex():
                found[path + str(node.target)] = value.tolist()
    return found


def _gradients(joint: Any, placements: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """DTensor placements of gradients, by parameter name, as AOTAutograd traced them."""
    subclasses = joint._aot_graph_capture.maybe_subclass_meta
    metas = subclasses.grad_input_metas or () if subclasses is not None else ()
    (output,) = (node for node in joint.graph_module.graph.nodes if node.op == "output")
    values, descriptors = output.args[0], output.meta["desc"]
    first = len(descriptors) - sum(getattr(meta, "arg_count", 1) for meta in metas)
    found: dict[str, list[Any]] = {}
    for meta in metas:
        start = getattr(meta, "flat_tensor_start_idx", None)
        if start is None or not isinstance(meta.meta, tuple):
            continue
        value, descriptor = values[first + start], descriptors[first + start]
        gradient = getattr(descriptor, "base", descriptor)
        name = getattr(getattr(gradient, "grad_of", None), "target", None)
        if isinstance(name, str) and len(placements.get(name, ())) > 3:
            in_mesh_order(f"gradient of {name}", meta.meta[2] if len(meta.meta) > 3 else ())
            shapes = [list(meta.outer_size), list(value.meta["val"].shape)]
            found[name] = [str(meta.meta[0]), *shapes, placements[name][3]]
    return found
