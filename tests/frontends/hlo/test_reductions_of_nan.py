"""A maximum that is written as a comparison drops NaN, or not, and a sort may have no place for it: that is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl import verify
from scalify_dl.prove.verdict import Report

GREATER = "%m = pred[] compare(%a, %b), direction=GT"
NUMBER = f"{GREATER}; ROOT %o = f32[] select(%m, %a, %b)"
IS_NAN = "%n = pred[] compare(%a, %a), direction=NE"
EITHER = f"{GREATER}; {IS_NAN}; %k = pred[] or(%m, %n); ROOT %o = f32[] select(%k, %a, %b)"
OP = "ROOT %o = f32[] maximum(%a, %b)"
ROWS = "%x = f32[4,8] parameter(0); %i = f32[] constant(-inf); "
REDUCED = f"{ROWS}ROOT %o = f32[4] reduce(%x, %i), dimensions={{1}}, to_apply=%f"
WINDOWS = f"{ROWS}ROOT %o = f32[4,2] reduce-window(%x, %i), window={{size=1x4 stride=1x4}}, to_apply=%f"
SUMMED = "%x = f32[4,8] parameter(0); ROOT %o = f32[4,8] all-reduce(%x), replica_groups={{0,1}}, to_apply=%f"


def lines(text: str) -> str:
    return "\n  ".join(text.split("; "))


def scalars(body: str) -> str:
    parameters = "%a = f32[] parameter(0); %b = f32[] parameter(1); "
    return f"%f (a: f32[], b: f32[]) -> f32[] {{\n  {lines(parameters + body)}\n}}\n"


def judged(tmp_path: Path, base: tuple[str, str], dist: tuple[str, str]) -> Report:
    for name, (function, body), header in (("base", base, ""), ("dist", dist, ", num_partitions=2")):
        text = f"HloModule m{header}\n{function}ENTRY %main {{\n  {lines(body)}\n}}\n"
        (tmp_path / f"{name}.hlo").write_text(text)
    return verify(tmp_path / "base.hlo", tmp_path / "dist.hlo", mesh="tp=2")


@pytest.mark.parametrize(("function", "numbers"), [(NUMBER, True), (EITHER, False), (OP, False)])
def test_that_a_maximum_is_of_numbers_alone_is_listed(tmp_path: Path, function: str, numbers: bool) -> None:
    """It was PROVED to be the maximum that keeps NaN, and nothing was listed."""
    report = judged(tmp_path, (scalars(OP), REDUCED), (scalars(function), REDUCED))
    assert str(report.verdict) == "PROVED"
    assert ("finite" in {a.why for a in report.assumptions}) is numbers


@pytest.mark.parametrize("body", [WINDOWS, SUMMED])
def test_elsewhere_it_is_none(tmp_path: Path, body: str) -> None:
    base = WINDOWS if body is WINDOWS else "%x = f32[4,8] parameter(0); ROOT %o = f32[4,8] copy(%x)"
    report = judged(tmp_path, (scalars(OP), base), (scalars(NUMBER), body))
    assert str(report.verdict) != "PROVED"


PLACES = """%f (a: f32[], i: s32[], b: f32[], j: s32[]) -> (f32[], s32[]) {
  %a = f32[] parameter(0)
  %i = s32[] parameter(1)
  %b = f32[] parameter(2)
  %j = s32[] parameter(3)
  %greater = pred[] compare(%a, %b), direction=GT
  %nan = pred[] compare(%a, %a), direction=NE
  %more = pred[] or(%greater, OR)
  %same = pred[] compare(%a, %b), direction=EQ
  %less = pred[] compare(%i, %j), direction=LT
  %before = pred[] and(%same, %less)
  %keep = pred[] or(%more, %before)
  %v = f32[] select(%keep, %a, %b)
  %w = s32[] select(%keep, %i, %j)
  ROOT %t = (f32[], s32[]) tuple(%v, %w)
}
"""
FOUND = (
    f"{ROWS}%n = s32[4,8] iota(), iota_dimension=1; %z = s32[] constant(0); "
    "%p = (f32[4], s32[4]) reduce(%x, %n, %i, %z), dimensions={1}, to_apply=%f; "
    "ROOT %o = s32[4] get-tuple-element(%p), index=1"
)


@pytest.mark.parametrize(("also", "numbers"), [("%greater", True), ("%nan", False)])
def test_that_places_are_of_numbers_alone_is_listed(tmp_path: Path, also: str, numbers: bool) -> None:
    function = PLACES.replace("OR", also)
    report = judged(tmp_path, (PLACES.replace("OR", "%nan"), FOUND), (function, FOUND))
    assert str(report.verdict) == "PROVED"
    assert ("finite" in {a.why for a in report.assumptions}) is numbers


SORTED = "%x = f32[4,8] parameter(0); ROOT %o = f32[4,8] sort(%x), dimensions={1}, to_apply=%f"
BY_NUMBERS = "ROOT %o = pred[] compare(%a, %b), direction=LT"
NAN_LAST = (
    "%z = f32[] constant(0); %x = pred[] compare(%a, %z), direction=EQ; %y = pred[] compare(%b, %z), direction=EQ; "
    "%c = f32[] select(%x, %z, %a); %d = f32[] select(%y, %z, %b); "
    "ROOT %o = pred[] compare(%c, %d), direction=LT, type=TOTALORDER"
)


def test_that_what_is_sorted_is_of_numbers_alone_is_listed(tmp_path: Path) -> None:
    by_numbers, nan_last = (scalars(body).replace("-> f32[]", "-> pred[]") for body in (BY_NUMBERS, NAN_LAST))
    same = judged(tmp_path, (nan_last, SORTED), (nan_last, SORTED))
    other = judged(tmp_path, (nan_last, SORTED), (by_numbers, SORTED))
    assert (str(same.verdict), "finite" in {a.why for a in same.assumptions}) == ("PROVED", False)
    assert (str(other.verdict), "finite" in {a.why for a in other.assumptions}) == ("PROVED", True)
