"""Kernels inside programs: an opaque call becomes the op that its kernel is proved to be, at the sizes of the call."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.tir import read_kernel
from scalify_dl.readers.tir.called import names_of, sizes_of_call
from scalify_dl.readers.tir.syntax import Kernel

from .decide import Judgement, Spec
from .named import NAMED
from .specs import decided

SECONDS = 60.0
"""CPU seconds for the proof of a kernel at the sizes of one call."""
_VALUE = r"(%|([\w.]+=)?(int|float|bool|str|name))"
PLAIN = re.compile(rf"\({_VALUE}(, {_VALUE})*\)")
"""Forms of calls whose tensors are arguments by their places, each by itself."""
ABOUT_THE_CALL = ("form", "config", "reason")


@dataclass(frozen=True)
class Use:
    """Calls of `kind` (`custom:…`) run a kernel: which file and function, what it is stated to be, sizes.

    `names` are names of the kernel for arguments of the call: `arg2` → `block_M`.
    """

    kind: str
    file: Path
    named: str | None = None
    spec: Path | None = None
    function: str | None = None
    sizes: tuple[tuple[str, Any], ...] = ()
    names: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Use:
        """`custom:my_op=K.py,as=matmul,function=main,block_M=64`: all but op and file may be left out."""
        head, *rest = text.split(",")
        kind, equals, file = head.partition("=")
        if not equals or not kind or not file:
            raise InputError(f'--kernel "{text}"', expected="OP=FILE: custom:my_op=kernel.py,as=matmul")
        found: dict[str, Any] = {"named": None, "spec": None, "function": None}
        sizes, names = [], []
        for part in rest:
            name, equals, value = part.partition("=")
            if not equals or not name.isidentifier() or not value:
                raise InputError(f'--kernel "{text}": "{part}"', expected="NAME=VALUE: as=matmul, function=main, n=64")
            if name in ("as", "spec", "function"):
                found["named" if name == "as" else name] = value
            elif re.fullmatch(r"arg\d+", name) and value.isidentifier():
                names.append((name, value))
            else:
                sizes.append((name, number(value)))
        if found["named"] and found["spec"]:
            raise InputError(f'--kernel "{text}": as= and spec=', expected="one of them")
        spec = Path(found["spec"]) if found["spec"] else None
        kind = kind if kind.startswith("custom:") else f"custom:{kind}"
        return cls(kind, Path(file), found["named"], spec, found["function"], tuple(sizes), tuple(names))


def number(text: str) -> Any:
    """`64`, `0.5`, `True` as what they are; else the text."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(slots=True)
class Proved:
    """The graph that a kernel is proved to be, and what that rests on."""

    graph: Graph
    assumptions: list[tuple[str, str]]


def following(kernels: Sequence[str]) -> Callable[[Sequence[Graph]], None] | None:
    """What `export` is to do with programs, for kernels as `--kernel` says them."""
    return Kernels([Use.parse(text) for text in kernels]).follow if kernels else None


@dataclass
class Kernels:
    """Puts in the place of opaque calls what their kernels are; each kernel is decided once for sizes of a call."""

    uses: Sequence[Use]
    known: dict[Any, Proved] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)

    def follow(self, graphs: Sequence[Graph]) -> None:
        """Rewrites the programs. InputError for a kernel that is not what is stated, and for one that nothing calls."""
        for graph in graphs:
            self._within(graph, graph)
        for use in self.uses:
            if use.kind not in self.met:
                raise InputError(
                    f"no call of `{use.kind}` is in the programs",
                    expected=f"one of {', '.join(sorted(self.others))}" if self.others else "an opaque call",
                )

    def _within(self, graph: Graph, program: Graph) -> None:
        ops: list[Op] = []
        for op in graph.ops:
            for region in op.regions:
                self._within(region, program)
            if op.kind.startswith("custom:"):  # what is `unknown:` may do more than give results
                self.others.add(op.kind)
            use = next((u for u in self.uses if u.kind == op.kind), None)
            if use is None:
                ops.append(op)
                continue
            self.met.add(op.kind)
            found = self._of_call(op, use, program)
            ops += _written_out(op, found.graph)
            for text, why in found.assumptions:
                program.assume(op.results[0], text, why)
            if "config" in op.symbols:
                program.assume(op.results[0], f"the configuration of `{op.kind}` changes no value", "kernel")
        graph.ops = ops

    def _of_call(self, op: Op, use: Use, program: Graph) -> Proved:
        types = [(t.dtype, t.shape) for t in (*op.operands, *op.results)]
        said = _arguments(op, use, program)
        key = (use, tuple(types), tuple(sorted(said.items())))
        if key not in self.known:
            self.known[key] = _decided(use, types, len(op.operands), said, _place(op, program))
        return self.known[key]


