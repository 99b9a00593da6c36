"""Kernels that are not what they look like: what a reader could pass over, what a race or other memory could hide."""

from __future__ import annotations

import pytest

from .running import Run

HEAD = "from tvm.script import tir as T\n"
MAIN = '\n@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
GRID = '\n@T.prim_func\ndef main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):\n'
EACH = "    for i in T.serial(8):\n"
NUMBER = MAIN + EACH + "        B[i] = A[i] * n\n"


def thread_rows(scope: str, thread: str) -> str:
    """Each row through memory that is made for one of the iterations."""
    return GRID + (
        f'    for x in T.thread_binding(8, thread="{thread}"):\n'
        f'        s = T.alloc_buffer((4,), "float32", scope="{scope}")\n'
        "        for j in range(4):\n            s[j] = A[x, j]\n"
        "        for j in range(4):\n            B[x, j] = s[j]\n"
    )


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (MAIN + "    for i in T.serial(8):\n        B[i] = A[i]\n", 0),
        (MAIN + "    for i in T.serial(0, 8, step=2):\n        B[i] = A[i]\n", 1),
        (MAIN + "    for i in range(0, 8, 2):\n        B[i] = A[i]\n        B[i + 1] = A[i + 1]\n", 0),
        (MAIN + "    for i in T.serial(8, start=2):\n        B[i] = A[i]\n", 1),
        (MAIN + "    for i in T.serial(8, hidden=2):\n        B[i] = A[i]\n", 2),
        (MAIN + EACH + "        B[i] = B[i] * T.float32(0)\n" + EACH + "        B[i] = B[i] + A[i]\n", 1),
        (MAIN + EACH + "        B[i] = B[i] - B[i]\n" + EACH + "        B[i] = B[i] + A[i]\n", 1),
        (MAIN + "    x = A[0]\n    if A[1] > T.float32(0):\n        x = A[1]\n" + EACH
         + "        B[i] = A[i] + x - A[0]\n", 2),
        (MAIN + f"    n = 8\n    if A[0] > T.float32(0):\n        n = 4\n{EACH[:-4]}n):\n        B[i] = A[i]\n", 2),
        (MAIN + EACH + "        B[i] = T.Select(i < 8, A[i], A[i + 1])\n", 1),
        (MAIN + EACH + "        B[i] = T.if_then_else(i < 8, A[i], A[i + 1])\n", 0),
        (MAIN.replace('(8,), "float32"', '(8,), "float32", None, (2,)', 1) + EACH + "        B[i] = A[i]\n", 2),
        (GRID + '    for i in T.thread_binding(8, thread="threadIdx.x"):\n'
         '        for j in T.thread_binding(4, thread="threadIdx.x"):\n            B[i, j] = A[i, j]\n', 2),
        (thread_rows("local", "threadIdx.x"), 0),
        (thread_rows("shared", "blockIdx.x"), 0),
        (thread_rows("shared", "threadIdx.x"), 1),  # one block's threads share it: no thread stands for all
    ],
)  # fmt: skip
def test_a_copy_is_what_copies(kernel: Run, text: str, status: int) -> None:
    found, said = kernel(HEAD + text, "--as", "copy")
    assert found == status, said


def test_a_tile_that_is_copied_onto_a_part_of_itself_races(kernel: Run) -> None:
    text = MAIN + (
        "    with T.Kernel(1, threads=8) as bx:\n"
        '        s = T.alloc_shared((9,), "float32")\n        T.clear(s)\n        T.copy(A, s[0:8])\n'
        "        T.copy(s[0:8], s[1:9])\n        T.copy(s[1:9], B)\n"
    )
    status, said = kernel(HEAD + text, "--as", "copy")
    assert status == 3
    assert "race" in {flaw["kind"] for flaw in said["flaws"]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("n = compute()", ""), ("for q in range(3):\n    n = n * 2", ""), ("if foo():\n    n = 5", ""),
        ("try:\n    n = 5\nfinally:\n    pass", ""), ("n = m = 5", ""), ("n: int = 5", ""), ("from q import n", ""),
        ("from q import *", ""), ("def f():\n    global n\n    n = 5\nf()", ""), ("", "n = 5"), ("print(n := 5)", ""),
        ("L = [4]\nL[0] = 5\nn = L[0]", ""), ("min = lambda a, b: b\nn = min(4, 5)", ""), ("import mylib as T", ""),
    ],
)  # fmt: skip
def test_a_name_around_a_kernel_means_one_number_or_none(kernel: Run, before: str, after: str) -> None:
    four = HEAD + NUMBER.replace("* n", "* 4")
    assert kernel(HEAD + "n = 4" + NUMBER, other=four)[0] == 0
    assert kernel(f"{HEAD}n = 4\n{before}{NUMBER}{after}\n", other=four)[0] in (1, 2)


def test_what_is_stated_has_the_types_of_the_kernel(kernel: Run) -> None:
    text = HEAD + MAIN.replace('A: T.Buffer((8,), "float32"', 'A: T.Buffer((8,), "uint8"') + EACH
    text += '        B[i] = T.Cast("float32", A[i])\n'
    assert kernel(text, other=text)[0] == 0
    status, said = kernel(text, other=text.replace("uint8", "int8"))
    assert status == 2
    assert "u8[8]" in said["message"]
