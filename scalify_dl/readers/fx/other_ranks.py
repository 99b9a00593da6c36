"""Files of ranks that differ in a few lines: what was read of one serves for the others.

What a line of a body says depends on that line alone. So where another file has as many lines, and those that differ
are statements on one line in both, its module is the earlier one with these statements in place. Everything else
(comments, signatures, statements over several lines, what is no FX text) is read anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, count
from operator import ne
from typing import TYPE_CHECKING

from .syntax import BadSyntax, Call, Line, parse_line

if TYPE_CHECKING:
    from .reader import Module, Statement

MOST = 1000
"""Lines that may differ."""
LONGEST = 10_000
"""Characters of such a line."""


@dataclass
class Earlier:
    """A file that was read: its lines, and what became of them."""

    lines: Sequence[str]
    module: Module
    signature: dict[str, tuple[str, str]]

    @cached_property
    def _statements(self) -> dict[int, Statement]:
        """By the index of the line on which each begins."""
        found: dict[int, Statement] = {}
        waiting = [self.module]
        while waiting:
            module = waiting.pop()
            found |= {statement.line - 1: statement for statement in module.statements}
            waiting += module.modules.values()
        return found

    def of(self, lines: Sequence[str]) -> Module | None:
        """The module of another file; None where that has to be read itself."""
        if len(lines) != len(self.lines):
            return None
        changed: dict[int, Statement] = {}
        for at in compress(count(), map(ne, lines, self.lines)):
            old = self._statements.get(at)
            if old is None and _idle(self.lines[at]) and _idle(lines[at]):
                continue
            new = None if old is None else _in_place(old, _line(self.lines[at]), _line(lines[at]))
            if new is None or len(changed) == MOST:
                return None
            changed[at] = new
        return _changed(self.module, changed) if changed else self.module


def _idle(text: str) -> bool:
    """Whether a line is a comment that says nothing of the program."""
    from .reader import CALLED, SOURCE

    text = text.strip()
    heads = text in ("# inputs", "# outputs")
    return text.startswith("#") and not (heads or len(text) > LONGEST or CALLED.match(text) or SOURCE.match(text))


def _line(text: str) -> Line | None:
    """What a line says by itself, if it does."""
    from .reader import DELETIONS

    if len(text) > LONGEST:
        return None
    try:
        return parse_line(DELETIONS.sub("", text))
    except (BadSyntax, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _in_place(old: Statement, was: Line | None, line: Line | None) -> Statement | None:
    """The statement that a line is in the place of another one; None where it is more, or less, than that."""
    if was is None or line is None or not line.names or line.types:
        return None
    if isinstance(line.value, Call) and line.value.function.startswith("fx_pytree.tree_flatten"):
        return None
    if not line.type and (was.type or line.names != old.names):
        return None  # another line may say its type
    return replace(old, names=line.names, type=line.type or old.type, value=line.value)


def _changed(module: Module, changed: Mapping[int, Statement]) -> Module | None:
    """The module with other statements; None where it then names two values alike."""
    inner = {name: _changed(each, changed) for name, each in module.modules.items()}
    statements = [changed.get(statement.line - 1, statement) for statement in module.statements]
    if any(a.names != b.names for a, b in zip(statements, module.statements, strict=True)):
        names = [name for statement in statements for name in statement.names if name]
        names += [parameter.name for parameter in module.parameters]
        if len({*names}) != len(names):
            return None
    modules = {name: each for name, each in inner.items() if each is not None}
    return replace(module, statements=statements, modules=modules) if len(modules) == len(inner) else None