def _place(op: Op, program: Graph) -> dict[str, Any]:
    return {"file": program.file, "line": op.at[0] or None, "column": op.at[1] or None}


def _arguments(op: Op, use: Use, program: Graph) -> dict[str, Any]:
    """The arguments of a call that are no tensors, by names of the kernel."""
    form = next(iter(op.symbols.get("form", [])), "")
    unplain = form and not PLAIN.fullmatch(form)
    if unplain or op.regions or op.rank_numbers or op.groups or op.pairs or not op.results:
        raise InputError(
            f"the call `{op.name}` of `{op.kind}` is no call of a kernel with tensors in order: {form or 'no results'}",
            **_place(op, program), expected="tensors by their places, numbers and results",
        )  # fmt: skip
    names, found = names_of(use.file, use.function), {}
    given = {key: [str(x) for x in values] for key, values in (op.numbers | op.symbols).items()}
    for key, values in given.items():
        if key in ABOUT_THE_CALL:
            continue
        name = dict(use.names).get(key, key.removeprefix("keyword "))
        if name not in names or len(values) != 1:
            raise InputError(
                f"the call `{op.name}` of `{op.kind}` has the argument {key} = {', '.join(values)}, "
                f"which is no name in {use.file}", **_place(op, program),
                expected=f"one of {', '.join(sorted(names))}",
                hint=f"--kernel {use.kind}={use.file},{key}=NAME says whose value it is" if key[:3] == "arg" else None,
            )  # fmt: skip
        found[name] = number(values[0])
    return found


def _decided(use: Use, types: Sequence[Any], inputs: int, said: dict[str, Any], place: dict[str, Any]) -> Proved:
    """What the kernel is at these types; InputError where it is not what is stated."""
    sizes = sizes_of_call(use.file, types, use.function) | dict(use.sizes) | said
    kernel = read_kernel(use.file, sizes, use.function)
    mine = [(b.dtype, b.shape) for b in (*kernel.inputs, *kernel.outputs)]
    if mine != list(types) or len(kernel.inputs) != inputs:
        raise InputError(
            f"`{use.kind}` is called with {_shown(types[:inputs])} for {_shown(types[inputs:])}, the kernel "
            f"`{kernel.name}` of {use.file} takes {_shown(mine[: len(kernel.inputs)])} and writes "
            f"{_shown(mine[len(kernel.inputs) :])}", **place,
            hint="its sizes are said by name: --kernel OP=FILE,M=64",
        )  # fmt: skip
    spec, found = _judged(use, kernel, sizes, place)
    assumed = [(f"`{use.kind}` runs the kernel `{kernel.name}` of {use.file}, which is {spec.name}", "kernel")]
    if said:
        names = ", ".join(f"{name} = {value}" for name, value in sorted(said.items()))
        assumed.append((f"arguments of calls of `{use.kind}` are what {use.file} calls so: {names}", "kernel"))
    assumed += [(f"{kernel.name}: {text}", why) for text, why in found.assumptions]
    assumed += [(f"{kernel.name}, line {line}: {text}", "precision") for line, text in found.precision]
    graph = spec.graphs[found.proved]
    if len([op for op in graph.ops if op.kind != "convert"]) == 1:
        graph = spec.graphs[-1]  # one op, rounded once at its end: frameworks write it without casts
    assumed += [(f"{spec.name}: {one.text}", one.why) for one in graph.assumptions]
    return Proved(graph, list(dict.fromkeys(assumed)))


