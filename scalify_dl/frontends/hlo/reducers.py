"""What a scalar computation does: sum, max, argmax, ascending order, “replace”, … or something else.

Binary reducers are recognised by form: the root is one operation of both parameters, casts in between allowed. What
only compares and selects (argmax pairs, comparators, max by `select`) is recognised by *running* it: such a function
sees nothing of its arguments but their order, their order relative to the constants in it, and NaN, so running it on
one representative of every case decides it for all arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

from .attributes import integers
from .module import Computation, Instruction

BINARY = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod", "and": "and", "or": "or", "xor": "xor"}
CASTS = ("convert", "copy", "bitcast", "reduce-precision")
_ORDERING = frozenset(
    "parameter constant compare select and or not xor tuple copy maximum minimum broadcast reshape".split()
)
_COMPARE = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}
NAN = math.nan


class Reducers:
    """Recognises the computations of one module; each is looked at once."""

    def __init__(self, computations: dict[str, Computation]) -> None:
        self.computations = computations
        self.seen: dict[tuple[str, str], str | None | list[str | None]] = {}

    def binary(self, name: str) -> str | None:
        """`sum max min prod and or xor`, `replace` (the second argument), None for anything else."""
        kinds = self.variadic(name)
        return kinds[0] if len(kinds) == 1 else None

    def variadic(self, name: str) -> list[str | None]:
        """The reducers of a computation over n pairs (x0…, y0…), component by component; None for anything else.

        Two components that are one index reduction are `["argmax", "argmax.index"]`.
        """
        key = ("reduce", name)
        if key not in self.seen:
            computation = self.computations.get(name)
            self.seen[key] = _reducers(computation) if computation else [None]
        found = self.seen[key]
        assert isinstance(found, list)
        return found

    def order(self, name: str) -> str | None:
        """`ASC` or `DESC` where a comparator orders by its first pair of arguments, else None."""
        key = ("order", name)
        if key not in self.seen:
            computation = self.computations.get(name)
            self.seen[key] = _order(computation) if computation else None
        found = self.seen[key]
        assert not isinstance(found, list)
        return found


def _reducers(computation: Computation) -> list[str | None]:
    by_name = {i.name: i for i in computation.instructions}
    parameters = _parameters(computation)
    root = computation.root
    roots = [by_name.get(name) for name in root.operands] if root.opcode == "tuple" else [root]
    pairs = len(parameters) // 2
    if len(parameters) != 2 * len(roots) or any(r is None for r in roots):
        return [None] * max(len(roots), 1)
    found: list[str | None] = []
    for position, component in enumerate(roots):
        assert component is not None
        found.append(_component(component, by_name, parameters, position, pairs))
    if None in found and pairs == 2:
        index = _index_reduction(computation)
        if index:
            return [index, f"{index}.index"]
    if found == [None] and _ordering_only(computation):
        return [_extremum(computation)]
    return found


def _component(
    root: Instruction, by_name: dict[str, Instruction], parameters: dict[str, int], position: int, pairs: int
) -> str | None:
    """The reducer of one component: an operation of parameters `position` and `position + pairs`."""
    root = _through_casts(root, by_name)
    if root.name in parameters:
        return "replace" if parameters[root.name] == position + pairs else None
    kind = BINARY.get(root.opcode)
    if kind is None or len(root.operands) != 2:
        return None
    leaves = {
        parameters.get(_through_casts(by_name[name], by_name).name, -1) for name in root.operands if name in by_name
    }
    if leaves != {position, position + pairs}:
        return None
    # `add` of booleans is `or`, `multiply` is `and`
    if "pred[" in root.type_text:
        return {"sum": "or", "prod": "and", "max": "or", "min": "and"}.get(kind, kind)
    return kind


def _through_casts(instruction: Instruction, by_name: dict[str, Instruction]) -> Instruction:
    for _ in range(len(by_name)):
        if instruction.opcode not in CASTS or not instruction.operands or instruction.operands[0] not in by_name:
            return instruction
        instruction = by_name[instruction.operands[0]]
    return instruction


def _parameters(computation: Computation) -> dict[str, int]:
    return {i.name: integers(i.operand_text)[0] for i in computation.instructions if i.opcode == "parameter"}


def _ordering_only(computation: Computation) -> bool:
    return len(computation.instructions) <= 64 and all(i.opcode in _ORDERING for i in computation.instructions)


class _CannotRun(Exception):
    """A comparison function does something that is not comparing."""


def _run(computation: Computation, arguments: list[float]) -> float | tuple[float, ...]:
    """Runs a function that only compares and selects."""
    values: dict[str, float | tuple[float, ...]] = {}
    for i in computation.instructions:
        if i.opcode == "parameter":
            values[i.name] = arguments[integers(i.operand_text)[0]]
            continue
        if i.opcode == "constant":
            text = i.operand_text.strip().lower()
            values[i.name] = {"true": 1.0, "false": 0.0}.get(text) if text in ("true", "false") else float(text)  # type: ignore[assignment]
            continue
        operands = [values[name] for name in i.operands]
        values[i.name] = _apply(i, operands)
    return values[computation.root.name]


def _apply(i: Instruction, operands: list[float | tuple[float, ...]]) -> float | tuple[float, ...]:
    if i.opcode == "tuple":
        return tuple(x for x in operands if not isinstance(x, tuple))
    x = [operand for operand in operands if not isinstance(operand, tuple)]
    match i.opcode:
        case "compare":
            return float(_COMPARE[i.attributes["direction"]](x[0], x[1]))
        case "select":
            return x[1] if x[0] else x[2]
        case "and" | "or" | "xor" | "not" if "pred[" in i.type_text:
            if i.opcode == "not":
                return float(not x[0])
            return {"and": min(x), "or": max(x), "xor": float(x[0] != x[1])}[i.opcode]
        case "maximum" | "minimum":
            if any(map(math.isnan, x)):
                return NAN
            return max(x) if i.opcode == "maximum" else min(x)
        case "copy" | "reshape" | "broadcast":
            return x[0]
    raise _CannotRun(i.opcode)


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _constants(computation: Computation) -> list[float]:
    found = []
    for i in computation.instructions:
        if i.opcode == "constant" and i.type_text[:4] != "pred":
            found.append(float(i.operand_text.strip()))
    return found


def _representatives(computation: Computation) -> list[float]:
    """One value for every position relative to the constants, two where two arguments can lie apart."""
    points = sorted({c for c in _constants(computation) if math.isfinite(c)})
    values: list[float] = []
    previous: float | None = None
    for point in points:
        values += [point - 2, point - 1] if previous is None else [previous + (point - previous) / 3, previous + (point - previous) * 2 / 3]
        values.append(point)
        previous = point
    last = previous if previous is not None else 0.0
    return [*values, last + 1, last + 2]


def _extremum(computation: Computation) -> str | None:
    """`max` or `min` of two arguments made of comparisons; NaN cases must give NaN or are free for integers."""
    try:
        points: Iterable[float] = _representatives(computation)
        results = {pair: _run(computation, list(pair)) for pair in product(points, repeat=2)}
    except (_CannotRun, KeyError, ValueError, IndexError):
        return None
    for kind, function in (("max", max), ("min", min)):
        if all(result == function(pair) for pair, result in results.items()):
            return kind
    return None


def _index_reduction(computation: Computation) -> str | None:
    """`argmax`/`argmin` where a computation over (value, index) pairs takes the better value, lowest index first."""
    if not _ordering_only(computation):
        return None
    types = {n: i.type_text for i in computation.instructions if i.opcode == "parameter" for n in integers(i.operand_text)}
    if sorted(types) != [0, 1, 2, 3] or types[1][:1] not in "su" or _constants(computation):
        return None
    candidates = {"argmax", "argmin"}
    # values below, at, between and above the indices: all cases even where values are compared with indices
    points = (1.0, 2.0, 5.0, 6.0, 6.5, 7.0, 8.0, 9.0)
    for v0, v1, (i0, i1) in product(points, points, ((5.0, 7.0), (7.0, 5.0))):
        try:
            result = _run(computation, [v0, i0, v1, i1])
        except (_CannotRun, KeyError, ValueError, IndexError):
            return None
        lowest = min(i0, i1)
        wanted = {
            "argmax": (max(v0, v1), lowest if v0 == v1 else (i0 if v0 > v1 else i1)),
            "argmin": (min(v0, v1), lowest if v0 == v1 else (i0 if v0 < v1 else i1)),
        }
        candidates = {kind for kind in candidates if result == wanted[kind]}
    return candidates.pop() if len(candidates) == 1 else None


def _order(computation: Computation) -> str | None:
    """`ASC`/`DESC` where the comparator says “first argument before second” by comparing the two, NaN last or free."""
    parameters = _parameters(computation)
    used = {name for i in computation.instructions for name in (i.operands if i.opcode not in ("constant", "parameter") else [])}
    if not _ordering_only(computation) or {n for name, n in parameters.items() if name in used} != {0, 1}:
        return None
    candidates = {"ASC", "DESC"}
    try:
        for a, b in product(_representatives(computation), repeat=2):
            result = _run(computation, [a, b] + [0.0] * (len(parameters) - 2))
            wanted = {"ASC": a < b, "DESC": a > b}
            candidates = {kind for kind in candidates if bool(result) == wanted[kind]}
    except (_CannotRun, KeyError, ValueError, IndexError):
        return None
    return candidates.pop() if len(candidates) == 1 else None
