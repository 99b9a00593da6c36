"""The reference pages, from the program itself: every command with its options, every public name with its docstring.

    python tools/reference.py            # rewrites docs/reference_cli.md and docs/reference_api.md

Names are read from source text: neither torch nor JAX has to be there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from inspect import Parameter, getdoc
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from scalify_dl.arguments import Argument, Command, Option
from scalify_dl.cli_commands import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "scalify_dl": "One call: two programs in, a report out.",
    "scalify_dl.prove.verdict": "What a report holds: `report.outputs`, `.frontier`, `.assumptions`.",
    "scalify_dl.errors": "What is raised for bad input.",
    "scalify_dl.capture.torch": "PyTorch programs as dumps, without a verdict; needs torch.",
    "scalify_dl.capture.jax": "JAX programs as dumps, without a verdict; needs JAX.",
    "scalify_dl.pairing.builder": "Programs by hand.",
    "scalify_dl.schedule.builder": "Schedules by hand.",
    "scalify_dl.pysouffle": "Datalog from Python.",
}
"""Where public names are, and what for."""
GENERATED = "Written by `python tools/reference.py`; a test says that it is up to date.\n"


# ---- commands


def _value(p: Parameter) -> tuple[Any, bool]:
    """The type of a parameter (of one of them, where it takes several) and whether it takes several."""
    type_ = get_args(p.annotation)[0]
    type_ = get_args(type_)[0] if isinstance(type_, UnionType) else type_
    return (get_args(type_)[0], True) if get_origin(type_) is list else (type_, False)


_WORDS = {"Path": "PATH", "str": "TEXT", "int": "N", "float": "NUMBER"}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def option_names(p: Parameter) -> tuple[str, ...]:
    """How an option is written."""
    said = get_args(p.annotation)[1]
    return said.names or (f"--{p.name.replace('_', '-')}",)


def _option(p: Parameter) -> str:
    said, (type_, several) = get_args(p.annotation)[1], _value(p)
    names = ", ".join(f"`{name}`" for name in option_names(p))
    metavar = "" if type_ is bool else f" `{said.metavar or _WORDS[type_.__name__]}`"
    more = [] if p.default is not Parameter.empty else ["has to be given"]
    if p.default not in (None, False, "", Parameter.empty):
        more.append(f"default `{p.default}`")
    more += ["may be repeated"] if several else []
    text = said.help + (f" ({'; '.join(more)})" if more else "")
    return f"| {names}{_cell(metavar)} | {_cell(text)} |"


def _usage(command: Command) -> str:
    words = ["dlverify", command.group, command.name]
    for p in command.parameters():
        said = get_args(p.annotation)[1]
        if isinstance(said, Argument):
            words.append(said.metavar)
        elif p.default is Parameter.empty:
            words.append(f"{option_names(p)[0]} {said.metavar or _WORDS[_value(p)[0].__name__]}")
    return " ".join(word for word in (*words, "[OPTIONS]") if word)


def command_page() -> str:
    """Every command, its arguments and its options."""
    lines = ["# Reference of the command line", "", GENERATED]
    lines += [
        "What they are for, statuses, formats and files: [cli.md](cli.md). `dlverify COMMAND --help` says the same.",
        "",
    ]
    for command in COMMANDS:
        name = f"{command.group} {command.name}".strip()
        lines += [f"## dlverify {name}", "", getdoc(command.get()) or "", "", f"    {_usage(command)}", ""]
        parameters = command.parameters()
        for title, kind, row in (("argument", Argument, argument), ("option", Option, _option)):
            rows = [row(p) for p in parameters if isinstance(get_args(p.annotation)[1], kind)]
            if rows:
                lines += [f"| {title} | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def argument(p: Parameter) -> str:
    """The row of an argument."""
    said = get_args(p.annotation)[1]
    return f"| `{_cell(said.metavar.strip('[]'))}` | {_cell(said.help)} |"


# ---- names


def _module(name: str) -> tuple[ast.Module, Path]:
    place = ROOT.joinpath(*name.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ast.parse(file.read_text("utf-8")), file


def public(name: str) -> list[str]:
    """The names that a module shows: `__all__`, or all its own without an underscore."""
    tree, _ = _module(name)
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return [n for n in ast.literal_eval(node.value) if not n.startswith("__")]
    return [n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name[0] != "_"]


Found = ast.ClassDef | ast.FunctionDef | ast.Assign


def definition(module: str, name: str) -> tuple[Found, str, str]:
    """Where a name is defined, imports followed, its docstring (of a plain value: the text below it), the module."""
    tree, file = _module(module)
    for i, node in enumerate(tree.body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node, ast.get_docstring(node) or "", module
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            below = tree.body[i + 1] if i + 1 < len(tree.body) else None
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and below.value.value
            return node, str(said or ""), module
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(a.name == name for a in node.names):
            home = module if file.name == "__init__.py" else module.rpartition(".")[0]
            home = home.rsplit(".", node.level - 1)[0] if node.level > 1 else home
            inner = f"{home}.{node.module}" if node.level else str(node.module)
            return definition(inner, name)
    raise LookupError(f"{module}.{name}")


def _parameters(given: ast.arguments) -> list[str]:
    """Parameters as they are written, one each."""
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults))
    found = [_parameter(a, d) for a, d in zip(plain, [*defaults, *given.defaults], strict=True)]
    if given.vararg:
        found.append("*" + _parameter(given.vararg, None))
    elif given.kwonlyargs:
        found.append("*")
    found += [_parameter(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return found + (["**" + _parameter(given.kwarg, None)] if given.kwarg else [])


def _parameter(a: ast.arg, default: ast.expr | None) -> str:
    type_ = f": {ast.unparse(a.annotation)}" if a.annotation else ""
    value = (
        ("" if default is None else f" = {ast.unparse(default)}")
        if type_
        else f"={ast.unparse(default)}"
        if default
        else ""
    )
    return f"{a.arg}{type_}{value}"


def _signature(node: ast.FunctionDef, method: bool) -> str:
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    words = _parameters(node.args)[1 if method and not static else 0 :]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    text = f"({', '.join(words)}){returns}"
    return text if len(text) < 90 else "(\n" + "".join(f"    {word},\n" for word in words) + f"){returns}"


def members(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Public methods, properties and fields: name, how it is written, docstring."""
    for i, inner in enumerate(node.body):
        if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
            decorators = {ast.unparse(d) for d in inner.decorator_list}
            if any(d.endswith(".setter") for d in decorators):
                continue
            plain = not decorators & {"property", "cached_property", "functools.cached_property"}
            yield inner.name, _signature(inner, True) if plain else "", ast.get_docstring(inner) or ""
        elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name) and inner.target.id[0] != "_":
            below = node.body[i + 1] if i + 1 < len(node.body) else None
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and below.value.value
            yield inner.target.id, f": {ast.unparse(inner.annotation)}", str(said or "")


