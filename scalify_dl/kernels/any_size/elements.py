"""Values of expressions as formulas: places stay whole numbers, elements are unknowns of the algebra."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from scalify_dl.algebra import elementwise, extended, laws
from scalify_dl.algebra.cells import number
from scalify_dl.algebra.extended import Cell
from scalify_dl.algebra.form import Form
from scalify_dl.algebra.variables import Variable
from scalify_dl.oracle.dtypes import holds_all, is_float, is_integer, precision
from scalify_dl.readers.tir.syntax import Apply, Buffer, Expr, Load, Number, Var
from scalify_dl.sizes import above, quotient

from ..alone import loads
from ..domain import Undecided
from ..formulas import ln2, stood_for
from ..terms import constant
from .places import Place, digits, divided, matched
from .positions import compared, least, most, negated

if TYPE_CHECKING:
    from .machine import Frame, Machine


@dataclass(frozen=True, slots=True)
class Pick:
    """An element of an integer argument: where it is, as data of an unknown."""

    data: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """What a name stands for that has no value of its own, such as a quotient: it may be the length of a loop."""

    what: Expr
    frame: Frame


class First(Undecided):
    """Something that is so in the first iteration of a loop alone, or in all but that one."""

    def __init__(self, loop: int) -> None:
        super().__init__("a branch on the first iteration of a loop")
        self.loop = loop


Value = bool | Place | Form | extended.Masked | Pick
_COMPARED = ("LT", "LE", "GT", "GE", "EQ", "NE")
UNTYPED = {"int": "s32", "real": "f32"}
"""Types of numbers that are written without one."""


class Elements:
    """What expressions of one kernel are. `assumed` is what that rests on."""

    def __init__(self, machine: Machine, *, reals: bool) -> None:
        self.machine, self.basis, self.reals = machine, machine.basis, reals
        self.assumed: dict[str, str] = {}
        self.casts: dict[tuple[int, str, str], None] = {}
        self.powers_of_two = any(kind in ("exp2", "log2") for kind in _kinds(machine.kernel.body))

    # ---- places ----
    def place(self, x: Expr, frame: Frame) -> Place:
        """A whole number that is a sum of variables."""
        found = self.value(x, frame)
        if not isinstance(found, Place):
            raise Undecided("a place that depends on elements")
        return found

    def index(self, x: Expr, frame: Frame) -> Place | Pick:
        """A place, or one that an element of an argument says."""
        found = self.value(x, frame)
        if isinstance(found, (Place, Pick)):
            return found
        raise Undecided("a place that is computed of elements")

    def argument(self, buffer: Buffer, places: Sequence[Place | Pick]) -> Form:
        """An element of an argument that is not written."""
        return self.unknown(self.data(buffer, places))

    def unknown(self, data: tuple[Any, ...]) -> Form:
        """An element of an argument."""
        return self.basis.of(self.basis.element("input", data))

    def data(self, buffer: Buffer, places: Sequence[Place | Pick]) -> tuple[Any, ...]:
        """Which element of an argument it is: for each dim the digits of its place."""
        name = self.machine.names.get(buffer.name, buffer.name)
        found: list[Any] = []
        for d, (place, size) in enumerate(zip(places, buffer.shape, strict=True)):
            if isinstance(place, Pick):
                self.assumed["indices that arguments hold are within what they index"] = "range"
                found.append(("at", place.data))
            else:
                found.append(self._within(digits(("argument", name, d), size, self.machine.cuts), place, size))
        return ("argument", name, *found)

    def _within(self, dim: Sequence[Variable], place: Place, size: int) -> tuple[Any, ...]:
        """A place as the digits of its dim; one that is none of them, as that of a window, as the sum that it is."""
        try:
            return tuple(matched(dim, place))
        except Undecided:
            if not (above(least(place) + 1) and above(size - most(place))):
                raise
            return ("sum", place.form(self.basis))

    # ---- values ----
    def value(self, x: Expr, frame: Frame) -> Value:
        """A truth that is known, a place, or a formula."""
        match x:
            case Number(value=bool() as value):
                return value
            case Number(value=value, dtype=dtype):
                if not is_float(dtype) and dtype != "real":
                    return Place.number(value)  # type: ignore[arg-type]
                return self.constant(value, dtype)
            case Var(name=name):
                if name not in frame.names:
                    raise Undecided(f"`{name}` has no value here")
                found = frame.names[name]
                return self.value(found.what, found.frame) if isinstance(found, Named) else found
            case Load(buffer=buffer, indices=indices, line=line):
                places = [self.index(i, frame) for i in indices]
                given = id(buffer) in self.machine.arguments and id(buffer) not in self.machine.outputs
                if buffer.dtype == "pred":
                    raise Undecided("truths of arguments", line)
                if given and is_integer(buffer.dtype):
                    return Pick(self.data(buffer, places))
                if given:
                    return self.argument(buffer, places)
                return self.machine.read(buffer, places, frame)
        return self._applied(x, frame)

    def named(self, x: Expr, frame: Frame) -> Expr:
        """An expression, or what it is a name of."""
        found = frame.names.get(x.name) if isinstance(x, Var) else None
        return self.named(found.what, found.frame) if isinstance(found, Named) else x

    def let(self, x: Expr, frame: Frame) -> Value | Named:
        """What a name is given."""
        try:
            return self.value(x, frame)
        except Undecided:
            if any(True for _ in _loads(x)):
                raise
            return Named(x, frame)

    def constant(self, value: Any, dtype: str) -> Cell:
        """A number of a type of reals; a size is a formula."""
        if isinstance(value, int) and not isinstance(value, bool):
            return Place.number(value).form(self.basis)
        found = constant(value, "f64" if dtype == "real" else dtype)
        if isinstance(found, float):
            return number(self.basis, found)
        said: dict[str, None] = {}
        form = stood_for(self.basis, found, self.powers_of_two, said)
        self.assumed |= dict.fromkeys(said, "constant")
        return form

    def cell(self, x: Expr, frame: Frame, dtype: str) -> Cell:
        """A value as an element of a type."""
        return self._cell(self.value(x, frame))

    def _cell(self, found: Value) -> Cell:
        if isinstance(found, Place):
            return found.form(self.basis)
        if isinstance(found, Pick):
            return self.unknown(found.data)
        return self.basis.constant(int(found)) if isinstance(found, bool) else found

    def _applied(self, x: Expr, frame: Frame) -> Value:
        assert isinstance(x, Apply)
        if x.kind in ("select", "eager-select"):
            which = self.value(x.args[0], frame)
            if isinstance(which, bool):
                return self.value(x.args[1] if which else x.args[2], frame)
            yes, no = (self._cell(self.value(a, frame)) for a in x.args[1:])
            truth = elementwise.truth(self.basis, which)
            if isinstance(yes, extended.Masked) and isinstance(no, Form):  # what is shown is one comparison
                truth, yes, no = negated(truth), no, yes
            return extended.choose(truth, yes, no)
        args = [self.value(a, frame) for a in x.args]
        before = x.args[0].dtype
        if x.kind == "convert":
            if isinstance(args[0], Place) and is_integer(x.dtype):
                return args[0]
            return self.cast(self._cell(args[0]), UNTYPED.get(before, before), x.dtype, x.line)
        if all(isinstance(a, Place) for a in args) and not is_float(x.dtype) and x.dtype != "real":
            found = self._of_places(x.kind, args, frame)  # type: ignore[arg-type]
            if found is not None:
                return found
        if x.dtype == "pred" and x.kind in elementwise.TRUTHS:
            return self._truth(x.kind, args)
        return self.apply(x.kind, [self._cell(a) for a in args], "f32" if before == "real" else before)

    def _truth(self, kind: str, args: Sequence[Value]) -> Value:
        if all(isinstance(a, bool) for a in args):
            if kind == "not":
                return not args[0]
            return all(args) if kind == "and" else any(args) if kind == "or" else args[0] != args[1]
        return elementwise.TRUTHS[kind](*(elementwise.truth(self.basis, self._cell(a)) for a in args))

    def _of_places(self, kind: str, args: Sequence[Place], frame: Frame) -> Value | None:
        """Index arithmetic."""
        a, b = args[0], args[-1]
        if kind == "add":
            return a + b
        if kind in ("subtract", "negate"):
            return (a if kind == "subtract" else Place.number(0)) + b.scaled(-1)
        if kind == "multiply" and (a.value is not None or b.value is not None):
            return b.scaled(a.start) if a.value is not None else a.scaled(b.start)
        if kind in ("floor-divide", "floor-modulo", "truncate-divide", "truncate-modulo") and b.value is not None:
            if not (above(b.start) and above(a.bounds()[0] + 1)):
                raise Undecided("a division of what may be negative")
            return divided(a, b.start)["modulo" in kind]
        if kind in ("minimum", "maximum"):
            low, high = least(a + b.scaled(-1)), most(a + b.scaled(-1))
            if above(1 - high):
                return a if kind == "minimum" else b
            if above(low + 1):
                return b if kind == "minimum" else a
        if kind in _COMPARED:
            return self._compared(kind, a, b, frame)
        if kind in ("shift-left", "shift-right", "and", "or", "xor", "not"):
            return None
        raise Undecided(f"`{kind}` of places")

    def _compared(self, kind: str, a: Place, b: Place, frame: Frame) -> Value:
        """A comparison of places: known where it is so in all iterations that are meant, or in none."""
        found = compared(self.basis, kind, a, b)
        if found.value is not None:
            return bool(found.value)
        for loop, k in frame.later.items():
            known = _known(kind, a + b.scaled(-1), k + Place.number(-1))
            if known is not None and loop in self.machine.begun:
                return known
            if known is not None:
                raise First(loop)
        return found

    # ---- ops ----
    def apply(self, kind: str, xs: Sequence[Cell], dtype: str) -> Cell:
        """An op on elements of a type."""
        if kind in _COMPARED and is_float(dtype):
            return elementwise.compared(kind, *xs)
        if not is_float(dtype):
            forms = tuple(extended.finite(x, kind) for x in xs)
            return laws.function(self.basis, "kernel", (f"{kind}:{dtype}", *forms))
        if kind == "exp2":
            return extended.exponential(extended.multiply(xs[0], ln2(self.basis, 1)))
        if kind == "log2":
            return extended.multiply(extended.logarithm(xs[0]), ln2(self.basis, -1))
        if kind in elementwise.BINARY and len(xs) == 2:
            return elementwise.BINARY[kind](*xs)
        if kind in elementwise.UNARY and len(xs) == 1:
            return elementwise.UNARY[kind](xs[0])
        raise Undecided(f"`{kind}` is not followed for all sizes")

    def cast(self, x: Cell, before: str, after: str, line: int = 0) -> Cell:
        """A cast: exact ones are none; others are named by what they do."""
        name = ""
        if is_float(before) and is_float(after):
            if not holds_all(after, before):
                self.casts[line, before, after] = None
                if self.reals:
                    self.assumed[f"casts from {before} to {after} do not round"] = "range"
                else:
                    name = f"round:{after}"
        elif is_float(after):
            x = laws.function(self.basis, "kernel", ("real", extended.finite(x, "a cast")))
            name = "" if before == "pred" or int(before[1:]) <= precision(after) else f"round:{after}"
        elif before != after:
            name = f"from {before} to {after}"
        return laws.function(self.basis, "kernel", (name, extended.finite(x, "a cast"))) if name else x

    def operand(self, x: Cell, mine: str, dtype: str) -> Cell:
        """An operand of a product in the type of the sum: a narrower sum does not round what it adds."""
        if mine == dtype or (is_float(mine) and is_float(dtype)):
            return x
        return self.cast(x, mine, dtype)

    def updated(self, x: Expr, buffer: Buffer, line: int) -> tuple[str, Expr]:
        """What `c + x` or `max(c, x)` combines with c, and how; c is an element of a buffer."""
        if isinstance(x, Apply) and x.kind in ("add", "maximum") and len(x.args) == 2 and is_float(x.dtype):
            for one, other in (x.args, x.args[::-1]):
                if isinstance(one, Load) and one.buffer is buffer and not any(True for _ in loads(other, buffer)):
                    return x.kind, other
        raise Undecided("a store that is no sum and no maximum with what is there", line)


def _known(kind: str, difference: Place, count: Place) -> bool | None:
    """A comparison with 0, where a count is not below 0; None where that does not tell."""
    if kind in ("EQ", "NE"):
        apart = any(_known("GT", d, count) for d in (difference, difference.scaled(-1)))
        return (kind == "NE") if apart else None
    if kind in ("LT", "LE"):
        return _known({"LT": "GT", "LE": "GE"}[kind], difference.scaled(-1), count)
    more = Place.number(int(kind == "GE"))
    for answer, place in ((True, difference + more), (False, Place.number(1) + (difference + more).scaled(-1))):
        strides = dict(place.parts)
        for v, stride in count.parts:
            r = quotient(strides.get(v, 0), stride)
            if r is not None and above(r) and above(least(place + count.scaled(-r))):
                return answer
    return None


def _loads(x: Expr) -> Iterator[Load]:
    """Where an expression reads memory."""
    if isinstance(x, Load):
        yield x
    elif isinstance(x, Apply):
        for part in x.args:
            yield from _loads(part)


def _kinds(x: Any) -> Iterator[str]:
    """The kinds of all ops of a text."""
    if isinstance(x, Apply):
        yield x.kind
    if isinstance(x, (list, tuple)):
        for part in x:
            yield from _kinds(part)
    elif is_dataclass(x) and not isinstance(x, (type, Buffer)):
        for part in fields(x):
            yield from _kinds(getattr(x, part.name))
