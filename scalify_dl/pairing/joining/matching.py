"""Which ops of several programs are one op: those that do the same to values that are the same.

Programs are walked along the data, the first one in its order, so that no order of independent ops matters. What
matches is a proposal: whether an op can be done once for all programs is decided where it is done.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scalify_dl.ir.dtypes import is_integer
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.vocabulary import COLLECTIVES, ELEMENTWISE, RANDOM, RANKED

from .values import Value, in_blocks

__all__ = ["LIFTED", "Match", "is_splat", "matched"]

LIFTED = ELEMENTWISE | {"broadcast", "reshape"}
"""Kinds that match though unequal parts of a value give them other shapes."""

SINGLE = RANDOM | {"empty"}
"""Kinds of which each op gives values of its own, whatever its operands."""


@dataclass(eq=False, slots=True)
class Match:
    """An op of every program. `mixed`: some operands are a program's own."""

    ops: list[Op]
    mixed: bool = False
    results: list[Value] | None = None  # what it gives, when it is done
    dead: bool = False


@dataclass(eq=False)
class _Side:
    """A program that is searched for partners of the first one's ops."""

    program: Graph
    ids: dict[Tensor, int] = field(default_factory=dict)
    users: dict[Tensor, list[Op]] = field(default_factory=dict)
    exact: dict[Hashable, list[Op]] = field(default_factory=dict)
    loose: dict[Hashable, list[Op]] = field(default_factory=dict)
    images: dict[int, list[Tensor]] = field(default_factory=dict)
    found: dict[Op, Match] = field(default_factory=dict)
    by_key: dict[Hashable, Match] = field(default_factory=dict)  # of ops that do the same as one that was found
    scalars: dict[Tensor, int] = field(default_factory=dict)  # of what is one number everywhere, that number's
    filled: dict[Tensor, Tensor] = field(default_factory=dict)  # what has something behind its end → it without that

    def users_of(self, x: Tensor) -> list[Op]:
        """What reads a value, or the value with something behind its end."""
        users = self.users.get(x, [])
        longer = [y for user in users for y in user.results if self.filled.get(y) is x]
        return [*users, *(user for y in longer for user in self.users.get(y, ()))]


