"""Tables that functions are entered in where they are defined.

    rule = registering(RULES)

    @rule("slice", "pad")
    def cut(op): ...

A table belongs to the module that reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F")


def registering(table: dict[str, F]) -> Callable[..., Callable[[F], F]]:
    """A decorator that enters a function under some names; a later one replaces an earlier one."""

    def under(*names: str) -> Callable[[F], F]:
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError(f"names were expected, as texts, not {names!r}")

        def enter(function: F) -> F:
            table.update(dict.fromkeys(names, function))
            return function

        return enter

    return under
