"""Reader of FX readable text (`GraphModule.print_readable()`): text → `Module` of statements. No torch, no exec.

    class GraphModule(torch.nn.Module):
        def forward(self, x: "f32[8, 16]", w: "f32[32, 16]"):
            # File: model.py:12 in forward, code: return self.fc(x)
            # called from train.py:30 in step
            t: "f32[16, 32]" = torch.ops.aten.t.default(w);  w = None
            mm: "f32[8, 32]" = torch.ops.aten.mm.default(x, t);  x = t = None
            return (mm,)

Every statement stands on a line of its own (see `syntax`); comments before it say where it comes from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Frame

from .other_ranks import Earlier
from .syntax import (
    MAX_NESTING,
    RESERVED,
    BadSyntax,
    Call,
    Infix,
    Item,
    Line,
    Ref,
    Symbol,
    annotation_text,
    parse_line,
)

__all__ = ["Module", "Parameter", "Statement", "looks_like_fx", "parse"]

MAX_LINE = 4_000_000  # characters; a signature of 100,000 parameters fits
CLASS = re.compile(r"(\s*)class\s+(<?\w+>?)\s*\(\s*(?:torch\.nn\.)?Module\s*\)\s*:")
DEF = re.compile(r"\s*def\s+forward\s*\(")
SOURCE = re.compile(r"#\s*(?:File:\s*)?(\S.*?):(\d+) in ([\w<>.]+)(, backward\b)?(?:.*?)(?:, code:.*)?$")
CALLED = re.compile(r"# called from (\S.*?):(\d+) in ([\w<>.]+)(, backward)?$")
DELETIONS = re.compile(r";\s*(?:[A-Za-z_]\w*\s*=\s*)+None\s*$")
SIGNATURE = re.compile(r"\s+(\w+): (\w+)(?: target='([^']*)')?(?: persistent=\w+)?\s*$")


class Parameter(NamedTuple):
    """A parameter of `forward`; `type` is the printed text, None where nothing is printed."""

    name: str
    type: str | None


@dataclass(slots=True)
class Statement:
    """`name: "type" = value` (several names where a tuple is unpacked)."""

    names: tuple[str, ...]
    type: str | None
    value: Any
    line: int
    frames: tuple[Frame, ...]


@dataclass(slots=True)
class Module:
    """One `forward`: its parameters, statements and returned values; sub-modules by attribute name.

    `bare` says that it returns one value, not a tuple. `outputs` are kind and target of the values that an exported
    program returns (`BUFFER_MUTATION`, `cache`).
    """

    name: str
    line: int
    parameters: list[Parameter] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    returned: list[Any] = field(default_factory=list)
    returned_line: int = 0
    bare: bool = False
    modules: dict[str, Module] = field(default_factory=dict)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    """Of each returned value, where it stands among keys of dicts; None where in none."""

    def ordered(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call in the order of the parameters. InputError where one is missing or unknown."""
        names = [parameter.name for parameter in self.parameters][len(args) :]
        if sorted(names) != sorted(kwargs):
            given = f"{len(args)} values" + (f" and {', '.join(kwargs)}" if kwargs else "")
            raise InputError(f"`{self.name}` takes {len(self.parameters)} arguments, a call gives {given}")
        return [*args, *(kwargs[name] for name in names)]


def looks_like_fx(text: str) -> bool:
    """Whether text is FX readable text (a `class …(torch.nn.Module)` with a `forward`)."""
    match = CLASS.search(text) if "Module" in text[:1_000_000] else None
    return match is not None and DEF.search(text, match.end()) is not None


