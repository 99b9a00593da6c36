"""Ranks played in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="needs torch")

PROGRAM = """
import torch
from scalify_dl.capture.torch.ranks import together

def work(rank):
    assert float((torch.ones(2000, 2000) + 1).sum()) == 8e6

torch.set_num_threads(2)
work(0)
together(work, [0, 1])
"""


def test_ranks_do_not_wait_for_threads_that_the_parents_kernels_ran_on() -> None:
    assert subprocess.run([sys.executable, "-c", PROGRAM], timeout=120, check=False).returncode == 0
