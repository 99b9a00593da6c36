"""A whole training step as its user writes it, recorded on every rank of a mesh, as dumps that `dlverify verify` reads.

    def build(mesh=None):                              # or two functions: capture_step(build_dist, …, baseline=build)
        model = Net()
        …                                              # fully_shard(model), hooks, DistributedDataParallel, …
        return model, (x, y), step

    def step(model, x, y):
        loss = model(x, y)
        loss.backward()
        torch.optim.AdamW(model.parameters()).step()
        return {"loss": loss}

    captured = capture_step(build, {"dp": 2}, "dump/net")
    captured.verify()                                  # a verdict, or on the command line: captured.command

Outputs are what the step returns, every parameter and buffer after it, and the state of every optimiser that stepped.
"""

from __future__ import annotations

import functools
import inspect
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers.fx.annotation import UNTIMED

from .collectives import factors_noted, shapes_compared_apart, waits_apart
from .dumps import placement_of, rank_of, write_dump
from .given_away import GivenAway
from .opaque import all_ran
from .pipelines import note_of, stages_apart, write_plan
from .placing import place_by_values
from .posted import posted
from .ranks import NeedsRanks, apart, fake_rank, real_rank, together
from .reads import Reads, living, passed_over
from .recorder import Recorder
from .replay import differing
from .types import types_noted

if TYPE_CHECKING:
    from scalify_dl.ir.origin import Origin
    from scalify_dl.prove.options import Options
    from scalify_dl.report.of_pair import Report

__all__ = ["CapturedStep", "capture_step", "record_step"]

OUTSIDE = [UNTIMED]
"""What a step does that its record does not say."""
WRAPPERS = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")
"""What wrappers of modules put into the names of parameters."""


@dataclass(frozen=True)
class CapturedStep:
    """Dumps of the baseline and of every rank, in rank order, and the mesh. `command` verifies them."""

    base: Path
    dist: list[Path]
    mesh: Mesh

    @property
    def command(self) -> str:
        """The command line that verifies the pair."""
        files = [str(self.base), *map(str, self.dist)]
        return shlex.join(["dlverify", "verify", *files, "--mesh", str(self.mesh)])

    def verify(self, relate: str | Path | None = None, options: Options | None = None) -> Report:
        """The verdict on the pair; `relate` is a relations file, `options` those of `dlverify verify`."""
        from scalify_dl.pairing.export import export
        from scalify_dl.prove.options import Options
        from scalify_dl.prove.pipeline import analyse
        from scalify_dl.report.conclude import conclude
        from scalify_dl.report.of_pair import Report
        from scalify_dl.schedule.programs import in_time

        origins: list[Origin] = []
        facts = export(self.base, self.dist, str(self.mesh), relate, origins=origins)
        analysis = analyse(facts, options or Options())
        return Report(conclude(analysis, in_time=in_time(origins, self.mesh.size)), analysis)


def capture_step(
    build: Callable[..., Any],
    mesh: Mapping[str, int],
    path: str | Path,
    baseline: Callable[..., Any] | None = None,
    opaque: Sequence[str] = (),
) -> CapturedStep:
    """Records a step on one device and on every rank of a mesh, to `<path>.base` and `<path>.r0`, `<path>.r1`, …;
    that of a pipeline also as a plan, `<path>.plan.yaml`, which `dlverify plan` reads.

    `build` gives model, arguments and step; if it takes an argument, that is the device mesh (None for the baseline,
    unless `baseline` builds that one). It must give the same values on all ranks and on the baseline, cut as the ranks
    need them: they tell how plain tensors are placed.

    `opaque` names ops of libraries (`mylib.rope`, `mylib.*`) that stay one call though their kernel is Python; without
    it such an op is recorded as what it calls. Rules say what it is (docs/adding_an_op.md).
    """
    ranks = range(prod(mesh.values()))
    with tempfile.TemporaryDirectory() as folder, passed_over():

        def play(rank: int) -> None:
            if rank < 0:
                record_step(*_built(baseline or build, None), f"{path}.base", None, Path(folder) / "base", opaque)
                return
            with fake_rank(rank, mesh) as device_mesh:
                with GivenAway(Path(folder)):
                    built = _built(build, device_mesh)
                record_step(*built, f"{path}.r{rank}", mesh, Path(folder) / f"r{rank}", opaque)

        def play_really(rank: int) -> None:
            with real_rank(rank, mesh, f"{folder}/meeting") as device_mesh:
                record_step(*_built(build, device_mesh), f"{path}.r{rank}", mesh, Path(folder) / f"r{rank}", opaque)

        apart(play, -1)
        try:
            for rank in ranks:
                apart(play, rank)
        except NeedsRanks:
            together(play_really, ranks)
        place_by_values(Path(folder), str(path), Mesh(tuple(mesh.items())))
    files = [Path(f"{path}.r{rank}.fx.txt") for rank in ranks]
    all_ran(opaque, [Path(f"{path}.base.json"), *(Path(f"{path}.r{rank}.json") for rank in ranks)])
    captured = CapturedStep(Path(f"{path}.base.fx.txt"), files, Mesh(tuple(mesh.items())))
    write_plan(path, captured.base, files, captured.mesh)
    return captured


