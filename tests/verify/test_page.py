"""The page: what stands in it without scripts, what the scripts are given, and how it behaves in a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import scalify_dl
from scalify_dl.prove.verdict import Frame, OutputVerdict, Report, RootCause, Verdict
from scalify_dl.prove.view import View
from scalify_dl.report import html

ROOT = Path(__file__).parents[2]
STEP = ROOT / "examples" / "steps" / "tensor_parallel_mlp"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def wrong() -> scalify_dl.Report:
    return scalify_dl.verify(STEP / "base.fx.txt", sorted(STEP.glob("wrong.r*.fx.txt")), mesh="tp=2")


def data_of(page: str) -> Any:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])  # type: ignore[index]


def test_the_page_needs_nothing_else(wrong: scalify_dl.Report) -> None:
    page = wrong.html()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)|https?://(?!www\.w3\.org/2000/svg)|@import|url\(""", page)
    for words in ("REFUTED", "addmm_1", "every rank adds", "blocks.0.down.bias", "Assumptions (17)"):
        assert words in page


def test_both_graphs_are_given_to_the_scripts(wrong: scalify_dl.Report) -> None:
    data = data_of(wrong.html())
    facts = wrong.analysis.facts
    assert len(data["ops"]) == len(facts["op"])
    assert len(data["tensors"]) == len(facts["tensor"])
    op, base, _ = data["marked"][0]
    assert data["texts"][data["ops"][op][0]] == "add"
    assert data["ops"][op][4] == 1
    assert data["ops"][base][4] == 0
    assert data["texts"][data["ops"][op][3]].endswith("01_tp_mlp.py:52")
    held = {int(d): rows for d, rows in data["held"].items()}
    for operand in data["ops"][op][1]:
        for b, layout in held.get(operand, []):
            assert data["tensors"][b][4] == 0
            assert data["layouts"][str(layout)]


def test_lines_of_files_are_shown_where_they_lie_here(
    wrong: scalify_dl.Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "mine.py").write_text("a\nb = <1>\nc\n")
    (tmp_path / "secret.py").write_text("not to be shown\n")
    monkeypatch.chdir(tmp_path / "repo")
    cause = wrong.found.frontier[0]
    frames = [Frame(f, 2) for f in ("mine.py", str(tmp_path / "repo" / "mine.py"))]
    outside = [Frame(f, 1) for f in ("../secret.py", str(tmp_path / "secret.py"), "nowhere.py", "mine.py\0", "")]
    causes = [replace(cause, source=(f,), base_source=()) for f in (*frames, Frame("mine.py", 99), *outside)]
    page = html.render(replace(wrong.found, frontier=causes))
    assert page.count('<figure class="lines"') == 2
    assert '<li value="2" class="at">b = &lt;1&gt;</li>' in page
    assert "not to be shown" not in page


def test_a_stated_layout_is_given_for_a_picture(wrong: scalify_dl.Report) -> None:
    found = wrong.found
    assert found.view is not None
    o, asked = found.outputs[0], "[0:1x8]|tp=r2"
    facts, results = found.view.facts, found.view.results
    view = View(lambda name: [(o.tensor, o.base_tensor, asked)] if name == "expect" else facts(name), results)
    checked = data_of(html.render(replace(found, view=view)))["checked"]
    assert checked[0][3:] == [asked, "a -> a  (replicated over tp)"]
    assert all(bool(row[3]) == bool(row[4]) for row in data_of(wrong.html())["checked"])


def test_names_cannot_leave_their_place(wrong: scalify_dl.Report) -> None:
    evil = "</script><script>alert(1)</script><!--"
    found = wrong.found
    outputs = [OutputVerdict("t", "b", evil, evil, Verdict.UNKNOWN, reason=evil)]
    causes = [replace(found.frontier[0], name=evil, found=(evil,))]
    assert found.view is not None
    facts, results = found.view.facts, found.view.results
    view = View(lambda name: [(t, evil) for t, _ in facts(name)] if name == "tensor_name" else facts(name), results)
    page = html.render(replace(found, outputs=outputs, frontier=causes, title=evil, view=view))
    assert evil not in page
    assert page.count("<script>alert") == 0


def test_a_long_title_stays_in_the_page(wrong: scalify_dl.Report) -> None:
    page = html.render(replace(wrong.found, title="x" * 5000))
    assert re.search(r"<title>REFUTED: x{79}…</title>", page)
    assert "text-overflow: ellipsis" in page


def test_a_report_without_graphs_is_a_page_too(wrong: scalify_dl.Report) -> None:
    page = html.render(replace(wrong.found, view=None))
    assert "ops" not in data_of(page)


