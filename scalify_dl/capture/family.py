"""The family file of captures at several sizes, as `dlverify family` reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

Member = tuple[Path, Sequence[Path], str]
"""Baseline, distributed programs, mesh as text."""


def write_family(
    directory: str | Path,
    symbols: Mapping[str, str | None],
    members: Sequence[Member],
    relate: str | Path | None = None,
) -> Path:
    """Writes `family.yaml`: `symbols` as names with places (`input:dim`, None for a mesh axis); returns its path.

    `relate` is a relations file for every member. Places in the file are relative to it.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)

    def place(file: str | Path) -> str:
        return Path(os.path.relpath(file, folder)).as_posix()

    captures = [
        {"base": place(base), "dist": place(dist[0]) if len(dist) == 1 else [place(one) for one in dist], "mesh": mesh}
        for base, dist, mesh in members
    ]
    content: dict[str, object] = {"symbols": dict(symbols), "captures": captures}
    if relate is not None:
        content["relate"] = place(relate)
    file = folder / "family.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
    return file