def _built(build: Callable[..., Any], mesh: Any) -> tuple[Any, Sequence[Any], Callable[..., Any]]:
    """What a user's function builds, with the mesh if it asks for one."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [p for p in inspect.signature(build).parameters.values() if p.kind in kinds]
    asks = any(p.default is p.empty or p.name == "mesh" for p in parameters)
    made = build(mesh) if asks else build()
    if not (isinstance(made, tuple) and len(made) == 3 and isinstance(made[1], tuple | list) and callable(made[2])):
        raise InputError(
            f"`{getattr(build, '__name__', 'build')}` returns a {type(made).__name__}"
            + (f" of {len(made)}" if isinstance(made, tuple) else ""),
            expected="the model, the tuple of arguments, and the step: a function of the model and the arguments",
        )
    model, args, step = made
    return model, args, step


def _apart_in_memory(args: Sequence[Any]) -> tuple[list[Any], list[tuple[torch.Tensor, torch.Tensor]]]:
    """Arguments of which no two share memory (a batch and the same batch shifted), and those that were copied with
    what they were copied from."""
    seen: set[int] = set()
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, DTensor):
            return value
        key = value.untyped_storage()._cdata
        if key not in seen:
            seen.add(key)
            return value
        copy = value.detach().clone().requires_grad_(value.requires_grad)
        copies.append((copy, value))
        return copy

    return list(tree_map(one, list(args))), copies


def record_step(
    model: Any, args: Sequence[Any], step: Callable[..., Any], path: str | Path, mesh: Mapping[str, int] | None = None,
    values: Path | None = None, opaque: Sequence[str] = (),
) -> Path:  # fmt: skip
    """Records one call of a step on the current rank (of `mesh`, if given); writes `<path>.fx.txt` and `<path>.json`,
    and the inputs' values to a file, if one is given. InputError where the step cannot be captured exactly."""
    args, copies = _apart_in_memory(args)
    named = _tensors(model)
    state = _Optimisers()
    inputs: dict[str, torch.Tensor] = {}
    paths: dict[str, str] = {}
    placements: dict[str, list[Any]] = {}
    for path_, value in [*named.items(), *_arguments(args).items()]:
        local = value._local_tensor if isinstance(value, DTensor) else value
        name = _identifier(path_, inputs)
        inputs[name], paths[name] = local, path_
        if isinstance(value, DTensor):
            placements[path_] = placement_of(path_, value)
    recorder = Recorder(inputs, mesh, opaque)
    recorder.names.older_than_the_step(living())
    with (
        state, torch.random.fork_rng(devices=[]), waits_apart(), shapes_compared_apart(),
        stages_apart(recorder) as pipelines, posted() as messages, recorder, Reads(recorder),
        factors_noted(recorder.groups), types_noted(recorder),
    ):  # fmt: skip
        returned = step(model, *args)
    if not all(torch.equal(copy, value) for copy, value in copies):
        raise InputError("the step writes an argument that shares memory with another one", hint="clone it")
    outputs: list[list[str]] = []
    held: list[torch.Tensor] = []

    def output(what: str, value: Any) -> None:
        if isinstance(value, DTensor):
            placements[what] = placement_of(what, value)
            value = value._local_tensor
        outputs.append([recorder.names.name(value), what])
        held.append(value)

    leaves, plain = _leaves(returned)
    for what, value in leaves:
        output(f"output {what}", getattr(value, "wait", lambda value=value: value)() if _pending(value) else value)
    for what, value in _tensors(model).items():
        output(f"written {what}", value)
    owners = {id(value): what for what, value in _tensors(model).items()}
    for what, value in state.after(owners):
        output(f"state {what}", value)
    annotation = {
        "inputs": [[name, what] for name, what in paths.items()],
        "outputs": outputs,
        "placements": placements,
        **({"types": recorder.types} if recorder.types else {}),
        "seen": {paths[name]: span for name, value in recorder.values.items() if (span := _span(value)) is not None},
        **recorder.rank_values(),
        **recorder.opaque.noted(),
        **messages.noted(),
        "outside": [*OUTSIDE, *plain],
        **rank_of(mesh),
        **note_of(pipelines),
    }
    text = _text(recorder, [name for name, _ in outputs])
    constants = {
        name: torch.tensor(value, dtype=recorder.names.types[name]) for name, value in recorder.names.constants.items()
    }
    drawn = {**recorder.drawn, **recorder.names.received}
    wrong = differing(text, recorder.values, constants, drawn, recorder.groups.handles, held)
    if wrong:
        some = ", ".join(f"`{outputs[n][1]}`" for n in wrong[:4])
        raise InputError(
            f"the step cannot be captured: run again, what was recorded gives something else for {some}",
            hint="something writes memory without torch's dispatcher (numpy, a thread, a compiled kernel): it would be"
            " recorded as a constant; or something reads memory that nobody wrote",
        )
    if values is not None:
        torch.save({what: recorder.values[name] for name, what in paths.items()}, values)
    return write_dump(path, text, annotation)