class _Reader:
    """Walks over the lines of a file; knows file and line for messages."""

    def __init__(self, lines: Sequence[str], file: str | None) -> None:
        self.lines = lines
        self.file = file
        self.at = 0  # index of the line being read

    def error(
        self, message: str, *, column: int = 0, expected: str | None = None, hint: str | None = None
    ) -> InputError:
        return InputError(message, file=self.file, line=self.at + 1, column=column, expected=expected, hint=hint)

    def logical(self) -> str:
        """The line at `self.at`, joined with the next ones while its brackets are open; leaves `at` on the last."""
        text = self.lines[self.at]
        first = self.at
        while text.count("(") + text.count("[") + text.count("{") > text.count(")") + text.count("]") + text.count("}"):
            if self.at + 1 >= len(self.lines) or len(text) > MAX_LINE or self.at - first > 10_000:
                break  # a bracket in a string, or an error that the parser tells better
            if CLASS.match(self.lines[self.at + 1]) or DEF.match(self.lines[self.at + 1]):
                break
            self.at += 1
            text += "\n" + self.lines[self.at]
        if len(text) > MAX_LINE:
            raise self.error(f"line of more than {MAX_LINE:,} characters")
        return text

    def parsed(self) -> Line:
        """Parses the statement that starts at `self.at`."""
        first = self.at
        for text in self.candidates():
            try:
                return parse_line(DELETIONS.sub("", text))
            except BadSyntax as bad:
                self.at = first
                indent = len(self.lines[first]) - len(self.lines[first].lstrip())
                raise self.error(bad.message, column=bad.column + indent if bad.column else 0) from None
            except (SyntaxError, ValueError) as exception:
                last = exception
            except (RecursionError, MemoryError):
                self.at = first
                raise self.error("expression nested too deeply", expected="FX readable text") from None
        self.at = first
        column = (getattr(last, "offset", 0) or 0) + len(self.lines[first]) - len(self.lines[first].lstrip())
        raise self.error(
            f"not a statement of FX text: {getattr(last, 'msg', None) or last}",
            column=column,
            expected='`name: "f32[2, 3]" = torch.ops.namespace.op.overload(…)`',
            hint="was the file cut off or edited by hand?",
        )

    def candidates(self) -> Iterator[str]:
        """The line alone, then joined with the lines that its open brackets ask for."""
        line = self.lines[self.at]
        if len(line) > MAX_LINE:
            raise self.error(f"line of more than {MAX_LINE:,} characters")
        yield line
        joined = self.logical()
        if joined is not line:
            yield joined

    def read(self) -> tuple[Module, dict[str, tuple[str, str]]]:
        root: Module | None = None
        signature: dict[str, tuple[str, str]] = {}
        open_modules: list[tuple[int, Module]] = []
        of_outputs = False
        while self.at < len(self.lines):
            line = self.lines[self.at]
            header = CLASS.match(line)
            if header:
                indent, module = len(header[1]), Module(header[2], self.at + 1)
                while open_modules and open_modules[-1][0] >= indent:
                    open_modules.pop()
                if open_modules:
                    open_modules[-1][1].modules[module.name] = module
                elif root is None:
                    root = module
                else:
                    raise self.error(
                        f"a second graph, `{module.name}`, in one file", hint="write each graph to a file of its own"
                    )
                open_modules.append((indent, module))
                if len(open_modules) > MAX_NESTING:
                    raise self.error(f"modules nested more than {MAX_NESTING} deep")
            elif open_modules and DEF.match(line):
                self.body(open_modules[-1][1])
                continue
            elif (
                root is not None
                and not open_modules[-1][1].returned_line
                and line.strip()
                and not line.lstrip().startswith("#")
            ):
                raise self.error("text between `class` and `def forward`", expected="`def forward(self, …):`")
            elif root is not None and line.strip() in ("# inputs", "# outputs"):
                of_outputs = line.strip() == "# outputs"
            elif root is not None and (entry := SIGNATURE.match(line)):
                if of_outputs:
                    root.outputs.append((entry[2], entry[3] or ""))
                else:
                    signature[entry[1]] = (entry[2], entry[3] or "")
            self.at += 1
        if root is None:
            raise InputError(
                "no graph in this file",
                file=self.file,
                expected="FX readable text: `class GraphModule(torch.nn.Module):` with `def forward(self, …):`",
                hint="write it with `graph_module.print_readable()`",
            )
        if not root.returned_line:
            raise self.error("the graph has no `return`", hint="was the file cut off?")
        return root, signature

    def header(self, module: Module) -> None:
        text = self.logical()
        try:
            node = ast.parse(text.strip() + " pass").body[0]
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exception:
            raise self.error(f"not a `forward` signature: {getattr(exception, 'msg', exception)}") from None
        assert isinstance(node, ast.FunctionDef)
        arguments = node.args
        if arguments.kwonlyargs or arguments.kwarg or arguments.defaults:
            raise self.error("only plain parameters occur in the signature of an FX graph")
        names = [*arguments.args[1:], *([arguments.vararg] if arguments.vararg else [])]
        for argument in names:
            if argument.arg in RESERVED:
                raise self.error(f"parameter `{argument.arg}` shadows a name that FX text uses")
            module.parameters.append(Parameter(argument.arg, annotation_text(argument.annotation)))

    def body(self, module: Module) -> None:
        """Reads `def forward` up to its `return`."""
        if module.returned_line:
            raise self.error("a second `forward`")
        self.header(module)
        self.at += 1
        frames: tuple[Frame, ...] = ()
        types: dict[str, str] = {}
        bound = {parameter.name for parameter in module.parameters}
        while self.at < len(self.lines):
            line = self.lines[self.at]
            stripped = line.strip()
            if not stripped or stripped.startswith("#"):
                if stripped:
                    outer = CALLED.match(stripped)
                    match = outer or SOURCE.match(stripped)
                    if match:
                        frame = Frame(match[1], int(match[2][:9]), match[3])
                        frames = (*(frames if outer else ()), frame.backward if match[4] else frame)
                    else:
                        frames = ()
                self.at += 1
                continue
            if CLASS.match(line) or DEF.match(line):
                break
            first = self.at
            parsed = self.parsed()
            if parsed.types:
                types |= parsed.types
            elif parsed.names is None:
                flat = self.returned(parsed.value)
                module.returned, module.returned_line = [value for _, value in flat], first + 1
                module.keys = [path or None for path, _ in flat]
                module.bare = isinstance(parsed.value, Ref)
                self.at += 1
                return
            elif isinstance(parsed.value, Call) and parsed.value.function.startswith("fx_pytree.tree_flatten"):
                module.parameters = [Parameter(name, types.get(name)) for name in parsed.names if name]
                bound = set(parsed.names)
            elif parsed.names:
                for name in parsed.names:
                    if name in bound:
                        self.at = first
                        raise self.error(f"`{name}` is defined twice", hint="FX text names every value once")
                    if name:
                        bound.add(name)
                type = parsed.type or types.get(parsed.names[0])
                module.statements.append(Statement(parsed.names, type, parsed.value, first + 1, frames))
            self.at += 1
        raise self.error("the graph has no `return`", hint="was the file cut off?")

    def returned(self, value: Any) -> list[tuple[str, Any]]:
        """The values that are returned, each with where it stands among keys of dicts ("" where in none)."""
        if isinstance(value, Call):
            if not value.function.endswith("tree_unflatten") or not value.args:
                raise self.error(
                    f"`return {value.function}(…)`", expected="a tuple, a list or `pytree.tree_unflatten([…], …)`"
                )
            value = value.args[0]
        flat: list[tuple[str, Any]] = []

        def flatten(item: Any, path: str, keyed: bool) -> None:
            if isinstance(item, dict):
                for key, part in item.items():
                    flatten(part, f"{path}[{key!r}]", True)
            elif isinstance(item, list | tuple) and not isinstance(item, Ref | Symbol | Item | Infix | Call):
                for n, part in enumerate(item):
                    flatten(part, f"{path}[{n}]", keyed)
            else:
                flat.append((path if keyed else "", item))

        flatten(value, "", False)
        return flat


def parse(text: str, file: str | None = None) -> tuple[Module, dict[str, tuple[str, str]]]:
    """FX readable text → its graph, and the signature entries that an exported program prints below it.

    The signature maps parameter name → (kind, target), as in `p_fc_weight: PARAMETER target='fc.weight'`.
    Raises InputError with file, line and column where the text is no FX graph.
    """
    global _earlier
    lines = text.split("\n")
    if _earlier is not None and (module := _earlier.of(lines)) is not None:
        return module, _earlier.signature
    read = _Reader(lines, file).read()
    _earlier = Earlier(lines, *read)
    return read


_earlier: Earlier | None = None
"""What was read last."""
