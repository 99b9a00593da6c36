"""The ways in which a torch program becomes FX text, each with what its outputs should be."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from .world import Program, Step, Tensor, Var


class Captured(NamedTuple):
    """FX text of a program, the values that its outputs have in eager torch, and those that the graph itself gives."""

    text: str
    want: list[Tensor]
    again: Callable[[], list[Tensor]]


Capture = Callable[[Program], Captured]


class Refused(Exception):
    """Torch does not capture this program in this way."""


def expected(program: Program) -> list[Tensor]:
    """What a program gives: every result as it is at the end, then the inputs as they are at the end."""
    inputs = program.fresh()
    env = program.play(inputs)
    return [env[n] for n in program.numbers()] + inputs


def function_of(program: Program) -> Callable[..., list[Tensor]]:
    """The program as a function of its inputs."""

    def function(*inputs: Tensor) -> list[Tensor]:
        env = program.play(inputs)
        return [env[n] for n in program.numbers()] + list(inputs)

    return function


def readable(module: Any) -> str:
    """FX readable text."""
    return str(module.print_readable(print_output=False))


def written(program: Program) -> Captured:
    """The calls as they are, one by one: no op is taken apart."""
    inputs = program.fresh()
    graph = fx.Graph()
    nodes: dict[int, Any] = {}
    for i, x in enumerate(inputs):
        nodes[-1 - i] = graph.placeholder(f"x{i}")
        nodes[-1 - i].meta["val"] = x.clone()

    def node(step: Step, out: Any) -> None:
        call = graph.call_function(step.op, _nodes(step.args, nodes), _nodes(step.kwargs, nodes))
        call.meta["val"] = out.clone() if isinstance(out, torch.Tensor) else None
        items: dict[tuple[int, ...], Any] = {(): call}
        for number, path in step.results:
            for end in range(1, len(path) + 1):
                if path[:end] not in items:
                    parent = items[path[: end - 1]]
                    items[path[:end]] = graph.call_function(operator.getitem, (parent, path[end - 1]))
            nodes[number] = items[path]
            nodes[number].meta["val"] = reduce(operator.getitem, path, out).clone()

    env = program.play(inputs, node)
    order = [*program.numbers(), *(-1 - i for i in range(len(inputs)))]
    graph.output([nodes[n] for n in order])
    module = fx.GraphModule(torch.nn.Module(), graph)
    return Captured(readable(module), [env[n] for n in order], lambda: module(*program.fresh()))


def _nodes(value: Any, nodes: dict[int, Any]) -> Any:
    if isinstance(value, Var):
        return nodes[value.number]
    if type(value) in (list, tuple):
        return type(value)(_nodes(item, nodes) for item in value)
    if isinstance(value, dict):
        return {key: _nodes(item, nodes) for key, item in value.items()}
    return value


def traced(program: Program, early: bool = False) -> Captured:
    """`make_fx`; `early`: before composite ops are taken apart."""
    module = make_fx(function_of(program), pre_dispatch=early)(*program.fresh())
    return Captured(readable(module), expected(program), lambda: module(*program.fresh()))


def traced_early(program: Program) -> Captured:
    """`make_fx` before composite ops are taken apart."""
    return traced(program, early=True)


def with_gradients(program: Program) -> Captured:
    """`make_fx` of a program and the gradients of its real inputs."""

    def function(*inputs: Tensor) -> list[Tensor]:
        real = [x.dtype.is_floating_point for x in inputs]
        leaves = [x.detach().requires_grad_() if is_real else x for x, is_real in zip(inputs, real, strict=True)]
        env = program.play([x.clone() for x in leaves])  # which may be written to
        outs = [env[n] for n in program.numbers()]
        grown = [x for x in outs if x.requires_grad and x.dtype.is_floating_point]
        if not grown:
            raise Refused("no gradient")
        wanted = [x for x, is_real in zip(leaves, real, strict=True) if is_real]
        grads = torch.autograd.grad(grown, wanted, [torch.ones_like(x) for x in grown], allow_unused=True)
        if any(x is not None and x.layout != torch.strided for x in grads):
            raise Refused("a sparse gradient, which text does not show")
        return [x.detach() for x in outs] + [x for x in grads if x is not None]

    want = function(*program.fresh())
    if not all(torch.isfinite(x).all() for x in want):
        raise Refused("values that are not finite, where kernels of gradients differ")
    module = make_fx(function)(*program.fresh())
    return Captured(readable(module), want, lambda: module(*program.fresh()))


class _Whole(torch.nn.Module):  # type: ignore[misc]
    """A program as a module: its inputs are arguments."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        """Every result."""
        env = self.program.play(inputs)
        return [env[n].clone() for n in self.program.numbers()]


def exported(program: Program, decompose: bool = False) -> Captured:
    """`torch.export`, with sub-modules inlined."""
    whole = torch.export.export(_Whole(program), tuple(program.fresh()), strict=False)
    if decompose:
        whole = whole.run_decompositions()
    inputs = program.fresh()
    env = program.play(inputs)
    results = [env[n] for n in program.numbers()]
    want: list[Tensor] = []
    names = list(whole.graph_signature.user_inputs)
    for spec in whole.graph_signature.output_specs:
        if "MUTATION" in spec.kind.name:
            want.append(inputs[names.index(spec.target)])
        else:
            want.append(results.pop(0))
    said = [node.meta["val"].dtype for node in whole.graph.output_node().args[0]]
    if said != [x.dtype for x in want]:  # (statistics of layer_norm with weights of another type)
        raise Refused("its text says other types than it gives")
    return Captured(readable(whole.graph_module), want, lambda: list(whole.graph_module(*program.fresh())))


def exported_and_decomposed(program: Program) -> Captured:
    """`torch.export` and `run_decompositions`."""
    return exported(program, decompose=True)


CAPTURES: dict[str, Capture] = {
    "written": written, "make_fx": traced, "make_fx early": traced_early, "gradients": with_gradients,
    "export": exported, "export decomposed": exported_and_decomposed,
}  # fmt: skip
