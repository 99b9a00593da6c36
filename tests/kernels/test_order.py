"""Serial loops mean what they say, whether they are run at once or in turn; parallel ones must not depend on order."""

from __future__ import annotations

import pytest

from .running import Run

HEAD = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
"""
SUM = (
    HEAD
    + """
    for i in range(4):
        B[i] = A[i, 0]
    for i, k in T.grid(4, 5):
        B[i] = B[i] + A[i, k + 1]
"""
)
LAST = (
    HEAD
    + """
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.spatial(6, k)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
)
PREFIX = (
    HEAD
    + """
    for i in range(4):
        B[i] = A[i, 0]
    for i in range(3):
        B[i + 1] = B[i] + B[i + 1]
"""
)
CHOSEN = (
    HEAD
    + """
    for i in range(4):
        B[i] = A[i, 0]
    for i, k in T.grid(4, 5):
        if B[i] < A[i, k + 1]:
            B[i] = A[i, k + 1]
"""
)
NEVER = (
    HEAD
    + """
    for i, k in T.grid(4, 6):
        B[i] = B[i] + A[i, k]
"""
)
THREADS = (
    HEAD
    + """
    s = T.alloc_buffer((4,), scope="{scope}")
    for i in T.thread_binding(4, thread="threadIdx.x"):
        s[i] = A[i, 0]
        B[i] = s[3 - i]
"""
)


def plain(value: str) -> str:
    return HEAD + f"    for i in range(4):\n        B[i] = {value}\n"


def test_loops_that_are_run_at_once_are_those_in_turn(kernel: Run) -> None:
    assert kernel(SUM, "--as", "sum")[0] == 0
    assert kernel(LAST, "--as", "sum")[0] == 1
    assert kernel(LAST, other=plain("A[i, 5]"))[0] == 0
    assert kernel(CHOSEN, "--as", "max")[0] == 0
    running = "A[0, 0] + T.if_then_else(i > 0, A[1, 0], T.float32(0)) + T.if_then_else(i > 1, A[2, 0], T.float32(0))"
    assert kernel(PREFIX, other=plain(running + " + T.if_then_else(i > 2, A[3, 0], T.float32(0))"))[0] == 0
    assert kernel(PREFIX, other=plain("A[i, 0] + T.if_then_else(i > 0, A[T.max(i - 1, 0), 0], T.float32(0))"))[0] == 1


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("T.if_then_else(i > 0, B[i - 1], A[0, 0])", 0),
        ("T.if_then_else(i == 0, A[0, 0], B[i - 1])", 0),
        ("T.if_then_else(i > 0 and B[i - 1] == A[0, 0], B[i - 1], A[0, 0])", 0),
        ("T.Select(i > 0, B[i - 1], A[0, 0])", 1),
        ("T.if_then_else(i >= 0, B[i - 1], A[0, 0])", 1),
    ],
)
def test_what_was_written_before_is_read_where_it_is_chosen(kernel: Run, value: str, status: int) -> None:
    assert kernel(plain(value), other=plain("A[0, 0]"))[0] == status
    assert kernel(plain(value).replace("range", "T.parallel"), other=plain("A[0, 0]"))[0] != 0


@pytest.mark.parametrize("kind", ["T.parallel", "T.vectorized"])
def test_parallel_loops_that_depend_on_order_race(kernel: Run, kind: str) -> None:
    text = PREFIX.replace("for i in range(3)", f"for i in {kind}(3)")
    status, said = kernel(text, other=PREFIX)
    assert status != 0
    assert "race" in {flaw["kind"] for flaw in said["flaws"]}


def test_what_nothing_has_written_is_never_equal(kernel: Run) -> None:
    status, said = kernel(NEVER, "--as", "sum")
    assert status == 1
    assert "unwritten" in {flaw["kind"] for flaw in said["flaws"]}
    lost = HEAD + '    s = T.alloc_buffer((4,), scope="local")\n    for i in range(4):\n        B[i] = s[i]\n'
    assert kernel(lost, other=lost)[0] != 0


def test_threads_see_what_others_wrote_in_shared_memory_alone(kernel: Run) -> None:
    assert kernel(THREADS.format(scope="shared"), other=plain("A[3 - i, 0]"))[0] == 0
    assert kernel(THREADS.format(scope="local"), other=plain("A[3 - i, 0]"))[0] == 3
    blocks = THREADS.format(scope="shared").replace("threadIdx", "blockIdx")
    assert kernel(blocks, other=plain("A[3 - i, 0]"))[0] != 0
