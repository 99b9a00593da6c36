"""Op kinds that a rules file speaks about, and what calls of them may look like.

Which kinds those are, and which attributes they have, is read from the file's text. How many operands a call has and of
how many dims is found by asking the rules: a call of every small shape is put before them, and those whose declared
factors fit its dims are kept.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scalify_dl.ir import graph
from scalify_dl.oracle.meaning import COLLECTIVES, MEANINGS, RANDOM, Call
from scalify_dl.oracle.meaning.declared import Structure
from scalify_dl.oracle.program import Op, Tensor
from scalify_dl.prove.own_rules import read_own
from scalify_dl.pysouffle import Program, rules_dir

from ..derive import declared_structures, derive_with, load_rules
from ..pair import Pair
from .world import Retry

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
OP_ATOM = re.compile(r'\b(?:op|plain_op|node|draft)\s*\(\s*[^(),]*,\s*[^(),]*,\s*"([^"]+)"')
ABOUT_KIND = re.compile(r'\b(?:elementwise|opaque|renaming|commutative|structural|linear_operand)\s*\(\s*"([^"]+)"')
ATTRIBUTE = re.compile(r'\battr_(number|symbol)\s*\(\s*[^(),]*,\s*"([^"]+)"\s*,\s*([^(),]*),\s*("[^"]*"|[^(),]*)\)')
MOST_OPERANDS, MOST_DIMS = 4, 4
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Attributes:
    """Of one call."""

    numbers: tuple[tuple[str, tuple[int, ...]], ...] = ()
    symbols: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def numbers_of(self) -> dict[str, list[int]]:
        """As a graph takes them."""
        return {key: list(values) for key, values in self.numbers}

    def symbols_of(self) -> dict[str, list[str]]:
        """As a graph takes them."""
        return {key: list(values) for key, values in self.symbols}


@dataclass(frozen=True, slots=True)
class Signature:
    """Calls of a kind that the rules say something about, or that have a registered meaning: attributes, shapes of one
    example, the structure that rules declare."""

    kind: str
    attributes: Attributes
    operands: tuple[Shape, ...]
    structure: Structure | None


@dataclass(slots=True)
class Kinds:
    """Kinds that some rules files name: calls that can be drawn, by kind, and why others cannot."""

    named: list[str] = field(default_factory=list)
    signatures: dict[str, list[Signature]] = field(default_factory=dict)

    def cut(self, kind: str) -> bool:
        """Whether calls of the kind have an index that can be cut between ranks."""
        structures = [s.structure for s in self.signatures.get(kind, ()) if s.structure is not None]
        return any(f < 200 for s in structures for factors in s.operands for f in factors)


def read_kinds(files: Iterable[Path], main: Path | None = None, seed: int = 0) -> Kinds:
    """What the rules files speak about; the rules are asked about possible calls of each kind."""
    files = list(files)
    texts = [_code(file.read_text(encoding="utf-8")) for file in read_own(files, rules_dir())]
    kinds = Kinds(list(dict.fromkeys(kind for text in texts for kind in named_kinds(text))))
    attributes = _attributes("\n".join(texts), random.Random(seed))
    for kind in kinds.named:
        if kind in COLLECTIVES or kind in RANDOM:
            continue
        found = list(_signatures(kind, files, main, attributes if is_opaque_like(kind) else [Attributes()]))
        if found:
            kinds.signatures[kind] = found
    return kinds


def is_opaque_like(kind: str) -> bool:
    """Whether the kind is a call of somebody's own, with a registered meaning or without."""
    return kind.startswith(("custom:", "unknown:"))


def named_kinds(text: str) -> Iterator[str]:
    """Kinds in a rules file without comments: calls, kinds of the vocabulary, and what stands where a kind does."""
    for quoted in re.findall(r'"([^"]*)"', text):
        if is_opaque_like(quoted) or quoted in MEANINGS or quoted in COLLECTIVES or quoted in RANDOM:
            yield quoted
    for pattern in (OP_ATOM, ABOUT_KIND):
        yield from pattern.findall(text)


def _code(text: str) -> str:
    """The text without comments."""
    return TOKEN.sub(lambda m: m[0] if m[0].startswith('"') else " ", text)


def _attributes(text: str, rng: random.Random, most: int = 6) -> list[Attributes]:
    """Some choices of the attributes that a file asks for, among them values that it compares with."""
    numbers: dict[str, dict[int, set[int]]] = {}
    symbols: dict[str, dict[int, set[str]]] = {}
    for sort, key, position, value in ATTRIBUTE.findall(text):
        at = int(position) if position.strip().isdigit() else 0
        value = value.strip()
        if sort == "number":
            known = numbers.setdefault(key, {}).setdefault(at, {0, 1, 2})
            known.update([int(value)] if value.lstrip("-").isdigit() else [])
        else:
            symbols.setdefault(key, {}).setdefault(at, {"other"}).update([value[1:-1]] if value.startswith('"') else [])

    def lists(options: dict[int, set[Any]]) -> tuple[Any, ...]:
        last = max(options)
        return tuple(rng.choice(sorted(options.get(p) or options[last], key=str)) for p in range(last + 1))

    drawn = {
        Attributes(
            tuple((key, lists(options)) for key, options in sorted(numbers.items())),
            tuple((key, lists(options)) for key, options in sorted(symbols.items())),
        )
        for _ in range(most)
    }
    return sorted(drawn, key=repr)


