"""An FX module lowered to a `Graph`: names resolved, every call dispatched to its lowering, printed types checked.

An op without a lowering, or a form of one that its lowering does not know, becomes an `unknown:` op (`custom:` where it
comes from outside of torch): never skipped, never guessed. Values that are no tensors (sizes, devices, process groups)
are followed as Python values; inputs of that kind are counted and dropped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.frontends.graph import Port, Tensor

from .constants import literal_of
from .functionalise import functionalise
from .lowering import LOWERINGS, Context, Unsupported
from .opaque import Items, items_taken, nested, opaque
from .open_sizes import symbolic_number
from .reader import Module, Statement
from .sizes import OPERATOR_NAMES, SIZE_FUNCTIONS, Hidden, arithmetic, size_function
from .syntax import Call, Infix, Item, Ref, Symbol, TensorType, tensor_type

__all__ = ["lower_module"]

EFFECTS = frozenset(
    """aten._assert_tensor_metadata aten._assert_async aten._assert_scalar aten.sym_constrain_range
    aten.sym_constrain_range_for_size aten.record_stream profiler torch._check torch._check_is_size
    torch._C._set_grad_enabled torch.amp.autocast_mode""".split()  # noqa: SIM905
)
"""Calls that compute nothing."""

INLINED = frozenset(
    """wrap wrap_with_set_grad_enabled wrap_with_autocast tag_activation_checkpoint wrap_activation_checkpoint
    invoke_subgraph hints_wrapper""".split()  # noqa: SIM905
)
"""Higher-order ops that run their sub-module once, as it is."""

TORCH_SPACES = frozenset(
    {"aten", "prims", "higher_order", "_c10d_functional", "c10d_functional", "c10d", "_dtensor", "quantized"}
)
"""Namespaces of torch itself: an op there without a lowering is `unknown:`, elsewhere `custom:`."""


class Attribute(NamedTuple):
    """`self.name`: a tensor constant or parameter whose type the text has not shown yet."""

    name: str


def lower_module(module: Module, context: Context, file: str | None = None) -> list[Port | None]:
    """Lowers a module into `context.graph`; inputs and outputs become ports.

    Returns the ports of the returned values, in order, None for those that are no tensors.

    Raises InputError, with the line, where the text contradicts itself.
    """
    return _Program(module, context, file).run()


class _Program:
    def __init__(self, module: Module, context: Context, file: str | None) -> None:
        self.module = module
        self.c = context
        self.file = file
        self.env: dict[str, Any] = {}
        self.item_types: dict[str, Items] | None = None

    def run(self) -> list[Port | None]:
        graph = self.c.graph
        if self.module.parameters and not any(p.type for p in self.module.parameters):
            raise InputError(
                "no types are printed",
                file=self.file,
                line=self.module.line,
                expected='typed names, as in `x: "f32[8, 16]"`',
                hint="print the graph with `print_readable()`, not its `code`",
            )
        for parameter in self.module.parameters:
            self.c.at = (self.module.line, 0)
            type = self.type_of(parameter.type)
            size = symbolic_number(parameter.type)
            if size is not None:
                graph.ignored_inputs += 1
                self.env[parameter.name] = size
            elif type is None:
                graph.ignored_inputs += 1
                self.env[parameter.name] = Hidden(parameter.name)
            else:
                self.env[parameter.name] = graph.input(parameter.name, type.dtype, self.shape_of(type))
        values = self.body(self.module)
        self.c.at = (self.module.returned_line, 0)
        returned: list[Port | None] = []
        for value, shown in zip(values, self.module.returned, strict=True):
            try:
                result = self.evaluate(value)
            except InputError as error:
                raise error.located(self.file, self.module.returned_line) from None
            if isinstance(result, Tensor):
                graph.output(result)
                port = graph.outputs[-1]
                port.alias = shown.name if isinstance(shown, Ref) and shown.name != result.name else None
                returned.append(port)
            else:
                graph.ignored_outputs += 1
                returned.append(None)
        graph.aliases = {
            name: value for name, value in self.env.items() if isinstance(value, Tensor) and value.name != name
        }
        return returned

    def body(self, module: Module) -> list[Any]:
        """Lowers the statements of a module; what it returns, still as expressions."""
        statements, returned = functionalise(module)
        for statement in statements:
            self.c.name, self.c.frames = statement.names[0], statement.frames
            self.c.at = (statement.line, 0)
            try:
                self.statement(statement)
            except InputError as error:
                raise error.located(self.file, statement.line) from None
            except RecursionError:
                raise InputError("nested too deeply", file=self.file, line=statement.line) from None
        return returned

    # --- statements ------------------------------------------------------------------------------------------------

    def statement(self, statement: Statement) -> None:
        type = self.type_of(statement.type)
        value = self.value_of(statement, type)
        size = symbolic_number(statement.type)
        if size is not None and isinstance(value, int) and value != size:
            raise InputError(f"`{statement.names[0]}` is printed as {size}, but its operands make it {value}")
        if len(statement.names) > 1:
            items = self.sequence(value, len(statement.names))
            for name, item in zip(statement.names, items, strict=True):
                self.bind(name, item() if callable(item) else item, None)
        else:
            self.bind(statement.names[0], value, type)

    def value_of(self, statement: Statement, type: TensorType | None) -> Any:
        value = statement.value
        if isinstance(value, Symbol):
            return self.symbol(value, type)
        if isinstance(value, Call):
            return self.call(value, statement, type)
        try:
            return self.evaluate(value)
        except Unsupported as reason:  # an item that no lowering gives
            return self.opaque("unknown", f"item of {statement.names[0]}", (), {}, self.types_wanted(type), str(reason))

    def bind(self, name: str, value: Any, type: TensorType | None) -> None:
        """Names a value; a tensor takes the name it has in the dump, and must be what is printed."""
        if isinstance(value, Attribute) and type is not None:
            value = self.attribute(value, type)
        if isinstance(value, Tensor):
            if type is not None and (value.dtype, value.shape) != (type.dtype, self.shape_of(type)):
                raise InputError(
                    f"`{name}` is printed as {_text(type)}, but its operands and arguments make it {value.type}",
                    hint="was the file edited, or written by a version of torch with other semantics?",
                )
            op = self.c.producers.get(value)
            if "." in value.name and op is not None:
                value.name = name
                if len(op.results) == 1:
                    op.name = name
        elif type is not None and not isinstance(value, Attribute) and not isinstance(value, Hidden):
            raise InputError(f"`{name}` is printed as {_text(type)}, but it is no tensor")
        self.env[name] = value

    # --- values ----------------------------------------------------------------------------------------------------

    def type_of(self, text: str | None) -> TensorType | None:
        try:
            return tensor_type(text)
        except ValueError as error:
            raise InputError(str(error), file=self.file, line=self.c.at[0]) from None

    def shape_of(self, type: TensorType) -> tuple[int, ...]:
        if type.shape is None:
            raise InputError(
                "a size that is no formula of the inputs' sizes",
                file=self.file,
                line=self.c.at[0],
                hint="sizes that depend on data have no form in the facts",
            )
        return type.shape

    def evaluate(self, value: Any) -> Any:
        """An argument as a Python value or tensor."""
        kind = type(value)
        if kind is Ref:
            if value.name not in self.env:
                raise InputError(f"`{value.name}` is used before it is defined")
            found = self.env[value.name]
            return self.attribute(found, None) if type(found) is Attribute else found
        if kind is list:
            return [self.evaluate(item) for item in value]
        if kind is tuple:
            return tuple([self.evaluate(item) for item in value])
        if kind is Item:
            return self.item(self.evaluate(value.value), self.evaluate(value.index))
        if kind is Symbol:
            return self.symbol(value, None)
        if kind is Infix:
            return arithmetic(value.operator, self.evaluate(value.left), self.evaluate(value.right))
        if kind is Call:
            if value.function in ("device", "torch.device"):
                return Symbol("device")
            raise InputError(f"`{value.function}(…)` inside of an expression", expected="one call a line")
        if kind is slice or kind is dict:
            raise InputError(f"a {kind.__name__} as a value of an FX graph")
        return value

    def symbol(self, value: Symbol, type: TensorType | None) -> Any:
        root, _, name = value.path.partition(".")
        if root != "self":
            return value
        if name in self.module.modules:
            return self.module.modules[name]
        if "process_group" in name or "script_obj" in name or name.startswith("_torchbind_obj"):
            return Symbol(name)
        attribute = Attribute(name)
        return attribute if type is None else self.attribute(attribute, type)

    def attribute(self, value: Attribute, type: TensorType | None) -> Tensor:
        """A tensor constant (its value is not printed), or a parameter that was not lifted to an input."""
        if type is None:
            raise InputError(f"the type of `self.{value.name}` is not printed", hint="lift it to an input of the graph")
        key = f"self.{value.name}"
        if key not in self.env:
            if "constant" in value.name or value.name.startswith("lifted_tensor"):
                tensor = self.c.emit("constant", (), type.dtype, self.shape_of(type))
                tensor.literal = literal_of(self.c.constants.get(value.name), tensor)
                tensor.name = self.c.producers[tensor].name = value.name
            else:
                tensor = self.c.graph.input(value.name, type.dtype, self.shape_of(type), path=value.name)
            self.env[key] = tensor
        found: Tensor = self.env[key]
        return found

    def item(self, value: Any, index: Any) -> Any:
        if isinstance(value, Hidden):
            return Hidden("item", (value, index))
        if isinstance(value, list | tuple) and isinstance(index, int):
            if not -len(value) <= index < len(value):
                raise InputError(f"item {index} of {len(value)} results")
            item = value[index]
            return item() if callable(item) else item
        if isinstance(value, Tensor):
            raise InputError(f"`{value.name}` is one tensor, but an item of it is taken")
        raise InputError(f"`{index!r}` is no index of a value of this graph")

    def sequence(self, value: Any, count: int) -> Sequence[Any]:
        if isinstance(value, Hidden):
            return [Hidden("item", (value, i)) for i in range(count)]
        if not isinstance(value, list | tuple) or len(value) != count:
            raise InputError(f"{count} names are bound to something else than {count} results")
        return value

    # --- calls -----------------------------------------------------------------------------------------------------

    def call(self, call: Call, statement: Statement, type: TensorType | None) -> Any:
        name = call.function.removeprefix("torch.ops.")
        root, _, rest = name.partition(".")
        if root in ("operator", "_operator"):
            return self.python_operator(rest, [self.evaluate(arg) for arg in call.args])
        if root == "higher_order":
            return self.higher_order(rest.removesuffix(".default"), call, statement, type)
        args = [self.argument(arg, type) for arg in call.args]
        kwargs = {key: self.argument(arg, type) for key, arg in call.kwargs.items()}
        if name.startswith("aten.sym_size"):
            return args[0].shape[args[1]] if len(args) > 1 else args[0].shape
        if root == "torch" and rest in SIZE_FUNCTIONS:
            return size_function(rest, args)
        if name.startswith("aten.sym_numel") or name.startswith("aten.numel"):
            return prod(args[0].shape)
        if "." not in name or (root == "torch" and _packet(name) not in EFFECTS):
            raise InputError(
                f"`{call.function}` is no ATen op",
                expected="a graph at the ATen level: torch.ops.…",
                hint="capture with make_fx, torch.export or AOTAutograd, and print that graph",
            )
        return self.dispatch(name, args, kwargs, type)

    def argument(self, value: Any, type: TensorType | None) -> Any:
        """As `evaluate`; a tensor constant of unknown type takes that of the statement that copies it."""
        if isinstance(value, Ref) and isinstance(self.env.get(value.name), Attribute):
            found = self.attribute(self.env[value.name], type)
            self.env[value.name] = found
            return found
        return self.evaluate(value)

    def python_operator(self, name: str, args: list[Any]) -> Any:
        if name == "getitem" and len(args) == 2:
            return self.item(args[0], args[1])
        if name in OPERATOR_NAMES and len(args) == 2:
            return arithmetic(OPERATOR_NAMES[name], args[0], args[1])
        raise InputError(f"`operator.{name}` does not occur in FX text at the ATen level")

    def dispatch(self, name: str, args: list[Any], kwargs: dict[str, Any], type: TensorType | None) -> Any:
        packet = _packet(name)
        lowering = LOWERINGS.get(name) or LOWERINGS.get(packet)
        if lowering is None:
            if packet in EFFECTS or packet.split(".")[0] in EFFECTS:
                return None
            space = packet.split(".")[0]
            if space in TORCH_SPACES:
                return self.opaque("unknown", name, args, kwargs, self.types_wanted(type), "no lowering exists for it")
            return self.opaque("custom", packet, args, kwargs, self.types_wanted(type), None)
        mark = len(self.c.graph.ops)
        self.c.target = name
        self.c.printed = lambda item: self.item_type(item)
        try:
            _checked(args, kwargs)
            return lowering(self.c, *args, **kwargs)
        except Unsupported as reason:
            return self.fallback(mark, name, args, kwargs, type, str(reason))
        except (TypeError, ValueError, AttributeError, IndexError, KeyError, ZeroDivisionError, OverflowError) as error:
            try:
                _signature(lowering).bind(self.c, *args, **kwargs)
            except TypeError as mismatch:
                return self.fallback(mark, name, args, kwargs, type, f"arguments: {mismatch}")
            raise InputError(f"`{name}`: these arguments make no sense ({error})") from error

    def fallback(
        self, mark: int, name: str, args: list[Any], kwargs: dict[str, Any], type: TensorType | None, why: str
    ) -> Any:
        """Takes back what a lowering had begun, and says what is missing."""
        del self.c.graph.ops[mark:]
        return self.opaque("unknown", name, args, kwargs, self.types_wanted(type), why)

    def opaque(
        self, space: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], wanted: Any, why: str | None
    ) -> Any:
        """An op without a meaning here: tensors are operands, everything else attributes."""
        items = dict(enumerate(wanted)) if isinstance(wanted, list) else wanted
        number = {(): ("s64", ())}  # that depends on data, or nothing
        op = opaque(self.c, f"{space}:{name}", args, kwargs, items or number, why)
        if not items:
            return Hidden(name, tuple(op.results))
        return op.results[0] if isinstance(wanted, list) else nested(dict(zip(wanted, op.results, strict=True)))

    def types_wanted(self, type: TensorType | None) -> list[tuple[str, tuple[int, ...]]] | Items:
        """Result types of an op that only the text tells: its own, or those of the items taken of it, by index."""
        if type is not None:
            return [(type.dtype, self.shape_of(type))]
        if self.item_types is None:
            self.item_types = items_taken(self.module, self.file)
        return self.item_types.get(self.c.name, {})

    def item_type(self, item: int) -> str | None:
        """The printed dtype of an item of the current statement."""
        wanted = self.types_wanted(None)
        found = wanted.get((item,)) if isinstance(wanted, dict) else None
        return found[0] if found else None

    # --- higher-order ops --------------------------------------------------------------------------------------------

    def higher_order(self, name: str, call: Call, statement: Statement, type: TensorType | None) -> Any:
        if name in ("auto_functionalized", "auto_functionalized_v2") and call.args and isinstance(call.args[0], Symbol):
            target = call.args[0].path.removeprefix("torch.ops.")
            kwargs = {key: self.evaluate(value) for key, value in call.kwargs.items()}
            return self.dispatch(target, [], _buffers(kwargs), type)
        args = [self.evaluate(arg) for arg in call.args]
        kwargs = {key: self.evaluate(value) for key, value in call.kwargs.items()}
        modules = [i for i, arg in enumerate(args) if isinstance(arg, Module)]
        if name in INLINED and len(modules) == 1 and not kwargs:
            rest = args[modules[0] + 1 :]
            return self.inline(args[modules[0]], rest[1:] if name == "invoke_subgraph" else rest)
        return self.opaque(
            "unknown", f"higher_order.{name}", args, kwargs, self.types_wanted(type), "no lowering exists for it"
        )

    def inline(self, module: Module, args: Sequence[Any]) -> Any:
        """Runs a sub-module in the place of its call."""
        if len(args) != len(module.parameters):
            raise InputError(f"`{module.name}` takes {len(module.parameters)} arguments, not {len(args)}")
        outer = self.module, self.env, self.item_types, self.c.name, self.c.frames, self.c.at
        self.module, self.item_types = module, None
        self.env = dict(zip((parameter.name for parameter in module.parameters), args, strict=True))
        try:
            return tuple(self.evaluate(value) for value in self.body(module))
        finally:
            self.module, self.env, self.item_types, self.c.name, self.c.frames, self.c.at = outer


def _packet(name: str) -> str:
    """`aten.add.Tensor` → `aten.add`."""
    space, _, rest = name.partition(".")
    return f"{space}.{rest.partition('.')[0]}"


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _checked(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """No lowering sees values that the text does not show."""
    for value in [*args, *kwargs.values()]:
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            _checked(value, {})
        elif isinstance(value, Hidden):
            raise Unsupported(f"`{value.name}` is a value that the dump does not show")


def _buffers(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `auto_functionalized_v2`: written buffers by name, where each is a whole base."""
    bases = kwargs.get("_all_bases")
    if bases is None:
        return kwargs
    plain = {key: value for key, value in kwargs.items() if not key.startswith("_")}
    for key, value in kwargs.items():
        if key.endswith("_base_index") and isinstance(value, int):
            name = key.removeprefix("_").removesuffix("_base_index")
            if any(other.startswith(f"_{name}_") and other != key for other in kwargs):
                raise InputError("auto_functionalized_v2 that writes into a view of its buffer", hint="use version 1")
            plain[name] = bases[value]
    return plain


def _text(type: TensorType) -> str:
    return f"{type.dtype}[{','.join(map(str, type.shape or ()))}]"