class _Matching:
    def __init__(self, programs: Sequence[Graph], met: Iterable[Sequence[Op]]) -> None:
        self.first, *rest = programs
        self.ids: dict[Tensor, int] = {}
        self.found: dict[Op, Match] = {}
        self.by_key: dict[Hashable, Match] = {}
        self.of_match: dict[Match, list[int]] = {}
        self.scalars: dict[Tensor, int] = {}
        self.splats: dict[Hashable, int] = {}
        self.anchored: set[int] = set()
        self.count = 0
        self.met = {ops[0]: Match(list(ops)) for ops in met}
        self.makers = {x: op for op in self.first.ops for x in op.results}
        self.sides = [_Side(program) for program in rest]
        for side in self.sides:
            for op in side.program.ops:
                for x in dict.fromkeys(op.operands):
                    side.users.setdefault(x, []).append(op)
                if op.kind == "concatenate" and len(op.operands) == 2:
                    side.filled[op.result] = op.operands[0]
                if not op.operands:
                    self.register(side, op)

    def id(self, *, anchored: bool) -> int:
        self.count += 1
        if anchored:
            self.anchored.add(self.count)
        return self.count

    def register(self, side: _Side, op: Op) -> None:
        """An op of another program all of whose operands have partners may be looked for."""
        if is_splat(op, side.scalars):
            self.give(side, op.result, self.splat(op, side.ids, side.scalars))
            return
        exact = _key(op, side.ids, side.scalars)
        known = self.by_key.get(exact) or side.by_key.get(exact)
        if known is not None and op.kind not in SINGLE:
            self.bind(side, op, known)
            return
        side.exact.setdefault(exact, []).append(op)
        side.loose.setdefault(_loose_key(op, side.ids, side.scalars), []).append(op)

    def splat(self, op: Op, ids: Mapping[Tensor, int], scalars: dict[Tensor, int]) -> int:
        """The number of what is one number everywhere: no match, as it is at once what it is in every program."""
        numbers = tuple(scalars.get(x, ids[x]) for x in op.operands)
        if op.kind in ELEMENTWISE:
            key = (_attributes(op), op.result.dtype, numbers)
            scalars[op.result] = self.splats.setdefault(key, self.id(anchored=False))
        else:
            (scalars[op.result],) = numbers
        return self.splats.setdefault((scalars[op.result], _types(op)), self.id(anchored=False))

    def bind(self, side: _Side, op: Op, match: Match) -> None:
        """An op of another program is that of a match."""
        if op in side.found:
            return
        side.found[op] = match
        for result, number in zip(op.results, self.of_match[match], strict=True):
            self.give(side, result, number)

    def give(self, side: _Side, tensor: Tensor, number: int) -> None:
        """A value of another program is one of the first's."""
        side.ids[tensor] = number
        side.images.setdefault(number, []).append(tensor)
        for op in side.users.get(tensor, ()):
            if op not in side.found and all(x in side.ids for x in op.operands):
                self.register(side, op)

    def input(self, tensors: Sequence[Tensor]) -> None:
        """Inputs of all programs that are one."""
        number = self.id(anchored=True)
        self.ids[tensors[0]] = number
        for side, tensor in zip(self.sides, tensors[1:], strict=True):
            self.give(side, tensor, number)

    def accept(self, op: Op, match: Match, *, anchored: bool) -> None:
        """An op of the first program has partners."""
        self.found[op] = match
        if match not in self.of_match:
            self.of_match[match] = [self.id(anchored=anchored) for _ in op.results]
        self.ids.update(zip(op.results, self.of_match[match], strict=True))

    def walk(self) -> None:
        for op in self.first.ops:
            if op in self.met:
                match = self.met[op]
                self.accept(op, match, anchored=True)
                for side, partner in zip(self.sides, match.ops[1:], strict=True):
                    self.bind(side, partner, match)
            elif op.kind in ("send", "recv") or op.regions:
                continue
            else:
                self.look(op)

    def look(self, op: Op) -> None:
        """Looks for partners of an op in all programs."""
        numbers = [self.ids.get(x) for x in op.operands]
        if None not in numbers and is_splat(op, self.scalars):
            self.ids[op.result] = self.splat(op, self.ids, self.scalars)
            return
        anchored = any(number in self.anchored for number in numbers)
        if None not in numbers and self.exactly(op, anchored=anchored):
            return
        loose = op.kind in LIFTED or (op.kind in RANKED and op.kind != "constant")
        if None not in numbers and loose and self.loosely(op, anchored=anchored):
            return
        if op.kind not in COLLECTIVES and (anchored or self.counts(op, numbers)):
            self.mixed(op, numbers)

    def counts(self, op: Op, numbers: Sequence[int | None]) -> bool:
        """Whether an op computes integers of a value that is one and of a number that is each program's own."""
        known = any(number is not None for number in numbers)
        own = [x for x, number in zip(op.operands, numbers, strict=True) if number is None]
        return known and op.kind in ELEMENTWISE and is_integer(op.result.dtype) and all(map(self.is_number, own))

    def is_number(self, x: Tensor) -> bool:
        """Whether a value of the first program is one constant everywhere."""
        op = self.makers.get(x)
        while op is not None and op.kind == "broadcast":
            op = self.makers.get(op.operands[0])
        return op is not None and op.kind == "constant" and not op.result.shape

    def exactly(self, op: Op, *, anchored: bool) -> bool:
        """The same op on the same values."""
        key = _key(op, self.ids, self.scalars)
        known = self.by_key.get(key)
        if known is not None and op.kind not in SINGLE:
            self.accept(op, known, anchored=anchored)
            return True
        partners = [[p for p in side.exact.get(key, ()) if p not in side.found] for side in self.sides]
        if not all(partners):
            return False
        match = Match([op, *(some[0] for some in partners)])
        self.accept(op, match, anchored=anchored)
        self.by_key[key] = match
        for side, some in zip(self.sides, partners, strict=True):
            for partner in some[:1] if op.kind in SINGLE else some:
                self.bind(side, partner, match)
        return True

    def loosely(self, op: Op, *, anchored: bool) -> bool:
        """Slices at other places, ops on unequal parts."""
        key = _loose_key(op, self.ids, self.scalars)
        chosen: list[Op] = []
        for side in self.sides:
            some = [p for p in side.loose.get(key, ()) if p not in side.found]
            alike = [p for p in some if _types(p) == _types(op)] + [p for p in some if _parts(op, chosen, p)]
            if not alike:
                return False
            # in a buffer of many parts, those that begin at the same place
            here = (p for p in alike if p.numbers.get("start") == op.numbers.get("start"))
            chosen.append(next(here, alike[0]))
        match = Match([op, *chosen])
        self.pair(op, match, anchored=anchored)
        self.by_key[_key(op, self.ids, self.scalars)] = match
        for side, partner in zip(self.sides, chosen, strict=True):
            same = _key(partner, side.ids, side.scalars)
            side.by_key[same] = match
            for other in side.exact.get(same, ()):
                self.bind(side, other, match)
        return True

    def mixed(self, op: Op, numbers: Sequence[int | None]) -> None:
        """An op some of whose operands are each program's own."""
        given = [number for number in numbers if number is not None]
        known = [number for number in given if number in self.anchored] or given
        chosen: list[Op] = []
        for side in self.sides:
            images = [x for number in known for x in side.images.get(number, ())]
            users = [user for x in images for user in side.users_of(x)]
            some = [p for p in dict.fromkeys(users) if self._alike(op, p, side)]
            if not some:
                return
            chosen.append(max(some, key=lambda p: self._common(numbers, p, side, known)))
            if not self._common(numbers, chosen[-1], side, known):
                return
        self.pair(op, Match([op, *chosen], mixed=True), anchored=True)

    def pair(self, op: Op, match: Match, *, anchored: bool) -> None:
        """An op and its partners are one."""
        self.accept(op, match, anchored=anchored)
        for side, partner in zip(self.sides, match.ops[1:], strict=True):
            self.bind(side, partner, match)

    @staticmethod
    def _common(numbers: Sequence[int | None], partner: Op, side: _Side, known: Container[int]) -> int:
        """How many operands are the same ones that are known, or parts of the same that are filled up."""
        theirs = [side.ids.get(x, side.ids.get(side.filled.get(x, x))) for x in partner.operands]
        return sum(a == b and a in known for a, b in zip(numbers, theirs, strict=True) if a is not None)

    @staticmethod
    def _alike(op: Op, partner: Op, side: _Side) -> bool:
        return (
            partner not in side.found
            and _attributes(partner) == _attributes(op)
            and _types(partner) == _types(op)
            and [x.shape for x in partner.operands] == [x.shape for x in op.operands]
        )


