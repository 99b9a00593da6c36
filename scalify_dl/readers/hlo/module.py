"""HLO text → instructions: one compiled expression per line, no evaluation of anything.

A module is a header line, optional tables of source positions, and computations `%name (…) -> … { … }`, one of them
marked `ENTRY`. Attributes and types are read on demand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from scalify_dl.errors import InputError

from .attributes import Attributes, parse_attributes
from .types import Type, parse_type

_HEADER = re.compile(r"HloModule\s+([^\s,]+)(.*)", re.DOTALL)
_COMPUTATION = re.compile(r"(ENTRY\s+)?%?([\w.\-]+)\s*(?:\(|\{\Z)")
_END = re.compile(r"\s*\}(\s*,.*|\s*)\Z")
_LINE = re.compile(r"\s*(ROOT\s+)?%?([\w.\-]+)\s*=\s*([^\s(]\S*+\s++[a-z][\w\-]*+)\(([^()\"{}]*+)\)")
"""A line with all of an instruction but its attributes: a type that is no tuple, operands without brackets."""
_INSTRUCTION = re.compile(r"\s*(ROOT\s+)?%?([\w.\-]+)\s*=\s*([^\s(]\S*|(?=\())")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_SIMPLE_OPERANDS = re.compile(r"([^()\"{}]*)\)")
_NESTING = re.compile(r'"(?>(?:[^"\\]++|\\.)*)"|[()]')
_COMMENT = re.compile(r"/\*.*?\*/")
_TUPLE = re.compile(r"\([^()]*\)")
_NAMES = re.compile(r"%?[\w.\-]++(?>(?:, %?[\w.\-]++)*)")
_PLAIN = re.compile(r"[\w.\-%, ]*")
_BRACKETS = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}")
TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


class Written:
    """An instruction as it is written, but for names of values and its place. Those that are written alike (layers)
    share one. `like` and `channel` are what `again` finds out about it."""

    __slots__ = ("channel", "like", "opcode", "pairs", "text", "type_text")

    def __init__(self, type_text: str, opcode: str, text: str) -> None:
        self.type_text, self.opcode, self.text = type_text, opcode, text
        self.pairs: Attributes | None = None
        self.like: Written | None = None
        self.channel = 0

    def attributes(self) -> Attributes:
        """The attributes, none of them asked for; ValueError where the text is none of attributes."""
        if self.pairs is None:
            self.pairs = parse_attributes(self.text)
        return Attributes(self.pairs)


@dataclass(slots=True)
class Instruction:
    """One line `%name = type opcode(operands), attributes`. `line` and `column` (1-based) are its place in the file."""

    name: str
    opcode: str
    operand_text: str
    written: Written
    root: bool
    line: int
    column: int
    _attributes: Attributes | None = None
    _operands: list[str] | None = None

    @property
    def type_text(self) -> str:
        """The result type as it is written."""
        return self.written.type_text

    @property
    def type(self) -> Type:
        """The result type."""
        try:
            return parse_type(self.type_text)
        except ValueError as error:
            raise InputError(f"`{self.name}`: {error}", line=self.line, column=self.column) from None

    @property
    def attribute_text(self) -> str:
        """The attributes as they are written."""
        return self.written.text

    @property
    def attributes(self) -> Attributes:
        """The attributes, parsed once."""
        if self._attributes is None:
            try:
                self._attributes = self.written.attributes()
            except ValueError as error:
                raise InputError(f"`{self.name}`: {error}", line=self.line, column=self.column) from None
        return self._attributes

    @property
    def operands(self) -> list[str]:
        """Names of the operands, parsed once."""
        if self._operands is None:
            text = self.operand_text
            if _NAMES.fullmatch(text):
                self._operands = text.replace("%", "").split(", ")
                return self._operands
            if not _PLAIN.fullmatch(text):
                text = _BRACKETS.sub("", _COMMENT.sub("", text))
                while (without := _TUPLE.sub("", text)) != text:
                    text = without
            self._operands = [part.split()[-1].removeprefix("%") for part in text.split(",") if part.strip()]
        return self._operands

    def error(self, message: str, *, expected: str | None = None, hint: str | None = None) -> InputError:
        """An error at this instruction (the reader fills in the file)."""
        return InputError(
            f"`{self.name}` ({self.opcode}): {message}",
            line=self.line,
            column=self.column,
            expected=expected,
            hint=hint,
        )


@dataclass(eq=False)
class Computation:
    """A named list of instructions."""

    name: str
    instructions: list[Instruction]
    line: int
    entry: bool

    @property
    def root(self) -> Instruction:
        """The marked root, else the last instruction."""
        return next((i for i in reversed(self.instructions) if i.root), self.instructions[-1])

    @cached_property
    def form(self) -> tuple[object, ...]:
        """What it says, whatever its values are called."""
        place, root = {i.name: n for n, i in enumerate(self.instructions)}, self.root
        if len(place) < len(self.instructions):
            return (self,)  # a name that is given twice is an error of its own
        return tuple(
            (
                i.written,
                i.operand_text if i.opcode in ("constant", "parameter") else tuple(place.get(x, x) for x in i.operands),
                i is root,
            )
            for i in self.instructions
        )


@dataclass
class Module:
    """A parsed file."""

    name: str
    header: dict[str, str]
    computations: dict[str, Computation]
    entry: Computation
    tables: dict[str, dict[int, str]] = field(default_factory=dict)

    @cached_property
    def partitions(self) -> int:
        """`num_partitions` of the header (1 where it is not said)."""
        return self._count("num_partitions")

    @cached_property
    def replicas(self) -> int:
        """`replica_count` of the header (1 where it is not said)."""
        return self._count("replica_count")

    @property
    def for_all(self) -> bool:
        """Whether it says that several ranks run it: how many, or by asking which of them it is."""
        asks = ("partition-id", "replica-id")
        return self.replicas * self.partitions > 1 or any(
            i.opcode in asks for computation in self.computations.values() for i in computation.instructions
        )

    def _count(self, key: str) -> int:
        text = self.header.get(key, "1")
        if not re.fullmatch(r"[1-9]\d{0,8}", text):
            raise InputError(f"module header: {key}={text}", line=1, column=1, expected="a positive number")
        return int(text)


def parse_module(text: str) -> Module:
    """Reads a module; InputError with line and column where the text is truncated or malformed."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("//")), None)
    header = _HEADER.match(lines[first]) if first is not None else None
    if first is None or header is None:
        raise InputError("not HLO text", line=(first or 0) + 1, column=1, expected="`HloModule name, …`")
    try:
        attributes = parse_attributes(header[2])
    except ValueError as error:
        raise InputError(f"module header: {error}", line=first + 1, column=1) from None
    module = Module(header[1], attributes, {}, Computation("", [], 0, True))
    _parse_body(module, lines, first + 1)
    return module


