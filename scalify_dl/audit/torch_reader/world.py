"""Random torch programs: the values that exist so far, new inputs that fit, and how a program is run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import torch

Tensor = Any
"""A torch tensor."""

REALS = [torch.float64, torch.float32]
NARROW = [torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
DTYPES = [*REALS, *NARROW, *INTEGERS, torch.bool, torch.complex64, torch.complex128]
SPECIAL = [float("inf"), float("-inf"), -0.0]


class Var(NamedTuple):
    """A value of a program: input `-1 - number` where it is negative, else a result."""

    number: int


@dataclass(frozen=True, slots=True)
class Step:
    """A call; `results` are the numbers of the tensors it gives, with their place among nested items."""

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[tuple[int, tuple[int, ...]], ...]

    def __str__(self) -> str:
        kwargs = [f"{key}={shown(value)}" for key, value in self.kwargs.items()]
        names = ", ".join(f"v{n}" for n, _ in self.results)
        return f"{names or '_'} = {self.op}({', '.join([*map(shown, self.args), *kwargs])})"


def shown(value: Any) -> str:
    """An argument as text."""
    if isinstance(value, Var):
        return f"v{value.number}" if value.number >= 0 else f"x{-1 - value.number}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value)


@dataclass
class Program:
    """Inputs (their first values) and steps."""

    inputs: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def fresh(self) -> list[Tensor]:
        """Inputs as they were drawn, strides and all."""
        return [x.clone() for x in self.inputs]

    def play(self, inputs: Sequence[Tensor], each: Callable[[Step, Any], None] | None = None) -> dict[int, Tensor]:
        """Runs the steps on inputs (which it may write); the values by number."""
        env: dict[int, Tensor] = {-1 - i: x for i, x in enumerate(inputs)}
        for step in self.steps:
            out = step.op(*filled(step.args, env), **{key: filled(value, env) for key, value in step.kwargs.items()})
            for number, path in step.results:
                env[number] = reduce(getitem, path, out)
            if each is not None:
                each(step, out)
        return env

    def numbers(self) -> list[int]:
        """The numbers of all results."""
        return [number for step in self.steps for number, _ in step.results]

    def lean(self) -> Program:
        """The same program without inputs that no step uses."""
        used = {n for step in self.steps for n in variables([*step.args, *step.kwargs.values()]) if n < 0}
        order = sorted(used, reverse=True)
        new = {n: Var(-1 - i) for i, n in enumerate(order)}
        steps = [Step(step.op, renamed(step.args, new), renamed(step.kwargs, new), step.results) for step in self.steps]
        return Program([self.inputs[-1 - n] for n in order], steps)

    def text(self) -> str:
        """The program for people."""
        lines = [f"x{i}: {x.dtype} {list(x.shape)} = {x.tolist()!r:.200}" for i, x in enumerate(self.inputs)]
        return "\n".join([*lines, *map(str, self.steps)])


def filled(value: Any, env: dict[int, Tensor]) -> Any:
    """An argument with its variables' values in their place."""
    if isinstance(value, Var):
        return env[value.number]
    if type(value) in (list, tuple):
        return type(value)(filled(item, env) for item in value)
    return value


def renamed(value: Any, new: Mapping[int, Var]) -> Any:
    """An argument with other variables in the place of some."""
    if isinstance(value, Var):
        return new.get(value.number, value)
    if type(value) in (list, tuple):
        return type(value)(renamed(item, new) for item in value)
    return {key: renamed(item, new) for key, item in value.items()} if isinstance(value, dict) else value


def variables(value: Any) -> Iterator[int]:
    """The numbers of the variables in an argument."""
    if isinstance(value, Var):
        yield value.number
    elif isinstance(value, list | tuple):
        for item in value:
            yield from variables(item)
    elif isinstance(value, dict):
        yield from variables(list(value.values()))


