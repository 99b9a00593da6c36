"""FX text with dynamic shapes (`f32[s77, 16]`, `Sym(2*s77)`): which sizes it leaves open, and the text at given sizes.

Types and sizes are printed as formulas of symbols; with numbers in their place the graph is one of static shapes, and
what the graph computes from sizes (`sym_size`, products of sizes) is checked against what is printed. Bounds are the
`Range constraints:` of an exported program, and the assertions of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from scalify_dl.errors import InputError

from ..sizes import LIMIT, Formula, NoFormula, OpenInput, OpenSizes
from .annotation import Annotations, descriptor_path
from .reader import Module, Parameter
from .syntax import TYPE, Call, Ref

__all__ = ["instantiate", "open_sizes", "symbolic_number"]

SYM = re.compile(r"Sym\((.*)\)\Z", re.DOTALL)
RANGES = re.compile(r"^Range constraints: \{(.*)\}\s*$", re.MULTILINE)
RANGE = re.compile(r"(.+?): VR\[(-?\w+), (-?\w+)\](?:, |\Z)")
FAILED = re.compile(r"failed for expression (.+) on node")


def open_sizes(
    module: Module, text: str, signature: Mapping[str, tuple[str, str]], known: Annotations, file: str | None
) -> OpenSizes:
    """The sizes that a graph leaves open; no symbols where every printed size is a number."""
    inputs = []
    for position, parameter in enumerate(p for p in module.parameters if _shape(p.type) is not None):
        path = descriptor_path(known.inputs[parameter.name]) if parameter.name in known.inputs else None
        path = path or signature.get(parameter.name, ("", ""))[1] or None
        dims = tuple(_dim(size, module, file) for size in _shape(parameter.type) or ())
        inputs.append(OpenInput(position, (parameter.name, *([path] if path else [])), dims, path))
    return OpenSizes(tuple(inputs), tuple(dict.fromkeys((*_ranges(text), *_asserted(module)))), file)


def instantiate(module: Module, values: Mapping[str, int], file: str | None) -> Module:
    """The graph with numbers for its symbols in every printed type, sub-modules included."""

    def type_at(text: str | None, line: int) -> str | None:
        try:
            return _type_at(text, values)
        except NoFormula as error:
            raise InputError(str(error), file=file, line=line) from None
        except KeyError as error:
            raise InputError(
                f"the size {error.args[0]} is of no input", file=file, line=line,
                hint="sizes that depend on data have no form in the facts",
            ) from None  # fmt: skip

    return replace(
        module,
        parameters=[Parameter(p.name, type_at(p.type, module.line)) for p in module.parameters],
        statements=[replace(s, type=type_at(s.type, s.line)) for s in module.statements],
        modules={name: instantiate(inner, values, file) for name, inner in module.modules.items()},
    )


def symbolic_number(type: str | None) -> int | None:
    """The number of an instantiated `Sym(8)`; None for other types."""
    match = SYM.match(type) if type else None
    return int(match[1]) if match and match[1].lstrip("-").isdigit() else None


def _type_at(text: str | None, values: Mapping[str, int]) -> str | None:
    if text is None:
        return None
    if match := SYM.match(text):
        try:
            formula = Formula.parse(match[1])
        except NoFormula:
            return text  # a float, a formula of another kind: nothing is checked against it
        known = formula.symbols <= values.keys()
        return f"Sym({formula.at(values)})" if known else text
    shape = _shape(text)
    if shape is None or all(size.isdigit() for size in shape):
        return text
    sizes = [size if size.isdigit() else str(Formula.parse(size).at(values)) for size in shape]
    return f"{text[: text.index('[')]}[{', '.join(sizes)}]"


def _shape(text: str | None) -> list[str] | None:
    """The printed sizes of a tensor type; None for other types."""
    if text is None or not TYPE.match(text):
        return None
    inner = text[text.index("[") + 1 : text.index("]")]
    sizes, depth, start = [], 0, 0
    for at, character in enumerate(inner):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            sizes.append(inner[start:at].strip())
            start = at + 1
    return [size for size in (*sizes, inner[start:].strip()) if size]


def _dim(size: str, module: Module, file: str | None) -> int | Formula:
    try:
        return int(size) if size.isdigit() else Formula.parse(size)
    except NoFormula as error:
        raise InputError(str(error), file=file, line=module.line) from None


def _ranges(text: str) -> Iterator[Formula]:
    """Bounds that an exported program prints, but for those that every size keeps."""
    for line in RANGES.findall(text):
        for formula, low, high in RANGE.findall(line):
            for bound, sign in ((low, ">="), (high, "<=")):
                if bound.isdigit() and 1 < int(bound) < LIMIT:
                    yield Formula.parse(f"{formula} {sign} {bound}")


def _asserted(module: Module) -> Iterator[Formula]:
    """Conditions that the graph asserts of its sizes."""
    types = {statement.names[0]: statement.type for statement in module.statements}
    for statement in module.statements:
        call = statement.value
        if not (isinstance(call, Call) and "_assert_scalar" in call.function and call.args):
            continue
        told = [FAILED.search(arg) for arg in call.args if isinstance(arg, str)]
        printed = SYM.match(types.get(call.args[0].name) or "") if isinstance(call.args[0], Ref) else None
        for match in (printed, *told):
            if match is None:
                continue
            try:
                yield Formula.parse(match[1])
                break
            except NoFormula:
                continue
