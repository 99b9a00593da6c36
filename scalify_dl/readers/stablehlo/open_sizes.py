"""Which sizes the inputs of a module leave open (`tensor<?x16xf32>`).

JAX prints what its sizes are called in the assertions on the inputs' shapes: `args[0].shape = (2*b, s, 8)`. Where a
module has no such text every open dim is a symbol of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..sizes import Formula, NoFormula, OpenInput, OpenSizes
from .locations import argument_name
from .manual import entering_sharding
from .scope import Module, Scope
from .types import OPEN, Type, agrees

if TYPE_CHECKING:
    from jaxlib.mlir import ir

SPECIFICATIONS = re.compile(r"polymorphic shapes specifications: (.*?)\. Obtained dimension variables", re.DOTALL)
SHAPE = re.compile(r"\.shape = \(((?:[^()]|\([^()]*\))*)\)")
COMMA = re.compile(r",\s*(?![^()]*\))")
CONSTRAINT = re.compile(r"symbolic shape constraint (.+?)\. Expected '")

Dims = tuple[int | Formula, ...]


def open_sizes(module: Module, main: ir.Operation, scope: Scope, *, distributed: bool) -> OpenSizes:
    """The inputs of the public function, and the constraints on their sizes."""
    arguments = list(main.regions[0].blocks[0].arguments)
    types = [module.types(ssa.type) for ssa in arguments]
    if not any(type_ is not None and OPEN in type_[1] for type_ in types):
        shapes: list[Dims] = [type_[1] for type_ in types if type_ is not None]
        return OpenSizes(tuple(OpenInput(n, (), dims) for n, dims in enumerate(shapes)), (), module.file)
    texts = list(_assertions(main))
    told = iter(_specifications(texts))
    inputs: list[OpenInput] = []
    for ssa, type_ in zip(arguments, types, strict=True):
        if type_ is None:
            continue
        n = len(inputs)
        dims: Dims = type_[1]
        if OPEN in dims:
            named = next((dims for dims in told if _fits(dims, type_)), None)
            dims = named or tuple(Formula.parse(f"input{n}_dim{d}") if k == OPEN else k for d, k in enumerate(dims))
        path = argument_path(ssa, scope)
        whole = distributed and entering_sharding(ssa, scope) is not None
        inputs.append(OpenInput(n, (path or ssa.get_name(module.names),), dims, path, whole))
    return OpenSizes(tuple(inputs), tuple(_constraints(texts)), module.file)


def argument_path(ssa: ir.Value, scope: Scope) -> str | None:
    """The name of an argument; an exported module has it at the function that its public one calls."""
    found = argument_name(ssa.location)
    for use in ssa.uses if found is None else ():
        op = use.owner.operation
        if op.name != "func.call":
            continue
        callee = scope.module.functions.get(str(op.attributes["callee"]).lstrip("@").strip('"'))
        if callee is not None:
            return argument_name(callee.regions[0].blocks[0].arguments[use.operand_number].location)
    return found


def _assertions(main: ir.Operation) -> Iterator[str]:
    """The messages of the assertions on shapes."""
    for view in main.regions[0].blocks[0].operations:
        attributes = view.operation.attributes
        if view.operation.name == "stablehlo.custom_call" and "error_message" in attributes:
            yield str(attributes["error_message"].value)


def _specifications(texts: list[str]) -> list[Dims]:
    """The shapes that JAX names, in order of the inputs."""
    found = next((match[1] for text in texts if (match := SPECIFICATIONS.search(text))), "")
    shapes: list[Dims] = []
    for inner in SHAPE.findall(found):
        words = [word.strip() for word in COMMA.split(inner) if word.strip()]
        try:
            shapes.append(tuple(int(word) if word.isdigit() else Formula.parse(word) for word in words))
        except NoFormula:
            return []
    return shapes


def _fits(dims: Dims, type_: Type) -> bool:
    """Whether named dims are those of a type: formulas where it is open."""
    sizes = tuple(OPEN if isinstance(d, Formula) else d for d in dims)
    return agrees(type_, sizes) and all((a == OPEN) == (b == OPEN) for a, b in zip(sizes, type_[1], strict=True))


def _constraints(texts: list[str]) -> Iterator[Formula]:
    for text in texts:
        if match := CONSTRAINT.search(text):
            try:
                yield Formula.parse(match[1])
            except NoFormula:
                continue  # the assertion itself is evaluated where the module is lowered
