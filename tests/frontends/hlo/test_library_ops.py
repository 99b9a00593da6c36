"""Fourier transforms, Cholesky factors and triangular systems: functions of each signal or matrix of a batch."""
# ruff: noqa: E501 (tables of HLO text)

from __future__ import annotations

import numpy as np
import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.oracle import load_program, run_trial
from scalify_dl.oracle.inputs import baseline_inputs
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report
from scalify_dl.readers import hlo
from scalify_dl.report.conclude import conclude

from .test_edited_programs import module

SPECTRUM = "%x = c64[{0}]{{1,0}} parameter(0); ROOT %y = c64[{0}]{{1,0}} fft(%x), fft_type={1}, fft_length={{{2}}}"
FACTOR = "%x = f32[{0},3,3]{{2,1,0}} parameter(0); ROOT %y = f32[{0},3,3]{{2,1,0}} cholesky(%x), lower={1}"
SOLVED = (
    "%a = f32[{0},3,3]{{2,1,0}} parameter(0); %b = f32[{0},3,2]{{2,1,0}} parameter(1);"
    " ROOT %y = f32[{0},3,2]{{2,1,0}} triangular-solve(%a, %b), left_side=true, lower={1}, transpose_a={2}"
)
CALL = (
    "%x = f32[{0},3,3]{{2,1,0}} parameter(0);"
    ' %c = (f32[{0},3,3]{{2,1,0}}, s32[{0}]{{0}}) custom-call(%x), custom_call_target="{1}", backend_config="{2}";'
    " ROOT %y = f32[{0},3,3]{{2,1,0}} get-tuple-element(%c), index=0"
)
CUT = CALL.replace("3,3", "{3}")
BOTH = (
    "%x = f32[{0},3,3]{{2,1,0}} parameter(0); %y = f32[{1},3,3]{{2,1,0}} parameter(1);"
    ' ROOT %z = f32[{0},3,3]{{2,1,0}} custom-call(%x, %y), custom_call_target="lapack_strsm_ffi"'
)
BATCH = (
    (SPECTRUM, ("4,8", "FFT", "8"), ("2,8", "FFT", "8")),
    (FACTOR, (4, "true"), (2, "true")),
    (SOLVED, (4, "true", "TRANSPOSE"), (2, "true", "TRANSPOSE")),
    (CALL, (4, "lapack_spotrf_ffi", "u"), (2, "lapack_spotrf_ffi", "u")),
)


def read(text: str) -> Graph:
    return hlo.read_text(module(text), Mesh.parse("dp=2"))


def report(base: str, dist: str) -> Report:
    return conclude(analyse(tables(read(base), [read(dist)], Mesh.parse("dp=2")), Options()))


@pytest.mark.parametrize(("text", "base", "dist"), BATCH)
def test_a_batch_may_be_cut(text: str, base: tuple[object, ...], dist: tuple[object, ...]) -> None:
    found = report(text.format(*base), text.format(*dist))
    assert found.verdict == "PROVED"
    assert any("LAPACK" in assumption.text for assumption in found.assumptions) == (text is CALL)


ODD = (
    (SPECTRUM, ("4,8", "FFT", "8"), ("2,8", "IFFT", "8")),
    (SPECTRUM, ("4,8", "FFT", "8"), ("4,4", "FFT", "4")),
    (SPECTRUM, ("4,8", "FFT", "4,8"), ("2,8", "FFT", "2,8")),
    (SPECTRUM, ("4,8", "FFT", "8"), ("4,8", "FFT", "4,8")),
    (FACTOR, (4, "true"), (2, "false")),
    (SOLVED, (4, "true", "NO_TRANSPOSE"), (2, "true", "TRANSPOSE")),
    (CALL, (4, "lapack_spotrf_ffi", "u"), (2, "lapack_spotrf_ffi", "l")),
    (CALL, (4, "somebodys_spotrf", "u"), (2, "somebodys_spotrf", "u")),
    (CALL, (4, "hlo.cholesky", "u"), (2, "hlo.cholesky", "u")),
    (CUT, (3, "lapack_sgeqrf_ffi", "", "4,5"), (3, "lapack_sgeqrf_ffi", "", "2,5")),
    (BOTH, (4, 2), (2, 1)),
)


@pytest.mark.parametrize(("text", "base", "dist"), ODD)
def test_another_function_or_a_cut_signal_is_not_proved(text: str, base: tuple[object, ...], dist: tuple[object, ...]) -> None:
    found = report(text.format(*base), text.format(*dist))
    assert found.verdict != "PROVED"
    assert found.verdict == "REFUTED" or text is not SOLVED  # matrices that are drawn have no factor


INVALID = (
    SPECTRUM.format("4,8", "FFT", "4"),
    SPECTRUM.format("4,8", "RFFT", "8"),
    SPECTRUM.format("4,8", "DCT", "8"),
    FACTOR.format(4, "maybe"),
    FACTOR.replace("3,3", "3,2").format(4, "true"),
    SOLVED.replace("3,2", "2,3").format(4, "true", "TRANSPOSE"),
    SOLVED.format(4, "true", "CONJUGATE"),
)


@pytest.mark.parametrize("text", INVALID)
def test_what_is_no_such_op_is_bad_input(text: str) -> None:
    with pytest.raises(InputError):
        read(text)


@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("turned", ["NO_TRANSPOSE", "TRANSPOSE"])
def test_a_system_is_solved(lower: str, turned: str) -> None:
    text = read(SOLVED.format(4, lower, turned))
    program = load_program(tables(text, [text], Mesh((("r", 1),))).tables)
    (graph,) = program.top("base")
    drawn = baseline_inputs(program, "reals", 0)
    a, b = (drawn[t][0] for t in graph.inputs)
    a = np.tril(a) if lower == "true" else np.triu(a)
    got = run_trial(program, 0, "reals", only="base").baseline[graph.outputs[0]]
    assert np.allclose((np.swapaxes(a, -1, -2) if turned == "TRANSPOSE" else a) @ got, b)
