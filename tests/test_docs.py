"""What the pages say can be done as they say it."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml

import scalify_dl
from scalify_dl.arguments import Option
from scalify_dl.cli import app
from scalify_dl.cli_commands import COMMANDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def blocks(page: str) -> list[tuple[str, str]]:
    """Fenced blocks of a page: language and text."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "needs"), [("five_minutes_pytorch.md", "torch"), ("five_minutes_jax.md", "jax"), ("bugs.md", "torch")]
)
def test_the_programs_of_a_page_followed_literally(page: str, needs: str, tmp_path: Path) -> None:
    pytest.importorskip(needs, reason=f"needs {needs}")
    found = blocks(page)
    script = tmp_path / "mine.py"
    script.write_text("\n\n".join(text for language, text in found if language == "python"), "utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    for line in [line for language, text in found if language == "text" for line in text.splitlines()]:
        assert line in lines, f"`{line}` is not printed, or not in this order"


def commands(page: str) -> list[str]:
    """Commands of tables and text: what stands in backquotes and begins with dlverify, of files that are here."""
    text = (DOCS / page).read_text("utf-8")
    found = [line for line in re.findall(r"`(dlverify [^`]+)`", text) if re.search(r"(facts|examples)/\w+", line)]
    return [line for line in found if "|" not in line]


@pytest.mark.parametrize("line", commands("bugs.md"))
def test_a_bug_of_the_gallery_is_refuted(line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scalify_dl", *shlex.split(line)[1:]], cwd=ROOT, capture_output=True, text=True,
        timeout=120, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "root cause" in done.stdout


PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md", *sorted((ROOT / "examples").glob("*/README.md"))]


def commands_of_pages() -> list[str]:
    """Commands on files that are here, in backquotes and in lines of their own."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        lines = re.findall(r"`(dlverify [^`\n]+)`|^ *(dlverify [^\n]+)|&& (dlverify [^\n`]+)", text, re.M)
        found += [max(groups) for groups in lines if re.search(r"(facts|examples)/\w+", max(groups))]
    return sorted({*found} - {*commands("bugs.md")})


@pytest.mark.slow
@pytest.mark.parametrize("line", commands_of_pages())
def test_a_command_of_a_page_runs(line: str, tmp_path: Path) -> None:
    """With exit status 0, or the one that its comment says; what it writes is written elsewhere."""
    said, _, note = line.partition("  # exit status ")
    given = shlex.split(said)[1:]
    words = [word for one in given for word in (sorted(map(str, ROOT.glob(one))) or [one])]
    words = [
        str(tmp_path / word) if before == "--out" else word for before, word in zip(["", *words], words, strict=False)
    ]
    done = subprocess.run(
        [sys.executable, "-m", "scalify_dl", *words], cwd=ROOT, capture_output=True, text=True, timeout=300,
        stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == int(note or 0), done.stdout + done.stderr


SAID = re.compile(r"`(dlverify [^`\n]+)`|^ *(dlverify [^\n`]+)|&& (dlverify [^\n`]+)", re.M)


def options_of_pages() -> list[tuple[str, str]]:
    """Every command that a page shows, to its end or to its comment."""
    return [
        (page.name, max(groups).split("  #")[0].split(" | ")[0])
        for page in PAGES
        for groups in SAID.findall(page.read_text("utf-8"))
    ]


def test_every_command_that_a_page_shows_is_one_with_these_options() -> None:
    known: dict[str, set[str]] = {}
    for command in COMMANDS:
        said = [get_args(p.annotation)[1].names or (f"--{p.name.replace('_', '-')}",) for p in command.parameters()
                if isinstance(get_args(p.annotation)[1], Option)]  # fmt: skip
        known[f"{command.group} {command.name}".strip()] = {name for names in said for name in names}
    wrong = []
    for page, line in options_of_pages():
        words = line.split()[1:]
        name = next((n for n in (" ".join(words[:2]), words[0] if words else "") if n in known), "")
        if not name and words and words[0] not in ("…", "--version", "rules", "readers", "COMMAND"):
            wrong.append(f"{page}: {line}")
        used = re.findall(r"(?<![\w-])--[a-z][a-z-]*", line)
        wrong += [f"{page}: {option} of {name}" for option in used if name and option not in known[name]]
    assert len(options_of_pages()) > 100
    assert wrong == []


def test_what_the_manual_does_with_results_can_be_done(tmp_path: Path) -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    going_on = re.search(r"^    echo .*?-D -$", page, re.M | re.S)
    asked = re.search(r"^    dlverify query out .*$", page, re.M)
    assert going_on
    assert asked
    dlverify = f"{shlex.quote(sys.executable)} -m scalify_dl"
    lines = [f"dlverify run {ROOT}/facts/gqa_fused_qkv_key_slice --out out || test $? = 1", going_on[0], asked[0]]
    script = "set -e\n" + "\n".join(lines).replace("    ", "").replace("dlverify ", f"{dlverify} ")
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "---------------\npending" in done.stdout
    assert done.stdout.splitlines()[-1].count("\t") >= 1


def test_the_page_of_the_api_names_every_argument_and_method() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    arguments = {*inspect.signature(scalify_dl.verify).parameters} - {"base", "dist"}
    methods = {name for name in dir(scalify_dl.Report) if not name.startswith("_")}
    assert [name for name in sorted(arguments) if f"`{name}`" not in page] == []
    assert [name for name in sorted(methods) if name not in page] == []


def test_the_page_of_the_command_line_names_every_command() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    names = {command.name or (command.callback and command.callback.__name__) for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert len(names) > 15
    assert [name for name in sorted(map(str, names)) if f"dlverify {name}" not in page] == []


@pytest.mark.slow
def test_the_site_is_built(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs mkdocs (the extra `docs`)")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)], cwd=ROOT,
        capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "five_minutes_pytorch" / "index.html").exists()


def test_pages_of_the_site_are_there() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    listed = {page for part in site["nav"] for pages in part.values() for entry in pages for page in entry.values()}
    assert listed == {file.name for file in DOCS.glob("*.md")}


def test_the_first_page_links_every_page() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [file.name for file in sorted(DOCS.glob("*.md")) if f"(docs/{file.name})" not in readme] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for file in [*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"^```.*?^```$", "", file.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not (file.parent / target).exists():
                broken.append(f"{file.name}: {target}")
    assert broken == []
