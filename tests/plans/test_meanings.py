"""Kinds with any operands, attributes and constants: a meaning, none, or an op that cannot run."""

from __future__ import annotations

import random

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.programs import Program
from scalify_dl.plans.meanings import Call, IllTyped, NoMeaning, meaning
from scalify_dl.plans.meanings.arguments import KNOWN
from scalify_dl.plans.meanings.call import BACKWARD, FORWARD, enter_all

enter_all()
SHAPES = [(), (1,), (4,), (2, 4), (4, 4), (2, 3, 4), (2, 4, 2, 4), (2, 2, 4, 4)]
ATTRIBUTES = {
    "dim": ("0", "-1", "(1,)", "7", "None", "x"), "keepdim": ("True", "False"), "size": ("(2, 4)", "(-1,)", "()", "x"),
    "dim0": ("0", "9"), "dim1": ("1", "-1"), "start": ("0", "2", "x"), "stop": ("4", "2", "None"),
    "times": ("2", "0"), "alpha": ("1", "2"), "split_size_or_sections": ("(1, 3)", "2", "0", "()"), "k": ("1", "99"),
    "dtype_or_device": ("torch.float32", "cpu"), "padding_idx": ("None", "1"), "bias": ("None", "True"),
}  # fmt: skip


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_no_kind_stumbles(backward: bool) -> None:
    rng = random.Random(7)
    known = 0
    for kind in sorted(BACKWARD if backward else FORWARD):
        for n in range(60):
            p = Program("p", Mesh.parse("tp=2"))
            types = ["f32", "f32", "f32", "s64", "c64"]
            operands = [p.input(f"x{i}", rng.choice(SHAPES), rng.choice(types)) for i in range(rng.randrange(5))]
            some = [key for key in ATTRIBUTES if key in KNOWN.get(kind, ()) or rng.random() < 0.05]
            attributes = {key: rng.choice(ATTRIBUTES[key]) for key in some if rng.random() < 0.5}
            constants = [("float", rng.choice(["2", "0", "1e-5", "x"])) for _ in range(rng.randrange(3))]
            makes = [(rng.choice(types), rng.choice(SHAPES)) for _ in range(rng.randrange(1, 4))]
            if operands and rng.random() < 0.5:
                makes = [("f32", tuple(operands[0].shape))]
            try:
                results = meaning(Call(p, kind, backward, operands, makes, attributes, constants))
            except (IllTyped, NoMeaning):
                continue
            except InputError as error:
                pytest.fail(f"{kind} {[(x.dtype, x.shape) for x in operands]} {attributes} {n}: {error}")
            known += 1
            assert [(x.dtype, tuple(x.shape)) for x in results] == makes
    assert known
