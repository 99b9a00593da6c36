"""An FX module lowered to a `Graph`: names resolved, every call dispatched to its lowering, printed types checked.

An op without a lowering, or a form of one that its lowering does not know, becomes an `unknown:` op (`custom:` where it
comes from outside of torch): never skipped, never guessed. Tensors are variables in memory (`memory`), so that writes
and views are followed; inputs that are written are outputs as well. Values that are no tensors (sizes, devices, process
groups) are followed as Python values; inputs of that kind are counted and dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Port, Tensor

from .calls import Calls, buffers_of
from .compute import EFFECTS, Wanted
from .constants import literal_of
from .liveness import live_names, may_write
from .lowering import Context, Unsupported
from .memory import Variable
from .opaque import Items, items_taken
from .open_sizes import symbolic_number
from .reader import Module, Statement
from .sizes import OPERATOR_NAMES, SIZE_FUNCTIONS, Hidden, arithmetic, size_function
from .syntax import Call, Infix, Item, Ref, Symbol, TensorType, tensor_type
from .variants import Variants

__all__ = ["Program", "lower_module"]

INLINED = frozenset(
    """wrap wrap_with_set_grad_enabled wrap_with_autocast tag_activation_checkpoint wrap_activation_checkpoint
    invoke_subgraph hints_wrapper""".split()  # noqa: SIM905
)
"""Higher-order ops that run their sub-module once, as it is."""


class Attribute(NamedTuple):
    """`self.name`: a tensor constant or parameter whose type the text has not shown yet."""

    name: str


def lower_module(
    module: Module, context: Context, file: str | None = None, variants: Variants | None = None
) -> list[Port | None]:
    """Lowers a module into `context.graph`; inputs and outputs become ports. `variants` are those of other ranks.

    Returns the ports of the returned values, in order, None for those that are no tensors.

    Raises InputError, with the line, where the text contradicts itself.
    """
    return Program(module, context, file, variants).run()


class Program:
    def __init__(self, module: Module, context: Context, file: str | None, variants: Variants | None = None) -> None:
        self.module = self.whole = module
        self.variants = variants
        self.c = context
        self.file = file
        self.calls = Calls(context)
        self.memory = self.calls.memory
        self.env: dict[str, Any] = {}
        self.named: dict[str, Tensor] = {}
        self.inputs: list[tuple[Port, Variable]] = []
        self.taken: dict[int, dict[str, Items]] = {}
        self.prefix = ""
        self.attributes: dict[str, Variable] = {}
        self.live: set[str] = set()

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
                self.env[parameter.name] = self.input(parameter.name, type)
        if self.variants is not None:
            self.variants.check(self.module)
        values = self.body(self.module)
        self.c.at = (self.module.returned_line, 0)
        returned: list[Port | None] = []
        for value, shown in zip(values, self.module.returned, strict=True):
            try:
                result = self.calls.read(self.evaluate(value))
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
        self.written_inputs()
        if self.variants is not None:
            self.variants.restore()
        graph.aliases = {name: value for name, value in self.named.items() if value.name != name}
        return returned

    def input(self, name: str, type: TensorType, path: str | None = None) -> Variable:
        """An input of the graph, in memory of its own."""
        variable = self.memory.new(self.c.graph.input(name, type.dtype, self.shape_of(type), path=path))
        self.inputs.append((self.c.graph.inputs[-1], variable))
        return variable

    def written_inputs(self) -> None:
        """What an input holds in the end, where the program writes it, is an output after those that it returns."""
        graph = self.c.graph
        for port, variable in self.inputs:
            if not variable.changed or (held := self.memory.read(variable)) is port.tensor:
                continue
            graph.output(held)
            graph.outputs[-1].alias = port.tensor.name if held.name != port.tensor.name else None
            graph.outputs[-1].holds = port

    def body(self, module: Module) -> list[Any]:
        """Lowers the statements of a module; what it returns, still as expressions."""
        self.live = live_names(module)
        others = self.variants if self.variants is not None and module is self.whole else None
        for at, statement in enumerate(module.statements):
            self.c.name, self.c.frames = statement.names[0], statement.frames
            self.c.at = (statement.line, 0)
            try:
                if others is not None and at in others.at:
                    others.statement(self, at, statement)
                else:
                    self.statement(statement)
            except InputError as error:
                raise error.located(self.file, statement.line) from None
            except RecursionError:
                raise InputError("nested too deeply", file=self.file, line=statement.line) from None
        return module.returned

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
            name, types = f"item of {statement.names[0]}", self.wanted(type)()
            return self.calls.fresh(self.calls.opaque(name, (), {}, types, str(reason), unknown=True))

    def bind(self, name: str, value: Any, type: TensorType | None) -> None:
        """Names a value; a tensor takes the name it has in the dump, and must be what is printed."""
        if isinstance(value, Attribute) and type is not None:
            value = self.attribute(value, type)
        if isinstance(value, Hidden | None) and type is not None:  # printed as a tensor: it is one, of unknown values
            called = value.name if value else f"item of {name}"
            found = self.calls.opaque(called, (), {}, self.wanted(type)(), "its value is not shown", unknown=True)
            value = self.calls.fresh(found)
        if isinstance(value, Variable):
            tensor = self.memory.read(value)
            if type is not None and (tensor.dtype, tensor.shape) != (type.dtype, self.shape_of(type)):
                raise InputError(
                    f"`{name}` is printed as {_text(type)}, but its operands and arguments make it {tensor.type}",
                    hint="was the file edited, or written by a version of torch with other semantics?",
                )
            op = self.c.producers.get(tensor)
            if "." in tensor.name and op is not None:
                tensor.name = name
                if len(op.results) == 1:
                    op.name = name
            if self.module is self.whole:
                self.named[name] = tensor
        elif type is not None and not isinstance(value, Attribute):
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
        """An argument as a Python value or variable."""
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
            return self.arithmetic(value.operator, self.evaluate(value.left), self.evaluate(value.right))
        if kind is Call:
            if value.function in ("device", "torch.device"):
                return Symbol("device")
            raise InputError(f"`{value.function}(…)` inside of an expression", expected="one call a line")
        if kind is dict:
            return {key: self.evaluate(item) for key, item in value.items()}
        if kind is slice:
            raise InputError("a slice as a value of an FX graph")
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

    def attribute(self, value: Attribute, type: TensorType | None) -> Variable:
        """A tensor constant (its value is not printed), or a parameter that was not lifted to an input."""
        if type is None:
            raise InputError(f"the type of `self.{value.name}` is not printed", hint="lift it to an input of the graph")
        path = self.prefix + value.name
        if path not in self.attributes:
            if "constant" in value.name or value.name.startswith("lifted_tensor"):
                tensor = self.c.emit("constant", (), type.dtype, self.shape_of(type))
                tensor.literal = literal_of(self.c.constants.get(path), tensor)
                tensor.name = self.c.producers[tensor].name = path
                self.attributes[path] = self.memory.new(tensor)
            else:
                self.attributes[path] = self.input(path, type, path)
        return self.attributes[path]

    def item(self, value: Any, index: Any) -> Any:
        if isinstance(value, Hidden):
            return Hidden("item", (value, index))
        if isinstance(value, list | tuple) and isinstance(index, int):
            if not -len(value) <= index < len(value):
                raise InputError(f"item {index} of {len(value)} results")
            item = value[index]
            return item() if callable(item) else item
        if isinstance(value, Variable):
            raise InputError(f"`{self.memory.read(value).name}` is one tensor, but an item of it is taken")
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
        if root == "self" and rest in self.module.modules:
            module = self.module.modules[rest]
            values = self.inline(module, module.ordered(args, kwargs))
            return values[0] if module.bare else values
        if name.startswith(("aten.sym_size", "aten.sym_numel", "aten.numel")):
            shape = self.calls.read(args[0]).shape
            if not name.startswith("aten.sym_size"):
                return prod(shape)
            return shape[args[1]] if len(args) > 1 else shape
        if root == "torch" and rest in SIZE_FUNCTIONS:
            return size_function(rest, self.calls.read(args))
        if "." not in name or (root == "torch" and name not in EFFECTS):
            raise InputError(
                f"`{call.function}` is no ATen op",
                expected="a graph at the ATen level: torch.ops.…",
                hint="capture with make_fx, torch.export or AOTAutograd, and print that graph",
            )
        used = any(name in self.live for name in statement.names)
        return self.calls.call(name, args, kwargs, self.wanted(type), used)

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
            return self.arithmetic(OPERATOR_NAMES[name], args[0], args[1])
        raise InputError(f"`operator.{name}` does not occur in FX text at the ATen level")

    def arithmetic(self, sign: str, left: Any, right: Any) -> Any:
        """`left sign right` of sizes."""
        return arithmetic(sign, self.calls.read(left), self.calls.read(right))

    def wanted(self, type: TensorType | None) -> Wanted:
        """Result types of the current statement that only the text tells: its own, or those of the items taken of it,
        by index."""
        name, module = self.c.name, self.module

        def types() -> list[tuple[str, tuple[int, ...]]] | Items:
            if type is not None:
                return [(type.dtype, self.shape_of(type))]
            if self.variants is not None:
                self.variants.types_of_items(name)
            if id(module) not in self.taken:
                self.taken[id(module)] = items_taken(module, self.file)
            return self.taken[id(module)].get(name, {})

        return types

    # --- higher-order ops --------------------------------------------------------------------------------------------

    def higher_order(self, name: str, call: Call, statement: Statement, type: TensorType | None) -> Any:
        if name in ("auto_functionalized", "auto_functionalized_v2") and call.args and isinstance(call.args[0], Symbol):
            target = call.args[0].path.removeprefix("torch.ops.")
            kwargs = {key: self.evaluate(value) for key, value in call.kwargs.items()}
            buffers = buffers_of(kwargs)
            if buffers is None:
                why = "it writes into views of its buffers"
                return self.calls.fresh(
                    self.calls.opaque(
                        f"higher_order.{name}", [target], self.calls.read(kwargs), self.wanted(type)(), why
                    )
                )
            return self.calls.functional(target, buffers, self.wanted(type))
        args = [self.evaluate(arg) for arg in call.args]
        kwargs = {key: self.evaluate(value) for key, value in call.kwargs.items()}
        modules = [i for i, arg in enumerate(args) if isinstance(arg, Module)]
        if name in INLINED and len(modules) == 1 and not kwargs and not _casts(name, args):
            rest = args[modules[0] + 1 :]
            return self.inline(args[modules[0]], rest[1:] if name == "invoke_subgraph" else rest)
        return self.calls.higher_order(
            f"higher_order.{name}",
            args,
            kwargs,
            self.wanted(type),
            bool(modules) and not any(may_write(args[i]) for i in modules),
        )

    def inline(self, module: Module, args: Sequence[Any]) -> Any:
        """Runs a sub-module in the place of its call."""
        if len(args) != len(module.parameters):
            raise InputError(f"`{module.name}` takes {len(module.parameters)} arguments, not {len(args)}")
        outer = self.module, self.env, self.live, self.prefix, self.c.name, self.c.frames, self.c.at
        self.module, self.prefix = module, f"{self.prefix}{module.name}."
        self.env = dict(zip((parameter.name for parameter in module.parameters), args, strict=True))
        try:
            return tuple(self.evaluate(value) for value in self.body(module))
        finally:
            self.module, self.env, self.live, self.prefix, self.c.name, self.c.frames, self.c.at = outer


def _casts(name: str, args: Sequence[Any]) -> bool:
    """Whether operands are cast as the sub-module runs, which its text does not show."""
    return name == "wrap_with_autocast" and args[2:3] != [False]


def _text(type: TensorType) -> str:
    return f"{type.dtype}[{','.join(map(str, type.shape or ()))}]"
