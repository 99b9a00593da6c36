"""Live programs → dumps: which framework they are of, and what is called how."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from scalify_dl.capture.raised import told
from scalify_dl.errors import InputError

from .arguments import a, sizes_of_axes

Files = tuple[Path, list[Path]]
Found = tuple[Files, Any, Callable[[Any, Sequence[Any]], None] | None]
"""Dumps of baseline and ranks, the mesh, and what is to be said of their graphs."""


@contextmanager
def captured(
    base: Callable[..., Any],
    dist: Any,
    mesh: Any,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    in_shardings: Any,
    out_shardings: Any,
    gradients: bool,
    keep: str | Path | None,
    opaque: Sequence[str] = (),
) -> Iterator[Found]:
    """The dumps of two live programs, for as long as they are asked for."""
    if mesh is None:
        raise InputError("no mesh is given", expected='mesh={"tp": 2}, or a mesh of JAX')
    if isinstance(mesh, str):
        from scalify_dl.ir.mesh import Mesh

        mesh = dict(Mesh.parse(mesh).axes)
    if isinstance(mesh, Mapping):
        mesh = sizes_of_axes(mesh)
    if isinstance(mesh, Mapping) and args is not None and _of(args, "jax") and in_shardings is None:
        from jax.sharding import AbstractMesh

        mesh = AbstractMesh(tuple(mesh.values()), tuple(mesh))
    if keep is not None:
        try:
            Path(keep).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the directory: {error.strerror}", file=keep) from None
    with nullcontext(str(keep)) if keep is not None else tempfile.TemporaryDirectory(prefix="dlverify-") as folder:
        if hasattr(mesh, "axis_names"):
            _of_torch(opaque)
            if kwargs:
                raise InputError("`kwargs` are of torch programs", hint="JAX: functools.partial(f, key=value)")
            yield _jax_functions(base, dist, args, mesh, in_shardings, out_shardings, folder)
        elif not isinstance(mesh, Mapping):
            raise InputError(f"`mesh` is {a(mesh)}", expected='a mapping ({"tp": 2}), or a mesh of JAX')
        elif args is None and _is_jax(base):
            _of_torch(opaque)
            from scalify_dl.capture.jax import capture_step as capture_jax

            found = capture_jax(dist or base, mesh, Path(folder) / "step", None if dist is None else base)
            yield (found.base, [found.dist]), found.mesh, None
        else:
            yield _torch(base, dist, args, kwargs or {}, mesh, gradients, folder, opaque)


def _of_torch(opaque: Sequence[str]) -> None:
    if opaque:
        raise InputError("`opaque` is of torch programs", hint="a custom call of JAX stays one call")


def _is_jax(build: Callable[..., Any]) -> bool:
    """Whether a builder makes a step of JAX: a function and its arguments, where torch has a model before them."""
    parameters = inspect.signature(build).parameters.values()
    if _of(build, "torch"):
        return False
    asks = any(p.default is p.empty or p.name == "mesh" for p in parameters if p.kind is not p.VAR_KEYWORD)
    with told(f"`{getattr(build, '__name__', 'build')}`"):
        made = build(None) if asks else build()
    return isinstance(made, tuple) and len(made) == 2 and _of(made[1], "jax")


def _of(value: Any, framework: str) -> bool:
    """Whether a value, or one in it, is of a framework."""
    if isinstance(value, list | tuple):
        return any(_of(item, framework) for item in value)
    if isinstance(value, Mapping):
        return any(_of(item, framework) for item in value.values())
    return any(c.__module__.split(".")[0] in (framework, framework + "lib") for c in type(value).__mro__)


def _jax_functions(
    base: Callable[..., Any], dist: Any, args: Sequence[Any] | None, mesh: Any, ins: Any, outs: Any, folder: str
) -> Found:
    from scalify_dl.capture.jax.trace import _called_alike, _title, capture

    if args is None:
        raise InputError("no arguments are given", expected="args=(…): arrays, or jax.ShapeDtypeStruct")
    if not isinstance(args, list | tuple):
        raise InputError(f"`args` is {a(args)}", expected="a tuple: args=(x,)")
    dist = base if dist is None else dist
    found = capture(base, dist, args, mesh, ins, out_shardings=outs, directory=folder)

    def alike(graph: Any, dists: Sequence[Any]) -> None:
        graph.file = _title(base)
        for one in dists:
            one.file = _title(dist)
            _called_alike(graph, one)

    return (found.base, [found.dist]), found.mesh, alike


def _torch(
    base: Callable[..., Any],
    dist: Any,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any],
    mesh: Mapping[str, int],
    gradients: bool,
    folder: str,
    opaque: Sequence[str],
) -> Found:
    try:
        import torch

        from scalify_dl.capture.torch import capture_step
    except ImportError as error:
        raise InputError(
            f"live programs need their framework: {error}", hint="pip install 'scalify-dl[torch]' or 'scalify-dl[jax]'"
        ) from None
    if args is None and isinstance(base, torch.nn.Module):
        raise InputError("no arguments are given", expected="args=(x, …): what the module is called with")
    if args is not None:
        if not isinstance(args, list | tuple):
            raise InputError(
                f"`args` is {a(args)}", expected="a tuple: args=(x,); keywords go into kwargs={…}"
            )
        if not isinstance(kwargs, Mapping):
            raise InputError(f"`kwargs` is {a(kwargs)}", expected='a mapping: kwargs={"mask": mask}')
        whole = base
        base = _program(lambda: whole, args, kwargs, gradients, asks=False)
        if dist is None:
            raise InputError("no distributed program is given", expected="dist=…: a function of the device mesh")
        if not callable(dist) or _of(dist, "torch"):
            raise InputError(
                f"`dist` is {a(dist)}",
                expected="a function of the device mesh that gives the distributed module, or function",
                hint="lambda mesh: parallelize_module(copy.deepcopy(model), mesh, plan)",
            )
        dist = _program(dist, args, kwargs, gradients, asks=_takes_one(dist))
    found = capture_step(dist or base, mesh, Path(folder) / "step", None if dist is None else base, opaque)
    return (found.base, found.dist), found.mesh, None


def _takes_one(make: Callable[..., Any]) -> bool:
    """Whether a function wants the mesh: one without parameters makes its own (`init_device_mesh`)."""
    try:
        return bool(inspect.signature(make).parameters)
    except ValueError:
        return True


def _program(
    make: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], gradients: bool, *, asks: bool
) -> Callable[..., tuple[Any, Sequence[Any], Callable[..., Any]]]:
    """A builder for `capture_step` of what `make` gives: something to call, perhaps with arguments and a step. Keywords
    are the last argument of the step, in which their tensors are told by name."""

    def build(mesh: Any = None) -> tuple[Any, Sequence[Any], Callable[..., Any]]:
        made = make(mesh) if asks else make()
        given, step = args, None
        if isinstance(made, tuple):
            made, given, *more = made
            step = more[0] if more else None
        if step is not None:
            return made, tuple(given), step
        if not callable(made):
            raise InputError(
                f"the function that makes the distributed program returns {made if made is None else type(made)}",
                expected="a module or function, or a tuple of it and its arguments",
            )
        return made, (*given, dict(kwargs)) if kwargs else tuple(given), _step(gradients, bool(kwargs))

    return build


def _step(gradients: bool, keywords: bool) -> Callable[..., Any]:
    """One call; with its gradients, the call gives the loss."""

    def call(model: Any, *args: Any) -> Any:
        return model(*args[:-1], **args[-1]) if keywords else model(*args)

    def with_gradients(model: Any, *args: Any) -> Any:
        from scalify_dl.capture.torch.step import unwrapped

        loss = call(model, *args)
        if getattr(loss, "numel", lambda: 0)() != 1:
            shape = f"a tensor of shape {list(loss.shape)}" if hasattr(loss, "shape") else f"a {type(loss).__name__}"
            raise InputError(
                f"gradients=True: the program returns {shape}",
                expected="its loss, one number, of which gradients are taken",
                hint="a module whose forward ends in the loss; or a builder with a step of its own",
            )
        loss.backward()
        grads = {f"gradient of {unwrapped(n)}": p.grad for n, p in model.named_parameters() if p.grad is not None}
        return {"loss": loss, **grads}

    return with_gradients if gradients else call