Example = tuple[Attributes, tuple[Shape, ...], tuple[Shape, ...]]
"""Attributes, shapes of operands, shapes of results."""


def _signatures(
    kind: str, files: Sequence[Path], main: Path | None, attributes: Sequence[Attributes]
) -> Iterator[Signature]:
    cubes: list[Example] = [
        (a, ((4,) * dims,) * count, ((4,) * dims,))
        for a in attributes for count in range(1, MOST_OPERANDS + 1) for dims in range(MOST_DIMS + 1)
    ]  # fmt: skip
    program = _asked(kind, cubes, files, main)
    factors = {name: program.relation(name) for name in ("factor", "result_factor")}
    viewed = {row[0] for row in program.relation("view_dim")}
    rng = random.Random(0)
    candidates: dict[Example, None] = {}
    for i, (a, operands, results) in enumerate(cubes):
        op = f"base/call{i}"
        if op in viewed:  # factors are those of dims that are products, which ones depends on the sizes
            for _ in range(12):
                drawn = [tuple(rng.choice([2, 4, 8]) for _ in x) for x in operands]
                common = [d for d in range(len(results[0])) if rng.random() < 0.6]  # dims alike in all operands
                alike = tuple(tuple(drawn[0][d] if d in common else n for d, n in enumerate(x)) for x in drawn)
                candidates[a, alike, alike[:1]] = None
            continue
        if all(row[0] != op for row in factors["result_factor"]):  # elementwise, a renaming: it takes what it gets
            candidates[a, operands, results] = None
            continue
        ranks = _ranks([row for row in factors["factor"] if row[0] == op], len(operands) if kind in MEANINGS else 0)
        made = _ranks([row for row in factors["result_factor"] if row[0] == op], 0)
        for sizes in ((4,), (2,), (4, 2), (2, 4)):
            shapes = tuple(tuple((sizes * MOST_DIMS)[:r]) for r in ranks)
            candidates[a, shapes, tuple(tuple((sizes * MOST_DIMS)[:r]) for r in made)] = None
    examples = list(candidates)
    program = _asked(kind, examples, files, main)
    found = declared_structures(program, {kind})
    for i, (a, operands, results) in enumerate(examples):
        structure = found.get(f"base/call{i}")
        if structure is not None and structure.extents(operands) is None:
            continue
        s = Signature(kind, a, operands, structure)
        if kind in MEANINGS:
            try:
                meant_shapes(kind, a, operands, results)
            except Retry:
                continue
            yield s
        elif structure is not None:
            yield s


def meant_shapes(
    kind: str, attributes: Attributes, operands: Sequence[Shape], guess: Sequence[Shape]
) -> list[Shape]:  # fmt: skip
    """What a registered meaning makes of operands of these shapes; `guess` is what the call says that it makes. Raises
    Retry where it makes nothing of them."""
    op = Op("", kind, numbers=attributes.numbers_of(), symbols=attributes.symbols_of())
    types = [Tensor("", "f32", shape) for shape in guess]
    rng = np.random.default_rng(0)
    values = [np.asarray(rng.uniform(0.5, 1, shape)) for shape in operands]
    for value in values:  # as in a run: a function of numpy would take one too many as the place for its result
        value.flags.writeable = False
    try:
        results = MEANINGS[kind](Call(op, 0, types), values)
    except Exception as error:  # whatever a meaning, perhaps of somebody's own, says of a call that is none
        raise Retry from error
    return [np.shape(x) for x in results]


def _ranks(rows: Sequence[Sequence[Any]], least: int) -> list[int]:
    """How many dims of each operand (or result) have factors."""
    found: dict[int, int] = {}
    for _, which, dim, _ in rows:
        found[which] = max(found.get(which, 0), dim + 1)
    return [found.get(i, 0) for i in range(max([least, *(i + 1 for i in found)]))]


def _asked(kind: str, examples: Sequence[Example], files: Sequence[Path], main: Path | None) -> Program:
    """The rules after a run over such calls."""
    pair = Pair({"tp": 2})
    inputs: dict[Shape, graph.Tensor] = {}
    for i, (a, operands, results) in enumerate(examples):
        xs = []
        for k, shape in enumerate(operands):
            key = (k, *shape)
            if key not in inputs:
                inputs[key] = pair.base.input(f"x{len(inputs)}", "f32", shape)
            xs.append(inputs[key])
        types = [("f32", shape) for shape in results]
        pair.base.add(kind, xs, types, name=f"call{i}", numbers=a.numbers_of(), symbols=a.symbols_of())
    return derive_with(load_rules(files, main), pair.tables()).program
