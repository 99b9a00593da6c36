"""No two packages of `scalify_dl` read each other; earlier names of documented modules still work."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from pathlib import Path

import networkx
import pytest

import scalify_dl
from scalify_dl.earlier import MOVED

ROOT = Path(scalify_dl.__file__).parent


def imported(file: Path) -> set[str]:
    """Modules that a file imports, by their dotted names below `scalify_dl`."""
    package = file.relative_to(ROOT).parent.parts
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            below = [".".join((*base, *(node.module or "").split("."))).strip(".")]
            found.update(below if node.module or base else [alias.name for alias in node.names])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "scalify_dl":
            below = (node.module or "").removeprefix("scalify_dl").lstrip(".")
            found.update([below] if below else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            found.update(a.name.removeprefix("scalify_dl.") for a in node.names if a.name.startswith("scalify_dl."))
    return found


def test_no_two_rooms_read_each_other() -> None:
    reads = networkx.DiGraph()
    for file in ROOT.rglob("*.py"):
        here = file.relative_to(ROOT).with_suffix("").parts[0]
        for name in imported(file):
            if name.split(".")[0] != here and here != "__init__":
                reads.add_edge(here, name.split(".")[0])
    assert {"cli", "commands", "readers", "facts"} <= set(reads)
    assert [sorted(c) for c in networkx.strongly_connected_components(reads) if len(c) > 1] == []


ROW = re.compile(r"\| (`[^|]+) \| .* \| ([^|]*) \|")
"""A row of the table of rooms: which, what they do, what they read."""


def named(text: str) -> set[str]:
    return {name.rstrip("/").removesuffix(".py") for name in re.findall(r"`([^`]+)`", text)}


def test_the_house_says_what_each_room_reads() -> None:
    rooms = (ROOT.parent / "docs" / "house.md").read_text("utf-8").partition("## Rooms")[2].partition("\n## ")[0]
    rows = [(named(row[1]), row[2]) for row in map(ROW.fullmatch, rooms.splitlines()) if row]
    small = rows[-1][0] | {"__version__"}
    found: dict[str, set[str]] = defaultdict(set)
    for file in ROOT.rglob("*.py"):
        room = file.relative_to(ROOT).with_suffix("").parts[0]
        found[room] |= {name.split(".")[0] for name in imported(file)}
    for here, said in rows[:-1]:
        if not said.startswith(("all", "most")):
            assert named(said) == set().union(*(found[room] for room in here)) - small - here, here
    assert set(found) <= small.union(*(here for here, _ in rows)) | {"__init__", "__main__"}


@pytest.mark.parametrize("earlier", sorted(MOVED))
def test_an_earlier_name_is_the_module(earlier: str) -> None:
    module = importlib.import_module(f"scalify_dl.{earlier}")
    assert module is importlib.import_module(f"scalify_dl.{MOVED[earlier]}")
