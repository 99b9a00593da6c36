"""The reference pages say all of it: every command and option, every public name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

import scalify_dl
import scalify_dl.api
from scalify_dl.arguments import Option
from scalify_dl.cli_commands import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_program_says(reference: ModuleType) -> None:
    for page, text in reference.PAGES.items():
        written = (ROOT / "docs" / page).read_text("utf-8")
        assert written == text().rstrip() + "\n", f"python tools/reference.py writes docs/{page} anew"


def test_every_command_and_every_option_is_listed(reference: ModuleType) -> None:
    sections = {part.split("\n", 1)[0]: part for part in reference.command_page().split("\n## ")[1:]}
    assert len(sections) == len(COMMANDS)
    for command in COMMANDS:
        section = sections[" ".join(word for word in ("dlverify", command.group, command.name) if word)]
        assert command.get().__doc__
        for p in command.parameters():
            said = get_args(p.annotation)[1]
            if isinstance(said, Option):
                assert said.help
                assert all(f"`{name}`" in section for name in reference.option_names(p))
            else:
                assert reference.argument(p) in section


def test_every_public_name_is_listed_and_says_what_it_is(reference: ModuleType) -> None:
    page = reference.api_page()
    assert {*scalify_dl.__all__, *scalify_dl.api.__all__} - {"__version__"} == {*reference.public("scalify_dl")}
    silent = []
    for module in reference.PACKAGES:
        for name in reference.public(module):
            assert f"### {module}.{name}\n" in page
            _, doc, _ = reference.definition(module, name)
            silent += [] if doc else [f"{module}.{name}"]
    assert silent == []


def test_every_method_of_a_report_says_what_it_does(reference: ModuleType) -> None:
    node, _, _ = reference.definition("scalify_dl", "Report")
    listed = {name: doc for name, _, doc in reference.members(node)}
    assert {name for name in dir(scalify_dl.Report) if name[0] != "_"} == {*listed}
    assert all(listed.values())
