"""Ops that a kernel may be stated to be (`--as`), as graphs of the vocabulary for its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.programs import Program
from scalify_dl.oracle.dtypes import is_float, precision
from scalify_dl.readers.tir.syntax import Kernel
from scalify_dl.registry import registering

Make = Callable[[Program, Sequence[Tensor], tuple[int, ...]], Tensor]
NAMED: dict[str, Make] = {}
named = registering(NAMED)
"""Registers an op under names: from its inputs and the shape of the result."""


class Misfit(Exception):
    """The arguments of a kernel are none of this op; the message says what it takes."""


def graphs_of(name: str, kernel: Kernel) -> list[Graph]:
    """The op of a name on the arguments of a kernel: as it is, and rounded to a result that is narrower."""
    if name not in NAMED:
        raise InputError(f"no op `{name}` is known", expected=", ".join(sorted(NAMED)))
    outputs = kernel.outputs
    if len(outputs) != 1:
        said = ", ".join(b.name for b in outputs) or "nothing"
        raise InputError(f"the kernel writes {said}", expected=f"one output for --as {name}", file=kernel.file)
    out = outputs[0]
    found = []
    for wide in (True, False):
        program = Program(name, Mesh((("one", 1),)))
        inputs = [program.input(b.name, b.shape, b.dtype) for b in kernel.inputs]
        try:
            result = NAMED[name](program, [_widened(program, x, out.dtype, wide) for x in inputs], out.shape)
        except Misfit as error:
            arguments = ", ".join(f"{b.name}{list(b.shape)}" for b in (*kernel.inputs, out))
            raise InputError(
                f"the arguments are no {name}: {arguments}", file=kernel.file, line=kernel.line, expected=str(error)
            ) from None
        if result.shape != out.shape:
            raise InputError(
                f"`{out.name}` has shape {list(out.shape)}, {name} gives {list(result.shape)}",
                file=kernel.file, line=kernel.line,
            )  # fmt: skip
        if result.dtype != out.dtype:
            result = program.convert(result, out.dtype)
        program.output(result)
        found.append(program.graph)
    return found


def _widened(program: Program, x: Tensor, out: str, wide: bool) -> Tensor:
    """An operand in the type in which the op computes: f32 where `wide`, else that of the result."""
    target = "f32" if wide and is_float(out) and precision(out) < precision("f32") else out
    if not is_float(x.dtype) or x.dtype == target or not is_float(target):
        return x
    return program.convert(x, target) if precision(x.dtype) < precision(target) else x


def _two(xs: Sequence[Tensor], expected: str) -> tuple[Tensor, Tensor]:
    if len(xs) != 2:
        raise Misfit(expected)
    return xs[0], xs[1]


def _matmul(left: bool, right: bool) -> Make:
    """A product of the last two dims, each side transposed or not; leading dims are a batch (of one side or both)."""
    m = "[…, k, m]" if left else "[…, m, k]"
    expected = f"{m} and {'[…, n, k]' if right else '[…, k, n]'}"

    def make(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
        a, b = _two(xs, expected)
        if min(len(a.shape), len(b.shape)) < 2:
            raise Misfit(expected)
        k = (len(a.shape) - (2 if left else 1)), (len(b.shape) - (1 if right else 2))
        batch = min(len(a.shape), len(b.shape)) - 2
        if a.shape[k[0]] != b.shape[k[1]] or (batch and a.shape[:-2] != b.shape[:-2]):
            raise Misfit(expected)
        return p.dot(a, b, ([k[0]], [k[1]]), (range(batch), range(batch)))

    return make


MATMULS = (
    (("matmul", "matmul_nn", "gemm"), False, False), (("matmul_nt", "dense", "linear"), False, True),
    (("matmul_tn",), True, False), (("matmul_tt",), True, True),
)  # fmt: skip
"""Names of products, and whether either side is transposed."""
for _names, _left, _right in MATMULS:
    for _name in _names:
        NAMED[_name] = _matmul(_left, _right)
