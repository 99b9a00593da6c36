"""Ops of one program as they are asked for: written down, shared where equal, on tape to be written once more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from .callers import BUILDERS, caller
from .graph import Frame, Graph, Op, Tensor
from .mesh import Mesh
from .shapes import check_op, complete

BUILDERS.add(os.path.abspath(__file__))

Axes = str | Sequence[str]
Attribute = int | str | Sequence[int] | Sequence[str]

Tape = list[tuple[Op, tuple[object, ...] | None]]
"""Ops in the order in which they were asked for, each with what is said of it where equal ones are one."""

_SHARED = frozenset({"broadcast", "compare", "convert", "imag", "iota", "negate", "real", "reshape", "slice"})
"""Kinds of which equal ops are one, where a program shares ops."""


class Recorder:
    """A graph under construction. Ops get the caller's line as their source, or `source` where it is set."""

    def __init__(self, name: str, mesh: Mesh, graph: Graph | None = None) -> None:
        self.mesh = mesh
        self.graph = graph or Graph(name)
        self._names: dict[str, int] = {}
        self._shared: dict[object, Op] | None = None
        self._tape: Tape | None = None
        self.source: Sequence[Frame] | None = None

    def share(self) -> None:
        """From now on equal constants, and equal ops that only arrange or compare, are one op: what thousands of layers
        have in common is there once."""
        self._shared = {}

    def taped(self, build: Callable[[], list[Tensor]]) -> tuple[list[Tensor], Tape]:
        """What is built, and the ops that were asked for meanwhile."""
        tape: Tape = []
        self._tape = tape
        try:
            return build(), tape
        finally:
            self._tape = None

    def again(self, tape: Tape, known: dict[Tensor, Tensor]) -> None:
        """The ops of a tape once more, of other operands of the same types: `known` has them by those of the tape, and
        then what the ops make of them. Constants stay what they are."""
        for op, said in tape:
            if op.kind == "constant":
                continue
            operands = [known.get(x, x) for x in op.operands]
            shared = None if said is None else self._shared
            key = shared is not None and said is not None and (*said, *map(id, operands))
            found = shared.get(key) if shared is not None else None
            if found is None:
                found = op.once_more(operands)
                self.graph.ops.append(found)
                if self.source is not None:
                    found.source = self.source
                if shared is not None:
                    shared[key] = found
            known.update(zip(op.results, found.results, strict=True))

    def take_back(self, count: int) -> None:
        """Forgets all ops but the first so many, whose values nothing else has."""
        del self.graph.ops[count:]
        if self._shared is not None:
            self._shared = {}
        if self._tape is not None:
            self._tape.clear()

    def op(
        self,
        kind: str,
        *operands: Tensor,
        dtype: str | None = None,
        shape: Sequence[int] | None = None,
        name: str | None = None,
        groups: list[list[int]] | None = None,
        along: Axes = (),
        pairs: Iterable[tuple[int, int]] | None = None,
        regions: Sequence[Graph] = (),
        types: Sequence[tuple[str, tuple[int, ...]]] | None = None,
        rank_numbers: Mapping[tuple[str, int], Mapping[int, int]] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        **more: Attribute,
    ) -> Op:
        """Appends an op of any kind; attributes are keywords or a mapping (numbers or symbols, single or lists)."""
        if self._shared is not None and kind in _SHARED and not rank_numbers and types is None:
            return self._once(kind, operands, dtype, shape, name, {**(attributes or {}), **more})
        numbers: dict[str, list[int]] = {}
        symbols: dict[str, list[str]] = {}
        for key, value in ({**attributes, **more} if attributes else more).items():
            if isinstance(value, str):
                symbols[key] = [value]
            elif isinstance(value, int):
                numbers[key] = [value]
            elif value and all(isinstance(item, str) for item in value):
                symbols[key] = [str(item) for item in value]
            else:
                numbers[key] = [int(item) for item in value]
        if types is None and (dtype is not None or shape is not None):
            types = [complete(kind, operands, dtype, shape)]
        if rank_numbers and types is None:
            for (key, position), by_rank in rank_numbers.items():
                values = numbers.setdefault(key, [])
                values.extend([0] * (position + 1 - len(values)))
                values[position] = by_rank[min(by_rank)]
        op = self.graph.add(
            kind,
            operands,
            types,
            name=self._name(name or kind.replace("custom:", "")),
            numbers=numbers,
            symbols=symbols,
            groups=groups,
            pairs=None if pairs is None else list(pairs),
            regions=regions,
            source=caller() if self.source is None else self.source,
            along=tuple((axis, self.mesh.axis_size(axis)) for axis in axis_names(along)) if along else (),
        )
        for (key, position), by_rank in (rank_numbers or {}).items():
            op.rank_numbers[key, position] = dict(by_rank)
        if types is not None or rank_numbers:  # types that are inferred are checked already
            check_op(op)
        if self._tape is not None:
            self._tape.append((op, None))
        return op

    def _once(
        self, kind: str, operands: Sequence[Tensor], dtype: str | None, shape: Sequence[int] | None,
        name: str | None, attributes: Mapping[str, Attribute],
    ) -> Op:  # fmt: skip
        (shared, self._shared), (tape, self._tape) = (self._shared, None), (self._tape, None)
        assert shared is not None
        said = (kind, dtype, shape and tuple(shape), repr(sorted(attributes.items())))
        key = (*said, *map(id, operands))
        try:
            if key not in shared:
                shared[key] = self.op(kind, *operands, dtype=dtype, shape=shape, name=name, attributes=attributes)
        finally:
            self._shared, self._tape = shared, tape
        if tape is not None:
            tape.append((shared[key], said))
        return shared[key]

    def _name(self, name: str) -> str:
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return f"{name}.{count}" if count else name


def axis_names(axes: Axes) -> list[str]:
    return [axes] if isinstance(axes, str) else list(axes)
