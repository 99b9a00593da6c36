"""Schema v1 as data: every table with its columns, types, key and references (docs/facts.md explains them)."""

from __future__ import annotations

from typing import NamedTuple

VERSION = "1"

# One table a line: name, then columns. `*` after a table name: required. After a column: `#` a number (else a symbol),
# `!` part of the key, `>table` a reference to that table's first column.
_TABLES = """
meta*            key! value
mesh_axis*       axis! pos# size#
rank_coord*      rank#! axis!>mesh_axis coord#
whole_axis       axis!>mesh_axis
graph*           graph! role
runs             graph!>graph rank#!
op*              op! graph>graph kind
operand          op!>op pos#! tensor>tensor
result           op!>op pos#! tensor>tensor
tensor*          tensor! graph>graph dtype rank#
dim              tensor!>tensor pos#! size#
attr_number      op!>op key! pos#! value#
attr_symbol      op!>op key! pos#! value
rank_number      op!>op key! pos#! rank#! value#
number_along     op!>op key! pos#! axis!>mesh_axis stride#
literal          tensor!>tensor text
literal_rational tensor!>tensor num# den#
literal_hash     tensor!>tensor sha256
literal_item     tensor!>tensor index#! value#
input            graph!>graph pos#! tensor>tensor
output           graph!>graph pos#! tensor>tensor
shard            dist!>tensor dist_piece! base!>tensor base_piece! layout why
expect           dist!>tensor base!>tensor layout
placement_note   dist!>tensor text!
group            op!>op group#! pos#! rank#
group_along      op!>op pos#! axis>mesh_axis
permute_pair     op!>op source# target#!
region           op!>op pos#! graph>graph
source           op!>op pos#! file line# function
layer            op!>op layer#
rounding         op!>op how
tensor_name      tensor!>tensor name
output_name      tensor!>tensor name
range            tensor!>tensor lo# hi# why
seen             tensor!>tensor lo# hi#
assume           tensor!>tensor text! why
"""

RESERVED = frozenset({"issue", "handle", "wait", "reads", "writes", "send", "recv"})
"""Tables of MPMD programs that later schemas will fill."""


ANSWERS = (
    "proved", "refuted", "proved_equal", "assumed_equality", "equal_if", "equal_given", "equal_needs", "comes_in",
)  # fmt: skip
"""What is said during a run by a solver, or of a piece of a program: rules read these relations, a facts directory
holds them as empty files only, for engines that insist on a file for every input."""

FREE_TEXT = frozenset({"meta", "source", "tensor_name", "output_name", "assume", "placement_note"})
"""Tables whose texts are words for people: rules make no names of them."""

SYMBOLIC = ("written_number",)
"""What only families with symbolic sizes have (scalify_dl.families); empty files as well."""


class Column(NamedTuple):
    """One column: its name, whether it holds numbers, is in the key, and the table whose first column it refers to."""

    name: str
    number: bool
    key: bool
    refers: str | None


class Table(NamedTuple):
    """One table."""

    name: str
    columns: tuple[Column, ...]
    required: bool

    @property
    def key(self) -> tuple[int, ...]:
        """Positions of the key columns."""
        return tuple(i for i, column in enumerate(self.columns) if column.key)

    @property
    def signature(self) -> str:
        """`op:symbol, pos:number, …`, for messages."""
        return ", ".join(f"{c.name}:{'number' if c.number else 'symbol'}" for c in self.columns)


def _parse(text: str) -> dict[str, Table]:
    tables = {}
    for line in text.strip().splitlines():
        head, *rest = line.split()
        columns = []
        for word in rest:
            word, _, refers = word.partition(">")
            columns.append(Column(word.rstrip("#!"), "#" in word, "!" in word, refers or None))
        name = head.rstrip("*")
        tables[name] = Table(name, tuple(columns), head.endswith("*"))
    return tables


TABLES: dict[str, Table] = _parse(_TABLES)