def _code(text: str) -> list[str]:
    return ["```python", text, "```", ""]


def _inherited(module: str, node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Members of classes of ours that a class is made of, its own after them."""
    for base in node.bases:
        try:
            found, _, home = definition(module, ast.unparse(base))
        except (LookupError, OSError):  # a class of somebody else's
            continue
        if isinstance(found, ast.ClassDef):
            yield from _inherited(home, found)
    yield from members(node)


def _class(name: str, node: ast.ClassDef, doc: str, module: str) -> list[str]:
    first = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    lines = (_code(f"{name}{_signature(first, True)}") if first else []) + [doc, ""]
    for member, written, said in {row[0]: row for row in _inherited(module, node)}.values():
        lines += _code(f"{member}{written}") if "\n" in written else [f"**`{member}{written}`**", ""]
        lines += [said, ""] if said else []
    return lines


def api_page() -> str:
    """Every public name with its docstring."""
    lines = ["# Reference of the API", "", GENERATED, "By example: [api.md](api.md).", ""]
    for module, what in PACKAGES.items():
        lines += [f"## {module}", "", what, ""]
        for name in public(module):
            node, doc, home = definition(module, name)
            lines += [f"### {module}.{name}", ""]
            if isinstance(node, ast.ClassDef):
                lines += _class(name, node, doc, home)
            elif isinstance(node, ast.FunctionDef):
                lines += [*_code(f"{name}{_signature(node, False)}"), doc, ""]
            else:
                lines += [f"`{ast.unparse(node)}`", "", doc, ""]
    return "\n".join(lines)


PAGES = {"reference_cli.md": command_page, "reference_api.md": api_page}

if __name__ == "__main__":
    for page, text in PAGES.items():
        (ROOT / "docs" / page).write_text(text().rstrip() + "\n", "utf-8")