def _text(recorder: Recorder, outputs: Sequence[str]) -> str:
    """The module that the statements are."""
    signature = ", ".join(f"{name}: {type}" for name, type in recorder.inputs.items())
    body = "".join(f"        {line}\n" if line else "\n" for line in recorder.lines)
    comma = "," if len(outputs) == 1 else ""
    head = f"class GraphModule(torch.nn.Module):\n    def forward(self, {signature}):\n"
    return f"{head}{body}        return ({', '.join(outputs)}{comma})\n"


def _span(value: torch.Tensor) -> list[int] | None:
    """lo and hi, lo ≤ x < hi, of integers."""
    if value.is_floating_point() or value.is_complex() or value.dtype is torch.bool or not value.numel():
        return None
    return [int(value.min()), int(value.max()) + 1]


def _pending(value: Any) -> bool:
    """Whether a result of a collective is still waited for."""
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    return isinstance(value, AsyncCollectiveTensor)


def _tensors(model: Any) -> dict[str, torch.Tensor]:
    """Parameters and buffers of a model (or of several modules) by name, without what wrappers put into names."""
    modules = model if isinstance(model, list | tuple) else _modules(model)
    found: dict[str, torch.Tensor] = {}
    for n, module in enumerate(modules):
        if isinstance(module, nn.Module):
            prefix = "" if len(modules) == 1 else f"{n}."
            for name, value in [*module.named_parameters(), *module.named_buffers()]:
                found[prefix + unwrapped(name)] = value
    return found


def _modules(program: Any) -> list[nn.Module]:
    """The module that a program is, or those that a function is a method of or looks up by name."""
    while isinstance(program, functools.partial):
        program = program.func
    if isinstance(program, nn.Module):
        return [program]
    held = [getattr(program, "__self__", None)]
    function = getattr(program, "__func__", program)
    if inspect.isfunction(function):
        seen = inspect.getclosurevars(function)
        held += [*seen.nonlocals.values(), *seen.globals.values()]
    return list({id(value): value for value in held if isinstance(value, nn.Module)}.values())


def unwrapped(name: str) -> str:
    for wrapper in WRAPPERS[1:]:
        name = name.replace(wrapper, "")
    return name.removeprefix(WRAPPERS[0])


def _arguments(args: Sequence[Any]) -> dict[str, torch.Tensor]:
    """The tensors among the arguments of a step, by place."""
    found: dict[str, torch.Tensor] = {}
    for n, arg in enumerate(args):
        for keys, leaf in tree_flatten_with_path(arg)[0]:
            if isinstance(leaf, torch.Tensor):
                found[f"input {n}{keystr(keys)}"] = leaf
    return found


def _leaves(returned: Any) -> tuple[list[tuple[str, Any]], list[str]]:
    """The tensors that a step returns, by name (of a dict) or place, and what is none, in words."""
    if isinstance(returned, torch.Tensor):
        return [("0", returned)], []
    found, plain = [], []
    for keys, leaf in tree_flatten_with_path(returned)[0]:
        first = getattr(keys[0], "key", getattr(keys[0], "idx", keys[0])) if keys else 0
        what = f"{first}{keystr(keys[1:])}"
        if isinstance(leaf, torch.Tensor):
            found.append((what, leaf))
        elif isinstance(leaf, bool | int | float | str):
            plain.append(f"output {what}, which is no tensor ({leaf!r:.40})")
        elif leaf is not None:
            raise InputError(
                f"the step returns a {type(leaf).__name__}", expected="tensors, in a dict of named outputs"
            )
    return found, plain


def _identifier(path: str, taken: Mapping[str, Any]) -> str:
    """A name for an input that FX text can bear."""
    name = re.sub(r"\W+", "_", path).strip("_") or "input"
    name = (
        f"p_{name}"
        if name[0].isdigit() or name in ("self", "torch", "device", "operator", "math", "inf", "nan")
        else name
    )
    while name in taken:
        name += "_"
    return name


class _Optimisers:
    """Optimisers that step while it is active."""

    def __init__(self) -> None:
        self.seen: dict[int, torch.optim.Optimizer] = {}

    def __enter__(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.hook = register_optimizer_step_post_hook(
            lambda optimiser, *_: self.seen.setdefault(id(optimiser), optimiser)
        )

    def __exit__(self, *_: object) -> None:
        self.hook.remove()

    def after(self, owners: Mapping[int, str]) -> list[tuple[str, torch.Tensor]]:
        """State of every parameter, by what it is and the parameter's name."""
        found = []
        for optimiser in self.seen.values():
            for parameter, state in optimiser.state.items():
                for key, value in state.items():
                    if isinstance(value, torch.Tensor):
                        found.append((f"{key} of {owners.get(id(parameter), 'a tensor')}", value))
        return found
