"""Custom calls of HLO text are the same only if everything that they are told is."""

from __future__ import annotations

from typing import Any

import pytest

from scalify_dl.readers.hlo.lower import read_text


def identity(attributes: str, operands: str = "%x, %t", result: str = "{1,0}") -> tuple[Any, ...]:
    """What tells the call of a module apart."""
    text = f"""HloModule m
ENTRY %main (x: f32[4,4], t: f32[4,4]) -> f32[4,4] {{
  %x = f32[4,4]{{1,0}} parameter(0)
  %t = f32[4,4]{{1,0}} parameter(1)
  %xt = (f32[4,4]{{1,0}}, f32[4,4]{{1,0}}) tuple(%x, %t)
  ROOT %y = f32[4,4]{result} custom-call({operands}), custom_call_target="k"{attributes}
}}
"""
    (op,) = (op for op in read_text(text).ops if op.kind == "custom:k")
    return op.kind, op.numbers, op.symbols, [x.name for x in op.operands]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (", k=1", ", k={1}"),
        (", k={}", ""),
        (', backend_config="a  b"', ', backend_config="a b"'),
        (', backend_config="a\\nb"', ', backend_config="a b"'),
        (', k="a  b"', ', k="a b"'),
        (', config="x"', ', backend_config="x"'),
        (", operand_layout_constraints={f32[4,4]{0,1}, f32[4,4]{1,0}}", ""),
    ],
)
def test_calls_with_other_attributes_are_other_calls(one: str, other: str) -> None:
    assert identity(one) != identity(other)
    assert identity(one) == identity(one)


def test_tuples_among_the_operands_tell_calls_apart() -> None:
    assert len({repr(identity("", operands)) for operands in ("%x, %t", "%xt")}) == 2
    assert len({repr(identity("", operands)) for operands in ("%xt, %x", "%x, %xt")}) == 2


def test_a_result_in_another_layout_is_another_call() -> None:
    assert identity("", result="{0,1}") != identity("")


def test_row_major_layouts_are_not_said() -> None:
    constraints = ", operand_layout_constraints={f32[4,4]{1,0}, f32[4,4]{1,0}}"
    assert identity(constraints) == identity("")
