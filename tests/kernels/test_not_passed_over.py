"""Kernels that do a little else than they seem to: memory of other threads, names, types of constants, branches."""

from __future__ import annotations

import pytest

from .running import Run

HEAD = "from tvm.script import tir as T\n"
MAIN = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
EACH = "    for i in range(8):\n"
COPY = MAIN + EACH + "        B[i] = A[i]\n"
REVERSED = MAIN + EACH + "        B[i] = A[7 - i]\n"
SQUARE = '@T.prim_func\ndef main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):\n'


def through(scope: str, thread: str, count: int, place: str) -> str:
    """Elements through memory that is made around two launches, read at another place than they were written."""
    loops = f'    for b in T.thread_binding({count}, thread="{thread}"):\n        for i in range({8 // count}):\n'
    at = f"b * {8 // count} + i"
    return (
        MAIN + f'    s = T.alloc_buffer((8,), "float32", scope="{scope}")\n'
        f"{loops}            s[{at}] = A[{at}]\n{loops}            B[{at}] = s[{place.replace('@', at)}]\n"
    )  # fmt: skip


def tiles(body: str) -> str:
    """A tile program of two blocks."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return MAIN.replace("Buffer", "Tensor") + f"    with T.Kernel(2, threads=8) as bx:\n{lines}"


@pytest.mark.parametrize(
    ("text", "stated", "status"),
    [
        (COPY + "    B[0] = T.float32(5)\n", COPY, 1),
        (through("shared", "blockIdx.x", 2, "7 - (@)"), REVERSED, 3),
        (through("local", "threadIdx.x", 8, "7 - (@)"), REVERSED, 3),
        (tiles("for i in T.Parallel(5):\n    B[T.min(bx * 4 + i, 7)] = A[T.min(bx * 4 + i, 7)] + bx"),
         MAIN + EACH + '        B[i] = A[i] + T.Cast("float32", i // 4)\n', 1),
        (SQUARE + '    with T.block("b"):\n        s = T.match_buffer(A[0:4, 0:4], (4, 4), strides=[1, 4])\n'
         "        for i, j in T.grid(4, 4):\n            B[i, j] = s[i, j]\n",
         SQUARE + "    for i, j in T.grid(4, 4):\n        B[i, j] = A[i, j]\n", 2),
        ("T.exp = T.log\n" + COPY, COPY, 2),
        ('setattr(T, "exp", T.log)\n' + COPY, COPY, 2),
        ("def range(n):\n    return T.serial(n - 1)\n" + COPY, COPY.replace("range", "T.serial"), 2),
        ("import mylib\n@mylib.rewrite\n" + COPY, COPY, 2),
        (tiles('s = T.alloc_shared((8,), "float32")\nT.annotate_layout({s: T.Layout((8,), lambda i: [0])})\n'
               "T.copy(A, s)\nT.copy(s, B)"), COPY, 2),
        (tiles("T.copy(A[bx * 4], B[bx * 4 : bx * 4 + 4])\nT.clear(B[0:4], 1)"), COPY, 2),
        (MAIN + EACH + '        B[i] = A[i] + T.Cast("float32", T.float16(0.1))\n',
         MAIN + EACH + "        B[i] = A[i] + T.float32(0.1)\n", 1),
        (MAIN + EACH + '        B[i] = T.Cast("float32", T.uint32(3) - T.uint32(5))\n',
         MAIN + EACH + "        B[i] = T.float32(-2)\n", 1),
        (MAIN + EACH + '        B[i] = T.Cast("float32", (i * 1000000000) // 1000000000)\n',
         MAIN + EACH + '        B[i] = T.Cast("float32", i)\n', 3),
    ],
)  # fmt: skip
def test_it_is_not_what_is_stated(kernel: Run, text: str, stated: str, status: int) -> None:
    found, said = kernel(HEAD + text, other=HEAD + stated)
    assert found == status, said


@pytest.mark.parametrize(
    "text",
    [
        MAIN + EACH + "        if i < 7 and A[i + 1] > T.float32(0):\n            B[i] = A[i]\n"
        "        else:\n            B[i] = A[i] + T.float32(0)\n",
        MAIN
        + EACH
        + "        if A[i] > T.float32(0):\n            if A[0] > T.float32(1):\n                B[i] = A[i]\n"
        "            else:\n                B[i] = A[i]\n        else:\n            B[i] = A[i]\n",
        MAIN
        + '    s = T.alloc_buffer((1,), "float32")\n    s[0] = T.float32(0)\n'
        + EACH
        + "        s[0] = A[i]\n        B[i] = s[0]\n",
        MAIN + '    s = T.alloc_buffer((8,), "float32", scope="local")\n'
        '    for b in T.thread_binding(2, thread="blockIdx.x"):\n'
        '        for i in T.thread_binding(4, thread="threadIdx.x"):\n'
        "            s[b * 4 + i] = A[b * 4 + i]\n            B[b * 4 + i] = s[b * 4 + i]\n",
    ],
)
def test_it_is_a_copy(kernel: Run, text: str) -> None:
    status, said = kernel(HEAD + text, "--as", "copy")
    assert status == 0, said


def each(value: str, size: str = "8", dtype: str = "float32") -> str:
    """A kernel that gives all elements this value; of any size, a function of it."""
    buffers = f'A: T.Buffer(({size},), "{dtype}"), B: T.Buffer(({size},), "float32")'
    lines = f"@T.prim_func\ndef main({buffers}):\n    for i in range({size}):\n        B[i] = {value}\n"
    if size.isdecimal():
        return lines
    return f"def of({size}):\n" + "".join(f"    {line}\n" for line in lines.splitlines()) + "    return main\n"


ONE, ZERO = "T.float32(1)", "T.float32(0)"
GUARDED = f"T.if_then_else(A[i] == {ZERO}, {ZERO}, {ONE} / A[i])"


@pytest.mark.parametrize(
    ("value", "stated", "status"),
    [
        ("A[i] / A[i]", ONE, 3),
        (f'{ONE} / A[i] * T.Cast("float32", A[i] != {ZERO})', GUARDED, 3),
        (f"A[i] * A[i] / A[i] * {ONE}", "A[i]", 3),
        (GUARDED, GUARDED, 0),
        (f"A[i] * ({ONE} / A[i])", "A[i] / A[i]", 0),
    ],
)
def test_no_condition_leaves_out_what_is_stated_there(kernel: Run, value: str, stated: str, status: int) -> None:
    """x / x is no 1 at 0: that it is not divided by zero was listed, and the kernel PROVED."""
    assert kernel(HEAD + each(value), other=HEAD + each(stated))[0] == status
    if status == 3:
        open_size, of_any = HEAD + each(value, "n"), HEAD + each(stated, "n")
        assert kernel(open_size, "--for-all", "n", other=of_any)[0] == status


def test_numbers_that_are_computed_in_fewer_digits_are_told(kernel: Run) -> None:
    narrow, wide = (HEAD + each(text, dtype="float16") for text in ('T.Cast("float32", T.exp(A[i]))',
                                                                     'T.exp(T.Cast("float32", A[i]))'))  # fmt: skip
    status, said = kernel(narrow, other=wide)
    assert (status, [p["text"] for p in said["precision"]]) == (0, ["numbers are computed in f16"])
    assert kernel(wide, other=narrow)[1]["precision"] == []
