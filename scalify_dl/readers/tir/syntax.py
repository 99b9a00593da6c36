"""A kernel as data: buffers, expressions over loop variables and elements, loops, blocks, stores and tile statements.

Element types have the names of `docs/facts.md`; `int` and `real` are those of bare Python numbers and of loop
variables, which take the type of what they meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as Choice


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory of a kernel. `scope` is where it lives: `global` for arguments, else as the text says."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    line: int


# ---- expressions ----
@dataclass(frozen=True, slots=True)
class Number:
    """A constant; infinities are floats."""

    value: int | float | bool
    dtype: str


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable, block axis or name of a value."""

    name: str
    dtype: str = "int"


@dataclass(frozen=True, slots=True)
class Load:
    """An element of a buffer."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    line: int = field(compare=False)

    @property
    def dtype(self) -> str:
        """That of the buffer."""
        return self.buffer.dtype


@dataclass(frozen=True, slots=True)
class Apply:
    """An op on values. Kinds are those of the vocabulary, `compare` as `LT`, `EQ` …, and a few of kernels alone
    (`exp2`, `log2`, `floor-modulo`, `truncate-divide`, `truncate-modulo`)."""

    kind: str
    args: tuple[Expr, ...]
    dtype: str
    line: int = field(compare=False)


Expr = Number | Var | Load | Apply


@dataclass(frozen=True, slots=True)
class Region:
    """A box of a buffer: where it starts and how long it is along each dim; a dim that is `dropped` is none of the
    tile's."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    extents: tuple[int, ...]
    dropped: tuple[bool, ...]
    line: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dims that the tile has."""
        return tuple(n for n, gone in zip(self.extents, self.dropped, strict=True) if not gone)


# ---- statements ----
@dataclass(slots=True)
class Store:
    """`buffer[indices] = value`; `atomic` names how it is added to what is there, without a race."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    line: int
    atomic: str = ""


@dataclass(slots=True)
class Loop:
    """`for var in [start, start + extent)`.

    `parallel` iterations must not depend on each other; `block` and `thread` are those of a launch. A launch waits for
    its threads between statements that share memory, never for its blocks.
    """

    var: str
    start: Expr
    extent: Expr
    kind: Choice["serial", "parallel", "block", "thread"]
    body: list[Statement]
    line: int
    thread: str = ""
    """Which thread or block of a launch it is: `threadIdx.x` …"""


@dataclass(slots=True)
class Axis:
    """A block axis: its name, kind (`S` spatial, `R` reduce, `O` opaque), domain and the value that it is bound to."""

    var: str
    kind: str
    low: int
    high: int
    value: Expr
    line: int


@dataclass(slots=True)
class Block:
    """A block of TVMScript: axes, conditions, what starts a reduction, the body."""

    name: str
    axes: list[Axis]
    conditions: list[Expr]
    init: list[Statement]
    body: list[Statement]
    line: int


@dataclass(slots=True)
class If:
    """A choice between statements."""

    condition: Expr
    then: list[Statement]
    otherwise: list[Statement]
    line: int


@dataclass(slots=True)
class Let:
    """A name for a value."""

    var: str
    value: Expr
    line: int


@dataclass(slots=True)
class Alloc:
    """Fresh memory, that nothing has written."""

    buffer: Buffer
    line: int


@dataclass(slots=True)
class Fill:
    """One number everywhere in a box."""

    region: Region
    value: Expr
    line: int


@dataclass(slots=True)
class Copy:
    """A box copied into another: what lies outside the source's buffer is 0, outside the target's is not written."""

    source: Region
    target: Region
    line: int
    atomic: str = ""


@dataclass(slots=True)
class Gemm:
    """`c += a @ b`, of transposes where said; from zero where `clear`."""

    a: Region
    b: Region
    c: Region
    transpose_a: bool
    transpose_b: bool
    clear: bool
    line: int


@dataclass(slots=True)
class Reduce:
    """A reduction over one dim of a tile into another tile, from what is there unless `clear`."""

    reducer: str
    source: Region
    target: Region
    dim: int
    clear: bool
    line: int


@dataclass(slots=True)
class Scan:
    """An inclusive running sum along one dim of a tile."""

    source: Region
    target: Region
    dim: int
    reverse: bool
    line: int


@dataclass(slots=True)
class Launch:
    """A grid of blocks that run a body, each with memory of its own."""

    vars: tuple[str, ...]
    extents: tuple[Expr, ...]
    body: list[Statement]
    line: int


Statement = Store | Loop | Block | If | Let | Alloc | Fill | Copy | Gemm | Reduce | Scan | Launch


@dataclass(slots=True)
class Kernel:
    """One function: its arguments in order, those that it writes, the body; and the file that it stands in."""

    name: str
    arguments: list[Buffer]
    body: list[Statement]
    file: str
    line: int
    notes: list[str] = field(default_factory=list)

    @property
    def outputs(self) -> list[Buffer]:
        """Arguments that are written."""
        found = {id(buffer) for buffer in written(self.body)}
        return [buffer for buffer in self.arguments if id(buffer) in found]

    @property
    def inputs(self) -> list[Buffer]:
        """Arguments that are not written, and those that are read as well."""
        out = {id(buffer) for buffer in self.outputs}
        return [buffer for buffer in self.arguments if id(buffer) not in out]


def written(body: list[Statement]) -> list[Buffer]:
    """What statements write, as often as they stand there."""
    found: list[Buffer] = []
    for statement in body:
        match statement:
            case Store(buffer=buffer):
                found.append(buffer)
            case Copy(target=region) | Reduce(target=region) | Scan(target=region) | Fill(region=region):
                found.append(region.buffer)
            case Gemm(c=region):
                found.append(region.buffer)
            case Loop(body=inner) | Launch(body=inner):
                found += written(inner)
            case Block(init=first, body=inner):
                found += written(first) + written(inner)
            case If(then=yes, otherwise=no):
                found += written(yes) + written(no)
            case _:
                pass
    return found
