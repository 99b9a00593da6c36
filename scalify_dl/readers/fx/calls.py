"""Calls of operators: what they compute, what they write, and what their results share memory with.

What an operator does to memory is in the table (`aliases`) or declared with its lowering (`KERNELS`). Of any other it
is not known: one whose result nobody reads, or whose name says that it writes, loses the memory of its operands; of one
whose results are read it is assumed, and listed, that it writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from .aliases import Argument, Effect, Share, effect_of
from .compute import BY_STRIDES, EFFECTS, Wanted, lowering_of, packet_of
from .lowering import KERNELS, Context, Unsupported, Written
from .memory import Storage, Variable
from .opaque import opaque
from .overlap import disjoint, is_part
from .sharing import Sharing
from .sizes import Hidden
from .view import View, given, lies, variables

__all__ = ["Calls", "buffers_of"]

CASTING = frozenset({"aten._chunk_cat"})
"""Ops that only move elements, and cast them to the type of their `out`."""


class Calls(Sharing):
    """Calls operators of variables."""

    def __init__(self, c: Context) -> None:
        super().__init__(c)
        self.assumed: set[str] = set()

    def call(self, name: str, args: list[Any], kwargs: dict[str, Any], wanted: Wanted, used: bool) -> Any:
        """Calls an op of variables and Python values; `used` says whether anything reads its result.

        Returns variables for tensors, in the structure of the op's results.
        """
        packet = packet_of(name)
        space = packet.partition(".")[0]
        if lowering_of(name) is None and not EFFECTS.isdisjoint((name, packet, space)):
            return None
        self.c.target = name
        effect = effect_of(name, kwargs)
        if packet in KERNELS:
            return self.kernel(name, packet, args, kwargs)
        if effect is None and lowering_of(name) is None:
            return self.foreign(name, args, kwargs, wanted, used)
        if effect is None:
            effect = Effect(results=(Share(None, False),))
        if effect.metadata:
            return self.change(name, effect, args, kwargs, wanted)
        written = [a for a in effect.written if not (a.unless and given(a.unless, args, kwargs) is False)]
        if all(a.position is not None for a in written):  # (kernels that write `out` go other ways)
            written = [a for a in written if given(a, args, kwargs) is not None]
        if written:
            return self.writer(name, effect, written, args, kwargs, wanted)
        held = self.read(args)
        seen = [(self.memory.read(v), lies(v)) for v in variables(args[:1])] if packet in BY_STRIDES else []
        with self.lying(name, {v for v, how in seen if how}, {v for v, how in seen if how is False}):
            result = self.compute(name, held, self.read(kwargs), wanted)
        if used and isinstance(result, Hidden) and any(effect.results):
            raise untyped(f"what `{name}` gives may lie in the memory of what it is given")
        return self.share(name, result, effect, args, kwargs, wanted)

    # --- writes ----------------------------------------------------------------------------------------------------

    def writer(
        self, name: str, effect: Effect, written: list[Argument], args: list[Any], kwargs: dict[str, Any],
        wanted: Wanted,
    ) -> Any:  # fmt: skip
        """An op that writes arguments: they hold what its functional twin (or its lowering) computes of them."""
        targets = [given(argument, args, kwargs) for argument in written]
        out = any(argument.position is None for argument in written)
        rest = {key: v for key, v in kwargs.items() if not (out and any(key == a.name for a in written))}
        held = self.read(args), self.read(rest)  # before the mark: what memory holds is not taken back
        self.read(list(variables([args, kwargs])))
        mark = len(self.c.graph.ops)
        known = True
        made: list[Any] = []
        given_back: tuple[Any, ...] | None = None
        try:
            if out and any(argument.position is not None for argument in written):
                raise Unsupported("it writes arguments beside `out`, in another order than its results")
            twin = effect.twin if effect.twin and lowering_of(effect.twin) is not None else name
            value = self.lowered(self.c, twin, *held, wanted)
            if isinstance(value, Written):
                given_back, value = value
            values = list(value) if len(targets) > 1 and type(value) in (list, tuple) else [value]
            if len(values) != len(targets):
                raise Unsupported("what it writes is not what its lowering gives")
            values = self.read(values)
            if _crossed(self, name, effect, targets, args, kwargs):
                made = _types_of(values) if out else []
                raise Unsupported("tensors that it writes share memory with others that it is given")
            if out and len(values) == 1 and isinstance(shown := wanted(), list):
                values = [self.as_shown(values[0], shown[0][1])]
            for target, value in zip(targets, values, strict=True):
                if isinstance(target, Variable) and isinstance(value, Tensor):
                    dtype, shape = self.type_of(target)
                    if shape != value.shape and (dtype != value.dtype or not out):
                        raise Unsupported("it resizes what it writes, and computes something else then")
        except Unsupported as reason:
            del self.c.graph.ops[mark:]
            printed = wanted() if out or effect.results else []  # else: of results in memory of their own
            types = made or (printed if isinstance(printed, list) else _of_written(effect, written, targets, printed))
            known, values = False, self.unknown(name, args, kwargs, targets, str(reason), types)
        self.c.target = name
        for target, value in zip(targets, values, strict=True):
            self.assign(target, value, name, out)
        if known and given_back is not None:
            return self.fresh(given_back if len(given_back) > 1 else given_back[0])
        if effect.results and all(share is None or share.argument is None for share in effect.results):
            found = self.opaque(name, *held, wanted(), "no lowering says what it gives back", unknown=True)
            return self.share(name, found, effect, args, kwargs, wanted)
        if effect.results and any(share is not None for share in effect.results):
            results = [
                given(share.argument, args, kwargs) if share is not None and share.argument else Hidden(self.c.name)
                for share in effect.results
            ]
            return results[0] if len(results) == 1 else tuple(results)
        if known or not wanted():
            return Hidden(self.c.name)
        return self.fresh(self.opaque(name, self.read(args), self.read(kwargs), wanted(), "no lowering exists for it"))

    def unknown(
        self, name: str, args: Any, kwargs: Any, targets: Any, why: str, printed: Sequence[Any] = ()
    ) -> list[Any]:
        """What an op writes of which it is not known: results of an `unknown:` op in the structure of the targets.

        `printed` are the types that the text shows for them, where it does: an op may resize what it writes.
        """
        types = [self.type_of(variable) for variable in variables(targets)]
        shown = printed if len(printed) == len(types) else [None] * len(types)
        items = {n: seen or type for n, (seen, type) in enumerate(zip(shown, types, strict=True))}
        results = iter(opaque(self.c, f"unknown:{name}", self.read(args), self.read(kwargs), items, why).results)

        def filled(target: Any) -> Any:
            if isinstance(target, Variable):
                return next(results)
            return [filled(item) for item in target] if type(target) in (list, tuple) else None

        return [filled(target) for target in targets]

    def as_shown(self, value: Any, shape: tuple[int, ...]) -> Any:
        """What is written, in the shape that the text shows: an `out` that has as many elements as a row keeps its own
        (`arange`)."""
        if not isinstance(value, Tensor) or value.shape == shape:
            return value
        if len(value.shape) == 1 and prod(shape) == value.shape[0]:
            return self.c.reshape(value, shape)
        raise Unsupported("what it writes has another shape than the text shows")

    def assign(self, target: Any, value: Any, name: str, out: bool = False) -> None:
        """A target of a write now holds a value, in its own type."""
        if isinstance(target, Hidden):
            raise untyped(f"`{name}` writes what `{target.name}` gives")
        if not isinstance(target, Variable):
            if type(target) in (list, tuple) and type(value) in (list, tuple) and len(target) == len(value):
                for each, item in zip(target, value, strict=True):
                    self.assign(each, item, name, out)
            else:
                self.lose([target], name, "it writes a list of tensors of another length")
            return
        held = self.memory.read(target)
        if not isinstance(value, Tensor):
            self.lose([target], name, "what it writes is not known")
        elif value.shape != held.shape:  # resized
            if not out or 0 not in held.shape:
                self.lose([target], name, "it resizes what it writes")
            target.node = self.memory.new(self.c.convert(value, held.dtype)).node
        elif out and value.dtype != held.dtype and packet_of(name) not in CASTING:
            self.lose([target], name, f"it computes {held.dtype} where it would otherwise give {value.dtype}")
        elif value is not held:
            self.memory.write(target, self.c.convert(value, held.dtype))

    def lose(self, values: Any, name: str, why: str) -> None:
        """The memory of every variable among values is lost."""
        for storage in dict.fromkeys(v.storage for v in variables(values)):
            self.memory.lose(storage, name, why)

    def change(self, name: str, effect: Effect, args: list[Any], kwargs: dict[str, Any], wanted: Wanted) -> Any:
        """In place, a tensor becomes another view of its memory, or a view of another's."""
        (target,) = (given(argument, args, kwargs) for argument in effect.written[:1])
        others = [v for v in variables([args, kwargs]) if v is not target]
        if not isinstance(target, Variable):
            raise InputError(f"`{name}` of something else than a tensor")
        node = target.node
        self.memory.touch(node.storage, turned=True)
        if effect.twin and lowering_of(effect.twin) is not None:
            types_shown = wanted() or [self.type_of(target)]
            result = self.compute(effect.twin, self.read(args), self.read(kwargs), lambda: types_shown)
            step = View(self, effect.twin, args, kwargs, effect.written[0], (), wanted)
            target.node = self.memory.view(node, step, result).node
        elif len(others) == 1 and len(args) == 2 and others[0] is args[1] and not kwargs:  # set_(x, source)
            target.node = others[0].node
        elif list(args[1:2]) != [list(self.memory.read(target).shape)]:  # `resize_` to the same size changes nothing
            types = wanted() or [self.type_of(target)]
            why = "it changes what a tensor is a view of"
            result = self.opaque(name, self.read(args), self.read(kwargs), types, why, unknown=True)
            target.node = self.memory.new(result).node
            self.memory.link([node.storage, target.storage, *(v.storage for v in others)])
        return target

    def type_of(self, variable: Variable) -> tuple[str, tuple[int, ...]]:
        """Element type and shape of what a variable holds."""
        held = self.memory.read(variable)
        return held.dtype, held.shape

    # --- ops that are not torch's ----------------------------------------------------------------------------------

    def kernel(self, name: str, packet: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A kernel whose lowering says what it writes: its lowering gives (None, what is written…)."""
        declared = KERNELS[packet]
        given = dict(zip(declared.parameters, args, strict=False)) | kwargs
        targets = [given.get(parameter) for parameter in declared.written]
        targets = [target for target in targets if target is not None]
        held = self.read(given)
        mark = len(self.c.graph.ops)
        try:
            if len(args) > len(declared.parameters):
                raise Unsupported("more arguments than are known")
            if _crossed(self, name, Effect(pointwise=False), targets, [*given.values()], {}):
                raise Unsupported("tensors that it writes share memory with others that it is given")
            values = list(self.read(self.lowered(self.c, name, (), held))[1:])
        except Unsupported as reason:
            del self.c.graph.ops[mark:]
            values = self.unknown(name, [], given, targets, str(reason))
        for target, value in zip(targets, values, strict=True):
            self.assign(target, value, name)
        return None

    def functional(self, name: str, kwargs: dict[str, Any], wanted: Wanted) -> Any:
        """A writing kernel made functional by torch: what it would write are results."""
        if effect_of(name) is not None:
            why = "no lowering exists for it in this form"
            return self.fresh(self.opaque(name, [], self.read(kwargs), wanted(), why, unknown=True))
        return self.fresh(self.compute(name, [], self.read(kwargs), wanted))

    def foreign(self, name: str, args: list[Any], kwargs: dict[str, Any], wanted: Wanted, used: bool) -> Any:
        """An op of which nothing is known."""
        types, packet = wanted(), packet_of(name)
        result = self.opaque(name, self.read(args), self.read(kwargs), types, "no lowering exists for it")
        if used and types and not packet.endswith("_"):
            if packet not in self.assumed:
                self.assumed.add(packet)
                first = next(iter(_tensors(result)))
                text = (
                    f"`{packet}` writes none of its arguments,"
                    " its results share no memory with them and follow from them alone"
                )
                self.c.graph.assume(first, text, "effects of a custom op")
            return self.fresh(result)
        found = self.fresh(result)
        if used and isinstance(result, Hidden):
            for made in result.of:
                text = f"what `{packet}` gives shares no memory with its arguments"
                self.c.graph.assume(made, text, "effects of a custom op")
        self.entangle([args, kwargs], found, name)
        return found

    def higher_order(self, name: str, args: list[Any], kwargs: dict[str, Any], wanted: Wanted, pure: bool) -> Any:
        """An op of sub-modules that is not lowered; `pure` says that these write nothing."""
        result = self.opaque(name, self.read(args), self.read(kwargs), wanted(), "no lowering exists for it")
        found = self.fresh(result)
        if pure:
            self.memory.link([v.storage for v in variables([args, kwargs, found])])
        else:
            self.entangle([args, kwargs], found, name)
        return found

    def entangle(self, operands: Any, results: Any, name: str) -> None:
        """An op that may write any operand: their memory is lost, and results may lie in it."""
        self.lose(operands, name, "what it writes is not known")
        self.memory.link([v.storage for v in variables([operands, results])])


def untyped(what: str) -> InputError:
    """Of memory whose types the text does not show: what is written there would be lost."""
    return InputError(
        f"{what}, and its type is not printed",
        expected='typed names, as in `x: "f32[8, 16]"`',
        hint="print the graph with `print_readable()`, after a run that notes types (make_fx, torch.export)",
    )


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from _tensors(item)


class _Place(NamedTuple):
    """A tensor among the arguments of a call: of which argument, and which of a list."""

    variable: Variable
    argument: int
    item: int
    written: bool


def _of_written(
    effect: Effect, written: Sequence[Argument], targets: Sequence[Any], printed: Mapping[tuple[int, ...], Any]
) -> list[Any]:
    """The types that the text shows for written tensors, by the results that they are given back as."""
    shown = {share.argument: printed.get((n,)) for n, share in enumerate(effect.results) if share is not None}
    return [shown.get(argument) for argument, target in zip(written, targets, strict=True) if target is not None]


def _types_of(values: Any) -> list[Any]:
    """The types of tensors, however they are put into lists: to these an op turns what it is to write into."""
    if isinstance(values, Tensor):
        return [(values.dtype, values.shape)]
    return [each for value in values for each in _types_of(value)] if type(values) in (list, tuple) else []


def _crossed(c: Calls, name: str, effect: Effect, targets: list[Any], args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an op reads or writes elements again that it has written: what it gives depends on the order."""
    places: dict[Storage, list[_Place]] = {}
    for argument, value in enumerate([*args, *kwargs.values()]):
        written = any(value is target for target in targets)
        for n, item in enumerate(value if type(value) in (list, tuple) else [value]):
            for variable in variables(item):
                places.setdefault(variable.storage, []).append(_Place(variable, argument, n, written))
    for storage, here in places.items():
        others = [place for other in storage.perhaps for place in places.get(other, ())]
        if others and any(place.written for place in (*here, *others)):
            return True
        for one, other in combinations(here, 2):
            if _meet(c, effect, one, other) and not _own_part(c, name, one, other):
                return True
    return False


def _own_part(c: Calls, name: str, one: _Place, other: _Place) -> bool:
    """Whether one of two tensors of a collective is perhaps a rank's own part of the other, which stays where it is:
    listed, as no text says which rank runs it. Backends begin to write while they read."""
    gathers, scatters = "gather" in name, "scatter" in name
    if not name.startswith(("c10d.", "_c10d_functional.")) or not (gathers or scatters) or one.written == other.written:
        return False
    out, x = (one, other) if one.written else (other, one)
    whole, part = (out, x) if gathers else (x, out)
    if not is_part(part.variable.node, whole.variable.node):
        return False
    text = "each rank's own part lies at its own place in memory that the collective reads and writes"
    c.c.graph.assume(c.memory.read(x.variable), text, "own part")
    return True


def _meet(c: Calls, effect: Effect, one: _Place, other: _Place) -> bool:
    """Whether one of two tensors of a storage is written and the other has elements of it, but for a pointwise op that
    reads what it writes, in place."""
    if not (one.written or other.written):
        return False
    same = c.memory.read(one.variable) is c.memory.read(other.variable)
    if same and effect.pointwise and one.argument != other.argument and one.item == other.item:
        return False
    return not disjoint(one.variable.node, other.variable.node)


def buffers_of(kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Arguments of `auto_functionalized_v2`: written buffers by name; None where one is not a whole base."""
    bases = kwargs.get("_all_bases")
    if bases is None:
        return kwargs
    plain = {key: value for key, value in kwargs.items() if not key.startswith("_")}
    for key, value in kwargs.items():
        if key.endswith("_base_index") and isinstance(value, int):
            name = key.removeprefix("_").removesuffix("_base_index")
            if any(other.startswith(f"_{name}_") and other not in (key, f"_{name}_alias") for other in kwargs):
                return None
            plain[name] = bases[value]
    return plain
