"""Constants of narrow types are read as the number that was meant; what a compiler has left of them refutes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl import verify

PLACES = """%first (a: f32[], i: s32[], b: f32[], j: s32[]) -> (f32[], s32[]) {
  %a = f32[] parameter(0)
  %i = s32[] parameter(1)
  %b = f32[] parameter(2)
  %j = s32[] parameter(3)
  %more = pred[] compare(%a, %b), direction=GT
  %same = pred[] compare(%a, %b), direction=EQ
  %less = pred[] compare(%i, %j), direction=LT
  %before = pred[] and(%same, %less)
  %keep = pred[] or(%more, %before)
  %v = f32[] select(%keep, %a, %b)
  %w = s32[] select(%keep, %i, %j)
  ROOT %t = (f32[], s32[]) tuple(%v, %w)
}
"""


def judged(tmp_path: Path, base: str, dist: str, before: str = "") -> str:
    for name, body, header in (("base", base, ""), ("dist", dist, ", num_partitions=2")):
        lines = "\n  ".join(("%x = f32[4] parameter(0)", *body.split("; ")))
        (tmp_path / f"{name}.hlo").write_text(f"HloModule m{header}\n{before}ENTRY %main {{\n  {lines}\n}}\n")
    return str(verify(tmp_path / "base.hlo", tmp_path / "dist.hlo", mesh="tp=2").verdict)


def scaled(constant: str) -> str:
    """x times a number."""
    return f"{constant}; %b = f32[4] broadcast(%f), dimensions={{}}; ROOT %o = f32[4] multiply(%x, %b)"


FOLDED = [
    ("%c = bf16[] constant(0.334); %f = f32[] convert(%c)", "0.333984375"),
    ("%c = bf16[] constant(0.08838); %f = f32[] convert(%c)", "0.0883789062"),
    ("%c = f16[] constant(0.3333); %f = f32[] convert(%c)", "0.333251953"),
    ("%c = f32[] constant(0.1); %d = bf16[] convert(%c); %f = f32[] convert(%d)", "0.100097656"),
    ("%c = s32[] constant(257); %d = bf16[] convert(%c); %f = f32[] convert(%d)", "256"),
    ("%c = u32[] constant(4294967295); %f = f32[] convert(%c)", "4294967296"),
]


@pytest.mark.parametrize(("constant", "left"), FOLDED)
def test_a_constant_that_a_compiler_has_cast_refutes_nothing(tmp_path: Path, constant: str, left: str) -> None:
    assert judged(tmp_path, scaled(constant), scaled(f"%f = f32[] constant({left})")) != "REFUTED"


@pytest.mark.parametrize(("constant", "left"), FOLDED)
def test_another_constant_is_refuted(tmp_path: Path, constant: str, left: str) -> None:
    assert judged(tmp_path, scaled(constant), scaled(f"%f = f32[] constant({1.02 * float(left)})")) == "REFUTED"


@pytest.mark.parametrize("number", ["0.3333", "0.1"])
def test_a_narrow_constant_is_not_the_wide_one(tmp_path: Path, number: str) -> None:
    """bf16 1/3 is 0.333984375, whatever it is cast to."""
    cast = f"%c = bf16[] constant({number}); %f = f32[] convert(%c)"
    assert judged(tmp_path, scaled(cast), scaled(f"%f = f32[] constant({number})")) != "PROVED"
    assert judged(tmp_path, scaled(cast), scaled(cast)) == "PROVED"


def test_a_narrow_constant_that_is_exact_is_the_wide_one(tmp_path: Path) -> None:
    cast = "%c = bf16[] constant(0.375); %f = f32[] convert(%c)"
    assert judged(tmp_path, scaled(cast), scaled("%f = f32[] constant(0.375)")) == "PROVED"


def test_a_reduction_to_places_that_starts_below_them_is_no_argmax(tmp_path: Path) -> None:
    def place(start: int) -> str:
        return (
            f"%n = f32[] constant(-inf); %z = s32[] constant({start}); %i = s32[4] iota(), iota_dimension=0; "
            "%t = (f32[], s32[]) reduce(%x, %i, %n, %z), dimensions={0}, to_apply=%first; "
            "ROOT %o = s32[] get-tuple-element(%t), index=1"
        )

    assert judged(tmp_path, place(0), place(7), PLACES) == "PROVED"
    assert judged(tmp_path, place(0), place(-1), PLACES) != "PROVED"
