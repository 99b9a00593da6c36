"""A function of one value, copied from the baseline: what `datalog/conclude/mending/functions.dl` proposes."""

from __future__ import annotations

from scalify_dl.errors import InputError

from .draft import Draft, Edit


def function(draft: Draft, edit: Edit) -> None:
    """What the baseline computes of a value, element by element, in place of what is computed of it here."""
    base, theirs = edit.how.split(";", 1)
    copied = {base: draft.operands(edit.cause)[edit.num]}
    shape = draft.shape(edit.target)
    makers = {tensor: op for op, _, tensor in draft.facts["result"]}
    kinds = {op: kind for op, _, kind in draft.facts["op"]}
    types = {tensor: dtype for tensor, _, dtype, _ in draft.facts["tensor"]}
    numbers = {row[0] for row in draft.facts["literal_rational"]}

    def copy(tensor: str) -> str:
        if tensor not in copied:
            if tensor not in makers:
                raise InputError(f"{theirs} is made of {tensor}, too")
            op = makers[tensor]
            if kinds[op] == "constant" and tensor not in numbers:
                raise InputError(f"{tensor} is not one number")
            operands = [copy(operand) for operand in draft.operands(op)]
            ours = edit.target if tensor == theirs else draft.like(
                edit.target, shape if draft.shape(tensor) else (), types[tensor]
            )  # fmt: skip
            made = draft.emit(kinds[op], operands, ours, edit.cause)
            for table in ("attr_symbol", "attr_number"):
                draft.rows(table).extend([(made, *row[1:]) for row in draft.facts[table] if row[0] == op])
            for table in ("literal", "literal_rational"):
                draft.rows(table).extend([(ours, *row[1:]) for row in draft.facts[table] if row[0] == tensor])
            copied[tensor] = ours
        return copied[tensor]

    draft.raw(edit.target)
    copy(theirs)
