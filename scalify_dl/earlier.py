"""Earlier names of documented modules: `import scalify_dl.frontends.builder` gives `scalify_dl.pairing.builder`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

MOVED = {
    "frontends": "readers",
    "frontends.builder": "pairing.builder",
    "frontends.coverage": "readers.coverage",
    "frontends.export": "pairing.export",
    "frontends.graph": "ir.graph",
    "frontends.relations": "readers.relations",
    "symbolic": "families",
    "symbolic.verify": "families.verify",
    "verify": "prove",
    "verify.conclude": "report.conclude",
    "verify.options": "prove.options",
    "verify.pipeline": "prove.pipeline",
    "facts.layout": "ir.layout",
    "api.report": "report.of_pair",
}
"""Earlier name → name, both below `scalify_dl`."""
_ROOT = __package__ or "scalify_dl"


class _Earlier:
    """Finder and loader (no subclass of those of `importlib.abc`, which would import much at start-up)."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.removeprefix(f"{_ROOT}.") not in MOVED:
            return None
        return ModuleSpec(fullname, cast(Any, self))

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = MOVED[module.__name__.removeprefix(f"{_ROOT}.")]
        found = sys.modules[module.__name__] = importlib.import_module(f"{_ROOT}.{name}")
        if module.__name__ == f"{_ROOT}.verify":
            found.__class__ = _Verify


class _Verify(ModuleType):
    """The room that `scalify_dl.verify` once was, where somebody imported it under that name: also the function of
    today."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from scalify_dl.api import verify

        return verify(*args, **kwargs)


def install() -> None:
    """Makes the earlier names importable."""
    if not any(isinstance(finder, _Earlier) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Earlier())
