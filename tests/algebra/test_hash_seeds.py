"""What is found does not depend on the order of sets, which the seed of hashes decides."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from fractions import Fraction
from scalify_dl.algebra.form import Field
from scalify_dl.algebra.sums import _tied
from scalify_dl.algebra.variables import Variable

field = Field()
variables = [Variable((name, 0), 4) for name in ("a", "b", "c", "d", "e")]
form = sum((field.of(field.element("position", (v,), nonnegative=True)) for v in variables), field.zero)
print([[v.name for v in group] for group in _tied(field, (form,), frozenset(variables))])
"""


def _printed(seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_variables_that_nothing_tells_apart_are_tried_in_one_order() -> None:
    assert len({_printed(seed) for seed in (0, 1)}) == 1
