"""A program that shares ops has equal constants and arrangements once, and nothing else."""

from __future__ import annotations

from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.programs import Program


def test_what_is_equal_is_there_once() -> None:
    p = Program("p", Mesh.parse("tp=2"))
    p.share()
    x = p.input("x", (4, 2))
    assert p.full(2, (4, 2)) is p.full(2, (4, 2))
    assert p.reshape(x, (8,)) is p.reshape(x, (8,))
    assert p.compare(x, 0, direction="GE") is p.compare(x, 0, direction="GE")


def test_what_differs_is_another_op() -> None:
    p = Program("p", Mesh.parse("tp=2"))
    p.share()
    x, y = p.input("x", (4, 2)), p.input("y", (4, 2))
    assert p.full(2, (4, 2)) is not p.full(3, (4, 2))
    assert p.constant(2) is not p.constant(2, "s32")
    assert p.reshape(x, (8,)) is not p.reshape(y, (8,))
    assert p.reshape(x, (8,)) is not p.reshape(x, (2, 4))
    assert p.compare(x, 0, direction="GE") is not p.compare(x, 0, direction="LT")
    assert p.rank_constant({0: 0, 1: 1}) is not p.rank_constant({0: 1, 1: 0})
    assert p.slice(x, 0, {0: 0, 1: 2}, {0: 2, 1: 4}) is not p.slice(x, 0, {0: 2, 1: 0}, {0: 4, 1: 2})


def test_a_program_that_does_not_share_has_every_op() -> None:
    p = Program("p", Mesh.parse("tp=2"))
    assert p.constant(2) is not p.constant(2)