def matched(
    programs: Sequence[Graph], inputs: Iterable[Sequence[Tensor]], met: Iterable[Sequence[Op]]
) -> list[dict[Op, Match]]:
    """By program, the match that an op belongs to. `inputs` are those that are one, by program; `met` collectives."""
    matching = _Matching(programs, met)
    for tensors in inputs:
        matching.input(tensors)
    matching.walk()
    return [matching.found, *(side.found for side in matching.sides)]


def _attributes(op: Op, without: Iterable[str] = ()) -> Hashable:
    numbers = tuple((key, tuple(values)) for key, values in sorted(op.numbers.items()) if key not in without)
    symbols = tuple((key, tuple(values)) for key, values in sorted(op.symbols.items()))
    own = id(op) if op.regions or (op.rank_numbers and not without) else 0
    return op.kind, numbers, symbols, own


def _types(op: Op) -> Hashable:
    return tuple((t.dtype, t.shape) for t in op.results)


def is_splat(op: Op, known: Container[Tensor]) -> bool:
    """Whether an op gives a scalar everywhere, or what is computed of such, which are `known`, in any shape."""
    if len(op.results) != 1 or not op.result.shape or not op.operands or op.rank_numbers:
        return False
    if op.kind in ELEMENTWISE:
        return all(x in known for x in op.operands)
    return op.kind in ("broadcast", "reshape") and (not op.operands[0].shape or op.operands[0] in known)


def _read(op: Op, ids: Mapping[Tensor, int], scalars: Mapping[Tensor, int]) -> Hashable:
    """What an op takes: of what is one number everywhere, where shapes are those of the other operands, the number."""
    if op.kind in ELEMENTWISE:
        return tuple(("scalar", scalars[x]) if x in scalars else ids[x] for x in op.operands)
    return tuple(ids[x] for x in op.operands)


def _key(op: Op, ids: Mapping[Tensor, int], scalars: Mapping[Tensor, int]) -> Hashable:
    literal: Hashable = op.results[0].literal if op.kind == "constant" and op.results else None
    if literal is not None and op.result.literal is not None and op.result.literal.is_elided:
        literal = literal if op.result.literal.sha256 else id(op)
    return _attributes(op), _types(op), literal, _read(op, ids, scalars)


def _loose_key(op: Op, ids: Mapping[Tensor, int], scalars: Mapping[Tensor, int]) -> Hashable:
    if op.kind == "constant":
        return "constant", id(op)
    types = tuple((t.dtype, len(t.shape)) for t in op.results)
    return _attributes(op, RANKED.get(op.kind, ())), types, _read(op, ids, scalars)


def _parts(op: Op, chosen: Sequence[Op], other: Op) -> bool:
    """Whether results are parts of one value, along one dim."""
    shapes = [each.results[0].shape for each in (op, *chosen, other)]
    differing = [d for d in range(len(shapes[0])) if len({shape[d] for shape in shapes}) > 1]
    return len(differing) == 1 and in_blocks([shape[differing[0]] for shape in shapes])