def many(count: int) -> Report:
    """A report on two chains of `count` ops together."""
    half, ops, operands, results, tensors, dims, names = count // 2, [], [], [], [], [], []  # type: ignore[var-annotated]
    sources, corr = [], []
    for graph, prefix in (("base", "b/"), ("dist", "")):
        for n in range(half + 1):
            tensors.append((f"{prefix}t{n}", graph, "f32", 2))
            dims += [(f"{prefix}t{n}", 0, 8), (f"{prefix}t{n}", 1, 16)]
            names.append((f"{prefix}t{n}", f"add.{n}"))
        for n in range(half):
            ops.append((f"{prefix}o{n}", graph, "add"))
            operands += [(f"{prefix}o{n}", 0, f"{prefix}t{n}"), (f"{prefix}o{n}", 1, f"{prefix}t{n}")]
            results.append((f"{prefix}o{n}", 0, f"{prefix}t{n + 1}"))
            sources.append((f"{prefix}o{n}", 0, f"model/layer{n // 100}.py", n % 100 + 1, "forward"))
    for n in range(half):
        corr.append((f"t{n}", "", f"b/t{n}", "", "[0:1x8][1:1x8]|tp=1:8x2"))
    tables = {
        "graph": [("base", "base"), ("dist", "dist")], "op": ops, "operand": operands, "result": results,
        "tensor": tensors, "dim": dims, "tensor_name": names, "source": sources, "mesh_axis": [("tp", 0, 2)],
        "output": [("dist", 0, f"t{half}")],
    }  # fmt: skip
    derived = {"corr": corr, "frontier": [(f"o{half - 1}",)]}
    view = View(lambda name: tables.get(name, []), lambda name: derived.get(name, []))
    cause = RootCause(
        f"o{half - 1}", f"add.{half}", "add", (), (), ("a",), ("b",), (), None, f"b/o{half - 1}", f"add.{half}", (),
        (f"t{half}",),
    )  # fmt: skip
    outputs = [OutputVerdict(f"t{half}", f"b/t{half}", "out", "out", Verdict.UNKNOWN)]
    return Report(Verdict.UNKNOWN, "two chains on mesh tp=2", outputs, frontier=[cause], view=view)


# --- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    with sync.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=60_000)
        yield found
        found.close()


@pytest.fixture
def opened(browser: Any, wrong: scalify_dl.Report, tmp_path: Path) -> Iterator[Any]:
    file = wrong.save(tmp_path / "page.html")
    page = browser.new_page()
    page.set_default_timeout(15_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: errors.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(file.as_uri())
    yield page
    assert errors == []
    page.close()


@pytest.mark.slow
def test_graphs_around_the_first_cause_are_drawn(opened: Any) -> None:
    assert opened.locator(".graph .node.culprit").count() == 1
    assert opened.locator(".graph .twin").count() > 0
    assert opened.locator(".graph .side").all_inner_texts() or opened.locator(".graph .side").count() == 2
    assert "01_tp_mlp.py:52" in opened.locator("#about .source").inner_text()
    assert opened.locator("#about .picture rect").count() >= 2


@pytest.mark.slow
def test_a_source_leads_to_its_line(opened: Any) -> None:
    opened.locator("#about a.line").click()
    assert opened.evaluate("location.hash") == "#line-0"
    marked = opened.locator("figure.lines:target li.at")
    assert marked.inner_text() == (ROOT / "tests/steps/programs/01_tp_mlp.py").read_text("utf-8").split("\n")[51]
    assert opened.locator("article.cause a.line").count() > 0


@pytest.mark.slow
def test_search_finds_and_opens(opened: Any) -> None:
    opened.keyboard.press("/")
    opened.keyboard.type("head.weight after")
    opened.locator("#found li[data-key]").first.wait_for()
    opened.keyboard.press("Enter")
    assert "head" in opened.locator("#about h3").inner_text()
    assert opened.evaluate("location.hash").startswith("#o")


@pytest.mark.slow
def test_folding_filtering_themes_and_keys(opened: Any) -> None:
    opened.keyboard.press("f")
    assert opened.locator("main > details[open]").count() == 0
    opened.keyboard.press("f")
    assert opened.locator("main > details[open]").count() >= 4
    opened.locator("#filter").fill("head.bias")
    rows = opened.locator("#assumption-rows tr")
    assert 1 < rows.count() < 6
    opened.locator("h1").click()
    opened.keyboard.press("j")
    assert opened.locator("article.cause.at h3").inner_text().startswith("2.")
    before = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.keyboard.press("t")
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") != before


@pytest.mark.slow
def test_what_a_tensor_follows_from_unfolds(opened: Any) -> None:
    tree = opened.locator("#about .tree")
    before = tree.locator("li").count()
    tree.locator("details:not([open]) > summary").first.click(position={"x": 2, "y": 5})
    opened.wait_for_function(f"document.querySelectorAll('#about .tree li').length > {before}")


@pytest.mark.slow
def test_a_picture_shows_who_holds_what(opened: Any) -> None:
    found = opened.evaluate("Layouts.holdings(Layouts.parse('[0:1x8][1:1x8]|dp=r2|tp=1:8x2'), 1, 0)")
    assert [r["x"] for r in found] == [[[0, 8]], [[8, 16]], [[0, 8]], [[8, 16]]]
    found = opened.evaluate("Layouts.holdings(Layouts.parse('[0:4x2,0:1x2]|tp=0:2x2'), 0, -1)")
    assert [r["x"] for r in found] == [[[0, 2], [4, 6]], [[2, 4], [6, 8]]]


@pytest.mark.slow
def test_a_hundred_thousand_ops_open_in_two_seconds(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "many.html"
    file.write_text(html.render(many(100_000)), "utf-8")
    page = browser.new_page()
    page.set_default_timeout(30_000)
    page.goto(file.as_uri())
    page.locator(".graph .node.culprit").wait_for()
    print(f"opened after {page.evaluate('performance.now()'):.0f} ms, {file.stat().st_size / 1e6:.1f} MB")
    assert page.locator(".graph .node").count() < 200  # only what is asked for is drawn
    page.locator("#search").fill("add.31337")
    page.locator("#found li[data-key]").first.wait_for()
    page.close()