def _parse_body(module: Module, lines: list[str], at: int) -> None:
    """Fills tables and computations from the lines after the header."""
    current: Computation | None = None
    instruction: Instruction | None
    table: dict[int, str] | None = None
    entry = None
    known: Known = {}
    number, count = at, len(lines)
    while number < count:
        line = lines[number]
        number += 1
        if current is not None:
            if plain := _LINE.match(line):
                instruction = _plain(plain, line, number, known)
            elif match := _INSTRUCTION.match(line):
                instruction, number = _instruction(match, line, lines, number, known)
            else:
                instruction = None
            if instruction is not None:
                if instruction.root and any(i.root for i in current.instructions):
                    raise instruction.error(f"is a second ROOT of computation `{current.name}`")
                current.instructions.append(instruction)
            elif _END.match(line):
                if not current.instructions:
                    raise InputError(f"computation `{current.name}` is empty", line=number, column=1)
                current = None
            elif line.strip() and not line.lstrip().startswith("//"):
                raise _malformed(line, number)
            continue
        if not line.strip() or line.lstrip().startswith("//"):
            continue
        word = line.strip()
        if word in TABLES:
            table = module.tables.setdefault(word, {})
            continue
        if table is not None and word[0].isdigit():
            key, _, value = word.partition(" ")
            if not key.isdigit():
                raise _malformed(line, number)
            table[int(key)] = value
            continue
        match = _COMPUTATION.match(word)
        if not match or not word.endswith("{"):
            raise _malformed(line, number)
        table = None
        current = Computation(match[2], [], number, bool(match[1]))
        if current.name in module.computations:
            raise InputError(f"computation `{current.name}` is defined twice", line=number, column=1)
        module.computations[current.name] = current
        if current.entry and entry is not None:
            raise InputError(f"two ENTRY computations, `{entry.name}` and `{current.name}`", line=number, column=1)
        if current.entry:
            entry = current
    if current is not None:
        raise InputError(
            f"the file ends inside computation `{current.name}` (line {current.line})",
            line=count,
            column=1,
            expected="`}`",
            hint="the dump is truncated",
        )
    if entry is None:
        raise InputError("no ENTRY computation", line=count, column=1, hint="the dump is truncated")
    module.entry = entry