class World:
    """A program under construction: draws values that fit what is asked for, from those that exist or as new inputs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.program = Program()
        self.env: dict[int, Tensor] = {}
        self.extents = rng.sample([1, 2, 3, 4, 5, 6], 3) + ([0] if rng.random() < 0.04 else [])
        reals = rng.choices([[torch.float64], [torch.float32], REALS, [*REALS, *NARROW], NARROW], [6, 5, 2, 2, 1])[0]
        self.reals = reals
        self.complexes = [torch.complex128 if reals == [torch.float64] else torch.complex64]
        self.integers = INTEGERS if rng.random() < 0.4 else [torch.int64, rng.choice(INTEGERS)]
        self.special = rng.random() < 0.15
        self.ends = rng.random() < 0.25

    # --- plain values ----------------------------------------------------------------------------------------------

    def shape(self, low: int = 0, high: int = 3) -> list[int]:
        """A shape with a rank between two bounds."""
        return [self.extent() for _ in range(self.rng.randint(low, high))]

    def extent(self) -> int:
        """One size."""
        return self.rng.choice(self.extents)

    def dtype(self, kinds: str = "fib") -> Any:
        """A dtype: `f` real, `i` integer, `b` boolean, `c` complex."""
        kind = self.rng.choice([k for k in kinds for _ in range({"f": 6, "i": 3}.get(k, 1))])
        return self.rng.choice({"f": self.reals, "i": self.integers, "b": [torch.bool], "c": self.complexes}[kind])

    def number(self, kinds: str = "fib") -> Any:
        """A Python number."""
        kind = self.rng.choice(kinds)
        if kind == "b":
            return self.rng.random() < 0.5
        if kind == "i":
            return self.rng.choice([0, 1, 1, 2, 2, 3, -1, -2, 5] + [127, -128, 255, 2**31 - 1] * self.ends)
        if kind == "c":
            return complex(self.rng.choice([0, 1, 0.5]), self.rng.choice([1, -1.5]))
        return self.rng.choice([0.0, 0.5, 1.0, 2.0, -1.5, 0.25, -0.75, 3.0] + SPECIAL[:2] * self.special)

    # --- tensors ---------------------------------------------------------------------------------------------------

    def new(
        self, shape: Sequence[int], dtype: Any, low: float | None = None, high: float | None = None, plain: bool = False
    ) -> Var:
        """A new input; integers (and eighths) between bounds, where they are given; `plain`: row-major in memory."""
        count = 1
        for n in shape:
            count *= n
        x = torch.tensor(self.items(count, dtype, low, high), dtype=dtype).reshape(list(shape))
        if x.dim() > 1 and not plain and self.rng.random() < 0.1:  # not row-major in memory
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        self.program.inputs.append(x)
        number = -len(self.program.inputs)
        self.env[number] = x.clone()
        return Var(number)

    def items(self, count: int, dtype: Any, low: float | None, high: float | None) -> list[Any]:
        """Numbers of a dtype."""
        rng = self.rng
        if dtype == torch.bool:
            return [rng.random() < 0.5 for _ in range(count)]
        if dtype.is_complex:
            parts = self.items(2 * count, torch.float32, low, high)
            return [complex(*parts[2 * i : 2 * i + 2]) for i in range(count)]
        if not dtype.is_floating_point:
            info = torch.iinfo(dtype)
            first, last = (max(info.min, -6), 9) if low is None or high is None else (int(low), int(high))
            ends = [info.min, info.min + 1, info.max, info.max - 1] if self.ends and low is None else []
            return [rng.choice(ends) if ends and rng.random() < 0.3 else rng.randint(first, last) for _ in range(count)]
        first, last = (-32, 32) if low is None or high is None else (int(8 * low), int(8 * high))
        special = SPECIAL if self.special and low is None else []
        return [
            rng.choice(special) if special and rng.random() < 0.1 else rng.randint(first, last) / 8
            for _ in range(count)
        ]

    def pool(self, fits: Callable[[Tensor], bool]) -> list[Var]:
        """Values that fit; later ones are likelier."""
        found = [Var(n) for n, x in self.env.items() if fits(x) and x.numel() <= 4096]
        return found + found[-4:]

    def tensor(
        self, shape: Sequence[int] | None = None, kinds: str = "fib", rank: tuple[int, int] = (0, 3), dtype: Any = None
    ) -> Var:
        """A value of a shape (any, if None) and kind."""
        allowed = [dtype] if dtype is not None else None

        def fits(x: Tensor) -> bool:
            if allowed is not None and x.dtype not in allowed:
                return False
            if shape is None:
                return rank[0] <= x.dim() <= rank[1] and (allowed is not None or kind_of(x) in kinds)
            return list(x.shape) == list(shape) and (allowed is not None or kind_of(x) in kinds)

        found = self.pool(fits) if self.rng.random() < 0.75 else []
        if found:
            return self.rng.choice(found)
        return self.new(self.shape(*rank) if shape is None else shape, dtype or self.dtype(kinds))

    def of(self, var: Var) -> Tensor:
        """The value of a variable."""
        return self.env[var.number]

    def like(self, var: Var, broadcast: bool = True) -> Var:
        """A value that goes with another: of its shape or one that broadcasts to it, mostly of its dtype."""
        x = self.of(var)
        shape = list(x.shape)
        if broadcast and self.rng.random() < 0.3:
            shape = [n if self.rng.random() < 0.6 else 1 for n in shape][self.rng.randint(0, len(shape)) :]
        if self.rng.random() < 0.75:
            return self.tensor(shape, dtype=x.dtype)
        return self.tensor(shape, "fibc" if kind_of(x) == "c" else "fib")

    def another(self, var: Var) -> Var:
        """A new input of the shape and dtype of a value."""
        return self.new(self.of(var).shape, self.of(var).dtype)

    def index(self, shape: Sequence[int], size: int, dtypes: Sequence[Any] = (torch.int64,), wrap: bool = False) -> Var:
        """Indices of a dim of some size (also from the end, with `wrap`)."""
        return self.new(shape, self.rng.choice(list(dtypes)), -size if wrap else 0, max(size - 1, 0))

    def permutation(self, shape: Sequence[int], dim: int, size: int) -> Var:
        """Indices that are distinct along a dim."""
        rows = range(max(1, prod(shape) // max(shape[dim], 1)))
        order = torch.stack([self.permuted(size)[: shape[dim]] for _ in rows])
        rest = [n for d, n in enumerate(shape) if d != dim]
        return self.given(order.reshape([*rest, shape[dim]]).movedim(-1, dim).contiguous())

    def given(self, x: Tensor) -> Var:
        """A new input of these values."""
        self.program.inputs.append(x)
        self.env[-len(self.program.inputs)] = x.clone()
        return Var(-len(self.program.inputs))

    def permuted(self, size: int) -> Tensor:
        """0 … size − 1 in some order."""
        return torch.tensor(self.rng.sample(range(size), size), dtype=torch.int64)

    def dim(self, rank: int) -> int:
        """A dim, counted from either end."""
        return self.rng.randint(-max(rank, 1), max(rank, 1) - 1)

    def dims(self, rank: int) -> list[int]:
        """Some distinct dims, in any order, counted from either end."""
        chosen = self.rng.sample(range(rank), self.rng.randint(0, rank))
        return [d - rank if self.rng.random() < 0.4 else d for d in chosen]


def items(value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """The tensors among nested items, with their places."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield from items(item, (*path, n))


def prod(shape: Sequence[int]) -> int:
    """The number of elements."""
    count = 1
    for n in shape:
        count *= n
    return count


def kind_of(x: Tensor) -> str:
    """`f`, `i`, `b` or `c`."""
    return "b" if x.dtype == torch.bool else "c" if x.dtype.is_complex else "f" if x.dtype.is_floating_point else "i"