def _judged(use: Use, kernel: Kernel, sizes: dict[str, Any], place: dict[str, Any]) -> tuple[Spec, Judgement]:
    """What the kernel is stated to be, or the first op that it is proved to be."""
    if use.named or use.spec:
        spec, found = _proved(kernel, use.named, use.spec, sizes)
        if not spec.graphs:
            raise InputError(f"{use.spec} is a kernel", expected="a program (FX, HLO or StableHLO text), or as=NAME")
        if found.verdict is not Verdict.PROVED:
            difference = found.difference
            where = "" if difference is None else (
                f": {difference.output}{list(difference.index)} is {difference.actual:.6g}, "
                f"{difference.expected:.6g} was stated, line {difference.line}"
            )  # fmt: skip
            raise InputError(
                f"that `{kernel.name}` computes {spec.name} is {found.verdict.value} at {_shown(_types(kernel))}: "
                f"{found.reason}{where}", file=use.file, line=kernel.line,
                hint="`dlverify kernel` says more",
            )  # fmt: skip
        return spec, found
    tried: dict[object, str] = {}
    for name, make in NAMED.items():
        tried.setdefault(make, name)
    for name in tried.values():
        try:
            spec, found = _proved(kernel, name, None, sizes)
        except InputError:
            continue
        if found.verdict is Verdict.PROVED:
            return spec, found
    raise InputError(
        f"`{kernel.name}` is not proved to be any op that has a name", file=use.file, line=kernel.line,
        hint=f"say what it computes: --kernel {use.kind}={use.file},as=NAME or ,spec=FILE",
    )  # fmt: skip


def _proved(kernel: Kernel, named: str | None, file: Path | None, sizes: dict[str, Any]) -> tuple[Spec, Judgement]:
    """With casts as they are, else as exact, which is listed."""
    spec, found = decided(kernel, named, file, sizes, SECONDS)
    if found.verdict is Verdict.UNKNOWN and found.precision:
        return decided(kernel, named, file, sizes, SECONDS, reals=True)
    return spec, found


def _types(kernel: Kernel) -> list[Any]:
    return [(b.dtype, b.shape) for b in kernel.arguments]


def _shown(types: Sequence[Any]) -> str:
    return ", ".join(f"{dtype}[{','.join(map(str, shape))}]" for dtype, shape in types) or "nothing"


def _written_out(op: Op, graph: Graph) -> list[Op]:
    """The ops of a graph in the place of a call: its inputs are the call's operands, its outputs the call's results."""
    now: dict[int, Tensor] = {id(p.tensor): t for p, t in zip(graph.inputs, op.operands, strict=True)}
    ends = {}
    copies: list[Op] = []
    for port, result in zip(graph.outputs, op.results, strict=True):
        if id(port.tensor) in now or id(port.tensor) in ends:
            copies.append(Op("reshape", [port.tensor], [result], op.name, source=op.source, layer=op.layer, at=op.at))
        else:
            ends[id(port.tensor)] = result
    found = []
    for inner in (*graph.ops, *copies):
        results = []
        for tensor in inner.results:
            if inner in copies:
                results.append(tensor)
                continue
            made = ends.get(id(tensor)) or Tensor(tensor.dtype, tensor.shape, f"{op.name}.{tensor.name}")
            made.literal = tensor.literal
            now[id(tensor)] = made
            results.append(made)
        operands = [now[id(t)] for t in inner.operands]
        found.append(Op(
            inner.kind, operands, results, f"{op.name}.{inner.name}" if inner not in copies else op.name,
            {k: list(v) for k, v in inner.numbers.items()}, {k: list(v) for k, v in inner.symbols.items()},
            source=op.source, layer=op.layer, at=op.at,
        ))  # fmt: skip
    return found