def _malformed(line: str, number: int) -> InputError:
    column = len(line) - len(line.lstrip()) + 1
    return InputError(
        f"cannot read `{line.strip()[:60]}`",
        line=number,
        column=column,
        expected="`%name = type opcode(operands), attributes`, or a computation `%name (…) -> … {`",
    )


Known = dict[tuple[str, str], Written]
"""Instructions by type and opcode, and by attributes."""


def _plain(match: re.Match[str], line: str, number: int, known: Known) -> Instruction:
    """The instruction of a line that `_LINE` matches."""
    root, name, head, operands = match.groups()
    words = head, line[match.end() :]
    written = known.get(words)
    if written is None:
        type_text, opcode = head.split()
        written = known[words] = Written(type_text, opcode, words[1])
    column = match.start(1 if root else 2) + 1
    return Instruction(name, written.opcode, operands, written, root is not None, number, column)


def _instruction(
    match: re.Match[str], line: str, lines: list[str], number: int, known: Known
) -> tuple[Instruction, int]:
    """The instruction of a line (1-based `number`), and the number of lines read (constants may span several).
    `known`: attributes that were met before."""
    at = match.end()
    type_text = match[3]
    start = number
    if not type_text:
        end = _close(line, at)
        if end < 0:
            raise InputError(
                f"`{match[2]}`: the type has no `)`", line=start, column=at + 1, hint="the dump is truncated"
            )
        type_text, at = line[at:end], end
    opcode = _OPCODE.match(line, at)
    if not opcode:
        raise InputError(
            f"`{match[2]}`: no opcode after the type", line=start, column=at + 1, expected="`opcode(operands)`"
        )
    at = opcode.end()
    simple = _SIMPLE_OPERANDS.match(line, at)
    if simple:
        operand_text, end = simple[1], simple.end()
    else:
        end = _close(line, at - 1)
        parts = [line]
        while end < 0 and opcode[1] == "constant" and number < len(lines) and not _INSTRUCTION.match(lines[number]):
            parts.append(lines[number])
            number += 1
            if ")" in parts[-1]:
                line = "\n".join(parts)
                end = _close(line, at - 1)
        if end < 0:
            raise InputError(
                f"`{match[2]}` ({opcode[1]}): the operands have no `)`",
                line=start,
                column=at,
                hint="the dump is truncated",
            )
        operand_text = line[at : end - 1]
    column = (match.start(1) if match[1] else match.start(2)) + 1
    words = f"{type_text} {opcode[1]}", line[end:]
    written = known.get(words)
    if written is None:
        written = known[words] = Written(type_text, opcode[1], words[1])
    return Instruction(match[2], opcode[1], operand_text, written, bool(match[1]), start, column), number


def _close(text: str, at: int) -> int:
    """Position after the parenthesis that closes the one at `at`, -1 where none does."""
    depth = 0
    for match in _NESTING.finditer(text, at):
        bracket = match[0]
        if bracket == "(":
            depth += 1
        elif bracket == ")":
            depth -= 1
            if depth == 0:
                return match.end()
    return -1
