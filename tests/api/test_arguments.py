"""Arguments of `scalify_dl.verify` that are wrong: an InputError that says so, never any other exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import scalify_dl
from scalify_dl.errors import InputError

HLO = Path(__file__).parents[2] / "examples" / "hlo"
BASE, DIST = str(HLO / "base.hlo"), str(HLO / "dist.hlo")


@pytest.mark.parametrize(
    ("dist", "more", "said"),
    [
        (3, {}, "`dist` is an int"),
        ([None], {}, "`dist` has a NoneType in it"),
        ([], {}, "`dist` is an empty list"),
        (DIST, {"relate": 7}, "`relate` is an int"),
        (DIST, {"relate": ["inputs"]}, "`relate` is a list"),
        (DIST, {"relate": {"inputs": {"x": {"bse": "x"}}}}, "did you mean `base`"),
        (DIST, {"relate": {"inputs": {"x": {"base": object()}}}}, "`relate` says what no file can"),
        (DIST, {"accept": [{"why": "given"}]}, "`accept` is a list"),
        (DIST, {"rules": 3}, "`rules` is an int"),
        (DIST, {"rules": "nowhere.dl"}, r"nowhere\.dl: no such rules file"),
        (DIST, {"sizes": {"x": 1}}, "`sizes` is a dict"),
        (DIST, {"kernels": [3]}, "`kernels` has an int in it"),
        (DIST, {"timeout": 0}, "`timeout` is 0"),
        (DIST, {"timeout": "1"}, "`timeout` is '1'"),
        (DIST, {"timeout": float("nan")}, "`timeout` is nan"),
        (DIST, {"max_memory": -1}, "`max_memory` is -1"),
        (DIST, {"max_memory": "1GB"}, "`max_memory` is '1GB'"),
        (DIST, {"args": (1,)}, "`args` is for live programs"),
        (DIST, {"gradients": True}, "`gradients` is for live programs"),
        (DIST, {"keep": "dumps"}, "`keep` is for live programs"),
        (DIST, {"mesh": {}}, "the mesh has no axes"),
        (DIST, {"mesh": {"tp": "2"}}, "`mesh` has 'tp': '2'"),
        (DIST, {"mesh": {"tp": 0}}, "`mesh` has 'tp': 0"),
        (DIST, {"mesh": ["tp", 2]}, "`mesh` is a list"),
    ],
)  # fmt: skip
def test_of_dumps(dist: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        scalify_dl.verify(BASE, dist, **{"mesh": "tp=2", **more})


def test_one_rules_file_need_not_be_in_a_list(tmp_path: Path) -> None:
    rules = tmp_path / "mine.dl"
    rules.write_text("")
    report = scalify_dl.verify(HLO.parents[1] / "facts" / "row_parallel_linear", rules=rules)
    assert any(assumption.why == "rules" and "mine.dl" in str(assumption) for assumption in report.assumptions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"mesh": {"tp": 0}}, "`mesh` has 'tp': 0"),
        ({"mesh": {}}, "the mesh has no axes"),
        ({"args": None}, "no arguments are given"),
        ({"args": 3}, "`args` is an int"),
        ({"kwargs": [1]}, "`kwargs` is a list"),
        ({"keep": "/dev/null/x"}, "/dev/null/x: cannot make the directory"),
        ({"args": ("x",)}, "the baseline raises TypeError"),
    ],
)
def test_of_live_torch(more: dict[str, Any], said: str) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    given: dict[str, Any] = {"mesh": {"tp": 2}, "args": (torch.zeros(2, 4),), **more}
    with pytest.raises(InputError, match=said):
        scalify_dl.verify(torch.nn.Linear(4, 4), lambda mesh: torch.nn.Linear(4, 4), **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("built", "said"), [(None, "returns a NoneType"), ((1, 2), "returns a tuple of 2"), (3, "returns a int")]
)
def test_of_builders_of_torch(built: Any, said: str) -> None:
    pytest.importorskip("torch", reason="needs torch")

    def build(mesh: Any = None) -> Any:
        return built

    with pytest.raises(InputError, match=f"`build` {said}"):
        scalify_dl.verify(build, mesh={"tp": 2})


@pytest.mark.parametrize("call", [scalify_dl.verify, scalify_dl.assert_equivalent])
def test_a_misspelt_keyword_is_told_which_one_is_meant(call: Any) -> None:
    with pytest.raises(TypeError, match="no argument `mehs`; did you mean `mesh`"):
        call("base.hlo", "dist.hlo", mehs="tp=2")
    with pytest.raises(TypeError, match=r"no argument `qqqq`; it has .*timeout"):
        call("base.hlo", "dist.hlo", qqqq=1)


def test_what_can_be_imported_is_listed() -> None:
    assert set(scalify_dl.__all__) <= set(dir(scalify_dl))


def test_types_have_their_article() -> None:
    with pytest.raises(InputError, match="`mesh` is an int"):
        scalify_dl.verify("base.hlo", "dist.hlo", mesh=2)
