"""Where an op belongs, in names that people know: the module whose parameters it reads, and what it is made for.

Dumps name ops by numbers (`mm_11`). What they read and what they lead to has paths: an op that reads
`blocks.0.down.bias` is in the module `blocks.0.down`; one that leads to `up.weight after the step` alone is of its
update.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property

from scalify_dl.prove.view import AFTER, View

_PATH = re.compile(r"(\w+(?:\.\w+)*)\.\w+")
_OF = re.compile(r"(?:gradient|state \S+) of ")


class Places:
    """Places of ops of one pair."""

    def __init__(self, view: View) -> None:
        self.view = view

    @cached_property
    def _outputs(self) -> set[str]:
        return {tensor for _, _, tensor in self.view.facts("output")}

    @cached_property
    def _makes(self) -> dict[str, list[str]]:
        """Tensor → what is made of it."""
        results: dict[str, list[str]] = defaultdict(list)
        for op, _, tensor in self.view.facts("result"):
            results[op].append(tensor)
        makes: dict[str, list[str]] = defaultdict(list)
        for op, _, tensor in self.view.facts("operand"):
            makes[tensor] += results[op]
        return makes

    @cached_property
    def _made_of(self) -> dict[str, list[str]]:
        """Result → operands."""
        operands: dict[str, list[str]] = defaultdict(list)
        for op, _, tensor in self.view.facts("operand"):
            operands[op].append(tensor)
        return {tensor: operands[op] for op, _, tensor in self.view.facts("result")}

    def module(self, operands: tuple[str, ...], results: tuple[str, ...] = ()) -> str:
        """The module whose parameters these are, where that is one; what only moves the elements of a result belongs to
        the module that made it."""
        source = self.view.source(results[0]) if results else ""
        if source and source != results[0]:
            operands = (source, *self._made_of.get(source, ()))
        sources = (self.view.source(t) for t in operands)
        paths = (_PATH.fullmatch(self.view.input_name(t)) for t in sources if t in self.view.inputs)
        modules = {path[1] for path in paths if path}
        return modules.pop() if len(modules) == 1 else ""

    def feeds(self, results: tuple[str, ...]) -> str:
        """The one output that these lead to, or outputs that are all about one parameter."""
        seen, level = set(results), list(results)
        while level:
            new = {t for made in level for t in self._makes.get(made, ())} - seen
            seen |= new
            level = list(new)
        names = sorted({self.view.output_name(t) for t in seen & self._outputs}, key=lambda name: (len(name), name))
        about = {_OF.sub("", name).removesuffix(AFTER) for name in names}
        if len(about) != 1:
            return ""
        return names[0] + (f" and {len(names) - 1} more of it" if len(names) > 1 else "")
