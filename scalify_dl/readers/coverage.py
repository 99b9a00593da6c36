"""Which operations each front end lowers: the tables of `docs/frontends.md`, generated from the registries.

python -m scalify_dl.readers.coverage docs/frontends.md      # rewrites the generated parts
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["tables", "update"]


def tables() -> dict[str, str]:
    """Generated Markdown by front end; one whose reader cannot be imported here is left out."""
    found = {"torch": _torch(), "hlo": _hlo()}
    try:
        from .stablehlo.reader import read_program  # noqa: F401  (fills the registry)
        from .stablehlo.scope import HANDLERS
    except ImportError:  # the MLIR bindings of jaxlib are optional
        return found
    return {**found, "stablehlo": _listed(HANDLERS)}


def _torch() -> str:
    from .fx.lowering import LOWERINGS

    families: dict[str, tuple[str, dict[str, set[str]]]] = {}
    for name, function in LOWERINGS.items():
        module = inspect.getmodule(function)
        assert module is not None
        family = module.__name__.rpartition(".")[2]
        if family not in families:
            families[family] = (_summary(module), {})
        space, _, op = name.partition(".")
        families[family][1].setdefault(space, set()).add(op)
    rows = ["| family | ops |", "|---|---|"]
    for _, (summary, spaces) in sorted(families.items()):
        texts = [
            _words((op for op in ops), "" if space == "aten" else f"{space}.") for space, ops in sorted(spaces.items())
        ]
        rows.append(f"| {summary} | {' '.join(texts)} |")
    return "\n".join(rows)


def _hlo() -> str:
    from .hlo import opcodes  # noqa: F401  (fills the registry)
    from .hlo.lower import OPCODES

    return _listed(OPCODES)


def _listed(registry: Mapping[str, Callable[..., Any]]) -> str:
    return _words(registry, "")


def _words(names: Iterable[str], prefix: str) -> str:
    return " ".join(f"`{prefix}{name}`" for name in sorted(names))


def _summary(module: Any) -> str:
    """The first sentence of a module's docstring."""
    return re.split(r"(?<=[.:])\s", (module.__doc__ or "").strip())[0].rstrip(".:")


def update(path: Path) -> bool:
    """Rewrites the generated parts of a Markdown file, between `<!-- generated: name -->` and `<!-- end -->`.

    Returns whether anything changed.
    """
    text = old = path.read_text("utf-8")
    for name, table in tables().items():
        start, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(start)
        if found:
            text = before + start + table + "\n" + end + rest.partition(end)[2]
    if text != old:
        path.write_text(text, "utf-8")
    return text != old


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        update(Path(argument))
